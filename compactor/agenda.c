// SPDX-License-Identifier: Apache-2.0
//
// agenda.c - plans that the workers of a process share: one worker makes a plan, all take its jobs.
//
// A worker holds its jobs until they are committed or given up. Nobody begins a job that has to do
// with a held one: one of the two would be work for nothing. A plan that is made meanwhile lists
// held jobs again; they go on being held. All of this only saves work: if it were wrong, the
// manifest would refuse a commit, as it does between processes.
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "sys/clock.h"

#define PLAN_BYTES ((size_t)1 << 30)           // cap of a snapshot and its plan
#define LIST_NS    ((uint64_t)600 * NS_PER_S)  // for reading both
#define RACED_NS   ((uint64_t)600 * NS_PER_S)  // after a lost job others are assumed to be at work
#define LATE_NS    ((int64_t)SHARE_WAIT_NS)    // a job due for so long: the tenant is behind
#define MOVES_NS   (60 * (int64_t)NS_PER_S)    // a block was made so lately: somebody is at work

// ---- making

static bool leaf_counts(void *arg, id128 leaf)
{
    return manifest_counts(arg, leaf);
}

static struct plan_settings settings_of(const struct compactor_config *c, const struct keep *keep,
                                        bool asked)
{
    return (struct plan_settings){.leaf_delay = c->leaf_delay,
                                  .hour_delay = c->hour_delay,
                                  .day_delay = c->day_delay,
                                  .pack_interval = c->repack_interval,
                                  .fold_interval = c->fold_interval,
                                  .window_interval = c->window_interval,
                                  .day_leaf_bytes = c->day_leaf ? c->pack_bytes : 0,
                                  .much_bytes = c->much_bytes,
                                  .much_sources = (size_t)c->much_sources,
                                  .asked = asked,
                                  .leaf_stay = c->fold_interval,
                                  .deletion_stay = c->deletion_stay,
                                  .raw_retention = keep->raw_ns,
                                  .hours_retention = keep->hours_ns,
                                  .days_retention = keep->days_ns};
}

static bool make_plan(struct work *w, struct tenant_work *t, struct agenda *a, err *e)
{
    const struct snapshot *s = &a->snapshot;
    struct hold hold = {.wish = &t->wish, .over = a->round};
    struct plan_state state = {.segments = s->segments,
                               .segment_count = s->segment_count,
                               .counts = leaf_counts,
                               .arg = s->manifest,
                               .may_go = hold_may_go,
                               .go_arg = &hold,
                               .now_ns = a->begun_ns};
    state.blocks = manifest_blocks(s->manifest, &state.block_count);
    bool *segments = ARENA_ARRAY(&a->arena, bool, state.segment_count + 1);
    bool *blocks = ARENA_ARRAY(&a->arena, bool, state.block_count + 1);
    if (!segments || !blocks) return arena_fail(&a->arena, e);
    lock_take(&w->lock);
    for (size_t i = 0; t->damage_count && i < state.segment_count; i++)
        segments[i] = damage_has_segment(t, &state.segments[i].name);
    for (size_t i = 0; t->damage_count && i < state.block_count; i++)
        blocks[i] = damage_has_block(t, state.blocks[i].id);
    lock_give(&w->lock);
    if (!deletion_begin(a, e)) return false;
    state.tombstones = a->tombstones;
    state.tombstone_count = a->tombstone_count;
    state.damaged = segments;
    state.damaged_blocks = blocks;
    a->bytes = keep_count(state.blocks, state.block_count, s->segments, s->segment_count);
    a->rule = limit_rule(w, t, &a->arena);
    a->keep = keep_for(&a->rule, &a->bytes, state.blocks, state.block_count, a->begun_ns);
    const struct plan_settings settings = settings_of(work_settings(w), &a->keep, a->asked);
    if (!plan_make(&a->arena, &state, &settings, &a->plan, e)) return false;
    hold_note(w, t, &hold, &a->plan);
    a->taken = ARENA_ARRAY(&a->arena, bool, a->plan.n + 1);
    a->ended = ARENA_ARRAY(&a->arena, bool, a->plan.n + 1);
    return arena_ok(&a->arena, e);
}

