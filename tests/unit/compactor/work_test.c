// SPDX-License-Identifier: Apache-2.0
//
// Many workers over one store, in one process or each in its own: how many jobs are under way at
// once, and how many are done for nothing. Creations of leaves meet at a barrier, which lets nobody
// on before as many are there as there are workers: what is asserted is counted, not timed.
#include "compactor/compactor.h"
#include "compactor/metrics.h"
#include "compactor/turn_int.h"
#include "lib/clock.h"
#include "lib/dir.h"
#include "sys/thread.h"
#include "unit/compactor/world.h"

#include <pthread.h>

#define WORKERS_MAX 8
#define AWAIT_S     60
#define SEEN_MAX    2048

// One process with its workers.
struct peer {
    char id[8];
    struct config *config;
    struct members *members;
    struct process process;
    struct work *work;
    struct store *store;
    char dir[DIR_MAX];
};

// What all processes do to the store.
struct scene {
    struct fleet fleet;
    struct store *store;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    size_t party;   // so many creations go on together
    size_t rounds;  // so many times; then each goes on alone
    size_t waiting;
    size_t round;
    size_t full;  // rounds that had as many
    size_t most;  // at the barrier at once
    bool broken;
    bool repeated;  // one hour twice in one round
    int64_t at[WORKERS_MAX];
    size_t created;        // leaves of hours
    bool refuses;          // the store makes no leaf
    int64_t late_ns;       // goes by at each creation of a leaf
    char order[SEEN_MAX];  // of leaves of hours: whose tenant, 'a' or 'b'

    // commits of a process
    _Atomic(struct work *) work;
    size_t batches;          // so many wait before the first commit goes on; 0: it does not wait
    bool take_away;          // then a block of one of them disappears
    size_t roots;            // that were to be created
    size_t absorbed_by_two;  // hours that had leaves when the third was to be created
    bool committed;          // since it last made a plan
    bool told_early;         // that it has settled, before it made a new plan
};

static int64_t hour_of(str name)
{
    static const char folder[] = "/raw/";
    const char *at = memmem(name.p, name.n, folder, strlen(folder));
    return (int64_t)strtoull(at + strlen(folder), NULL, 16);
}

static bool is_hour_leaf(str name)
{
    return str_contains(name, S("/raw/")) && str_contains(name, S("-0001/"));
}

static void meet_others(struct scene *s, int64_t hour)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += AWAIT_S;
    size_t round = s->round;
    for (size_t i = 0; i < s->waiting; i++)
        s->repeated = s->repeated || s->at[i] == hour;
    s->at[s->waiting++] = hour;
    s->most = MAX(s->most, s->waiting);
    if (s->waiting == s->party) {
        s->full++;
        s->round++;
        s->waiting = 0;
        pthread_cond_broadcast(&s->moved);
        return;
    }
    while (s->round == round && !s->broken) {
        if (pthread_cond_timedwait(&s->moved, &s->lock, &until) == 0) continue;
        s->broken = true;
        pthread_cond_broadcast(&s->moved);
    }
}

static bool is_settled(struct work *w)
{
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    work_print_json(w, &out);
    bool is = str_contains(buf_view(&out), S("\"settled\":true"));
    bool busy = !str_contains(buf_view(&out), S("\"jobs_running\":0"));
    buf_release(&out);
    return is && !busy;
}

static size_t count_leaves(struct scene *s)
{
    struct req r;
    err fault = {0};
    size_t n = 0;
    size_t leaves = 0;
    req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
    struct manifests *ms = manifests_open(s->store, NULL, NULL, &fault);
    struct manifest *m = manifest_newest(ms, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++)
        leaves += v[i].kind == BLOCK_RAW && v[i].hours == 1;
    manifest_unref(m);
    manifests_close(ms);
    req_release(&r);
    return leaves;
}

// Batches of a process that wait for a commit that is under way; and the name of a block of the
// last of them.
static size_t count_batches(struct work *w, char *name, size_t size)
{
    size_t n = 0;
    lock_take(&w->lock);
    for (const struct batch *b = w->tenant_count ? w->tenants[0]->waiting : NULL; b; b = b->next) {
        snprintf(name, size, "%.*s", STR(b->v[0].job.blocks[0].name));
        n++;
    }
    lock_give(&w->lock);
    return n;
}

