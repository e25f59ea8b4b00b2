// SPDX-License-Identifier: Apache-2.0
//
// flush_answer.c - cuts on their way to the store, as queries and people see them: the names in an
// answer, refusals of doubtful answers, refreshes, metrics and the page of cuts.
#include "codec/json.h"
#include "ingester/flush/flush_int.h"
#include "ingester/metrics.h"
#include "sys/clock.h"

#include <inttypes.h>

static struct closed_cut *find_cut(struct flush *f, const struct wal_ref *ref)
{
    for (size_t i = 0; i < f->n; i++) {
        struct closed_cut *c = f->cuts[i];
        if (c->number == ref->cut && id128_eq(c->stream, ref->stream)) return c;
    }
    return NULL;
}

static struct piece *find_piece(const struct closed_cut *c, str tenant, int64_t hour)
{
    size_t low = 0;
    size_t high = c->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        struct piece *p = &c->pieces[mid];
        int order = str_cmp(p->is.tenant, tenant);
        if (order == 0 && p->is.hour == hour) return p;
        if (order < 0 || (order == 0 && p->is.hour < hour)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return NULL;
}

// ---- names

// Whether an answer names this cut and hour: if the head has rows of it for any of these tenants. A
// cut of an earlier process is named even where this head has no piece of it. Logs of older
// programs may have a row twice, in two cuts; the head then keeps it in one of them, while a part
// of the other may be in the store. Because both are named, the querier counts the row once.
static bool is_named(const struct closed_cut *c, const str *tenants, size_t n, struct wal_ref *ref)
{
    bool named = false;
    for (size_t i = 0; i < n; i++) {
        const struct piece *p = find_piece(c, tenants[i], ref->hour);
        if (!p) {
            named = named || c->found;
        } else if (p->state != PIECE_GONE) {
            named = true;
            ref->first_part = MAX(ref->first_part, p->first_part);
        }
    }
    return named;
}

void flush_names(struct flush *f, const str *tenants, size_t tenant_count, struct wal_ref *refs,
                 size_t *n)
{
    size_t kept = 0;
    lock_take(&f->lock);
    for (size_t i = 0; i < *n; i++) {
        struct wal_ref ref = refs[i];
        const struct closed_cut *c = find_cut(f, &ref);
        if (!c || !c->listed || is_named(c, tenants, tenant_count, &ref)) refs[kept++] = ref;
    }
    lock_give(&f->lock);
    *n = kept;
}

// ---- what cannot be answered yet

// A querier learns from the pages of the manifest which leaves have absorbed our segments, and
// pages name these for a week only. If the store has had rows of a cut for longer (the ingester was
// away), the querier would count them in the leaf and in the head. Comparing the piece with the
// store reads the footers of leaves, which name their segments for ever.
static bool is_doubtful(const struct closed_cut *c, const struct piece *p, int64_t now)
{
    int64_t since = p ? p->since_ns : c->found && !c->listed ? c->opened_wall_ns : 0;
    return since && now - since > PAGES_NAME_NS;
}

bool flush_sure(struct flush *f, const str *tenants, size_t tenant_count,
                const struct wal_ref *refs, size_t n, err *e)
{
    int64_t now = clock_wall_ns();
    lock_take(&f->lock);
    bool ok = flush_adopt(f, e);
    for (size_t i = 0; ok && i < n; i++) {
        const struct closed_cut *c = find_cut(f, &refs[i]);
        for (size_t k = 0; ok && c && k < tenant_count; k++) {
            const struct piece *p = c->listed ? find_piece(c, tenants[k], refs[i].hour) : NULL;
            if ((p && p->state == PIECE_GONE) || !is_doubtful(c, p, now)) continue;
            char stream[ULID_TEXT];
            ulid_print(c->stream, stream);
            ok = err_set(e, ERR_UNAVAILABLE,
                         "cut %" PRIu64 " of stream %s is older than %" PRId64
                         " days: what the object store has of it is looked up first",
                         c->number, stream, PAGES_NAME_NS / NS_PER_S / 86400);
        }
    }
    lock_give(&f->lock);
    return ok;
}

// ---- refresh

// *out is the cut, which is not dropped until leave_cut; NULL: it is gone, or not closed. A drop
// that is under way is waited for, because the cut's memory goes with it.
static bool use_cut(struct flush *f, struct req *r, const struct wal_ref *ref,
                    struct closed_cut **out, err *e)
{
    lock_take(&f->lock);
    bool ok = flush_adopt(f, e);
    struct closed_cut *c = find_cut(f, ref);
    while (ok && c && c->dropping) {
        (void)cond_wait_until(&f->change, &f->lock, clock_mono_ns() + (uint64_t)(100 * NS_PER_MS));
        ok = req_alive(r, e);
        c = find_cut(f, ref);
    }
    if (c && !c->ready) c = NULL;
    if (ok && c) c->users++;
    lock_give(&f->lock);
    *out = c;
    return ok;
}

static void leave_cut(struct flush *f, struct closed_cut *c)
{
    lock_take(&f->lock);
    assert(c->users > 0 && !c->dropping);
    c->users--;
    cond_wake_all(&f->wake);
    lock_give(&f->lock);
}

static bool refresh_piece(struct flush *f, struct req *r, struct inspection *l,
                          struct closed_cut *c, struct piece *p, err *e)
{
    if (!piece_take(f, r, p, e)) return false;
    // A piece that this process wrote is covered without a comparison.
    bool ok = p->state != PIECE_WAITS || piece_inspect(f, r, l, c, p, e);
    if (ok && p->state == PIECE_COVERED) piece_remove(f, c, p);
    piece_give(f, p);
    return ok;
}

static bool refresh_cut(struct flush *f, struct req *r, const str *tenants, size_t tenant_count,
                        struct inspection *inspections, const struct wal_ref *ref, err *e)
{
    struct closed_cut *c = NULL;
    if (!use_cut(f, r, ref, &c, e)) return false;
    if (!c) return true;
    bool ok = closed_list(f, r, c, e);
    for (size_t i = 0; ok && i < tenant_count; i++) {
        struct piece *p = find_piece(c, tenants[i], ref->hour);
        if (p) ok = refresh_piece(f, r, &inspections[i], c, p, e);
    }
    leave_cut(f, c);
    return ok;
}

bool flush_refresh(struct flush *f, struct req *r, const str *tenants, size_t tenant_count,
                   const struct wal_ref *refs, size_t n, err *e)
{
    if (n == 0) return true;
    struct inspection *inspections = ARENA_ARRAY(&r->arena, struct inspection, tenant_count);
    if (!inspections) return arena_fail(&r->arena, e);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = refresh_cut(f, r, tenants, tenant_count, inspections, &refs[i], e) ||
             err_wrap(e, "refresh");
    for (size_t i = 0; i < tenant_count; i++)
        inspection_release(&inspections[i]);
    return ok;
}

// ---- pushes that find no room

bool flush_blame(struct flush *f, err *e)
{
    lock_take(&f->lock);
    uint64_t since = f->failing_since;
    err fault = f->fault;
    lock_give(&f->lock);
    if (since == 0 || e->code != ERR_RESOURCE_EXHAUSTED) return false;
    return err_wrap(e, "the object store has not taken profiles for %" PRIu64 " s (%.300s)",
                    (clock_mono_ns() - since) / (uint64_t)NS_PER_S, fault.msg);
}

// ---- for people

void flush_gauges(struct flush *f)
{
    uint64_t bytes = 0;
    int64_t oldest = 0;
    int64_t now = clock_boot_ns();
    err none = {0};
    lock_take(&f->lock);
    (void)flush_adopt(f, &none);
    for (size_t i = 0; i < f->n; i++) {
        const struct closed_cut *c = f->cuts[i];
        if (c->covered) continue;
        bytes += c->bytes;
        oldest = MAX(oldest, now - c->newest_boot_ns);
    }
    bool failing = f->failing_since != 0;
    lock_give(&f->lock);
    metric_set(&ingester_flush_waiting, (int64_t)bytes);
    metric_set(&ingester_flush_oldest, oldest / NS_PER_S);
    metric_set(&ingester_flush_failing, failing);
}

static const char *cut_state(const struct wal_cut *w, const struct closed_cut *c)
{
    if (!w->closed) return "open";
    return c && c->covered ? "covered" : "closed";
}

static void print_cut(struct flush *f, struct buf *out, const struct wal_cut *w)
{
    struct wal_ref ref = {w->stream, w->number, 0, 0, 0};
    const struct closed_cut *c = find_cut(f, &ref);
    char stream[ULID_TEXT];
    ulid_print(w->stream, stream);
    buf_printf(out,
               "{\"stream\":\"%s\",\"cut\":%" PRIu64 ",\"state\":\"%s\",\"entries\":%" PRIu64
               ",\"bytes\":%" PRIu64 ",\"opened_ms\":%" PRId64,
               stream, w->number, cut_state(w, c), w->entries, w->bytes,
               w->opened_wall_ns / NS_PER_MS);
    if (w->lost_entries) {
        buf_printf(out, ",\"missing_pushes\":%" PRIu64 ",\"missing_profiles\":%" PRIu64,
                   w->lost_entries, w->lost_rows);
    }
    if (c && c->listed) {
        size_t covered = 0;
        for (size_t i = 0; i < c->n; i++)
            covered += c->pieces[i].state != PIECE_WAITS;
        buf_printf(out, ",\"pieces\":%zu,\"covered\":%zu", c->n, covered);
    }
    if (c) buf_printf(out, ",\"failures\":%u", c->failures);
    buf_byte(out, '}');
}

static void print_cuts(struct flush *f, struct buf *out)
{
    err none = {0};
    size_t n = wal_list_cuts(f->in->wal, NULL, 0);
    const size_t bytes = (n + 1) * sizeof(struct wal_cut);
    struct wal_cut *v = mem_alloc(NULL, bytes, &none);
    if (!v) {
        buf_starve(out);
        return;
    }
    n = MIN(n, wal_list_cuts(f->in->wal, v, n));
    for (size_t i = 0; i < n; i++) {
        if (i) buf_byte(out, ',');
        print_cut(f, out, &v[i]);
    }
    mem_free(NULL, v, bytes);
}

void flush_print(struct flush *f, struct buf *out)
{
    err none = {0};
    lock_take(&f->lock);
    (void)flush_adopt(f, &none);
    buf_z(out, "{\"cuts\":[");
    print_cuts(f, out);
    uint64_t now = clock_mono_ns();
    buf_printf(out,
               "],\"flushed\":{\"cuts\":%" PRIu64 ",\"segments\":%" PRIu64 ",\"rows\":%" PRIu64
               ",\"bytes\":%" PRIu64 "},\"failures\":%" PRIu64,
               f->totals.cuts, f->totals.segments, f->totals.rows, f->totals.bytes, f->failed);
    if (f->failing_since) {
        buf_printf(out, ",\"failing_for_s\":%" PRIu64 ",\"fault\":",
                   (now - f->failing_since) / (uint64_t)NS_PER_S);
        json_put_string(out, str_of(f->fault.msg));
    }
    lock_give(&f->lock);
    buf_z(out, "}\n");
}
