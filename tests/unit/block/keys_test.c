// SPDX-License-Identifier: Apache-2.0
//
// Labels of keys come back from their columns, and matchers select what they mean.
#include "block/keys.h"
#include "lib/arena.h"
#include "lib/selector.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static labels set_of(const char *const *pairs, size_t n)
{
    label *v = ARENA_ARRAY(&arena, label, n);
    for (size_t i = 0; i < n; i++)
        v[i] = (label){str_of(pairs[2 * i]), str_of(pairs[2 * i + 1])};
    return (labels){v, n};
}

// Label sets over `names` names with up to `values` values each; some labels are left out.
static labels *random_keys(uint32_t n, uint32_t names, uint32_t values)
{
    labels *keys = ARENA_ARRAY(&arena, labels, n);
    for (uint32_t k = 0; k < n; k++) {
        label *v = ARENA_ARRAY(&arena, label, names);
        size_t count = 0;
        for (uint32_t i = 0; i < names; i++) {
            if (below(4) == 0) continue;
            v[count].name = arena_printf(&arena, "name%u", i);
            v[count++].value = arena_printf(&arena, "v%u", below(values));
        }
        labels_sort(v, count);
        keys[k] = (labels){v, count};
    }
    return keys;
}

static str encoded(const labels *keys, uint32_t n)
{
    struct buf out;
    err e = {0};
    buf_init(&out, NULL, SIZE_MAX);
    if (!block_postings_encode(&arena, keys, n, &out, &e)) fail_msg("%s", e.msg);
    str bytes = arena_str(&arena, buf_view(&out));
    buf_release(&out);
    return bytes;
}

static const struct block_postings *parsed(str bytes, uint32_t n, labels **keys)
{
    const struct block_postings *p = NULL;
    err e = {0};
    const uint8_t *guarded = tail_guard(bytes.p, bytes.n);
    if (!block_postings_parse(&arena, str_make(guarded, bytes.n), n, &p, keys, &e)) {
        fail_msg("%s", e.msg);
    }
    return p;
}

static void keys_come_back(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t n, names, values;
    } cases[] = {
        {"none", 0, 0, 1},
        {"one without labels", 1, 0, 1},
        {"one", 1, 3, 2},
        {"many values, bytes", 200, 6, 200},
        {"few values", 500, 20, 2},
        {"many values, two bytes", 2000, 3, 1000},
        {"four bytes", 150000, 1, 100000},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        labels *keys = random_keys(cases[i].n, cases[i].names, cases[i].values);
        str bytes = encoded(keys, cases[i].n);
        labels *back = NULL;
        parsed(bytes, cases[i].n, &back);
        for (uint32_t k = 0; k < cases[i].n; k++) {
            if (!labels_eq(keys[k], back[k])) fail_msg("%s: key %u", cases[i].name, k);
        }
        str again = encoded(back, cases[i].n);
        if (!str_eq(bytes, again)) fail_msg("%s: other bytes", cases[i].name);
    }
}

static void check_selection(const struct block_postings *p, const labels *keys, uint32_t n,
                            const struct selector *sel)
{
    struct block_set set = {0};
    assert_ok(block_select(p, &arena, sel, &set, e));
    assert_int_equal(set.n, n);
    for (uint32_t k = 0; k < n; k++) {
        if (block_set_has(&set, k) == selector_matches(sel, keys[k])) continue;
        struct buf text;
        buf_init(&text, NULL, SIZE_MAX);
        labels_print(keys[k], &text);
        for (size_t i = 0; i < sel->n; i++)
            buf_printf(&text, " op %d %.*s %.*s", (int)sel->v[i].op, STR(sel->v[i].name),
                       STR(sel->v[i].value));
        fail_msg("key %u: %.*s", k, STR(buf_view(&text)));
    }
    for (uint32_t k = n; k % 64; k++)
        assert_false(block_set_has(&set, k));
}

static void selection_is_what_matchers_mean(void **state)
{
    (void)state;
    static const char *const values[] = {"v0", "v1",  "v2",    "",  "v.*",       ".*",
                                         ".+", "v0|", "v[01]", "|", "v1|v2|v30", "nobody"};
    for (int round = 0; round < 60; round++) {
        uint32_t n = below(3) ? below(300) : 64 * below(5);
        labels *keys = random_keys(n, 1 + below(6), 1 + below(40));
        labels *back = NULL;
        const struct block_postings *p = parsed(encoded(keys, n), n, &back);
        for (int i = 0; i < 30; i++) {
            struct selector sel = {0};
            for (uint32_t m = below(4); m > 0; m--) {
                str name = arena_printf(&arena, "name%u", below(7));
                str value = str_of(values[below(COUNT(values))]);
                assert_ok(selector_add(&arena, &sel, (enum matcher_op)below(4), name, value, e));
            }
            check_selection(p, keys, n, &sel);
        }
    }
}

static void labels_that_are_no_set_are_a_fault_of_ours(void **state)
{
    (void)state;
    static const char *const twice[] = {"a", "1", "a", "2"};
    static const char *const wrong[] = {"b", "1", "a", "2"};
    static const char *const bytes[] = {"a", "\xff"};
    labels keys[] = {set_of(twice, 2), set_of(wrong, 2), set_of(bytes, 1)};
    for (size_t i = 0; i < COUNT(keys); i++) {
        struct buf out;
        err e = {0};
        buf_init(&out, NULL, SIZE_MAX);
        assert_false(block_postings_encode(&arena, &keys[i], 1, &out, &e));
        assert_int_equal(e.code, ERR_INTERNAL);
        buf_release(&out);
    }
}