static void await_batches(struct scene *s)
{
    char name[NAME_MAX_BYTES];
    for (int i = 0; i < AWAIT_S * 1000; i++) {
        if (count_batches(s->work, name, sizeof name) == s->batches) {
            if (s->take_away) memstore_drop(s->store, name);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
    }
    pthread_mutex_lock(&s->lock);
    s->broken = true;
    pthread_mutex_unlock(&s->lock);
}

static void at_root(struct scene *s)
{
    pthread_mutex_lock(&s->lock);
    s->committed = true;
    size_t roots = ++s->roots;
    pthread_mutex_unlock(&s->lock);
    if (s->batches && roots == 1) await_batches(s);
    size_t leaves = roots == 3 ? count_leaves(s) : 0;
    pthread_mutex_lock(&s->lock);
    if (roots == 3) s->absorbed_by_two = leaves;
    pthread_mutex_unlock(&s->lock);
}

static void at_plan(struct scene *s)
{
    pthread_mutex_lock(&s->lock);
    bool committed = s->committed;
    s->committed = false;
    pthread_mutex_unlock(&s->lock);
    if (!committed || !is_settled(s->work)) return;
    pthread_mutex_lock(&s->lock);
    s->told_early = true;
    pthread_mutex_unlock(&s->lock);
}

static enum memstore_fault before(void *arg, const struct memstore_event *ev)
{
    struct scene *s = arg;
    if (s->work && ev->op == MEMSTORE_CREATE && str_contains(ev->name, S("/live/m/"))) at_root(s);
    if (s->work && ev->op == MEMSTORE_LIST && str_ends(ev->name, S("/live/"))) at_plan(s);
    if (ev->op != MEMSTORE_CREATE || !is_hour_leaf(ev->name)) return MEMSTORE_FINE;
    pthread_mutex_lock(&s->lock);
    if (s->created < SEEN_MAX)
        s->order[s->created] = str_contains(ev->name, S("/" FLEET_TENANT "/")) ? 'a' : 'b';
    s->created++;
    if (s->late_ns) clock_pass(s->late_ns);
    if (s->round < s->rounds && !s->broken) meet_others(s, hour_of(ev->name));
    bool refuses = s->refuses;
    pthread_mutex_unlock(&s->lock);
    return refuses ? MEMSTORE_FAILS : MEMSTORE_FINE;
}

static void peer_open(struct peer *p, struct scene *s, size_t i, size_t peers, const char *workers)
{
    static const struct config_section *const sections[] = {&compactor_section};
    const char *const argv[] = {"test",
                                "--compactor.interval=20ms",
                                "--compactor.hour_delay=0s",
                                "--compactor.day_delay=0s",
                                "--compactor.repack_interval=0s",
                                "--compactor.fold_interval=0s",
                                "--compactor.window_interval=0s",
                                "--compactor.raw_retention=0s",
                                "--compactor.hours_retention=0s",
                                "--compactor.days_retention=0s",
                                workers};
    struct config_args args;
    *p = (struct peer){.store = memstore_again(s->store)};
    memstore_set_hooks(p->store, before, NULL, s);
    snprintf(p->id, sizeof p->id, "c%zu", i);
    dir_new(p->dir);
    p->config = config_new(sections, 1);
    assert_ok(config_load(p->config, COUNT(argv), (char **)(uintptr_t)argv, &args, e));
    err fault = {0};
    p->members = members_new(&fault);
    for (size_t k = 0; peers > 1 && k < peers; k++) {
        char entry[32];
        snprintf(entry, sizeof entry, "c%zu=127.0.0.1:%zu", k, k + 1);
        assert_ok(members_add(p->members, MEMBER_COMPACTOR, str_of(entry), e));
    }
    p->process = (struct process){.config = p->config,
                                  .members = p->members,
                                  .data_dir = p->dir,
                                  .store = p->store,
                                  .id = p->id};
    p->work = work_new(&p->process, &fault);
    assert_non_null(p->work);
}

static void peer_close(struct peer *p)
{
    work_drain(p->work);
    work_free(p->work);
    members_free(p->members);
    config_free(p->config);
    store_close(p->store);
    dir_remove(p->dir);
}

static void scene_open(struct scene *s, int64_t days, size_t hours)
{
    *s = (struct scene){.store = memstore_open()};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->moved, NULL);
    fleet_init(&s->fleet, 5);
    for (int64_t day = 0; day < days; day++) {
        for (size_t hour = 0; hour < hours; hour++)
            fleet_hour(&s->fleet, HOUR_0 + day * 24 + (int64_t)hour, 3);
    }
    fleet_flush(&s->fleet, s->store, 0, 100);
}

static void note_tenant(struct scene *s, str name)
{
    struct req r;
    err fault = {0};
    struct manifests *ms = manifests_open(s->store, NULL, NULL, &fault);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    assert_ok(tenants_note(ms, &r, name, e));
    req_release(&r);
    manifests_close(ms);
}

