// SPDX-License-Identifier: Apache-2.0
//
// discard.h - profiles and bytes of a request that were not stored, by reason. The reasons and
// their names are Pyroscope's.
#pragma once

#include "base/base.h"

#define DISCARD_REASONS(X)                                \
    X(UNKNOWN, "unknown")                                 \
    X(INVALID_LABELS, "invalid_labels")                   \
    X(MISSING_LABELS, "missing_labels")                   \
    X(RATE_LIMITED, "rate_limited")                       \
    X(NOT_IN_INGESTION_WINDOW, "not_in_ingestion_window") \
    X(MAX_LABEL_NAMES, "max_label_names_per_series")      \
    X(LABEL_NAME_TOO_LONG, "label_name_too_long")         \
    X(LABEL_VALUE_TOO_LONG, "label_value_too_long")       \
    X(DUPLICATE_LABEL_NAMES, "duplicate_label_names")     \
    X(INGEST_LIMIT_REACHED, "ingest_limit_reached")       \
    X(DROPPED_BY_SAMPLING, "dropped_by_sampling_rules")   \
    X(SAMPLES_LIMIT, "samples_limit")                     \
    X(PROFILE_SIZE_LIMIT, "profile_size_limit")           \
    X(SAMPLE_LABELS_LIMIT, "sample_labels_limit")         \
    X(MALFORMED_PROFILE, "malformed_profile")             \
    X(BODY_SIZE_LIMIT, "body_size_limit_exceeded")        \
    X(DROPPED_BY_RELABEL_RULES, "dropped_by_relabel_rules")

enum discard_reason {
#define X(id, name) DISCARD_##id,
    DISCARD_REASONS(X)
#undef X
    DISCARD_REASON_COUNT
};

// Counts of one request; the zero value is empty. A profile counts once, not for each series.
struct discards {
    uint64_t profiles[DISCARD_REASON_COUNT];
    uint64_t bytes[DISCARD_REASON_COUNT];  // uncompressed; also of parts of profiles
};

const char *discard_name(enum discard_reason reason);

static inline void discard_add(struct discards *d, enum discard_reason reason, size_t bytes)
{
    assert(reason < DISCARD_REASON_COUNT);
    d->profiles[reason]++;
    d->bytes[reason] += bytes;
}
