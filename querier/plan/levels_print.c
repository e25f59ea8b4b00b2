// SPDX-License-Identifier: Apache-2.0
//
// A plan for people: how far its range was rounded, and its pieces as lines of text.
#include "querier/plan/levels_int.h"

#include <stdio.h>
#include <time.h>

static int64_t distance(int64_t a, int64_t b)
{
    int64_t d = 0;
    if (__builtin_sub_overflow(MAX(a, b), MIN(a, b), &d)) return INT64_MAX;
    return d;
}

int64_t level_rounding(const struct level_plan *p, const struct level_ask *ask)
{
    int64_t edges = MAX(distance(p->from_ns, ask->from_ns), distance(p->to_ns, ask->to_ns));
    return MAX(edges, p->slot_ns);
}

static const char *const kinds[] = {[BLOCK_SEGMENT] = "segment",
                                    [BLOCK_RAW] = "raw",
                                    [BLOCK_HOURS] = "hours",
                                    [BLOCK_DAYS] = "days"};
static const char *const uses[] = {
    [LEVEL_NODES] = "nodes", [LEVEL_TOTALS] = "totals", [LEVEL_ROWS] = "rows"};

// UTC to the second, with the nanoseconds if there are any.
static void put_time(struct buf *out, int64_t ns)
{
    int64_t rest = ns % 1000000000;
    if (rest < 0) rest += 1000000000;
    time_t seconds = (time_t)(ns / 1000000000 - (ns % 1000000000 < 0));
    struct tm t;
    char text[64];
    if (!gmtime_r(&seconds, &t) || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t) == 0) {
        buf_i64(out, ns);
        return;
    }
    buf_z(out, text);
    if (rest) buf_printf(out, ".%09lld", (long long)rest);
    buf_z(out, "Z");
}

static void put_range(struct buf *out, int64_t from_ns, int64_t to_ns)
{
    buf_z(out, "(");
    put_time(out, from_ns);
    buf_z(out, ", ");
    put_time(out, to_ns);
    buf_z(out, "]");
}

void level_print_piece(const struct level_piece *piece, struct buf *out)
{
    buf_printf(out, "%-7s %-6s ", kinds[piece->object->kind], uses[piece->use]);
    put_range(out, piece->from_ns, piece->to_ns);
    bool several = piece->pack_lo < piece->pack_hi;  // else it is the question's only service
    if (several && (piece->pack_lo > 0 || piece->pack_hi < UINT32_MAX)) {
        buf_printf(out, " packs %08x-%08x", piece->pack_lo, piece->pack_hi);
    }
    buf_printf(out, " %.*s", STR(piece->object->name));
}
