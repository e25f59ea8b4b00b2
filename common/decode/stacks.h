// SPDX-License-Identifier: Apache-2.0
//
// stacks.h - makes a profile of frames with names: what decoders without a table of their own
// share. Private to this room.
//
// Equal frames (name, file, line) are one function and one location with the same row. A frame
// without a name is called "[unknown]"; names that are not UTF-8 are mended at the end. Names
// borrow from the caller and must live as long as the arena. After a failure no column is longer
// than another. stacks_release frees the index, also after a failure.
#pragma once

#include "base/map.h"
#include "decode/decode.h"

// A tree of n frames, each in the one before, is stacks of n * n / 2 frames. If the stacks of a
// file have so many more than it has bytes, those that are deeper than this are cut: what they hold
// is that of STACK_CUT_NAME below the outermost frames.
#define STACKS_DEPTH 256

struct stacks {
    struct arena *a;
    uint32_t symbol_max;
    uint32_t type_count;
    int64_t sample_rate;
    size_t bytes;  // of the text
    struct profile *p;
    struct map frames;
    size_t function_cap;
    size_t sample_cap;
    size_t value_cap;
    size_t stack_cap;
};

// Fails with resource_exhausted: the size is above the options' cap or 2 GiB, or no memory.
bool stacks_begin(struct stacks *s, struct arena *a, size_t encoded_bytes,
                  const struct decode_options *o, const struct profile_type *types,
                  uint32_t type_count, err *e) MUST_CHECK;

// The row of a frame; its name is cut to symbol_max. A frame that is new keeps `name`.
bool stacks_frame(struct stacks *s, str name, str file, int64_t line, uint32_t *row,
                  err *e) MUST_CHECK;

// As stacks_frame, for a name in memory that the caller writes over: a new one is copied.
bool stacks_frame_copy(struct stacks *s, str name, uint32_t *row, err *e) MUST_CHECK;

// Whether so many frames are too many for the text.
bool stacks_are_deep(const struct stacks *s, uint64_t frames);

// Room for so many samples with so many frames in all, which are the first. Without it arrays
// double again and again, and the arena keeps all of their steps.
bool stacks_expect(struct stacks *s, size_t samples, size_t frames, err *e) MUST_CHECK;

// Adds a sample with `depth` frames. The caller fills (*leaf)[0..depth) with rows, leaf first, and
// (*values)[0..type_count); both are zero before.
bool stacks_sample(struct stacks *s, size_t depth, uint32_t **leaf, int64_t **values,
                   err *e) MUST_CHECK;

// Adds a sample of a stack in collapsed form: names with ';' between, root first. A ';' at its end
// is no frame. copy: the text is written over later. Empty text is a stack that is not known, which
// is counted.
bool stacks_text(struct stacks *s, str text, bool copy, int64_t value, err *e) MUST_CHECK;

// Completes s->p, once. With a sample_rate, counts of samples have its period, and time beside them
// is theirs by that rate.
bool stacks_finish(struct stacks *s, err *e) MUST_CHECK;

void stacks_release(struct stacks *s);
