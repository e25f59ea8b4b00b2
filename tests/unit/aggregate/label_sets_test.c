// SPDX-License-Identifier: Apache-2.0
//
// Sets and names are distinct and in order.
#include "aggregate/label_sets.h"
#include "codec/pb.h"
#include "unit/model/random.h"

#define SETS 200

// Of three names with two values each, any may be missing: 27 sets.
static labels some_set(struct random *r, label *room)
{
    static const char *const names[] = {"a", "b", "c"};
    static const char *const values[] = {"0", "1"};
    size_t n = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        uint32_t value = random_below(r, 3);
        if (value < 2) room[n++] = (label){str_of(names[i]), str_of(values[value])};
    }
    return (labels){room, n};
}

static bool merge_bytes(struct label_sets *sets, struct label_sets *names, str bytes, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 5 && !label_sets_merge_bytes(sets, r.bytes, e)) return false;
        if (r.field == 6 && !label_sets_merge_name(names, r.bytes, e)) return false;
    }
    return pb_done(&r, e);
}

static void check(const struct label_sets *s, const labels *want, size_t n)
{
    size_t distinct = 0;
    for (size_t i = 0; i < n; i++) {
        bool before = false;
        bool there = false;
        for (size_t k = 0; k < i; k++)
            before = before || labels_eq(want[i], want[k]);
        distinct += !before;
        for (uint32_t k = 0; k < s->n; k++)
            there = there || labels_eq(want[i], s->v[k]);
        assert_true(there);
    }
    assert_int_equal(s->n, distinct);
    for (uint32_t i = 1; i < s->n; i++)
        assert_true(labels_cmp(s->v[i - 1], s->v[i]) < 0);
}

static void sets_and_names_are_distinct_and_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 40; seed++) {
        struct random r = {seed};
        struct arena a;
        struct label_sets one;
        struct label_sets all;
        struct label_sets names;
        struct label_sets all_names;
        struct buf out;
        labels want[SETS];
        size_t n = random_below(&r, SETS);
        arena_init(&a, NULL, SIZE_MAX);
        buf_init(&out, NULL, 1 << 20);
        label_sets_init(&one, &a, NULL);
        label_sets_init(&all, &a, NULL);
        label_sets_init(&names, &a, NULL);
        label_sets_init(&all_names, &a, NULL);
        for (size_t i = 0; i < n; i++) {
            label room[3];
            labels ls = some_set(&r, room);
            want[i] = labels_copy(&a, ls);
            // Some come one by one, some with the bytes of another answer, some with both.
            bool both = random_below(&r, 4) == 0;
            if (i % 2 || both) assert_ok(label_sets_add(&all, ls, e));
            if (i % 2 == 0 || both) assert_ok(label_sets_add(&one, ls, e));
            for (size_t k = 0; k < ls.n; k++)
                assert_ok(label_sets_add_name(&names, ls.v[k].name, e));
            memset(room, 0, sizeof room);
        }
        label_sets_finish(&one);
        label_sets_finish(&names);
        label_sets_encode(&one, &out, 5);
        label_sets_encode_names(&names, &out, 6);
        assert_ok(merge_bytes(&all, &all_names, buf_view(&out), e));
        assert_ok(merge_bytes(&all, &all_names, buf_view(&out), e));
        label_sets_finish(&all);
        label_sets_finish(&all_names);
        check(&all, want, n);
        assert_int_equal(all_names.n, names.n);
        for (uint32_t i = 0; i < names.n; i++)
            assert_true(str_eq(label_sets_name(&all_names, i), label_sets_name(&names, i)));
        label_sets_release(&one);
        label_sets_release(&all);
        label_sets_release(&names);
        label_sets_release(&all_names);
        buf_release(&out);
        arena_release(&a);
    }
}

static void sets_that_became_equal_are_one_when_finished_again(void **state)
{
    (void)state;
    struct arena a;
    struct label_sets s;
    const label v[] = {{S("a"), S("1")}, {S("b"), S("2")}};
    arena_init(&a, NULL, SIZE_MAX);
    label_sets_init(&s, &a, NULL);
    assert_ok(label_sets_add(&s, (labels){v, 2}, e));
    assert_ok(label_sets_add(&s, (labels){v, 1}, e));
    label_sets_finish(&s);
    assert_int_equal(s.n, 2);
    for (uint32_t i = 0; i < s.n; i++)
        s.v[i].n = 1;
    label_sets_finish(&s);
    assert_int_equal(s.n, 1);
    label_sets_release(&s);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_and_names_are_distinct_and_in_order),
        cmocka_unit_test(sets_that_became_equal_are_one_when_finished_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
