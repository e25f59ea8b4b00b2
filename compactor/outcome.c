// SPDX-License-Identifier: Apache-2.0
//
// outcome.c - what became of a job: counted, told in the log, and noted for the next plan.
//
//     done      the manifest names its blocks
//     damaged   a source cannot be read: it is left out until it can
//     lost      another process was first: a new plan finds what is left
//     failed    otherwise: tried again later and later
#include "compactor/metrics.h"
#include "compactor/turn_int.h"
#include "service/notice.h"
#include "sys/clock.h"

#include <inttypes.h>

#define TOO_LARGE "compactor.limit"
#define TOLD_NS   ((uint64_t)(120 * NS_PER_S))  // a try may take that long

#define ABORTED_MAX 16  // jobs lost to others in a row; then losing one is a failure like others

// The plan knows less than we do by now: it is made anew before the tenant is done.
static void want_plan(struct turn *u)
{
    assert(lock_is_mine(&u->me->work->lock));
    if (u->tenant->agenda) u->tenant->agenda->changed = true;
}

static void count(const struct task *j, const char *result)
{
    const str values[] = {str_of(job_kind_name(j->kind)), str_of(result)};
    metric_add_set(&compactor_jobs, values, 1);
}

void outcome_done(struct turn *u, const struct batch_job *b)
{
    struct work *w = u->me->work;
    const struct task *j = b->job.task;
    const struct job_report *report = &b->job.report;
    str level = str_of(job_kind_name(j->kind));
    count(j, "done");
    metric_observe_ns_to(&compactor_job_seconds, level, b->took_ns);
    metric_add_to(&compactor_read_bytes, level, report->bytes_in);
    metric_add_to(&compactor_written_bytes, level, report->bytes_out);
    if (j->kind == JOB_LEAF || j->kind == JOB_FOLD) metric_add(&compactor_rows, report->rows);
    metric_add(&compactor_duplicate_rows, report->duplicates);
    metric_add(&compactor_erased_rows, report->hidden);
    metric_add(&compactor_scratch_files, report->files);
    log_info(&u->req.log, "compactor.job",
             "job=%s hour=%" PRId64 " hours=%u sources=%zu blocks=%zu bytes_in=%" PRIu64
             " bytes_out=%" PRIu64 " duplicates=%" PRIu64 " ms=%" PRIu64,
             job_kind_name(j->kind), j->from_hour, j->hours, j->source_count, report->blocks,
             report->bytes_in, report->bytes_out, report->duplicates,
             b->took_ns / (uint64_t)NS_PER_MS);
    if (report->overflows) {
        char text[LOG_QUOTE_MAX];
        metric_add(&compactor_overflows, report->overflows);
        log_warn(&u->req.log, "compactor.overflow",
                 "job=%s hour=%" PRId64 " hours=%u services=%zu service=%s action=\"none: values "
                 "of this service do not add up within 64 bits, so it has no sums here and "
                 "queries read its profiles; look at who sends such values\"",
                 job_kind_name(j->kind), j->from_hour, j->hours, report->overflows,
                 log_quote(text, str_of(report->overflow.service)));
    }
    assert(u->agenda);
    limit_retired(u->agenda, j);
    lock_take(&w->lock);
    bool had_failed = failure_find(u->tenant, j) != NULL;
    failure_forget(u->tenant, j);
    u->tenant->jobs_done++;
    u->tenant->done_at_ns = clock_wall_ns();
    u->tenant->aborted = 0;
    agenda_done(u->tenant, j);
    agenda_note_due(u->tenant);
    lock_give(&w->lock);
    if (had_failed) notice_end(w->process->notices, TOO_LARGE, str_of(w->process->id));
}

