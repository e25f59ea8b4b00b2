// SPDX-License-Identifier: Apache-2.0
//
// cli_name_time.h - times in names of files, by a pattern. Pure.
//
//     %Y %m %d %H %M %S   year (4 digits), month, day, hour, minute, second (2 digits each); UTC
//     %L                  milliseconds (3 digits)
//     %s                  Unix seconds; with 13, 16 or 19 digits ms, us or ns
//     *                   any characters; %% is %; all others stand for themselves
//
// The pattern may match anywhere in the name. cpu-2024-01-31_0930.pb.gz: "%Y-%m-%d_%H%M".
#pragma once

#include "base/err.h"
#include "base/str.h"

// Fails with invalid_argument: an unknown %X, or neither a day (%Y %m %d) nor %s.
bool name_time_check(str pattern, err *e) MUST_CHECK;

// Fails with invalid_argument if the name does not match, or has no such time.
bool name_time(str pattern, str name, int64_t *ns, err *e) MUST_CHECK;
