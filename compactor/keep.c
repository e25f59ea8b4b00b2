// SPDX-License-Identifier: Apache-2.0
#include "compactor/keep.h"

struct keep_bytes keep_count(const struct manifest_block *v, size_t n,
                             const struct snapshot_segment *segments, size_t segment_count)
{
    struct keep_bytes out = {{0}};
    for (size_t i = 0; i < segment_count; i++)
        out.v[BLOCK_SEGMENT - 1] += segments[i].bytes;
    for (size_t i = 0; i < n; i++) {
        assert(v[i].kind >= BLOCK_RAW && v[i].kind <= BLOCK_DAYS);
        out.v[v[i].kind - 1] += v[i].bytes;
    }
    return out;
}

uint64_t keep_total(const struct keep_bytes *b)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < COUNT(b->v); i++)
        sum += b->v[i];
    return sum;
}

// The end of the time that a block is kept by: hour nodes of a day go together.
static int64_t end_of(const struct manifest_block *b)
{
    int64_t end = slot_start(b->from_hour + (int64_t)b->hours, SLOT_HOUR);
    if (b->kind != BLOCK_HOURS) return end;
    return slot_start(slot_of(end, SLOT_DAY) + 1, SLOT_DAY);
}

// Shortens a period until enough bytes of the kind are beyond it, or KEEP_LEAST is reached. Blocks
// that go together by their time are counted together.
static void shorten(int64_t *keep_ns, enum block_kind kind, const struct manifest_block *v,
                    size_t n, int64_t now_ns, uint64_t *left)
{
    int64_t newest = now_ns - KEEP_LEAST;
    int64_t cut = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        if (v[i].kind != kind) continue;
        int64_t end = end_of(&v[i]);
        if (end > newest || (*left == 0 && end > cut)) continue;
        cut = MAX(cut, end);
        *left -= MIN(*left, v[i].bytes);
    }
    if (cut == INT64_MIN) return;
    int64_t age = now_ns - cut;
    assert(age >= KEEP_LEAST);
    if (*keep_ns == 0 || age < *keep_ns) *keep_ns = age;
}

struct keep keep_for(const struct keep_rule *rule, const struct keep_bytes *bytes,
                     const struct manifest_block *v, size_t n, int64_t now_ns)
{
    struct keep out = {.raw_ns = rule->raw_ns,
                       .hours_ns = rule->hours_ns,
                       .days_ns = rule->days_ns};
    const uint64_t total = keep_total(bytes);
    if (rule->bytes == 0 || total <= rule->bytes) return out;
    // To nine tenths, so that not every new block is the next reason.
    uint64_t left = total - (rule->bytes - rule->bytes / 10);
    const struct {
        enum block_kind kind;
        int64_t *keep_ns;
    } order[] = {{BLOCK_RAW, &out.raw_ns},
                 {BLOCK_HOURS, &out.hours_ns},
                 {BLOCK_DAYS, &out.days_ns}};
    for (size_t i = 0; i < COUNT(order) && left; i++)
        shorten(order[i].keep_ns, order[i].kind, v, n, now_ns, &left);
    out.by_size = out.raw_ns != rule->raw_ns || out.hours_ns != rule->hours_ns ||
                  out.days_ns != rule->days_ns;
    out.over = left > rule->bytes / 10 ? left - rule->bytes / 10 : 0;
    return out;
}

uint64_t keep_share(uint64_t limit, uint64_t have, uint64_t all)
{
    assert(have <= all);
    if (all == 0) return MAX(limit, 1u);
    // Not have * limit / all, which may not fit; the error is below a part in a million.
    double share = (double)have / (double)all * (double)limit;
    return share < 1 ? 1 : share >= (double)UINT64_MAX ? UINT64_MAX : (uint64_t)share;
}
