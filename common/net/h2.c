// SPDX-License-Identifier: Apache-2.0
//
// h2.c - HTTP/2 on a connection (RFC 9113), by an nghttp2 session that knows no sockets.
//
//     1. on_begin_headers makes an exchange for the stream, on_header fills in its head
//     2. on_frame: the head is whole, head_is_whole checks it and asks the application
//     3. on_data collects the body; on_frame with END_STREAM submits the request
//     4. h2_answer gives the answer to the session, pump writes its frames, on_read its body
//     5. on_stream_close ends the exchange
//
// The session's user data of the stream points to the exchange until the stream closes. Deleting a
// session does not close its streams: conn_end abandons the exchanges itself.
//
// Frames that attackers send in floods are counted per interval. Beyond the limits below the
// connection ends with ENHANCE_YOUR_CALM: resets (CVE-2023-44487), faults that make us reset
// (CVE-2025-8671), SETTINGS and PING (CVE-2019-9515, -9512), empty DATA (CVE-2019-9518),
// CONTINUATION (CVE-2024-28182), more WINDOW_UPDATE than our DATA gives reason for. A head that is
// HEAD_BOMB times over its limit ends the connection at once: a byte on the wire may stand for
// 4 KiB of header (CVE-2016-1544), and each of them would have to be read.
//
// nghttp2 is lenient towards HEADERS on streams that are over. After a reset of ours they may have
// been under way; otherwise they are a fault by RFC 9113 section 5.1. (nghttp2 drops DATA there
// without telling us.)
#include "net/exchange.h"
#include "net/metrics.h"
#include "sys/clock.h"

#include <stdio.h>

#include <nghttp2/nghttp2.h>

#define STREAM_WINDOW     ((uint32_t)1 << 20)
#define CONNECTION_WINDOW ((int32_t)8 << 20)
#define FLOOD_INTERVAL_NS ((uint64_t)(10 * NS_PER_S))

// Per connection and interval. Honest clients stay far below: a client library cancels a few
// hundred calls when a server stalls, and pings once per round trip while it measures.
enum flood {
    FLOOD_RESET,
    FLOOD_FAULT,
    FLOOD_SETTINGS,
    FLOOD_PING,
    FLOOD_EMPTY_DATA,
    FLOOD_CONTINUATION,
    FLOOD_WINDOW,
    FLOOD_OTHER,
    FLOODS
};
static const struct {
    const char *reason;  // in metrics
    unsigned max;
} floods[FLOODS] = {
    [FLOOD_RESET] = {"flood_reset", 1000},
    [FLOOD_FAULT] = {"flood_fault", 1000},
    [FLOOD_SETTINGS] = {"flood_settings", 100},
    [FLOOD_PING] = {"flood_ping", 5000},
    [FLOOD_EMPTY_DATA] = {"flood_empty_data", 500},
    [FLOOD_CONTINUATION] = {"flood_continuation", 500},
    [FLOOD_WINDOW] = {"flood_window", 5000},
    [FLOOD_OTHER] = {"flood_other", 1000},
};
#define WINDOW_CREDIT 4  // WINDOW_UPDATEs that each DATA or HEADERS frame of ours may cause
#define HEAD_BOMB     2

// How the session ends. The graceful way takes two GOAWAY frames (RFC 9113 section 6.8); the other
// one takes a single frame, written without the session.
//
//     SERVING     streams open and end          h2_drain                          -> DRAINING
//     DRAINING    the first GOAWAY was given to the session, which names no stream
//                                               name_last, at the next sweep      -> LAST_NAMED
//     LAST_NAMED  the second GOAWAY was given to it; streams begun before it end as usual, then
//                 h2_more finishes the connection
//     BROKEN      the client did what we end a connection for (end_session), from any of the above
//                                               say_goaway                        -> OVER
//     OVER        our GOAWAY is in the output, all exchanges are abandoned
enum h2_state {
    H2_SERVING,
    H2_DRAINING,
    H2_LAST_NAMED,
    H2_BROKEN,
    H2_OVER,
    H2_STATES
};

