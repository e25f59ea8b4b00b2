// SPDX-License-Identifier: Apache-2.0
//
// cli_perf_data.h - a file of Linux perf, perf.data, as the text of `perf script`.
//
// Only perf reads perf.data, whose format changes with its version, and only where it was recorded
// are the programs that it names. So the client runs `perf script` here; a server never does.
#pragma once

#include "base/buf.h"
#include "base/err.h"

// Replaces the bytes of a perf.data by its text; others stay, and *was is false. No shell is asked.
// Fails with unavailable if perf is not installed, with invalid_argument, and what perf said, if it
// cannot read the file, with resource_exhausted if its text does not fit the buffer.
bool cli_perf_data_text(struct buf *file, bool *was, err *e) MUST_CHECK;
