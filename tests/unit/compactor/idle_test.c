// SPDX-License-Identifier: Apache-2.0
//
// Hundreds of tenants that are known and a few that have something to do, two compactors, and a
// clock that the test moves on by minutes: LISTs of each tenant are counted, and what is noted of
// one. A tenant that becomes busy is compacted when its hour says.
#include "compactor/compactor.h"
#include "compactor/work_int.h"
#include "lib/clock.h"
#include "lib/dir.h"
#include "unit/compactor/fleet.h"

#define IDLE      300
#define PEERS     2
#define MINUTES   120   // that are looked at
#define TENANT_SZ 1024  // bytes that are noted of one at most
#define AWAIT_S   120

struct peer {
    char id[8];
    struct config *config;
    struct members *members;
    struct process process;
    struct work *work;
    struct store *store;
    char dir[DIR_MAX];
};

static struct scene {
    struct store *store;
    pthread_mutex_t lock;
    int minute;
    uint32_t lists[IDLE];        // looks
    uint32_t first_lists[IDLE];  // by the first peer
    int last[IDLE];              // minute of the last
    int least_apart;
    uint32_t busy_lists;
    uint32_t sweep_lists;
} scene;

static size_t idle_number(str name)
{
    static const char mark[] = "/idle-";
    const char *at = memmem(name.p, name.n, mark, strlen(mark));
    return at ? (size_t)strtoull(at + strlen(mark), NULL, 10) : IDLE;
}

static enum memstore_fault before(void *arg, const struct memstore_event *ev)
{
    const struct peer *p = arg;
    if (ev->op != MEMSTORE_LIST) return MEMSTORE_FINE;
    bool inspections = str_ends(ev->name, S("/live/"));
    size_t i = idle_number(ev->name);
    pthread_mutex_lock(&scene.lock);
    scene.busy_lists += inspections && i == IDLE;
    scene.sweep_lists += !inspections && i < IDLE;
    if (inspections && i < IDLE) {
        if (scene.lists[i]++)
            scene.least_apart = MIN(scene.least_apart, scene.minute - scene.last[i]);
        scene.first_lists[i] += p->id[1] == '0';
        scene.last[i] = scene.minute;
    }
    pthread_mutex_unlock(&scene.lock);
    return MEMSTORE_FINE;
}

