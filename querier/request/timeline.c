// SPDX-License-Identifier: Apache-2.0
//
// timeline.c - slots of a round step, at most about POINTS of them, and their JSON. Times are ms in
// requests, seconds in the answer, and ns in the question.
#include "querier/request/timeline.h"

#include "sys/clock.h"

#define POINTS  1500                              // that a timeline should have
#define EDGE_MS ((INT64_C(1) << 62) / NS_PER_MS)  // so that an edge and a step more stay in int64

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

int64_t timeline_step(int64_t start_ms, int64_t end_ms)
{
    static const struct {
        int64_t most_ms;
        int64_t step_ms;
    } rows[] = {
        {17500, 15 * SECOND},        {25 * SECOND, 20 * SECOND},
        {45 * SECOND, 30 * SECOND},  {90 * SECOND, MINUTE},
        {210 * SECOND, 2 * MINUTE},  {450 * SECOND, 5 * MINUTE},
        {750 * SECOND, 10 * MINUTE}, {1050 * SECOND, 15 * MINUTE},
        {25 * MINUTE, 20 * MINUTE},  {45 * MINUTE, 30 * MINUTE},
        {90 * MINUTE, HOUR},         {150 * MINUTE, 2 * HOUR},
        {270 * MINUTE, 3 * HOUR},    {9 * HOUR, 6 * HOUR},
        {24 * HOUR, 12 * HOUR},      {7 * DAY, DAY},
        {21 * DAY, 7 * DAY},         {42 * DAY, 30 * DAY},
    };
    int64_t length = 0;
    if (__builtin_sub_overflow(end_ms, start_ms, &length)) length = INT64_MAX;
    int64_t interval = length / POINTS;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (interval <= rows[i].most_ms) return rows[i].step_ms / SECOND;
    }
    return 365 * DAY / SECOND;
}

// Number of the slot that holds a time; slots before the epoch are negative.
static int64_t slot_of(int64_t ms, int64_t step_s)
{
    assert(step_s > 0);
    int64_t step_ms = step_s * SECOND;
    return ms / step_ms - (ms % step_ms < 0);
}

struct timeline timeline_of(int64_t start_ms, int64_t end_ms)
{
    start_ms = MAX(MIN(start_ms, EDGE_MS), -EDGE_MS);
    end_ms = MAX(MIN(end_ms, EDGE_MS), start_ms);
    struct timeline t = {.step_s = timeline_step(start_ms, end_ms)};
    int64_t first = slot_of(start_ms, t.step_s);
    int64_t end = slot_of(end_ms, t.step_s);
    assert(t.step_s > 0 && end >= first);
    t.start_s = first * t.step_s;
    t.slots = (size_t)(end - first);
    return t;
}

int64_t timeline_step_ns(const struct timeline *t)
{
    return t->step_s * NS_PER_S;
}

// Buckets include the time at which they end, slots do not: the two are a nanosecond apart.
int64_t timeline_first_ns(const struct timeline *t)
{
    return (t->start_s + t->step_s) * NS_PER_S - 1;
}

void timeline_print(const struct timeline *t, const int64_t *samples, struct buf *out)
{
    buf_z(out, "{\"startTime\":");
    buf_i64(out, t->start_s);
    buf_z(out, ",\"samples\":[");
    // The last slot is the one in which the range ends: it is shown only if it has something.
    size_t n = t->slots + (samples[t->slots] != 0);
    for (size_t i = 0; i < n; i++) {
        if (i) buf_byte(out, ',');
        buf_i64(out, samples[i]);
    }
    buf_z(out, "],\"durationDelta\":");
    buf_i64(out, t->step_s);
    buf_z(out, ",\"watermarks\":null}");
}
