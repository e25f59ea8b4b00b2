// SPDX-License-Identifier: Apache-2.0
//
// query.h - turns a public request into a question for heads and blocks, without any IO.
//
// A request has a time range in ms, a profile type and a selector. A question has matchers, a range
// (from, to] in ns and wants (HeadReadRequest of proto/flametree/v1/internal.proto). This file
// makes one of the other, with Pyroscope's checks and messages. Time is an argument; memory is the
// given arena's; nothing here blocks.
//
//     request ms         [start, end]                       both inclusive
//     heads ns           (start * 10^6 - 1, end * 10^6]
//
// Products that do not fit int64 saturate: there is no profile at such times.
//
// Series: points are at t(k) = start + k * step and have what of the range lies in (t(k) - step,
// t(k)]; the first one has all of the starting ms. If a part of a step is left before end, it is a
// point too, at the end of its step, which is later than `end`. So the points add up to all that
// lies in the range:
//
//     start                                           end
//     |--------- step ---------|--------- step ---------|------ |
//     point 0                  1                        2       3
//
// With a *lead*, as Pyroscope has it, the range begins a step earlier, and all of that is of the
// first point.
#pragma once

#include "aggregate/totals.h"
#include "base/ulid.h"
#include "model/hide.h"
#include "model/label.h"
#include "model/ptype.h"
#include "service/tenant.h"

// A valid time range of a request, after limits.
struct query_range {
    int64_t start_ms;
    int64_t end_ms;
    bool empty;  // wholly before max_query_lookback: the answer is an empty message
};

struct query_tree {
    bool wanted;
    bool full_symbols;
    bool by_service;  // sums of each service apart, which need not fit int64
    uint64_t *spans;
    id128 *traces;
    id128 *profiles;
    size_t span_count;
    size_t trace_count;
    size_t profile_count;
};

// A heat map (message WantHeat). Without bounds only the least and largest value are asked for.
#define HEAT_BUCKETS 20
struct query_heat {
    bool wanted;
    bool exemplars;
    enum exemplar_kind kind;  // profiles or spans are counted
    int64_t first_ns;
    int64_t step_ns;
    int64_t slots;
    int64_t early_ns;
    const str *group_by;
    size_t group_by_count;
    int64_t bounds[HEAT_BUCKETS];
    size_t bound_count;
    int64_t largest;
};

struct query_labels {
    bool wanted;
    bool names_only;
    const str *names;
    size_t name_count;
};

// One question for heads and blocks. The zero value with a range wants nothing.
struct query {
    struct selector selector;
    int64_t from_ns;  // exclusive
    int64_t to_ns;    // inclusive
    struct query_tree tree;
    struct totals_want totals;
    int64_t steps;  // of totals: points at or before end
    struct query_heat heat;
    struct query_labels labels;
    bool stats;
    bool stat_sizes;  // with stats
    bool nothing;     // no profile can match: heads and blocks need not be asked
    // Deletions whose profiles do not count. A question that reads blocks lies within the range of
    // each (serve.c cuts it at their borders).
    const struct hide *hides;
    size_t hide_count;
};

// Checks a range and lays max_query_lookback and max_query_length over it. Fails with
// invalid_argument.
bool query_range(const struct limits *l, int64_t now_wall_ns, int64_t start_ms, int64_t end_ms,
                 struct query_range *out, err *e) MUST_CHECK;

// Sets from and to, saturating.
void query_set_range(struct query *q, const struct query_range *range);

// Adds the matcher of a profile type id and returns its parts, which borrow from id. Fails with
// invalid_argument.
bool query_add_type(struct arena *a, struct query *q, str id, struct ptype *type,
                    err *e) MUST_CHECK;

// Adds the matchers of a selector; the empty text is refused, "{}" is everything.
bool query_add_selector(struct arena *a, struct query *q, str text, err *e) MUST_CHECK;

// The number of nodes a flame graph may have; negative: any. asked 0 = not given.
bool query_max_nodes(const struct limits *l, int64_t asked, int64_t *max_nodes, err *e) MUST_CHECK;

// The same for a pprof, which is whole unless the request or the tenant's limits say otherwise; one
// for Go's compiler (pgo) always is.
bool query_pprof_nodes(const struct limits *l, int64_t asked, bool pgo, int64_t *max_nodes,
                       err *e) MUST_CHECK;

// Add selectors of spans (16 hex digits), traces (32 hex digits) or profiles (UUIDs). Digits are
// bytes in order, and a span id is the little-endian number of its 8 bytes. An id of zeros matches
// nothing.
bool query_add_spans(struct arena *a, struct query *q, char *const *texts, size_t n,
                     err *e) MUST_CHECK;
bool query_add_traces(struct arena *a, struct query *q, char *const *texts, size_t n,
                      err *e) MUST_CHECK;
bool query_add_profiles(struct arena *a, struct query *q, char *const *texts, size_t n,
                        err *e) MUST_CHECK;

// The points of a request: a step in seconds (at least 1 ms, cut to whole ms).
struct query_step {
    double seconds;
    bool lead;
    int64_t ms;  // out: the step used
};

// Asks for totals over time and sets the range that they need.
bool query_add_totals(struct query *q, const struct query_range *range, struct query_step *step,
                      err *e) MUST_CHECK;

// Asks for the extent of a heat map and sets range and slots: slot k is named start + k * step <=
// end, covers what series cover, and the last one also what is later, up to end.
bool query_add_heat(struct query *q, const struct query_range *range, struct query_step *step,
                    err *e) MUST_CHECK;

// The y axis of a heat map from its extent: HEAT_BUCKETS lower bounds, least + i * (largest -
// least) / HEAT_BUCKETS cut to a whole number; values that are all one are taken as 1 apart.
void query_set_axis(struct query_heat *heat, int64_t least, int64_t largest);

// Limits of a single query, from the querier's configuration; 0 = none.
struct query_most {
    int64_t points;    // querier.max_points
    int64_t matchers;  // querier.max_matchers
    int64_t labels;    // querier.max_labels
};
// Fails with invalid_argument naming the setting, its value and what was asked.
bool query_check(const struct query *q, const struct query_most *most, err *e) MUST_CHECK;

// Label names to group by, in order, each once; at most `most` (0: any number).
bool query_names(struct arena *a, char *const *texts, size_t n, int64_t most, const str **names,
                 size_t *count, err *e) MUST_CHECK;

// Fields of a HeadReadRequest that say what deletions hide.
void query_put_hides(const struct hide *v, size_t n, struct buf *out);

// The question as a HeadReadRequest.
void query_encode(const struct query *q, struct buf *out);
