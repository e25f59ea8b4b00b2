// SPDX-License-Identifier: Apache-2.0
#include "compactor/closing.h"

#include "base/fault.h"
#include "codec/pb.h"
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "rpc/peer.h"
#include "service/process.h"
#include "sys/clock.h"

#include <inttypes.h>

#define CLOSED_PATH "/flametree.v1.IngesterService/Closed"
#define ANSWER_MAX  ((size_t)64 << 10)
#define ASK_NS      ((uint64_t)20 * NS_PER_S)
#define STEP_NS     ((uint64_t)600 * NS_PER_S)
#define STEP_BYTES  ((size_t)1 << 30)

// ---- closing

static bool says_closed(str answer)
{
    bool closed = false;
    struct pb_reader r = pb_reader(answer);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_VARINT) closed = r.number != 0;
    }
    return closed;
}

static bool take_answer(struct peer_call *c, const struct member *m, err *e)
{
    str answer = {0};
    if (!peer_answer(c, &answer, e)) {
        // Whatever its reason, the caller may only try again.
        e->code = ERR_UNAVAILABLE;
        return err_wrap(e, "ingester %.*s, which must refuse pushes first", STR(m->id));
    }
    return says_closed(answer) ||
           err_set(e, ERR_UNAVAILABLE, "ingester %.*s does not know that the tenant is closed",
                   STR(m->id));
}

// Each ingester that is a member refuses the tenant's pushes then. One that starts later lists the
// closed tenants before it is asked for anything.
static bool ask_ingesters(struct work *w, struct req *r, str tenant, err *e)
{
    size_t n = 0;
    const struct member *v = members_of(w->process->members, &r->arena, MEMBER_INGESTER, &n);
    struct peer_call *calls = ARENA_ARRAY(&r->arena, struct peer_call, n + 1);
    struct call **waits = ARENA_ARRAY(&r->arena, struct call *, n + 1);
    if (!arena_ok(&r->arena, e)) return false;
    if (n == 0) return err_set(e, ERR_UNAVAILABLE, "no ingester is known");
    str all = r->tenant;
    uint64_t deadline = r->deadline_mono_ns;
    uint64_t until = clock_mono_ns() + ASK_NS;
    err ignored = {0};
    r->tenant = tenant;
    r->deadline_mono_ns = deadline ? MIN(deadline, until) : until;
    for (size_t i = 0; i < n; i++) {
        peer_start(w->process->client, r, &calls[i], v[i].address, CLOSED_PATH, (str){0},
                   RANK_INGESTER, ANSWER_MAX);
        waits[i] = &calls[i].http.call;
    }
    // Of all, answers are looked at one by one.
    (void)!call_gather(r, waits, n, 0, false, &ignored);
    r->tenant = all;
    r->deadline_mono_ns = deadline;
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        ok = ok && take_answer(&calls[i], &v[i], e);
        peer_release(&calls[i]);
    }
    return ok;
}

static bool close_tenant(struct work *w, struct req *r, str tenant, struct manifest_tombstone *out,
                         err *e)
{
    if (!ask_ingesters(w, r, tenant, e)) return false;
    FAULT("closing.asked");
    if (!manifest_close(w->manifests, r, tenant, out, e)) return false;
    FAULT("closing.closed");
    return true;
}

bool closing_begin(struct work *w, struct req *r, str tenant, struct manifest_tombstone *out,
                   err *e)
{
    char id[ULID_TEXT];
    struct log_fields f = r->log;
    if (!w->manifests) {
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "there is no object storage: profiles go with ingester.head_age");
    }
    // The tenant is there until all else is gone, so what is left to do can be told from it.
    if (!tenants_note(w->manifests, r, tenant, e)) return false;
    if (!tenants_note_closed(w->manifests, r, tenant, e)) return false;
    FAULT("closing.noted");
    f.tenant = tenant;
    log_warn(&f, "compactor.tenant_closing", "action=\"its pushes are refused from now on\"");
    if (!close_tenant(w, r, tenant, out, e)) return false;
    ulid_print(out->id, id);
    metric_add(&compactor_deletions, 1);
    log_warn(&f, "compactor.tenant_closed", "id=%s version=%" PRIu64, id, out->version);
    lock_take(&w->lock);
    (void)closing_note(w, &tenant, 1);
    cond_wake_all(&w->wake);
    lock_give(&w->lock);
    return true;
}

