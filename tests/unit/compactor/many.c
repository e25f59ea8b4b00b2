// SPDX-License-Identifier: Apache-2.0
#include "unit/compactor/many.h"

#define MANY_HOUR_0 (INT64_C(28) * 24 * 600)

const struct many_shape many_shapes[MANY_SHAPES] = {
    {.name = "all is done", .deltas = 1, .packs = 2, .copies = 1},
    {.name = "nothing is done", .deltas = 1, .packs = 1},
    {.name = "100 late raw blocks an hour", .deltas = 100, .packs = 1},
    {.name = "hours cut into 50 packs", .deltas = 1, .packs = 50, .copies = 1},
    {.name = "hour nodes of each hour apart",
     .deltas = 1,
     .packs = 1,
     .copies = 1,
     .hours_apart = true},
    {.name = "parents made by two", .deltas = 1, .packs = 1, .copies = 2, .hours_apart = true},
    {.name = "a fifth as many segments wait",
     .deltas = 1,
     .packs = 2,
     .copies = 1,
     .segments = true},
    {.name = "all is past its time",
     .deltas = 1,
     .packs = 2,
     .copies = 1,
     .over = true,
     .segments = true},
    {.name = "all rows are past their time",
     .deltas = 1,
     .packs = 2,
     .copies = 1,
     .rows_over = true},
    {.name = "a run, days become one",
     .deltas = 2,
     .packs = 1,
     .copies = 1,
     .asked = true,
     .day_leaf = true},
    {.name = "a run, hours become one", .deltas = 2, .packs = 1, .asked = true},
};

static id128 many_id(uint32_t number)
{
    id128 id = {{0}};
    for (int i = 0; i < 4; i++)
        id.b[12 + i] = (uint8_t)(number >> (24 - 8 * i));
    return id;
}

static bool many_counts(void *arg, id128 leaf)
{
    const struct many *m = arg;
    uint32_t number = 0;
    for (int i = 0; i < 4; i++)
        number = number << 8 | leaf.b[12 + i];
    return number >= 1 && number <= m->leaves;
}

static struct manifest_block *many_add(struct many *m, enum block_kind kind, int64_t hour,
                                       uint32_t hours)
{
    if (!arena_grow(&m->arena, &m->blocks, &m->cap, m->n + 1, sizeof *m->blocks)) abort();
    struct manifest_block *b = &m->blocks[m->n++];
    *b = (struct manifest_block){.kind = kind,
                                 .from_hour = hour,
                                 .hours = hours,
                                 .pack_hi = UINT32_MAX,
                                 .classes = 7,
                                 .bytes = 1 << 20,
                                 .made_ns = slot_start(hour + hours, SLOT_HOUR) + 2 * SLOT_HOUR};
    return b;
}

// The leaves of one hour; hour number 0 has the ids from 1 on.
static void many_hour(struct many *m, const struct many_shape *s, int64_t hour)
{
    uint32_t step = (uint32_t)(UINT32_MAX / s->packs);
    for (size_t p = 0; p < s->packs; p++) {
        for (size_t i = 0; i < s->deltas; i++) {
            struct manifest_block *b = many_add(m, BLOCK_RAW, hour, 1);
            b->id = many_id(++m->leaves);
            b->pack_lo = p ? (uint32_t)p * step + 1 : 0;
            b->pack_hi = p + 1 < s->packs ? (uint32_t)(p + 1) * step : UINT32_MAX;
            b->made_ns += (int64_t)i * SLOT_MINUTE;
        }
    }
}

// Windows of `width` hours from an hour on, each with the leaves of its hours.
static void many_cover(struct many *m, const struct many_shape *s, struct manifest_block *b,
                       uint32_t width)
{
    size_t each = width * s->deltas * s->packs;
    size_t n = b->hours / width;
    struct manifest_cover *c = ARENA_ARRAY(&m->arena, struct manifest_cover, n);
    for (size_t i = 0; i < n; i++) {
        int64_t hour = b->from_hour + (int64_t)(i * width);
        id128 *v = ARENA_ARRAY(&m->arena, id128, each);
        size_t first = (size_t)(hour - MANY_HOUR_0) * s->deltas * s->packs + 1;
        for (size_t k = 0; k < each; k++)
            v[k] = many_id((uint32_t)(first + k));
        c[i] = (struct manifest_cover){.hour = hour,
                                       .hours = width,
                                       .leaves = v,
                                       .leaf_count = (uint32_t)each};
    }
    b->covers = c;
    b->cover_count = (uint32_t)n;
}

