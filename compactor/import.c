// SPDX-License-Identifier: Apache-2.0
#include "compactor/import.h"

#include "base/fault.h"
#include "codec/json.h"
#include "codec/url.h"
#include "compactor/import_int.h"
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "service/limits.h"
#include "sys/clock.h"

#include <inttypes.h>

#define ATTEMPTS         16  // races lost in a row before it is given up
#define ANSWER_MAX_BYTES ((size_t)1 << 20)

struct importer {
    const struct process *process;
    struct work *work;
    struct mem_budget memory;
    atomic_bool busy;
};

struct importer *importer_new(const struct process *process, struct work *w)
{
    struct importer *m = mem_must(sizeof *m);
    m->process = process;
    m->work = w;
    mem_budget_init(&m->memory, "compactor.import", process->memory, 0);  // limited by each request
    return m;
}

void importer_free(struct importer *m)
{
    mem_must_free(m);
}

// ---- an attempt: leaves of all hours, then one change

static void delete_leaves(struct importing *m)
{
    for (size_t i = 0; i < m->leaf_count && !m->dry; i++) {
        err ignored = {0};
        if (!store_delete(m->store, m->req, m->leaves[i].name, &ignored)) return;
    }
}

static bool make_leaves(struct importing *m, err *e)
{
    m->rows = m->leaf_bytes = m->hours_there = 0;
    for (size_t i = 0; i < m->hour_count; i++) {
        if (!import_check(m, &m->hours[i], e)) return false;
    }
    for (size_t i = 0; i < m->hour_count; i++) {
        struct import_hour *h = &m->hours[i];
        m->hours_there += h->there;
        m->rows_there += h->n - h->row_count;
        if (h->there) continue;
        if (!req_alive(m->req, e) || !import_leaf(m, h, e)) return false;
    }
    return true;
}

static bool commit(struct importing *m, int64_t begun_ns, int64_t begun_boot_ns, err *e)
{
    const struct manifest_change c = {.add = m->leaves,
                                      .add_count = m->leaf_count,
                                      .needs = m->needs,
                                      .need_count = m->need_count,
                                      .needs_all = true,
                                      .calm = manifest_version(m->snapshot.manifest) + 1,
                                      .begun_ns = begun_ns,
                                      .begun_boot_ns = begun_boot_ns};
    if (m->dry || m->leaf_count == 0) return true;
    // A tenant of this name may have been deleted since this process noted it.
    if (manifest_version(m->snapshot.manifest) == 0) tenants_renote(m->manifests, m->tenant);
    // The note comes first: a tenant that nobody knows is never compacted.
    if (!tenants_note(m->manifests, m->req, m->tenant, e)) return false;
    FAULT("import.commit");
    bool ok = manifest_commit(m->manifests, m->req, m->tenant, &c, NULL, e);
    FAULT("import.committed");
    return ok;
}

// A tenant that is being deleted takes no imports, since they would be deleted with it. An import
// that began before the tenant was closed is too old to commit once the tenant is erased.
static bool is_open(struct importing *m, err *e)
{
    bool closed = false;
    if (!tenants_is_closed(m->manifests, m->req, m->tenant, &closed, e)) return false;
    return !closed || err_set(e, ERR_FAILED_PRECONDITION,
                              "tenant %.*s is being deleted with all that it has: import into it "
                              "once that has ended; until then `flametree deletions` shows it",
                              STR(m->tenant));
}

static bool take_deletions(struct importing *m, err *e)
{
    const struct manifest *now = m->snapshot.manifest;
    return manifest_tombstones(now, &m->attempt, &m->standing, &m->standing_count, e) &&
           manifest_ended(now, &m->attempt, &m->ended, &m->ended_count, e);
}

// *again: another writer was first.
static bool attempt(struct importing *m, bool *again, err *e)
{
    int64_t begun_ns = clock_wall_ns();
    int64_t begun_boot_ns = clock_boot_ns();
    uint64_t before = m->rows_there;
    m->leaf_count = m->need_count = m->need_cap = 0;
    m->needs = NULL;
    *again = false;
    arena_init(&m->attempt, m->memory, SIZE_MAX / 4);
    m->leaves = ARENA_ARRAY(&m->attempt, struct manifest_block, m->hour_count + 1);
    bool ok = arena_ok(&m->attempt, e) && is_open(m, e) &&
              snapshot_take(m->manifests, m->req, &m->attempt, m->tenant, &m->snapshot, e);
    if (ok) {
        bool made = take_deletions(m, e) && make_leaves(m, e);
        ok = made && commit(m, begun_ns, begun_boot_ns, e);
        // A commit that failed otherwise may have landed: its leaves are left to the sweep.
        if (!ok && (!made || e->code == ERR_ABORTED)) delete_leaves(m);
        // A leaf that was to be read may have been replaced and deleted meanwhile.
        *again = !ok && (e->code == ERR_ABORTED || (!made && e->code == ERR_NOT_FOUND));
        if (*again) m->rows_there = before;
        snapshot_release(&m->snapshot);
    }
    arena_release(&m->attempt);
    return ok;
}

