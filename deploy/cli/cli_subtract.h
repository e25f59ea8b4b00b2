// SPDX-License-Identifier: Apache-2.0
//
// cli_subtract.h - one profile without what another one has of it. Pure.
#pragma once

#include "base/buf.h"

// Both are of one sample type, and `part` is a part of `whole`: the samples of the result are the
// differences of stacks with the same frames. These may be negative, as values may. Fails with
// invalid_argument if one of them is no profile, with out_of_range if a difference has no 64 bits.
bool pprof_subtract(str whole, str part, struct buf *out, err *e) MUST_CHECK;
