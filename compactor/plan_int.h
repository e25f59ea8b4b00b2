// SPDX-License-Identifier: Apache-2.0
//
// plan_int.h - a plan in the making, shared by plan.c (hours), plan_leaves.c, plan_hours.c,
// plan_packs.c, plan_days.c and plan_windows.c (a level each), and plan_retire.c (what goes).
#pragma once

#include "compactor/choose.h"

#define HOURS_A_DAY    INT64_C(24)
#define DAYS_A_WINDOW  INT64_C(28)
#define HOURS_A_WINDOW (HOURS_A_DAY * DAYS_A_WINDOW)

// What waits for hours that cannot be made waits so long; then it is made without them.
#define PLAN_PATIENCE_NS SLOT_DAY

// An hour that has segments, leaves or hour nodes.
struct plan_hour {
    int64_t hour;
    size_t first_segment;
    size_t segment_count;  // those that are not damaged
    const struct manifest_block *const *leaves;
    size_t leaf_count;
    struct chosen chosen;     // of its hour nodes
    struct leaf_set unnamed;  // leaves that none of these sums
    bool pending;             // leaves or hour nodes are still to be made
    bool folds;               // its leaves are about to be replaced
    bool wide;                // one of its leaves is of a day
    bool series;              // its parents must have sums of series: plan_needs_series
    uint8_t jobs;             // kinds of those that are due in it, a bit each
    bool told_one;            // whether `one` says
    bool one;  // its hour nodes are one block for each pack, with series (plan_retire.c)
};

// The day nodes of a day that count, for what would go by them: leaf after leaf asks.
struct plan_day_nodes {
    bool known;
    int64_t day;
    bool are_one;  // one block for each pack, with sums
    struct chosen chosen;
    bool needed;  // they are among what the retirement needs
};

struct planning {
    struct arena *a;
    const struct plan_state *state;
    const struct plan_settings *settings;
    struct plan *out;
    size_t job_cap;
    const struct manifest_block **by_kind[BLOCK_DAYS + 1];  // in the manifest's order
    size_t kind_count[BLOCK_DAYS + 1];
    const struct manifest_block **bad;  // those that are damaged, which are in no other list
    size_t bad_count;
    const struct manifest_block **live;  // leaves in order of id
    struct plan_hour *hours;             // in order
    size_t hour_count;
    struct plan_day_nodes day;  // the one that was asked for last
};

int64_t plan_floor(int64_t hour, int64_t hours);  // floor(hour / hours)

// Notes that something is due at due_ns: true if that is now.
bool plan_is_due(struct planning *p, int64_t due_ns);

// How much has come since the last merge of a level, and how much it is to be merged with.
struct plan_amount {
    enum job_kind kind;
    int64_t from_hour;
    int64_t hours;
    int64_t newest_ns;  // when the last of it came
    uint64_t bytes;
    uint64_t before;  // bytes that were merged already and are written again
    size_t sources;
    size_t enough;  // so many sources are much; 0: as the settings say
};

// Is the job due? It is at *due_ns; or earlier, if much waits for it or a run asks, and nothing is
// due below it. Then *due_ns becomes the time at which the last of it came.
bool plan_is_time(struct planning *p, const struct plan_amount *m, int64_t *due_ns);

// How much of a day its nodes have (before) and lack. *first: when its oldest leaf was made.
struct plan_amount plan_amount_of_day(const struct planning *p, int64_t day,
                                      const struct leaf_set *all, const struct leaf_set *have,
                                      int64_t *first);

// Is no job below this kind due in these hours?
bool plan_is_quiet(const struct planning *p, enum job_kind kind, int64_t from_hour, int64_t hours);

// When something is due that is done once in an interval and was done last at made_ns.
int64_t plan_next_slot(int64_t made_ns, int64_t interval);

int64_t plan_newest_made(const struct manifest_block *const *v, size_t n);

// A further job, zero but for its kind; NULL: no memory.
struct task *plan_add(struct planning *p, enum job_kind kind, int64_t from_hour, uint32_t hours);