// It is left out from now on, and the rest of its hour is merged without it.
static void damaged(struct turn *u, const struct task *j, const struct job_report *report,
                    const err *e)
{
    struct work *w = u->me->work;
    char text[LOG_QUOTE_MAX];
    assert(!report->damaged_segment != !report->damaged_block);
    struct damage d = {.is_segment = report->damaged_segment != NULL};
    if (report->damaged_segment)
        d.segment = report->damaged_segment->name;
    else
        d.block = report->damaged_block->id;
    count(j, "damaged");
    log_error(&u->req.log, "compactor.damaged",
              "job=%s hour=%" PRId64 " fault=%s action=\"left out until it can be read; restore "
              "the object from a copy, or, if it is a segment, delete it to give up its profiles\"",
              job_kind_name(j->kind), j->from_hour, log_quote(text, str_of(e->msg)));
    lock_take(&w->lock);
    damage_note(w, u->tenant, &d);
    want_plan(u);
    lock_give(&w->lock);
}

// Until the job succeeds, or is not tried any more.
static void tell_too_large(const struct work *w, const struct task *j, uint64_t wait_ns,
                           const err *e)
{
    metric_add(&compactor_too_large, 1);
    notice_raise(
        w->process->notices, TOO_LARGE, str_of(w->process->id), 2 * wait_ns + TOLD_NS,
        "the object store, or a proxy before it, does not take a block (%s of hour %" PRId64
        "), so its sources stay, and queries read these; let both take bodies of 32 MiB: "
        "%s",
        job_kind_name(j->kind), j->from_hour, e->msg);
}

static void failed(struct turn *u, const struct task *j, const struct job_report *report,
                   const err *e)
{
    struct work *w = u->me->work;
    char text[LOG_QUOTE_MAX];
    count(j, "failed");
    if (report->miscounted) metric_add(&compactor_miscounted, 1);
    lock_take(&w->lock);
    uint64_t wait = failure_note(w, u->tenant, j, e);
    lock_give(&w->lock);
    if (report->too_large) tell_too_large(w, j, wait, e);
    log_warn(&u->req.log, "compactor.failed",
             "job=%s hour=%" PRId64 " hours=%u code=%s fault=%s retry_s=%" PRIu64 " action=\"%s\"",
             job_kind_name(j->kind), j->from_hour, j->hours, err_name(e->code),
             log_quote(text, str_of(e->msg)), wait / (uint64_t)NS_PER_S, failure_action(e->code));
}

// The time is noted for share.h.
void outcome_lost(struct turn *u, const struct task *j, const char *result)
{
    struct work *w = u->me->work;
    count(j, result);
    lock_take(&w->lock);
    u->tenant->raced_mono_ns = clock_mono_ns();
    want_plan(u);
    lock_give(&w->lock);
}

// How many jobs of the tenant were lost in a row, this one included.
static unsigned count_lost(struct turn *u)
{
    struct work *w = u->me->work;
    lock_take(&w->lock);
    unsigned n = ++u->tenant->aborted;
    lock_give(&w->lock);
    return n;
}

// Is a source damaged, or gone although the newest version names it? A block that others replaced
// and a sweep deleted is not damaged; nor is a segment that is gone.
static bool is_damaged(struct turn *u, const struct job_report *report, const err *e)
{
    const struct manifest_block *b = report->damaged_block;
    err why = {0};
    if (e->code != ERR_NOT_FOUND) return b || report->damaged_segment;
    struct manifest *m =
        b ? manifest_newest(u->me->work->manifests, &u->req, str_of(u->tenant->name), &why) : NULL;
    bool named = m && manifest_find(m, b->id);
    if (m) manifest_unref(m);
    return named;
}

void outcome_failed(struct turn *u, const struct task *j, const struct job_report *report,
                    const err *e)
{
    if (is_damaged(u, report, e))
        damaged(u, j, report, e);
    else if ((e->code == ERR_ABORTED || e->code == ERR_NOT_FOUND) && count_lost(u) <= ABORTED_MAX)
        outcome_lost(u, j, "aborted");
    else if (e->code == ERR_CANCELED || work_is_over(u->me->work))
        count(j, "aborted");
    else
        failed(u, j, report, e);
}
