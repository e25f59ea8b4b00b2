// SPDX-License-Identifier: Apache-2.0
//
// ingest_type.h - the profile type of an upload to /ingest: for text from the suffix of the
// application's name, for pprof from the sample types and their configuration. Pure.
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

// Gives a profile with one sample type these names. Values of CPU and wall time count periods of
// 1 / sample_rate and become nanoseconds, unless the profile's unit is nanoseconds already or
// bytes. Fails with out_of_range.
bool ingest_type_apply(const struct ingest_type *t, int64_t sample_rate, struct profile *p,
                       err *e) MUST_CHECK;

// If any count is negative, lines with the same stack become one sample with their sum: such a text
// counts a stack up and down. The profile has one sample type. Fails with out_of_range or
// resource_exhausted.
bool ingest_text_sums(struct arena *a, struct profile *p, err *e) MUST_CHECK;

// ---- pprof
struct ingest_config_entry {
    str type;
    str display_name;
};
struct ingest_config {
    struct ingest_config_entry *v;
    size_t n;
    bool given;  // then the default names do not apply
};

// sample_type_config: {"type": {"display-name": "...", ...}, ...}. Empty text and null are none.
// Fails with invalid_argument.
bool ingest_config_parse(struct arena *a, str json, struct ingest_config *out, err *e) MUST_CHECK;
bool ingest_config_has(const struct ingest_config *c, const char *type);

// __name__ of a pprof.
str ingest_pprof_name(const struct profile *p, const struct ingest_config *c);

// For agents of interpreted languages: function names become "file name". With keep_absolute
// (pyspy) not those with an absolute file. False without memory.
bool ingest_pprof_scripts(struct arena *a, struct profile *p, bool keep_absolute) MUST_CHECK;

// '-' in names of sample types becomes '_' (.NET). False if memory is out.
bool ingest_pprof_dashes(struct arena *a, struct profile *p) MUST_CHECK;
