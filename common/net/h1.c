// SPDX-License-Identifier: Apache-2.0
//
// h1.c - HTTP/1.1 on a connection: requests one after the other, answers in their order.
//
//     1. collect_head finds the end of a head, on_head parses it and asks the application
//     2. read_body or read_chunks collects the body
//     3. body_is_whole submits the request; the phase is WAIT until the answer is there
//     4. h1_answer writes the answer: a small one is copied, a large one lent (WRITE)
//     5. next_request begins again, after the rest of an unread body (DISCARD)
//
// A request that is refused goes from any step to 4; bytes that are no request get refuse_plainly.
// Clients may pipeline: bytes of the next requests that come during 2 to 5 stay in c->in (and,
// beyond one chunk, in the socket) until their turn.
#include "net/exchange.h"
#include "net/metrics.h"

#define COPY_MAX ((size_t)16 << 10)  // answers up to this are copied; larger ones are lent

// Up to so many bytes of a body that was refused are read and dropped, to keep the connection. A
// new connection is cheaper than more.
#define DISCARD_MAX  ((uint64_t)64 << 10)
#define CONTINUE_100 "HTTP/1.1 100 Continue\r\n\r\n"

#define BIT(phase) (1u << (H1_##phase))

// The phases that may follow an answer. A refusal may answer a request whose body is still being
// read, so BODY and CHUNKS lead there as well.
#define AFTER (BIT(HEAD) | BIT(DISCARD) | BIT(WAIT))

static const unsigned successors[H1_PHASES] = {
    [H1_HEAD] = BIT(WAIT),
    [H1_BODY] = BIT(WRITE) | AFTER,
    [H1_CHUNKS] = BIT(WRITE) | AFTER,
    [H1_WAIT] = BIT(BODY) | BIT(CHUNKS) | BIT(WRITE) | AFTER,
    [H1_WRITE] = AFTER,
    [H1_DISCARD] = BIT(HEAD),
};

static void enter(struct h1 *h, enum h1_phase to)
{
    assert(h->phase < H1_PHASES && (successors[h->phase] & 1u << to));
    h->phase = to;
}

static void h1_open(struct conn *c)
{
    c->h1 = (struct h1){.keep_alive = true};
    c->mark_ns = c->shard->now_ns;
}

// Answers without the application, because the bytes are no request. The connection ends: where the
// next request begins is unknown.
static void refuse_plainly(struct conn *c, unsigned status, const err *e, const char *reason)
{
    metric_add_to(&net_refused, str_of(reason), 1);
    char text[2048];
    struct buf b;
    buf_init(&b, NULL, sizeof text);
    buf_printf(&b,
               "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
               "Content-Length: %zu\r\nConnection: close\r\n",
               status, h1_reason(status), strlen(e->msg) + 1);
    if (status == 429) buf_z(&b, "Retry-After: 1\r\n");
    buf_z(&b, "\r\n");
    buf_z(&b, e->msg);
    buf_byte(&b, '\n');
    conn_put(c, b.p, b.n);
    buf_release(&b);
    conn_finish(c);
}

// ---- answers

// The answer's head without the empty line at its end.
static void render_head(const struct exchange *ex, size_t body_bytes, struct buf *b)
{
    const struct http_exchange *x = &ex->x;
    buf_z(b, "HTTP/1.1 ");
    buf_u64(b, x->status);
    buf_byte(b, ' ');
    buf_z(b, h1_reason(x->status));
    buf_z(b, "\r\n");
    for (size_t i = 0; i < x->answer_headers.n; i++) {
        const struct http_header *h = &x->answer_headers.v[i];
        // A value with a line end in it could forge a second answer.
        if (!http_may_answer(h)) continue;
        buf_str(b, h->name);
        buf_z(b, ": ");
        buf_str(b, h->value);
        buf_z(b, "\r\n");
    }
    if (x->trailers.n) {
        buf_z(b, "transfer-encoding: chunked\r\n");
    } else if (x->status != 204 && x->status != 304) {
        buf_z(b, "content-length: ");
        buf_u64(b, body_bytes);
        buf_z(b, "\r\n");
    }
}

