// SPDX-License-Identifier: Apache-2.0
//
// plain_block.h - a block of given rows: its keys, and their nodes and totals, are found in the
// plainest way. A test may have single ones written wrongly.
#pragma once

#include "block/writer.h"
#include "lib/test.h"

struct plain_row {
    str type;
    labels ls;                     // of its series, in order; borrowed
    bool sampled;                  // it counts for its series only
    const struct vector_entry *v;  // of the service's stacks, normalised, without the row's factor
    size_t n;
    struct block_row row;  // but the number of its vector
};

struct plain_service {
    str name;
    const struct symbol_table *symbols;
    const struct plain_row *rows;  // in any order
    size_t n;
};

// Called for each thing before it is written, with the arg of `spoil`; each may be NULL. A thing
// for which false is returned is left out.
struct plain_spoil {
    void *arg;
    bool (*node)(void *arg, enum block_class class, struct block_node *n, int64_t *sums);
    bool (*total)(void *arg, struct block_total *t);
    bool (*row)(void *arg, const struct block_row *before, struct block_row *row);  // NULL: first
    bool (*vector_again)(void *arg);  // true: the row's vector is written twice
};

struct plain_block {
    struct block_about about;
    uint32_t classes;                      // 1 << enum block_class: the keys to write
    const struct plain_service *services;  // in order of names; those without rows are left out
    size_t n;
    const str *churn;  // names of labels that projections leave out
    size_t churn_count;
    bool share;  // rows with the same `v` share a vector
    int zstd_level;
    struct mem_budget *memory;
    struct plain_spoil spoil;
};

// Columns of entries; the arena's.
str plain_columns(struct arena *a, const struct vector_entry *v, size_t n);

// Appends the bytes to *out. Nodes: of an hour for segments; of five minutes with three profiles
// for leaves; of hours, with totals of minutes; of days, and of weeks and windows with three
// profiles, with totals of hours. Segments and leaves have those of ALL only, and rows.
bool plain_block_write(struct arena *a, const struct plain_block *b, struct buf *out,
                       err *e) MUST_CHECK;
