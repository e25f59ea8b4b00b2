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

// sample_rate below: Hz; 0: counts stay counts; INGEST_RATE_OF_FILE: what the profile says, or
// DEFAULT_SAMPLE_RATE.
#define INGEST_RATE_OF_FILE INT64_C(-1)

// Of a profile with samples and the time they took, as perf script gives, keeps what the type
// needs: the time if the type is one and the rate is not given.
void ingest_type_column(const struct ingest_type *t, int64_t sample_rate, struct profile *p);

// Whether the type is one of time.
bool ingest_type_is_time(const struct ingest_type *t);

// Gives a profile with one sample type these names. Values of CPU and wall time count periods of
// 1 / sample_rate and become nanoseconds, unless the profile's unit is nanoseconds already or
// bytes. Counts the samples (LOSS_ASSUMED_RATE) if the default was used. Fails with out_of_range.
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
