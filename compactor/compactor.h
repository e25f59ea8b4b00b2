// SPDX-License-Identifier: Apache-2.0
//
// compactor.h - the service that merges segments into the levels of the segment tree, retires
// blocks that are too old, and deletes objects that nothing names any more. Deletion on request and
// recording rules are not built; duties.def lists what is.
#pragma once

#include "service/service.h"

extern const struct service compactor;
