// SPDX-License-Identifier: Apache-2.0
//
// job.h - one job of the compactor from its task to the manifest, as worker threads run it.
#pragma once

#include "compactor/job.h"

bool job_run(const struct job_bench *b, struct req *r, const struct task *j, struct job_report *out,
             err *e);
