// SPDX-License-Identifier: Apache-2.0
//
// merge_int.h - a service being merged, shared by block_merge.c (the way through it), merge_input.c
// (sources), merge_rows.c (rows in, rows or hours out) and merge_nodes.c (nodes in, nodes out).
#pragma once

#include "compactor/block_merge.h"
#include "compactor/merge_sums.h"
#include "compactor/scratch.h"

// One frame of a source, parsed; replaced when another is asked for.
struct rows_frame {
    struct arena arena;
    const struct block_frame *frame;
    struct block_heads heads;
    struct block_details details;
    const struct block_row_spans *spans;  // by row; NULL: none of them has any
};
struct vectors_frame {
    struct arena arena;
    const struct block_frame *frame;
    struct block_vectors v;
};
struct totals_frame {
    struct arena arena;
    const struct block_frame *frame;
    struct block_total *v;
};

// A source, with the index of the service that is merged.
struct input {
    const struct block_merge_source *source;
    struct block_index index;
    uint32_t *stacks;   // its stacks -> the new ones
    uint32_t *vectors;  // its vectors -> the new ones + 1; only if rows are written
    uint64_t vector_count;
    const bool *used;  // by its stacks: a row that stays has it; NULL: all are taken
    struct rows_frame rows;
    struct vectors_frame row_vectors;
    struct vectors_frame node_vectors;
    struct totals_frame totals;
};

// A key of an input under the labels that it gets.
struct input_key {
    struct input *input;
    const struct block_key_ref *key;
    enum block_class class;  // the new class: a series of a source that is cut otherwise has all
                             // three
    labels ls;
};

// Keys that become one: v[0 .. n-1] have equal type, class and labels.
struct key_group {
    const struct input_key *v;
    size_t n;
};

struct service_merge {
    struct block_merge *merge;
    struct block_writer *writer;
    struct arena arena;    // what lives as long as the service is merged
    struct arena group;    // the rows of a key
    struct arena scratch;  // a row, a node
    struct buf columns;
    struct input *inputs;
    size_t input_count;
    uint32_t stack_count;
    uint32_t pack;
    struct input_key *keys;  // sorted; made by service_keys
    size_t key_count;
    enum block_class as;  // the class that a key_labels is asked for
    uint64_t rows_out;    // written, or left out as copies or because a deletion hides them
    uint64_t hidden;  // rows (or series) that deletions hide, as far as the sources were looked at
    uint64_t sampled_hidden;
    bool empty;  // deletions hide all of its rows: it is not in the new block
};

// ---- merge_input.c

// Opens the sources that have the service; writes the service with its symbols.
bool service_open(struct service_merge *s, str name, err *e) MUST_CHECK;
void service_close(struct service_merge *s);

// All keys of the inputs that are of this part and for which `wanted` gives labels as keys of class
// s->as, in order of type, class, labels.
typedef bool key_labels(struct service_merge *s, struct input *in, const struct block_key_ref *k,
                        labels *ls, bool *wanted, void *arg, err *e);
bool service_keys(struct service_merge *s, key_labels *fn, void *arg, err *e) MUST_CHECK;

str key_type(const struct input_key *k);

// The period of a type's profiles in all inputs (model/period.h).
int64_t service_period(const struct service_merge *s, str type);

// The group that begins at *at, which moves behind it.
struct key_group service_group(const struct service_merge *s, size_t *at);

// The end of the keys of the type that begins at `at`.
size_t service_type_end(const struct service_merge *s, size_t at);

// Before each row or node: releases the scratch arena if it has grown. Its former contents are
// gone.
void service_tidy(struct service_merge *s);

// A vector of an input as entries of the new stacks; the scratch arena's.
bool input_row_vector(struct service_merge *s, struct input *in, uint64_t number,
                      struct vector_entry **v, size_t *n, err *e) MUST_CHECK;
bool input_node_vector(struct service_merge *s, struct input *in, const struct block_node_ref *node,
                       struct vector_entry **v, size_t *n, err *e) MUST_CHECK;
bool input_map(struct service_merge *s, const struct input *in, str columns,
               struct vector_entry **v, size_t *n, err *e) MUST_CHECK;
bool input_total(struct input *in, uint64_t number, struct block_total *out, err *e) MUST_CHECK;

