// SPDX-License-Identifier: Apache-2.0
//
// limits_int.h - private to limits*.c: the parts of limits_finish.
#pragma once

#include "service/limits.h"

// The relabelling rules and where the default ones stand.
bool limits_relabel(struct limits *l, struct arena *a, err *e) MUST_CHECK;

// ---- limits_ingest.c

// The usage groups, quota and sampling rules of *l. Fails with file, line and path.
bool limits_ingest(struct limits *l, struct arena *a, err *e) MUST_CHECK;
