// SPDX-License-Identifier: Apache-2.0
//
// walk - random walks through flush, compaction, sweeps, crashes and questions.
//
//     walk [WALKS [SEED [STEPS [MISTAKE]]]]
//
// No acknowledged row may be lost or doubled in any answer. After the walks the mistakes that the
// walk must find are made, each in as many walks as it takes (a bounded number); those that take
// long only where at least WALKS_LONG walks are asked for, as in the nightly run. With MISTAKE all
// walks make that one, and none where it is "none". WALKS may be 0. The seed is printed and can be
// given; FLAMETREE_WALK_SEED does the same where none is given, or "drawn" is. Where logs are, each
// walk draws; FLAMETREE_WALK_LOG=local or object has it in all. FLAMETREE_WALK_STORE with
// s3://BUCKET/PREFIX has the walk in a bucket of a real service (place.h).
#include "walk/log.h"
#include "walk/place.h"
#include "walk/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WALKS       50
#define STEPS       700
#define WALKS_LONG  500
#define WALKS_FAULT 400  // most that a mistake may take to be found; about ten do

static void add(struct walk_counts *to, const struct walk_counts *c)
{
    uint64_t *a = (uint64_t *)to;
    const uint64_t *b = (const uint64_t *)c;
    for (size_t i = 0; i < sizeof *to / sizeof *a; i++)
        a[i] += b[i];
}

// While an ingester starts again, seldom: questions would be refused one after the other.
static bool is_down(struct world *w)
{
    bool down = false;
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->node_count; i++)
        down |= !w->nodes[i].up;
    pthread_mutex_unlock(&w->lock);
    return down;
}

static void pass_time(struct world *w)
{
    bool far = w->retention_ns && (roll(&w->dice, 2) == 0 || w->mistake == HURRIED);
    int64_t ns = (int64_t)roll(&w->dice, far ? 12 * SLOT_HOUR : 25 * SLOT_MINUTE);
    ns = MIN(ns, stall_room_ns(w));
    home_pass(w, ns);
    world_advance(ns);
    if (w->retention_ns || w->in_store) (void)walk_start(w, ACT_ROLL);
}

// What a mistake needs to show happens more often in its walks: in one of so many steps.
static const struct {
    enum actor_kind kind;
    unsigned once_in;  // 0: as often as in any walk
} favourites[MISTAKES] = {
    [OLD_ROOT] = {ACT_SWEEP, 6},    [NAMED_AGAIN] = {ACT_COMPACT, 8},
    [READY_EARLY] = {ACT_FLUSH, 4}, [SILENT_LOSS] = {ACT_CRASH, 20},
    [ULID_ALONE] = {ACT_SWEEP, 8},  [HURRIED] = {ACT_STALL, 12},
    [EARLY_ACK] = {ACT_CRASH, 25},  [NEWEST_GONE] = {ACT_CRASH, 25},
    [UNREAD] = {ACT_CRASH, 25},     [UNSETTLED] = {ACT_CRASH, 25},
    [SURE_HOME] = {ACT_PUSH, 8},    [LIST_ALONE] = {ACT_QUERY, 8},
    [FORGETFUL] = {ACT_FLUSH, 6},
};

static void step(struct world *w)
{
    static const struct {
        unsigned until;  // of 100
        enum actor_kind kind;
    } starts[] = {{24, ACT_QUERY}, {30, ACT_FLUSH}, {37, ACT_COMPACT}, {40, ACT_SWEEP},
                  {41, ACT_CRASH}, {43, ACT_STALL}, {44, ACT_CROWD}};
    if (w->in_store && roll(&w->dice, 40) == 0) home_land(w);
    if (w->in_store && roll(&w->dice, 12) == 0) (void)walk_start(w, ACT_ADOPT);
    if (w->in_store && roll(&w->dice, 70) == 0) (void)walk_start(w, ACT_CRASH);
    unsigned n = gate_count(&w->gate);
    uint64_t what = roll(&w->dice, 100);
    w->counts.steps++;
    unsigned favoured = favourites[w->mistake].once_in;
    if (favoured && roll(&w->dice, favoured) == 0) (void)walk_start(w, favourites[w->mistake].kind);
    if (is_down(w) && roll(&w->dice, 50)) {
        if (n) gate_grant(&w->gate, (unsigned)roll(&w->dice, n));
        if (!n) gate_settle(&w->gate, gate_moves(&w->gate));
        w->counts.steps--;
    } else if (n && roll(&w->dice, 100) < 70) {
        gate_grant(&w->gate, (unsigned)roll(&w->dice, n));
    } else if (what >= (w->retention_ns ? 88 : 95)) {
        pass_time(w);
    } else if (what >= 45) {
        walk_push(w);
    } else {
        for (size_t i = 0; i < COUNT(starts); i++) {
            if (what >= starts[i].until) continue;
            (void)walk_start(w, starts[i].kind);
            break;
        }
    }
    walk_reap(w, false);
}

