// SPDX-License-Identifier: Apache-2.0
//
// block_series.h - keys and rows of blocks as the series and rows that totals and heat maps are
// added up of (common/aggregate); for block_*.c only.
#pragma once

#include "aggregate/source_row.h"
#include "querier/block/block_int.h"

// The labels of a key, borrowed from its index; for class ALL made of the wave's memory.
bool block_labels_of(struct block_walk *w, const struct block_unit *u, uint32_t key, labels *out,
                     err *e) MUST_CHECK;

// The series of a unit's keys, as rows of them are added: made at first use, until the wave ends.
struct block_series {
    struct cells_series **v;  // by key
};
bool block_series_init(struct block_walk *w, const struct block_unit *u, struct block_series *s,
                       err *e) MUST_CHECK;
bool block_series_of(struct block_walk *w, const struct block_unit *u, struct block_series *s,
                     uint32_t key, struct cells_series **out, err *e) MUST_CHECK;

// A row as totals and heat maps take it (aggregate/source_row.h).
struct source_row block_source_row(const struct block_hit *h, str columns, const struct site *site,
                                   struct arena *scratch);
