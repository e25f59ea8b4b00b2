// SPDX-License-Identifier: Apache-2.0
//
// held.c - counts the bytes of answers that clients have not read yet against the three limits.
#include "net/held.h"

#include "net/exchange.h"
#include "sys/clock.h"

// Parts of the reserve: one n-th for a connection, one n-th for all that is not little.
#define VITAL_CONNECTION 16
#define VITAL_ALL        2

#define PRESSED_NS ((uint64_t)(10 * NS_PER_S))  // memory counts as used up so long after a refusal

struct reader *reader_new(void)
{
    err e = {0};
    struct reader *r = mem_alloc(NULL, sizeof *r, &e);
    if (r) atomic_store(&r->refs, 1);
    return r;
}

struct reader *reader_share(struct reader *r)
{
    unsigned before = atomic_fetch_add(&r->refs, 1);
    assert(before > 0);
    (void)before;
    return r;
}

void reader_drop(struct reader *r)
{
    if (r && atomic_fetch_sub(&r->refs, 1) == 1) mem_free(NULL, r, sizeof *r);
}

static _Atomic size_t *of_tenant(const struct exchange *ex)
{
    struct held *h = &ex->server->held;
    str tenant = ex->x.req.tenant;
    // By a secret key: a client that chooses names must not choose its neighbours.
    return &h->tenants[hash_keyed(&h->key, tenant.p, tenant.n) % HELD_TENANTS];
}

// Not counted: listeners without a budget of answers (other nodes read at once), and calls from
// within the process (no reader). Vital requests are counted apart.
static bool is_counted(const struct exchange *ex)
{
    return ex->server->options.answers && ex->reader && !ex->vital;
}

static bool is_vital_counted(const struct exchange *ex)
{
    return ex->vital && ex->reader && ex->server->options.reserve;
}

static _Atomic uint64_t *refused_ns(struct server *s, bool vital)
{
    return vital ? &s->held.vital_refused_ns : &s->held.refused_ns;
}

static bool fail(struct exchange *ex, const char *who, size_t held, const char *setting,
                 size_t limit, err *e)
{
    atomic_store_explicit(refused_ns(ex->server, ex->vital), clock_mono_ns(), memory_order_relaxed);
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "%s %zu bytes of answers that are not read yet, limit %zu (%s)", who, held,
                   limit, setting);
}

// Within a sixteenth of the limit. A worker's answer would probably not fit any more, and its work
// would be thrown away.
static bool over(size_t held, size_t limit)
{
    return limit > 0 && held >= limit - limit / 16;
}

static size_t reserve_of(const struct exchange *ex)
{
    return atomic_load(&ex->server->options.reserve->limit);
}

static bool vital_may_begin(struct exchange *ex, err *e)
{
    assert(ex->vital);
    size_t limit = reserve_of(ex) / VITAL_CONNECTION;
    size_t mine = atomic_load(&ex->reader->vital);
    return !over(mine, limit) ||
           fail(ex, "this connection has", mine, "part of the reserve", limit, e);
}

bool held_may_begin(const struct exchange *ex, err *e)
{
    if (is_vital_counted(ex)) return vital_may_begin(conn_unconst(ex), e);
    if (!is_counted(ex) || ex->x.answers_little) return true;
    const struct server_options *o = &ex->server->options;
    size_t mine = atomic_load(&ex->reader->held);
    size_t ours = atomic_load(of_tenant(ex));
    size_t all = atomic_load(&o->answers->used);
    size_t limit = atomic_load(&o->answers->limit);
    struct exchange *x = conn_unconst(ex);  // fail notes the time of the refusal in the server
    if (over(mine, o->answers_connection))
        return fail(x, "this connection has", mine, "server.answers_connection",
                    o->answers_connection, e);
    if (over(ours, o->answers_tenant))
        return fail(x, "this tenant has", ours, "server.answers_tenant", o->answers_tenant, e);
    return !over(all, limit) || fail(x, "all clients have", all, "server.answers_memory", limit, e);
}

// Adds n if the sum stays within the share, or if almost nothing was unread before: so a client
// that reads one answer after the other gets even an answer larger than the share.
static bool take(_Atomic size_t *count, size_t n, size_t limit, size_t *before)
{
    // Added first and subtracted if it was too much: two workers that come at once must not both
    // fit.
    *before = atomic_fetch_add(count, n);
    if (limit == 0 || n <= HELD_SMALL || *before <= HELD_SMALL || *before + n <= limit) return true;
    atomic_fetch_sub(count, n);
    return false;
}

// Counts the answer's bytes against the budget of answers instead of the request's. The bytes are
// allocated already, so a small answer that finds no room there stays counted where it was.
static bool move(struct exchange *ex, err *e)
{
    struct buf *out = &ex->x.out;
    struct mem_budget *before = out->budget;
    struct mem_budget *answers = ex->server->options.answers;
    if (out->room == 0) return true;
    // Given back first: both budgets may be children of one that has room for the bytes only once.
    mem_unreserve(before, out->room);
    out->budget = NULL;
    if (mem_reserve(answers, out->room, e)) {
        out->budget = answers;
        return true;
    }
    if (out->room > HELD_SMALL || !mem_reserve(before, out->room, e)) {
        size_t limit = atomic_load(&answers->limit);
        return fail(ex, "all clients have", atomic_load(&answers->used), "server.answers_memory",
                    limit, e);
    }
    out->budget = before;
    return true;
}

