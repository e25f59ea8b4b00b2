// SPDX-License-Identifier: Apache-2.0
//
// prefetch.h - prefetch: while the heads answer, a job reads into the cache what the question will
// probably need of blocks.
//
// The job plans over the manifest that this process saw last, and reads footers, indexes, names and
// vectors into the cache (blocks.h); it has no other effect. The answer's own plan is made over the
// snapshot that is taken after the heads; it finds the sections of blocks that are still live in
// the cache. Answers do not depend on the prefetch, and a failure here is left to the answer to
// meet and to report.
#pragma once

#include "querier/answer/answer.h"

struct prefetch;

// Starts a prefetch for one tenant. NULL: there is nothing to prefetch, no lane, no room in it or
// no memory. q, tenant and a must live until prefetch_end.
struct prefetch *prefetch_begin(struct answer *a, const struct query *q, str tenant);

// Withdraws the job if it has not begun, else waits until it is done; its reads are added to
// a->work. NULL: nothing.
void prefetch_end(struct prefetch *h);
