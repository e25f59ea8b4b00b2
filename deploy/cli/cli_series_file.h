// SPDX-License-Identifier: Apache-2.0
//
// cli_series_file.h - a pprof file that knows its series: what export writes and import reads.
// Pure.
//
// The labels are one comment of the profile, and the time is the profile's own:
//
//     flametree:series {"__name__":"process_cpu","service_name":"shop","region":"eu"}
//
// These are the labels that a push of the profile has; those that storage adds are left out, as it
// adds them again. Protobuf lets messages be joined, so both are bytes behind the server's answer,
// which is not changed otherwise.
#pragma once

#include "model/label.h"

#define SERIES_FILE_MARK "flametree:series "

// Is it a label that storage adds?
bool series_file_is_added(str name);

// Appends the message with time and labels (those that storage adds are left out). Fails with
// invalid_argument if `pprof` is no profile.
bool series_file_put(str pprof, int64_t time_ns, labels ls, struct buf *out, err *e) MUST_CHECK;

// The labels of such a file; *found is false if the profile has none. Memory is the arena's. Fails
// if there is a comment with the mark that is damaged.
bool series_file_labels(struct arena *a, str pprof, labels *ls, bool *found, err *e) MUST_CHECK;

// The sum of the first value of all samples. Fails with invalid_argument, or out_of_range.
bool series_file_sum(str pprof, int64_t *sum, err *e) MUST_CHECK;
