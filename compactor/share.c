// SPDX-License-Identifier: Apache-2.0
//
// The owner of a job follows from names alone (cluster/place.h). No process asks another one.
// Processes that see different members may both do a job; then only one of them commits it.
//
//     in time   rendezvous hashing of the tenant and the job's hour or day over the live compactors
//     behind    the live compactors have the parts of the backlog in turn, six hours or four days
//               each: all have equally much, whatever is done of it already. What a process commits
//               together is of few days, each of which has a page of the manifest
//
// Nobody knows which jobs an owner has made and not yet committed. So helpers begin at the end of
// its jobs and leave the next ones to it. They share the rest: each takes one of n - 1. A helper
// that has done its share plans anew, and has one of what is left then.
#include "compactor/share.h"

#include "base/hash.h"
#include "cluster/place.h"

#include <stdlib.h>

#define HOURS_A_DAY 24
#define PART_HOURS  6
#define PART_DAYS   4
#define OF_DAYS     (UINT64_C(1) << 62)  // numbers of days are none of hours
#define OF_TENANT   (UINT64_C(1) << 63)  // nor is what stands for all of them

// A job on its way to be a pick.
struct candidate {
    size_t job;
    size_t place;       // of this process for it; 0: it is its own
    size_t from_end;    // of its owner's jobs: how many come behind it
    size_t turn;        // of this process among its helpers
    bool next;          // its owner is about to do it
    uint64_t shuffled;  // where nothing is known of others
    uint32_t owner;
};

static int64_t day_of(const struct task *j)
{
    return j->from_hour / HOURS_A_DAY - (j->from_hour % HOURS_A_DAY < 0);
}

// Jobs of a unit go to the same process: those of a day, as one reads what the other made. Leaves
// of hours are units of their own, so that many processes share the hours of a busy tenant.
static uint64_t unit_of(const struct task *j)
{
    bool hour = j->hours == 1 && (j->kind == JOB_LEAF || j->kind == JOB_FOLD);
    return hour ? (uint64_t)j->from_hour : OF_DAYS | (uint64_t)day_of(j);
}

static uint64_t part_of(const struct task *j)
{
    bool hour = j->hours == 1 && (j->kind == JOB_LEAF || j->kind == JOB_FOLD);
    return hour ? (uint64_t)(j->from_hour / PART_HOURS) : (uint64_t)(day_of(j) / PART_DAYS);
}

static int by_place(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    bool own = x->place == 0 && y->place == 0;
    if (!x->place != !y->place) return x->place ? 1 : -1;
    if (x->next != y->next) return x->next ? 1 : -1;
    if (!own && x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
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

bool share_is_few(const struct plan *p)
{
    uint64_t bytes = 0;
    if (p->n > SHARE_FEW) return false;
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

// Who owns each job, and the place of this process for it.
static void find_owners(const struct plan *p, const struct share *s, const struct member *m,
                        size_t n, uint32_t *order, struct candidate *v)
{
    static const struct place_options all = {0};
    bool few = share_is_few(p);
    place_order(m, n, &all, s->tenant, (str){0}, OF_TENANT, order);
    size_t mine = my_place(s, m, order);
    for (size_t i = 0; (few || s->behind) && i < p->n; i++) {
        size_t first = few ? 0 : (size_t)(part_of(&p->jobs[i]) % n);
        v[i].owner = order[first];
        v[i].place = (mine + n - first) % n;
    }
    for (size_t i = 0; !few && !s->behind && i < p->n; i++) {
        place_order(m, n, &all, s->tenant, (str){0}, unit_of(&p->jobs[i]), order);
        v[i].owner = order[0];
        v[i].place = my_place(s, m, order);
    }
}

static void find_places(const struct plan *p, const struct share *s, const struct member *m,
                        size_t n, uint32_t *order, size_t *count, struct candidate *v)
{
    bool few = share_is_few(p);
    find_owners(p, s, m, n, order, v);
    for (size_t i = p->n; i-- > 0;)
        v[i].from_end = count[v[i].owner]++;
    for (size_t i = 0; i < p->n; i++) {
        size_t all = count[v[i].owner];
        if (v[i].place == 0) continue;
        v[i].turn = s->behind ? (v[i].from_end + n - v[i].place) % (n - 1) : v[i].place;
        v[i].next = few || v[i].from_end + MAX(all / 4, SHARE_NEXT) >= all;
    }
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
        int64_t due_ns = p->jobs[v[i].job].due_ns;
        bool helps = v[i].place > 0;
        out[i] = (struct share_pick){.job = v[i].job,
                                     .helps = helps,
                                     .shared = n ? helps || s->behind : s->raced,
                                     .from_ns = INT64_MIN};
        if (helps && !s->behind) out[i].from_ns = due_ns + (int64_t)v[i].place * SHARE_WAIT_NS;
        if (helps && s->behind && s->moves && (v[i].next || v[i].turn)) out[i].from_ns = INT64_MAX;
    }
    return out;
}
