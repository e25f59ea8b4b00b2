// SPDX-License-Identifier: Apache-2.0
#include "compactor/deletion.h"

#include "base/fault.h"
#include "codec/attime.h"
#include "codec/json.h"
#include "codec/url.h"
#include "compactor/closing.h"
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "manifest/forgotten.h"
#include "service/process.h"
#include "sys/rand.h"

#include <inttypes.h>

#define FROM_ALWAYS INT64_C(-1)  // hours count from 1970
#define PRINT_MAX   ((size_t)64 << 10)
#define COMMIT_NS   ((uint64_t)600 * NS_PER_S)

// ---- requests

bool deletion_tenant(struct http_exchange *x, str *tenant, err *e)
{
    *tenant = S("anonymous");
    (void)url_query(&x->req.arena, x->query, "tenant", tenant);
    return name_tenant_ok(*tenant) ||
           err_set(e, ERR_INVALID_ARGUMENT, "tenant '%.*s' cannot be the name of a tenant",
                   STR(str_slice(*tenant, 0, 150)));
}

// Digits are always milliseconds here. So a number of any size means what it always meant, and only
// other texts are read as codec/attime.h has them.
static bool read_ms(struct http_exchange *x, int64_t now_ns, const char *name, uint64_t *ms,
                    bool *given, err *e)
{
    str text = {0};
    int64_t ns = 0;
    err ignored = {0};
    *given = url_query(&x->req.arena, x->query, name, &text);
    if (!*given || (str_u64(text, ms) && *ms < (uint64_t)(INT64_MAX / NS_PER_MS))) return true;
    bool digits = text.n > 0 && text.p[0] >= '0' && text.p[0] <= '9' && !str_contains(text, S("-"));
    if (!digits && attime_parse(text, now_ns, &ns, &ignored) && ns >= 0) {
        *ms = (uint64_t)(ns / NS_PER_MS);
        return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "%s is '%.*s', must be a Unix time in ms, or such as 2024-01-31T09:30:00Z or "
                   "now-1h",
                   name, STR(str_slice(text, 0, 100)));
}

static bool read_range(struct http_exchange *x, int64_t now_ns, struct hide *h, err *e)
{
    uint64_t start = 0;
    uint64_t end = 0;
    bool from = false;
    bool until = false;
    if (!read_ms(x, now_ns, "start", &start, &from, e) ||
        !read_ms(x, now_ns, "end", &end, &until, e))
        return false;
    h->from_ns = from ? (int64_t)start * NS_PER_MS - 1 : FROM_ALWAYS;
    h->to_ns = until ? MIN((int64_t)end * NS_PER_MS, now_ns) : now_ns;
    return h->from_ns < h->to_ns ||
           err_set(e, ERR_INVALID_ARGUMENT, "the range is empty, or later than now");
}

static bool read_id(struct http_exchange *x, int64_t now_ns, id128 *id, err *e)
{
    str text = {0};
    uint8_t random[10];
    if (url_query(&x->req.arena, x->query, "id", &text))
        return ulid_parse(text, id, e) || err_wrap(e, "id");
    rand_bytes(random, sizeof random);
    *id = ulid_make((uint64_t)(MAX(now_ns, 0) / NS_PER_MS), random);
    return true;
}

bool deletion_read(struct http_exchange *x, int64_t now_ns, struct manifest_tombstone *out, err *e)
{
    str match = {0};
    if (!url_query(&x->req.arena, x->query, "match", &match))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "match is missing: a selector, such as {service_name=\"shop\"}");
    return selector_parse(&x->req.arena, match, &out->hide.selector, e) &&
           read_range(x, now_ns, &out->hide, e) && read_id(x, now_ns, &out->id, e);
}

void deletion_print(const struct manifest_tombstone *t, struct buf *out)
{
    char id[ULID_TEXT];
    ulid_print(t->id, id);
    buf_printf(out, "{\"id\":\"%s\",\"version\":%" PRIu64, id, t->version);
    deletion_put(&t->hide, out);
    buf_z(out, "}\n");
}