// Is there a job that should have been done long ago, and that has not failed?
static bool is_behind(struct tenant_work *t, const struct agenda *a)
{
    for (size_t i = 0; i < a->plan.n; i++) {
        const struct task *j = &a->plan.jobs[i];
        if (j->due_ns + LATE_NS <= a->begun_ns && !failure_find(t, j)) return true;
    }
    return false;
}

// Has somebody committed something lately, or may he not have come to it yet?
static bool is_moving(const struct tenant_work *t, const struct agenda *a)
{
    size_t n = 0;
    int64_t last = INT64_MIN;
    const struct manifest_block *v = manifest_blocks(a->snapshot.manifest, &n);
    for (size_t i = 0; i < n; i++)
        last = MAX(last, v[i].made_ns);
    return (n > 0 && last > a->begun_ns - MOVES_NS) ||
           a->made_mono_ns < t->behind_mono_ns + (uint64_t)MOVES_NS;
}

static bool make_order(struct work *w, struct tenant_work *t, struct agenda *a, err *e)
{
    const struct process *p = w->process;
    struct share s = {.me = str_of(p->id), .tenant = str_of(t->name)};
    s.members = members_of(p->members, &a->arena, MEMBER_COMPACTOR, &s.member_count);
    lock_take(&w->lock);
    s.behind = a->behind = is_behind(t, a);
    if (!s.behind) t->behind_mono_ns = 0;
    if (s.behind && !t->behind_mono_ns) t->behind_mono_ns = a->made_mono_ns;
    s.moves = is_moving(t, a);
    s.raced = t->raced_mono_ns && clock_mono_ns() - t->raced_mono_ns < RACED_NS;
    lock_give(&w->lock);
    a->order = share_order(&a->arena, &a->plan, &s, e);
    return a->order != NULL;
}

static uint64_t garbage_bytes(const struct manifest *m)
{
    struct manifest_garbage g;
    uint64_t sum = 0;
    for (size_t i = 0; manifest_garbage_at(m, i, &g); i++)
        sum += g.bytes;
    return sum;
}

static void tell(struct tenant_work *t, const struct agenda *a)
{
    const struct snapshot *s = &a->snapshot;
    size_t n = 0;
    const struct manifest_block *v = manifest_blocks(s->manifest, &n);
    t->inspected = true;
    t->gaps = 0;
    for (size_t i = 0; i < n; i++)
        t->gaps += v[i].classes == 0 && !v[i].spared;
    t->segments = s->segment_count;
    t->oldest_hour = s->segment_count ? s->segments[0].name.hour : 0;
    t->open_segments = a->plan.open_segments;
    t->open_until_ns = a->plan.open_until_ns;
    t->newest_hour = s->segment_count ? s->segments[s->segment_count - 1].name.hour : 0;
    t->blocks = n;
    t->version = manifest_version(s->manifest);
    limit_note(t, a);
    t->garbage_bytes = garbage_bytes(s->manifest);
}

static struct agenda *make_once(struct worker *me, struct tenant_work *t, err *e)
{
    struct work *w = me->work;
    struct agenda *a = mem_alloc(&w->plans, sizeof *a, e);
    struct req r;
    if (!a) return NULL;
    a->users = 1;  // the tenant, once it is published
    lock_take(&w->lock);
    a->asked = t->asked > 0;
    lock_give(&w->lock);
    // Before the snapshot: a leaf may go only by a snapshot that is younger than its round.
    a->round = hold_inspect(me, a->asked);
    arena_init(&a->arena, &w->plans, PLAN_BYTES);
    a->begun_ns = clock_wall_ns();
    a->begun_boot_ns = clock_boot_ns();
    a->made_mono_ns = clock_mono_ns();
    req_init(&r, RANK_DUTY, &w->plans, PLAN_BYTES, LIST_NS);
    r.tenant = r.log.tenant = str_of(t->name);
    worker_set_req(me, &r);
    bool ok = snapshot_take(w->manifests, &r, &a->arena, str_of(t->name), &a->snapshot, e);
    // The tenant is being deleted, which this process did not know yet (closing.h).
    if (ok && manifest_is_closed(a->snapshot.manifest)) a->snapshot.segment_count = 0;
    if (ok) damage_inspect(me, t, &a->snapshot, &r, a->asked);
    worker_set_req(me, NULL);
    req_release(&r);
    if (ok && make_plan(w, t, a, e) && make_order(w, t, a, e)) {
        if (a->tombstone_count) deletion_end(me, t, a);
        return a;
    }
    agenda_free(a);
    return NULL;
}

