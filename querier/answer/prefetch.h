// SPDX-License-Identifier: Apache-2.0
//
// prefetch.h - what a question will likely read of blocks, fetched while the heads answer.
//
// The manifest that somebody saw last says which blocks there are. A plan over it is made in a job
// of its own, and footers, indexes, names and vectors that the cache does not have yet are read
// into it (blocks.h); nothing else comes of it. The answer's own plan is made over the snapshot
// that is taken after the heads, so it uses what is still live and finds it in memory. Whatever
// goes wrong here is left to the answer to meet and to report.
#pragma once

#include "querier/answer/answer.h"

struct prefetch;

// NULL: there is nothing to do, no lane or no memory. q, tenant and a live until the end.
struct prefetch *prefetch_begin(struct answer *a, const struct query *q, str tenant);

// Takes the job back, or waits until it is done; what it read is added to a->work. NULL is fine.
void prefetch_end(struct prefetch *h);
