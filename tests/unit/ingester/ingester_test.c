// SPDX-License-Identifier: Apache-2.0
#include "base/fault.h"
#include "ingester/closings.h"
#include "ingester/flush/flush.h"
#include "ingester/head/recent_ids.h"
#include "lib/memstore.h"
#include "manifest/manifest.h"
#include "sys/clock.h"
#include "whole.h"

// Facts that are not sampled away and arrive in time.
static struct fact fresh(struct dice *d)
{
    struct fact f = fact_roll(d, clock_wall_ns() - 60 * NS_PER_S, 60 * NS_PER_S);
    f.sampled = false;
    return f;
}

static void what_is_acknowledged_is_there_once_after_a_restart(void **state)
{
    (void)state;
    struct whole w;
    struct dice d = {5};
    struct fact facts[60];
    char dir[DIR_MAX];
    dir_new(dir);
    size_t n = 0;
    for (int round = 0; round < 3; round++) {
        whole_start(&w, dir, "");
        whole_await(&w);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(whole_holds(&w, &facts[i]), 1);
        assert_int_equal(head_count(w.in->head).rows, n);
        for (int i = 0; i < 20; i++) {
            facts[n] = fresh(&d);
            assert_ok(whole_push(&w, &facts[n], 1, e));
            n++;
        }
        assert_ok(whole_push(&w, &facts[roll(&d, n)], 1, e));  // again
        assert_int_equal(head_count(w.in->head).rows, n);
        assert_int_equal(head_count(w.in->head).duplicates, 1);
        whole_stop(&w);
    }
    dir_remove(dir);
}

// Pushes a profile as with a client's id.
static void push_identified(struct whole *w, const struct fact *f, uint32_t attempt)
{
    struct req r;
    struct batch b;
    struct buf message;
    struct buf answer;
    req_init(&r, RANK_INGESTER, &w->memory, SIZE_MAX, 0);
    r.tenant = str_of(fact_tenants[f->tenant]);
    buf_init(&message, NULL, 1 << 26);
    buf_init(&answer, NULL, 1 << 26);
    assert_ok(batch_decode(&r.arena, fact_batch(&r.arena, f, 1), &b, e));
    b.records[0].identified = true;
    b.records[0].attempt = attempt;
    size_t mark = pb_begin(&message, 1);
    assert_ok(batch_encode(&b, &r.arena, &message, e));
    pb_end(&message, mark);
    assert_ok(append_run(w->in, &r, buf_view(&message), &answer, e));
    buf_release(&message);
    buf_release(&answer);
    req_release(&r);
}

// How many of the rows that are there are loose.
static uint64_t loose(struct whole *w, uint64_t *all)
{
    struct req r;
    struct merge m;
    struct loose_set met;
    const str tenants[] = {str_of(fact_tenants[0]), str_of(fact_tenants[1])};
    const struct span_filter every = {0};
    req_init(&r, RANK_INGESTER, &w->memory, SIZE_MAX, 0);
    loose_init(&met, &r.arena, NULL, SIZE_MAX);
    const struct head_query q = {.tenants = tenants,
                                 .tenant_count = COUNT(tenants),
                                 .from_ns = INT64_MIN,
                                 .to_ns = INT64_MAX,
                                 .met = &met};
    *all = 0;
    assert_ok(merge_init(&m, NULL, true, e));
    assert_ok(head_tree(w->in->head, &r, &q, &every, &m, all, e));
    uint64_t n = met.n;
    merge_release(&m);
    loose_release(&met);
    req_release(&r);
    return n;
}

