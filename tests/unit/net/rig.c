// SPDX-License-Identifier: Apache-2.0
#include "unit/net/rig.h"

static struct http_exchange *rig_text(struct http_exchange *x, unsigned status, str text)
{
    x->status = status;
    x->fixed = text;
    http_headers_add(&x->answer_headers, &x->req.arena, S("content-type"), S("text/plain"));
    return x;
}

enum head_verdict rig_head(void *self, struct http_exchange *x)
{
    struct rig *r = self;
    static const char *const paths[] = {"/hello", "/echo",   "/big",  "/here",   "/empty",
                                        "/wait",  "/inject", "/none", "/greedy", "/trailers"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        if (!str_is(x->path, paths[i])) continue;
        x->lane = str_is(x->path, "/here") ? NULL : r->lane;
        x->body_max = RIG_BODY_MAX;
        return HEAD_READ_BODY;
    }
    rig_text(x, 404, S("404 page not found\n"));
    return HEAD_ANSWERED;
}

void rig_wait(struct rig *r, struct http_exchange *x)
{
    pthread_mutex_lock(&r->mutex);
    r->waiting++;
    pthread_cond_broadcast(&r->change);
    while (!r->open && !atomic_load(&x->req.canceled)) {
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec += 5000000;
        if (soon.tv_nsec >= 1000000000) {
            soon.tv_sec++;
            soon.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&r->change, &r->mutex, &soon);
    }
    r->waiting--;
    if (atomic_load(&x->req.canceled)) r->canceled++;
    pthread_cond_broadcast(&r->change);
    pthread_mutex_unlock(&r->mutex);
}

void rig_run(void *self, struct http_exchange *x)
{
    struct rig *r = self;
    if (str_is(x->path, "/none")) return;
    rig_text(x, 200, S("hello\n"));
    if (str_is(x->path, "/echo")) x->fixed = buf_view(&x->body);
    if (str_is(x->path, "/big")) x->fixed = str_make(r->big, RIG_BIG);
    if (str_is(x->path, "/wait")) rig_wait(r, x);
    if (str_is(x->path, "/empty")) {
        x->status = 204;
        x->fixed = (str){0};
    }
    if (str_is(x->path, "/greedy")) (void)arena_new(&x->req.arena, SIZE_MAX / 2);
    if (str_is(x->path, "/inject"))
        http_headers_add(&x->answer_headers, &x->req.arena, S("x-a"), S("1\r\nx-b: 2"));
    if (str_is(x->path, "/trailers")) {
        http_headers_add(&x->trailers, &x->req.arena, S("grpc-status"), S("0"));
        if (str_is(x->query, "only")) x->fixed = (str){0};
    }
}

void rig_refuse(void *self, struct http_exchange *x, const err *e)
{
    struct rig *r = self;
    atomic_fetch_add(&r->refused, 1);
    if (x->status == 0) x->status = 500;
    x->fixed = arena_printf(&x->req.arena, "%s: %s\n", err_name(e->code), e->msg);
}

struct rig *rig_new(void)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->change, NULL);
    mem_budget_init(&r->memory, "requests", NULL, (size_t)64 << 20);
    r->big = malloc(RIG_BIG);
    assert_non_null(r->big);
    memset(r->big, 'x', RIG_BIG);
    for (int i = 0; i < RIG_LOOPS; i++)
        assert_ok((r->loops[i] = loop_new("net", e)));
    struct lane_options lane = {.name = "test", .rank = RANK_PUBLIC, .width = 4, .queue_max = 8};
    assert_ok((r->lane = lane_new(&lane, e)));
    r->options = (struct server_options){
        .name = "public",
        .listen = "127.0.0.1:0",
        .memory = &r->memory,
        .request_memory_max = (size_t)4 << 20,
        .head_max = 8192,
        .headers_max = 50,
        .streams_max = 100,
        .connections_max = 64,
        .head_timeout_ns = 60 * NS_PER_S,
        .body_timeout_ns = 60 * NS_PER_S,
        .idle_timeout_ns = 60 * NS_PER_S,
        .write_timeout_ns = 60 * NS_PER_S,
        .request_timeout_ns = 60 * NS_PER_S,
        .rank = RANK_PUBLIC,
    };
    return r;
}

