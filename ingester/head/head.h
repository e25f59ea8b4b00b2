// SPDX-License-Identifier: Apache-2.0
//
// head.h - the newest profiles in memory, in the form that queries need.
//
// Every (tenant, service) has one table of symbols, one index of series, the rows of each series by
// time, and the set of its profile ids, all under the service's rwlock. All of it is rebuilt from
// the log at a start.
//
// A batch comes in two steps around its write to the log. A batch that is not in the log must not
// be seen, and once it is in the log nothing may fail, because its push will be acknowledged:
//
//     head_stage     maps symbols and series, encodes the vectors anew, makes room for the rows.
//                    May fail (resource_exhausted naming the setting); then nothing shows.
//     head_log       writes the bytes that the log gets
//     ... the log has them ...
//     head_publish   lets queries see the rows. Needs no memory, cannot fail.
//     head_abandon   instead of it, when the log did not take them.
//
// A stage that failed may leave symbols and series without rows, which no query shows. They go with
// their service as soon as it has no rows, or when a drop compacts it.
//
// Readers take the lock service by service and series by series, so that a long query delays no
// push. A query sees every push that was answered before it began. It counts a batch whole or not
// at all: rows that come while a service is read are left out.
//
// Rows leave only by head_drop and head_remove. A reader holds the head (head_pin), and neither
// starts while it does; so an answer has the rows that a cut has of an hour, or has none of them.
// Both need the readers out only for the moment in which the rows are marked: from then on they do
// not count, and their memory is freed bit by bit beside readers and pushes. A service whose tables
// are mostly unused after a drop is replaced by a copy; readers of the former one go on in it.
//
// All memory counts against one budget, named like the setting: ingester.head_memory. Below it each
// tenant has a budget, of all that its services have: rows, vectors, series, labels, symbols, ids.
// So that no tenant takes the head from the others, it has a *share* (struct head_terms):
//
//     up to its share       it gets whatever the head has room for
//     beyond it             it is lent what nobody uses, but never the last HEAD_LEAVES-th of the
//                           head, nor so many bytes of the process's memory
//
// So a tenant that has less than its share always finds that part of the head, unless others that
// have less than theirs took it. What is lent comes back when the rows leave; the ingester closes
// its open cut for that before the lent part is used up (relief.h).
//
// A series is *active* while the head has rows of it, or a push is about to bring it some: from its
// first profile until a drop of cuts, or a refresh, has removed its last one. Their number has a
// limit for each tenant, which costs nothing where it cannot be met.
#pragma once

#include "aggregate/heat.h"
#include "aggregate/inventory.h"
#include "aggregate/label_sets.h"
#include "aggregate/span_filter.h"
#include "aggregate/totals.h"
#include "ingester/head/rows.h"
#include "loop/req.h"
#include "model/batch.h"
#include "model/hide.h"
#include "model/loose.h"
#include "model/merge.h"
#include "model/placings.h"

struct head;
struct staged;

// Takes from `parent` up to `limit` bytes (0: what parent allows). Returns owned; bookkeeping only.
struct head *head_new(struct mem_budget *parent, size_t limit);
void head_free(struct head *h);  // no thread uses it any more

// For a head whose rows go to a store: ids of dropped rows stay known for a while (recent_ids.h),
// so that a push that comes again counts once. Call it before anything is dropped.
void head_remember(struct head *h);

// Writes and reads these ids in files below `dir`, for the next process (recent_ids_save,
// recent_ids_load).
bool head_save_recent_ids(struct head *h, const char *dir, struct mem_budget *memory,
                          err *e) MUST_CHECK;
bool head_load_recent_ids(struct head *h, const char *dir, struct mem_budget *memory,
                          err *e) MUST_CHECK;

// Of a row that left: may its id be among those of which only a filter is left? And are there ids
// of the tenant that are not known any more, of rows that came until *wall_ns? (recent_ids.h)
bool head_may_have_had(struct head *h, str tenant, struct loose_key key);
bool head_lacks_ids(struct head *h, str tenant, int64_t *wall_ns);

// Changes when one of the two may have changed from false to true for a row.
uint64_t head_id_losses(struct head *h);

// For how long back the head knows the ids of rows that left it, of all tenants; at most
// RECENT_IDS_NS.
uint64_t head_knows_ids_ns(struct head *h);

