// SPDX-License-Identifier: Apache-2.0
//
// plan_packs.c - jobs that put all hour nodes of a day into one block.
#include "compactor/plan_gather.h"

// Is there a damaged one among the hour nodes of a day?
static bool has_bad_hours(const struct planning *p, int64_t from)
{
    for (size_t i = 0; i < p->bad_count; i++) {
        const struct manifest_block *b = p->bad[i];
        if (b->kind == BLOCK_HOURS && plan_floor(b->from_hour, HOURS_A_DAY) * HOURS_A_DAY == from)
            return true;
    }
    return false;
}

// Since when have blocks of hours waited that are not in the day's pack? The pack is the widest
// block from the day's first hour, or several of that width that one job made.
static int64_t unpacked_since(const struct manifest_block *const *v, size_t n, int64_t from,
                              struct plan_amount *m)
{
    uint32_t widest = 0;
    assert(n > 0);
    for (size_t i = 0; i < n; i++)
        widest = MAX(widest, v[i]->hours);
    int64_t oldest = INT64_MAX;
    uint64_t packs = 0;
    for (size_t i = 0; i < n; i++) {
        m->newest_ns = MAX(m->newest_ns, v[i]->made_ns);
        if (v[i]->hours == widest && v[i]->from_hour == from) {
            packs += v[i]->part ? 0 : (uint64_t)v[i]->pack_hi - v[i]->pack_lo + 1;
            m->before += v[i]->bytes;
        } else {
            oldest = MIN(oldest, v[i]->made_ns);
            m->bytes += v[i]->bytes;
            m->sources++;
        }
    }
    // More packs than there are: two blocks of that width overlap, so there is no one pack yet.
    return packs > (uint64_t)UINT32_MAX + 1 ? v[0]->made_ns : oldest;
}

// All hour nodes of a day so far become one block; what is stale goes with the rest.
bool plan_pack(struct planning *p, int64_t day, err *e)
{
    size_t n = 0;
    int64_t from = day * HOURS_A_DAY;
    const struct manifest_block **v = plan_blocks(p, BLOCK_HOURS, from, from + HOURS_A_DAY, &n);
    bool bad = has_bad_hours(p, from);
    if (n < 2 && !(n == 1 && bad)) return true;
    struct plan_amount m = {.kind = JOB_PACK,
                            .from_hour = from,
                            .hours = HOURS_A_DAY,
                            .newest_ns = INT64_MIN};
    int64_t oldest = unpacked_since(v, n, from, &m);
    if (bad) oldest = INT64_MIN + 1;
    if (oldest == INT64_MAX) return true;
    int64_t due = plan_next_slot(oldest, p->settings->pack_interval);
    if (!plan_is_time(p, &m, &due)) return true;

    struct gathering g = {.p = p};
    size_t hour_count = 0;
    struct plan_hour *hours = plan_hours_of_day(p, day, &hour_count);
    int64_t until = from;
    bool series = true;
    bool spared = false;
    for (size_t i = 0; i < hour_count; i++) {
        const struct chosen *c = &hours[i].chosen;
        if (c->n == 0 || c->partial) continue;
        series = series && plan_chosen_has_series(c);
        spared = spared || plan_chosen_is_spared(c);
        if (!gather_empty(&g, until, hours[i].hour, 1, e) ||
            !gather_sources(&g, c, hours[i].hour, 1, e) ||
            !gather_cover(&g, &c->leaves, hours[i].hour, 1, e)) {
            return false;
        }
        until = hours[i].hour + 1;
    }
    if (g.source_count == 0 || plan_have_last(p, v, n, &g.leaves)) return true;
    if (!series && plan_day_has_expired(p, day)) return true;  // rows that series are in are gone
    // Where sums are spared, rows answer: all of these must be live.
    if (spared && !gather_are_live(p, &g.leaves)) return true;
    assert(until > from && until - from <= HOURS_A_DAY);
    struct task *j = plan_add(p, JOB_PACK, from, (uint32_t)(until - from));
    if (!j) return arena_fail(p->a, e);
    if (!gather_into(j, &g, e)) return false;
    j->due_ns = bad ? p->state->now_ns : due;
    return gather_removed(p, j, v, n, e);
}
