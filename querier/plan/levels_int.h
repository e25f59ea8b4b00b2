// SPDX-License-Identifier: Apache-2.0
//
// levels_int.h - shared by the files of the planner: the blocks in and around the range.
#pragma once

#include "querier/plan/levels.h"

// A live block of rows.
struct level_raw {
    const struct manifest_block *block;
    int64_t from_ns;
    int64_t to_ns;
    bool without;     // cannot be read
    bool row_by_row;  // its nodes must not be used
};

// A child window of a parent.
struct level_window {
    const struct manifest_cover *cover;
    int64_t from_ns;
    int64_t to_ns;
    bool whole;    // every leaf of its cover is live or expired
    bool expired;  // one of them is
};

struct level_parent {
    const struct manifest_block *block;
    const struct level_window *windows;
    size_t window_count;
    bool usable;                          // it has the classes asked for and can be read
    const struct manifest_block **parts;  // of a service that is cut by its series: all its parts,
                                          // for which the first stands. NULL: it is not cut
    size_t worth;                         // how many windows it can serve, of the packs being laid
};

// A leaf that retention removed: the window that it was in, and the packs of a parent that names
// it.
struct level_expired {
    id128 id;
    int64_t from_ns;
    int64_t to_ns;
    uint32_t pack_lo;
    uint32_t pack_hi;
};

struct level_view {
    struct arena *arena;
    const struct level_given *given;
    const struct level_ask *ask;
    int64_t from_ns;  // of the range, rounded outward to days
    int64_t to_ns;
    struct level_raw *leaves;  // in order of time
    size_t leaf_count;
    int64_t longest_leaf;
    struct level_parent *parents;
    size_t parent_count;
    struct level_window *windows;
    size_t window_count;
    size_t window_cap;
    struct level_expired *expired;  // in order of time, then id
    size_t expired_count;
    size_t expired_cap;
    int64_t longest_expired;
    uint64_t *packs;  // where elementary intervals of packs begin, and the end of the last
    size_t pack_count;
};

// Fills in all but given, ask, arena and the range, which the caller sets.
bool level_inspect(struct level_view *v, err *e) MUST_CHECK;

static inline int64_t level_before(int64_t t, int64_t ns)
{
    int64_t earlier = 0;
    return __builtin_sub_overflow(t, ns, &earlier) ? INT64_MIN : earlier;
}

// Borders of slots of a width at or before, at or after a time; saturating.
static inline int64_t level_down(int64_t t, int64_t width)
{
    int64_t over = t % width;
    if (over < 0) over += width;
    int64_t border = 0;
    return __builtin_sub_overflow(t, over, &border) ? INT64_MIN : border;
}
static inline int64_t level_up(int64_t t, int64_t width)
{
    int64_t over = t % width;
    if (over < 0) over += width;
    int64_t border = 0;
    if (over == 0) return t;
    return __builtin_add_overflow(t, width - over, &border) ? INT64_MAX : border;
}

// Whether the leaves of a cover name this one.
bool level_names(const struct manifest_cover *c, id128 id);

// Hours as times; saturating.
int64_t level_hours_end(int64_t hour, uint32_t hours);

// Whether a block can have profiles in (from, to].
static inline bool level_may_have(const struct manifest_block *b, int64_t from_ns, int64_t to_ns)
{
    if (b->first_ns == 0 && b->last_ns == 0) return true;
    return b->first_ns <= to_ns && b->last_ns > from_ns;
}