static void damage_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *bytes;
        size_t size;
        uint32_t keys;
        const char *says;
    } cases[] = {
        {"nothing", "", 0, 0, "number of names"},
        {"many names", "\x7f\x01", 2, 1, "number of names"},
        {"names without keys",
         "\x01\x01"
         "a\x01\x01"
         "b\x00\x00",
         7, 0, "names without keys"},
        {"no values",
         "\x01\x01"
         "a\x00\x00\x01\x01\x00",
         7, 1, "a name without values"},
        {"many values",
         "\x01\x01"
         "a\x7f\x01"
         "b\x00\x01\x01\x01",
         9, 1, "number of values"},
        {"values twice",
         "\x01\x01"
         "a\x02\x01"
         "b\x01"
         "b\x01\x01",
         10, 1, "values out of order"},
        {"names in no order",
         "\x02\x01"
         "b\x01\x01"
         "x\x01\x01\x01"
         "a\x01\x01"
         "x\x01\x01",
         15, 1, "names out of order"},
        {"not UTF-8",
         "\x01\x01"
         "a\x01\x01\xff\x01\x01",
         8, 1, "a value"},
        {"an unknown form",
         "\x01\x01"
         "a\x01\x01"
         "b\x03\x01\x01\x01",
         10, 1, "form of a column"},
        {"a value of nobody",
         "\x01\x01"
         "a\x01\x01"
         "b\x01\x00",
         8, 1, "a value that no key has"},
        {"a number too high",
         "\x01\x01"
         "a\x01\x01"
         "b\x01\x02",
         8, 1, "number of a value"},
        {"a column too short",
         "\x01\x01"
         "a\x01\x01"
         "b\x01\x01",
         8, 2, "a column is cut off"},
        {"bytes after it",
         "\x01\x01"
         "a\x01\x01"
         "b\x01\x01\x00",
         9, 1, "bytes after"},
        {"an empty run",
         "\x01\x01"
         "a\x01\x01"
         "b\x00\x02\x00\x01\x01\x01",
         12, 1, "length of a run"},
        {"a run too long",
         "\x01\x01"
         "a\x01\x01"
         "b\x00\x01\x02\x01",
         10, 1, "length of a run"},
        {"runs too short",
         "\x01\x01"
         "a\x01\x01"
         "b\x00\x01\x01\x01",
         10, 2, "do not cover"},
        {"a run of a number too high",
         "\x01\x01"
         "a\x01\x01"
         "b\x00\x01\x01\x02",
         10, 1, "number of a value"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct block_postings *p = NULL;
        labels *keys = NULL;
        err e = {0};
        str bytes = {cases[i].bytes, cases[i].size};
        if (block_postings_parse(&arena, bytes, cases[i].keys, &p, &keys, &e)) {
            fail_msg("%s: parsed", cases[i].name);
        }
        if (e.code != ERR_DATA_LOSS || !strstr(e.msg, cases[i].says)) {
            fail_msg("%s: %s: %s", cases[i].name, err_name(e.code), e.msg);
        }
    }
}

static void what_is_cut_off_is_damage(void **state)
{
    (void)state;
    str bytes = encoded(random_keys(70, 4, 30), 70);
    for (size_t n = 0; n < bytes.n; n++) {
        const struct block_postings *p = NULL;
        labels *keys = NULL;
        err e = {0};
        const uint8_t *guarded = tail_guard(bytes.p, n);
        assert_false(block_postings_parse(&arena, str_make(guarded, n), 70, &p, &keys, &e));
        assert_int_equal(e.code, ERR_DATA_LOSS);
    }
}

// Whatever a damaged block says, it can be asked without a crash.
static bool ask(struct arena *a, str bytes, uint32_t n, const struct selector *sel, err *e)
{
    const struct block_postings *p = NULL;
    labels *keys = NULL;
    struct block_set set = {0};
    if (!block_postings_parse(a, bytes, n, &p, &keys, e)) return true;
    for (uint32_t k = 0; k < n; k++)
        labels_fingerprint(keys[k]);
    return block_select(p, a, sel, &set, e);
}

static void flipped_bits_never_crash(void **state)
{
    (void)state;
    str bytes = encoded(random_keys(50, 4, 10), 50);
    struct selector sel = {0};
    assert_ok(selector_add(&arena, &sel, MATCH_NEQ, S("name1"), S("v1"), e));
    for (size_t bit = 0; bit < 8 * bytes.n; bit++) {
        struct arena own;
        arena_init(&own, NULL, 1 << 20);
        char *copy = arena_new(&own, bytes.n);
        memcpy(copy, bytes.p, bytes.n);
        copy[bit / 8] ^= (char)(1 << (bit % 8));
        assert_ok(ask(&own, str_make(copy, bytes.n), 50, &sel, e));
        arena_release(&own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(keys_come_back),
        ARENA_TEST(selection_is_what_matchers_mean),
        ARENA_TEST(labels_that_are_no_set_are_a_fault_of_ours),
        ARENA_TEST(damage_is_told),
        ARENA_TEST(what_is_cut_off_is_damage),
        ARENA_TEST(flipped_bits_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