static void what_may_be_a_repeated_push_is_loose(void **state)
{
    (void)state;
    struct whole w;
    struct dice d = {6};
    char dir[DIR_MAX];
    uint64_t all = 0;
    dir_new(dir);
    whole_start(&w, dir, "");
    whole_await(&w);
    struct fact sure = fresh(&d);
    push_identified(&w, &sure, 0);
    assert_int_equal(loose(&w, &all), 0);
    struct known_ids *known = &w.in->known_ids;
    atomic_store(&known->since_wall_ns, clock_wall_ns());
    atomic_store(&known->until_mono_ns, clock_mono_ns() + RECENT_IDS_NS);
    struct fact unsure = fresh(&d);
    push_identified(&w, &unsure, 0);
    assert_int_equal(loose(&w, &all), 1);
    push_identified(&w, &unsure, 0);
    struct fact without_id = fresh(&d);
    assert_ok(whole_push(&w, &without_id, 1, e));
    struct fact from_elsewhere = fresh(&d);
    push_identified(&w, &from_elsewhere, 3);
    assert_int_equal(loose(&w, &all), 2);
    struct fact late = fresh(&d);  // later than any that the earlier process took
    late.time_ns = clock_wall_ns() + 1200 * NS_PER_S;
    push_identified(&w, &late, 0);
    assert_int_equal(loose(&w, &all), 2);
    assert_int_equal(all, 5);
    atomic_store(&known->until_mono_ns, clock_mono_ns());
    struct fact after = fresh(&d);
    push_identified(&w, &after, 0);
    assert_int_equal(loose(&w, &all), 2);
    whole_stop(&w);
    whole_start(&w, dir, "");
    whole_await(&w);
    assert_int_equal(loose(&w, &all), 2);  // the log has it
    assert_int_equal(all, 6);
    whole_stop(&w);
    dir_remove(dir);
}

static void a_store_that_is_too_slow_at_the_start_is_asked_again(void **state)
{
    (void)state;
    static const char flags[] = "--ingester.log=object --ingester.log_linger=0s";
    struct whole w;
    struct dice d = {6};
    char dir[DIR_MAX];
    struct store *store = memstore_open();
    dir_new(dir);
    const struct fact f = fresh(&d);
    whole_start_with(&w, dir, flags, store);
    whole_await(&w);
    assert_ok(whole_push(&w, &f, 1, e));
    memstore_fail(store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);  // no flush, no seal
    whole_stop(&w);
    memstore_heal(store);
    memstore_fail(store, MEMSTORE_LIST, MEMSTORE_EXPIRES, 1, 2);
    whole_start_with(&w, dir, flags, store);
    whole_await(&w);
    assert_int_equal(whole_holds(&w, &f), 1);
    whole_stop(&w);
    store_close(store);
    dir_remove(dir);
}

// ---- a tenant that is deleted

static struct {
    struct ingester *in;
    str tenant;
} closes;

// A compactor notes that the tenant is closed, and this ingester reads that.
static bool close_tenant(const char *name)
{
    struct req r;
    if (strcmp(name, "append.apply.before") != 0) return false;
    fault_on(NULL);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    assert_ok(tenants_note_closed(flush_manifests(closes.in->flush), &r, closes.tenant, e));
    assert_ok(closings_refresh(closes.in->closings, &r, e));
    req_release(&r);
    return false;
}

static void a_push_under_way_when_its_tenant_is_closed_is_not_acknowledged(void **state)
{
    (void)state;
#ifndef FT_FAULTS
    skip();
#endif
    struct whole w;
    struct dice d = {8};
    char dir[DIR_MAX];
    err fault = {0};
    struct store *store = memstore_open();
    dir_new(dir);
    whole_start_with(&w, dir, "", store);
    whole_await(&w);
    struct fact before = fresh(&d);
    struct fact under_way = fresh(&d);
    struct fact other = fresh(&d);
    before.tenant = under_way.tenant = 0;
    other.tenant = 1;
    assert_ok(whole_push(&w, &before, 1, e));
    closes.in = w.in;
    closes.tenant = str_of(fact_tenants[0]);
    fault_on(close_tenant);
    assert_false(whole_push(&w, &under_way, 1, &fault));
    fault_on(NULL);
    assert_int_equal(fault.code, ERR_PERMISSION_DENIED);
    assert_ok(whole_push(&w, &other, 1, e));
    whole_stop(&w);
    store_close(store);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_acknowledged_is_there_once_after_a_restart),
        cmocka_unit_test(what_may_be_a_repeated_push_is_loose),
        cmocka_unit_test(a_store_that_is_too_slow_at_the_start_is_asked_again),
        cmocka_unit_test(a_push_under_way_when_its_tenant_is_closed_is_not_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
