// SPDX-License-Identifier: Apache-2.0
//
// block_cells.h - where totals and heat maps of blocks are added up, and what a row counts for; for
// block_*.c only.
#pragma once

#include "querier/block_int.h"

// The group of a key: its labels of those names.
bool block_group(struct block_walk *w, const struct block_unit *u, uint32_t key, const str *names,
                 size_t n, uint32_t *group, err *e) MUST_CHECK;

// Rows of w->m->totals and w->m->cells, made if they are new. They stay where they are, their
// array moves.
bool block_total_at(struct block_walk *w, uint32_t group, int64_t point, uint32_t *row,
                    err *e) MUST_CHECK;
bool block_cell_at(struct block_walk *w, uint32_t group, int64_t slot, uint32_t bucket,
                   uint32_t *row, err *e) MUST_CHECK;

// Shows the row, or its span if that is not NULL, in place of *best if it comes before it; labels
// `without` are those of the group.
struct block_offered {
    const struct block_hit *hit;
    const struct block_span *span;
    int64_t value;
    const str *without;
    size_t without_count;
};
bool block_offer(struct block_walk *w, const struct block_offered *o,
                 const struct merged_exemplar **best, err *e) MUST_CHECK;

// Adds annotations to a total, each once.
bool block_annotate(struct block_walk *w, uint32_t row, labels notes, err *e) MUST_CHECK;

// Adds a label set or a name to the merged unless this walk did before.
bool block_set_seen(struct block_walk *w, labels set, err *e) MUST_CHECK;
bool block_name_seen(struct block_walk *w, str name, err *e) MUST_CHECK;

// Counts a series unless this walk did before.
bool block_series_seen(struct block_walk *w, labels ls, err *e) MUST_CHECK;

// ---- what of a vector lies under a call site (block_values.c)
struct block_site {
    const str *names;
    size_t n;  // 0: everything counts
    struct arena scratch;
    uint32_t used;
};
void block_site_init(struct block_site *s, struct block_walk *w, const str *names, size_t n);
void block_site_release(struct block_site *s);

// The stacks of a unit, and how many of the names each matches: the wave's; NULL without a site.
struct block_matched {
    const uint32_t *v;
    uint32_t stacks;
};
bool block_site_know(const struct block_site *s, struct block_walk *w, const struct block_unit *u,
                     struct block_matched *matched, err *e) MUST_CHECK;

// The sum of columns under the site; *any is false if none of it lies there.
bool block_site_sum(struct block_site *s, const struct block_matched *matched, str columns,
                    int64_t *sum, bool *any, err *e) MUST_CHECK;
bool block_no_value(err *e);  // fails: it does not fit