static void peer_open(struct peer *p, size_t i)
{
    static const struct config_section *const sections[] = {&compactor_section};
    const char *const argv[] = {"test", "--compactor.workers=1"};
    struct config_args args;
    *p = (struct peer){.store = memstore_again(scene.store)};
    snprintf(p->id, sizeof p->id, "c%zu", i);
    memstore_set_hooks(p->store, before, NULL, p);
    dir_new(p->dir);
    p->config = config_new(sections, 1);
    assert_ok(config_load(p->config, COUNT(argv), (char **)(uintptr_t)argv, &args, e));
    err fault = {0};
    p->members = members_new(&fault);
    for (size_t k = 0; k < PEERS; k++) {
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

// Is there nothing to do for it now?
static bool is_quiet(struct peer *p)
{
    struct work *w = p->work;
    lock_take(&w->lock);
    uint64_t now = clock_mono_ns();
    bool is = w->listed && !w->listing && now < w->next_list_mono_ns;
    for (size_t i = 0; i < w->tenant_count; i++) {
        const struct tenant_work *t = w->tenants[i];
        is = is && !t->workers && !t->planning && t->inspected && !work_is_wanted(t, now);
    }
    cond_wake_all(&w->wake);
    lock_give(&w->lock);
    return is;
}

static void await_quiet(struct peer *v)
{
    for (int i = 0; i < AWAIT_S * 1000; i++) {
        bool all = true;
        for (size_t k = 0; k < PEERS; k++)
            all = is_quiet(&v[k]) && all;
        if (all) return;
        nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
    }
    fail_msg("the compactors were not done with a minute in %d s", AWAIT_S);
}

static void pass_minute(struct peer *v)
{
    pthread_mutex_lock(&scene.lock);
    scene.minute++;
    pthread_mutex_unlock(&scene.lock);
    // A tenant may become due just now. Whoever sees but one clock moved takes it to be due a
    // minute late; in the other order a minute early, and looks at it again in its minute.
    clock_pass_mono(SLOT_MINUTE);
    clock_pass(SLOT_MINUTE);
    await_quiet(v);
}

static void note_tenant(const char *name)
{
    struct req r;
    err fault = {0};
    struct manifests *ms = manifests_open(scene.store, NULL, NULL, &fault);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    assert_ok(tenants_note(ms, &r, str_of(name), e));
    req_release(&r);
    manifests_close(ms);
}

// The segments of the one tenant that has some are those of another one as well.
static void give_segments(const char *tenant)
{
    struct arena a;
    char prefix[128];
    arena_init(&a, NULL, 1 << 20);
    snprintf(prefix, sizeof prefix, "%.*s", STR(name_segments(&a, S(FLEET_TENANT))));
    char *names = memstore_names(scene.store, prefix);
    for (char *at = names, *end; *at; at = end + 1) {
        char copy[256];
        end = strchr(at, '\n');
        *end = '\0';
        snprintf(copy, sizeof copy, "%.*s%s", STR(name_segments(&a, str_of(tenant))),
                 at + strlen(prefix));
        memstore_set(scene.store, copy, memstore_bytes(scene.store, at));
    }
    free(names);
    arena_release(&a);
}

static bool has_leaf(const char *tenant)
{
    char mark[64];
    snprintf(mark, sizeof mark, "/%s/raw/", tenant);
    char *names = memstore_names(scene.store, "");
    bool has = strstr(names, mark) != NULL;
    free(names);
    return has;
}

static size_t noted_bytes(struct peer *p)
{
    lock_take(&p->work->lock);
    size_t bytes = atomic_load(&p->work->memory.used) / p->work->tenant_count;
    lock_give(&p->work->lock);
    return bytes;
}

static uint64_t turns_inspected(struct peer *p)
{
    lock_take(&p->work->lock);
    uint64_t n = p->work->turns_inspected;
    lock_give(&p->work->lock);
    return n;
}

static void idle_tenants_are_looked_at_once_in_ten_minutes_by_all_together(void **state)
{
    (void)state;
    static struct peer v[PEERS];  // a test that fails leaves its threads
    struct fleet fleet;
    scene = (struct scene){.store = memstore_open(), .least_apart = INT_MAX};
    pthread_mutex_init(&scene.lock, NULL);
    fleet_init(&fleet, 5);
    for (size_t i = 0; i < IDLE; i++) {
        char name[32];
        snprintf(name, sizeof name, "idle-%03zu", i);
        note_tenant(name);
    }
    note_tenant(FLEET_TENANT);
    // At the beginning of an hour, and its first segments.
    clock_pass(slot_start(slot_of(clock_wall_ns(), SLOT_HOUR) + 1, SLOT_HOUR) - clock_wall_ns());
    int64_t hour = slot_of(clock_wall_ns() + SLOT_MINUTE, SLOT_HOUR);
    fleet_hour(&fleet, hour, 3);
    fleet_flush(&fleet, scene.store, 0, 100);
    for (size_t k = 0; k < PEERS; k++)
        peer_open(&v[k], k);
    await_quiet(v);
    pthread_mutex_lock(&scene.lock);
    memset(scene.lists, 0, sizeof scene.lists);
    memset(scene.first_lists, 0, sizeof scene.first_lists);
    scene.busy_lists = scene.sweep_lists = 0;
    scene.least_apart = INT_MAX;
    pthread_mutex_unlock(&scene.lock);
    uint64_t inspected = turns_inspected(&v[0]);
    for (int i = 0; i < MINUTES; i++) {
        pass_minute(v);
        // An hour's first leaf comes at its end + 75 minutes.
        int64_t late = clock_wall_ns() - (slot_start(hour + 1, SLOT_HOUR) + 75 * SLOT_MINUTE);
        if (late < 0) assert_false(has_leaf(FLEET_TENANT));
        if (late > SLOT_MINUTE + SLOT_MINUTE / 2) assert_true(has_leaf(FLEET_TENANT));
    }
    uint32_t all = 0;
    uint32_t first = 0;
    pthread_mutex_lock(&scene.lock);
    for (size_t i = 0; i < IDLE; i++) {
        assert_in_range(scene.lists[i], MINUTES / 10 - 1, MINUTES / 10 + 1);
        all += scene.lists[i];
        first += scene.first_lists[i];
    }
    inspected = turns_inspected(&v[0]) - inspected;
    print_message("%d idle tenants, %d compactors, %d minutes: %u looks (%u of them the first "
                  "compactor's), %d minutes apart at least; %u of the busy one, %u LISTs of "
                  "sweeps; %zu bytes noted of each, %.1f tenants passed for a turn\n",
                  IDLE, PEERS, MINUTES, all, first, scene.least_apart, scene.busy_lists,
                  scene.sweep_lists, noted_bytes(&v[0]),
                  (double)inspected / (double)(first + scene.busy_lists + MINUTES));
    assert_true(scene.least_apart >= 9);
    assert_in_range(first, all / 4, all - all / 4);
    assert_true(scene.busy_lists >= MINUTES);  // by one of them each minute
    // Each of the two sweeps each of them once at first, then more and more seldom.
    assert_true(scene.sweep_lists <= IDLE * PEERS * 8 * 2);
    assert_true(noted_bytes(&v[0]) < TENANT_SZ);
    assert_true(inspected <= 4 * (uint64_t)(first + scene.busy_lists + MINUTES));
    pthread_mutex_unlock(&scene.lock);

    // Two that become busy.
    hour = slot_of(clock_wall_ns() + SLOT_MINUTE, SLOT_HOUR);
    size_t before = fleet.n;
    fleet_hour(&fleet, hour, 3);
    fleet_flush(&fleet, scene.store, before, 100);
    give_segments("idle-007");
    give_segments("idle-100");
    while (clock_wall_ns() <= slot_start(hour + 1, SLOT_HOUR) + 77 * SLOT_MINUTE)
        pass_minute(v);
    assert_true(has_leaf("idle-007"));
    assert_true(has_leaf("idle-100"));
    for (size_t k = 0; k < PEERS; k++)
        peer_close(&v[k]);
    store_close(scene.store);
    fleet_release(&fleet);
    pthread_mutex_destroy(&scene.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_tenants_are_looked_at_once_in_ten_minutes_by_all_together)};
    clock_take_over();
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