struct h2 {
    nghttp2_session *session;
    uint64_t flood_since_ns;
    unsigned flood[FLOODS];
    unsigned requests;
    int32_t last_stream;  // highest that had HEADERS
    uint64_t reset_ns;    // when a stream was last reset by us, or is about to be
    unsigned resets_due;  // counted already, but not sent yet
    enum h2_state state;
    uint32_t end_code;  // BROKEN: what GOAWAY says
};

#define BIT(state) (1u << (H2_##state))

static const unsigned successors[H2_STATES] = {
    [H2_SERVING] = BIT(DRAINING) | BIT(BROKEN),
    [H2_DRAINING] = BIT(LAST_NAMED) | BIT(BROKEN),
    [H2_LAST_NAMED] = BIT(BROKEN),
    [H2_BROKEN] = BIT(OVER),
    [H2_OVER] = 0,
};

static void enter(struct h2 *h, enum h2_state to)
{
    assert(h->state < H2_STATES && (successors[h->state] & 1u << to));
    h->state = to;
}

// We end the connection for a fault of the client: the session must not be called any more.
static bool is_broken(const struct h2 *h)
{
    return h->state == H2_BROKEN || h->state == H2_OVER;
}

static struct exchange *exchange_of(nghttp2_session *session, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(session, stream);
}

// Ends a stream; or the connection, if there is no memory to queue the RST_STREAM.
static void end_stream(struct conn *c, int32_t stream, uint32_t code)
{
    assert(stream > 0);
    if (nghttp2_submit_rst_stream(c->h2->session, 0, stream, code) != 0) conn_close(c);
}

// ---- floods

// Ends the connection. Within a callback this cannot be done by nghttp2_session_terminate_session:
// the session would read on in the same bytes, and some frames would then fail an assertion of
// nghttp2. So callbacks fail instead (`verdict`), which stops the session where it is, and
// say_goaway writes the last frame itself.
static void end_session(struct conn *c, uint32_t code, const char *reason)
{
    struct h2 *h = c->h2;
    if (is_broken(h)) return;
    enter(h, H2_BROKEN);
    h->end_code = code;
    metric_add_to(&net_refused, str_of(reason), 1);
}

