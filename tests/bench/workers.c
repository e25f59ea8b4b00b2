// SPDX-License-Identifier: Apache-2.0
//
// bench.workers HOW K TENANTS HOURS MS - how fast a backlog shrinks that K workers work off, of one
// compactor (HOW: workers) or each of its own (HOW: compactors), over a store in memory that takes
// so many milliseconds for each operation and does any number at once. So they wait instead of
// computing, and two cores are enough for eight of them.
//
// Each tenant has segments of so many hours, all of which are due for days. All is one process: the
// compactors share nothing but the store, and know of each other by name.
//
// Tab-separated: seconds until no segment is left, seconds until nothing is due, leaves that were
// made, operations that somebody waited for until no segment was left.
#include "compactor/compactor.h"
#include "compactor/work.h"
#include "lib/dir.h"
#include "unit/compactor/world.h"

#include <time.h>

#define MOST       64
#define ROWS       12  // of an hour
#define OF_SEGMENT 3
#define PAUSE_NS   (20 * NS_PER_MS)

struct peer {
    char id[8];
    struct config *config;
    struct members *members;
    struct process process;
    struct work *work;
    struct store *store;
    char dir[DIR_MAX];
};

static _Atomic uint64_t leaves;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static enum memstore_fault before(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    if (ev->op == MEMSTORE_CREATE && str_contains(ev->name, S("/raw/")) &&
        str_contains(ev->name, S("-0001/")))
        atomic_fetch_add(&leaves, 1);
    return MEMSTORE_FINE;
}

static void peer_open(struct peer *p, struct store *s, uint64_t turn_ns, size_t i, size_t peers,
                      size_t workers)
{
    static const struct config_section *const sections[] = {&compactor_section};
    char count[40];
    const char *const argv[] = {"bench",
                                "--compactor.interval=1s",
                                "--compactor.hour_delay=0s",
                                "--compactor.day_delay=0s",
                                "--compactor.raw_retention=0s",
                                "--compactor.hours_retention=0s",
                                "--compactor.days_retention=0s",
                                count};
    struct config_args args;
    err fault = {0};
    snprintf(count, sizeof count, "--compactor.workers=%zu", workers);
    *p = (struct peer){.store = memstore_again(s)};
    memstore_set_turns(p->store, MOST, turn_ns);
    memstore_set_hooks(p->store, before, NULL, NULL);
    snprintf(p->id, sizeof p->id, "c%zu", i);
    dir_new(p->dir);
    p->config = config_new(sections, 1);
    assert_ok(config_load(p->config, COUNT(argv), (char **)(uintptr_t)argv, &args, e));
    assert_ok((p->members = members_new(e)) != NULL);
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
    if (!p->work) {
        fprintf(stderr, "bench.workers: %s\n", fault.msg);
        exit(1);
    }
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

// ---- the backlog

static void fill(struct store *s, struct fleet *f, size_t tenants, size_t hours)
{
    struct arena a;
    struct req r;
    arena_init(&a, NULL, 64 << 20);
    req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
    for (size_t i = 0; i < hours; i++)
        fleet_hour(f, HOUR_0 + (int64_t)i, ROWS);
    fleet_flush(f, s, 0, OF_SEGMENT);
    str from = name_segments(&a, S(FLEET_TENANT));
    char *names = memstore_names(s, arena_printf(&a, "%.*s", STR(from)).p);
    struct manifests *ms = NULL;
    assert_ok((ms = manifests_open(s, NULL, NULL, e)) != NULL);
    assert_ok(tenants_note(ms, &r, S(FLEET_TENANT), e));
    for (size_t t = 1; t < tenants; t++) {
        str name = arena_printf(&a, "tenant-%zu", t);
        str to = name_segments(&a, name);
        str rest = str_of(names);
        while (rest.n) {
            str one = str_split(rest, '\n', &rest);
            str copy = arena_printf(&a, "%.*s%.*s", STR(to),
                                    STR(str_make(one.p + from.n, one.n - from.n)));
            str source = arena_printf(&a, "%.*s", STR(one));
            memstore_set(s, copy.p, memstore_bytes(s, source.p));
        }
        assert_ok(tenants_note(ms, &r, name, e));
    }
    free(names);
    manifests_close(ms);
    req_release(&r);
    arena_release(&a);
}

// Does a tenant have segments that no leaf has?
static bool has_segments(struct manifests *ms, size_t tenants)
{
    bool has = false;
    for (size_t t = 0; t < tenants && !has; t++) {
        struct req r;
        struct snapshot snap;
        req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
        str name = t ? arena_printf(&r.arena, "tenant-%zu", t) : S(FLEET_TENANT);
        assert_ok(snapshot_take(ms, &r, &r.arena, name, &snap, e));
        has = snap.segment_count > 0;
        snapshot_release(&snap);
        req_release(&r);
    }
    return has;
}

static bool is_settled(struct peer *p)
{
    struct buf out;
    buf_init(&out, NULL, 1 << 24);
    work_print_json(p->work, &out);
    bool is = str_contains(buf_view(&out), S("\"settled\":true")) &&
              str_contains(buf_view(&out), S("\"jobs_running\":0"));
    buf_release(&out);
    return is;
}

static void pause_a_moment(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

// Those that are asked for together are one.
static uint64_t operations(struct peer *v, size_t peers)
{
    uint64_t n = 0;
    for (size_t i = 0; i < peers; i++)
        n += memstore_totals(v[i].store).turns;
    return n;
}

static void measure(struct store *s, struct peer *v, size_t peers, size_t tenants, double began)
{
    struct manifests *ms = NULL;
    assert_ok((ms = manifests_open(s, NULL, NULL, e)) != NULL);
    while (has_segments(ms, tenants))
        pause_a_moment();
    double absorbed = seconds() - began;
    uint64_t waits = operations(v, peers);
    for (size_t i = 0; i < peers; i++) {
        while (!is_settled(&v[i]))
            pause_a_moment();
    }
    printf("%.2f\t%.2f\t%llu\t%llu\n", absorbed, seconds() - began,
           (unsigned long long)atomic_load(&leaves), (unsigned long long)waits);
    manifests_close(ms);
}

int main(int argc, char **argv)
{
    static struct peer v[MOST];
    struct fleet fleet;
    if (argc != 6) {
        fprintf(stderr, "usage: bench.workers workers|compactors K TENANTS HOURS MS\n");
        return 2;
    }
    bool apart = strcmp(argv[1], "compactors") == 0;
    size_t k = (size_t)strtoull(argv[2], NULL, 10);
    size_t tenants = (size_t)strtoull(argv[3], NULL, 10);
    size_t hours = (size_t)strtoull(argv[4], NULL, 10);
    uint64_t turn_ns = strtoull(argv[5], NULL, 10) * (uint64_t)NS_PER_MS;
    size_t peers = apart ? k : 1;
    if (k == 0 || k > MOST || tenants == 0) return 2;
    log_set_level(LOG_ERROR);
    struct store *s = memstore_open();
    fleet_init(&fleet, 5);
    fill(s, &fleet, tenants, hours);
    double began = seconds();
    for (size_t i = 0; i < peers; i++)
        peer_open(&v[i], s, turn_ns, i, peers, apart ? 1 : k);
    measure(s, v, peers, tenants, began);
    for (size_t i = 0; i < peers; i++)
        peer_close(&v[i]);
    fleet_release(&fleet);
    store_close(s);
    return fflush(stdout) != 0;
}
