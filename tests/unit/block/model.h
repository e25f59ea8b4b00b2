// SPDX-License-Identifier: Apache-2.0
//
// model.h - random blocks as plain lists, written by the writer and compared with what a reader
// finds. Memory is the arena's of lib/arena.h.
#pragma once

#include "block/order.h"
#include "block/reader.h"
#include "block/writer.h"
#include "codec/varint.h"
#include "lib/arena.h"
#include "unit/model/random.h"

#include <stdlib.h>

struct model_node {
    struct block_node node;
    str columns;
};

struct model_key {
    enum block_class class;
    str type;
    labels ls;
    struct model_node *nodes;
    uint32_t node_count;
    struct block_total *totals;
    uint32_t total_count;
    struct block_row *rows;
    uint32_t row_count;
};

struct model_type {
    str name;
    str *dropped;
    uint32_t dropped_count;
};

struct model_service {
    str name;
    struct symbol_table symbols;
    struct model_type *types;
    uint32_t type_count;
    struct model_key *keys;  // by type, class, labels
    uint32_t key_count;
    str *vectors;
    int64_t *vector_totals;
    uint32_t vector_count;
};

struct model {
    struct block_about about;
    struct model_service *services;
    uint32_t service_count;
};

// How large it becomes.
struct model_size {
    uint32_t services;
    uint32_t types;
    uint32_t keys;  // of each class
    uint32_t rows;  // of a series, at most
    uint32_t stacks;
    uint32_t entries;  // of a vector, at most
    uint32_t totals;   // of a key, at most; 0: 100
    bool spans;
};

struct model *model_make(struct random *r, enum block_kind kind, const struct model_size *z);
bool model_sink(void *arg, str bytes, err *e);
bool model_write(const struct model *m, struct mem_budget *memory, struct buf *out,
                 struct block_written *written, err *e);
