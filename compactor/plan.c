// SPDX-License-Identifier: Apache-2.0
//
// The plan, from the lowest level up: each level knows which hours are about to change below it
// (plan_hour.pending, jobs), so that it does not sum what will be replaced at once.
//
//     1. sort blocks by kind, damaged ones apart; list the hours that there is anything of
//     2. first leaves and deltas of hours, leaves of days (plan_leaves.c), folds of hours
//     3. hour nodes, packs and day nodes of each day, then windows (plan_hours.c, plan_packs.c,
//        plan_days.c, plan_windows.c)
//     4. retirement (plan_retire.c)
#include "base/search.h"
#include "compactor/plan_int.h"

#include <stdlib.h>

#ifdef FT_FAULTS
_Thread_local uint64_t plan_inspected;
#endif

const char *job_kind_name(enum job_kind k)
{
    static const char *const names[] = {
        [JOB_LEAF] = "leaf", [JOB_FOLD] = "fold",     [JOB_HOUR] = "hour",    [JOB_PACK] = "pack",
        [JOB_DAY] = "day",   [JOB_WINDOW] = "window", [JOB_RETIRE] = "retire"};
    static_assert(COUNT(names) == JOB_KINDS, "every kind has a name");
    assert(k < JOB_KINDS);
    return names[k];
}

int64_t plan_floor(int64_t hour, int64_t hours)
{
    assert(hours > 0);
    int64_t q = hour / hours;  // C rounds towards 0, so hours before the epoch need the one less
    return hour % hours < 0 ? q - 1 : q;
}

bool plan_is_due(struct planning *p, int64_t due_ns)
{
    if (due_ns <= p->state->now_ns) return true;
    p->out->next_due_ns = MIN(p->out->next_due_ns, due_ns);
    return false;
}

struct plan_hour *plan_hours_within(const struct planning *p, int64_t from, int64_t to, size_t *n)
{
    assert(from <= to);
    size_t lo = SEARCH(at, 0, p->hour_count, p->hours[at].hour < from);
    size_t end = lo;
    while (end < p->hour_count && p->hours[end].hour < to)
        end++;
    *n = end - lo;
    plan_stepped(*n);
    return p->hours + lo;
}

// Jobs are noted at the hours that they cover (note_job).
bool plan_is_quiet(const struct planning *p, enum job_kind kind, int64_t from_hour, int64_t hours)
{
    size_t n = 0;
    const struct plan_hour *v = plan_hours_within(p, from_hour, from_hour + hours, &n);
    // Kinds are numbered from the lowest level up, so these bits are the levels below.
    for (size_t i = 0; i < n; i++) {
        if (v[i].jobs & ((1u << kind) - 1)) return false;
    }
    return true;
}

// Retirement is above all else, and of any hours.
static void note_job(const struct planning *p, const struct task *j)
{
    size_t n = 0;
    if (j->kind == JOB_RETIRE || j->kind == JOB_WINDOW) return;
    struct plan_hour *v = plan_hours_within(p, j->from_hour, j->from_hour + (int64_t)j->hours, &n);
    for (size_t i = 0; i < n; i++)
        v[i].jobs |= (uint8_t)(1u << j->kind);
}

// Bytes are compared with those that they are merged with: a few new ones are not worth writing
// many old ones again.
static bool is_much(const struct plan_settings *set, const struct plan_amount *m)
{
    size_t enough = set->much_sources && m->enough ? m->enough : set->much_sources;
    if (enough && m->sources >= enough) return true;
    return set->much_bytes && m->bytes >= set->much_bytes && m->bytes >= m->before / 4;
}

bool plan_is_time(struct planning *p, const struct plan_amount *m, int64_t *due_ns)
{
    const struct plan_settings *set = p->settings;
    assert(m->kind < JOB_KINDS && m->hours > 0);
    if (*due_ns <= p->state->now_ns) return true;
    bool early =
        (set->asked || is_much(set, m)) && plan_is_quiet(p, m->kind, m->from_hour, m->hours);
    if (early) {
        *due_ns = MIN(m->newest_ns, p->state->now_ns);
        return true;
    }
    p->out->later[m->kind]++;
    return plan_is_due(p, *due_ns);
}

