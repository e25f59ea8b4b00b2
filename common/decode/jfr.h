// SPDX-License-Identifier: Apache-2.0
//
// jfr.h - recordings of the Java Flight Recorder, as the JDK and async-profiler write them. Pure.
//
// A recording is a row of chunks. Each has its own types (metadata), constant pools and events, and
// is read in that order. Types, fields and pools are found by name, because their numbers differ
// from one JDK to the next; what nobody here knows is skipped by its type. Events of the kinds in
// jfr_build.c are added to one profile for each kind; the others are stepped over by their size.
// Events of one stack and one context become one sample, so that memory grows with the pools and
// not with the number of events.
#pragma once

#include "decode/decode.h"

struct jfr_recording {
    struct decoded profiles;  // those that have samples, in a fixed order; may be none
    const str *names;         // of each profile: its __name__, such as "process_cpu"
    str event;                // what was sampled, such as "itimer"; empty if it is not said
};

// Whether the bytes begin like a recording that is not compressed.
bool jfr_is(str bytes);

// `labels` is empty or the agent's LabelsSnapshot, which gives the numbers of contexts and of spans
// their texts; both may be gzipped, and o->inflated_max caps each. How much time a sample stands
// for the recording's settings say (jfr_rates.c); o->sample_rate overrides them, and where nothing
// is said, it is o->sample_rate_else, or 10 ms, which is told (LOSS_ASSUMED_RATE). An event of a
// counter, such as cycles, says no time.
//
// Samples have the labels of their context, and `profile_id` and `span_name` of their span. Stacks
// and frames that are not in the pools are STACK_UNKNOWN_NAME. With o->allocation_class the class
// of the allocated object, where the recording has it, is the leaf of its stack. A profile's losses
// are those of its own events. The caller sets the time of the profiles. As in Pyroscope, durations
// are ticks as recorded. Fails as decode_pprof does.
bool decode_jfr(struct arena *a, str bytes, str labels, const struct decode_options *o,
                struct jfr_recording *out, bool *over_cap, err *e) MUST_CHECK;
