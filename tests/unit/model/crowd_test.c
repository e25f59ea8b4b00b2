// SPDX-License-Identifier: Apache-2.0
//
// Keys that collide under a hash without a key do not crowd the tables of trees, functions, graphs
// and loose rows.
#include "lib/crowd.h"
#include "model/dot.h"
#include "model/flamegraph.h"
#include "model/functions.h"
#include "model/label.h"
#include "model/loose.h"
#include "unit/model/stacks.h"

// Trees that were stored and are shown again: names that a sender chose years ago.
struct shown {
    struct arena a;
    struct merge m;
    struct tree t;
    struct buf out;
};

static void begin(struct shown *x)
{
    *x = (struct shown){0};
    arena_init(&x->a, NULL, 256 << 20);
    buf_init(&x->out, NULL, 64 << 20);
    assert_ok(merge_init(&x->m, NULL, false, e));
}

static void end(struct shown *x)
{
    if (map_looked > CROWD_MOST(x->t.count)) fail_msg("%llu", (unsigned long long)map_looked);
    buf_release(&x->out);
    merge_release(&x->m);
    arena_release(&x->a);
}

static void build(struct shown *x)
{
    map_looked = 0;
    assert_ok(tree_build(&x->a, &x->m.symbols.t, x->m.sums, NULL, 0, &x->t, e));
}

static void add_names(struct shown *x)
{
    char name[16];
    unsigned rows = 0;
    for (unsigned i = 0; rows < CROWD; i++) {
        snprintf(name, sizeof name, "f%u", i);
        if (!crowd_has(hash_str(str_of(name)))) continue;
        assert_ok(sum_stack(&x->m, str_of(name), 1, e));
        rows++;
    }
    build(x);
    assert_int_equal(x->t.count, CROWD + 1);
}

static void names_of_flame_graphs_do_not_crowd(void **state)
{
    (void)state;
    struct shown x;
    begin(&x);
    add_names(&x);
    assert_ok(tree_flamegraph(&x.a, &x.t, &x.out, e));
    end(&x);
}

static void names_of_functions_do_not_crowd(void **state)
{
    (void)state;
    struct shown x;
    begin(&x);
    add_names(&x);
    const struct tree *const trees[] = {&x.t};
    struct function_table table;
    assert_ok(functions_build(&x.a, trees, 1, &table, e));
    assert_int_equal(table.count, CROWD);
    end(&x);
}

static void names_of_graphs_do_not_crowd(void **state)
{
    (void)state;
    struct shown x;
    begin(&x);
    add_names(&x);
    const struct dot_options o = {0};
    assert_ok(dot_print(&x.a, &x.t, &o, &x.out, e));
    end(&x);
}

// Nodes are found by their parent's number and the rank of their name. Parents come first here, so
// that a sender knows both numbers and chooses which pairs there are.
#define PARENTS 512

static void pairs_of_nodes_and_names_do_not_crowd(void **state)
{
    (void)state;
    struct shown x;
    begin(&x);
    char text[32];
    for (unsigned i = 0; i < PARENTS; i++) {
        snprintf(text, sizeof text, "p%03u", i);
        assert_ok(sum_stack(&x.m, str_of(text), 1, e));
    }
    unsigned rows = PARENTS;
    for (uint64_t parent = 1; parent <= PARENTS; parent++) {
        for (uint64_t name = 0; name < PARENTS; name++) {
            snprintf(text, sizeof text, "p%03u;a%03u", (unsigned)parent - 1, (unsigned)name);
            if (parent > 1 && !crowd_has(hash_mix(0, parent << 32 | name))) continue;
            assert_ok(sum_stack(&x.m, str_of(text), 1, e));
            rows++;
        }
    }
    build(&x);
    assert_int_equal(x.t.count, rows + 1);
    assert_true(rows > CROWD_SLOTS / 4 && rows <= CROWD_SLOTS / 2);
    end(&x);
}

static void ids_of_loose_rows_do_not_crowd(void **state)
{
    (void)state;
    struct arena a;
    struct loose_set s;
    arena_init(&a, NULL, 64 << 20);
    loose_init(&s, &a, NULL, CROWD);
    map_looked = 0;
    for (uint64_t i = 0; s.n < CROWD; i++) {
        struct loose_key key = {.series = 7};
        memcpy(key.id.b, &i, sizeof i);
        if (!crowd_has(hash_mix(hash_bytes(key.id.b, sizeof key.id.b), key.series))) continue;
        assert_ok(loose_add(&s, key, 0, e));
    }
    if (map_looked > CROWD_MOST(CROWD)) fail_msg("%llu", (unsigned long long)map_looked);
    loose_release(&s);
    arena_release(&a);
}

// Every process has a key of its own, and all tables go by it.
static void another_key_is_another_hash(void **state)
{
    (void)state;
    const label v[] = {{S("a"), S("b")}, {S("c"), S("d")}};
    const labels ls = {v, COUNT(v)};
    uint64_t one[] = {hash_table_str(S("x")), hash_table_word(7), hash_table_and(7, 8),
                      hash_table_bytes("x", 1), labels_hash(ls)};
    hash_seed((struct hash_key){{1, 2, 3, 4}});
    uint64_t two[] = {hash_table_str(S("x")), hash_table_word(7), hash_table_and(7, 8),
                      hash_table_bytes("x", 1), labels_hash(ls)};
    hash_seed(HASH_KEY_PUBLIC);
    for (size_t i = 0; i < COUNT(one); i++)
        assert_true(one[i] != two[i]);
    assert_true(one[0] == one[3]);
    assert_true(one[4] == labels_hash(ls));
    const label other[] = {{S("a"), S("bc")}, {S(""), S("d")}};
    assert_true(one[4] != labels_hash((labels){other, COUNT(other)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_flame_graphs_do_not_crowd),
        cmocka_unit_test(names_of_functions_do_not_crowd),
        cmocka_unit_test(names_of_graphs_do_not_crowd),
        cmocka_unit_test(pairs_of_nodes_and_names_do_not_crowd),
        cmocka_unit_test(ids_of_loose_rows_do_not_crowd),
        cmocka_unit_test(another_key_is_another_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
