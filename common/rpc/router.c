// SPDX-License-Identifier: Apache-2.0
//
// router.c - finds the row of a request, and passes the request to the code of its protocol.
//
//     on_head     loop     headers, row, guard, protocol, tenant; or the answer at once
//     on_run      worker   connect.c, grpc.c or plain.c calls the handler of the row
//     on_refuse   either   an error of net (memory, lane, body), in the form of the protocol
//
// Rows are searched from first to last: there are about a hundred.
#include "base/ulid.h"
#include "codec/url.h"
#include "loop/loop.h"
#include "rpc/auth.h"
#include "rpc/metrics.h"
#include "rpc/rpc_int.h"
#include "sys/clock.h"

struct router *router_new(const struct router_options *o)
{
    struct router *r = mem_must(sizeof *r);
    r->options = *o;
    return r;
}

void router_free(struct router *r)
{
    if (!r) return;
    mem_must_free(r->rows);
    mem_must_free(r);
}

static void add(struct router *r, struct row row)
{
    assert(str_starts(row.path, S("/")));  // else no request has it
    assert(!row.rpc != !row.http);
    if (r->count == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        struct row *more = mem_must(cap * sizeof row);
        if (r->count) memcpy(more, r->rows, r->count * sizeof row);
        mem_must_free(r->rows);
        r->rows = more;
        r->cap = cap;
    }
    r->rows[r->count++] = row;
}

void router_add_rpc(struct router *r, const struct rpc_method *rows, size_t n, void *service,
                    struct lane *const lanes[RANK_COUNT])
{
    for (size_t i = 0; i < n; i++) {
        assert(rows[i].auth != ROUTE_UNMARKED);
        assert(rows[i].run && rows[i].rank < RANK_COUNT);
        add(r, (struct row){.path = str_of(rows[i].path),
                            .rpc = &rows[i],
                            .service = service,
                            .lane = lanes[rows[i].rank]});
    }
}

void router_add_http(struct router *r, const struct http_route *rows, size_t n, void *service,
                     struct lane *const lanes[RANK_COUNT])
{
    for (size_t i = 0; i < n; i++) {
        assert(rows[i].auth != ROUTE_UNMARKED);
        assert(rows[i].run && rows[i].verbs && rows[i].rank < RANK_COUNT);
        assert(!rows[i].vital || !rows[i].prefix);  // on_vital compares whole paths
        add(r, (struct row){.path = str_of(rows[i].path),
                            .prefix = rows[i].prefix,
                            .http = &rows[i],
                            .service = service,
                            .lane = lanes[rows[i].rank]});
    }
}

// ---- which row?

static bool has_verb(const char *verbs, str verb)
{
    str rest = str_of(verbs);
    while (rest.n > 0) {
        if (str_eq(str_split(rest, ',', &rest), verb)) return true;
    }
    return false;
}

static bool is_grpc(const struct http_exchange *x)
{
    return str_starts(http_headers_get(&x->headers, "content-type"), S("application/grpc"));
}

// How well a row fits: SIZE_MAX exactly, by a prefix the more the longer it is, 0 not at all.
static size_t fit(const struct row *row, str path)
{
    if (str_eq(row->path, path)) return SIZE_MAX;
    return row->prefix && str_starts(path, row->path) ? row->path.n + 1 : 0;
}

bool router_has(const struct router *r, str path)
{
    for (size_t i = 0; i < r->count; i++) {
        if (fit(&r->rows[i], path) > 0) return true;
    }
    return false;
}

// The row for path and verb. *path_known: the path has rows, but none for this verb.
static const struct row *find_row(const struct router *r, const struct http_exchange *x, str path,
                                  bool *path_known)
{
    const struct row *rpc = NULL;
    const struct row *plain = NULL;
    size_t best = 0;
    // An RPC row and plain rows may have one path: content type and verb decide.
    for (size_t i = 0; i < r->count; i++) {
        const struct row *row = &r->rows[i];
        size_t fits = fit(row, path);
        if (fits == 0 || fits < best) continue;
        if (row->rpc) {  // fits exactly, as RPC rows have no prefix; does not hide plain rows
            rpc = row;
            continue;
        }
        if (fits > best) plain = NULL;
        best = fits;
        if (has_verb(row->http->verbs, x->method)) plain = row;
    }
    if (rpc && (best < SIZE_MAX || is_grpc(x))) return rpc;
    *path_known = best > 0;
    return plain;
}