static void put_head(struct conn *c, const struct exchange *ex, size_t body_bytes)
{
    struct buf *b = &c->out;
    render_head(ex, body_bytes, b);
    if (!c->h1.keep_alive)
        buf_z(b, "connection: close\r\n");
    else if (c->h1.http10)
        buf_z(b, "connection: keep-alive\r\n");
    conn_put(c, "\r\n", 2);
}

// An answer with trailers, which only gRPC has, is one chunk with the body, and the empty one that
// trailers follow.
static void put_chunk(struct conn *c, const struct exchange *ex, size_t body_bytes)
{
    if (ex->x.trailers.n == 0 || body_bytes == 0) return;
    buf_printf(&c->out, "%zx\r\n", body_bytes);
}

static void put_tail(struct conn *c, const struct exchange *ex, size_t body_bytes)
{
    struct buf *b = &c->out;
    const struct http_headers *t = &ex->x.trailers;
    if (t->n == 0) return;
    buf_z(b, body_bytes ? "\r\n0\r\n" : "0\r\n");
    for (size_t i = 0; i < t->n; i++) {
        if (!http_may_answer(&t->v[i])) continue;
        buf_str(b, t->v[i].name);
        buf_z(b, ": ");
        buf_str(b, t->v[i].value);
        buf_z(b, "\r\n");
    }
    conn_put(c, "\r\n", 2);
}

// Decides about a body that was answered before it was read: a small rest is dropped, a larger one
// ends the connection. So does a rest whose size is unknown, and one that the client may not send
// at all, because it waits for 100 Continue.
static void decide_rest(struct conn *c)
{
    struct h1 *h = &c->h1;
    if (h->body_whole) return;
    bool small = !h->chunked && h->left <= DISCARD_MAX && !h->expects_continue;
    if (!small) h->keep_alive = false;
}

static void next_request(struct conn *c)
{
    struct h1 *h = &c->h1;
    assert(h->exchange);
    bool rest = !h->body_whole;
    assert(h->exchange && c->lent.n == 0);
    h->served++;
    h->exchange = NULL;
    c->mark_ns = c->shard->now_ns;
    if (!h->keep_alive) {
        enter(h, H1_WAIT);
        conn_finish(c);
        return;
    }
    enter(h, rest ? H1_DISCARD : H1_HEAD);
    h->scan = (struct h1_scan){0};
}

// No request follows: the server drains, or the client has sent FIN and all its bytes are used.
static bool is_last(const struct conn *c)
{
    return conn_is_draining(c) || (c->input == CONN_INPUT_OVER && c->in.n == 0);
}

static void h1_answer(struct conn *c, struct exchange *ex)
{
    struct h1 *h = &c->h1;
    assert(h->exchange == ex && h->phase != H1_WRITE);
    if (is_last(c)) h->keep_alive = false;
    // Before the head is written: it tells the client whether the connection stays.
    decide_rest(c);
    str body = exchange_answer(ex);
    put_head(c, ex, body.n);
    if (ex->body_only_head) body.n = 0;
    put_chunk(c, ex, body.n);
    if (body.n > COPY_MAX) {
        enter(h, H1_WRITE);
        // Borrowed until h1_more, which ends the exchange.
        conn_lend(c, body);
        return;
    }
    if (body.n) conn_put(c, body.p, body.n);
    put_tail(c, ex, body.n);
    exchange_end(ex);
    next_request(c);
}

// ---- answers that workers send

static bool h1_offers(const struct conn *c, const struct exchange *ex)
{
    const struct h1 *h = &c->h1;
    bool plain = c->fd >= 0 && !c->tls && c->state == CONN_OPEN && c->input != CONN_INPUT_OVER;
    bool goes_on = h->keep_alive && !h->http10 && h->body_whole && !conn_is_draining(c);
    return plain && goes_on && c->in.n == 0 && conn_pending(c) == 0 &&
           !str_is(ex->x.method, "HEAD");
}

static void h1_render(const struct exchange *ex, struct buf *b)
{
    str body = exchange_answer(ex);
    render_head(ex, body.n, b);
    buf_z(b, "\r\n");
    buf_str(b, body);
}

