// SPDX-License-Identifier: Apache-2.0
#include "compactor/compactor.h"
#include "lib/exchange.h"
#include "lib/torture.h"
#include "rpc/route.h"
#include "unit/compactor/world.h"

static const struct process process = {.id = "test"};

static bool start(void *arg, err *e)
{
    (void)arg;
    void *self = NULL;
    if (!compactor.start(&process, &self, e)) return false;
    compactor.stop(self);
    return true;
}

static bool show(struct torture_bench *b, const char *path, void *arg, err *e)
{
    const struct server_app *app = arg;
    struct ask ask = {.method = "GET", .path = path, .budget = &b->budget};
    torture_spare(true);
    struct http_exchange *x = exchange_ask(&ask);
    torture_spare(false);
    exchange_go(app, x, (str){0});
    torture_spare(true);
    bool ok = x->status == 200;
    if (ok)
        buf_str(&b->out, exchange_reply(x));
    else
        err_set(e, x->status == 429 ? ERR_RESOURCE_EXHAUSTED : ERR_INTERNAL, "%.*s",
                STR(exchange_reply(x)));
    exchange_free(x);
    torture_spare(false);
    return ok;
}

static bool show_duties(struct torture_bench *b, void *arg, err *e)
{
    return show(b, "/compactor/duties", arg, e);
}

static bool show_status(struct torture_bench *b, void *arg, err *e)
{
    return show(b, "/compactor/status", arg, e);
}

static bool show_page(struct torture_bench *b, void *arg, err *e)
{
    return show(b, "/compactor", arg, e);
}

static void the_compactor_starts_and_tells_its_duties(void **state)
{
    (void)state;
    static struct lane *const lanes[RANK_COUNT];
    torture_work(&(struct torture_work){.name = "compactor.start", .run = start, .is_start = true});
    struct router_options o = {.body_max = 1000, .answer_max = 1 << 20};
    struct router *r = router_new(&o);
    void *self = NULL;
    assert_ok(compactor.start(&process, &self, e));
    router_add_http(r, compactor.public_http, compactor.public_http_count, self, lanes);
    struct server_app app = router_app(r);
    const struct torture_maker pages[] = {
        {.name = "compactor.duties", .make = show_duties, .arg = &app},
        {.name = "compactor.status", .make = show_status, .arg = &app},
        {.name = "compactor.page", .make = show_page, .arg = &app},
    };
    torture_make_all(pages, COUNT(pages));
    router_free(r);
    compactor.stop(self);
}

// ---- jobs: each allocation and each call fails once; afterwards everything can still be made

struct merging {
    struct world w;
};

static void merging_begin(void *arg)
{
    struct merging *m = arg;
    world_init(&m->w, 5);
    now_ns = slot_start(HOUR_0 + 24 * 29, SLOT_HOUR);
    for (int64_t hour = 3; hour < 5; hour++)
        fleet_hour(&m->w.fleet, HOUR_0 + hour, 8);
    fleet_flush(&m->w.fleet, m->w.store, 0, 5);
}

static bool merging_run(void *arg, err *e)
{
    struct merging *m = arg;
    m->w.may_fail = true;
    m->w.fault = (err){0};
    m->w.failed = 0;
    for (int i = 0; i < 6; i++)
        work_once(&m->w);
    if (m->w.failed == 0) return true;
    *e = m->w.fault;
    return false;
}

static void merging_check(void *arg, bool done)
{
    struct merging *m = arg;
    if (!done) return;
    assert_int_equal(check_all(&m->w, BLOCK_RAW), 2);
    assert_int_equal(check_all(&m->w, BLOCK_HOURS), 1);
    assert_int_equal(check_all(&m->w, BLOCK_DAYS), 1);
}

static void merging_end(void *arg)
{
    struct merging *m = arg;
    world_release(&m->w);
}

