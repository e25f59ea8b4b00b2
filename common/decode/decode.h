// SPDX-License-Identifier: Apache-2.0
//
// decode.h - the interface of all decoders: bytes in, profiles or an err out.
//
// Decoders do no IO, keep no state, and treat their input as hostile: each length and reference is
// checked before it is used, memory comes from the arena whose cap holds, nothing recurses on
// input. Fails with invalid_argument (the input is wrong; the message names the fault and its
// place) or resource_exhausted (the arena's cap). Results live in the arena and may borrow from the
// input.
#pragma once

#include "base/buf.h"
#include "model/profile.h"

struct decode_options {
    size_t inflated_max;  // cap of the size in bytes, after decompression; 0 = no cap of its own
    int64_t sample_rate;  // Hz: a sample stands for so much time; 0 = what the file says
    uint32_t symbol_max;  // longer strings keep their last symbol_max bytes; 0 = all
    uint64_t node_children_max;     // tree: a node with more is refused; 0 = any number
    uint64_t node_name_max;         // tree: a node with a longer name is refused; 0 = any
    bool repair_zero_function_ids;  // pprof: if all function ids are 0 and there are as many
                                    // functions as locations, take the locations' ids
    bool name_of_type;              // OTLP: a type without a period has its own name as __name__
    // JFR: Hz of a recording that does not say it; 0 = 100, which is told
    int64_t sample_rate_else;
    bool refuse_dangling;   // OTLP: a message in which rows are not there is refused
    bool allocation_class;  // JFR: the class of the allocated object is the leaf of its stack
};

struct decoded {
    struct profile *profiles;
    size_t count;
};

// pprof, gzipped or not (sniffed). One profile. Messages are Pyroscope's where clients see them.
// *over_cap (may be NULL) becomes true if the inflated size exceeds inflated_max. Of rows with the
// same id the last counts. Where Pyroscope loses value, this decoder keeps it and counts in losses:
// strings that are not UTF-8 are mended (text formats, in contrast, keep the bytes of names as they
// are, and the caller checks them); a line without a function that exists has one without a name, a
// location without a mapping that exists has none, and a sample's location that does not exist is
// one that says nothing.
bool decode_pprof(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  bool *over_cap, err *e) MUST_CHECK;

// Text without its byte order mark and, if it was UTF-16 with one, in UTF-8: what all decoders of
// text and JSON read. *out borrows from `bytes` or is the arena's. Fails with invalid_argument if
// the text is UTF-32.
bool decode_plain(struct arena *a, str bytes, str *out, err *e) MUST_CHECK;

// ---- Text
//
// Profiles of text count samples (samples/count). Where the file says how much time one of them
// stands for, or sample_rate does, it is in profile.period, with the period's type
// cpu/nanoseconds; without it the caller knows, or assumes. Frames without a name become
// "[unknown]", and names that are not UTF-8 are mended.

// Collapsed text: "frame;frame count" per line, root first. The count may be a fraction: fractions
// are carried on to the next one, so that the sum is that of the text. A ';' may end the stack.
// Lines that have no count, and comments behind the first stack, are left out and counted
// (LOSS_BAD_LINE); if no line is good, the message names the first that is bad. Lines "# text" at
// the beginning are no stacks; of them the rate is read ("# interval: 5ms", "# sample rate 199 Hz",
// and the header of austin, whose counts are microseconds).
bool decode_folded(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e) MUST_CHECK;

// Collapsed text behind such lines.
str decode_folded_body(str bytes);

// One stack per line, each line one sample; empty lines are skipped.
bool decode_lines(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  err *e) MUST_CHECK;

// The text of `perf script` (perf.h). One profile for each event in the file, in the order in which
// they begin; of several each has the event as its name. Fails with invalid_argument also if there
// is no sample.
bool decode_perf(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                 err *e) MUST_CHECK;

// Pyroscope's binary trie: nodes until the end of the input, each of name length, name, value and
// number of children (LEB128), depth first. A node's key is its ancestors' names and its own, one
// behind the other; where the value is not 0, the key is a stack as in collapsed text.
bool decode_trie(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                 err *e) MUST_CHECK;