// True if nothing was found.
static bool walk(uint64_t seed, unsigned steps, enum mistake mistake, struct walk_counts *counts,
                 char *fault, size_t n)
{
    static struct world w;
    world_open(&w, seed, mistake);
    gate_open(&w.gate, false);
    walk_log_on(&w);
    while (w.counts.steps < steps && !world_failed(&w))
        step(&w);
    atomic_store(&w.calm, true);
    gate_open(&w.gate, true);
    walk_reap(&w, true);
    walk_settle(&w);
    walk_log_off();
    snprintf(fault, n, "%s", w.fault);
    w.counts.worlds = w.in_store;
    add(counts, &w.counts);
    world_close(&w);
    return fault[0] == '\0';
}

static void print_counts(const struct walk_counts *c)
{
    printf("%" PRIu64 " steps, %" PRIu64 " rows, %" PRIu64 " repeated, ", c->steps, c->pushed,
           c->repeated);
    printf("%" PRIu64 " flushes, %" PRIu64 " crashes, ", c->flushes, c->crashes);
    printf("%" PRIu64 " writes of logs failed, %" PRIu64 " rows lost, ", c->broken, c->lost);
    printf("%" PRIu64 " jobs (%" PRIu64 " more gave way), %" PRIu64 " whole compactors, %" PRIu64
           " leaves expired, ",
           c->jobs, c->aborted, c->crowds, c->expired);
    printf("%" PRIu64 " sweeps deleted %" PRIu64 ", ", c->sweeps, c->deleted);
    printf("%" PRIu64 " stalls, %" PRIu64 " pushes landed after them, ", c->stalls, c->landed);
    printf("%" PRIu64 " walks with logs in the store, %" PRIu64 " late creations, %" PRIu64
           " disks gone, %" PRIu64 " streams adopted, %" PRIu64 " brief lives, %" PRIu64
           " objects of logs cleared away, %" PRIu64 " entries met something in their place, ",
           c->worlds, c->late, c->wiped, c->adopted, c->brief, c->cleared, c->met);
    printf("%" PRIu64 " questions, %" PRIu64 " answered exactly, %" PRIu64 " rounded, ", c->queries,
           c->exact, c->rounded);
    printf("%" PRIu64 " in part, %" PRIu64 " refused\n", c->partial, c->refused);
}

static bool find_mistake(enum mistake m, uint64_t seed, unsigned steps)
{
    struct walk_counts counts = {0};
    char fault[8000];
    for (unsigned i = 0; i < WALKS_FAULT; i++) {
        if (walk(seed + i, steps, m, &counts, fault, sizeof fault)) continue;
        const char *explained = strstr(fault, "; {");
        int n = (int)(explained ? explained - fault : (long)strlen(fault));
        printf("%s: found in walk %u: %.*s\n", mistake_names[m], i + 1, n, fault);
        fflush(stdout);
        return true;
    }
    printf("FAILED: %s was not found in %d walks from seed %" PRIu64 "\n", mistake_names[m],
           WALKS_FAULT, seed);
    print_counts(&counts);
    return false;
}

static uint64_t number(int argc, char **argv, int i, uint64_t fallback)
{
    uint64_t v = fallback;
    if (argc > i && !str_u64(str_of(argv[i]), &v)) exit(2);
    return v;
}

int main(int argc, char **argv)
{
    struct walk_counts counts = {0};
    char fault[8000];
    const char *given = getenv("FLAMETREE_WALK_SEED");
    uint64_t seed = (uint64_t)time(NULL);
    if (given && !str_u64(str_of(given), &seed)) return 2;
    unsigned walks = (unsigned)number(argc, argv, 1, WALKS);
    if (argc > 2 && strcmp(argv[2], "drawn") != 0) seed = number(argc, argv, 2, seed);
    unsigned steps = (unsigned)number(argc, argv, 3, STEPS);
    enum mistake mistake = NO_MISTAKE;
    for (int i = 1; argc > 4 && i < MISTAKES; i++)
        if (strcmp(argv[4], mistake_names[i]) == 0) mistake = (enum mistake)i;
    log_set_level(LOG_ERROR);
    // Nobody loses power here: logs on a disk would only make it wait.
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    world_clock_open();
    place_set(getenv("FLAMETREE_WALK_STORE"));
    printf("seed %" PRIu64 ", %u walks of %u steps\n", seed, walks, steps);
    fflush(stdout);
    for (unsigned i = 0; i < walks; i++) {
        if (walk(seed + i, steps, mistake, &counts, fault, sizeof fault)) continue;
        printf("FAILED: walk %" PRIu64 ": %s\n", seed + i, fault);
        print_counts(&counts);
        return 1;
    }
    print_counts(&counts);
    for (int i = 1; argc <= 4 && i < MISTAKES; i++) {
        bool takes_long = i == HURRIED;
        if (takes_long && walks < WALKS_LONG) continue;
        if (!find_mistake((enum mistake)i, seed, steps)) return 1;
    }
    return 0;
}