const struct manifest_block *plan_live_leaf(const struct planning *p, id128 id)
{
    return leaf_of(p->live, p->kind_count[BLOCK_RAW], id);
}

struct plan_amount plan_amount_of_day(const struct planning *p, int64_t day,
                                      const struct leaf_set *all, const struct leaf_set *have,
                                      int64_t *first)
{
    struct plan_amount m = {.kind = JOB_DAY,
                            .from_hour = day * HOURS_A_DAY,
                            .hours = HOURS_A_DAY,
                            .newest_ns = INT64_MIN};
    *first = INT64_MAX;
    for (size_t i = 0; i < all->n; i++) {
        const struct manifest_block *b = plan_live_leaf(p, all->v[i]);
        if (b) *first = MIN(*first, b->made_ns);
        if (leaf_set_has(have, all->v[i])) {
            m.before += b ? b->bytes : 0;
            continue;
        }
        m.sources++;
        if (!b) continue;
        m.bytes += b->bytes;
        m.newest_ns = MAX(m.newest_ns, b->made_ns);
    }
    return m;
}

// Intervals are aligned to the epoch instead of to the last time: all compactors come to the same
// moment, and a job that was late does not make the next ones late.
int64_t plan_next_slot(int64_t made_ns, int64_t interval)
{
    if (interval <= 0) return made_ns;
    return slot_start(slot_of(made_ns, interval) + 1, interval) + 1;
}

struct task *plan_add(struct planning *p, enum job_kind kind, int64_t from_hour, uint32_t hours)
{
    struct plan *out = p->out;
    assert(kind < JOB_KINDS && hours > 0);
    if (!arena_grow(p->a, &out->jobs, &p->job_cap, out->n + 1, sizeof *out->jobs)) return NULL;
    struct task *j = &out->jobs[out->n++];
    *j = (struct task){.kind = kind, .from_hour = from_hour, .hours = hours};
    note_job(p, j);
    return j;
}

const struct manifest_block **plan_blocks(struct planning *p, enum block_kind kind, int64_t from,
                                          int64_t to, size_t *n)
{
    const struct manifest_block **v = p->by_kind[kind];
    assert(v && from <= to);  // sort_out made the lists of all kinds
    size_t lo = SEARCH(at, 0, p->kind_count[kind], v[at]->from_hour < from);
    size_t end = lo;
    while (end < p->kind_count[kind] && v[end]->from_hour < to)
        end++;
    *n = end - lo;
    plan_stepped(*n);
    return v + lo;
}

// ---- hours

static int64_t end_ns(int64_t hour)
{
    return slot_start(hour + 1, SLOT_HOUR);
}

int64_t plan_newest_made(const struct manifest_block *const *v, size_t n)
{
    int64_t newest = INT64_MIN;
    for (size_t i = 0; i < n; i++)
        newest = MAX(newest, v[i]->made_ns);
    return newest;
}

static id128 *ids_of(struct planning *p, const struct manifest_block *const *v, size_t n)
{
    id128 *ids = ARENA_ARRAY(p->a, id128, n + 1);
    for (size_t i = 0; ids && i < n; i++)
        ids[i] = v[i]->id;
    return ids;
}

static uint64_t segment_bytes(const struct planning *p, const struct plan_hour *h)
{
    const struct plan_state *s = p->state;
    uint64_t bytes = 0;
    size_t n = 0;
    assert(h->first_segment + h->segment_count <= s->segment_count);
    for (size_t i = h->first_segment; n < h->segment_count; i++) {
        if (s->damaged && s->damaged[i]) continue;
        bytes += s->segments[i].bytes;
        n++;
    }
    return bytes;
}

// May a leaf be made of the hour's segments? leaf_delay after its end; for a run once the hour is
// over, as rows that come later become a delta leaf. Never of the hour under way: each run would
// make one leaf more of it. Segments that wait are counted.
static bool may_have_leaf(struct planning *p, const struct plan_hour *h, int64_t *due_ns)
{
    const struct plan_settings *set = p->settings;
    struct plan *out = p->out;
    const int64_t end = end_ns(h->hour);
    *due_ns = end + set->leaf_delay;
    if (end > p->state->now_ns) {
        out->open_until_ns = out->open_segments ? MIN(out->open_until_ns, end) : end;
        out->open_segments += h->segment_count;
    } else if (set->asked) {
        *due_ns = MIN(*due_ns, p->state->now_ns);
    } else {
        out->later[JOB_LEAF] += *due_ns > p->state->now_ns;
    }
    return plan_is_due(p, *due_ns);
}

