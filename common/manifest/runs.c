// SPDX-License-Identifier: Apache-2.0
//
// Sets of segments as runs. Numbers of cuts have 64 bits and come from other processes; a run that
// ends beyond 64 bits is refused when it is read (segment_run_ok), so the sums here do not wrap.
#include "manifest/runs.h"

#include "codec/pb.h"

#include <inttypes.h>
#include <stdlib.h>

// ---- order

int segment_run_lane_cmp(const struct segment_run *a, const struct segment_run *b)
{
    if (a->hour != b->hour) return a->hour < b->hour ? -1 : 1;
    int order = memcmp(a->stream.b, b->stream.b, sizeof a->stream.b);
    if (order) return order;
    return a->part < b->part ? -1 : a->part > b->part;
}

int segment_run_cmp(const struct segment_run *a, const struct segment_run *b)
{
    int order = segment_run_lane_cmp(a, b);
    return order ? order : a->cut < b->cut ? -1 : a->cut > b->cut;
}

bool segment_runs_meet(const struct segment_run *a, const struct segment_run *b)
{
    return segment_run_lane_cmp(a, b) == 0 && a->cut <= segment_run_last(b) &&
           b->cut <= segment_run_last(a);
}

bool segment_run_ok(const struct segment_run *r)
{
    return r->cuts > 0 && r->cut <= UINT64_MAX - r->cuts;
}

bool segment_run_follows(const struct segment_run *a, const struct segment_run *b)
{
    int order = segment_run_lane_cmp(a, b);
    if (order) return order < 0;
    // Runs that touch are one run, unless that would have more cuts than its number can say.
    bool may_grow = a->cuts < UINT32_MAX;
    return b->cut > segment_run_last(a) && (b->cut - segment_run_last(a) > 1 || !may_grow);
}

// ---- sets

static int by_run(const void *a, const void *b)
{
    return segment_run_cmp(a, b);
}

size_t segment_runs_join(struct segment_run *v, size_t n)
{
    size_t kept = 0;
    if (n) qsort(v, n, sizeof *v, by_run);
    for (size_t i = 0; i < n; i++) {
        struct segment_run next = v[i];
        struct segment_run *last = kept ? &v[kept - 1] : NULL;
        assert(segment_run_ok(&next));
        // Meets the last one, or comes right after it: the last one grows as far as it may, and
        // what is left of this one begins behind it.
        if (last && segment_run_lane_cmp(last, &next) == 0 && next.cut <= last->cut + last->cuts) {
            uint64_t end = MAX(segment_run_last(last), segment_run_last(&next)) + 1;
            last->cuts = (uint32_t)MIN(end - last->cut, UINT32_MAX);
            next.cut = last->cut + last->cuts;
            next.cuts = (uint32_t)(end - next.cut);
            if (next.cuts == 0) continue;
        }
        v[kept++] = next;
    }
    return kept;
}

uint64_t segment_runs_count(const struct segment_run *v, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i].cuts;
    return sum;
}

bool segment_runs_share(const struct segment_run *a, size_t an, const struct segment_run *b,
                        size_t bn, struct segment_name *which)
{
    for (size_t i = 0, k = 0; i < an && k < bn;) {
        if (segment_runs_meet(&a[i], &b[k])) {
            const struct segment_run *later = a[i].cut > b[k].cut ? &a[i] : &b[k];
            *which = segment_run_at(later, 0);
            return true;
        }
        if (segment_run_cmp(&a[i], &b[k]) < 0)
            i++;
        else
            k++;
    }
    return false;
}

struct segment_run *segment_runs_minus(struct arena *arena, const struct segment_run *a, size_t an,
                                       const struct segment_run *b, size_t bn, size_t *n)
{
    // Each run of b splits at most one run of a, so there are no more than both have together.
    struct segment_run *v = ARENA_ARRAY(arena, struct segment_run, an + bn);
    size_t k = 0;
    *n = 0;
    for (size_t i = 0; v && i < an; i++) {
        struct segment_run left = a[i];
        while (k < bn && segment_run_cmp(&b[k], &left) < 0 && !segment_runs_meet(&b[k], &left))
            k++;
        for (size_t j = k; left.cuts && j < bn && segment_runs_meet(&b[j], &left); j++) {
            uint64_t end = segment_run_last(&left) + 1;
            uint64_t from = segment_run_last(&b[j]) + 1;
            if (b[j].cut > left.cut) {
                v[*n] = left;
                v[(*n)++].cuts = (uint32_t)(b[j].cut - left.cut);
            }
            left.cut = MIN(from, end);
            left.cuts = (uint32_t)(end - left.cut);
            if (left.cuts == 0) break;
        }
        if (left.cuts) v[(*n)++] = left;
    }
    assert(*n <= an + bn);
    return v;
}

