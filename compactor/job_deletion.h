// SPDX-License-Identifier: Apache-2.0
//
// job_deletion.h - what a job leaves out because it was deleted, and what its blocks are clean of.
#pragma once

#include "compactor/job.h"

// The deletions that a job's merge obeys; the arena's. Of leaves rows are left out one by one. Of
// sums that are erased whole blocks are meant: what hides something of one hides all of its hours
// (plan_deletions.c). Other jobs leave out nothing.
bool job_hides(const struct job_bench *b, const struct task *j, bool is_leaf, struct arena *a,
               struct hide **out, size_t *n, err *e) MUST_CHECK;

// The version whose deletions the job's blocks obey; 0: of none, as a parent may have the sums of
// hidden rows.
uint64_t job_as_of(const struct job_bench *b, const struct task *j, bool is_leaf);