static int verdict(const struct conn *c)
{
    return is_broken(c->h2) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

// The output before it consists of whole frames, so this frame may follow it without the session.
static void say_goaway(struct conn *c)
{
    struct h2 *h = c->h2;
    enter(h, H2_OVER);
    unsigned last = (unsigned)nghttp2_session_get_last_proc_stream_id(h->session);
    unsigned char frame[17] = {[2] = 8, [3] = NGHTTP2_GOAWAY};
    for (int i = 0; i < 4; i++) {
        frame[9 + i] = (unsigned char)(last >> (24 - 8 * i));
        frame[13 + i] = (unsigned char)(h->end_code >> (24 - 8 * i));
    }
    // Length 8, type GOAWAY, no flags, stream 0; then the last stream and the code, big-endian.
    conn_put(c, frame, sizeof frame);
    conn_finish(c);
    // The session sends no answers any more, so their streams would never close.
    while (c->exchanges)
        exchange_abandon(c->exchanges);
}

static void count_flood(struct conn *c, enum flood kind)
{
    struct h2 *h = c->h2;
    assert(kind < FLOODS);
    uint64_t now = c->shard->now_ns;
    assert(h->flood[kind] <= floods[kind].max || is_broken(h));
    if (now - h->flood_since_ns > FLOOD_INTERVAL_NS) {
        h->flood_since_ns = now;
        memset(h->flood, 0, sizeof h->flood);
    }
    if (++h->flood[kind] > floods[kind].max)
        end_session(c, NGHTTP2_ENHANCE_YOUR_CALM, floods[kind].reason);
}

// Our own frames explain this many of the client's.
static void allow_windows(struct h2 *h)
{
    h->flood[FLOOD_WINDOW] -= MIN(h->flood[FLOOD_WINDOW], (unsigned)WINDOW_CREDIT);
}

// HEADERS belong to a stream that is open or is being opened.
static void check_stream(struct conn *c, const nghttp2_frame_hd *hd)
{
    struct h2 *h = c->h2;
    bool opens = hd->stream_id > h->last_stream;
    if (opens) h->last_stream = hd->stream_id;
    if (opens || h->state != H2_SERVING || hd->stream_id == 0)
        return;  // after our GOAWAY nghttp2 ignores new streams, so they are unknown here
    // -1 for a stream that nghttp2 does not know (any more).
    if (nghttp2_session_get_stream_local_close(h->session, hd->stream_id) >= 0) return;
    if (h->reset_ns == 0 || c->shard->now_ns - h->reset_ns > FLOOD_INTERVAL_NS)
        end_session(c, NGHTTP2_STREAM_CLOSED, "bad_frames");
    else
        count_flood(c, FLOOD_OTHER);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user)
{
    (void)session;
    struct conn *c = user;
    switch (hd->type) {
    case NGHTTP2_RST_STREAM:
        count_flood(c, FLOOD_RESET);
        break;
    case NGHTTP2_SETTINGS:
        count_flood(c, FLOOD_SETTINGS);
        break;
    case NGHTTP2_PING:
        count_flood(c, FLOOD_PING);
        break;
    case NGHTTP2_CONTINUATION:
        count_flood(c, FLOOD_CONTINUATION);
        break;
    case NGHTTP2_DATA:
        if (hd->length == 0 && !(hd->flags & NGHTTP2_FLAG_END_STREAM))
            count_flood(c, FLOOD_EMPTY_DATA);
        break;
    case NGHTTP2_HEADERS:
        check_stream(c, hd);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        count_flood(c, FLOOD_WINDOW);
        break;
    case NGHTTP2_PRIORITY:
        if (hd->stream_id == 0) end_session(c, NGHTTP2_PROTOCOL_ERROR, "bad_frames");
        count_flood(c, FLOOD_OTHER);
        break;
    default:
        count_flood(c, FLOOD_OTHER);
    }
    return verdict(c);
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code,
                            void *user)
{
    (void)session;
    (void)frame;
    (void)code;
    struct conn *c = user;
    // nghttp2 answers with RST_STREAM: reset_sent must not count that fault a second time.
    c->h2->reset_ns = c->shard->now_ns;
    c->h2->resets_due++;
    count_flood(c, FLOOD_FAULT);
    return verdict(c);
}

// ---- requests

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct conn *c = user;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    // Headers of another category are trailers, or would be answers to us.
    struct exchange *ex = exchange_new(c, 20);
    if (!ex) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    ex->h2.id = frame->hd.stream_id;
    assert(ex->h2.id > 0 && !exchange_of(session, ex->h2.id));
    c->h2->requests++;
    nghttp2_session_set_stream_user_data(session, ex->h2.id, ex);
    return 0;
}

static void keep_header(struct http_exchange *x, str name, str value)
{
    struct arena *a = &x->req.arena;
    str v = arena_str(a, value);
    if (str_is(name, ":method")) {
        x->method = v;
    } else if (str_is(name, ":path")) {
        x->path = str_split(v, '?', &x->query);
    } else if (str_is(name, ":authority")) {
        x->authority = v;
    } else if (!str_starts(name, S(":"))) {
        http_headers_add(&x->headers, a, arena_str(a, name), v);
        if (str_is(name, "host") && x->authority.n == 0) x->authority = v;
    }
}