static bool run(struct importing *m, str body, const struct limits *l, err *e)
{
    if (!import_take(m, body, l, e) || !import_cut(m, e)) return false;
    for (int i = 0; i < ATTEMPTS; i++) {
        bool again = false;
        *e = (err){0};
        if (attempt(m, &again, e)) return true;
        if (!again) return false;
    }
    e->code = ERR_UNAVAILABLE;
    return err_wrap(e, "other writers were first again and again");
}

// ---- the request

static bool read_flag(struct http_exchange *x, const char *key, bool *flag, err *e)
{
    str text = {0};
    bool given = url_query(&x->req.arena, x->query, key, &text);
    *flag = given && str_is(text, "true");
    if (!given || *flag || str_is(text, "false")) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "%s is '%.*s', must be true or false", key, STR(text));
}

static bool read_tenant(struct http_exchange *x, str *tenant, err *e)
{
    if (!url_query(&x->req.arena, x->query, "tenant", tenant)) *tenant = S("anonymous");
    if (name_tenant_ok(*tenant)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "tenant is '%.*s', which is no tenant's name",
                   STR(*tenant));
}

static void put_number(struct buf *b, const char *name, uint64_t v)
{
    buf_printf(b, "\"%s\":%" PRIu64 ",", name, v);
}

static void print(const struct importing *m, struct buf *b)
{
    buf_byte(b, '{');
    put_number(b, "profiles", m->profiles);
    put_number(b, "refused", m->refused);
    put_number(b, "bytes", m->bytes);
    put_number(b, "rows", m->rows);
    put_number(b, "rowsThere", m->rows_there);
    put_number(b, "hours", m->hour_count);
    put_number(b, "hoursThere", m->hours_there);
    put_number(b, "rawBlocks", m->leaf_count);
    put_number(b, "storeBytes", m->leaf_bytes);
    buf_printf(b, "\"dryRun\":%s,\"faults\":[", m->dry ? "true" : "false");
    for (size_t i = 0; i < m->fault_count; i++) {
        buf_printf(b, "%s{\"profile\":%" PRIu64 ",\"message\":", i ? "," : "", m->faults[i].number);
        json_put_string(b, str_of(m->faults[i].fault.msg));
        buf_byte(b, '}');
    }
    buf_z(b, "]}\n");
}

static void count(const struct importing *m)
{
    if (m->dry) return;
    metric_add(&compactor_imported_profiles, m->profiles - m->refused);
    metric_add(&compactor_imported_bytes, m->bytes);
    metric_add(&compactor_imported_rows, m->rows);
    metric_add(&compactor_import_copies, m->rows_there);
}

static bool serve(struct importer *of, struct http_exchange *x, struct importing *m, err *e)
{
    if (!read_tenant(x, &m->tenant, e) || !read_flag(x, "dry_run", &m->dry, e) ||
        !read_flag(x, "again", &m->again, e)) {
        return false;
    }
    // The times of an import are its own: no window, and the rate is the client's.
    struct limits l = *tenant_limits(of->process->config, &x->req.arena, m->tenant);
    l.reject_older_than = l.reject_newer_than = 0;
    of->memory.limit = (size_t)work_settings(of->work)->worker_memory;
    arena_init(&m->arena, m->memory, SIZE_MAX / 4);
    bool ok = run(m, buf_view(&x->body), &l, e);
    if (ok) {
        count(m);
        x->status = 200;
        http_headers_add(&x->answer_headers, &x->req.arena, S("content-type"),
                         S("application/json"));
        buf_release(&x->out);
        buf_init(&x->out, x->req.arena.budget, ANSWER_MAX_BYTES);
        print(m, &x->out);
        ok = buf_ok(&x->out, e);
    }
    arena_release(&m->arena);
    return ok;
}

bool importer_post(struct importer *of, struct http_exchange *x, err *e)
{
    struct importing m = {.req = &x->req,
                          .store = of->process->store,
                          .manifests = of->work->manifests,
                          .memory = &of->memory,
                          .scratch = of->work->scratch,
                          .days_retention = work_settings(of->work)->days_retention,
                          .deletion_stay = work_settings(of->work)->deletion_stay};
    if (!m.manifests)
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "there is no object storage, which imports go to");
    if (atomic_exchange(&of->busy, true)) {
        route_header(x, "retry-after", S("1"));
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "another request of an import is under way");
    }
    bool ok = serve(of, x, &m, e);
    atomic_store(&of->busy, false);
    return ok;
}
