// SPDX-License-Identifier: Apache-2.0
//
// merge_int.h - parts of merging, for merge*.c only.
#pragma once

#include "querier/merge.h"

// Fails with resource_exhausted, naming the budget of the query.
bool merged_no_room(const struct merged *m, err *e);

// A message Labels as a sorted set; the array is the arena's.
bool merged_read_labels(struct merged *m, str bytes, labels *out, err *e) MUST_CHECK;

// A message of a group's labels (field 1) and its items (field 2), as totals and heat are: `add` is
// called for each item with the number of the group.
typedef bool merged_item_fn(struct merged *m, uint32_t group, str bytes, err *e);
bool merged_add_grouped(struct merged *m, str bytes, merged_item_fn *add, err *e) MUST_CHECK;

bool merged_read_exemplar(struct merged *m, str bytes, const struct merged_exemplar **out,
                          err *e) MUST_CHECK;

// The one to show of two: the order of message Exemplar. The same one twice keeps the labels that
// both have.
bool merged_choose(struct merged *m, const struct merged_exemplar *a,
                   const struct merged_exemplar *b, const struct merged_exemplar **out,
                   err *e) MUST_CHECK;

// Whether a is to be shown rather than b: the order of message Exemplar.
bool merged_is_before(const struct merged_exemplar *a, const struct merged_exemplar *b);

// The number of a group, made if it is new; its labels are then copied.
bool merged_group(struct merged *m, labels ls, uint32_t *row, err *e) MUST_CHECK;

// One more, which merged_finish unites with others of its place.
bool merged_new_total(struct merged *m, uint32_t group, int64_t point, uint32_t *row,
                      err *e) MUST_CHECK;
bool merged_new_cell(struct merged *m, uint32_t group, int64_t slot, uint32_t bucket, uint32_t *row,
                     err *e) MUST_CHECK;
bool merged_new_set(struct merged *m, labels set, err *e) MUST_CHECK;  // copied
bool merged_new_name(struct merged *m, str name, err *e) MUST_CHECK;   // copied

void merged_stretch(struct merged *m, int64_t value);  // one more value of the extent

// Sorts by key and value and makes unique; returns the number left.
size_t merged_sort_pairs(label *v, size_t n);

bool merged_add_extent(struct merged *m, str bytes, err *e) MUST_CHECK;
bool merged_add_heat(struct merged *m, str bytes, err *e) MUST_CHECK;
bool merged_unite_cells(struct merged *m, err *e) MUST_CHECK;