static str text_of(nghttp2_rcbuf *b)
{
    nghttp2_vec v = nghttp2_rcbuf_get_buf(b);
    return str_make(v.base, v.len);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *user)
{
    (void)flags;
    struct conn *c = user;
    const struct server_options *o = &c->shard->server->options;
    struct exchange *ex = exchange_of(session, frame->hd.stream_id);
    if (!ex) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // nghttp2 resets the stream
    str n = text_of(name);
    str v = text_of(value);
    ex->h2.head_bytes += n.n + v.n + 32;  // as RFC 9113 section 6.5.2 counts
    if (ex->h2.head_bytes / HEAD_BOMB > o->head_max) {
        end_session(c, NGHTTP2_ENHANCE_YOUR_CALM, "flood_head");
        return verdict(c);
    }
    // The bomb is looked for before this: nghttp2 decodes trailers as well.
    if (exchange_has_head(ex)) return 0;  // trailers: no handler reads them
    if (ex->h2.head_bytes > o->head_max || ex->x.headers.n >= o->headers_max) {
        ex->h2.head_fault = 431;
        return 0;
    }
    keep_header(&ex->x, n, v);
    if (!ex->x.req.arena.exhausted || ex->spare) return 0;
    // The rest of the head goes to memory for refusals: head_is_whole needs it to tell whether the
    // request is vital, and to refuse it otherwise.
    exchange_spare(ex);
    ex->h2.head_fault = 429;
    keep_header(&ex->x, n, v);
    return 0;
}

static void say_continue(struct conn *c, const struct exchange *ex)
{
    char name[] = ":status";
    char value[] = "100";
    nghttp2_nv nv = {(uint8_t *)name, (uint8_t *)value, sizeof name - 1, sizeof value - 1, 0};
    if (nghttp2_submit_headers(c->h2->session, 0, ex->h2.id, NULL, &nv, 1, NULL) < 0) conn_close(c);
}

static bool has_fragment(str s)
{
    return str_find(s, '#') < s.n;
}

// Refuses heads that nghttp2 lets pass, but that are refused over HTTP/1.1 (h1_head.h). Returns the
// status to refuse with, or 0.
static unsigned check_head(const struct http_exchange *x, err *e)
{
    const char *fault = NULL;
    str host = http_headers_get(&x->headers, "host");
    // The last fault found is the one that is told; each of them alone is enough to refuse.
    if (!str_starts(x->path, S("/")) && !str_is(x->path, "*")) fault = ":path is not a path";
    if (has_fragment(x->path) || has_fragment(x->query)) fault = ":path has a fragment";
    if (!http_is_authority(x->authority)) fault = ":authority is not a host";
    if (host.n && !http_same_authority(host, x->authority)) fault = "Host is not :authority";
    if (fault) {
        err_set(e, ERR_INVALID_ARGUMENT, "%s", fault);
        return 400;
    }
    str expect = http_headers_get(&x->headers, "expect");
    if (expect.n == 0 || str_ieq(expect, S("100-continue"))) return 0;
    err_set(e, ERR_INVALID_ARGUMENT, "the only expectation met here is 100-continue");
    return 417;
}