void deletion_put_match(const struct selector *s, struct buf *out)
{
    static const char *const ops[] = {
        [MATCH_EQ] = "=", [MATCH_NEQ] = "!=", [MATCH_RE] = "=~", [MATCH_NRE] = "!~"};
    buf_byte(out, '{');
    for (size_t i = 0; i < s->n; i++) {
        buf_printf(out, "%s%.*s%s", i ? "," : "", STR(s->v[i].name), ops[s->v[i].op]);
        label_quote(s->v[i].value, out);
    }
    buf_byte(out, '}');
}

void deletion_put(const struct hide *h, struct buf *out)
{
    struct buf text;
    buf_init(&text, NULL, PRINT_MAX);
    deletion_put_match(&h->selector, &text);
    buf_z(out, ",\"match\":");
    json_put_string(out, buf_view(&text));
    buf_release(&text);
    buf_printf(out, ",\"start\":%" PRId64 ",\"end\":%" PRId64, (h->from_ns + 1) / NS_PER_MS,
               h->to_ns / NS_PER_MS);
}

// ---- making

// An operator must be able to see later who deleted what.
static void log_deletion(const struct req *r, str tenant, const struct manifest_tombstone *t)
{
    struct buf text;
    char id[ULID_TEXT];
    char quoted[LOG_QUOTE_MAX];
    struct log_fields f = r->log;
    f.tenant = tenant;
    ulid_print(t->id, id);
    buf_init(&text, NULL, PRINT_MAX);
    deletion_put_match(&t->hide.selector, &text);
    log_warn(&f, "compactor.deletion",
             "id=%s match=%s from_ns=%" PRId64 " to_ns=%" PRId64 " version=%" PRIu64, id,
             log_quote(quoted, buf_view(&text)), t->hide.from_ns, t->hide.to_ns, t->version);
    buf_release(&text);
}

static void wake_tenant(struct work *w, str tenant)
{
    lock_take(&w->lock);
    for (size_t i = 0; i < w->tenant_count; i++) {
        struct tenant_work *t = w->tenants[i];
        if (!str_is(tenant, t->name)) continue;
        turns_ready(w, t);  // out of the heap first, whose order its time is
        t->next_inspection_mono_ns = 0;
        t->idle = false;
    }
    cond_wake_all(&w->wake);
    lock_give(&w->lock);
}

bool work_delete(struct work *w, struct req *r, str tenant, struct manifest_tombstone *t, err *e)
{
    struct manifest *now = NULL;
    struct manifest_tombstone *v = NULL;
    size_t n = 0;
    if (!w->manifests)
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "there is no object storage: profiles go with ingester.head_age");
    const struct manifest_change c = {.bury = t, .bury_count = 1, .begun_ns = clock_wall_ns()};
    // The tenant is noted first, or nobody would look after the deletion.
    if (!tenants_note(w->manifests, r, tenant, e)) return false;
    FAULT("compact.delete");
    if (!manifest_commit(w->manifests, r, tenant, &c, &now, e)) return false;
    // What an earlier try of the same id made counts.
    bool ok = manifest_tombstones(now, &r->arena, &v, &n, e);
    for (size_t i = 0; ok && i < n; i++) {
        if (id128_eq(v[i].id, t->id)) *t = v[i];
    }
    manifest_unref(now);
    if (!ok) return false;
    metric_add(&compactor_deletions, 1);
    log_deletion(r, tenant, t);
    wake_tenant(w, tenant);
    return true;
}

// ---- in plans

bool deletion_begin(struct agenda *a, err *e)
{
    const struct manifest *m = a->snapshot.manifest;
    if (manifest_tombstone_count(m) == 0 || manifest_is_closed(m)) return true;
    if (!manifest_tombstones(a->snapshot.manifest, &a->arena, &a->tombstones, &a->tombstone_count,
                             e))
        return false;
    a->hides = ARENA_ARRAY(&a->arena, struct hide, a->tombstone_count);
    if (!a->hides) return arena_fail(&a->arena, e);
    for (size_t i = 0; i < a->tombstone_count; i++)
        a->hides[i] = a->tombstones[i].hide;
    return true;
}