// ---- in the list of tenants

// Forgets the tenant's objects: no job for them is due any more.
static void reset(struct tenant_work *t)
{
    memset(t->due, 0, sizeof t->due);
    memset(t->later, 0, sizeof t->later);
    t->bytes = (struct keep_bytes){0};
    t->segments = t->open_segments = t->blocks = t->gaps = t->held_leaves = 0;
    t->garbage_bytes = t->due_bytes = 0;
    t->deletions = 1;
    t->inspected = true;
    t->idle = t->open = false;
}

size_t closing_note(struct work *w, const str *closed, size_t n)
{
    size_t skipped = 0;
    assert(lock_is_mine(&w->lock));
    for (size_t i = 0; i < n; i++) {
        err ignored = {0};
        struct tenant_work *t = work_tenant(w, closed[i]);
        if (t && t->closing) continue;
        if (t) t->closing = mem_alloc(&w->memory, sizeof *t->closing, &ignored);
        if (!t || !t->closing) {
            skipped++;
            continue;
        }
        turns_ready(w, t);  // out of the heap first, whose order its time is
        t->next_inspection_mono_ns = 0;
        reset(t);
    }
    return skipped;
}

// ---- steps

// For so long jobs and readers that began before may go on, and so long objects that nobody should
// create any more are waited for.
static int64_t grace(const struct work *w)
{
    const struct compactor_config *c = work_settings(w);
    return MAX(job_age(c) + c->delete_delay, CLOSED_LEAST);
}

// Have all ingesters flushed what they held when the tenant was found closed? Then no segment of
// its profiles is created any more.
static bool have_flushed(struct work *w, struct tenant_work *t, uint64_t round, id128 id)
{
    lock_take(&w->lock);
    bool may = wish_grants(&t->wish, round, id);
    w->leaves_wait |= wish_note(&t->wish, &w->memory, &w->watch, may, &id, 1);
    lock_give(&w->lock);
    return may;
}

static bool erase(struct work *w, struct req *r, struct tenant_work *t, err *e)
{
    uint64_t deleted = 0;
    FAULT("closing.erase");
    bool ok = manifest_erase(w->manifests, r, str_of(t->name), &deleted, e);
    metric_add_to(&compactor_deleted, S("tenant"), deleted);
    if (ok) log_warn(&r->log, "compactor.tenant_erased", "objects=%" PRIu64, deleted);
    return ok;
}

static bool step_closed(struct worker *me, struct req *r, struct tenant_work *t, uint64_t round,
                        err *e)
{
    struct work *w = me->work;
    struct manifest_tombstone at;
    struct manifest *m = manifest_newest(w->manifests, r, str_of(t->name), e);
    if (!m) return false;
    bool closed = manifest_is_closed(m);
    manifest_unref(m);
    // The process that was asked ended between the two, or an ingester did not answer it.
    if (!closed) return close_tenant(w, r, str_of(t->name), &at, e);
    if (!manifest_close(w->manifests, r, str_of(t->name), &at, e)) return false;
    if (!id128_eq(at.id, t->closing->by)) {
        t->closing->by = at.id;
        t->closing->closed_boot_ns = clock_boot_ns();
    }
    t->closing->empty_boot_ns = 0;
    bool flushed = have_flushed(w, t, round, at.id);
    bool old = clock_wall_ns() - at.made_ns >= grace(w) &&
               clock_boot_ns() - t->closing->closed_boot_ns >= grace(w);
    return !old || !flushed || erase(w, r, t, e);
}

