// SPDX-License-Identifier: Apache-2.0
//
// pprof.h - pprof messages under construction, for tests that need well-formed and spoilt ones.
#pragma once

#include "base/buf.h"
#include "codec/pb.h"

struct pp_label {
    uint64_t key;
    uint64_t text;
    int64_t number;
};

struct pp_line {
    uint64_t function;
    int64_t line;
};

void pp_string(struct buf *b, const char *z);
void pp_type_field(struct buf *b, uint32_t field, uint64_t type, uint64_t unit);
void pp_type(struct buf *b, uint64_t type, uint64_t unit);
void pp_numbers(struct buf *b, uint32_t field, const uint64_t *v, size_t n);
void pp_sample(struct buf *b, const uint64_t *ids, size_t n, const int64_t *values,
               size_t value_count);
void pp_labelled(struct buf *b, const uint64_t *ids, size_t n, int64_t value,
                 const struct pp_label *pairs, size_t pair_count);
void pp_mapping(struct buf *b, uint64_t id, uint64_t file, uint64_t build_id);
void pp_location(struct buf *b, uint64_t id, uint64_t mapping, uint64_t address,
                 const struct pp_line *lines, size_t n);

// A location with one line.
void pp_place(struct buf *b, uint64_t id, uint64_t function);
void pp_function(struct buf *b, uint64_t id, uint64_t name, uint64_t file);