void rig_open(struct rig *r)
{
    struct server_app app = {.self = r, .head = rig_head, .run = rig_run, .refuse = rig_refuse};
    assert_ok((r->server = server_open(&r->options, app, r->loops, RIG_LOOPS, e)));
}

void rig_open_gate(struct rig *r)
{
    pthread_mutex_lock(&r->mutex);
    r->open = true;
    pthread_cond_broadcast(&r->change);
    pthread_mutex_unlock(&r->mutex);
}

static unsigned rig_count(struct rig *r, const unsigned *count)
{
    pthread_mutex_lock(&r->mutex);
    unsigned n = *count;
    pthread_mutex_unlock(&r->mutex);
    return n;
}

void rig_await(struct rig *r, const unsigned *count, unsigned at_least)
{
    AWAIT(rig_count(r, count) >= at_least);
}

void rig_free(struct rig *r)
{
    rig_open_gate(r);
    server_close(r->server);
    lane_drain(r->lane);
    lane_free(r->lane);
    for (int i = 0; i < RIG_LOOPS; i++)
        loop_free(r->loops[i]);
    assert_int_equal(atomic_load(&r->memory.used), 0);  // everything was given back
    pthread_mutex_destroy(&r->mutex);
    pthread_cond_destroy(&r->change);
    free(r->big);
    free(r);
}

// ---- the client's side

int rig_connect(const struct rig *r)
{
    int fd = -1;
    if (str_starts(str_of(r->options.listen), S("unix:"))) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        snprintf(un.sun_path, sizeof un.sun_path, "%s", r->options.listen + 5);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof un), 0);
        return fd;
    }
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)server_port(r->server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct timeval limit = {.tv_sec = 60};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

void rig_send(int fd, str bytes)
{
    while (bytes.n > 0) {
        ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) return;  // the answer says why
        assert_true(n > 0);
        bytes = str_slice(bytes, (size_t)n, bytes.n);
    }
}

bool rig_recv(int fd, struct buf *b, str until)
{
    for (;;) {
        if (until.n && str_contains(buf_view(b), until)) return true;
        char *at = buf_reserve(b, 65536);
        assert_non_null(at);
        ssize_t n = recv(fd, at, 65536, 0);
        if (n <= 0) return false;
        b->n += (size_t)n;
    }
}

void rig_answer_release(struct rig_answer *a)
{
    buf_release(&a->head);
    buf_release(&a->body);
}

bool rig_take_answer(int fd, struct buf *b, struct rig_answer *a, bool no_body)
{
    *a = (struct rig_answer){0};
    buf_init(&a->head, NULL, 1 << 20);
    buf_init(&a->body, NULL, 1 << 24);
    if (!rig_recv(fd, b, S("\r\n\r\n"))) return false;
    str all = buf_view(b);
    size_t end = 0;
    while (memcmp(all.p + end, "\r\n\r\n", 4) != 0)
        end++;
    end += 4;
    buf_str(&a->head, str_slice(all, 0, end));
    assert_true(str_starts(all, S("HTTP/1.1 ")));
    uint64_t status = 0;
    assert_true(str_u64(str_slice(all, 9, 12), &status));
    a->status = (unsigned)status;
    uint64_t length = 0;
    str lines = str_slice(all, 0, end);
    while (lines.p) {
        str line = str_trim(str_split(lines, '\n', &lines));
        str value = {0};
        str name = str_split(line, ':', &value);
        if (str_ieq(name, S("content-length"))) assert_true(str_u64(str_trim(value), &length));
        if (str_ieq(name, S("connection"))) a->closes = str_ieq(str_trim(value), S("close"));
    }
    if (no_body) length = 0;
    while (b->n < end + length) {
        char *at = buf_reserve(b, 65536);
        ssize_t n = recv(fd, at, 65536, 0);
        if (n <= 0) return false;
        b->n += (size_t)n;
    }
    buf_put(&a->body, b->p + end, length);
    memmove(b->p, b->p + end + length, b->n - end - length);
    b->n -= end + length;
    return true;
}

struct buf rig_exchange(const struct rig *r, str request, bool half_close)
{
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    int fd = rig_connect(r);
    rig_send(fd, request);
    if (half_close) shutdown(fd, SHUT_WR);
    rig_recv(fd, &b, (str){0});
    (void)close(fd);
    return b;
}
