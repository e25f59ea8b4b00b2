// SPDX-License-Identifier: Apache-2.0
//
// Blocks of older versions of the format are read as those of this one.
#include "block/verify.h"
#include "lib/memstore.h"
#include "store/origin.h"
#include "unit/block/model_read.h"
#include "unit/block/old.h"
#include "unit/block/random_block.h"

#include <stdio.h>

static void report(void *arg, str service, const char *text)
{
    fail_msg("%.*s: %s", STR(service), text);
    (void)arg;
}

static void verify(str bytes, struct block_verified *got)
{
    struct store *s = memstore_open();
    struct req r;
    struct block_source src;
    struct block_verify_options o = {.report = report, .cap = (size_t)1 << 30};
    memstore_set(s, "block", bytes);
    req_init(&r, RANK_DUTY, NULL, (size_t)1 << 30, 0);
    assert_ok(block_source_open(&r.arena, store_origin(s, &r), S("block"), bytes.n, &src, e));
    assert_ok(block_verify(&src, &o, got, e));
    assert_int_equal(got->faults, 0);
    req_release(&r);
    store_close(s);
}

// Every id, in the order of the block's rows.
static void same_ids(str bytes, str now)
{
    struct model_block b = {0};
    struct model_block c = {0};
    struct block_index x = {0};
    struct block_index y = {0};
    model_open(bytes, &b);
    model_open(now, &c);
    assert_ok(block_index_parse(&arena, model_section(bytes, &b.footer.services[0].index),
                                &b.footer.services[0], &x, e));
    assert_ok(block_index_parse(&arena, model_section(now, &c.footer.services[0].index),
                                &c.footer.services[0], &y, e));
    assert_int_equal(x.heads.n, y.heads.n);
    for (uint32_t i = 0; i < x.heads.n; i++) {
        struct model_run old;
        struct model_run new;
        model_run(&b, &x, &x.heads.v[i], &old);
        model_run(&c, &y, &y.heads.v[i], &new);
        assert_int_equal(old.details.n, new.details.n);
        assert_memory_equal(old.details.ids, new.details.ids, old.details.n * sizeof(id128));
        assert_memory_equal(old.heads.totals, new.heads.totals, old.heads.n * sizeof(int64_t));
    }
}

static void version_2_is_read(void **state)
{
    (void)state;
    static const struct {
        enum block_kind kind;
        const char *hex;
    } cases[] = {{BLOCK_RAW, old_raw}, {BLOCK_HOURS, old_hours}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct random_block f;
        struct block_verified old;
        struct block_verified new;
        str now = {0};
        size_t n = strlen(cases[i].hex) / 2;
        uint8_t *bytes = arena_new(&arena, n);
        assert_true(hex_parse(str_of(cases[i].hex), bytes, n));
        assert_int_equal(bytes[n - 12], 2);
        random_block_make(&f, 7, cases[i].kind);
        assert_ok(random_block_write(&f, 1, &now, e));
        assert_int_equal((uint8_t)now.p[now.n - 12], 3);
        verify(str_make(bytes, n), &old);
        verify(now, &new);
        assert_true(old.keys == new.keys &&old.nodes == new.nodes &&old.totals == new.totals);
        assert_true(old.rows == new.rows &&old.vectors == new.vectors &&old.spans == new.spans);
        assert_true(cases[i].kind != BLOCK_RAW || old.rows == f.event_count);
        same_ids(str_make(bytes, n), now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(version_2_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
