// SPDX-License-Identifier: Apache-2.0
#include "unit/net/rig.h"

#include <nghttp2/nghttp2.h>

#define STREAMS 64

struct stream {
    int32_t id;
    unsigned status;
    unsigned heads;  // HEADERS frames
    struct buf body;
    struct buf trailers;  // name=value; of the last HEADERS frame
    bool closed;
    bool continued;
    uint32_t error;
    str upload;
    bool endless;  // the upload never says that it is over
};

struct peer {
    nghttp2_session *session;
    int fd;
    struct stream streams[STREAMS];
    size_t count;
    bool over;  // the connection is
    bool goaway;
    uint32_t goaway_error;
};

static struct stream *stream_of(struct peer *p, int32_t id)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->streams[i].id == id) return &p->streams[i];
    return NULL;
}

static str text_of(nghttp2_rcbuf *b)
{
    nghttp2_vec v = nghttp2_rcbuf_get_buf(b);
    return str_make(v.base, v.len);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *user)
{
    (void)session;
    (void)flags;
    struct stream *s = stream_of(user, frame->hd.stream_id);
    if (!s) return 0;
    if (str_is(text_of(name), ":status")) {
        uint64_t status = 0;
        assert_true(str_u64(text_of(value), &status));
        s->status = (unsigned)status;
        if (status == 100) s->continued = true;
    }
    buf_str(&s->trailers, text_of(name));
    buf_byte(&s->trailers, '=');
    buf_str(&s->trailers, text_of(value));
    buf_byte(&s->trailers, ';');
    return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct stream *s = stream_of(user, frame->hd.stream_id);
    if (!s) return 0;
    s->heads++;
    buf_clear(&s->trailers);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
                   void *user)
{
    (void)session;
    (void)flags;
    struct stream *s = stream_of(user, id);
    buf_put(&s->body, p, n);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    (void)session;
    struct stream *s = stream_of(user, id);
    if (!s) return 0;
    s->closed = true;
    s->error = error;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct peer *p = user;
    if (frame->hd.type != NGHTTP2_GOAWAY) return 0;
    p->goaway = true;
    p->goaway_error = frame->goaway.error_code;
    return 0;
}

static void flush(struct peer *p)
{
    for (;;) {
        const uint8_t *bytes = NULL;
        ssize_t n = nghttp2_session_mem_send(p->session, &bytes);
        if (n <= 0) return;
        rig_send(p->fd, str_make(bytes, (size_t)n));
    }
}

static void turn(struct peer *p)
{
    flush(p);
    uint8_t bytes[65536];
    ssize_t n = recv(p->fd, bytes, sizeof bytes, 0);
    if (n <= 0) {
        p->over = true;
        return;
    }
    assert_true(nghttp2_session_mem_recv(p->session, bytes, (size_t)n) >= 0);
}

static struct peer *connect_with(const struct rig *r, const nghttp2_settings_entry *settings,
                                 size_t n)
{
    struct peer *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->fd = rig_connect(r);
    nghttp2_session_callbacks *calls = NULL;
    assert_int_equal(nghttp2_session_callbacks_new(&calls), 0);
    nghttp2_session_callbacks_set_on_header_callback2(calls, on_header);
    nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_begin_headers);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
    assert_int_equal(nghttp2_session_client_new(&p->session, calls, p), 0);
    nghttp2_session_callbacks_del(calls);
    assert_int_equal(nghttp2_submit_settings(p->session, 0, settings, n), 0);
    return p;
}

static struct peer *connect_peer(const struct rig *r)
{
    return connect_with(r, NULL, 0);
}

static void disconnect(struct peer *p)
{
    nghttp2_session_del(p->session);
    (void)close(p->fd);
    for (size_t i = 0; i < p->count; i++) {
        buf_release(&p->streams[i].body);
        buf_release(&p->streams[i].trailers);
    }
    free(p);
}

static ssize_t on_upload(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)source;
    struct stream *s = stream_of(user, id);
    size_t n = MIN(room, s->upload.n);
    if (n == 0 && s->endless) return NGHTTP2_ERR_DEFERRED;
    if (n) memcpy(to, s->upload.p, n);
    s->upload = str_slice(s->upload, n, s->upload.n);
    if (s->upload.n == 0 && !s->endless) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static nghttp2_nv nv_of(const char *name, const char *value)
{
    nghttp2_nv nv = {.namelen = strlen(name), .valuelen = strlen(value)};
    memcpy(&nv.name, &name, sizeof nv.name);  // it reads only, but does not say const
    memcpy(&nv.value, &value, sizeof nv.value);
    return nv;
}