static enum route_auth auth_of(const struct row *row)
{
    return row->rpc ? row->rpc->auth : row->http->auth;
}

void router_print(const struct router *r, struct buf *out)
{
    static const char *const whose[] = {
        [ROUTE_OPEN] = "nobody",          [ROUTE_ADMIN] = "all-tenants",
        [ROUTE_TENANT_READ] = "tenant",   [ROUTE_TENANT_WRITE] = "tenant",
        [ROUTE_INTERNAL] = "all-tenants", [ROUTE_NODE] = "all-tenants"};
    for (size_t i = 0; i < r->count; i++) {
        const struct row *row = &r->rows[i];
        buf_printf(out, "%s %.*s%s %s\n", row->rpc ? "POST" : row->http->verbs, STR(row->path),
                   row->prefix ? "*" : "", whose[auth_of(row)]);
    }
}

// ---- errors

void handler_begins(struct http_exchange *x)
{
    struct rpc_call *c = x->route;
    assert(c && !c->begun);  // a handler that runs twice would store a push twice
    c->begun = true;
}

static void tell_service(const struct http_exchange *x, const err *e)
{
    const struct rpc_call *c = x->route;
    if (!c || c->begun) return;
    refused_fn *refused = c->row->rpc ? c->row->rpc->refused : c->row->http->refused;
    if (refused) refused(c->row->service, x, e);
}

// All errors of requests end here: they are counted, and logged as a warning if they are ours.
bool handler_failed(err *e)
{
    if (e->code != ERR_OK) return false;
    return err_set(e, ERR_INTERNAL, "the request failed, and no reason was given");
}

void error_note(const struct http_exchange *x, const err *e)
{
    assert(e->code != ERR_OK);  // ERR_OK would be answered with 200
    metric_add_to(&rpc_errors, str_of(err_name(e->code)), 1);
    char text[LOG_QUOTE_MAX];
    char path[LOG_QUOTE_MAX];
    if (err_http_status(e->code) < 500 || e->code == ERR_UNIMPLEMENTED) {
        tell_service(x, e);
        log_debug(&x->req.log, "request.refused", "path=%s code=%s why=%s",
                  log_quote(path, x->path), err_name(e->code), log_quote(text, str_of(e->msg)));
    } else {
        log_warn(&x->req.log, "request.failed", "path=%s code=%s why=%s", log_quote(path, x->path),
                 err_name(e->code), log_quote(text, str_of(e->msg)));
    }
}

static void answer_error(struct http_exchange *x, const err *e)
{
    const struct rpc_call *c = x->route;
    if (!c || c->protocol == PLAIN) return plain_error(x, e);
    if (c->protocol == CONNECT) return connect_error(x, e);
    grpc_error(x, c, e);
}

static enum head_verdict bare(struct http_exchange *x, unsigned status, const char *name,
                              const char *value)
{
    x->status = status;
    if (name) route_header(x, name, str_of(value));
    return HEAD_ANSWERED;
}

// ---- the three calls of a server

// Some headers may be there only once. If there are two, a proxy before us that checks tenants may
// have read the other one.
static bool has_each_once(const struct http_exchange *x, err *e)
{
    static const str single[] = {
        S_INIT("x-scope-orgid"),      S_INIT("authorization"),    S_INIT("origin"),
        S_INIT("sec-fetch-site"),     S_INIT("content-type"),     S_INIT("grpc-timeout"),
        S_INIT("connect-timeout-ms"), S_INIT("flametree-cluster")};
    for (size_t k = 0; k < COUNT(single); k++) {
        size_t count = 0;
        for (size_t i = 0; i < x->headers.n; i++)
            count += str_eq(x->headers.v[i].name, single[k]);
        if (count > 1)
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "header %.*s is there %zu times, it may be once", STR(single[k]), count);
    }
    return true;
}