// ---- bytes

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static size_t row_of(const id128 *streams, size_t n, const id128 *stream)
{
    const id128 *at = bsearch(stream, streams, n, sizeof *streams, by_id);
    assert(at);
    return (size_t)(at - streams);
}

void segment_runs_put(struct buf *out, const struct segment_run *v, size_t n, int64_t hour,
                      const id128 *streams, size_t stream_count)
{
    size_t last = 0;
    for (size_t i = 0; i < n; i++) {
        size_t row = row_of(streams, stream_count, &v[i].stream);
        if (v[i].hour != hour) last = 0;
        // A set is in order, so neither difference is negative.
        assert(v[i].hour >= hour && row >= last && v[i].cuts > 0);
        pb_put_varint(out, (uint64_t)(v[i].hour - hour) << 1 | (v[i].part > 0));
        pb_put_varint(out, row - last);
        if (v[i].part) pb_put_varint(out, v[i].part);
        pb_put_varint(out, v[i].cut);
        pb_put_varint(out, v[i].cuts - 1);
        hour = v[i].hour;
        last = row;
    }
}

#define RUN_NUMBERS_MIN 4  // a run without a part: hour, stream, cut, cuts

// A number ends with a byte whose top bit is clear.
size_t segment_runs_most(str bytes)
{
    size_t numbers = 0;
    for (size_t i = 0; i < bytes.n; i++)
        numbers += !(bytes.p[i] & 0x80);
    return numbers / RUN_NUMBERS_MIN;
}

// The numbers of a run: hours later and whether a part follows, stream, part, cut, cuts - 1.
static bool get_run(const uint8_t **at, const uint8_t *end, uint64_t v[5])
{
    v[2] = 0;
    return varint_get(at, end, &v[0]) && varint_get(at, end, &v[1]) &&
           (!(v[0] & 1) || varint_get(at, end, &v[2])) && varint_get(at, end, &v[3]) &&
           varint_get(at, end, &v[4]);
}

// The run of these numbers. *hour and *row are those of the run before, and become this run's.
static bool make_run(const uint64_t x[5], const id128 *streams, size_t stream_count, int64_t *hour,
                     uint64_t *row, struct segment_run *out, err *e)
{
    if (x[0] >> 1 > INT32_MAX)
        return err_set(e, ERR_DATA_LOSS, "hour is %" PRIu64 " later", x[0] >> 1);
    if (x[0] >> 1) *row = 0;
    *hour += (int64_t)(x[0] >> 1);
    if (x[1] >= stream_count || (*row += x[1]) >= stream_count)
        return err_set(e, ERR_DATA_LOSS, "stream is %" PRIu64 " of %zu", *row, stream_count);
    if (x[2] > UINT32_MAX || (x[0] & 1 && x[2] == 0))
        return err_set(e, ERR_DATA_LOSS, "part is %" PRIu64, x[2]);
    if (x[4] >= UINT32_MAX) return err_set(e, ERR_DATA_LOSS, "cuts is %" PRIu64 " and one", x[4]);
    *out = (struct segment_run){*hour, streams[*row], x[3], (uint32_t)x[4] + 1, (uint32_t)x[2]};
    return true;
}

bool segment_runs_get(str bytes, int64_t hour, const id128 *streams, size_t stream_count,
                      struct segment_run *out, size_t *n, err *e)
{
    const uint8_t *at = (const uint8_t *)bytes.p;
    const uint8_t *end = at + bytes.n;
    uint64_t row = 0;
    for (*n = 0; at < end; ++*n) {
        uint64_t x[5];
        if (!get_run(&at, end, x))
            return err_set(e, ERR_DATA_LOSS, "source %zu: it ends within a number", *n);
        if (!make_run(x, streams, stream_count, &hour, &row, &out[*n], e))
            return err_wrap(e, "source %zu", *n);
    }
    return true;
}
