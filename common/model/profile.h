// SPDX-License-Identifier: Apache-2.0
//
// profile.h - one decoded profile: every decoder makes it, and the distributor works on it.
//
// It has columns with dense row numbers instead of the sender's ids; strings borrow from the
// decoded bytes or the arena. The model and its names are pprof's: a sample has a stack of
// locations (leaf first), one value per sample type, and labels. A location has lines, the
// innermost inlined call first; a location without lines is an address that was not symbolised.
//
// A decoder guarantees: every reference is in range (locations of samples, functions of lines,
// strings); no mapping is mapping == PROFILE_NONE; each sample has exactly type_count values; the
// stacks of two samples do not overlap in stack_locations.
// It does not guarantee limits or meaning; the distributor validates these.
#pragma once

#include "base/arena.h"
#include "model/losses.h"

#define PROFILE_NONE UINT32_MAX

struct profile_type {
    str type;
    str unit;
};

struct profile_mapping {
    uint64_t start;
    uint64_t limit;
    uint64_t offset;
    str filename;
    str build_id;
    uint32_t flags;  // SYMBOL_HAS_* of model/symbols.h
};

struct profile_function {
    str name;
    str system_name;
    str filename;
    int64_t start_line;
};

struct profile_line {
    uint32_t function;
    int64_t line;
};

struct profile_location {
    uint64_t address;
    uint32_t mapping;  // or PROFILE_NONE
    uint32_t first_line;
    uint32_t line_count;
    bool folded;
};

struct profile_label {
    str key;
    str text;  // empty if the label is a number
    int64_t number;
    str unit;
};

struct profile_sample {
    uint32_t first_location;  // into stack_locations, leaf first
    uint32_t location_count;
    uint32_t first_label;
    uint32_t label_count;
};

struct profile {
    struct profile_type *types;
    struct profile_mapping *mappings;
    struct profile_function *functions;
    struct profile_location *locations;
    struct profile_line *lines;
    struct profile_sample *samples;
    int64_t *values;            // sample_count rows of type_count
    uint32_t *stack_locations;  // location rows
    struct profile_label *labels;
    str *comments;
    uint32_t type_count;
    uint32_t mapping_count;
    uint32_t function_count;
    uint32_t location_count;
    uint32_t line_count;
    uint32_t sample_count;
    uint32_t stack_location_count;
    uint32_t label_count;
    uint32_t comment_count;
    uint32_t string_count;            // of the sender's table; 0 for formats without one
    struct profile_type period_type;  // both empty if absent
    int64_t period;
    int64_t time_ns;  // 0 if the sender gave none
    int64_t duration_ns;
    str name;  // of one of several profiles in a file, and its unit there; speedscope only
    str unit;
    str default_type;
    str drop_frames;
    str keep_frames;
    str language_hint;     // the first string that suggests a language; empty if none
    size_t encoded_bytes;  // size of the uncompressed input
    struct losses losses;  // samples that the decoder and limits left out or mended
    str bad_text;          // as sent, the first name that the decoder mended; else empty
};