// May this client use this row at all?
static bool is_welcome(const struct http_exchange *x, struct rpc_call *c, enum route_auth auth,
                       err *e)
{
    const struct guard *g = c->router->options.guard;
    if (!has_each_once(x, e)) return false;
    if (!g || !route_is_guarded(auth) || guard_check(g, x, e)) return true;
    c->begun = true;  // the service must not count a foreign page as one of its clients
    return false;
}

static bool tenant(struct http_exchange *x, const struct router *r, enum route_auth auth, err *e)
{
    str header = http_headers_get(&x->headers, "x-scope-orgid");
    struct req *q = &x->req;
    if (!auth_tenant(&q->arena, header, auth, r->options.multitenancy, &q->tenant, e)) return false;
    // From here on each line of this request names it.
    q->log.tenant = q->tenant;
    str id = http_headers_get(&x->headers, "x-request-id");
    id128 ulid;
    err ignored = {0};
    // Only nodes may choose the id: a client could make many requests look like one in the log.
    bool of_node = auth == ROUTE_INTERNAL || auth == ROUTE_NODE;
    if (of_node && ulid_parse(id, &ulid, &ignored)) ulid_print(ulid, q->request_id);
    return true;
}

static bool admitted(const struct http_exchange *x, const struct rpc_call *c, err *e)
{
    const struct router_options *o = &c->router->options;
    return c->row->rpc->auth != ROUTE_INTERNAL || !o->admit || o->admit(o->arg, &x->headers, e);
}

static enum head_verdict rpc_head(struct http_exchange *x, struct rpc_call *c)
{
    const struct rpc_method *m = c->row->rpc;
    if (!str_is(x->method, "POST")) return bare(x, 405, "allow", "POST");
    c->type = content_type_find(&x->req.arena, http_headers_get(&x->headers, "content-type"));
    err e = {0};
    if (!c->type) {
        (void)!tenant(x, c->router, m->auth, &e);  // so that the service can count it by tenant
        err_set(&e, ERR_INVALID_ARGUMENT, "content type '%.*s' is none of %s",
                STR(http_headers_get(&x->headers, "content-type")), content_type_list);
        tell_service(x, &e);
        return bare(x, 415, "accept-post", content_type_list);
    }
    if (c->type->protocol == GRPC && x->version < 11) return bare(x, 505, NULL, NULL);
    assert(!c->begun);
    c->protocol = c->type->protocol;
    x->req.rank = m->rank;
    bool ok = is_welcome(x, c, m->auth, &e);
    if (ok) ok = c->protocol == CONNECT ? connect_head(x, c, &e) : grpc_head(x, c, &e);
    err ignored = {0};
    if (!ok) (void)!tenant(x, c->router, m->auth, &ignored);  // likewise
    if (ok && admitted(x, c, &e) && tenant(x, c->router, m->auth, &e)) return HEAD_READ_BODY;
    answer_error(x, &e);
    return HEAD_ANSWERED;
}

static enum head_verdict http_head(struct http_exchange *x, struct rpc_call *c)
{
    const struct http_route *route = c->row->http;
    x->req.rank = route->rank;
    plain_head(x, c);
    err e = {0};
    if (is_welcome(x, c, route->auth, &e) && tenant(x, c->router, route->auth, &e))
        return HEAD_READ_BODY;
    answer_error(x, &e);
    return HEAD_ANSWERED;
}

