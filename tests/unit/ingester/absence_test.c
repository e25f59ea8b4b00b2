// SPDX-License-Identifier: Apache-2.0
//
// An ingester that ends while the store fails, and one that comes back after more than a week:
// pages of manifests do not name its segments any more, so questions would not see that leaves have
// what its head has.
#include "flush_world.h"
#include "lib/clock.h"

#define DAY (24 * HOUR)

static bool asked(struct world *x, str tenant, int64_t hour, struct buf *answer, err *e)
{
    struct req r;
    struct buf message;
    req_init(&r, RANK_INGESTER, &x->w.memory, SIZE_MAX, 0);
    r.tenant = tenant;
    buf_init(&message, NULL, 1 << 20);
    buf_clear(answer);
    pb_put_i64_opt(&message, 2, slot_start(hour, SLOT_HOUR));
    pb_put_i64_opt(&message, 3, slot_start(hour + 1, SLOT_HOUR));
    bool ok = read_run(x->w.in, &r, buf_view(&message), answer, e);
    buf_release(&message);
    req_release(&r);
    return ok;
}

// Lists fail, but for the one that comes before the log is read (ingester/aside.h).
static atomic_bool no_lists;

static enum memstore_fault fail_list(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    bool fails = ev->op == MEMSTORE_LIST && !str_is(ev->name, "v1/forgotten/");
    return fails && atomic_load(&no_lists) ? MEMSTORE_FAILS : MEMSTORE_FINE;
}

// What the flush of a process that stopped left: the segment is there, and the cut is in the log.
static void a_cut_from_long_ago_is_looked_up_before_it_is_answered_for(void **state)
{
    (void)state;
    for (unsigned landed = 0; landed < 2; landed++) {
        struct world x;
        struct buf answer;
        struct flush_totals done = {0};
        err fault = {0};
        world_start(&x, 7 + landed, "");
        memstore_set_hooks(x.store, fail_list, NULL, NULL);
        buf_init(&answer, NULL, 1 << 24);
        struct fact f = fact_roll(&x.dice, clock_wall_ns() - 1, 1);
        str tenant = str_of(fact_tenants[f.tenant]);
        int64_t hour = slot_of(f.time_ns, SLOT_HOUR);
        assert_ok(whole_push(&x.w, &f, 1, e));
        memstore_fail(x.store, MEMSTORE_CREATE, landed ? MEMSTORE_LANDS : MEMSTORE_FAILS, 2,
                      UINT64_MAX);
        // Nothing can be looked up from here on: the next try comes after a second, or at the end.
        atomic_store(&no_lists, true);
        assert_false(flush(&x, &done, &fault));
        assert_ok(asked(&x, tenant, hour, &answer, e));
        whole_stop(&x.w);
        clock_pass(5 * DAY);
        start(&x);
        assert_ok(asked(&x, tenant, hour, &answer, e));
        clock_pass(3 * DAY);
        assert_false(asked(&x, tenant, hour, &answer, &fault));
        assert_int_equal(fault.code, ERR_UNAVAILABLE);
        assert_non_null(strstr(fault.msg, "older than 6 days"));
        assert_ok(asked(&x, tenant, hour + 1, &answer, e));  // other hours are not in doubt
        atomic_store(&no_lists, false);
        memstore_heal(x.store);
        AWAIT(asked(&x, tenant, hour, &answer, &fault));
        AWAIT(segments(&x) == 1 && rows_held(&x) == 0);
        assert_ok(asked(&x, tenant, hour, &answer, e));
        buf_release(&answer);
        world_end(&x);
    }
}

// The store takes nothing: the process ends at its deadline, and nothing is lost.
static void a_drain_ends_at_its_deadline_while_the_store_fails(void **state)
{
    (void)state;
    struct world x;
    struct flush_totals done = {0};
    world_start(&x, 97, "");
    for (size_t i = 0; i < 10; i++)
        push(&x, 4, HOUR);
    memstore_fail(x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    uint64_t deadline = clock_mono_ns() + (uint64_t)(1500 * NS_PER_MS);
    ingester.drain(x.w.in, deadline);
    assert_true(clock_mono_ns() >= deadline);  // it tried until then
    whole_stop(&x.w);
    memstore_heal(x.store);
    start(&x);
    check(&x);
    assert_ok(flush(&x, &done, e));
    AWAIT(rows_held(&x) == 0);
    check(&x);
    world_end(&x);
}

int main(void)
{
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_from_long_ago_is_looked_up_before_it_is_answered_for),
        cmocka_unit_test(a_drain_ends_at_its_deadline_while_the_store_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