struct extra {
    const char *name;
    const char *value;
};

static struct stream *ask_with(struct peer *p, const char *method, const char *path, str body,
                               bool endless, struct extra extra)
{
    assert_true(p->count < STREAMS);
    nghttp2_nv nv[6] = {nv_of(":method", method), nv_of(":scheme", "http"),
                        nv_of(":authority", "a"), nv_of(":path", path)};
    size_t n = 4;
    if (extra.name) nv[n++] = nv_of(extra.name, extra.value);
    struct stream *s = &p->streams[p->count++];
    buf_init(&s->body, NULL, 1 << 24);
    buf_init(&s->trailers, NULL, 1 << 20);
    s->upload = body;
    s->endless = endless;
    nghttp2_data_provider data = {.read_callback = on_upload};
    bool has_body = body.n || endless;
    s->id = nghttp2_submit_request(p->session, NULL, nv, n, has_body ? &data : NULL, NULL);
    assert_true(s->id > 0);
    return s;
}

static struct stream *ask(struct peer *p, const char *method, const char *path, str body)
{
    return ask_with(p, method, path, body, false, (struct extra){0});
}

static void await(struct peer *p, const struct stream *s)
{
    while (!s->closed && !p->over)
        turn(p);
    assert_true(s->closed);
}

static void await_over(struct peer *p)
{
    while (!p->over)
        turn(p);
}

static int setup(void **state)
{
    *state = rig_new();
    return 0;
}

static int teardown(void **state)
{
    rig_free(*state);
    return 0;
}

static void answers_many_streams_at_once(void **state)
{
    struct rig *r = *state;
    struct lane_options wide = {.name = "wide", .rank = RANK_PUBLIC, .width = 4, .queue_max = 100};
    lane_drain(r->lane);
    lane_free(r->lane);
    assert_ok((r->lane = lane_new(&wide, e)));
    rig_open(r);
    struct peer *p = connect_peer(r);
    char *body = malloc(RIG_BODY_MAX);
    assert_non_null(body);
    for (size_t i = 0; i < RIG_BODY_MAX; i++)
        body[i] = (char)('a' + i % 23);
    struct stream *s[48];
    for (size_t i = 0; i < COUNT(s); i++) {
        if (i % 3 == 0) s[i] = ask(p, "POST", "/echo?x", str_make(body, RIG_BODY_MAX - i));
        if (i % 3 == 1) s[i] = ask(p, "GET", "/hello", S(""));
        if (i % 3 == 2) s[i] = ask(p, "GET", i % 2 ? "/big" : "/nowhere", S(""));
    }
    for (size_t i = 0; i < COUNT(s); i++) {
        await(p, s[i]);
        assert_int_equal(s[i]->error, NGHTTP2_NO_ERROR);
        assert_int_equal(s[i]->status, i % 3 == 2 && i % 2 == 0 ? 404 : 200);
        if (i % 3 == 0) {
            assert_int_equal(s[i]->body.n, RIG_BODY_MAX - i);
            assert_memory_equal(s[i]->body.p, body, RIG_BODY_MAX - i);
        }
        if (i % 3 == 1) assert_true(str_is(buf_view(&s[i]->body), "hello\n"));
        if (i % 3 == 2 && i % 2) assert_int_equal(s[i]->body.n, RIG_BIG);
    }
    free(body);
    disconnect(p);
}

static void reads_frames_byte_by_byte(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct peer *p = connect_peer(r);
    const struct stream *s = ask(p, "POST", "/echo", S("tiny"));
    for (;;) {
        const uint8_t *bytes = NULL;
        ssize_t n = nghttp2_session_mem_send(p->session, &bytes);
        if (n <= 0) break;
        for (ssize_t i = 0; i < n; i++)
            rig_send(p->fd, str_make(bytes + i, 1));
    }
    await(p, s);
    assert_true(str_is(buf_view(&s->body), "tiny"));
    disconnect(p);
}

