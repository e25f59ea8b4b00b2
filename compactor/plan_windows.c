// SPDX-License-Identifier: Apache-2.0
//
// plan_windows.c - jobs that put the days of a window into one block.
#include "compactor/plan_gather.h"

struct window {
    int64_t number;
    const struct manifest_block **all;  // that lie in it
    size_t n;
    const struct manifest_block **packed;  // those of several days
    size_t packed_n;
    bool whole;     // a packed one covers the window to its end
    int64_t made;   // the newest packed one
    int64_t first;  // when the oldest of all was made
};

static bool find_window(struct planning *p, int64_t number, struct window *w, err *e)
{
    int64_t from = number * HOURS_A_WINDOW;
    *w = (struct window){.number = number, .made = INT64_MIN, .first = INT64_MAX};
    w->all = plan_blocks(p, BLOCK_DAYS, from, from + HOURS_A_WINDOW, &w->n);
    w->packed = ARENA_ARRAY(p->a, const struct manifest_block *, w->n + 1);
    if (!w->packed) return arena_fail(p->a, e);
    for (size_t i = 0; i < w->n; i++) {
        const struct manifest_block *b = w->all[i];
        w->first = MIN(w->first, b->made_ns);
        if (plan_is_day(b, plan_floor(b->from_hour, HOURS_A_DAY))) continue;
        w->packed[w->packed_n++] = b;
        w->whole = w->whole || b->hours == HOURS_A_WINDOW;
        w->made = MAX(w->made, b->made_ns);
    }
    return true;
}

// The best of each day, on its way to be one block.
struct window_days {
    struct gathering g;
    size_t n;        // that have something
    size_t missing;  // that packed blocks lack, wholly or in part
    int64_t until;   // the hour behind the last
    bool loses;      // packed blocks have what nobody could give again
    struct plan_amount amount;
};

// How many bytes of a day's own blocks packed ones lack: of a day that grew the share of its leaves
// that they do not name, as they have the rest already.
static uint64_t lacking_bytes(const struct chosen *best, const struct chosen *have)
{
    uint64_t bytes = 0;
    size_t lacking = 0;
    assert(best->leaves.n > 0);
    for (size_t i = 0; i < best->n; i++) {
        const struct manifest_block *b = best->parts[i].block;
        // (A block that counts in several ranges of packs is there once for each.)
        bool again = i && best->parts[i - 1].block == b;
        if (!again && b->hours == HOURS_A_DAY) bytes += b->bytes;
    }
    for (size_t i = 0; i < best->leaves.n; i++)
        lacking += have->partial || !leaf_set_has(&have->leaves, best->leaves.v[i]);
    plan_stepped(best->leaves.n);
    return bytes / best->leaves.n * lacking;
}

static bool gather_day(struct planning *p, const struct window *w, int64_t day,
                       struct window_days *d, err *e)
{
    struct chosen best = {0};
    struct chosen have = {0};
    int64_t hour = day * HOURS_A_DAY;
    if (!plan_choose_days(p, w->all, w->n, day, &best, e) ||
        !plan_choose_days(p, w->packed, w->packed_n, day, &have, e)) {
        return false;
    }
    if (best.n == 0 || best.partial) return true;
    d->loses = d->loses || !leaf_set_within(&have.leaves, &best.leaves);
    if (have.partial || !leaf_set_within(&best.leaves, &have.leaves)) {
        d->missing++;
        d->amount.bytes += lacking_bytes(&best, &have);
    }
    d->n++;
    if (!gather_empty(&d->g, d->until, hour, HOURS_A_DAY, e) ||
        !gather_sources(&d->g, &best, hour, HOURS_A_DAY, e) ||
        !gather_cover(&d->g, &best.leaves, hour, HOURS_A_DAY, e)) {
        return false;
    }
    assert(d->until <= hour);
    d->until = hour + HOURS_A_DAY;
    return true;
}

// Two days that packed blocks lack are much: of one its own block does as well, unless it is large
// beside them (amount.bytes; gather_day counts).
static struct plan_amount amount_of_window(const struct window *w, int64_t from)
{
    struct plan_amount m = {.kind = JOB_WINDOW,
                            .from_hour = from,
                            .hours = HOURS_A_WINDOW,
                            .newest_ns = INT64_MIN,
                            .enough = 2};
    for (size_t i = 0; i < w->n; i++)
        m.newest_ns = MAX(m.newest_ns, w->all[i]->made_ns);
    for (size_t i = 0; i < w->packed_n; i++)
        m.before += w->packed[i]->bytes;
    return m;
}

static bool window_job(struct planning *p, const struct window *w, err *e)
{
    const struct plan_settings *set = p->settings;
    int64_t from = w->number * HOURS_A_WINDOW;
    int64_t end = slot_start(w->number + 1, SLOT_WINDOW) + (set->asked ? 0 : set->day_delay);
    int64_t first = w->number * DAYS_A_WINDOW;
    struct window_days d = {.g = {.p = p}, .until = from, .amount = amount_of_window(w, from)};
    for (int64_t day = first; day < first + DAYS_A_WINDOW; day++) {
        if (!gather_day(p, w, day, &d, e)) return false;
    }
    bool complete = plan_is_due(p, end);
    // A single day's own block serves as well as a window with nothing else in it.
    if (d.loses || d.n < 2 || (d.missing == 0 && (w->whole || !complete))) return true;
    if (plan_have_last(p, w->packed, w->packed_n, &d.g.leaves)) return true;
    d.amount.sources = d.missing;
    int64_t due = w->packed_n ? plan_next_slot(w->made, set->window_interval)
                              : MIN(w->first, p->state->now_ns) + PLAN_PATIENCE_NS;
    if (w->packed_n == 0 && plan_is_quiet(p, JOB_WINDOW, from, HOURS_A_WINDOW))
        due = MIN(due, p->state->now_ns);  // nothing more is about to come
    if (!plan_is_time(p, &d.amount, &due)) return true;
    if (complete) {
        if (!gather_empty(&d.g, d.until, from + HOURS_A_WINDOW, HOURS_A_DAY, e)) return false;
        d.until = from + HOURS_A_WINDOW;
    }
    assert(d.until > from && d.until - from <= HOURS_A_WINDOW);
    struct task *j = plan_add(p, JOB_WINDOW, from, (uint32_t)(d.until - from));
    if (!j) return arena_fail(p->a, e);
    if (!gather_into(j, &d.g, e)) return false;
    j->until_hour = d.until;
    j->due_ns = due;
    return gather_removed(p, j, w->packed, w->packed_n, e);
}

// A window goes when its last day does. Where things are kept for less than two windows, that would
// be late by as much again, and days alone are few enough to be read.
static bool are_too_long(const struct plan_settings *set)
{
    return set->days_retention && set->days_retention < 2 * SLOT_WINDOW;
}

bool plan_windows(struct planning *p, err *e)
{
    int64_t last = INT64_MIN;
    if (are_too_long(p->settings)) return true;
    for (size_t i = 0; i < p->kind_count[BLOCK_DAYS]; i++) {
        struct window w;
        int64_t number = plan_floor(p->by_kind[BLOCK_DAYS][i]->from_hour, HOURS_A_WINDOW);
        if (number == last) continue;
        last = number;
        if (!find_window(p, number, &w, e) || !window_job(p, &w, e)) return false;
    }
    return true;
}