static enum head_verdict route(const struct router *r, struct http_exchange *x)
{
    struct arena *a = &x->req.arena;
    x->body_max = r->options.body_max;
    err e = {0};
    if (!accept_check(x, a, NULL, &e)) {
        route_text(x, 400, arena_printf(a, "Invalid header format: %s\n", e.msg));
        return HEAD_ANSWERED;
    }
    bool path_known = false;
    const struct row *row = find_row(r, x, url_decode(a, x->path, false), &path_known);
    if (!row && path_known) return bare(x, 405, NULL, NULL);
    if (!row) {
        route_text(x, 404, S("404 page not found\n"));
        return HEAD_ANSWERED;
    }
    if (auth_of(row) == ROUTE_ADMIN && r->options.admin_elsewhere) {
        route_text(x, 404,
                   arena_printf(a,
                                "%.*s tells about all tenants: the listener of admin.listen has "
                                "it\n",
                                STR(row->path)));
        return HEAD_ANSWERED;
    }
    struct rpc_call *c = ARENA_NEW(a, struct rpc_call);
    if (!c) return HEAD_ANSWERED;
    bool large = row->rpc ? row->rpc->large_body : row->http->large_body;
    x->lane = row->lane;
    x->answers_little = auth_of(row) != ROUTE_TENANT_READ;
    // In the request's arena, so that it lives as long as the exchange.
    *c = (struct rpc_call){.router = r, .row = row, .message_max = x->body_max};
    x->route = c;
    enum head_verdict verdict = row->rpc ? rpc_head(x, c) : http_head(x, c);
    // Pushes count against a budget that leaves room to others. The body limit depends on the
    // tenant, which is known only now.
    if (large && r->options.large_memory) arena_move(a, r->options.large_memory);
    if (large && r->options.large_body_max && verdict == HEAD_READ_BODY)
        c->message_max = x->body_max = r->options.large_body_max(r->options.arg, a, x->req.tenant);
    return verdict;
}

// An answer that was made with an exhausted arena may lack headers, so it is not given. net refuses
// a request whose arena is exhausted, with other memory.
static enum head_verdict on_head(void *self, struct http_exchange *x)
{
    enum head_verdict verdict = route(self, x);
    return x->req.arena.exhausted ? HEAD_READ_BODY : verdict;
}

static void on_run(void *self, struct http_exchange *x)
{
    const struct router *r = self;
    const struct rpc_call *c = x->route;
    if (!c) {
        x->out.failed = true;  // on_head had no memory for the call: net refuses the request
        return;
    }
    uint64_t began = clock_mono_ns();
    assert(!c->begun && c->router == r);
    assert(!x->lane || !loop_is_any_here());  // it may block
    buf_release(&x->out);
    buf_init(&x->out, r->options.memory, r->options.answer_max);
    err e = {0};
    if (c->protocol == PLAIN) {
        plain_run(x, c);
    } else {
        bool ok = c->protocol == CONNECT ? connect_run(x, c, &e) : grpc_run(x, c, &e);
        if (!ok) answer_error(x, &e);
    }
    if (x->req.arena.exhausted) x->out.failed = true;  // as in on_head
    metric_observe_ns_to(&rpc_request_seconds, c->row->path, clock_mono_ns() - began);
}

// Writes the answer to a request that net refuses. x->status holds the HTTP status that fits.
static void on_refuse(void *self, struct http_exchange *x, const err *e)
{
    (void)self;
    const struct rpc_call *c = x->route;
    unsigned status = x->status;
    if (c && c->protocol != PLAIN) {
        err fault = *e;
        uint64_t size = 0;
        bool known = str_u64(http_headers_get(&x->headers, "content-length"), &size);
        if (status == 413 && known) message_too_large(x, c, (size_t)size, &fault);
        return answer_error(x, &fault);
    }
    if (status == 413) {
        const char *msg = NULL;
        if (c && c->row->http->too_large) msg = c->row->http->too_large(c->row->service, x);
        return plain_too_large(x, msg ? msg : e->msg);
    }
    error_note(x, e);
    route_error(x, status ? status : err_http_status(e->code), e->code, e->msg);
}

static bool on_vital(void *self, const struct http_exchange *x)
{
    const struct router *r = self;
    // Before a row was looked for, so by path and verb alone.
    for (size_t i = 0; i < r->count; i++) {
        const struct row *row = &r->rows[i];
        if (row->http && row->http->vital && str_eq(row->path, x->path) &&
            has_verb(row->http->verbs, x->method))
            return true;
    }
    return false;
}

struct server_app router_app(struct router *r)
{
    return (struct server_app){
        .self = r, .head = on_head, .run = on_run, .refuse = on_refuse, .vital = on_vital};
}