static void h1_sent(struct conn *c, struct exchange *ex)
{
    struct h1 *h = &c->h1;
    assert(h->exchange == ex);
    if (ex->x.out.failed) {  // no memory to keep the bytes that the socket did not take
        conn_close(c);
        return;
    }
    // The head that was sent says keep-alive; closing after it is allowed at any time.
    assert(h->phase == H1_WAIT && h->body_whole);
    if (is_last(c)) h->keep_alive = false;
    str rest = buf_view(&ex->x.out);
    if (rest.n) conn_put(c, rest.p, rest.n);
    exchange_end(ex);
    next_request(c);
}

// ---- requests

static unsigned fill_in(struct exchange *ex, const char *p, size_t n, struct h1_head *head, err *e)
{
    struct http_exchange *x = &ex->x;
    char *copy = arena_new(&x->req.arena, n);
    if (!arena_ok(&x->req.arena, e)) return 429;
    assert(copy);
    memcpy(copy, p, n);  // c->in moves, and the head is borrowed from until the exchange ends
    unsigned status =
        h1_head_parse(head, copy, n, ex->server->options.headers_max, &x->req.arena, e);
    x->method = head->method;
    x->path = head->path;
    x->query = head->query;
    x->authority = head->authority;
    x->headers = head->headers;
    return status;
}

static void prepare_body(struct conn *c, const struct h1_head *head)
{
    struct h1 *h = &c->h1;
    h->keep_alive = head->keep_alive;
    h->http10 = head->http10;
    h->expects_continue = head->expects_continue;
    h->chunked = head->chunked;
    h->chunks = (struct h1_chunks){0};
    assert(!(head->chunked && head->has_length));  // the parser refuses both: smuggling
    h->left = head->has_length ? head->length : 0;
    h->body_whole = !h->chunked && h->left == 0;
}

static void body_is_whole(struct conn *c)
{
    c->h1.body_whole = true;
    enter(&c->h1, H1_WAIT);
    exchange_body_end(c->h1.exchange);
}

static void on_head(struct conn *c, const char *p, size_t n)
{
    struct h1 *h = &c->h1;
    assert(h->phase == H1_HEAD && n > 0);
    struct exchange *ex = exchange_new(c, 11);
    if (!ex) {
        conn_close(c);
        return;
    }
    enter(h, H1_WAIT);
    // WAIT while the application decides: it may answer at once, and then next_request moves on.
    h->exchange = ex;
    struct h1_head head = {0};
    err e = {0};
    unsigned status = fill_in(ex, p, n, &head, &e);
    // Without memory for its head the request is parsed again, into memory kept for refusals: only
    // its head tells whether it is vital, and by which protocol to refuse it.
    bool spare = status == 429;
    if (spare) {
        exchange_spare(ex);
        err again = {0};
        status = fill_in(ex, p, n, &head, &again);
        if (status) e = again;
    }
    if (status) {
        h->exchange = NULL;
        exchange_end(ex);
        refuse_plainly(c, status, &e, status == 431 ? "head_too_large" : "bad_request");
        return;
    }
    prepare_body(c, &head);
    uint64_t length = h->chunked ? UINT64_MAX : h->left;
    if (spare && !exchange_is_vital(ex, length)) {
        exchange_refuse(ex, 429, &e, "memory");
        return;
    }
    // After an answer ex is gone, and the phase is that of the next request.
    if (!exchange_head(ex, length)) return;
    if (h->body_whole) {
        body_is_whole(c);
        return;
    }
    if (h->expects_continue) conn_put(c, CONTINUE_100, sizeof CONTINUE_100 - 1);
    h->expects_continue = false;  // the client may send now, so the next bytes are the body
    enter(h, h->chunked ? H1_CHUNKS : H1_BODY);
}

static size_t collect_head(struct conn *c, const char *p, size_t n)
{
    struct h1 *h = &c->h1;
    size_t limit = c->shard->server->options.head_max;
    if (h->scan.at == 0) c->mark_ns = c->shard->now_ns;
    assert(!h->exchange);
    enum h1_scan_result found = h1_scan(&h->scan, p, MIN(n, limit));
    err e = {0};
    // The scan remembers how far it came, so a head that arrives byte by byte costs no square.
    if (found == H1_WHOLE) {
        size_t end = h->scan.at;
        on_head(c, p + h->scan.begin, end - h->scan.begin);
        return end;
    }
    if (found == H1_BROKEN) {
        err_set(&e, ERR_INVALID_ARGUMENT, "line ends must be CR LF");
        refuse_plainly(c, 400, &e, "bad_request");
    } else if (n >= limit) {
        err_set(&e, ERR_RESOURCE_EXHAUSTED, "request head is more than %zu bytes", limit);
        refuse_plainly(c, 431, &e, "head_too_large");
    }
    return 0;
}

