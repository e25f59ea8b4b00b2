// SPDX-License-Identifier: Apache-2.0
#include "aggregate/shares.h"

typedef __int128 wide;
typedef unsigned __int128 uwide;

// The point whose [left, right) has a time, kept within the points.
static int64_t point_of(const struct points *p, wide time_ns)
{
    wide distance = time_ns - p->first_ns;
    if (distance < 0) return 0;
    wide point = distance / p->step_ns + 1;
    return point < p->count ? (int64_t)point : p->count - 1;
}

// An end of the profile: its share rounded down, and what is left over.
struct part {
    uint64_t share;
    uint64_t rest;
};

static struct part part_of(uint64_t value, uint64_t overlap, uint64_t duration)
{
    uwide product = (uwide)value * overlap;
    return (struct part){(uint64_t)(product / duration), (uint64_t)(product % duration)};
}

// Hands out `units` to the first, `between` middle ones, and the last, by remainder.
static void hand_out(struct shares *s, uint64_t units, const struct part part[3], int64_t between)
{
    bool given[3] = {false};
    for (int round = 0; round < 3 && units; round++) {
        int best = -1;
        for (int i = 0; i < 3; i++) {
            if (!given[i] && (best < 0 || part[i].rest > part[best].rest)) best = i;
        }
        given[best] = true;
        uint64_t room = best == 1 ? (uint64_t)between : 1;
        uint64_t take = MIN(units, room);
        units -= take;
        if (best == 0) s->first += take;
        if (best == 1) s->more = (int64_t)take;
        if (best == 2) s->last += take;
    }
    assert(units == 0);  // remainders are below one unit each, so there are fewer units than parts
}

bool shares_init(struct shares *s, const struct points *p, int64_t time_ns, int64_t duration_ns,
                 int64_t value)
{
    assert(p->step_ns > 0);
    if (duration_ns <= 0 || p->count <= 0) return false;
    wide end = (wide)time_ns + duration_ns;
    *s = (struct shares){.from = point_of(p, time_ns),
                         .to = point_of(p, end - 1),
                         .negative = value < 0};
    uint64_t amount = s->negative ? 0 - (uint64_t)value : (uint64_t)value;
    assert(s->from <= s->to);
    if (s->to - s->from >= SHARES_POINTS_MAX) return false;
    if (s->from == s->to) {
        s->first = amount;
        return true;
    }
    uint64_t duration = (uint64_t)duration_ns;
    int64_t between = s->to - s->from - 1;
    wide right = (wide)p->first_ns + (wide)s->from * p->step_ns;
    uint64_t head = (uint64_t)(right - time_ns);
    uint64_t tail = duration - head - (uint64_t)between * (uint64_t)p->step_ns;
    const struct part part[3] = {part_of(amount, head, duration),
                                 between ? part_of(amount, (uint64_t)p->step_ns, duration)
                                         : (struct part){0},
                                 part_of(amount, tail, duration)};
    s->first = part[0].share;
    s->middle = part[1].share;
    s->last = part[2].share;
    hand_out(s, amount - s->first - s->last - (uint64_t)between * s->middle, part, between);
    return true;
}

int64_t shares_at(const struct shares *s, int64_t point)
{
    assert(point >= s->from && point <= s->to);
    uint64_t share = s->middle + (point - s->from - 1 < s->more);
    if (point == s->to) share = s->last;
    if (point == s->from) share = s->first;
    return (int64_t)(s->negative ? 0 - share : share);
}
