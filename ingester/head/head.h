// SPDX-License-Identifier: Apache-2.0
//
// head.h - the newest profiles in memory, as queries need them.
//
// For every (tenant, service) there is one table of symbols, one index of series, the rows of each
// series by time, and the set of profile ids seen; all of it under the service's rwlock. Everything
// here can be built again from the log, and is, at a start.
//
// A batch comes in two steps around its write to the log, because an answer that was given must not
// fail afterwards and a batch that is not in the log must not be seen:
//
//     head_stage     maps symbols and series, encodes the vectors anew, makes room for the rows.
//                    May fail (resource_exhausted naming the row head_memory); then nothing shows.
//     head_log       the log's bytes of it
//     ... the log has it ...
//     head_publish   lets the rows be seen. Needs no memory, cannot fail.
//     head_abandon   instead, when the log did not take it.
//
// What a failed stage leaves behind is symbols and series without rows, which no query shows.
//
// Readers take the lock service by service and series by series, so that a long query delays no
// push. A push that was answered before is never missed, and sums hold a batch whole or not at all:
// what comes while a service is read is left out. Rows leave only by head_drop and head_remove,
// which readers exclude (head_pin), so an answer holds the piece of a cut whole or not at all. A
// drop excludes them only for the moment in which the cut is marked as dropped: from then on its
// rows count no more, and their memory is given back run by run beside readers and pushes. A
// service whose tables are mostly dead by then is replaced by a copy: who reads the former one goes
// on.
//
// Memory counts against one budget; its name is that of the configuration row.
#pragma once

#include "aggregate/heat.h"
#include "aggregate/inventory.h"
#include "aggregate/label_sets.h"
#include "aggregate/span_filter.h"
#include "aggregate/totals.h"
#include "ingester/head/rows.h"
#include "loop/req.h"
#include "model/batch.h"
#include "model/loose.h"
#include "model/merge.h"

struct head;
struct staged;

// Takes from `parent` up to `limit` bytes (0: what parent allows). Returns owned; bookkeeping only.
struct head *head_new(struct mem_budget *parent, size_t limit);
void head_free(struct head *h);  // nobody uses it any more

// From now on rows that are dropped are elsewhere: their ids stay known for a while (recent_ids.h),
// so that a push that comes again counts once. Before anything is staged.
void head_remember(struct head *h);

// These ids in files below `dir`, for the next process (recent_ids_save, recent_ids_load).
bool head_save_recent_ids(struct head *h, const char *dir, struct mem_budget *memory,
                          err *e) MUST_CHECK;
bool head_load_recent_ids(struct head *h, const char *dir, struct mem_budget *memory,
                          err *e) MUST_CHECK;

// Replay may go over the limit: what was acknowledged has to be held. 0 = no limit.
void head_set_limit(struct head *h, size_t limit);
// From now on leaves so many bytes free in its parents, for what empties it. While nobody uses it.
void head_leave(struct head *h, size_t bytes);
// Memory, of the head's, for what lexicons of distributors are here (translation.h); 0, as it is at
// first: batches that name one are refused with not_found.
void head_set_lexicons(struct head *h, size_t bytes);
const struct mem_budget *head_budget(const struct head *h);

struct head_counts {
    uint64_t services;
    uint64_t series;
    uint64_t rows;
    uint64_t duplicates;  // rows dropped because their id was there, since the start
    uint64_t capped;      // values moved to [too many stacks], since the start
    // Of flushes and drops, since the start: services and rows that they looked at, how often they
    // held a service's lock (for writing, or to copy what is left), and the most rows or series
    // that they looked at meanwhile.
    uint64_t visited_services;
    uint64_t visited_rows;
    uint64_t runs;
    uint64_t longest_run;
    uint64_t asked_services;  // that questions looked at, since the start
    uint64_t longest_hold;    // the most time of the processor, ns, that one of these took
    uint64_t
        longest_recent_ids;  // the most ids of what left that were moved at once (recent_ids.h)
    uint64_t lexicons;       // of distributors that are known
    uint64_t lexicon_bytes;
    uint64_t lexicons_refused;  // batches that had to come with all their symbols, since the start
};
struct head_counts head_count(struct head *h);

// ---- writing
// The batch's memory and the arena may go once it is published or abandoned. max_stacks: limit of
// distinct stacks per service and hour, 0 = none. *out is the arena's.
//
// A row is staged by one request at a time: of two that came with it at once, both would be in the
// log, perhaps in two cuts, and counted by both once one of them left for the store. The second one
// fails with aborted; it abandons what it has staged, waits for the turn (head_await_turn) and
// begins anew. What the same request (arena) has staged is known.
bool head_stage(struct head *h, struct arena *a, str tenant, const struct batch *b,
                uint64_t max_stacks, struct staged **out, err *e) MUST_CHECK;