static void copy_headers(struct http_headers *h, struct arena *a)
{
    struct http_headers from = *h;
    *h = (struct http_headers){0};
    for (size_t i = 0; i < from.n; i++)
        http_headers_add(h, a, arena_str(a, from.v[i].name), arena_str(a, from.v[i].value));
}

// Frees all memory of the request except the answer. The answer's headers lie in the request's
// arena, so they are copied to a small one of `budget` first; if there is no room for the copy, the
// arena stays.
static void slim(struct exchange *ex, struct mem_budget *budget)
{
    struct http_exchange *x = &ex->x;
    assert(!x->fixed.n);
    const struct server_options *o = &ex->server->options;
    struct arena small;
    err e = {0};
    struct http_headers headers = x->answer_headers;
    struct http_headers trailers = x->trailers;
    // slim forgets the method, and the loop needs to know whether a body is sent.
    ex->no_body = str_is(x->method, "HEAD");
    arena_init(&small, budget, o->head_max + HELD_SMALL);
    copy_headers(&x->answer_headers, &small);
    copy_headers(&x->trailers, &small);
    if (!arena_ok(&small, &e)) {
        arena_release(&small);
        x->answer_headers = headers;
        x->trailers = trailers;
        return;
    }
    arena_release(&x->req.arena);
    x->req.arena = small;
    x->method = x->path = x->prefix = x->query = x->authority = x->peer = (str){0};
    x->req.tenant = x->req.log.tenant = (str){0};
    x->headers = (struct http_headers){0};
    x->route = NULL;
    buf_release(&x->body);
}

// The answer counts against the reserve already, as all of a vital request does.
static bool vital_begin(struct exchange *ex, err *e)
{
    struct mem_budget *reserve = ex->server->options.reserve;
    size_t limit = reserve_of(ex);
    size_t all = atomic_load(&reserve->used);
    const struct http_exchange *x = &ex->x;
    size_t n = x->fixed.n ? x->fixed.n : x->out.room;
    size_t before = 0;
    if (n > HELD_LITTLE && all > limit / VITAL_ALL)
        return fail(ex, "all clients have", all, "part of the reserve", limit / VITAL_ALL, e);
    if (!take(&ex->reader->vital, n, limit / VITAL_CONNECTION, &before))
        return fail(ex, "this connection has", before, "part of the reserve",
                    limit / VITAL_CONNECTION, e);
    assert(ex->held == 0);
    ex->held = n;
    ex->held_by = &ex->reader->vital;
    if (!x->fixed.n) slim(ex, reserve);
    return true;
}

bool held_begin(struct exchange *ex, err *e)
{
    const struct server_options *o = &ex->server->options;
    struct http_exchange *x = &ex->x;
    if (is_vital_counted(ex)) return vital_begin(ex, e);
    if (!is_counted(ex)) return true;
    // Allocated bytes count, not filled ones: others lack all memory that this answer has.
    size_t n = x->fixed.n ? x->fixed.n : x->out.room;
    _Atomic size_t *tenant = of_tenant(ex);
    size_t before = 0;
    if (!take(&ex->reader->held, n, o->answers_connection, &before))
        return fail(ex, "this connection has", before, "server.answers_connection",
                    o->answers_connection, e);
    if (!take(tenant, n, o->answers_tenant, &before)) {
        atomic_fetch_sub(&ex->reader->held, n);
        return fail(ex, "this tenant has", before, "server.answers_tenant", o->answers_tenant, e);
    }
    if (!x->fixed.n && !move(ex, e)) {
        atomic_fetch_sub(&ex->reader->held, n);
        atomic_fetch_sub(tenant, n);
        return false;
    }
    assert(ex->held == 0);
    ex->held = n;
    ex->held_by = &ex->reader->held;
    ex->held_of = tenant;
    if (!x->fixed.n) slim(ex, o->answers);
    return true;
}

void held_sent(struct exchange *ex)
{
    if (ex->held == 0) return;
    size_t mine = atomic_fetch_sub(ex->held_by, ex->held);
    size_t ours = ex->held_of ? atomic_fetch_sub(ex->held_of, ex->held) : mine;
    assert(mine >= ex->held && ours >= ex->held);
    // Zero marks it as given back: held_end comes later for the same exchange.
    ex->held = 0;
}

void held_end(struct exchange *ex)
{
    held_sent(ex);
    reader_drop(ex->reader);
}

void held_send(struct exchange *ex)
{
    assert(ex->conn);
    ex->sent_ns = ex->conn->shard->now_ns;
    // All that the connection has not read: HTTP/2 sends its answers side by side, so each of them
    // takes as long as all of them together.
    ex->owed = ex->reader ? MAX(atomic_load(&ex->reader->held), ex->held) : 0;
}

static bool is_pressed(const struct exchange *ex)
{
    uint64_t at = atomic_load_explicit(refused_ns(ex->server, ex->vital), memory_order_relaxed);
    return at > 0 && clock_mono_ns() - at < PRESSED_NS;
}

bool held_too_long(const struct exchange *ex)
{
    const struct server_options *o = &ex->server->options;
    if (o->answer_timeout_ns == 0 || exchange_answer(ex).n <= HELD_SMALL) return false;
    assert(ex->conn);
    uint64_t limit = o->answer_timeout_ns;
    if (is_pressed(ex)) limit = MIN(limit, o->write_timeout_ns);
    limit += (uint64_t)ex->owed * (uint64_t)NS_PER_S / MAX(o->answer_rate, (size_t)1);
    return ex->conn->shard->now_ns > ex->sent_ns + limit;
}