// A run does not wait for ingesters. But if no ingester holds anything, the leaves that a plan
// wants gone may go by the next plan; for a run that is made at once.
struct agenda *agenda_make(struct worker *me, struct tenant_work *t, err *e)
{
    struct agenda *a = make_once(me, t, e);
    if (!a || !a->asked || t->wish.round <= a->round) return a;
    if (hold_inspect(me, true) < t->wish.round) return a;
    agenda_free(a);
    return make_once(me, t, e);
}

void agenda_free(struct agenda *a)
{
    if (!a) return;
    struct mem_budget *memory = a->arena.budget;
    if (a->snapshot.manifest) snapshot_release(&a->snapshot);
    arena_release(&a->arena);
    mem_free(memory, a, sizeof *a);
}

void agenda_begin(struct work *w, struct tenant_work *t)
{
    err ignored = {0};  // without memory for the list, all jobs count as done meanwhile: lately_all
    assert(lock_is_mine(&w->lock) && !t->planning && !t->lately);
    t->planning = true;
    t->lately = mem_alloc(&w->memory, DONE_LATELY_MAX * sizeof *t->lately, &ignored);
    t->lately_count = 0;
    t->lately_all = false;
}

void agenda_end(struct work *w, struct tenant_work *t)
{
    assert(lock_is_mine(&w->lock) && t->planning);
    t->planning = false;
    mem_free(&w->memory, t->lately, t->lately ? DONE_LATELY_MAX * sizeof *t->lately : 0);
    t->lately = NULL;
    t->lately_count = 0;
    t->lately_all = false;
}

// ---- sharing

struct agenda *agenda_leave(struct agenda *a)
{
    assert(!a || a->users > 0);
    return a && --a->users == 0 ? a : NULL;
}

// May the job have been done already? Jobs of the same hours may; of retirement all, as it is of
// any time.
static bool is_doubtful(const struct task *j, const struct done_lately *d)
{
    if (j->kind == JOB_RETIRE || d->kind == JOB_RETIRE) return j->kind == d->kind;
    return j->from_hour < d->from_hour + d->hours && d->from_hour < j->from_hour + j->hours;
}

static void put_off(struct agenda *a, const struct done_lately *d)
{
    for (size_t i = 0; i < a->plan.n; i++)
        a->taken[i] = a->taken[i] || is_doubtful(&a->plan.jobs[i], d);
    a->changed = true;
}

static void put_off_all(struct agenda *a)
{
    for (size_t i = 0; i < a->plan.n; i++)
        a->taken[i] = true;
    a->changed = true;
}

struct agenda *agenda_publish(struct tenant_work *t, struct agenda *a)
{
    // Turns that have jobs of the old plan keep it: then the last of them frees it.
    assert(!a || (a->users == 1 && a != t->agenda));
    struct agenda *old = agenda_leave(t->agenda);
    t->agenda = a;
    t->open = a != NULL;
    if (a) {
        for (size_t i = 0; i < t->lately_count; i++)
            put_off(a, &t->lately[i]);
        if (t->lately_all) put_off_all(a);
        tell(t, a);
        agenda_note_due(t);
    }
    return old;
}