// Entries -> columns in s->columns.
bool service_columns(struct service_merge *s, const struct vector_entry *v, size_t n, str *out,
                     err *e) MUST_CHECK;

// ---- rows of a group, by time and id, each series' id once
struct row_feed {
    struct input *input;
    uint64_t row;
    uint64_t end;
    int64_t time_ns;  // of the row
    id128 id;
    uint32_t attempt;
    bool mask;
};
struct row_merge {
    struct service_merge *service;
    struct row_feed *feeds;  // a heap
    size_t n;
    struct row_feed last;  // whose row was given; advanced by the next call
    bool has_last;
    id128 *seen;  // ids of this millisecond
    size_t seen_count;
    size_t seen_cap;
    int64_t seen_ms;
    struct map seen_map;  // over them if they are many
    uint64_t duplicates;
    const struct hide **hides;  // those that the key's series is of
    size_t hide_count;
    uint64_t hidden;
};
struct merged_row {
    struct input *input;
    size_t place;  // in input->rows
    int64_t time_ns;
    int64_t total;
    uint64_t vector;
    int64_t factor;
};
bool row_merge_begin(struct row_merge *m, struct service_merge *s, const struct key_group *g,
                     err *e) MUST_CHECK;
// *more is false behind the last.
bool row_merge_next(struct row_merge *m, struct merged_row *row, bool *more, err *e) MUST_CHECK;
void row_merge_end(struct row_merge *m);

// ---- merge_hidden.c

// Finds the deletions that a series is of; the arena's.
bool hidden_of(const struct service_merge *s, struct arena *a, labels ls, const struct hide ***out,
               size_t *n, err *e) MUST_CHECK;
static inline bool hidden_at(const struct hide *const *v, size_t n, int64_t time_ns)
{
    for (size_t i = 0; i < n; i++) {
        if (hide_has_time(v[i], time_ns)) return true;
    }
    return false;
}

bool hidden_series(const struct service_merge *s, labels ls, bool *is, err *e) MUST_CHECK;

// Looks at all rows (or nodes of series) of an input before its symbols are taken: which stacks do
// the rows use that stay (in->used)? Adds to *kept how many rows those are. Without deletions
// nothing is looked at.
bool hidden_inspect(struct service_merge *s, struct input *in, uint64_t *kept, err *e) MUST_CHECK;

// Are rows written? Else nodes are.
static inline bool merge_writes_rows(const struct block_merge *m)
{
    return m->what == MERGE_ROWS || m->what == MERGE_LEAF;
}

// A row's place in input->rows.
bool input_row(struct input *in, uint64_t row, size_t *place, err *e) MUST_CHECK;

// The entries of a vector of rows, in the input's own stacks; the scratch arena's.
bool input_own_vector(struct service_merge *s, struct input *in, uint64_t number,
                      struct vector_entry **v, size_t *n, err *e) MUST_CHECK;
bool input_own_node(struct service_merge *s, struct input *in, const struct block_node_ref *node,
                    struct vector_entry **v, size_t *n, err *e) MUST_CHECK;

// ---- by kind
bool merge_rows(struct service_merge *s, err *e) MUST_CHECK;   // ROWS, LEAF
bool merge_hour(struct service_merge *s, err *e) MUST_CHECK;   // HOUR
bool merge_nodes(struct service_merge *s, err *e) MUST_CHECK;  // PACK, DAY, WINDOW

// A key_labels: keys of series under their own labels.
bool series_labels(struct service_merge *s, struct input *in, const struct block_key_ref *k,
                   labels *ls, bool *wanted, void *arg, err *e) MUST_CHECK;

// Labels without those that are dropped; the service's arena.
bool labels_without(struct service_merge *s, labels ls, const struct block_dropped_labels *dropped,
                    labels *out, err *e) MUST_CHECK;

// The union of what the inputs' projections of a type leave out, in order.
bool dropped_of(struct service_merge *s, str type, struct block_dropped_labels *out,
                err *e) MUST_CHECK;

// The labels that churn among the series keys v of a type (churn.c).
bool churn_find(struct arena *a, const struct input_key *v, size_t n,
                struct block_dropped_labels *out, err *e) MUST_CHECK;
