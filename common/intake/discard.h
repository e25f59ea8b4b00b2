// SPDX-License-Identifier: Apache-2.0
//
// discard.h - profiles and bytes of a request that were not stored, by reason. The reasons and
// their names are Pyroscope's.
#pragma once

#include "base/base.h"

//     X(id, name in metrics and logs, what a person reads)
#define DISCARD_REASONS(X)                                                                         \
    X(UNKNOWN, "unknown", "pushes that failed for a reason without a name here")                   \
    X(INVALID_LABELS, "invalid_labels",                                                            \
      "a label, or the name of the application, cannot be stored")                                 \
    X(MISSING_LABELS, "missing_labels", "there are no labels, or none that names the service")     \
    X(RATE_LIMITED, "rate_limited", "more bytes a second than the tenant may send")                \
    X(NOT_IN_INGESTION_WINDOW, "not_in_ingestion_window", "older or newer than profiles may be")   \
    X(MAX_LABEL_NAMES, "max_label_names_per_series", "more labels than a series may have")         \
    X(LABEL_NAME_TOO_LONG, "label_name_too_long", "a label's name is too long")                    \
    X(LABEL_VALUE_TOO_LONG, "label_value_too_long", "a label's value is too long")                 \
    X(DUPLICATE_LABEL_NAMES, "duplicate_label_names", "a label is there twice, with two values")   \
    X(INGEST_LIMIT_REACHED, "ingest_limit_reached",                                                \
      "the tenant has used up what it may send for now")                                           \
    X(DROPPED_BY_SAMPLING, "dropped_by_sampling_rules",                                            \
      "left out as the tenant's sampling rules say")                                               \
    X(SAMPLES_LIMIT, "samples_limit", "more samples than a profile may have")                      \
    X(PROFILE_SIZE_LIMIT, "profile_size_limit", "larger than a profile may be")                    \
    X(SAMPLE_LABELS_LIMIT, "sample_labels_limit", "a sample has more labels than it may have")     \
    X(MALFORMED_PROFILE, "malformed_profile", "the profile cannot be read, or contradicts itself") \
    X(BODY_SIZE_LIMIT, "body_size_limit_exceeded", "the request is larger than it may be")         \
    X(DROPPED_BY_RELABEL_RULES, "dropped_by_relabel_rules",                                        \
      "left out as the tenant's relabelling rules say")

enum discard_reason {
#define X(id, name, text) DISCARD_##id,
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
const char *discard_text(enum discard_reason reason);

static inline void discard_add(struct discards *d, enum discard_reason reason, size_t bytes)
{
    assert(reason < DISCARD_REASON_COUNT);
    d->profiles[reason]++;
    d->bytes[reason] += bytes;
}
