// SPDX-License-Identifier: Apache-2.0
//
// losses.h - the parts of a file that are not stored as the file has them, counted by reason.
//
// Value is conserved: what a file holds is stored, or it is told. A decoder that can read a value
// keeps it: a stack that is not in the file becomes the frame STACK_UNKNOWN_NAME (model/marks.h), a
// name that cannot be read is mended. Only what has no value that could be read is left out. Both
// are counted here, one for each sample or, in text, each line:
//
//     left out    nothing of it is stored
//     mended      its value is stored; its stack, name, time or labels differ from the file's
//
// Decoders and limits count in profile.losses (model/profile.h); the distributor tells the counts
// in its metrics, its log and its answers. Pure; the zero value counts nothing.
#pragma once

#include "base/base.h"

//     X(id, name in metrics and logs, whether its value is stored, what a person reads)
#define LOSSES(X)                                                                                 \
    X(BAD_LINE, "bad_line", false, "lines that are no stack with a number")                       \
    X(BAD_SAMPLE, "bad_sample", false, "samples whose values cannot be read")                     \
    X(UNKNOWN_STACK, "unknown_stack", true, "samples whose stack is not in the file")             \
    X(UNKNOWN_FRAME, "unknown_frame", true, "samples with a frame that is not in the file")       \
    X(UNCLOSED_FRAME, "unclosed_frame", true, "frames that never end; they end with the profile") \
    X(OVERLAPPING_FRAME, "overlapping_frame", true,                                               \
      "frames that end before frames within them; they end with those")                           \
    X(UNORDERED_TIME, "unordered_time", true, "samples out of order; they were sorted by time")   \
    X(ASSUMED_RATE, "assumed_rate", true,                                                         \
      "samples of which nothing says how long they are; 10 ms were assumed")                      \
    X(NO_TIME, "no_time", true, "samples without a time; they count, and take none")              \
    X(BAD_TEXT, "bad_text", true, "names that are not UTF-8; the wrong bytes were replaced")      \
    X(TWO_COUNTS, "two_counts", true,                                                             \
      "lines with two counts, as of a difference; the last one is the value")                     \
    X(CUT_OFF, "cut_off", false, "objects or threads that the file's head counts and no row has") \
    X(IGNORED_PART, "ignored_part", false,                                                        \
      "parts of a form that are not read: no file, an unknown name, or a second profile")         \
    X(CUT_CHUNK, "cut_chunk", false, "ends of recordings that are no whole chunk")                \
    X(UNKNOWN_LABELS, "unknown_labels", true, "samples with labels that are not in the file")     \
    X(SAMPLES_LIMIT, "samples_limit", true,                                                       \
      "samples beyond the limit; their stacks were left out")                                     \
    X(STACK_DEPTH, "stack_depth_limit", true,                                                     \
      "samples with stacks that are too deep; they end in [truncated stack]")                     \
    X(SYMBOL_LENGTH, "symbol_length", true, "names that are too long; they lost their beginning") \
    X(LABELS_LIMIT, "labels_limit", true,                                                         \
      "labels beyond the limit, or without a name; they were left out")                           \
    X(LABEL_LENGTH, "label_length", true,                                                         \
      "labels that are too long; a value lost its end, a name its label")

enum loss {
#define X(id, name, stored, text) LOSS_##id,
    LOSSES(X)
#undef X
    LOSS_COUNT
};

struct losses {
    uint64_t count[LOSS_COUNT];
};

const char *loss_name(enum loss why);
const char *loss_text(enum loss why);

// Whether the values of samples that count under this reason are stored.
bool loss_is_stored(enum loss why);

static inline void losses_add(struct losses *l, enum loss why, uint64_t n)
{
    assert(why < LOSS_COUNT);
    l->count[why] += n;
}

bool losses_any(const struct losses *l);

// Adds the counts of one to those of another.
void losses_merge(struct losses *to, const struct losses *from);