static void sends_trailers(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct peer *p = connect_peer(r);
    const struct stream *s = ask(p, "GET", "/trailers", S(""));
    await(p, s);
    assert_int_equal(s->heads, 2);
    assert_true(str_is(buf_view(&s->trailers), "grpc-status=0;"));
    assert_true(str_is(buf_view(&s->body), "hello\n"));

    s = ask(p, "GET", "/trailers?only", S(""));
    await(p, s);
    assert_int_equal(s->heads, 1);
    assert_int_equal(s->body.n, 0);
    assert_true(str_is(buf_view(&s->trailers), ":status=200;content-type=text/plain;"
                                               "grpc-status=0;"));
    disconnect(p);
}

static void sends_no_body_where_there_is_none(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct peer *p = connect_peer(r);
    const struct stream *s = ask(p, "HEAD", "/big", S(""));
    await(p, s);
    assert_int_equal(s->body.n, 0);
    assert_true(str_contains(buf_view(&s->trailers), S("content-length=1048576;")));
    s = ask(p, "GET", "/empty", S(""));
    await(p, s);
    assert_int_equal(s->status, 204);
    assert_false(str_contains(buf_view(&s->trailers), S("content-length")));
    disconnect(p);
}

static void refuses_bodies_over_the_limit(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct peer *p = connect_peer(r);
    const struct stream *s =
        ask_with(p, "POST", "/echo", S(""), true, (struct extra){"content-length", "100001"});
    await(p, s);
    assert_int_equal(s->status, 413);
    assert_int_equal(s->error, NGHTTP2_NO_ERROR);

    char *body = calloc(1, 200000);
    assert_non_null(body);
    s = ask_with(p, "POST", "/echo", str_make(body, 200000), true, (struct extra){0});
    await(p, s);
    assert_int_equal(s->status, 413);
    free(body);

    s = ask(p, "GET", "/hello", S(""));  // the connection is as good as before
    await(p, s);
    assert_int_equal(s->status, 200);
    disconnect(p);
}

static void refuses_heads_over_the_limit(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct peer *p = connect_peer(r);
    char large[9000];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    const struct stream *s =
        ask_with(p, "GET", "/hello", S(""), false, (struct extra){"x-a", large});
    await(p, s);
    assert_int_equal(s->status, 431);
    disconnect(p);
}

static void says_continue_to_those_who_wait_for_it(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct peer *p = connect_peer(r);
    struct stream *s =
        ask_with(p, "POST", "/echo", S(""), true, (struct extra){"expect", "100-continue"});
    while (!s->continued)
        turn(p);
    s->upload = S("late");
    s->endless = false;
    nghttp2_session_resume_data(p->session, s->id);
    await(p, s);
    assert_int_equal(s->status, 200);
    assert_true(str_is(buf_view(&s->body), "late"));
    disconnect(p);
}

static void refuses_with_429_when_memory_is_used_up(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct peer *p = connect_peer(r);
    mem_budget_init(&r->memory, "requests", NULL, 50000);
    char *body = calloc(1, 60000);
    assert_non_null(body);
    const struct stream *s = ask(p, "POST", "/echo", str_make(body, 60000));
    await(p, s);
    assert_int_equal(s->status, 429);
    assert_true(str_contains(buf_view(&s->trailers), S("retry-after=1;")));
    free(body);

    // Nothing at all is left, whenever the first one gives back what it had.
    atomic_store(&r->memory.limit, 1);
    s = ask(p, "GET", "/hello", S(""));
    await(p, s);
    assert_int_equal(s->status, 429);
    disconnect(p);
}

static void tells_a_running_handler_that_the_client_is_gone(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct peer *p = connect_peer(r);
    const struct stream *s = ask(p, "GET", "/wait", S(""));
    flush(p);
    rig_await(r, &r->waiting, 1);
    nghttp2_submit_rst_stream(p->session, 0, s->id, NGHTTP2_CANCEL);
    flush(p);
    rig_await(r, &r->canceled, 1);
    ask(p, "GET", "/wait", S(""));
    flush(p);
    rig_await(r, &r->waiting, 1);
    disconnect(p);
    rig_await(r, &r->canceled, 2);
}

// ---- floods: each frame is legal