// A stream that was forgotten has missed them.
static bool note_ends(struct work *w, struct req *r, const struct agenda *a, err *e)
{
    for (size_t i = 0; i < a->tombstone_count; i++) {
        const struct manifest_tombstone *t = &a->tombstones[i];
        for (size_t k = 0; k < a->plan.done_count; k++) {
            if (id128_eq(a->plan.done[k], t->id) &&
                !deletion_note_end(w->process->store, r, r->tenant, t->id, t, clock_wall_ns(), e))
                return false;
        }
    }
    return true;
}

void deletion_end(struct worker *me, struct tenant_work *t, struct agenda *a)
{
    struct work *w = me->work;
    struct req r;
    err e = {0};
    if (a->plan.done_count == 0) return;
    const struct manifest_change c = {.forget = a->plan.done,
                                      .forget_count = a->plan.done_count,
                                      .begun_ns = a->begun_ns,
                                      .begun_boot_ns = a->begun_boot_ns};
    req_init(&r, RANK_DUTY, &w->plans, (size_t)1 << 30, COMMIT_NS);
    r.tenant = r.log.tenant = str_of(t->name);
    worker_set_req(me, &r);
    bool ok = note_ends(w, &r, a, &e);
    FAULT("compact.deletion.noted");
    ok = ok && manifest_commit(w->manifests, &r, str_of(t->name), &c, NULL, &e);
    worker_set_req(me, NULL);
    for (size_t i = 0; ok && i < a->plan.done_count; i++) {
        char id[ULID_TEXT];
        ulid_print(a->plan.done[i], id);
        log_info(&r.log, "compactor.deleted", "id=%s", id);
    }
    // If it failed, the next plan finds them again.
    req_release(&r);
}

// ---- progress

static void put_one(const struct plan_state *s, const struct manifest_tombstone *t, struct buf *out)
{
    uint64_t bytes = 0;
    size_t blocks = 0;
    size_t segments = 0;
    char id[ULID_TEXT];
    char made[CLOCK_TEXT];
    for (size_t i = 0; i < s->block_count; i++) {
        if (!manifest_is_hiding(t, &s->blocks[i])) continue;
        blocks++;
        bytes += s->blocks[i].bytes;
    }
    for (size_t i = 0; i < s->segment_count; i++) {
        int64_t hour = s->segments[i].name.hour;
        segments +=
            hide_meets(&t->hide, slot_start(hour, SLOT_HOUR), slot_start(hour + 1, SLOT_HOUR));
    }
    ulid_print(t->id, id);
    buf_printf(out, "{\"id\":\"%s\",\"version\":%" PRIu64 ",\"made\":\"%s\"", id, t->version,
               clock_text(made, t->made_ns));
    deletion_put(&t->hide, out);
    buf_printf(out,
               ",\"blocks_left\":%zu,\"bytes_left\":%" PRIu64 ",\"segments_left\":%zu,"
               "\"rewritten\":%s}",
               blocks, bytes, segments, blocks + segments ? "false" : "true");
}

bool work_print_deletions(struct work *w, struct req *r, str tenant, struct buf *out, err *e)
{
    struct snapshot s;
    struct manifest_tombstone *v = NULL;
    size_t n = 0;
    if (!w->manifests) return err_set(e, ERR_FAILED_PRECONDITION, "there is no object storage");
    if (!snapshot_take(w->manifests, r, &r->arena, tenant, &s, e)) return false;
    struct plan_state state = {.segments = s.segments, .segment_count = s.segment_count};
    struct manifest_about about;
    state.blocks = manifest_blocks(s.manifest, &state.block_count);
    manifest_tell(s.manifest, &about);
    bool ok = manifest_tombstones(s.manifest, &r->arena, &v, &n, e);
    buf_z(out, "{\"deletions\":[");
    if (manifest_is_closed(s.manifest)) n = 0;  // the tenant as a whole
    ok = ok && closing_print(w, r, tenant, out, e);
    for (size_t i = 0; ok && i < n; i++) {
        if (i) buf_byte(out, ',');
        put_one(&state, &v[i], out);
    }
    // Replaced objects go with the next sweeps; then nothing in the store has deleted profiles.
    buf_printf(out, "],\"objects_to_sweep\":%zu,\"bytes_to_sweep\":%" PRIu64 "}\n", about.garbage,
               about.garbage_bytes);
    snapshot_release(&s);
    return ok;
}
