// SPDX-License-Identifier: Apache-2.0
//
// ingest_type.h - what an upload to /ingest is called: from the suffix of an application's name for
// text, from the sample types and their configuration for pprof. Pure.
#pragma once

#include "model/profile.h"

// ---- text: "app.alloc_space"
struct ingest_type {
    str app;
    str name;  // __name__
    str sample_type;
    str sample_unit;
};

// Fails with invalid_argument: unknown profile type.
bool ingest_type_of_app(str app, struct ingest_type *out, err *e) MUST_CHECK;

// Gives a profile of one type these names. Of CPU and wall time each value becomes nanoseconds: it
// counts periods of 1 / sample_rate. Fails with out_of_range.
bool ingest_type_apply(const struct ingest_type *t, int64_t sample_rate, struct profile *p,
                       err *e) MUST_CHECK;

// A stack may be counted up and down again: if any count is negative, lines with the same stack
// become one sample with their sum. Of one type. Fails with out_of_range or resource_exhausted.
bool ingest_text_sums(struct arena *a, struct profile *p, err *e) MUST_CHECK;

// ---- pprof
struct ingest_config_entry {
    str type;
    str display_name;
};
struct ingest_config {
    struct ingest_config_entry *v;
    size_t n;
    bool given;  // then the usual names do not apply
};

// sample_type_config: {"type": {"display-name": "...", ...}, ...}. Empty text and null are none.
// Fails with invalid_argument.
bool ingest_config_parse(struct arena *a, str json, struct ingest_config *out, err *e) MUST_CHECK;
bool ingest_config_has(const struct ingest_config *c, const char *type);

// __name__ of a pprof.
str ingest_pprof_name(const struct profile *p, const struct ingest_config *c);

// What agents of interpreted languages mean: function names become "file name". For pyspy not where
// the file is absolute. False if memory is out.
bool ingest_pprof_scripts(struct arena *a, struct profile *p, bool keep_absolute) MUST_CHECK;

// '-' in names of sample types becomes '_' (.NET). False if memory is out.
bool ingest_pprof_dashes(struct arena *a, struct profile *p) MUST_CHECK;
