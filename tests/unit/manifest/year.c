// SPDX-License-Identifier: Apache-2.0
#include "unit/manifest/year.h"

#define YEAR_WINDOW  28
#define YEAR_FIRST   (YEAR_LAST - YEAR_DAYS)  // of days
#define YEAR_SOURCES 12                       // segments of an hour: two ingesters

id128 year_id(int64_t hour, uint32_t nr)
{
    uint64_t x = (uint64_t)hour * 64 + nr;
    uint8_t random[10];
    for (size_t i = 0; i < sizeof random; i++) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        random[i] = (uint8_t)(x >> 56);
    }
    return ulid_make((uint64_t)(hour + 1) * 3600000 + 4500000 + x % 60000, random);
}

// The leaves of an hour, at most two.
static size_t year_leaves(int64_t hour, id128 *ids)
{
    ids[0] = year_id(hour, 0);
    if (hour % YEAR_LATE || hour < (YEAR_LAST - 1) * 24) return 1;
    ids[1] = year_id(hour, 1);
    if (memcmp(ids[0].b, ids[1].b, sizeof ids[0].b) > 0) {
        id128 first = ids[1];
        ids[1] = ids[0];
        ids[0] = first;
    }
    return 2;
}

static int year_by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static void year_begin(struct year *y, struct bench *b)
{
    *y = (struct year){.b = b};
    arena_init(&y->arena, NULL, (size_t)1 << 28);
    y->add = ARENA_ARRAY(&y->arena, struct manifest_block, 4096);
    y->expire = ARENA_ARRAY(&y->arena, id128, 4096);
}

static void year_commit(struct year *y)
{
    const struct manifest_change c = {.add = y->add,
                                      .add_count = y->n,
                                      .expire = y->expire,
                                      .expire_count = y->expired};
    assert_ok(bench_commit(y->b, &c, e));
    arena_release(&y->arena);
    year_begin(y, y->b);
}

static struct manifest_block *year_add(struct year *y, enum block_kind kind, int64_t hour,
                                       uint32_t hours, id128 id)
{
    struct manifest_block *b = &y->add[y->n++];
    *b = bench_block(kind, hour, hours, id);
    b->rows = (uint64_t)hour * 7919 % 100003;
    b->first_ns += hour * 104729 % 1000003;
    return b;
}

static void year_cover(struct year *y, struct manifest_block *b, int64_t hour, uint32_t hours)
{
    id128 *ids = ARENA_ARRAY(&y->arena, id128, 2 * (size_t)hours);
    struct manifest_cover *c = y->covers + b->cover_count++;
    *c = (struct manifest_cover){.hour = hour, .hours = hours, .leaves = ids};
    for (uint32_t i = 0; i < hours; i++)
        c->leaf_count += (uint32_t)year_leaves(hour + i, ids + c->leaf_count);
    qsort(ids, c->leaf_count, sizeof *ids, year_by_id);
}

static void year_raw(struct year *y, int64_t day, bool sources)
{
    for (int64_t hour = day * 24; hour < day * 24 + 24; hour++) {
        id128 ids[2];
        size_t n = year_leaves(hour, ids);
        for (size_t i = 0; i < n; i++) {
            struct manifest_block *b = year_add(y, BLOCK_RAW, hour, 1, ids[i]);
            if (!sources || i) continue;
            struct segment_run *v = ARENA_ARRAY(&y->arena, struct segment_run, 2);
            for (uint8_t k = 0; k < 2; k++)
                v[k] =
                    (struct segment_run){hour, {{1, 0x9b, k}}, (uint64_t)(hour * 6 % 100000), 6, 0};
            b->sources = v;
            b->source_count = 2;
        }
    }
}

static void year_hours(struct year *y, int64_t day)
{
    struct manifest_block *b = year_add(y, BLOCK_HOURS, day * 24, 24, year_id(day * 24, 50));
    b->covers = y->covers = ARENA_ARRAY(&y->arena, struct manifest_cover, 24);
    for (int i = 0; i < 24; i++)
        year_cover(y, b, day * 24 + i, 1);
}

static void year_day(struct year *y, int64_t day)
{
    struct manifest_block *b = year_add(y, BLOCK_DAYS, day * 24, 24, year_id(day * 24, 51));
    b->covers = y->covers = ARENA_ARRAY(&y->arena, struct manifest_cover, 1);
    year_cover(y, b, day * 24, 24);
}

static void year_window(struct year *y, int64_t day, int64_t days)
{
    struct manifest_block *b =
        year_add(y, BLOCK_DAYS, day * 24, (uint32_t)days * 24, year_id(day * 24, 52));
    b->covers = y->covers = ARENA_ARRAY(&y->arena, struct manifest_cover, (size_t)days);
    for (int64_t i = 0; i < days; i++)
        year_cover(y, b, (day + i) * 24, 24);
}

void year_make(struct bench *b)
{
    struct year y;
    year_begin(&y, b);
    for (int64_t day = YEAR_FIRST; day < YEAR_LAST;) {
        int64_t end = MIN((day / YEAR_WINDOW + 1) * YEAR_WINDOW, YEAR_LAST);
        for (int64_t d = day; d < end; d++) {
            year_raw(&y, d, d >= YEAR_LAST - 7);
            year_day(&y, d);
            if (d >= YEAR_LAST - YEAR_H_DAYS) year_hours(&y, d);
        }
        year_window(&y, day, end - day);
        year_commit(&y);
        for (int64_t d = day; d < MIN(end, YEAR_LAST - YEAR_RAW_DAYS); d++)
            for (int64_t hour = d * 24; hour < d * 24 + 24; hour++)
                y.expired += year_leaves(hour, y.expire + y.expired);
        if (y.expired) year_commit(&y);
        day = end;
    }
    arena_release(&y.arena);
    // What its commits left behind is swept.
    struct manifest_sweep s = {.segment_grace_ns = 0, .versions = 1};
    assert_ok(bench_sweep(b, &s, e));
}
