// SPDX-License-Identifier: Apache-2.0
//
// One question (answer_read):
//
//     1. ask the heads and take the snapshot, tenant by tenant, until both fit together
//        (reconcile.c); meanwhile prefetch sections of blocks that the answer will probably need
//        (prefetch.c)
//     2. plan, and add what blocks contribute to the result (serve.c); if an object is gone, the
//        snapshot is old: again from 1
//     3. refuse the answer if something is missing and the asker does not take that
//     4. add the partial answers of the heads
//     5. if sums of stacks do not fit 64 bits: again from 1, for sums by service, of which some are
//        left out then (settle.c)
//
// Heads come last because their answers may change until the last round of step 1.
#include "querier/answer/answer.h"

#include "codec/pb.h"
#include "querier/answer/explain.h"
#include "querier/answer/prefetch.h"
#include "querier/answer/serve.h"
#include "querier/answer/settle.h"
#include "querier/answer/shown.h"
#include "querier/metrics.h"
#include "sys/clock.h"

#define QUESTION_MAX ((size_t)8 << 20)  // bytes of an encoded question; its parts came in a body

static void free_merged(void *arg)
{
    merged_release(arg);
}

// How often heads and snapshot are reconciled anew because objects went away in between. In the
// last round such objects are missing.
#define RECONCILES_MAX 4

static bool encode(struct answer *a, const struct query *q, str *message, err *e)
{
    struct buf out;
    buf_init(&out, a->querier->memory, QUESTION_MAX);
    query_encode(q, &out);
    bool ok = buf_ok(&out, e);
    if (ok) *message = arena_str(a->arena, buf_view(&out));
    buf_release(&out);
    return ok && arena_ok(a->arena, e);
}

static bool reconcile_tenants(struct answer *a, const struct query *q, str message,
                              struct reconciled *tenants, size_t n, err *e)
{
    str rest = a->x->req.tenant;
    for (size_t i = 0; i < n; i++) {
        str tenant = str_split(rest, '|', &rest);
        if (!reconcile(a, q, tenant, message, &tenants[i], e)) return false;
    }
    return true;
}

struct reconciled_list {
    struct reconciled *v;
    size_t n;
};

static void release_reconciled(void *arg)
{
    struct reconciled_list *list = arg;
    for (size_t i = 0; i < list->n; i++)
        reconciled_release(&list->v[i]);
}

// A prefetch for each tenant. NULL without memory, which the question itself will meet.
static struct prefetch **begin_prefetch(struct answer *a, const struct query *q, size_t n)
{
    str rest = a->x->req.tenant;
    struct prefetch **v = ARENA_ARRAY(a->arena, struct prefetch *, n);
    for (size_t i = 0; v && i < n; i++)
        v[i] = prefetch_begin(a, q, str_split(rest, '|', &rest));
    return v;
}

static void end_prefetch(struct prefetch **v, size_t n)
{
    for (size_t i = 0; v && i < n; i++)
        prefetch_end(v[i]);
}

// Steps 1 and 2: answers of heads come to a->fetched from row `from` on, sums of blocks to *m.
static bool collect(struct answer *a, const struct query *q, size_t from, struct merged *m, err *e)
{
    str message;
    struct reconciled_list *list = ARENA_NEW(a->arena, struct reconciled_list);
    size_t n = 1;
    for (size_t i = 0; i < a->x->req.tenant.n; i++)
        n += a->x->req.tenant.p[i] == '|';
    if (!list || !arena_defer(a->arena, release_reconciled, list)) return arena_fail(a->arena, e);
    list->v = ARENA_ARRAY(a->arena, struct reconciled, n);
    if (!list->v) return arena_fail(a->arena, e);
    if (!encode(a, q, &message, e)) return false;
    list->n = n;  // only now: release_reconciled goes through what is there
    size_t cuts = a->fetched.cut_count;
    bool stale = true;
    for (unsigned i = 1; stale && i <= RECONCILES_MAX; i++) {
        release_reconciled(list);
        a->fetched.partial_count = from;
        a->fetched.cut_count = cuts;
        // The prefetch ends even if reconciling failed: its job uses q and the request's arena.
        struct prefetch **prefetch = i == 1 ? begin_prefetch(a, q, n) : NULL;
        bool reconciled = reconcile_tenants(a, q, message, list->v, n, e);
        end_prefetch(prefetch, n);
        if (!reconciled) return false;
        if (fetch_refuses(&a->fetched, a->takes)) return true;
        const struct serving s = {a, q, list->v, n, i == RECONCILES_MAX};
        if (!serve(&s, m, &stale, e)) return false;
    }
    release_reconciled(list);
    return true;
}