// For a head that reads a log back which has missed deletions: rows that these hide are not staged.
// `hides` gives those of a tenant, which stay until the head is freed; it is called under a lock,
// and must not block.
struct head_filter {
    void (*hides)(void *arg, str tenant, const struct hide **v, size_t *n);
    void *arg;
    _Atomic uint64_t hidden;  // rows that were left out
};
void head_set_filter(struct head *h, struct head_filter *f);

// A replay sets 0, no limit, because what was acknowledged has to be held.
void head_set_limit(struct head *h, size_t limit);
// From now on the head leaves so many bytes of its parents' budgets free, for the flush that
// empties it. Call it while no other thread uses the head.
void head_leave(struct head *h, size_t bytes);
// How much of the head's memory the translations of distributors' lexicons may take
// (translation.h). With 0, as at first, batches that name a lexicon are refused with not_found.
void head_set_lexicons(struct head *h, size_t bytes);
const struct mem_budget *head_budget(const struct head *h);

struct head_counts {
    uint64_t services;
    uint64_t series;         // in the tables
    uint64_t active_series;  // that have rows
    uint64_t rows;
    uint64_t duplicates;  // rows dropped because their id was there, since the start
    uint64_t capped;      // values moved to [too many stacks], since the start
    // Of flushes and drops, since the start: services and rows that they visited, how often they
    // held a service's lock, and the most rows or series that they visited under one hold.
    uint64_t visited_services;
    uint64_t visited_rows;
    uint64_t runs;
    uint64_t longest_run;
    uint64_t asked_services;  // visited by queries, since the start
    uint64_t longest_hold;    // ns of processor time of the longest of these holds
    uint64_t
        longest_recent_ids;  // most ids that were moved under one hold of their lock (recent_ids.h)
    uint64_t lexicons;       // of distributors, that are known
    uint64_t lexicon_bytes;
    uint64_t lexicons_refused;  // batches that had to come with all their symbols, since the start
};
struct head_counts head_count(struct head *h);

// All tenants, those with the most bytes first. The arena's.
struct head_tenant {
    str name;
    size_t bytes;
    uint32_t services;
    uint64_t series;  // active
};
bool head_tenants(struct head *h, struct arena *a, struct head_tenant **out, size_t *n,
                  err *e) MUST_CHECK;

// ---- writing

// One part of the head in so many is for tenants that have no more than their shares.
#define HEAD_LEAVES 8

enum head_refusal {
    HEAD_NO_ROOM,
    HEAD_NO_SHARE,   // the tenant has more than its share, and there is no room to lend
    HEAD_NO_SERIES,  // it has as many active series as it may
};

// What a batch's tenant may have; zeros are no limits.
struct head_terms {
    uint64_t max_stacks;        // distinct ones of a service and hour
    uint64_t max_series;        // active ones
    double share;               // of the head's limit
    enum head_refusal refusal;  // set if head_stage fails with resource_exhausted
};

// terms: NULL for no limits. *out is the arena's. Arena and batch must stay until it is published
// or abandoned.
//
// A row is staged by one request at a time. If two requests could stage it at once, it would be in
// the log twice, perhaps in two cuts, and be counted twice once one of these was in the store. So
// the second request fails with aborted; it abandons what it has staged, waits for the turn
// (head_await_turn) and begins anew. A row that the same request (the same arena) has staged
// already is a duplicate.
bool head_stage(struct head *h, struct arena *a, str tenant, const struct batch *b,
                struct head_terms *terms, struct staged **out, err *e) MUST_CHECK;
uint64_t head_turn(struct head *h);  // to be read before head_stage, for head_await_turn
bool head_await_turn(struct head *h, struct req *r, uint64_t turn, err *e) MUST_CHECK;
uint32_t staged_rows(const struct staged *s);  // without those that are known to be duplicates
void head_publish(struct staged *s, struct cut *cut);
void head_abandon(struct staged *s);

// ---- the log of what was staged (head_log.h)
// The rows in the form that an entry of the log has. *rows borrows from s until it is published or
// abandoned. Once only.
bool head_log(struct staged *s, str *rows, err *e) MUST_CHECK;

// Appends the entry's news: those rows of the service's tables that the entry needs and no earlier
// entry of this run of the log (wal.h) brought. A wal_news_fn.
bool head_log_news(void *staged, uint64_t run, struct buf *out, err *e) MUST_CHECK;

