// SPDX-License-Identifier: Apache-2.0
//
// The owner of a job follows from names alone: rendezvous hashing of the tenant and the job's hour
// or day over the live compactors (cluster/place.h). No process asks another one. Processes that
// see different members may both do a job; then only one of them commits it.
#include "compactor/share.h"

#include "base/hash.h"
#include "cluster/place.h"

#include <stdlib.h>

#define HOURS_A_DAY 24
#define OF_DAYS     (UINT64_C(1) << 62)  // numbers of days are none of hours
#define OF_TENANT   (UINT64_C(1) << 63)  // nor is what stands for all of them

// A job on its way to be a pick.
struct candidate {
    size_t job;
    size_t place;       // of this process for it; 0: it is its own
    size_t from_end;    // of its owner's jobs: how many come behind it
    uint64_t shuffled;  // where nothing is known of others
    uint32_t owner;
};

// Jobs of a unit go to the same process: those of a day, as one reads what the other made. Leaves
// of hours are units of their own, so that many processes share the hours of a busy tenant.
static uint64_t unit_of(const struct task *j)
{
    bool hour = j->hours == 1 && (j->kind == JOB_LEAF || j->kind == JOB_FOLD);
    if (hour) return (uint64_t)j->from_hour;
    int64_t day = j->from_hour / HOURS_A_DAY - (j->from_hour % HOURS_A_DAY < 0);
    return OF_DAYS | (uint64_t)day;
}

static int by_place(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    bool own = x->place == 0 && y->place == 0;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    if (!own && x->from_end != y->from_end) return x->from_end < y->from_end ? -1 : 1;
    return x->job < y->job ? -1 : x->job > y->job;
}

static int by_shuffle(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (x->shuffled != y->shuffled) return x->shuffled < y->shuffled ? -1 : 1;
    return x->job < y->job ? -1 : x->job > y->job;
}

static uint64_t shuffle(const struct share *s, uint64_t unit)
{
    struct hash_state h;
    hash_begin(&h);
    hash_add(&h, s->me.p, s->me.n);
    hash_add(&h, "\xff", 1);
    hash_add(&h, s->tenant.p, s->tenant.n);
    hash_add(&h, &unit, sizeof unit);
    return hash_end(&h);
}

// The live ones, and this process, which is. How many; 0: it is not among them, or alone.
static size_t living(const struct share *s, struct member *to)
{
    size_t n = 0;
    bool listed = false;
    for (size_t i = 0; i < s->member_count; i++) {
        bool me = str_eq(s->members[i].id, s->me);
        listed = listed || me;
        if (!me && !s->members[i].alive) continue;
        to[n] = s->members[i];
        to[n++].alive = true;
    }
    assert(n <= s->member_count);
    return listed && n > 1 ? n : 0;
}

static size_t my_place(const struct share *s, const struct member *m, const uint32_t *order)
{
    size_t place = 0;
    while (!str_eq(m[order[place]].id, s->me))
        place++;  // living() put this process among them
    return place;
}

struct share_place share_place_of(struct arena *a, const struct share *s)
{
    static const struct place_options all = {0};
    struct member *m = ARENA_ARRAY(a, struct member, s->member_count + 1);
    uint32_t *order = ARENA_ARRAY(a, uint32_t, s->member_count + 1);
    size_t n = m && order ? living(s, m) : 0;
    if (n == 0) return (struct share_place){.count = 1};
    place_order(m, n, &all, s->tenant, (str){0}, OF_TENANT, order);
    return (struct share_place){my_place(s, m, order), n};
}

bool share_is_few(const struct plan *p, const struct share *s)
{
    uint64_t bytes = 0;
    if (s->behind || p->n > SHARE_FEW) return false;
    for (size_t i = 0; i < p->n; i++)
        bytes += p->jobs[i].bytes;
    return bytes <= SHARE_FEW_BYTES;
}

// Inspections 0, 2, 4 ... are the first one's, those between go round among the others: a tenant is
// noticed even if the first one lives but does nothing.
static bool is_mine(const struct share_place *p, int64_t number)
{
    assert(number >= 0 && p->place < MAX(p->count, 1u));
    if (p->count < 2) return true;
    if (number % 2 == 0) return p->place == 0;
    return p->place == 1 + (uint64_t)(number / 2) % (p->count - 1);
}

int64_t share_idle_inspect(const struct share_place *p, str tenant, int64_t every_ns,
                           int64_t now_ns)
{
    assert(every_ns > 0);
    int64_t phase = (int64_t)(hash_str(tenant) % (uint64_t)every_ns);
    int64_t number = MAX(now_ns - phase, 0) / every_ns + 1;
    while (!is_mine(p, number))
        number++;
    return number * every_ns + phase;
}

static void find_places(const struct plan *p, const struct share *s, const struct member *m,
                        size_t n, uint32_t *order, size_t *count, struct candidate *v)
{
    static const struct place_options all = {0};
    bool few = share_is_few(p, s);
    for (size_t i = 0; i < p->n; i++) {
        uint64_t unit = few ? OF_TENANT : unit_of(&p->jobs[i]);
        place_order(m, n, &all, s->tenant, (str){0}, unit, order);
        v[i].owner = order[0];
        v[i].place = my_place(s, m, order);
    }
    for (size_t i = p->n; i-- > 0;)
        v[i].from_end = count[v[i].owner]++;
    qsort(v, p->n, sizeof *v, by_place);
}

struct share_pick *share_order(struct arena *a, const struct plan *p, const struct share *s, err *e)
{
    struct member *m = ARENA_ARRAY(a, struct member, s->member_count + 1);
    uint32_t *order = ARENA_ARRAY(a, uint32_t, s->member_count + 1);
    size_t *count = ARENA_ARRAY(a, size_t, s->member_count + 1);
    struct candidate *v = ARENA_ARRAY(a, struct candidate, p->n + 1);
    struct share_pick *out = ARENA_ARRAY(a, struct share_pick, p->n + 1);
    if (!m || !order || !count || !v || !out) {
        (void)arena_fail(a, e);
        return NULL;
    }
    size_t n = living(s, m);
    for (size_t i = 0; i < p->n; i++)
        v[i] = (struct candidate){.job = i, .shuffled = shuffle(s, unit_of(&p->jobs[i]))};
    if (n)
        find_places(p, s, m, n, order, count, v);
    else if (s->raced && p->n)
        qsort(v, p->n, sizeof *v, by_shuffle);
    for (size_t i = 0; i < p->n; i++) {
        const struct task *j = &p->jobs[v[i].job];
        bool waits = v[i].place && !s->behind;
        out[i] = (struct share_pick){.job = v[i].job,
                                     .shared = n ? v[i].place || s->behind : s->raced,
                                     .from_ns = INT64_MIN};
        if (waits) out[i].from_ns = j->due_ns + (int64_t)v[i].place * SHARE_WAIT_NS;
    }
    return out;
}