// Steps 1 to 4, into a merged of its own.
static bool read_once(struct answer *a, const struct query *q, struct merged **out, err *e)
{
    struct merged *m = ARENA_NEW(a->arena, struct merged);
    if (!m || !arena_defer(a->arena, free_merged, m)) return arena_fail(a->arena, e);
    if (!merged_init(m, a->querier->memory, a->config->query_memory, q->tree.full_symbols, e)) {
        return false;
    }
    *out = m;
    if (q->nothing) return true;

    size_t from = a->fetched.partial_count;
    uint64_t bytes = a->fetched.bytes;
    if (!collect(a, q, from, m, e)) return false;
    metric_add(&querier_fetched_bytes, a->fetched.bytes - bytes);
    if (!fetch_verdict(a->arena, &a->fetched, a->takes, e)) return false;

    uint64_t began = clock_mono_ns();
    for (size_t i = from; i < a->fetched.partial_count; i++) {
        if (!req_alive(&a->x->req, e) || !merged_add(m, a->fetched.partials[i], e)) return false;
    }
    assert(a->fetched.partial_count >= from);
    if (!merged_finish(m, e)) return false;
    a->work.ns[WORK_MERGE] += clock_mono_ns() - began;
    return true;
}

// Whether sums by service are needed. A head that meets such sums answers with them unasked; what
// was missing when the question failed may be there when it is asked again.
static bool needs_services(const struct query *q, const struct merged *m, bool ok, bool *needs,
                           err *e)
{
    struct wide total = {0};
    bool fits = true;
    *needs = q->tree.wanted && !ok && e->code == ERR_OUT_OF_RANGE;
    if (!ok) return *needs;
    assert(m);
    *needs = q->tree.wanted && m->services.n > 0;
    if (!q->tree.wanted || *needs || q->nothing) return true;
    if (!merge_fits(&m->stacks, &fits, &total, e)) return false;
    *needs = !fits;
    return true;
}

static bool read_services(struct answer *a, const struct query *q, struct merged **out, err *e)
{
    struct query again = *q;
    again.tree.by_service = true;
    metric_add(&querier_wide_questions, 1);
    return read_once(a, &again, out, e) && settle_stacks(a, q, *out, e);
}

bool answer_read(struct answer *a, const struct query *q, struct merged **out, err *e)
{
    *out = NULL;
    assert(q->from_ns <= q->to_ns || q->nothing || q->tree.profile_count);
    assert(!q->tree.by_service);
    // Limits hold before any ingester is asked.
    const struct query_most most = {a->config->max_points, a->config->max_matchers,
                                    a->config->max_labels};
    if (!query_check(q, &most, e)) return false;
    a->asked = true;
    // A service that one question of a request leaves out, all leave out: answers are compared.
    bool needs = q->tree.wanted && a->left_out_count > 0 && !q->nothing;
    if (!needs) {
        err fault = {0};
        bool ok = read_once(a, q, out, &fault);
        if (!needs_services(q, *out, ok, &needs, &fault)) {
            *e = fault;
            return false;
        }
        if (needs && *out) merged_release(*out);  // its memory is needed anew
    }
    if (needs && !read_services(a, q, out, e)) return false;
    struct merged *m = *out;
    assert(m);
    if (q->nothing) return true;
    if (!settle_totals(a, m, e)) return false;
    // Services that are left out may be more than the asker takes.
    if (!fetch_verdict(a->arena, &a->fetched, a->takes, e)) return false;
    a->profiles += m->profiles;
    for (size_t i = 0; q->totals.wanted && i < m->totals.n; i++)
        a->profiles += m->totals.v[i].count;
    return true;
}

static void put_header(struct http_exchange *x, const char *name, str value)
{
    http_headers_add(&x->answer_headers, &x->req.arena, str_of(name), value);
}

// Seconds as text, rounded up to ms; without a fraction if it is 0.
static str seconds(struct arena *a, int64_t ns)
{
    int64_t ms = ns / NS_PER_MS + (ns % NS_PER_MS > 0);
    if (ms % 1000 == 0) return arena_printf(a, "%lld", (long long)(ms / 1000));
    return arena_printf(a, "%lld.%03lld", (long long)(ms / 1000), (long long)(ms % 1000));
}

