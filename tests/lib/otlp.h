// SPDX-License-Identifier: Apache-2.0
//
// otlp.h - OTLP requests under construction in any of the layouts that are known, for tests.
//
// Rows of the dictionary come first, each function returning its row; row 0 of each table is there
// already. Then samples, the profile that they are of, and the resource that has the profiles since
// the last one. Nothing is checked: what a test writes stands.
#pragma once

#include "base/buf.h"
#include "decode/otlp.h"

#define OW_STACKS 64
#define OW_DEPTH  16

struct ow {
    enum otlp_layout layout;
    bool unpacked;      // repeated numbers one by one
    struct buf tables;  // content of the dictionary
    struct buf samples;
    struct buf indices;  // 1.7: packed location indices of the profile
    struct buf profiles;
    struct buf labels;  // attributes of the resource
    struct buf resources;
    struct buf out;
    uint64_t index_count;
    uint64_t rows[8];
    struct {
        uint64_t v[OW_DEPTH];
        size_t n;
    } stacks[OW_STACKS];
};

struct ow_sample {
    uint64_t stack;
    uint64_t link;
    const uint64_t *attributes;
    size_t attribute_count;
    const uint64_t *values;
    size_t value_count;
    size_t stamps;
};

struct ow_profile {
    const char *type;
    const char *unit;
    const char *period_type;  // NULL: none
    const char *period_unit;
    uint64_t period;
    uint64_t time_ns;
    const char *more_type;  // 1.7: a second type, of unit "bytes"; NULL: none
};

void ow_init(struct ow *w, enum otlp_layout layout);
void ow_release(struct ow *w);
uint64_t ow_string(struct ow *w, const char *text);
uint64_t ow_function(struct ow *w, const char *name, const char *file);
uint64_t ow_mapping(struct ow *w, const char *file, uint64_t attribute);
uint64_t ow_location(struct ow *w, uint64_t mapping, uint64_t address, uint64_t function,
                     uint64_t line);
uint64_t ow_stack(struct ow *w, const uint64_t *locations, size_t n);  // leaf first
uint64_t ow_attribute(struct ow *w, const char *key, const char *text);
uint64_t ow_link(struct ow *w, const char *trace, const char *span);  // 16 and 8 bytes
void ow_sample(struct ow *w, const struct ow_sample *s);
void ow_profile(struct ow *w, const struct ow_profile *p);
void ow_label(struct ow *w, const char *key, const char *text);
void ow_resource(struct ow *w);
str ow_end(struct ow *w);  // lives until ow_release
