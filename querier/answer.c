// SPDX-License-Identifier: Apache-2.0
#include "querier/answer.h"

#include "codec/pb.h"
#include "querier/metrics.h"
#include "sys/clock.h"

#define QUESTION_MAX ((size_t)8 << 20)  // bytes of an encoded question; its parts came in a body

static void free_merged(void *arg)
{
    merged_release(arg);
}

// The arena refused: either it says so itself, or only the last small piece did not fit.
static bool no_memory(struct answer *a, err *e)
{
    if (!arena_ok(a->arena, e)) return false;
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for the request");
}

// How often a question is asked anew because an ingester restarted between its two rounds.
#define ROUNDS_MAX 3

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

// The question with the list of rows that several ingesters may have (model/loose.h).
static bool encode_again(struct answer *a, str message, size_t from, const struct loose_set *s,
                         str *out, err *e)
{
    struct buf b;
    size_t partials = a->fetched.partial_count - from;
    buf_init(&b, a->querier->memory, message.n + (size_t)s->n * LOOSE_KEY_BYTES + partials * 64);
    buf_str(&b, message);
    fetch_put_loose(&a->fetched, from, s, &b);
    bool ok = buf_ok(&b, e);
    if (ok) *out = arena_str(a->arena, buf_view(&b));
    buf_release(&b);
    return ok && arena_ok(a->arena, e);
}

// A partial answer must still be sent when an ingester hangs: so where one is allowed, ingesters
// have seven eighths of the time that is left.
static bool ask_heads(struct answer *a, str tenant, str message, err *e)
{
    struct req *r = &a->x->req;
    uint64_t deadline = r->deadline_mono_ns;
    uint64_t left = req_left_ns(r);
    if (a->may_be_partial && deadline) r->deadline_mono_ns = deadline - left / 8;
    struct head_replies replies = {0};
    bool ok = a->querier->ask(a->querier->transport, r, tenant, message, &replies, e);
    r->deadline_mono_ns = deadline;
    if (!ok || !fetch_choose(a->arena, &replies, &a->fetched, e)) return false;
    if (req_alive(r, e)) return true;
    if (a->fetched.missing_count == 0) return false;
    err ended = *e;
    return err_set(e, ended.code, "%s, waiting for: %.*s", ended.msg,
                   STR(fetch_missing(a->arena, &a->fetched)));
}

// Both rounds where there are loose rows. The first one's answers are replaced, what was missing in
// it stays missing. *settled is false if a keeper is another process by now.
static bool ask_once(struct answer *a, str tenant, str message, bool last, bool *settled, err *e)
{
    struct fetched *f = &a->fetched;
    size_t from = f->partial_count;
    *settled = true;
    if (!ask_heads(a, tenant, message, e)) return false;
    if (f->missing_count && !a->may_be_partial) return true;

    struct loose_set loose;
    size_t keepers = f->partial_count - from;
    id128 *streams = ARENA_ARRAY(a->arena, id128, keepers);
    if (!streams) return no_memory(a, e);
    loose_init(&loose, a->arena, a->querier->memory, (size_t)a->config->loose_max);
    bool ok = fetch_loose(f, from, &loose, e) || err_wrap(e, "querier.loose_max");
    bool again = ok && loose.n > 0;
    str question;
    if (again) {
        metric_add(&querier_loose_rows, loose.n);
        memcpy(streams, f->streams + from, keepers * sizeof *streams);
        ok = encode_again(a, message, from, &loose, &question, e);
        f->partial_count = from;
    }
    size_t missing = f->missing_count;
    ok = ok && (!again || ask_heads(a, tenant, question, e));
    for (size_t i = 0; ok && again && f->missing_count == missing && i < keepers; i++) {
        if (fetch_has_stream(f, from, streams[i])) continue;
        *settled = false;
        err why = {ERR_UNAVAILABLE, "its ingester started anew while it was asked"};
        if (last) ok = fetch_miss_stream(a->arena, f, streams[i], &why, e);
        if (!last) f->partial_count = from;
        break;
    }
    loose_release(&loose);
    return ok;
}

static bool ask_tenant(struct answer *a, str tenant, str message, err *e)
{
    bool settled = false;
    for (unsigned i = 1; i <= ROUNDS_MAX && !settled; i++) {
        if (!ask_once(a, tenant, message, i == ROUNDS_MAX, &settled, e)) return false;
    }
    return true;
}

bool answer_read(struct answer *a, const struct query *q, struct merged **out, err *e)
{
    struct merged *m = ARENA_NEW(a->arena, struct merged);
    if (!m || !arena_defer(a->arena, free_merged, m)) return no_memory(a, e);
    if (!merged_init(m, a->querier->memory, a->config->query_memory, q->tree.full_symbols, e)) {
        return false;
    }
    const struct query_most most = {a->config->max_points, a->config->max_matchers,
                                    a->config->max_labels};
    if (!query_check(q, &most, e)) return false;
    *out = m;
    a->asked = true;
    if (q->nothing) return true;

    str message;
    if (!encode(a, q, &message, e)) return false;
    size_t from = a->fetched.partial_count;
    uint64_t bytes = a->fetched.bytes;
    str rest = a->x->req.tenant;
    do {
        str tenant = str_split(rest, '|', &rest);
        if (!ask_tenant(a, tenant, message, e)) return false;
    } while (rest.p);
    metric_add(&querier_fetched_bytes, a->fetched.bytes - bytes);
    if (!fetch_verdict(a->arena, &a->fetched, a->may_be_partial, e)) return false;

    for (size_t i = from; i < a->fetched.partial_count; i++) {
        if (!req_alive(&a->x->req, e) || !merged_add(m, a->fetched.partials[i], e)) return false;
    }
    if (!merged_finish(m, e)) return false;
    a->profiles += m->profiles;
    for (size_t i = 0; q->totals.wanted && i < m->total_count; i++)
        a->profiles += m->totals[i].profiles;
    return true;
}

static void put_header(struct http_exchange *x, const char *name, str value)
{
    http_headers_add(&x->answer_headers, &x->req.arena, str_of(name), value);
}

static void put_headers(struct answer *a, uint64_t took_ns)
{
    struct http_exchange *x = a->x;
    if (!a->asked) return;
    if (a->fetched.missing_count == 0) {
        put_header(x, "flametree-exact", S("exact"));
    } else {
        str missing = fetch_missing(a->arena, &a->fetched);
        put_header(x, "flametree-exact",
                   arena_printf(a->arena, "partial=%.*s did not answer", STR(missing)));
        put_header(x, "flametree-missing", missing);
        metric_add(&querier_partial_answers, 1);
    }
    if (a->counts_profiles) {
        put_header(x, "flametree-profiles",
                   arena_printf(a->arena, "%llu", (unsigned long long)a->profiles));
        metric_add(&querier_merged_profiles, a->profiles);
    }
    put_header(x, "server-timing", arena_printf(a->arena, "query;dur=%.1f", (double)took_ns / 1e6));
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
        .may_be_partial =
            str_ieq(str_trim(http_headers_get(&x->headers, "flametree-partial")), S("allow")),
    };
    bool ok = fn(&a, in, out, e) && buf_ok(out, e);
    uint64_t took = clock_mono_ns() - begin;
    metric_add_to(&querier_queries, method, 1);
    metric_observe_ns_to(&querier_query_seconds, method, took);
    if (ok) {
        put_headers(&a, took);
        ok = arena_ok(a.arena, e);
    }
    if (!ok) metric_add_to(&querier_query_failures, str_of(err_name(e->code)), 1);
    return ok;
}