static int many_order(const void *a, const void *b)
{
    const struct manifest_block *x = a;
    const struct manifest_block *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->from_hour != y->from_hour) return x->from_hour < y->from_hour ? -1 : 1;
    if (x->pack_lo != y->pack_lo) return x->pack_lo < y->pack_lo ? -1 : 1;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

static void many_parents(struct many *m, const struct many_shape *s, int64_t days)
{
    uint32_t number = UINT32_MAX;
    for (size_t copy = 0; copy < s->copies; copy++) {
        uint32_t width = s->hours_apart ? 1 : 24;
        for (int64_t h = 0; h < days * 24; h += width) {
            struct manifest_block *b = many_add(m, BLOCK_HOURS, MANY_HOUR_0 + h, width);
            b->id = many_id(number--);
            many_cover(m, s, b, 1);
        }
        for (int64_t day = 0; day < days; day++) {
            struct manifest_block *b = many_add(m, BLOCK_DAYS, MANY_HOUR_0 + day * 24, 24);
            b->id = many_id(number--);
            b->made_ns = slot_start(MANY_HOUR_0 + (day + 1) * 24, SLOT_HOUR) + 3 * SLOT_HOUR;
            many_cover(m, s, b, 24);
        }
        for (int64_t day = 0; day + 28 <= days; day += 28) {
            struct manifest_block *b = many_add(m, BLOCK_DAYS, MANY_HOUR_0 + day * 24, 28 * 24);
            b->id = many_id(number--);
            b->classes = 3;
            b->made_ns = slot_start(MANY_HOUR_0 + (day + 28) * 24, SLOT_HOUR) + 4 * SLOT_HOUR;
            many_cover(m, s, b, 24);
        }
    }
}

void many_init(struct many *m, const struct many_shape *s, size_t n)
{
    *m = (struct many){0};
    arena_init(&m->arena, NULL, SIZE_MAX);
    size_t a_day = 24 * s->deltas * s->packs + s->copies * (s->hours_apart ? 25 : 2);
    int64_t days = (int64_t)((n + a_day - 1) / a_day);
    for (int64_t h = 0; h < days * 24; h++)
        many_hour(m, s, MANY_HOUR_0 + h);
    many_parents(m, s, days);
    qsort(m->blocks, m->n, sizeof *m->blocks, many_order);
    int64_t now = slot_start(MANY_HOUR_0 + days * 24 + 12, SLOT_HOUR);
    int64_t keep = s->over ? SLOT_HOUR : 0;
    if (s->over || s->rows_over) now += 1000 * SLOT_DAY;
    size_t waiting = s->segments ? m->n / 5 : 0;
    struct snapshot_segment *v = ARENA_ARRAY(&m->arena, struct snapshot_segment, waiting + 1);
    size_t each = waiting / 20 + 1;
    for (size_t i = 0; i < waiting; i++) {
        v[i].name.hour = MANY_HOUR_0 + (days - 1) * 24 + (int64_t)(i / each);
        v[i].name.cut = i;
        v[i].bytes = 10000;
    }
    m->state = (struct plan_state){.segments = v,
                                   .segment_count = waiting,
                                   .blocks = m->blocks,
                                   .block_count = m->n,
                                   .counts = many_counts,
                                   .arg = m,
                                   .now_ns = now};
    m->settings = (struct plan_settings){.leaf_delay = 75 * SLOT_MINUTE,
                                         .hour_delay = 2 * SLOT_HOUR,
                                         .day_delay = 2 * SLOT_HOUR,
                                         .pack_interval = 6 * SLOT_HOUR,
                                         .fold_interval = SLOT_DAY,
                                         .window_interval = SLOT_DAY,
                                         .day_leaf_bytes = s->day_leaf ? UINT64_C(512) << 20 : 0,
                                         .much_bytes = UINT64_C(64) << 20,
                                         .much_sources = 8,
                                         .asked = s->asked,
                                         .leaf_stay = SLOT_DAY,
                                         .raw_retention = s->rows_over ? SLOT_HOUR : keep,
                                         .hours_retention = keep,
                                         .days_retention = s->over ? 400 * SLOT_DAY : 0};
}

void many_release(struct many *m)
{
    arena_release(&m->arena);
}
