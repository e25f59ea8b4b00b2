// SPDX-License-Identifier: Apache-2.0
#include "compactor/closing.h"

#include "base/fault.h"
#include "codec/json.h"
#include "compactor/confirm.h"
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "manifest/forgotten.h"
#include "service/process.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define STEP_NS    ((uint64_t)600 * NS_PER_S)
#define STEP_BYTES ((size_t)1 << 30)
#define WAITS_MAX  ((size_t)256)  // that the status names
#define AWAIT_NS   ((uint64_t)10 * NS_PER_S)
#define PAUSE_NS   ((uint64_t)2 * NS_PER_S)

// ---- what is waited for

void closing_free(struct work *w, struct closing *c)
{
    if (!c) return;
    mem_free(&w->memory, c->waits, c->wait_cap * sizeof *c->waits);
    mem_free(&w->memory, c, sizeof *c);
}

static int64_t waits_since(const struct closing *c, id128 stream, int64_t now_ns)
{
    for (size_t i = 0; i < c->wait_count; i++)
        if (id128_eq(c->waits[i].stream, stream)) return c->waits[i].since_wall_ns;
    return now_ns;
}

// Keeps for the status which streams are waited for. Without memory the status tells of none.
static void note_waits(struct work *w, str tenant, const struct unconfirmed *v, size_t n)
{
    struct closing_wait *waits = NULL;
    size_t cap = 0;
    err ignored = {0};
    int64_t now_ns = clock_wall_ns();
    lock_take(&w->lock);
    if (n) (void)closing_note(w, &tenant, 1);  // so that it is tried again
    struct tenant_work *t = work_tenant(w, tenant);
    struct closing *c = t ? t->closing : NULL;
    n = MIN(n, WAITS_MAX);
    if (!c || (n && !mem_grow(&w->memory, &waits, &cap, n, sizeof *waits, &ignored))) n = 0;
    for (size_t i = 0; i < n; i++) {
        struct closing_wait *x = &waits[i];
        *x = (struct closing_wait){.stream = v[i].stream,
                                   .since_wall_ns = waits_since(c, v[i].stream, now_ns)};
        snprintf(x->node, sizeof x->node, "%.*s", STR(v[i].node));
        snprintf(x->why, sizeof x->why, "%.*s", STR(v[i].why));
    }
    if (c) mem_free(&w->memory, c->waits, c->wait_cap * sizeof *c->waits);
    if (c) c->waits = waits;
    if (c) c->wait_cap = cap;
    if (c) c->wait_count = n;
    lock_give(&w->lock);
}

// ---- closing

static bool all_confirmed(const struct unconfirmed *v, size_t n, err *e)
{
    char ulid[ULID_TEXT];
    char more[60] = "";
    if (n == 0) return true;
    ulid_print(v[0].stream, ulid);
    if (n > 1) snprintf(more, sizeof more, ", nor have those of %zu more streams", n - 1);
    return err_set(e, ERR_UNAVAILABLE,
                   "ingester %.*s has not confirmed that it refuses pushes of the tenant in stream "
                   "%s%s: %.*s; it is waited for, or for the end of its stream",
                   STR(v[0].node.n ? v[0].node : S("?")), ulid, more, STR(v[0].why));
}

// The caller waits until `until` for those who have not confirmed: a process that was just started
// flushes what an earlier one of its directory held, and then its streams are over.
// *waits: it fails because some have not.
static bool await_confirmed(struct work *w, struct req *r, str tenant, uint64_t until, bool *waits,
                            err *e)
{
    struct unconfirmed *v = NULL;
    size_t n = 0;
    err over = {0};
    *waits = false;
    for (;;) {
        if (!confirm_closed(w, r, tenant, &v, &n, e)) return false;
        note_waits(w, tenant, v, n);
        bool ends = clock_mono_ns() + PAUSE_NS >= until || !req_alive(r, &over);
        *waits = n > 0;
        if (n == 0 || ends) return all_confirmed(v, n, e);
        usleep((useconds_t)(PAUSE_NS / 1000));
    }
}