static bool leaf_job(struct planning *p, struct plan_hour *h, err *e)
{
    // Segments that come later to an hour are collected as well: one delta leaf in leaf_delay.
    int64_t due = 0;
    if (h->leaf_count == 0) h->pending = true;
    if (!may_have_leaf(p, h, &due)) return true;
    if (h->leaf_count) {
        struct plan_amount m = {.kind = JOB_LEAF, .from_hour = h->hour, .hours = 1};
        m.newest_ns = plan_newest_made(h->leaves, h->leaf_count);
        m.sources = h->segment_count;
        m.bytes = segment_bytes(p, h);
        due = MAX(due, m.newest_ns + p->settings->leaf_delay);
        if (!plan_is_time(p, &m, &due)) return true;
    }
    h->pending = true;
    assert(h->segment_count > 0);
    struct task *j = plan_add(p, JOB_LEAF, h->hour, 1);
    struct job_source *v =
        ARENA_ARRAY(p->a, struct job_source, h->segment_count + h->leaf_count + 1);
    if (!j || !v) return arena_fail(p->a, e);
    size_t n = 0;
    const struct plan_state *s = p->state;
    for (size_t i = h->first_segment; n < h->segment_count; i++) {
        if (s->damaged && s->damaged[i]) continue;
        v[n++].segment = &s->segments[i];
        j->bytes += s->segments[i].bytes;
    }
    // The leaves that the hour has show which rows are copies. They must still be there when the
    // new one is named, or rows that they have would be in no leaf, or in two.
    for (size_t i = 0; i < h->leaf_count; i++)
        v[n++] = (struct job_source){.block = h->leaves[i], .mask = true};
    j->due_ns = due;
    j->sources = v;
    j->source_count = n;
    j->needs = ids_of(p, h->leaves, h->leaf_count);
    j->need_count = h->leaf_count;
    return arena_ok(p->a, e);
}

// (Leaves of one hour come in order of their packs.)
static bool overlap(const struct plan_hour *h)
{
    for (size_t i = 0; i < h->leaf_count; i++) {
        uint32_t end = h->leaves[i]->pack_hi;
        for (size_t k = i + 1; k < h->leaf_count && h->leaves[k]->pack_lo <= end; k++) {
            plan_stepped(1);
            if (manifest_blocks_meet(h->leaves[i], h->leaves[k])) return true;
        }
    }
    return false;
}

static bool blocks_as_sources(struct planning *p, struct task *j,
                              const struct manifest_block *const *v, size_t n, err *e)
{
    struct job_source *sources = ARENA_ARRAY(p->a, struct job_source, n + 1);
    if (!sources) return arena_fail(p->a, e);
    for (size_t i = 0; i < n; i++) {
        sources[i].block = v[i];
        j->bytes += v[i]->bytes;
    }
    j->sources = sources;
    j->source_count = n;
    return true;
}

// The largest leaf is taken for the one that the others came to.
static void amount_of_leaves(const struct plan_hour *h, struct plan_amount *m)
{
    assert(h->leaf_count > 0);
    m->newest_ns = plan_newest_made(h->leaves, h->leaf_count);
    for (size_t i = 0; i < h->leaf_count; i++) {
        m->before = MAX(m->before, h->leaves[i]->bytes);
        m->bytes += h->leaves[i]->bytes;
    }
    m->bytes -= m->before;
    m->sources = h->leaf_count - 1;
}

