// SPDX-License-Identifier: Apache-2.0
#include "lib/job.h"

bool job_run(const struct job_bench *b, struct req *r, const struct task *j, struct job_report *out,
             err *e)
{
    struct job_result made;
    struct job_result *const all[] = {&made};
    bool ok = job_make(b, r, j, &made, e);
    *out = made.report;
    if (ok) {
        ok = job_commit(b, r, all, 1, e);
        if (!ok && e->code == ERR_ABORTED) job_discard(b, r, &(struct job_result *){&made}, 1);
    }
    job_release(&made);
    return ok;
}