// Pyroscope's binary tree: the same nodes, but one root, each node is a frame, and values are those
// of the node itself. The root has no frame. A name with ';' is several frames.
bool decode_tree(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                 err *e) MUST_CHECK;

// speedscope's JSON, events and samples. One profile for each in the file, with its name and unit;
// its one type is samples/nanoseconds, samples/bytes or samples/count (unit none). Times become
// nanoseconds, rounded. Events must be in order; frames that are never closed get no time after the
// last event.
bool decode_speedscope(struct arena *a, str bytes, const struct decode_options *o,
                       struct decoded *out, err *e) MUST_CHECK;

// V8's .cpuprofile, as a list of nodes or in the old nested form: samples/count and
// wall/nanoseconds. V8's frames "(root)", "(program)" and "(idle)" stay.
bool decode_cpuprofile(struct arena *a, str bytes, const struct decode_options *o,
                       struct decoded *out, err *e) MUST_CHECK;

// A trace of Chrome (JSON), an array of events or {"traceEvents"}: its CPU profiles of V8, which
// are events CpuProfile, or Profile with its pieces ProfileChunk. One profile for each, with the
// name of its thread or else its id, and the label `pid` on its samples; types as above. Other
// events are skipped. The "]" at the end of an array may be missing, because Chrome does not write
// it if it is killed. Fails with invalid_argument also if there is no CPU profile.
bool decode_chrome(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e) MUST_CHECK;

// V8's .heapprofile: inuse_space/bytes.
bool decode_heapprofile(struct arena *a, str bytes, const struct decode_options *o,
                        struct decoded *out, err *e) MUST_CHECK;

// ---- files of other tools with types of their own: rows of tools.def. One profile, whose samples
// have the labels `thread` and `pid` where the file has threads. Fails with invalid_argument also
// if there is no sample.

// Pyroscope's JSON of a flame graph, of one profile and not of a difference. Its one type is that
// of its metadata; samples of CPU and wall time at a rate of N Hz are samples/count and
// nanoseconds, each sample 1e9 / N.
bool decode_flamebearer(struct arena *a, str bytes, const struct decode_options *o,
                        struct decoded *out, err *e) MUST_CHECK;

// A profile of the Firefox Profiler, processed or Gecko's: samples/count, cpu/nanoseconds,
// wall/nanoseconds and space/bytes, those that the file has (firefox.c). Frames without a name are
// "library!0x1234". Only samples are read, no markers, counters or allocations.
bool decode_firefox(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                    err *e) MUST_CHECK;

// Durations in a trace of Chrome's format, events B, E and X: wall/nanoseconds (trace.c). CPU
// profiles in it are decode_chrome's. The "]" at the end of a list may be missing.
bool decode_trace(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  err *e) MUST_CHECK;

// The text of callgrind: a type for each event, such as instructions/count. What a function used
// itself is exact; it has no stacks, so they are made from its callers (callgraph.h).
bool decode_callgrind(struct arena *a, str bytes, const struct decode_options *o,
                      struct decoded *out, err *e) MUST_CHECK;

// The JSON of Ruby's stackprof: samples/count and wall or cpu/nanoseconds by its interval, or
// alloc_objects/count. Without `raw` it has no stacks, and they are made as of callgrind. A dump of
// Marshal is refused by name.
bool decode_stackprof(struct arena *a, str bytes, const struct decode_options *o,
                      struct decoded *out, err *e) MUST_CHECK;

// The report of macOS' `sample`: samples/count, and wall/nanoseconds by its interval. Call trees as
// Instruments copies them: cpu/nanoseconds, space/bytes or cycles/count, as exact as it prints
// them.
bool decode_sample(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e) MUST_CHECK;

// ----

// Writes a profile as pprof, not compressed. Fails with resource_exhausted.
bool decode_put_pprof(struct arena *a, const struct profile *p, struct buf *out, err *e) MUST_CHECK;

// About what a profile takes as pprof, which is what Pyroscope counts against limits.
size_t decode_pprof_size(const struct profile *p);

// The language that a string of a profile suggests by its ending or beginning, such as "go" for
// ".go"; empty if none. profile.language_hint is the first string of a profile that suggests one.
str decode_language(str symbol);
