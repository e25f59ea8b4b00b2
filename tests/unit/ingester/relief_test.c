// SPDX-License-Identifier: Apache-2.0
//
// A head that fills up closes its open cut long before that is old, so that a flush empties it; but
// not one tiny cut after the other.
#include "flush_world.h"
#include "service/settings.h"

#define HEAD  ((size_t)1 << 20)
#define FLAGS "--ingester.head_memory=1MiB --ingester.lexicon_memory=0 --ingester.cut_age=10h"

// New profiles of one service; false if they were refused for want of memory.
static bool push_some(struct world *x)
{
    struct arena a;
    struct batch b;
    struct fact facts[8];
    err why = {0};
    arena_init(&a, NULL, SIZE_MAX);
    for (size_t i = 0; i < COUNT(facts); i++) {
        facts[i] = fact_roll(&x->dice, clock_wall_ns() - HOUR, HOUR);
        facts[i].tenant = facts[0].tenant;
        facts[i].service = facts[0].service;
    }
    str tenant = str_of(fact_tenants[facts->tenant]);
    str bytes = rich_batch(&a, &x->dice, facts, COUNT(facts), &b);
    bool ok = push_bytes(x, tenant, bytes, &why);
    if (ok) lines_of_batch(&x->want[facts->tenant], tenant, &b);
    if (!ok) assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    arena_release(&a);
    return ok;
}

static void what_is_short_of_room(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t used;
        size_t limit;
        size_t room;
        bool is_short;
    } cases[] = {
        {"an empty head", 0, 1000, 1000, false},
        {"below three quarters", 749, 1000, 251, false},
        {"three quarters", 750, 1000, 250, true},
        {"full", 1000, 1000, 0, true},
        {"more than it may have, after a replay", 3000, 1000, 0, true},
        {"the process has little left", 300, 1000, 100, true},
        {"the process has enough left", 300, 1000, 101, false},
        {"the process has nothing left, and the head has nothing to give", 249, 1000, 0, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (relief_is_short(cases[i].used, cases[i].limit, cases[i].room) != cases[i].is_short)
            fail_msg("%s", cases[i].name);
    }
}

static void a_head_that_fills_up_is_emptied_before_its_cut_is_old(void **state)
{
    (void)state;
    struct world x;
    uint64_t early = count_of(&ingester_early_cuts);
    world_start(&x, 5, FLAGS);
    size_t pushed = 0;
    for (; count_of(&ingester_early_cuts) == early; pushed++) {
        assert_true(pushed < 100000);
        (void)push_some(&x);
    }
    // More than a few profiles had come, and nobody asked for the flush.
    assert_true(pushed > 20);
    AWAIT(wal_count(x.w.in->wal).closed_cuts == 0);
    assert_true(segments(&x) > 0);
    assert_true(head_budget(x.w.in->head)->used < HEAD / 2);
    assert_true(push_some(&x));
    check(&x);
    world_end(&x);
}

// The rest after an early cut is over, for the duty thread; returns when that has looked.
static void look_again(struct world *x)
{
    _Atomic uint64_t *at = &x->w.in->relief.not_before_mono_ns;
    atomic_store(at, 0);
    AWAIT(atomic_load(at) != 0);
}

// Nothing that closes early would make room while the store takes nothing.
static void while_a_cut_waits_for_the_store_no_other_closes_early(void **state)
{
    (void)state;
    world_needs_log_on_disk();
    struct world x;
    uint64_t early = count_of(&ingester_early_cuts);
    world_start(&x, 6, FLAGS);
    memstore_fail(x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    for (size_t i = 0; push_some(&x); i++)
        assert_true(i < 100000);
    AWAIT(count_of(&ingester_early_cuts) == early + 1);
    while (push_some(&x)) {
    }
    for (int i = 0; i < 3; i++)
        look_again(&x);
    assert_int_equal(count_of(&ingester_early_cuts) - early, 1);
    assert_int_equal(wal_count(x.w.in->wal).closed_cuts, 1);
    check(&x);
    memstore_heal(x.store);
    AWAIT(push_some(&x));
    check(&x);
    world_end(&x);
}

// What fills the head is in no cut, so that it stays short of room, whatever is flushed.
static void early_cuts_are_apart(void **state)
{
    (void)state;
    struct world x;
    world_start(&x, 7, FLAGS);
    struct mem_budget filler;
    uint64_t early = count_of(&ingester_early_cuts);
    mem_budget_init(&filler, "filler", &x.w.in->head->budget, 0);
    assert_ok(mem_reserve(&filler, HEAD / 8 * 7, e));
    for (int round = 1; round <= 2; round++) {
        uint64_t began = clock_mono_ns();
        AWAIT((push_some(&x), count_of(&ingester_early_cuts) == early + (uint64_t)round));
        uint64_t rest = atomic_load(&x.w.in->relief.not_before_mono_ns);
        assert_true(rest >= began + RELIEF_REST_NS);
        AWAIT(wal_count(x.w.in->wal).closed_cuts == 0);
        assert_true(push_some(&x));
        relief_tick(x.w.in);
        uint64_t cuts = count_of(&ingester_early_cuts) - early;
        // The rest is over only if this thread stood still for so long.
        if (clock_mono_ns() < rest) assert_int_equal(cuts, round);
        atomic_store(&x.w.in->relief.not_before_mono_ns, 0);
    }
    mem_unreserve(&filler, HEAD / 8 * 7);
    check(&x);
    world_end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_short_of_room),
        cmocka_unit_test(a_head_that_fills_up_is_emptied_before_its_cut_is_old),
        cmocka_unit_test(while_a_cut_waits_for_the_store_no_other_closes_early),
        cmocka_unit_test(early_cuts_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