static void put_frame(struct buf *b, unsigned type, unsigned flags, uint32_t stream, str payload)
{
    const unsigned char head[9] = {(unsigned char)(payload.n >> 16),
                                   (unsigned char)(payload.n >> 8),
                                   (unsigned char)payload.n,
                                   (unsigned char)type,
                                   (unsigned char)flags,
                                   (unsigned char)(stream >> 24),
                                   (unsigned char)(stream >> 16),
                                   (unsigned char)(stream >> 8),
                                   (unsigned char)stream};
    buf_put(b, head, sizeof head);
    buf_str(b, payload);
}

// HPACK: GET, http, /hello is a literal; authority a literal.
static const char small_head[] = "\x82\x86\x04\x06/hello\x01\x01"
                                 "a";

static void calm_down(struct rig *r, const char *name, void (*fill)(struct buf *b))
{
    struct peer *p = connect_peer(r);
    flush(p);
    struct buf b;
    buf_init(&b, NULL, 1 << 22);
    fill(&b);
    assert_false(b.failed);
    rig_send(p->fd, buf_view(&b));
    await_over(p);
    if (!p->goaway || p->goaway_error != NGHTTP2_ENHANCE_YOUR_CALM)
        fail_msg("%s: GOAWAY %d %u", name, p->goaway, p->goaway_error);
    buf_release(&b);
    disconnect(p);
}

static void many_resets(struct buf *b)
{
    for (uint32_t i = 0; i < 1100; i++) {
        put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 2 * i + 1,
                  str_make(small_head, sizeof small_head - 1));
        put_frame(b, NGHTTP2_RST_STREAM, 0, 2 * i + 1, S("\0\0\0\x08"));
    }
}

// Each opens a stream and makes us reset it, by a header that HTTP/2 does not have.
static void many_faults(struct buf *b)
{
    static const char faulty[] = "\x82\x86\x04\x06/hello\x01\x01"
                                 "a\0\x0a"
                                 "connection\x01"
                                 "b";
    for (uint32_t i = 0; i < 1100; i++)
        put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1,
                  str_make(faulty, sizeof faulty - 1));
}

static void many_pings(struct buf *b)
{
    for (int i = 0; i < 5100; i++)
        put_frame(b, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, S("12345678"));
}

static void many_settings(struct buf *b)
{
    for (int i = 0; i < 200; i++)
        put_frame(b, NGHTTP2_SETTINGS, 0, 0, S(""));
}

static void many_empty_frames(struct buf *b)
{
    put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1,
              str_make(small_head, sizeof small_head - 1));
    for (int i = 0; i < 600; i++)
        put_frame(b, NGHTTP2_DATA, 0, 1, S(""));
}

static void many_priorities(struct buf *b)
{
    for (int i = 0; i < 1100; i++)
        put_frame(b, NGHTTP2_PRIORITY, 0, 1, S("\0\0\0\0\0"));
}

static void ends_connections_that_flood(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    calm_down(r, "many resets", many_resets);
    calm_down(r, "many faults", many_faults);
    calm_down(r, "many pings", many_pings);
    calm_down(r, "many settings", many_settings);
    calm_down(r, "many empty frames", many_empty_frames);
    calm_down(r, "many priorities", many_priorities);
}

static void ends_connections_that_never_end_a_head(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct peer *p = connect_peer(r);
    flush(p);
    struct buf b;
    buf_init(&b, NULL, 1 << 22);
    put_frame(&b, NGHTTP2_HEADERS, 0, 1, str_make(small_head, sizeof small_head - 1));
    for (int i = 0; i < 1000; i++)
        put_frame(&b, NGHTTP2_CONTINUATION, 0, 1, S("\x40\x01z\x01z"));
    rig_send(p->fd, buf_view(&b));
    await_over(p);  // nghttp2 has a limit of its own, below ours
    buf_release(&b);
    disconnect(p);
}