static bool step_erased(struct worker *me, struct req *r, struct tenant_work *t,
                        const struct manifest_rest *rest, bool *over, err *e)
{
    struct work *w = me->work;
    if (rest->objects) {  // a writer that was later than any should be
        t->closing->empty_boot_ns = 0;
        return erase(w, r, t, e);
    }
    int64_t now_ns = clock_boot_ns();
    if (t->closing->empty_boot_ns == 0) t->closing->empty_boot_ns = now_ns;
    if (now_ns - t->closing->empty_boot_ns < grace(w)) return true;
    FAULT("closing.forget");
    if (!tenants_reopen(w->manifests, r, str_of(t->name), e)) return false;
    log_warn(&r->log, "compactor.tenant_deleted", "action=\"its name may be used again\"");
    *over = true;
    return true;
}

// *over: the tenant is not being deleted any more.
static bool step(struct worker *me, struct tenant_work *t, const struct req *asker, bool *over,
                 err *e)
{
    struct work *w = me->work;
    struct req r;
    struct manifest_rest rest = {0};
    bool noted = false;
    str tenant = str_of(t->name);
    // Before anything is read: what is deleted must have been there when the round ended.
    uint64_t round = hold_inspect(me, asker != NULL);
    uint64_t limit = asker ? MIN(STEP_NS, MAX(req_left_ns(asker), 1u)) : STEP_NS;
    req_init(&r, RANK_DUTY, &w->plans, STEP_BYTES, limit);
    r.tenant = r.log.tenant = tenant;
    worker_set_req(me, &r);
    // Another process may have ended it, and somebody may have created the tenant anew.
    bool ok = tenants_is_closed(w->manifests, &r, tenant, &noted, e);
    if (ok && noted) {
        ok = manifest_rest(w->manifests, &r, tenant, &rest, e) &&
             (rest.listed ? step_closed(me, &r, t, round, e)
                          : step_erased(me, &r, t, &rest, over, e));
    }
    worker_set_req(me, NULL);
    req_release(&r);
    *over |= ok && !noted;
    return ok;
}

bool closing_step(struct worker *me, struct tenant_work *t, const struct req *asker, err *e)
{
    struct work *w = me->work;
    struct closing *ended = NULL;
    bool over = false;
    lock_take(&w->lock);
    bool mine = t->closing && !t->closing->taken;
    struct agenda *old = mine ? agenda_publish(t, NULL) : NULL;
    if (mine) t->closing->taken = true;
    lock_give(&w->lock);
    if (!mine) return true;
    agenda_free(old);
    bool ok = step(me, t, asker, &over, e);
    lock_take(&w->lock);
    t->closing->taken = false;
    t->open = false;
    t->next_inspection_mono_ns = clock_mono_ns() + (uint64_t)work_settings(w)->interval;
    if (over) {
        ended = t->closing;
        t->closing = NULL;
        t->deletions = 0;
        wish_release(&t->wish, &w->memory);
    }
    lock_give(&w->lock);
    mem_free(&w->memory, ended, sizeof *ended);
    return ok;
}

// ---- progress

bool closing_print(struct work *w, struct req *r, str tenant, struct buf *out, err *e)
{
    bool noted = false;
    struct manifest_rest rest = {0};
    if (!tenants_is_closed(w->manifests, r, tenant, &noted, e)) return false;
    if (!noted) return true;
    if (!manifest_rest(w->manifests, r, tenant, &rest, e)) return false;
    struct manifest *m = manifest_newest(w->manifests, r, tenant, e);
    if (!m) return false;
    struct manifest_tombstone *v = NULL;
    size_t n = 0;
    char id[ULID_TEXT] = "";
    char made[CLOCK_TEXT] = "";
    bool closed = manifest_is_closed(m);
    bool ok = !closed || manifest_tombstones(m, &r->arena, &v, &n, e);
    manifest_unref(m);
    if (!ok) return false;
    if (closed) ulid_print(v[0].id, id);
    buf_printf(out,
               "{\"id\":\"%s\",\"made\":\"%s\",\"match\":\"all of the tenant\",\"state\":\"%s\","
               "\"objects_left\":%" PRIu64 "}",
               id, closed ? clock_text(made, v[0].made_ns) : "",
               closed        ? "waiting"
               : rest.listed ? "noted"
                             : "erased",
               rest.objects);
    return true;
}