static void jobs_fail_and_are_done_all_the_same(void **state)
{
    (void)state;
    static struct merging m;
    torture_work(&(struct torture_work){.name = "compactor.jobs",
                                        .begin = merging_begin,
                                        .run = merging_run,
                                        .check = merging_check,
                                        .end = merging_end,
                                        .arg = &m,
                                        .codes = 1u << ERR_ABORTED,
                                        .lives_on = true,
                                        .most = 60});
}

// ---- the same from an hour's leaves to a window with its root: leaves of days, folds of them with
// what came late, days, retirement, and a sweep of all that is left over

static void year_begin(void *arg)
{
    struct merging *m = arg;
    world_init(&m->w, 6);
    m->w.settings.day_leaf_bytes = 1 << 20;
    now_ns = slot_start(HOUR_0 + 24 * 40, SLOT_HOUR);
    // Three weeks with three days each: what a root is made of.
    for (int64_t week = 0; week < 3; week++) {
        for (int64_t day = 0; day < 3; day++) {
            fleet_hour(&m->w.fleet, HOUR_0 + week * 168 + day * 24 + 3, 3);
            fleet_hour(&m->w.fleet, HOUR_0 + week * 168 + day * 24 + 4, 3);
        }
    }
    fleet_flush(&m->w.fleet, m->w.store, 0, 5);
    work_until_done(&m->w);
    // Late rows make leaves, folds, hours, days and the window anew.
    size_t before = m->w.fleet.n;
    fleet_hour(&m->w.fleet, HOUR_0 + 3, 2);
    fleet_flush(&m->w.fleet, m->w.store, before, 5);
    memset(m->w.jobs, 0, sizeof m->w.jobs);
}

static bool sweep_world(struct world *w, err *e)
{
    struct req r;
    struct sweep_seen seen;
    sweep_seen_init(&seen, NULL);
    struct manifest_sweep s = {.seen = &seen,
                               .segment_grace_ns = SLOT_HOUR,
                               .garbage_grace_ns = SLOT_HOUR,
                               .version_age_ns = SLOT_HOUR,
                               .versions = 1,
                               .orphan_age_ns = SLOT_HOUR};
    req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
    bool ok = manifest_sweep(w->manifests, &r, S(FLEET_TENANT), &s, e);
    now_ns += 6 * SLOT_HOUR;  // now what may go was seen for long enough
    ok = ok && manifest_sweep(w->manifests, &r, S(FLEET_TENANT), &s, e);
    sweep_seen_release(&seen);
    req_release(&r);
    return ok;
}

static bool year_run(void *arg, err *e)
{
    struct merging *m = arg;
    struct world *w = &m->w;
    w->may_fail = true;
    w->fault = (err){0};
    w->failed = 0;
    w->settings.raw_retention = 0;
    for (int i = 0; i < 8; i++)
        work_once(w);
    w->settings.raw_retention = SLOT_DAY;
    for (int i = 0; i < 6; i++)
        work_once(w);
    now_ns += 3 * SLOT_HOUR;
    if (!sweep_world(w, e)) return false;
    if (w->failed == 0) return true;
    *e = w->fault;
    return false;
}

static void year_check(void *arg, bool done)
{
    struct merging *m = arg;
    if (!done) return;
    assert_int_equal(check_all(&m->w, BLOCK_RAW), 0);
    assert_int_equal(check_all(&m->w, BLOCK_HOURS), 9);
    assert_int_equal(check_all(&m->w, BLOCK_DAYS), 10);
}

static void leaves_of_days_and_windows_fail_and_are_made_all_the_same(void **state)
{
    (void)state;
    static struct merging m;
    torture_work(&(struct torture_work){.name = "compactor.year",
                                        .begin = year_begin,
                                        .run = year_run,
                                        .check = year_check,
                                        .end = merging_end,
                                        .arg = &m,
                                        .codes = 1u << ERR_ABORTED,
                                        .lives_on = true,
                                        .most = 10});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_compactor_starts_and_tells_its_duties),
        cmocka_unit_test(jobs_fail_and_are_done_all_the_same),
        cmocka_unit_test(leaves_of_days_and_windows_fail_and_are_made_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