static bool close_tenant(struct work *w, struct req *r, str tenant, struct manifest_tombstone *out,
                         err *e)
{
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
    uint64_t until = clock_mono_ns() + MIN(AWAIT_NS, req_left_ns(r) / 2);
    bool waits = false;
    if (!await_confirmed(w, r, tenant, until, &waits, e) || !close_tenant(w, r, tenant, out, e))
        return false;
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

static bool step_noted(struct work *w, struct req *r, str tenant, err *e)
{
    struct manifest_tombstone at;
    err why = {0};
    bool waits = false;
    char text[LOG_QUOTE_MAX];
    if (await_confirmed(w, r, tenant, 0, &waits, &why)) return close_tenant(w, r, tenant, &at, e);
    if (!waits) *e = why;
    if (waits)
        log_warn(&r->log, "compactor.tenant_waits", "why=%s then=\"%s\"",
                 log_quote(text, str_of(why.msg)), "it is tried again");
    return waits;
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
    // The process that was asked ended between the two, or ingesters had not confirmed.
    if (!closed) return step_noted(w, r, str_of(t->name), e);
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

// A stream that was forgotten has missed it. The id of the deletion went with the tenant's
// manifest, unless this process saw it.
static bool note_end(struct work *w, struct req *r, const struct tenant_work *t, err *e)
{
    uint8_t random[10];
    id128 id = t->closing->by;
    rand_bytes(random, sizeof random);
    if (id128_eq(id, (id128){0}))
        id = ulid_make((uint64_t)(MAX(clock_wall_ns(), 0) / NS_PER_MS), random);
    return deletion_note_end(w->process->store, r, str_of(t->name), id, NULL, clock_wall_ns(), e);
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
    if (!note_end(w, r, t, e)) return false;
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
    // Another process may have erased it: v1/tenants/<tenant> is to be asked for anew.
    if (ok && !noted) tenants_renote(w->manifests, tenant);
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
    closing_free(w, ended);
    return ok;
}

// ---- progress

static void put_wait(struct buf *out, bool first, id128 stream, str node, int64_t since_wall_ns,
                     const char *why)
{
    char ulid[ULID_TEXT];
    char since[CLOCK_TEXT];
    ulid_print(stream, ulid);
    buf_printf(out, "%s{\"stream\":\"%s\",\"node\":", first ? "" : ",", ulid);
    json_put_string(out, node);
    buf_printf(out, ",\"since\":\"%s\",\"why\":", clock_text(since, since_wall_ns));
    json_put_string(out, str_of(why));
    buf_byte(out, '}');
}

// Before the tenant is closed: streams whose processes have not confirmed. Afterwards: those that
// were registered then and are not flushed.
static void put_waits(struct work *w, str tenant, bool closed, struct buf *out)
{
    lock_take(&w->lock);
    const struct tenant_work *t = work_tenant(w, tenant);
    const struct closing *c = t ? t->closing : NULL;
    const struct watch *x = &w->watch;
    buf_z(out, ",\"waits_for\":[");
    for (size_t i = 0; !closed && c && i < c->wait_count; i++)
        put_wait(out, i == 0, c->waits[i].stream, str_of(c->waits[i].node),
                 c->waits[i].since_wall_ns, c->waits[i].why);
    bool flushes = closed && c && t->wish.round > x->over;
    for (size_t i = 0; flushes && i < x->count; i++)
        put_wait(out, i == 0, x->streams[i], hold_node(w, x->streams[i]), x->begun_wall_ns,
                 "it is not flushed");
    buf_byte(out, ']');
    lock_give(&w->lock);
}

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
               "\"objects_left\":%" PRIu64,
               id, closed ? clock_text(made, v[0].made_ns) : "",
               closed        ? "waiting"
               : rest.listed ? "noted"
                             : "erased",
               rest.objects);
    put_waits(w, tenant, closed, out);
    buf_byte(out, '}');
    return true;
}