static size_t read_body(struct conn *c, const char *p, size_t n)
{
    struct h1 *h = &c->h1;
    size_t take = (size_t)MIN((uint64_t)n, h->left);
    assert(h->exchange);
    h->left -= take;
    // Before exchange_body, which may refuse and so begin the next request.
    if (h->left == 0) h->body_whole = true;
    if (exchange_body(h->exchange, p, take) && h->body_whole) body_is_whole(c);
    return take;
}

static size_t read_chunks(struct conn *c, const char *p, size_t n)
{
    struct h1 *h = &c->h1;
    str data = {0};
    assert(h->exchange);
    size_t used = h1_chunks_feed(&h->chunks, p, n, &data);
    if (data.n && !exchange_body(h->exchange, data.p, data.n)) return used;
    // A chunk that is announced larger than the limit is refused before its bytes come.
    if (h->chunks.state == H1_CHUNK_DATA && !exchange_body_fits(h->exchange, h->chunks.left))
        return used;
    if (h->chunks.state == H1_CHUNKS_DONE) {
        body_is_whole(c);
    } else if (h->chunks.state == H1_CHUNKS_BROKEN) {
        err e = {0};
        err_set(&e, ERR_INVALID_ARGUMENT, "chunked body is malformed");
        h->keep_alive = false;  // where the next request begins is unknown
        exchange_refuse(h->exchange, 400, &e, "bad_request");
    }
    return used;
}

static size_t discard(struct conn *c, size_t n)
{
    struct h1 *h = &c->h1;
    size_t take = (size_t)MIN((uint64_t)n, h->left);
    h->left -= take;
    assert(!h->exchange);
    if (h->left > 0) return take;
    h->body_whole = true;
    enter(h, H1_HEAD);
    return take;
}

// Consumes as many bytes as the phase allows; returns their number. The caller keeps the rest.
static size_t advance(struct conn *c, const char *p, size_t n)
{
    const struct h1 *h = &c->h1;
    size_t used = 0;
    while (used < n && c->state == CONN_OPEN) {
        if (!conn_may_say_more(c)) break;  // the client pipelines, and does not read the answers
        size_t before = used;
        if (h->phase == H1_HEAD)
            used += collect_head(c, p + used, n - used);
        else if (h->phase == H1_BODY)
            used += read_body(c, p + used, n - used);
        else if (h->phase == H1_CHUNKS)
            used += read_chunks(c, p + used, n - used);
        else if (h->phase == H1_DISCARD)
            used += discard(c, n - used);
        // WAIT and WRITE use nothing, nor does a head that is not whole: the caller keeps those
        // bytes.
        if (used == before) break;
    }
    return c->state == CONN_OPEN ? used : n;  // the connection ends: drop the rest
}

static void advance_kept(struct conn *c)
{
    struct buf *in = &c->in;
    size_t used = advance(c, in->p, in->n);
    assert(used <= in->n);
    // advance has parsed straight from this buffer; on_head copied its head, so it may move now.
    in->n -= used;
    if (in->n)
        memmove(in->p, in->p + used, in->n);
    else if (in->room > CONN_OUT_KEEP)
        buf_release(in);
}

static void no_memory(struct conn *c)
{
    err e = {0};
    err_set(&e, ERR_RESOURCE_EXHAUSTED, "no memory for more requests");
    if (c->h1.phase == H1_HEAD)
        refuse_plainly(c, 429, &e, "memory");
    else
        conn_close(c);  // a request is being answered: a refusal would be taken for its answer
}