static void head_is_whole(struct conn *c, struct exchange *ex)
{
    struct http_exchange *x = &ex->x;
    err e = {0};
    assert(!exchange_has_head(ex));
    if (ex->h2.head_fault == 431) {
        count_flood(c, FLOOD_FAULT);
        err_set(&e, ERR_RESOURCE_EXHAUSTED, "request head is more than %zu bytes or %u headers",
                ex->server->options.head_max, ex->server->options.headers_max);
        exchange_reject(ex, 431, &e, "head_too_large");
        return;
    }
    uint64_t length = ex->h2.input_over ? 0 : UINT64_MAX;
    if (ex->h2.head_fault == 429 && !exchange_is_vital(ex, length)) {
        err_set(&e, ERR_RESOURCE_EXHAUSTED, "no memory for the request's head");
        exchange_refuse(ex, 429, &e, "memory");
        return;
    }
    // nghttp2 lets only CONNECT have no :path.
    if (x->path.n == 0) {
        err_set(&e, ERR_UNIMPLEMENTED, "CONNECT is for proxies");
        exchange_reject(ex, 405, &e, "bad_request");
        return;
    }
    unsigned status = check_head(x, &e);
    if (status) {
        exchange_reject(ex, status, &e, "bad_request");
        return;
    }
    uint64_t announced = 0;
    bool given = str_u64(http_headers_get(&x->headers, "content-length"), &announced);
    // Until the stream ends a request is one with a body, even if it announces that it is empty.
    if (!ex->h2.input_over && given && announced > 0) length = announced;
    if (!exchange_head(ex, length)) return;
    if (!ex->h2.input_over && str_ieq(http_headers_get(&x->headers, "expect"), S("100-continue")))
        say_continue(c, ex);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct conn *c = user;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    struct exchange *ex = exchange_of(session, frame->hd.stream_id);
    if (!ex) return 0;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ex->h2.input_over = true;
    // on_begin_frame cannot see this: the frame is not empty, but all of it is padding.
    bool padding = frame->hd.type == NGHTTP2_DATA && frame->data.padlen > 0;
    if (padding && frame->hd.length <= frame->data.padlen && !ex->h2.input_over)
        count_flood(c, FLOOD_EMPTY_DATA);
    if (!exchange_has_head(ex)) head_is_whole(c, ex);
    // The exchange may have been answered by now, but lives until its stream closes.
    if (ex->h2.input_over && exchange_wants_body(ex)) exchange_body_end(ex);
    return verdict(c);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *p,
                   size_t n, void *user)
{
    (void)flags;
    (void)user;
    // Bytes are consumed at once, even those of refused requests, so both windows open again at
    // once. The body limit and the memory budget limit how much may pile up.
    if (nghttp2_session_consume(session, stream, n) != 0) return NGHTTP2_ERR_CALLBACK_FAILURE;
    struct exchange *ex = exchange_of(session, stream);
    if (ex && exchange_wants_body(ex)) (void)exchange_body(ex, (const char *)p, n);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    struct conn *c = user;
    struct exchange *ex = exchange_of(session, stream);
    if (!ex) return 0;
    nghttp2_session_set_stream_user_data(session, stream, NULL);
    assert(ex->h2.id == stream && ex->conn == c);
    if (exchange_is_answered(ex) && code == NGHTTP2_NO_ERROR)
        exchange_end(ex);
    else
        exchange_abandon(ex);
    c->mark_ns = c->shard->now_ns;
    return 0;
}

// ---- answers

static nghttp2_nv nv_of(str name, str value)
{
    return (nghttp2_nv){conn_unconst(name.p), conn_unconst(value.p), name.n, value.n,
                        NGHTTP2_NV_FLAG_NONE};
}

static size_t add_headers(nghttp2_nv *nv, size_t n, const struct http_headers *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (http_may_answer(&h->v[i])) nv[n++] = nv_of(h->v[i].name, h->v[i].value);
    return n;
}

static void submit_trailers(struct conn *c, const struct exchange *ex)
{
    const struct http_headers *t = &ex->x.trailers;
    err e = {0};
    nghttp2_nv *nv = mem_alloc(NULL, t->n * sizeof *nv, &e);
    int failed = -1;
    if (nv) failed = nghttp2_submit_trailer(c->h2->session, ex->h2.id, nv, add_headers(nv, 0, t));
    if (failed) end_stream(c, ex->h2.id, NGHTTP2_INTERNAL_ERROR);
    mem_free(NULL, nv, t->n * sizeof *nv);
}

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room,
                       uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)stream;
    struct conn *c = user;
    struct exchange *ex = source->ptr;
    assert(exchange_is_answered(ex));
    assert(ex->h2.sent <= exchange_answer(ex).n);
    str rest = str_slice(exchange_answer(ex), ex->h2.sent, SIZE_MAX);
    size_t n = MIN(room, rest.n);
    if (n) memcpy(to, rest.p, n);
    ex->h2.sent += n;
    ex->mark_bytes += n;
    if (ex->mark_bytes >= PROGRESS_BYTES) {
        ex->mark_bytes = 0;
        ex->mark_ns = c->shard->now_ns;
    }
    if (n == rest.n) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (ex->x.trailers.n) {
            // The trailers are the end of the stream, and come after this frame.
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            submit_trailers(c, ex);
        }
    }
    return (ssize_t)n;
}