// Another tenant with the segments of some hours of the first one.
static void copy_tenant(struct scene *s, str name, size_t most)
{
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%.*s", STR(name_segments(&a, S(FLEET_TENANT))));
    str to = name_segments(&a, name);
    char *names = memstore_names(s->store, prefix);
    char *at = names;
    for (size_t i = 0; i < most && *at; i++) {
        char *end = strchr(at, '\n');
        *end = '\0';
        char copy[256];
        snprintf(copy, sizeof copy, "%.*s%s", STR(to), at + strlen(prefix));
        memstore_set(s->store, copy, memstore_bytes(s->store, at));
        at = end + 1;
    }
    free(names);
    arena_release(&a);
    note_tenant(s, name);
}

static void scene_close(struct scene *s)
{
    store_close(s->store);
    fleet_release(&s->fleet);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->moved);
}

static void await_settled(struct peer *v, size_t n)
{
    for (int i = 0; i < AWAIT_S * 100; i++) {
        size_t settled = 0;
        for (size_t k = 0; k < n; k++)
            settled += is_settled(v[k].work);
        if (settled == n) return;
        nanosleep(&(struct timespec){.tv_nsec = 10 * NS_PER_MS}, NULL);
    }
    for (size_t k = 0; k < n; k++) {
        struct buf out;
        buf_init(&out, NULL, 1 << 20);
        work_print_json(v[k].work, &out);
        print_message("%.*s", STR(buf_view(&out)));
        buf_release(&out);
    }
    fail_msg("the compactors did not settle in %d s", AWAIT_S);
}

// All rows are in leaves, once each.
static void check_leaves(struct scene *s, str tenant, size_t segments)
{
    struct req r;
    struct snapshot snap;
    err fault = {0};
    uint64_t rows = 0;
    req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
    struct manifests *ms = manifests_open(s->store, NULL, NULL, &fault);
    assert_ok(snapshot_take(ms, &r, &r.arena, tenant, &snap, e));
    size_t n = 0;
    const struct manifest_block *v = manifest_blocks(snap.manifest, &n);
    for (size_t i = 0; i < n; i++)
        rows += v[i].kind == BLOCK_RAW ? v[i].rows : 0;
    assert_int_equal(snap.segment_count, segments);
    if (str_is(tenant, FLEET_TENANT)) assert_int_equal(rows, s->fleet.n);
    snapshot_release(&snap);
    manifests_close(ms);
    req_release(&r);
}

static void the_workers_of_a_process_share_a_tenant(void **state)
{
    (void)state;
    for (size_t k = 2; k <= WORKERS_MAX; k *= 4) {
        static struct scene s;  // a test that fails leaves its threads
        static struct peer p;
        char workers[32];
        scene_open(&s, 2, 24);
        note_tenant(&s, S(FLEET_TENANT));
        s.party = k;
        s.rounds = 48 / k;
        snprintf(workers, sizeof workers, "--compactor.workers=%zu", k);
        peer_open(&p, &s, 0, 1, workers);
        await_settled(&p, 1);
        print_message(
            "%zu workers: %zu of %zu rounds with %zu jobs at once, %zu leaves made of 48\n", k,
            s.full, s.rounds, s.most, s.created);
        assert_false(s.broken);
        assert_int_equal(s.full, s.rounds);
        assert_false(s.repeated);
        assert_int_equal(s.created, 48);  // none for nothing
        check_leaves(&s, S(FLEET_TENANT), 0);
        peer_close(&p);
        scene_close(&s);
    }
}

static void processes_share_a_tenant(void **state)
{
    (void)state;
    for (size_t k = 2; k <= WORKERS_MAX; k *= 4) {
        static struct scene s;
        static struct peer v[WORKERS_MAX];
        const size_t jobs = 7 * 24;
        scene_open(&s, 7, 24);
        note_tenant(&s, S(FLEET_TENANT));
        s.party = k;
        s.rounds = jobs / k * 8 / 10;
        for (size_t i = 0; i < k; i++)
            peer_open(&v[i], &s, i, k, "--compactor.workers=1");
        await_settled(v, k);
        print_message("%zu processes: %zu of %zu rounds full, %zu leaves made of %zu\n", k, s.full,
                      s.rounds, s.created, jobs);
        assert_false(s.broken);
        assert_int_equal(s.full, s.rounds);
        // So many jobs at once, and at least four of five not for nothing.
        assert_true(s.created * 8 <= jobs * 10);
        check_leaves(&s, S(FLEET_TENANT), 0);
        for (size_t i = 0; i < k; i++)
            peer_close(&v[i]);
        scene_close(&s);
    }
}

