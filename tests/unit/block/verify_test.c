// SPDX-License-Identifier: Apache-2.0
//
// The check of a whole block finds nothing in a good one, and every flipped byte in a bad one.
#include "block/verify.h"
#include "lib/memstore.h"
#include "store/origin.h"
#include "unit/block/random_block.h"

#include <stdio.h>

struct found {
    uint64_t n;
    char first[2048];
};

static void report(void *arg, str service, const char *text)
{
    struct found *f = arg;
    if (f->n++ == 0) snprintf(f->first, sizeof f->first, "%.*s: %s", STR(service), text);
}

static void verify(struct store *s, const char *name, struct found *found,
                   struct block_verified *got)
{
    struct req r;
    struct block_source src;
    req_init(&r, RANK_DUTY, NULL, (size_t)1 << 30, 0);
    uint64_t size = memstore_bytes(s, name).n;
    assert_ok(block_source_open(&r.arena, store_origin(s, &r), str_of(name), size, &src, e));
    struct block_verify_options o = {.report = report, .arg = found, .cap = (size_t)1 << 30};
    *found = (struct found){0};
    assert_ok(block_verify(&src, &o, got, e));
    assert_int_equal(got->faults, found->n);
    req_release(&r);
}

static void what_is_right_has_no_fault(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        enum block_kind kind = (enum block_kind)(1 + seed % 4);
        struct store *s = memstore_open();
        struct random_block f;
        struct found found;
        struct block_verified got;
        str bytes = {0};
        random_block_make(&f, seed, kind);
        assert_ok(random_block_write(&f, 2, &bytes, e));
        memstore_set(s, "block", bytes);
        verify(s, "block", &found, &got);
        if (found.n) fail_msg("seed %d: %d faults: %s", (int)seed, (int)found.n, found.first);
        assert_int_equal(got.services, 2);
        assert_true(got.sections > 6 && got.bytes < bytes.n && got.keys > 0 && got.nodes > 0);
        assert_int_equal(got.rows, kind <= BLOCK_RAW ? 2 * f.event_count : 0);
        assert_int_equal(got.vectors, kind <= BLOCK_RAW ? 2 * RANDOM_BLOCK_VECTORS : 0);
        assert_int_equal(got.totals > 0, kind >= BLOCK_HOURS);
        assert_int_equal(got.spans > 0, kind <= BLOCK_RAW);
        store_close(s);
    }
}

static void what_is_wrong_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum random_block_wrong wrong;
        enum block_kind kind;
        const char *says;
    } cases[] = {
        {"profiles of a segment", WRONG_NODE_PROFILES, BLOCK_SEGMENT, "its rows have"},
        {"profiles of a leaf", WRONG_NODE_PROFILES, BLOCK_RAW, "its rows have"},
        {"profiles of an hour", WRONG_NODE_PROFILES, BLOCK_HOURS, "totals within have"},
        {"profiles of a day", WRONG_NODE_PROFILES, BLOCK_DAYS, "totals within have"},
        {"profiles of a window", WRONG_WIDE_NODE, BLOCK_DAYS, "totals within have"},
        {"times of a segment", WRONG_NODE_TIMES, BLOCK_SEGMENT, "its rows have"},
        {"times of an hour", WRONG_NODE_TIMES, BLOCK_HOURS, "nodes of series have"},
        {"vector of a segment", WRONG_NODE_VECTOR, BLOCK_SEGMENT,
         "at stack 1 its rows have 7 more"},
        {"vector of a leaf", WRONG_NODE_VECTOR, BLOCK_RAW, "at stack 1 its rows have 7 more"},
        {"vector of a day", WRONG_NODE_VECTOR, BLOCK_DAYS, "at stack 1"},
        {"no node", WRONG_NODE_MISSING, BLOCK_SEGMENT, "nodes are of 0 of"},
        {"a total", WRONG_TOTAL, BLOCK_HOURS, "totals within have"},
        {"a row of a leaf twice", WRONG_ROW_TWICE, BLOCK_RAW, "is the row before it again"},
        {"a vector too many", WRONG_VECTOR_UNUSED, BLOCK_SEGMENT, "is no row's"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct store *s = memstore_open();
        struct random_block f;
        struct found found;
        struct block_verified got;
        str bytes = {0};
        random_block_make(&f, 100 + i, cases[i].kind);
        f.wrong = cases[i].wrong;
        assert_ok(random_block_write(&f, 1, &bytes, e));
        assert_true(f.spoilt);
        memstore_set(s, "block", bytes);
        verify(s, "block", &found, &got);
        if (!found.n || !strstr(found.first, cases[i].says)) {
            fail_msg("%s: %s", cases[i].name, found.first);
        }
        store_close(s);
    }
}

static void rows_of_another_hour_are_not_written(void **state)
{
    (void)state;
    struct random_block f;
    str bytes = {0};
    err e = {0};
    random_block_make(&f, 5, BLOCK_SEGMENT);
    f.wrong = WRONG_ROW_TIME;
    assert_false(random_block_write(&f, 1, &bytes, &e));
    assert_true(f.spoilt);
    assert_int_equal(e.code, ERR_INTERNAL);
}

// Every byte of a block is some section's, so every wrong byte is found: by a checksum, or because
// the trailer says where the footer is.
static void every_flipped_byte_is_found(void **state)
{
    (void)state;
    struct store *s = memstore_open();
    struct random_block f;
    str bytes = {0};
    random_block_make(&f, 77, BLOCK_RAW);
    assert_ok(random_block_write(&f, 1, &bytes, e));
    memstore_set(s, "block", bytes);
    for (uint64_t at = 0; at < bytes.n; at += 1 + at % 7) {
        struct req r;
        struct block_source src;
        struct found found = {0};
        struct block_verified got = {0};
        struct block_verify_options o = {.report = report, .arg = &found, .cap = (size_t)1 << 30};
        err e = {0};
        req_init(&r, RANK_DUTY, NULL, (size_t)1 << 30, 0);
        memstore_flip(s, "block", at, (unsigned)at % 8);
        bool open = block_source_open(&r.arena, store_origin(s, &r), S("block"), bytes.n, &src, &e);
        if (open && !block_verify(&src, &o, &got, &e)) fail_msg("%s", e.msg);
        if (open && found.n == 0) fail_msg("byte %d", (int)at);
        if (!open && e.code != ERR_DATA_LOSS) fail_msg("%s: %s", err_name(e.code), e.msg);
        memstore_flip(s, "block", at, (unsigned)at % 8);
        req_release(&r);
    }
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(what_is_right_has_no_fault),
        ARENA_TEST(what_is_wrong_is_told),
        ARENA_TEST(rows_of_another_hour_are_not_written),
        ARENA_TEST(every_flipped_byte_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