static bool fold_job(struct planning *p, struct plan_hour *h, err *e)
{
    if (h->wide || h->folds) return true;
    const bool hiding = plan_are_hiding(p, h->leaves, h->leaf_count);
    if (!hiding && !overlap(h)) return true;
    const struct plan_settings *set = p->settings;
    int64_t due = plan_next_slot(plan_newest_made(h->leaves, h->leaf_count), set->fold_interval);
    // Not worth it shortly before the rows go.
    int64_t then = MAX(due, p->state->now_ns);
    bool ends = set->raw_retention && end_ns(h->hour) + set->raw_retention <= then;
    if (ends && !hiding) return true;
    struct plan_amount m = {.kind = JOB_FOLD, .from_hour = h->hour, .hours = 1};
    amount_of_leaves(h, &m);
    if (hiding) due = p->state->now_ns;
    if (!plan_is_time(p, &m, &due)) return true;
    if (plan_day_has_expired(p, plan_floor(h->hour, HOURS_A_DAY))) return true;
    h->pending = h->folds = true;
    struct task *j = plan_add(p, JOB_FOLD, h->hour, 1);
    if (!j) return arena_fail(p->a, e);
    if (!blocks_as_sources(p, j, h->leaves, h->leaf_count, e)) return false;
    j->due_ns = due;
    j->remove = ids_of(p, h->leaves, h->leaf_count);
    j->remove_count = h->leaf_count;
    return arena_ok(p->a, e);
}

static int order_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static bool choose_hour(struct planning *p, struct plan_hour *h, err *e)
{
    size_t n = 0;
    int64_t day = plan_floor(h->hour, HOURS_A_DAY) * HOURS_A_DAY;
    struct choice c = {.state = p->state, .live = p->live, .live_count = p->kind_count[BLOCK_RAW]};
    c.candidates = plan_blocks(p, BLOCK_HOURS, day, h->hour + 1, &n);
    c.candidates = plan_candidates(p, c.candidates, &n, h->series);
    if (!c.candidates) return arena_fail(p->a, e);
    c.n = n;
    if (!choose(p->a, &c, h->hour, 1, &h->chosen, e)) return false;
    id128 *v = ARENA_ARRAY(p->a, id128, h->leaf_count + 1);
    if (!v) return arena_fail(p->a, e);
    h->unnamed = (struct leaf_set){v, 0};
    for (size_t i = 0; i < h->leaf_count; i++) {
        if (h->chosen.partial || !leaf_set_has(&h->chosen.leaves, h->leaves[i]->id))
            v[h->unnamed.n++] = h->leaves[i]->id;
    }
    if (h->unnamed.n) qsort(v, h->unnamed.n, sizeof *v, order_ids);
    return true;
}

static bool plan_hours(struct planning *p, err *e)
{
    for (size_t i = 0; i < p->hour_count; i++) {
        struct plan_hour *h = &p->hours[i];
        int64_t day = plan_floor(h->hour, HOURS_A_DAY);
        assert(i == 0 || h[-1].hour < h->hour);  // each hour once, in order: SEARCH relies on it
        bool same = i && plan_floor(h[-1].hour, HOURS_A_DAY) == day;
        h->series = same ? h[-1].series : plan_needs_series(p, day);
        if (!choose_hour(p, h, e)) return false;
        if (h->segment_count && !leaf_job(p, h, e)) return false;
    }
    if (!plan_day_leaves(p, e)) return false;
    for (size_t i = 0; i < p->hour_count; i++) {
        struct plan_hour *h = &p->hours[i];
        // A fold while a delta is about to come would be for nothing.
        if (!(h->pending && h->segment_count) && !fold_job(p, h, e)) return false;
        h->pending = h->pending || h->unnamed.n;
    }
    return true;
}

// ---- the beginning