static void tenants_take_turns(void **state)
{
    (void)state;
    static struct scene s;  // a test that fails leaves its threads
    static struct peer p;
    scene_open(&s, 4, 24);
    copy_tenant(&s, S("zzz"), 3);
    note_tenant(&s, S(FLEET_TENANT));
    peer_open(&p, &s, 0, 1, "--compactor.workers=1");
    await_settled(&p, 1);
    size_t first = 0;
    while (first < s.created && s.order[first] != 'b')
        first++;
    print_message("of %zu leaves the first of the other tenant is number %zu\n", s.created, first);
    assert_true(first < s.created);
    assert_true(first <= 32);
    check_leaves(&s, S(FLEET_TENANT), 0);
    check_leaves(&s, S("zzz"), 0);
    peer_close(&p);
    scene_close(&s);
}

static void a_job_that_takes_hours_is_committed(void **state)
{
    (void)state;
    static struct scene s;  // a test that fails leaves its threads
    static struct peer p;
    scene_open(&s, 1, 1);
    note_tenant(&s, S(FLEET_TENANT));
    s.late_ns = 3 * SLOT_HOUR;
    peer_open(&p, &s, 0, 1, "--compactor.workers=1");
    await_settled(&p, 1);
    check_leaves(&s, S(FLEET_TENANT), 0);
    assert_int_equal(s.created, 1);
    peer_close(&p);
    scene_close(&s);
}

// While the first of eight workers commits, the others make their jobs; then one change names what
// all of them made. It would be seven, and each would wait for those before it.
static void batches_of_workers_that_wait_are_committed_together(void **state)
{
    (void)state;
    for (int take_away = 0; take_away < 2; take_away++) {
        static struct scene s;
        static struct peer p;
        scene_open(&s, 2, 24);
        s.party = WORKERS_MAX;
        s.rounds = 48 / WORKERS_MAX;
        s.batches = WORKERS_MAX - 1;
        s.take_away = take_away;
        peer_open(&p, &s, 0, 1, "--compactor.workers=8");
        s.work = p.work;
        note_tenant(&s, S(FLEET_TENANT));
        await_settled(&p, 1);
        print_message("%zu leaves by two changes, %zu were made\n", s.absorbed_by_two, s.created);
        assert_false(s.broken);
        // A change of all that is refused, as a block is gone, spoils only the one job.
        if (take_away)
            assert_in_range(s.absorbed_by_two, 7, 12);
        else
            assert_int_equal(s.absorbed_by_two, 48);
        assert_int_equal(s.created, take_away ? 49 : 48);
        check_leaves(&s, S(FLEET_TENANT), 0);
        peer_close(&p);
        scene_close(&s);
    }
}

static size_t await_created(struct scene *s, size_t leaves)
{
    size_t created = 0;
    for (int i = 0; i < AWAIT_S * 100 && created < leaves; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10 * NS_PER_MS}, NULL);
        pthread_mutex_lock(&s->lock);
        created = s->created;
        pthread_mutex_unlock(&s->lock);
    }
    return created;
}

static void nothing_is_settled_before_a_new_plan_says_so(void **state)
{
    (void)state;
    static struct scene s;
    static struct peer p;
    scene_open(&s, 2, 3);
    peer_open(&p, &s, 0, 1, "--compactor.workers=1");
    s.work = p.work;
    note_tenant(&s, S(FLEET_TENANT));
    assert_int_equal(await_created(&s, 6), 6);
    await_settled(&p, 1);
    assert_true(s.roots > 0);
    assert_false(s.told_early);
    peer_close(&p);
    scene_close(&s);
}

// Jobs that others may have done are compared with the newest version. When the process ends it
// must hold none any more (manifests_close asserts it).
static void jobs_that_fail_let_go_of_the_version_that_they_were_compared_with(void **state)
{
    (void)state;
    static struct scene s;
    static struct peer p;
    scene_open(&s, 1, 3);
    note_tenant(&s, S(FLEET_TENANT));
    peer_open(&p, &s, 0, 1, "--compactor.workers=1");
    await_settled(&p, 1);
    peer_close(&p);
    size_t before_it = s.fleet.n;
    fleet_hour(&s.fleet, HOUR_0 + 30, 3);
    fleet_flush(&s.fleet, s.store, before_it, 100);
    // As one of two processes, of which the other one is not there.
    s.refuses = true;
    peer_open(&p, &s, 0, 2, "--compactor.workers=1");
    assert_true(await_created(&s, 4) >= 4);
    peer_close(&p);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_workers_of_a_process_share_a_tenant),
        cmocka_unit_test(processes_share_a_tenant),
        cmocka_unit_test(tenants_take_turns),
        cmocka_unit_test(a_job_that_takes_hours_is_committed),
        cmocka_unit_test(batches_of_workers_that_wait_are_committed_together),
        cmocka_unit_test(nothing_is_settled_before_a_new_plan_says_so),
        cmocka_unit_test(jobs_that_fail_let_go_of_the_version_that_they_were_compared_with),
    };
    clock_take_over();
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