uint64_t head_turn(struct head *h);  // asked before head_stage
bool head_await_turn(struct head *h, struct req *r, uint64_t turn, err *e) MUST_CHECK;
uint32_t staged_rows(const struct staged *s);  // without those that are known to be duplicates
void head_publish(struct staged *s, struct cut *cut);
void head_abandon(struct staged *s);

// ---- the log of what was staged (head_log.h)
// The rows as an entry of the log has them; theirs until they are published or abandoned.
bool head_log(struct staged *s, str *rows, err *e) MUST_CHECK;

// What the entry brings besides: rows of the service's tables that no earlier entry of this run of
// the log (wal.h) brought. A wal_news_fn.
bool head_log_news(void *staged, uint64_t run, struct buf *out, err *e) MUST_CHECK;

// Entries of one cut's log back into the head, in order. What is missing of them is refused with
// data_loss; nothing of such an entry shows.
struct restore;
struct restore *restore_new(struct head *h, struct mem_budget *memory, err *e) MUST_CHECK;
void restore_free(struct restore *r);  // NULL is fine

// With `known` the head has the rows already and only what the entry brings is noted; *out is then
// NULL. Fails with aborted as head_stage.
bool restore_entry(struct restore *r, struct arena *a, str tenant, str rows, bool known,
                   struct staged **out, err *e) MUST_CHECK;

// Removes all rows of a closed cut, then services without rows. False if readers hold the head;
// with `insist` it waits for them, and new ones for it until the cut is marked.
bool head_drop(struct head *h, struct cut *cut, bool insist, size_t *rows);

// The same in steps, for rows that go before their cut does. Between the first and the last no
// reader is inside, so answers and what they name change together.
struct head_removal {
    struct cut *cut;
    str tenant;
    int64_t hour;
    const str *services;  // that have some
    size_t service_count;
    const struct loose_set *keys;  // only these; NULL: all of them
};
void head_exclude(struct head *h);
size_t head_remove(struct head *h, const struct head_removal *what);
void head_admit(struct head *h);

// Frees what was replaced by a copy and is not read any more. From any thread, now and then.
void head_tidy(struct head *h);

// ---- what a closed cut has

// Its rows of one tenant and hour of profile time: what becomes a segment.
struct head_piece {
    str tenant;
    int64_t hour;
    uint64_t rows;
    str *services;  // that have some, in order
    size_t service_count;
};

// In order of tenant and hour; the arena's. The cut does not change any more.
bool head_pieces(struct head *h, const struct cut *cut, struct arena *a, struct head_piece **out,
                 size_t *n, err *e) MUST_CHECK;

// Adds the keys of a piece's rows.
bool head_piece_keys(struct head *h, const struct cut *cut, const struct head_piece *piece,
                     struct loose_set *keys, err *e) MUST_CHECK;

// ---- reading
struct head_query {
    const str *tenants;
    size_t tenant_count;
    struct selector selector;
    int64_t from_ns;            // exclusive
    int64_t to_ns;              // inclusive
    struct mem_budget *memory;  // of scratch beside the request's arena; NULL: not counted
    // Exactly once over several ingesters (model/loose.h); both NULL: all rows count.
    const struct loose_set *listed;  // the second question: keeper LOOSE_MINE is this head
    struct loose_set *met;           // the first: loose rows that count are noted here
};
#define LOOSE_MINE 1u

// While held, no cut is dropped.
void head_pin(struct head *h);
void head_unpin(struct head *h);

// Adds the sums of all matching rows to *m; *profiles grows by their number. Series with
// __sampled__="true" are left out. Memory is that of m's budget.
bool head_tree(struct head *h, struct req *r, const struct head_query *q,
               const struct span_filter *f, struct merge *m, uint64_t *profiles, err *e) MUST_CHECK;

// Totals of the matching rows, finished. Arrays are the arena's of r; strings of exemplars and
// annotations borrow from the head while it is held.
bool head_totals(struct head *h, struct req *r, const struct head_query *q,
                 const struct totals_want *w, struct cells *out, err *e) MUST_CHECK;

// Their heat map, finished, and the extent of the values in it; without buckets only the extent.
// Memory as head_totals'.
bool head_heat(struct head *h, struct req *r, const struct head_query *q, const struct heat_want *w,
               struct cells *out, struct extent *extent, err *e) MUST_CHECK;

// Distinct label sets of series with rows in the range, in order; the arena's of r.
struct head_labels_want {
    const str *names;   // only these pairs of each set
    size_t name_count;  // 0: all pairs
};
bool head_labels(struct head *h, struct req *r, const struct head_query *q,
                 const struct head_labels_want *w, struct label_sets *out, err *e) MUST_CHECK;

// Distinct label names of series with rows in the range, in order.
bool head_label_names(struct head *h, struct req *r, const struct head_query *q,
                      struct label_sets *out, err *e) MUST_CHECK;

// What there is of the matching rows; sizes only with_sizes.
bool head_stat(struct head *h, struct req *r, const struct head_query *q, bool with_sizes,
               struct inventory *out, err *e) MUST_CHECK;