static int order_hours(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

// The leaves that an hour is in: its own, and those of its day.
static bool find_leaves(struct planning *p, struct plan_hour *h, err *e)
{
    size_t n = 0;
    int64_t day = plan_floor(h->hour, HOURS_A_DAY) * HOURS_A_DAY;
    const struct manifest_block **all = plan_blocks(p, BLOCK_RAW, day, h->hour + 1, &n);
    const struct manifest_block **v = ARENA_ARRAY(p->a, const struct manifest_block *, n + 1);
    if (!v) return arena_fail(p->a, e);
    for (size_t i = 0; i < n; i++) {
        if (h->hour - all[i]->from_hour >= (int64_t)all[i]->hours) continue;
        h->wide = h->wide || all[i]->hours > 1;
        v[h->leaf_count++] = all[i];
    }
    h->leaves = v;
    return true;
}

// Finds the segments and leaves of each hour; segments are in order of hours.
static bool fill_hours(struct planning *p, err *e)
{
    const struct plan_state *s = p->state;
    size_t at = 0;
    for (size_t i = 0; i < p->hour_count; i++) {
        struct plan_hour *h = &p->hours[i];
        h->first_segment = at;
        for (; at < s->segment_count && s->segments[at].name.hour == h->hour; at++)
            h->segment_count += !(s->damaged && s->damaged[at]);
        if (!find_leaves(p, h, e)) return false;
    }
    assert(at == s->segment_count);  // find_hours listed the hours of all of them
    return true;
}

// All hours that there is anything of.
static bool find_hours(struct planning *p, err *e)
{
    const struct plan_state *s = p->state;
    size_t most = s->segment_count;
    for (size_t i = 0; i < s->block_count; i++) {
        if (s->blocks[i].kind == BLOCK_HOURS) most += s->blocks[i].cover_count;
        if (s->blocks[i].kind == BLOCK_RAW) most += s->blocks[i].hours;
    }
    int64_t *v = ARENA_ARRAY(p->a, int64_t, most + 1);
    if (!v) return arena_fail(p->a, e);
    size_t n = 0;
    for (size_t i = 0; i < s->segment_count; i++)
        v[n++] = s->segments[i].name.hour;
    for (size_t i = 0; i < s->block_count; i++) {
        const struct manifest_block *b = &s->blocks[i];
        for (uint32_t k = 0; b->kind == BLOCK_RAW && k < b->hours; k++)
            v[n++] = b->from_hour + k;
        for (size_t k = 0; b->kind == BLOCK_HOURS && k < b->cover_count; k++)
            v[n++] = b->covers[k].hour;
    }
    assert(n <= most);
    qsort(v, n, sizeof *v, order_hours);
    p->hours = ARENA_ARRAY(p->a, struct plan_hour, n + 1);
    if (!p->hours) return arena_fail(p->a, e);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || v[i] != v[i - 1]) p->hours[p->hour_count++].hour = v[i];
    }
    return fill_hours(p, e);
}

static int order_blocks(const void *a, const void *b)
{
    const struct manifest_block *x = *(const struct manifest_block *const *)a;
    const struct manifest_block *y = *(const struct manifest_block *const *)b;
    return id_cmp(x->id, y->id);
}

static bool sort_out(struct planning *p, err *e)
{
    const struct plan_state *s = p->state;
    for (int k = BLOCK_SEGMENT; k <= BLOCK_DAYS; k++) {
        p->by_kind[k] = ARENA_ARRAY(p->a, const struct manifest_block *, s->block_count + 1);
        if (!p->by_kind[k]) return arena_fail(p->a, e);
    }
    p->bad = ARENA_ARRAY(p->a, const struct manifest_block *, s->block_count + 1);
    if (!p->bad) return arena_fail(p->a, e);
    for (size_t i = 0; i < s->block_count; i++) {
        enum block_kind k = s->blocks[i].kind;
        assert(k <= BLOCK_DAYS);  // manifest_block_check saw to it
        if (s->damaged_blocks && s->damaged_blocks[i]) {
            p->bad[p->bad_count++] = &s->blocks[i];
            continue;
        }
        p->by_kind[k][p->kind_count[k]++] = &s->blocks[i];
    }
    size_t n = p->kind_count[BLOCK_RAW];
    p->live = ARENA_ARRAY(p->a, const struct manifest_block *, n + 1);
    if (!p->live) return arena_fail(p->a, e);
    memcpy(p->live, p->by_kind[BLOCK_RAW], n * sizeof *p->live);
    qsort(p->live, n, sizeof *p->live, order_blocks);
    return true;
}

static int order_jobs(const void *a, const void *b)
{
    const struct task *x = a;
    const struct task *y = b;
    if (x->from_hour != y->from_hour) return x->from_hour < y->from_hour ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

bool plan_make(struct arena *a, const struct plan_state *s, const struct plan_settings *settings,
               struct plan *out, err *e)
{
    assert(s->counts && settings);
    *out = (struct plan){.next_due_ns = INT64_MAX};
    struct planning p = {.a = a, .state = s, .settings = settings, .out = out};
    if (!sort_out(&p, e) || !find_hours(&p, e) || !plan_hours(&p, e) || !plan_days(&p, e) ||
        !plan_windows(&p, e) || !plan_retire(&p, e) || !plan_deletions(&p, e)) {
        return false;
    }
    if (out->n) qsort(out->jobs, out->n, sizeof *out->jobs, order_jobs);
    return true;
}
