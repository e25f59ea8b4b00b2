// SPDX-License-Identifier: Apache-2.0
//
// trace_samples.h - the samples that a trace may have beside its events, with the frames that their
// stacks are made of:
//
//     {"traceEvents": [..],
//      "samples":     [{"pid":1,"tid":2,"sf":"7","weight":1}, ..],
//      "stackFrames": {"7": {"name":"f","parent":"6"}, ..}}
//
// A sample without a weight counts once. Source: the section "Stack Samples" of the description of
// the Trace Event Format; Hermes writes them. Private to trace.c. Memory is the arena's; the index
// of frames is freed by trace_samples_release.
#pragma once

#include "decode/graft.h"
#include "decode/json_lists.h"

struct trace_frame {
    str id;
    str name;
    str parent;      // empty: none
    uint32_t node;   // of the thread at hand
    uint32_t stamp;  // number of the thread that `node` is of
};

struct trace_sample {
    str pid;
    str tid;
    str frame;  // empty: it has no stack
    int64_t weight;
    uint32_t thread;  // the caller's, by whom samples are sorted
};

struct trace_samples {
    struct arena *a;
    struct trace_frame *frames;
    size_t frame_count;
    size_t frame_cap;
    struct map frame_rows;
    struct trace_sample *samples;
    size_t count;
    size_t cap;
    uint32_t *way;  // frames from a leaf outwards
    size_t way_cap;
    uint32_t stamp;
    size_t steps;  // that are left
    uint64_t bad;  // samples whose weight cannot be read
};

void trace_samples_init(struct trace_samples *s, struct arena *a, size_t bytes);
void trace_samples_release(struct trace_samples *s);

// The values of the two fields; another kind of value than it should be is skipped.
bool trace_samples_read(struct trace_samples *s, struct json_reader *r, err *e) MUST_CHECK;
bool trace_samples_read_frames(struct trace_samples *s, struct json_reader *r, err *e) MUST_CHECK;

// Adds the samples [from, to), all of one thread, below a root of the graft.
bool trace_samples_put(struct trace_samples *s, struct graft *g, uint32_t root, uint32_t type,
                       size_t from, size_t to, err *e) MUST_CHECK;
