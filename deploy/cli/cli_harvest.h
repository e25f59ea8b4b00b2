// SPDX-License-Identifier: Apache-2.0
//
// cli_harvest.h - fetches all that a server has of a selector and a range, as one profile for each
// series and step, over the public API of any server that speaks Pyroscope's.
//
//     for each span of the range (an hour, or a step if that is longer), in order of time:
//       Series                    the series that it has
//       SelectSeries, each type   the total of each series and step; steps without one are skipped
//       SelectMergeProfile, each series and step
//
// A step covers (end - step, end], as the points of SelectSeries do. But a range of the API has
// whole milliseconds and both its ends, so the one that begins at the step's start has also what
// lies at exactly that moment, and the one that begins a millisecond later lacks what lies less
// than a millisecond behind it. The total says which of the two is right; if neither is, the
// profile of that moment is taken away from the first one. Two totals cannot tell: from 2^53 on
// they are rounded, as they are doubles, and what lies at the start may add up to 0 as the step
// does. Of such steps that profile is always taken away.
//
// An answer that is not exact (sums of hours where single profiles are gone, so that edges were
// moved) would count twice what lies at the edges: that is an error, with advice.
//
// Memory: the answers of one span and one step. One thread.
#pragma once

#include "deploy/cli/cli_retry.h"
#include "model/label.h"

struct harvest_step {
    labels ls;  // of the series, those that storage adds included
    str type;
    int64_t from_ms;  // exclusive
    int64_t until_ms;
    double total;
};

struct harvest {
    struct cli *c;  // of the server that is asked
    str selector;
    str type;         // only types with this text in them; empty: all
    int64_t from_ms;  // a multiple of the step, and so is until_ms
    int64_t until_ms;
    int64_t step_ms;
    uint64_t retries;
    struct cli_pace *pace;
    // Whether a step is to be fetched; NULL: each is.
    bool (*want)(void *arg, const struct harvest_step *s, bool *wanted, err *e);
    bool (*take)(void *arg, const struct harvest_step *s, str pprof, err *e);
    // Is told now and then how far it is; or NULL.
    void (*told)(void *arg, double share);
    // Is the span that ends at this time left out? NULL: none is.
    bool (*skip)(void *arg, int64_t until_ms);
    // All steps that end at or before this time were given to take; or NULL.
    bool (*past)(void *arg, int64_t until_ms, err *e);
    void *arg;
    // counted
    uint64_t series;  // of each span
    uint64_t steps;
    uint64_t bytes;
};

// Reads --step, --retry, the range (rounded down to steps) and the selector `text`, or all. Sets
// *status to CLI_WRONG where that fails.
bool harvest_read(struct harvest *h, struct cli *c, const char *text, int *status,
                  err *e) MUST_CHECK;
bool harvest_run(struct harvest *h, err *e) MUST_CHECK;