// The blocks of a kind that lie in hours [from, to).
const struct manifest_block **plan_blocks(struct planning *p, enum block_kind kind, int64_t from,
                                          int64_t to, size_t *n);

// May one of these leaves have profiles that a deletion hides? Then they are made anew, and none of
// their day expires before.
bool plan_are_hiding(const struct planning *p, const struct manifest_block *const *v, size_t n);
bool plan_day_is_hiding(struct planning *p, int64_t day);

// Did retention remove the leaf? Then it counts, and only parents have its sums.
bool plan_has_expired(const struct planning *p, id128 leaf);

// Does a cover, or one of n blocks that a job is to replace, name an expired leaf that is not among
// `others`, the leaves that the result names? To drop it would lose the leaf's sums for good, even
// if the cover does not count any more.
bool plan_has_last(const struct planning *p, const struct manifest_cover *c,
                   const struct leaf_set *others);
bool plan_have_last(const struct planning *p, const struct manifest_block *const *v, size_t n,
                    const struct leaf_set *others);

// Does any parent name an expired leaf of the day? Then none of the day's leaves may be replaced:
// parents that name both would be stale, and could not be made anew.
bool plan_day_has_expired(struct planning *p, int64_t day);

// May a block that is past its time go, as far as ingesters are concerned (watch.h)? plan_is_held
// is the opposite, and notes the block.
bool plan_may_go(struct planning *p, const struct manifest_block *b);
bool plan_is_held(struct planning *p, const struct manifest_block *b);

// Must parents of the day have the sums of its series? They must if its rows go within a day or
// some are gone. Until then rows answer where parents have no such sums.
bool plan_needs_series(struct planning *p, int64_t day);

// Has it sums of series, or none of anything because one does not fit?
static inline bool plan_has_series(const struct manifest_block *b)
{
    return b->classes ? b->classes >> BLOCK_SERIES & 1 : !b->spared;
}
bool plan_chosen_has_series(const struct chosen *c);
bool plan_chosen_is_spared(const struct chosen *c);  // in some packs

// The parents, of n, that a job may be made of. With `series`, those that have sums of series; and
// those that name a damaged leaf and have any sums, as nothing better can be made. NULL: no memory.
const struct manifest_block **plan_candidates(struct planning *p,
                                              const struct manifest_block *const *v, size_t *n,
                                              bool series);

// The live leaf of this id, unless it is damaged; or NULL.
const struct manifest_block *plan_live_leaf(const struct planning *p, id128 id);

// Do all leaves that a cover names count?
bool plan_all_live(const struct plan_state *s, const struct manifest_cover *c);

// The blocks of just this day; and of n candidates those that count for it.
bool plan_day_blocks(struct planning *p, int64_t day, const struct manifest_block ***out, size_t *n,
                     err *e) MUST_CHECK;
bool plan_choose_days(struct planning *p, const struct manifest_block *const *v, size_t n,
                      int64_t day, struct chosen *out, err *e) MUST_CHECK;

// The hours of [from, to) that there is anything of, and those of a day.
struct plan_hour *plan_hours_within(const struct planning *p, int64_t from, int64_t to, size_t *n);
struct plan_hour *plan_hours_of_day(const struct planning *p, int64_t day, size_t *n);

// Is it a block of this day alone?
bool plan_is_day(const struct manifest_block *b, int64_t day);

// ---- the planners, from the leaves upward; each adds the jobs that are due

bool plan_day_leaves(struct planning *p, err *e) MUST_CHECK;               // plan_leaves.c
bool plan_hour_nodes(struct planning *p, int64_t day, err *e) MUST_CHECK;  // plan_hours.c
bool plan_pack(struct planning *p, int64_t day, err *e) MUST_CHECK;        // plan_packs.c
bool plan_days(struct planning *p, err *e) MUST_CHECK;       // plan_days.c; with the two above
bool plan_windows(struct planning *p, err *e) MUST_CHECK;    // plan_windows.c
bool plan_deletions(struct planning *p, err *e) MUST_CHECK;  // plan_deletions.c; after the last
bool plan_retire(struct planning *p, err *e) MUST_CHECK;