// Does x remove a block that y needs or removes?
static bool takes_from(const struct task *x, const struct task *y)
{
    for (size_t i = 0; i < x->remove_count; i++) {
        id128 id = x->remove[i];
        if (id128_among(id, y->needs, y->need_count) ||
            id128_among(id, y->remove, y->remove_count) ||
            id128_among(id, y->expire, y->expire_count))
            return true;
    }
    for (size_t i = 0; i < x->expire_count; i++) {
        if (id128_among(x->expire[i], y->remove, y->remove_count) ||
            id128_among(x->expire[i], y->expire, y->expire_count))
            return true;
    }
    return false;
}

// Have two jobs to do with each other? Then they are not done at the same time.
static bool meet(const struct task *x, const struct task *y)
{
    bool anywhere = x->kind == JOB_RETIRE || y->kind == JOB_RETIRE;
    bool overlap = x->from_hour < y->from_hour + y->hours && y->from_hour < x->from_hour + x->hours;
    if (!overlap && !anywhere) return false;
    return (overlap && x->kind == y->kind) || takes_from(x, y) || takes_from(y, x);
}

static bool is_free(struct tenant_work *t, const struct task *j)
{
    for (const struct held *h = t->held; h; h = h->next) {
        if (meet(h->task, j)) return false;
    }
    const struct failure *f = failure_find(t, j);
    return !f || f->retry_mono_ns <= clock_mono_ns();
}

void agenda_hold(struct tenant_work *t, struct held *h)
{
    assert(h->task);
    h->next = t->held;
    t->held = h;
}

void agenda_let_go(struct tenant_work *t, struct held *h)
{
    struct held **at = &t->held;
    while (*at != h) {
        assert(*at);  // a job that is held is in the list until it is let go
        at = &(*at)->next;
    }
    *at = h->next;
    h->task = NULL;
}

bool agenda_draw(struct tenant_work *t, struct agenda *a, bool forced, struct share_pick *out)
{
    int64_t now_ns = clock_wall_ns();
    assert(a == t->agenda && a->users > 0);
    assert(a->first <= a->plan.n);
    while (a->first < a->plan.n && a->taken[a->order[a->first].job])
        a->first++;
    for (size_t i = a->first; i < a->plan.n; i++) {
        const struct share_pick *p = &a->order[i];
        if (a->taken[p->job] || (!forced && p->from_ns > now_ns)) continue;
        if (!is_free(t, &a->plan.jobs[p->job])) continue;
        a->taken[p->job] = true;
        *out = *p;
        return true;
    }
    return false;
}

void agenda_done(struct tenant_work *t, const struct task *j)
{
    const struct done_lately d = {.kind = j->kind, .from_hour = j->from_hour, .hours = j->hours};
    struct agenda *a = t->agenda;
    // A job of this plan, or of an older one whose jobs other turns still have.
    bool here = a && j >= a->plan.jobs && j < a->plan.jobs + a->plan.n;
    if (here) {
        assert(!a->ended[j - a->plan.jobs]);  // a job is done once
        a->ended[j - a->plan.jobs] = true;
        a->changed = true;
    } else if (a) {
        put_off(a, &d);
    }
    if (!t->planning) return;
    if (t->lately && t->lately_count < DONE_LATELY_MAX)
        t->lately[t->lately_count++] = d;
    else
        t->lately_all = true;
}

// Counts the jobs of the plan that are not done yet, for the status and metrics.
void agenda_note_due(struct tenant_work *t)
{
    const struct agenda *a = t->agenda;
    assert(!a || a->ended);
    memset(t->due, 0, sizeof t->due);
    memset(t->later, 0, sizeof t->later);
    t->due_bytes = 0;
    if (!a) return;
    for (size_t k = 0; k < JOB_KINDS; k++)
        t->later[k] = (uint32_t)MIN(a->plan.later[k], UINT32_MAX);
    for (size_t i = 0; i < a->plan.n; i++) {
        const struct task *j = &a->plan.jobs[i];
        if (a->ended[i]) continue;
        int64_t *since = &t->due_since_ns[j->kind];
        *since = t->due[j->kind]++ ? MIN(*since, j->due_ns) : j->due_ns;
        t->due_bytes += j->bytes;
    }
}