// Reads the entries of one cut back into the head, in order. An entry that refers to a row which
// the log does not have is refused with data_loss; nothing of it shows.
struct restore;
struct restore *restore_new(struct head *h, struct mem_budget *memory, err *e) MUST_CHECK;
void restore_free(struct restore *r);  // NULL is fine

// With `known` the head has the entry's rows already: only its news are noted, and *out is NULL.
// Fails with aborted as head_stage.
bool restore_entry(struct restore *r, struct arena *a, str tenant, str rows, bool known,
                   struct staged **out, err *e) MUST_CHECK;

// Removes all rows of a closed cut, then services without rows. False if readers hold the head;
// with `insist` it waits for them, and new ones for it until the cut is marked.
bool head_drop(struct head *h, struct cut *cut, bool insist, size_t *rows);

// Removes some rows of a cut before the cut goes:
//
//     head_exclude   no reader is inside until head_admit. The caller changes what answers name, a
//                    few steps; the rows are concealed: readers that come later pass them over
//     head_admit
//     head_remove    takes them out, in short runs, beside readers
//
// One thread at a time is between the first and the last. `what` must not change until then, but
// for NULL: no rows go.
struct head_removal {
    struct cut *cut;
    str tenant;
    int64_t hour;
    const str *services;  // all that have some
    size_t service_count;
    const struct loose_set *keys;  // only these; NULL: all of them
};
void head_exclude(struct head *h, const struct head_removal *what);
void head_admit(struct head *h);
size_t head_remove(struct head *h);  // how many

// Cuts of an adopted stream (wal.h) are hidden while their rows come:
//
//     head_adopts   before the first row of a hidden cut comes
//     head_reveal   from then on readers count the rows of these cuts, all at once. Waits for the
//                   readers that are inside
//     head_let_go   instead of it: the rows of a cut leave, and may come again. No row of the cut
//                   comes meanwhile
//
// Ids of rows that leave a hidden cut are not remembered, whatever takes them out: its log may be
// read again, and a row whose id is known would be left out then.
void head_adopts(struct head *h);
void head_reveal(struct head *h, struct cut *const *cuts, size_t n);
void head_let_go(struct head *h, struct cut *cut);

// Frees services that were replaced by a copy and have no readers any more. Any thread, now and
// then.
void head_tidy(struct head *h);

// Takes services without rows out of the table, of some at each call: pushes that failed at the
// same time may leave one, and no cut names it. Any thread, now and then.
void head_sweep_some(struct head *h);

// ---- the pieces of a closed cut

// Its rows of one tenant and hour of profile time, which become a segment.
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
    bool identified;                 // rows with a placing are loose, whatever their attempt
    struct placings *placings;       // those of the rows are added here; NULL: nobody wants them
    const struct hide *hides;        // deletions whose rows do not count
    size_t hide_count;
    uint32_t adopted;  // only rows of this adopted stream (wal.h); 0: of the streams of this node
};
#define LOOSE_MINE 1u

// While a reader holds the head, no row leaves.
void head_pin(struct head *h);
void head_unpin(struct head *h);

// Adds the sums of all matching rows to *m; *profiles grows by their number. Series with
// __sampled__="true" are left out. Memory is that of m's budget.
bool head_tree(struct head *h, struct req *r, const struct head_query *q,
               const struct span_filter *f, struct merge *m, uint64_t *profiles, err *e) MUST_CHECK;

// The same, service by service, for sums that need not fit int64: calls fn with a wide merge of
// each that has a row. names_only as in merge_init; memory counts against `budget`.
struct head_sums {
    str service;
    const struct merge *stacks;
    uint64_t profiles;
};
typedef bool head_sums_fn(void *arg, const struct head_sums *sums, err *e);
struct head_services {
    struct mem_budget *budget;
    bool names_only;
    head_sums_fn *fn;
    void *arg;
};
bool head_tree_services(struct head *h, struct req *r, const struct head_query *q,
                        const struct span_filter *f, const struct head_services *to,
                        err *e) MUST_CHECK;

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

// How many rows and series match, and with_sizes how large they are.
bool head_stat(struct head *h, struct req *r, const struct head_query *q, bool with_sizes,
               struct inventory *out, err *e) MUST_CHECK;