// The worst that has to be said of the answer: something is missing, rows are gone, edges moved,
// frames are left out.
static str exactness(struct answer *a)
{
    const struct answer_work *w = &a->work;
    if (a->fetched.missing_count) {
        return arena_printf(a->arena, "partial=%.*s",
                            STR(fetch_missing_first(a->arena, &a->fetched)));
    }
    if (w->gone) {
        return arena_printf(a->arena, "partial=single profiles of %.*s to %.*s are no longer kept",
                            STR(explain_time(a->arena, w->gone_from_ns)),
                            STR(explain_time(a->arena, w->gone_to_ns)));
    }
    if (w->rounded_ns) {
        return arena_printf(a->arena, "rounded=%.*s", STR(seconds(a->arena, w->rounded_ns)));
    }
    return shown_whole(a) ? S("exact") : S("totals");
}

bool answer_asks_spread(const struct answer *a)
{
    return str_ieq(str_trim(http_headers_get(&a->x->headers, "flametree-spread")), S("duration"));
}

str answer_spread_text(const struct answer *a)
{
    if (!a->spread) return S("none");
    return a->work.sums ? S("partly") : S("duration");
}

static void put_headers(struct answer *a, uint64_t took_ns)
{
    struct http_exchange *x = a->x;
    if (!a->asked) return;
    put_header(x, "flametree-exact", exactness(a));
    if (a->fetched.missing_count) {
        put_header(x, "flametree-missing", fetch_missing(a->arena, &a->fetched));
        if (a->fetched.since_wall_ns)
            put_header(x, "flametree-missing-since",
                       explain_time(a->arena, a->fetched.since_wall_ns));
        metric_add(&querier_partial_answers, 1);
    }
    str frames = shown_frames_text(a);
    if (frames.n) put_header(x, "flametree-frames", frames);
    str cut = shown_cut_text(a);
    if (cut.n) put_header(x, "flametree-cut", cut);
    if (a->over_time) put_header(x, "flametree-spread", answer_spread_text(a));
    if (a->counts_profiles) {
        put_header(x, "flametree-profiles",
                   arena_printf(a->arena, "%llu", (unsigned long long)a->profiles));
        metric_add(&querier_merged_profiles, a->profiles);
    }
    put_header(x, "server-timing", explain_timing(a, took_ns));
    if (a->work.explain) put_header(x, "flametree-explain", explain_text(a, took_ns));
}

// Selectors look at the request between regular expressions, which may take long.
static bool alive(const void *req, err *e)
{
    return req_alive(req, e);
}

// The request says it, else the setting. Other words of a request say nothing.
static enum fetch_takes takes_of(const struct answer *a)
{
    str said = str_trim(http_headers_get(&a->x->headers, "flametree-partial"));
    if (str_ieq(said, S("allow"))) return FETCH_ANY;
    if (str_ieq(said, S("deny"))) return FETCH_EXACT;
    return strcmp(a->config->incomplete, "refuse") == 0 ? FETCH_EXACT : FETCH_MARKED;
}

bool answer_run(const struct querier_state *q, struct http_exchange *x, str method, answer_fn *fn,
                str in, struct buf *out, err *e)
{
    uint64_t begin = clock_mono_ns();
    struct answer a = {
        .querier = q,
        .x = x,
        .arena = &x->req.arena,
        .config = config_section(q->config, "querier"),
        .limits = tenant_limits(q->config, &x->req.arena, x->req.tenant),
        .now_wall_ns = clock_wall_ns(),
        .began_mono_ns = begin,
        .names_readable =
            str_ieq(str_trim(http_headers_get(&x->headers, "flametree-names")), S("readable")),
    };
    a.takes = takes_of(&a);
    a.selectors = (struct selector_most){.matchers = a.config->max_matchers,
                                         .regexes = a.config->max_regexes,
                                         .matchers_setting = "querier.max_matchers",
                                         .regexes_setting = "querier.max_regexes",
                                         .alive = alive,
                                         .arg = &x->req};
    struct buf explain;
    buf_init(&explain, q->memory, EXPLAIN_MAX);
    str wanted = http_headers_get(&x->headers, "flametree-explain");
    if (wanted.n && !str_is(wanted, "0")) a.work.explain = &explain;
    bool ok = fn(&a, in, out, e) && buf_ok(out, e);
    uint64_t took = clock_mono_ns() - begin;
    metric_add_to(&querier_queries, method, 1);
    metric_observe_ns_to(&querier_query_seconds, method, took);
    // Headers say how exact the answer is, so an answer without them is none: it fails.
    if (ok) {
        put_headers(&a, took);
        ok = arena_ok(a.arena, e);
    }
    buf_release(&explain);
    if (!ok) metric_add_to(&querier_query_failures, str_of(err_name(e->code)), 1);
    return ok;
}