// An answer without a body whose trailers follow at once is one HEADERS frame: gRPC's
// "trailers-only".
static int submit(nghttp2_session *session, struct exchange *ex, nghttp2_nv *nv)
{
    struct http_exchange *x = &ex->x;
    str body = exchange_answer(ex);
    char status[16];
    char length[24];
    (void)snprintf(status, sizeof status, "%u", x->status);
    (void)snprintf(length, sizeof length, "%zu", body.n);
    size_t n = 0;
    nv[n++] = nv_of(S(":status"), str_of(status));
    n = add_headers(nv, n, &x->answer_headers);
    if (x->trailers.n == 0 && x->status != 204 && x->status != 304)
        nv[n++] = nv_of(S("content-length"), str_of(length));
    nghttp2_data_provider data = {.source.ptr = ex, .read_callback = on_read};
    bool has_body = body.n > 0 && !ex->body_only_head;
    if (!has_body) n = add_headers(nv, n, &x->trailers);
    return nghttp2_submit_response(session, ex->h2.id, nv, n, has_body ? &data : NULL);
}

static void h2_answer(struct conn *c, struct exchange *ex)
{
    nghttp2_session *session = c->h2->session;
    if (is_broken(c->h2)) return;  // it goes with the connection
    assert(exchange_is_answered(ex) && ex->conn == c);
    size_t most = 2 + ex->x.answer_headers.n + ex->x.trailers.n;
    err e = {0};
    nghttp2_nv *nv = mem_alloc(NULL, most * sizeof *nv, &e);
    int failed = nv ? submit(session, ex, nv) : NGHTTP2_ERR_NOMEM;
    // nghttp2 has copied names and values; the body stays ours, and on_read reads it.
    mem_free(NULL, nv, most * sizeof *nv);
    if (failed) end_stream(c, ex->h2.id, NGHTTP2_INTERNAL_ERROR);
}

// Some resets by nghttp2 are not told to on_invalid_frame, such as that for a body whose length is
// not its content-length. So resets are counted here, except those that on_invalid_frame announced.
static void reset_sent(struct conn *c, uint32_t code)
{
    c->h2->reset_ns = c->shard->now_ns;
    // These three are our own: an answer before the body ended (NO_ERROR), an answer that the
    // client does not read (CANCEL), no memory (INTERNAL_ERROR).
    if (code == NGHTTP2_NO_ERROR || code == NGHTTP2_CANCEL || code == NGHTTP2_INTERNAL_ERROR)
        return;
    metric_add_to(&net_refused, S("bad_request"), 1);
    if (c->h2->resets_due > 0)
        c->h2->resets_due--;
    else
        count_flood(c, FLOOD_FAULT);
}