static void h1_feed(struct conn *c, const char *p, size_t n)
{
    if (c->in.n == 0) {
        size_t used = advance(c, p, n);
        p += used;
        n -= used;
    }
    if (n == 0) return;
    // Bytes that came before are used first. Those that are left of p are kept behind them.
    bool had = c->in.n > 0;
    buf_put(&c->in, p, n);
    if (c->in.failed)
        no_memory(c);
    else if (had)
        advance_kept(c);
    conn_recall(
        c);  // bytes are kept, so on_head may have made an offer that does not hold any more
}

static bool h1_more(struct conn *c)
{
    struct h1 *h = &c->h1;
    if (h->phase == H1_WRITE) {  // the lent body has been sent
        assert(c->lent.n == 0);
        put_tail(c, h->exchange, 1);
        exchange_end(h->exchange);
        next_request(c);
        if (c->state != CONN_OPEN) return false;
    }
    assert(h->phase != H1_WRITE);
    if (h->phase == H1_WAIT) return false;
    size_t before = c->in.n;
    if (before) advance_kept(c);
    if (c->in.n != before) return true;
    if (c->input == CONN_INPUT_OVER) conn_finish(c);  // the rest of this request never comes
    return false;
}

static bool h1_wants_input(const struct conn *c)
{
    const struct h1 *h = &c->h1;
    // Only as long as another read fits: c->in has room for a head and two reads (conn_new).
    if (h->phase == H1_HEAD) return c->in.n < c->in.cap - 2 * CONN_CHUNK;
    // While an answer is made, one chunk is read: so we see whether the client has left.
    if (h->phase == H1_WAIT || h->phase == H1_WRITE) return c->in.n == 0;
    return true;
}

static void h1_input_over(struct conn *c)
{
    struct h1 *h = &c->h1;
    if (h->phase == H1_WAIT && h->exchange) {
        exchange_cancel(h->exchange);  // the client may only be half-closed: write the answer
        return;
    }
    if (h->phase == H1_WRITE) return;
    // The client may still read earlier answers, and c->in may hold whole requests: h1_more serves
    // them and then finishes.
    if (conn_pending(c) == 0) conn_close(c);
}

static void h1_sweep(struct conn *c)
{
    struct h1 *h = &c->h1;
    const struct server_options *o = &c->shard->server->options;
    uint64_t waited = c->shard->now_ns - c->mark_ns;
    err e = {0};
    if (h->phase == H1_WRITE && held_too_long(h->exchange)) {
        conn_timed_out("answer");
        conn_reset(c);
    } else if (h->phase == H1_HEAD && c->in.n > 0 && conn_pending(c) == 0) {
        if (waited <= o->head_timeout_ns) return;
        conn_timed_out("head");
        err_set(&e, ERR_DEADLINE_EXCEEDED, "request head took too long");
        refuse_plainly(c, 408, &e, "timeout");
    } else if (h->phase == H1_HEAD) {
        if (waited <= (h->served ? o->idle_timeout_ns : o->head_timeout_ns)) return;
        conn_timed_out("idle");
        conn_close(c);
    } else if (h->phase == H1_DISCARD) {
        if (waited <= o->body_timeout_ns) return;
        conn_timed_out("body");
        conn_close(c);
    } else if (h->exchange && exchange_body_late(h->exchange, c->shard->now_ns)) {
        conn_timed_out("body");
        err_set(&e, ERR_DEADLINE_EXCEEDED, "request body took too long");
        h->keep_alive = false;
        exchange_refuse(h->exchange, 408, &e, "timeout");
    }
}

// On an idle connection there is no answer under way that a reset could destroy. It is closed at
// once, without LINGER: a client that does not watch its idle connections (libcurl) would not close
// its side, and so delay the stop.
static void h1_drain(struct conn *c)
{
    bool idle = c->h1.phase == H1_HEAD && c->in.n == 0 && conn_pending(c) == 0;
    if (idle && c->h1.served > 0) conn_close(c);
}

static void h1_release(struct conn *c)
{
    c->h1.exchange = NULL;
}

const struct conn_ops h1_ops = {
    .protocol = "h1",
    .open = h1_open,
    .feed = h1_feed,
    .answer = h1_answer,
    .offers = h1_offers,
    .render = h1_render,
    .sent = h1_sent,
    .more = h1_more,
    .wants_input = h1_wants_input,
    .input_over = h1_input_over,
    .sweep = h1_sweep,
    .drain = h1_drain,
    .release = h1_release,
};