static void ends_connections_that_speak_nonsense(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    static const str texts[] = {
        S_INIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
               "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        S_INIT(
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01\xff"),
        S_INIT("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct buf b = rig_exchange(r, texts[i], false);
        buf_release(&b);
    }
}

// ---- time

// Half a body, then idle. False: the connection was cut off before the request was there.
static bool half_a_body_is_told(struct rig *r)
{
    struct peer *p = connect_peer(r);
    const struct stream *s = ask_with(p, "POST", "/echo", S("ab"), true, (struct extra){0});
    await_over(p);
    bool heard = s->closed;
    if (heard) {
        assert_int_equal(s->status, 408);
        assert_true(p->goaway);
        assert_int_equal(p->goaway_error, NGHTTP2_NO_ERROR);
    }
    disconnect(p);
    return heard;
}

static bool who_never_takes_the_body_is_told(struct rig *r)
{
    const nghttp2_settings_entry shut = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    struct peer *p = connect_with(r, &shut, 1);
    const struct stream *s = ask(p, "GET", "/hello", S(""));
    while (!s->closed && !p->over)
        turn(p);
    bool heard = s->closed;
    if (heard) assert_int_equal(s->error, NGHTTP2_CANCEL);
    disconnect(p);
    return heard;
}

// Nothing may come in between, not even our SETTINGS ACK.
static bool half_a_head_is_told(struct rig *r)
{
    struct peer *p = connect_peer(r);
    struct buf b;
    turn(p);
    flush(p);
    buf_init(&b, NULL, 1 << 20);
    put_frame(&b, NGHTTP2_HEADERS, 0, 1, str_make(small_head, sizeof small_head - 1));
    rig_send(p->fd, buf_view(&b));
    await_over(p);
    bool heard = p->goaway && p->goaway_error != NGHTTP2_NO_ERROR;
    if (heard) assert_int_equal(p->goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
    buf_release(&b);
    disconnect(p);
    return heard;
}

// Where the test is slow itself, it is cut off before it has said enough. Then servers have ever
// more time.
static void cuts_off_the_slow(void **state)
{
    struct rig *r = *state;
    static bool (*const fns[])(struct rig * r) = {half_a_body_is_told,
                                                  who_never_takes_the_body_is_told,
                                                  half_a_head_is_told};
    unsigned done = 0;
    for (uint64_t limit = 30 * NS_PER_MS; done < COUNT(fns); limit *= 2) {
        if (limit > 120 * (uint64_t)NS_PER_S) fail_msg("%u: two minutes are too little", done);
        r->options.head_timeout_ns = limit;
        r->options.body_timeout_ns = limit;
        r->options.idle_timeout_ns = 2 * limit;
        r->options.write_timeout_ns = limit;
        rig_open(r);
        while (done < COUNT(fns) && fns[done](r))
            done++;
        server_close(r->server);
        r->server = NULL;
    }
}

static void *drain(void *arg)
{
    server_drain(((struct rig *)arg)->server, 60 * NS_PER_S);
    return NULL;
}

static void drains_after_the_running_requests(void **state)
{
    struct rig *r = *state;
    r->options.idle_timeout_ns = 400 * NS_PER_MS;  // that is, sweep every 100 ms
    rig_open(r);
    struct peer *idle = connect_peer(r);
    await(idle, ask(idle, "GET", "/hello", S("")));
    struct peer *p = connect_peer(r);
    const struct stream *s = ask(p, "GET", "/wait", S(""));
    flush(p);
    rig_await(r, &r->waiting, 1);
    pthread_t thread;
    pthread_create(&thread, NULL, drain, r);
    await_over(idle);
    assert_true(idle->goaway);
    disconnect(idle);
    while (!p->goaway)
        turn(p);
    assert_int_equal(p->goaway_error, NGHTTP2_NO_ERROR);
    rig_open_gate(r);
    await(p, s);
    assert_int_equal(s->status, 200);
    await_over(p);
    disconnect(p);
    pthread_join(thread, NULL);
    assert_int_equal(r->canceled, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answers_many_streams_at_once),
        TEST(reads_frames_byte_by_byte),
        TEST(sends_trailers),
        TEST(sends_no_body_where_there_is_none),
        TEST(refuses_bodies_over_the_limit),
        TEST(refuses_heads_over_the_limit),
        TEST(says_continue_to_those_who_wait_for_it),
        TEST(refuses_with_429_when_memory_is_used_up),
        TEST(tells_a_running_handler_that_the_client_is_gone),
        TEST(ends_connections_that_flood),
        TEST(ends_connections_that_never_end_a_head),
        TEST(ends_connections_that_speak_nonsense),
        TEST(cuts_off_the_slow),
        TEST(drains_after_the_running_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