// A client that is answered before it sent its whole body is told to stop (RFC 9113 section 8.1).
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct conn *c = user;
    uint8_t type = frame->hd.type;
    if (type == NGHTTP2_RST_STREAM) reset_sent(c, frame->rst_stream.error_code);
    if (type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        metric_add_to(&net_refused, S("bad_frames"), 1);
    if (type != NGHTTP2_HEADERS && type != NGHTTP2_DATA) return verdict(c);
    allow_windows(c->h2);
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    const struct exchange *ex = exchange_of(session, frame->hd.stream_id);
    if (ex && !ex->h2.input_over) end_stream(c, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

// ---- the connection

static bool new_session(struct conn *c)
{
    nghttp2_session_callbacks *calls = NULL;
    nghttp2_option *option = NULL;
    bool ok = nghttp2_session_callbacks_new(&calls) == 0 && nghttp2_option_new(&option) == 0;
    if (ok) {
        nghttp2_session_callbacks_set_on_begin_frame_callback(calls, on_begin_frame);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls, on_invalid_frame);
        nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback2(calls, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_stream_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_frame_sent);
        // We say ourselves when windows open (on_data): otherwise that would follow nghttp2's own
        // rule.
        nghttp2_option_set_no_auto_window_update(option, 1);
        ok = nghttp2_session_server_new2(&c->h2->session, calls, c, option) == 0;
    }
    nghttp2_session_callbacks_del(calls);
    nghttp2_option_del(option);
    return ok;
}

static bool greet(struct conn *c)
{
    const struct server_options *o = &c->shard->server->options;
    nghttp2_session *session = c->h2->session;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, o->streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)MIN(o->head_max, (size_t)UINT32_MAX)},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    return nghttp2_submit_settings(session, 0, settings, COUNT(settings)) == 0 &&
           nghttp2_session_set_local_window_size(session, 0, 0, CONNECTION_WINDOW) == 0;
}

// Turns frames that wait in the session into output. True if there were any.
static bool pump(struct conn *c)
{
    bool some = false;
    while (conn_may_say_more(c) && c->state == CONN_OPEN && !is_broken(c->h2)) {
        const uint8_t *p = NULL;
        assert(c->lent.n == 0);  // frames are copied, because nghttp2 reuses their memory
        ssize_t n = nghttp2_session_mem_send(c->h2->session, &p);
        if (n < 0 && !is_broken(c->h2)) conn_close(c);
        if (n <= 0) break;
        conn_put(c, p, (size_t)n);
        some = true;
    }
    return some;
}

static void h2_open(struct conn *c)
{
    err e = {0};
    c->h2 = mem_alloc(NULL, sizeof *c->h2, &e);
    c->mark_ns = c->shard->now_ns;
    if (!c->h2 || !new_session(c) || !greet(c)) {
        conn_close(c);
        return;
    }
    (void)pump(c);  // our SETTINGS must be the first frame, even before a GOAWAY
}

static void h2_feed(struct conn *c, const char *p, size_t n)
{
    conn_dirty(c);
    if (is_broken(c->h2)) return;
    // Exchanges may begin, be refused and be answered in this call, and callbacks may end the
    // session.
    ssize_t took = nghttp2_session_mem_recv(c->h2->session, (const uint8_t *)p, n);
    if (took >= 0) return;
    if (took == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS)
        end_session(c, NGHTTP2_ENHANCE_YOUR_CALM, floods[FLOOD_CONTINUATION].reason);
    else if (took == NGHTTP2_ERR_FLOODED)
        end_session(c, NGHTTP2_ENHANCE_YOUR_CALM, floods[FLOOD_OTHER].reason);
    else
        end_session(c, NGHTTP2_INTERNAL_ERROR, "bad_frames");
    say_goaway(c);
}

static bool h2_more(struct conn *c)
{
    nghttp2_session *session = c->h2->session;
    assert(c->h2);
    bool some = pump(c);
    if (c->h2->state == H2_BROKEN) {
        say_goaway(c);
        return false;
    }
    if (!some && !nghttp2_session_want_read(session) && !nghttp2_session_want_write(session))
        conn_finish(c);
    return some;
}

static bool h2_wants_input(const struct conn *c)
{
    return nghttp2_session_want_read(c->h2->session);
}

static void h2_input_over(struct conn *c)
{
    // HTTP/2 has no half-closed connection: without its WINDOW_UPDATEs answers could not go on.
    conn_close(c);
}

// ---- time

// Does the client keep the answer from being sent, by a closed window? If not, the answer waits
// only because those of other streams have their turn.
static bool is_stalled(nghttp2_session *session, const struct exchange *ex)
{
    return nghttp2_session_get_remote_window_size(session) <= 0 ||
           nghttp2_session_get_stream_remote_window_size(session, ex->h2.id) <= 0;
}

static void sweep_exchange(struct conn *c, struct exchange *ex)
{
    const struct server_options *o = &c->shard->server->options;
    nghttp2_session *session = c->h2->session;
    uint64_t now = c->shard->now_ns;
    if (!exchange_has_head(ex) && now > ex->mark_ns + o->head_timeout_ns) {
        conn_timed_out("head");  // half a head blocks the whole connection
        end_session(c, NGHTTP2_ENHANCE_YOUR_CALM, "timeout");
    } else if (exchange_body_late(ex, now)) {
        conn_timed_out("body");
        err e = {0};
        err_set(&e, ERR_DEADLINE_EXCEEDED, "request body took too long");
        exchange_refuse(ex, 408, &e, "timeout");
    } else if (exchange_is_answered(ex) && held_too_long(ex)) {
        conn_timed_out("answer");
        ex->sent_ns = now;
        end_stream(c, ex->h2.id, NGHTTP2_CANCEL);
    } else if (exchange_is_answered(ex)) {
        if (!is_stalled(session, ex)) {
            ex->mark_ns = now;
        } else if (now > ex->mark_ns + o->write_timeout_ns) {
            conn_timed_out("write");
            ex->mark_ns = now;
            end_stream(c, ex->h2.id, NGHTTP2_CANCEL);
        }
    }
}

// The second GOAWAY of a graceful end (RFC 9113 section 6.8). At the sweep after the first one the
// requests that were under way then have arrived, so the last stream can be named.
static void name_last(struct h2 *h)
{
    if (h->state != H2_DRAINING) return;
    enter(h, H2_LAST_NAMED);
    // Without memory for the frame the connection ends with the drain's deadline.
    nghttp2_submit_goaway(h->session, 0, nghttp2_session_get_last_proc_stream_id(h->session),
                          NGHTTP2_NO_ERROR, NULL, 0);
}

static void sweep_session(struct conn *c)
{
    struct h2 *h = c->h2;
    const struct server_options *o = &c->shard->server->options;
    for (struct exchange *ex = c->exchanges; ex; ex = ex->next)
        sweep_exchange(c, ex);  // frees none: streams close while frames are sent
    name_last(h);
    uint64_t limit = h->requests ? o->idle_timeout_ns : o->head_timeout_ns;
    if (c->exchanges || c->shard->now_ns <= c->mark_ns + limit) return;
    conn_timed_out("idle");
    c->mark_ns = c->shard->now_ns;  // GOAWAY gets the same time before we try again
    if (nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR) != 0) conn_close(c);
}

static void h2_sweep(struct conn *c)
{
    const struct h2 *h = c->h2;
    if (is_broken(h)) return;
    sweep_session(c);
    if (is_broken(h))
        say_goaway(c);
    else if (nghttp2_session_want_write(h->session))
        conn_dirty(c);
}

static void h2_drain(struct conn *c)
{
    struct h2 *h = c->h2;
    if (h->state != H2_SERVING) return;
    enter(h, H2_DRAINING);
    nghttp2_submit_shutdown_notice(h->session);
    // Without streams there is no need to wait for the sweep. A request that is under way now is
    // not processed, and the client knows by the GOAWAY that it may send it elsewhere.
    if (!c->exchanges) name_last(h);
}

static void h2_release(struct conn *c)
{
    if (!c->h2) return;
    nghttp2_session_del(c->h2->session);
    mem_free(NULL, c->h2, sizeof *c->h2);
    c->h2 = NULL;
}

const struct conn_ops h2_ops = {
    .protocol = "h2",
    .open = h2_open,
    .feed = h2_feed,
    .answer = h2_answer,
    .more = h2_more,
    .wants_input = h2_wants_input,
    .input_over = h2_input_over,
    .sweep = h2_sweep,
    .drain = h2_drain,
    .release = h2_release,
};
