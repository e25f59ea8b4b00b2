// SPDX-License-Identifier: Apache-2.0
//
// A call's life, all on the loop but the first and the last step:
//
//     POSTED    http_start (job)          on_start            -> WAITING, OVER (no memory)
//     WAITING   for a connection of its address               -> RUNNING, OVER (stopped)
//     RUNNING   libcurl has it            libcurl is done     -> OVER
//                                         stopped             -> OVER
//     OVER      call_finish was said; http_call_release (job) frees it
//
// The private part is counted by reference: the job's, the loop's until OVER, and one of a posted
// stop, which may run after the call ended and was released.
#include "net/client.h"

#include "net/introduce.h"
#include "net/loopback.h"
#include "net/metrics.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/lock.h"

#include <pthread.h>
#include <stdio.h>

#include <curl/curl.h>

#define CONNECT_TIMEOUT_MS 3000L
#define DNS_KEEP_S         1L    // a node that starts again may have another address
#define CACHED_MAX         256L  // kept-alive connections to all addresses
#define SPARE_MAX          64    // libcurl handles kept for reuse
#define HEAD_MAX           ((size_t)64 << 10)
#define READ_BYTES         ((long)256 << 10)

enum call_state {
    CALL_POSTED,
    CALL_WAITING,
    CALL_RUNNING,
    CALL_OVER
};

struct host {
    struct host *next;
    unsigned running;
    struct http_call_private *first;  // waiting, in order
    struct http_call_private *last;
    size_t name_bytes;
    char name[];  // address, and "+tls"
};

struct client {
    struct loop *loop;
    struct mem_budget *memory;
    unsigned connections_per_host;
    str loopback_address;
    struct server *loopback;  // or NULL
    struct tls_pem pem;
    atomic_bool has_certificate;
    struct introductions said;  // of the own node
    CURLM *multi;
    uv_timer_t timer;
    struct host *hosts;
    CURL *spare[SPARE_MAX];
    size_t spare_count;
    size_t running;
    struct http_call_private *blind;  // calls that end_blind will end, linked by `next`
    struct lock lock;                 // for `handles`
    struct cond closed;
    size_t handles;  // libuv handles that are not closed
};

struct socket {
    uv_poll_t poll;
    struct client *client;
    curl_socket_t fd;
};

struct http_call_private {
    struct http_call *call;  // NULL once it is over
    struct client *client;
    struct http_call_private *next;
    struct host *host;
    struct loop_task start;
    struct loop_task stop;
    atomic_bool stop_posted;
    atomic_uint refs;
    enum call_state state;
    bool too_large;  // the answer
    bool blind;      // in client.blind: the loop cannot poll its socket, so the call must end
    CURL *easy;
    struct curl_slist *headers;
    struct arena arena;  // answer's headers
    uint64_t started_ns;
    uint64_t deadline_ns;
    char why[CURL_ERROR_SIZE];
};

static const unsigned successors[] = {
    [CALL_POSTED] = 1u << CALL_WAITING | 1u << CALL_OVER,
    [CALL_WAITING] = 1u << CALL_RUNNING | 1u << CALL_OVER,
    [CALL_RUNNING] = 1u << CALL_OVER,
    [CALL_OVER] = 0,
};

static void set_state(struct http_call_private *p, enum call_state to)
{
    assert(successors[p->state] & 1u << to);
    p->state = to;
}

static void unref(struct http_call_private *p)
{
    assert(atomic_load_explicit(&p->refs, memory_order_relaxed) > 0);
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    arena_release(&p->arena);
    mem_free(NULL, p, sizeof *p);
}

// ---- addresses

// NULL without memory.
static struct host *host_of(struct client *cl, str address, bool tls)
{
    size_t n = address.n + (tls ? 4 : 0);
    for (struct host *h = cl->hosts; h; h = h->next) {
        str name = str_make(h->name, h->name_bytes);
        if (n == name.n && str_starts(name, address) && (!tls || str_ends(name, S("+tls"))))
            return h;
    }
    err e = {0};
    struct host *h = mem_alloc(NULL, sizeof *h + n + 1, &e);
    if (!h) return NULL;
    h->name_bytes = n;
    memcpy(h->name, address.p, address.n);
    if (tls) memcpy(h->name + address.n, "+tls", 4);
    h->next = cl->hosts;
    cl->hosts = h;
    return h;
}

// An entry stays only as long as it counts or queues a call: addresses come and go.
static void forget_if_idle(struct client *cl, struct host *h)
{
    if (h->running || h->first) return;
    struct host **at = &cl->hosts;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    mem_free(NULL, h, sizeof *h + h->name_bytes + 1);
}

static void wait_turn(struct host *h, struct http_call_private *p)
{
    p->host = h;
    p->next = NULL;
    if (h->last)
        h->last->next = p;
    else
        h->first = p;
    h->last = p;
}

static void leave_queue(struct host *h, struct http_call_private *p)
{
    struct http_call_private *before = NULL;
    struct http_call_private *at = h->first;
    while (at != p) {
        before = at;
        at = at->next;
    }
    if (before)
        before->next = p->next;
    else
        h->first = p->next;
    if (h->last == p) h->last = before;
}

// ---- ends

static CURL *take_easy(struct client *cl)
{
    return cl->spare_count ? cl->spare[--cl->spare_count] : curl_easy_init();
}

static void give_easy(struct client *cl, CURL *easy)
{
    if (cl->spare_count == SPARE_MAX) {
        curl_easy_cleanup(easy);
        return;
    }
    curl_easy_reset(easy);
    cl->spare[cl->spare_count++] = easy;
}

static void no_longer_blind(struct client *cl, struct http_call_private *p)
{
    struct http_call_private **at = &cl->blind;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    p->blind = false;
}

// Ends the call; fault NULL = it was answered. Takes it out of every list that it is in. The caller
// must go on with the host's queue (start_waiting): there may be a free place now.
static void finish(struct http_call_private *p, const err *fault)
{
    struct client *cl = p->client;
    struct http_call *c = p->call;
    loop_assert(cl->loop);
    assert(c && p->state != CALL_OVER);
    if (p->blind) no_longer_blind(cl, p);
    if (p->state == CALL_RUNNING) {
        assert(p->host->running > 0);
        curl_multi_remove_handle(cl->multi, p->easy);
        p->host->running--;
        cl->running--;
    } else if (p->state == CALL_WAITING) {
        leave_queue(p->host, p);
    }
    set_state(p, CALL_OVER);
    if (p->easy) give_easy(cl, p->easy);
    p->easy = NULL;
    curl_slist_free_all(p->headers);
    p->headers = NULL;
    p->call = NULL;  // on_stop may still come, and must not touch the job's memory
    metric_add_to(&net_calls, fault ? str_of(err_name(fault->code)) : S("ok"), 1);
    metric_observe_ns(&net_call_seconds, clock_mono_ns() - p->started_ns);
    call_finish(&c->call, fault);  // c is the job's from here
    unref(p);
}

static void describe(const struct http_call_private *p, CURLcode code, err *e)
{
    const struct http_call *c = p->call;
    const char *why = p->why[0] ? p->why : curl_easy_strerror(code);
    enum err_code kind = ERR_UNAVAILABLE;
    // The same code may mean CONNECT_TIMEOUT_MS: then the request has time to ask another node.
    if (code == CURLE_OPERATION_TIMEDOUT && p->deadline_ns && clock_mono_ns() >= p->deadline_ns)
        kind = ERR_DEADLINE_EXCEEDED;
    if (code == CURLE_WRITE_ERROR) {
        kind = ERR_RESOURCE_EXHAUSTED;
        if (p->arena.exhausted && !p->arena.starved)
            why = "the answer's head is too large";
        else if (p->too_large)
            why = "the answer is too large";
        else
            why = "no memory for the answer";
    }
    if (code == CURLE_OUT_OF_MEMORY) kind = ERR_RESOURCE_EXHAUSTED;
    if (code == CURLE_URL_MALFORMAT) kind = ERR_INVALID_ARGUMENT;
    err_set(e, kind, "%s %.*s%.*s: %s", c->method, STR(c->address), STR(c->path), why);
}

// ---- callbacks of libcurl

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_call_private *p = arg;
    struct buf *answer = &p->call->answer;
    p->too_large = size * n > answer->cap - answer->n;
    buf_put(answer, bytes, size * n);
    return answer->failed ? 0 : size * n;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_call_private *p = arg;
    struct http_call *c = p->call;
    str line = str_trim(str_make(bytes, size * n));
    if (str_starts(line, S("HTTP/"))) {  // a new head: the one before was 1xx
        c->answer_headers = (struct http_headers){0};
        return size * n;
    }
    size_t colon = str_find(line, ':');
    if (colon == line.n) return size * n;
    char *name = arena_new(&p->arena, colon);
    str value = arena_str(&p->arena, str_trim(str_slice(line, colon + 1, line.n)));
    if (!name || p->arena.exhausted) return 0;
    memcpy(name, line.p, colon);
    http_lower(name, colon);
    http_headers_add(&c->answer_headers, &p->arena, str_make(name, colon), value);
    return p->arena.exhausted ? 0 : size * n;
}

// ---- starting

static bool add_header(struct http_call_private *p, const char *text)
{
    struct curl_slist *longer = curl_slist_append(p->headers, text);
    if (!longer) return false;
    p->headers = longer;
    return true;
}

static bool set_headers(struct http_call_private *p, err *e)
{
    const struct http_headers *h = &p->call->headers;
    // Without an empty Expect libcurl waits a second before it sends a large body; without an empty
    // Content-Type it calls every body a form.
    bool ok = add_header(p, "Expect:");
    if (!http_headers_has(h, "content-type")) ok = ok && add_header(p, "Content-Type:");
    struct buf line;
    buf_init(&line, NULL, HEAD_MAX);
    for (size_t i = 0; i < h->n && ok; i++) {
        if (!http_is_token(h->v[i].name) || !http_is_value(h->v[i].value)) {
            buf_release(&line);
            return err_set(e, ERR_INVALID_ARGUMENT, "header %.*s is malformed", STR(h->v[i].name));
        }
        buf_clear(&line);
        buf_str(&line, h->v[i].name);
        if (h->v[i].value.n) {
            buf_z(&line, ": ");
            buf_str(&line, h->v[i].value);
            buf_byte(&line, '\0');
        } else {
            buf_put(&line, ";", 2);  // libcurl's spelling of a header without a value; ends in NUL
        }
        ok = !line.failed && add_header(p, line.p);
    }
    buf_release(&line);
    return ok || err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for the request's headers");
}

static CURLcode set_method(struct http_call_private *p)
{
    const struct http_call *c = p->call;
    bool post = strcmp(c->method, "POST") == 0;
    bool sends = post || strcmp(c->method, "PUT") == 0;  // the length of its body, though it is 0
    if (strcmp(c->method, "HEAD") == 0) return curl_easy_setopt(p->easy, CURLOPT_NOBODY, 1L);
    if (!sends && c->body.n == 0) {
        CURLcode code = curl_easy_setopt(p->easy, CURLOPT_HTTPGET, 1L);
        if (code == CURLE_OK && strcmp(c->method, "GET") != 0)
            code = curl_easy_setopt(p->easy, CURLOPT_CUSTOMREQUEST, c->method);
        return code;
    }
    CURLcode code = curl_easy_setopt(p->easy, CURLOPT_POST, 1L);
    if (code == CURLE_OK)
        code = curl_easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body.n);
    if (code == CURLE_OK)
        code = curl_easy_setopt(p->easy, CURLOPT_POSTFIELDS, c->body.n ? c->body.p : "");
    if (code == CURLE_OK && !post)
        code = curl_easy_setopt(p->easy, CURLOPT_CUSTOMREQUEST, c->method);
    return code;
}

static CURLcode set_target(struct http_call_private *p)
{
    const struct http_call *c = p->call;
    bool is_unix = str_starts(c->address, S("unix:"));
    str host = is_unix ? S("localhost") : c->address;
    struct buf text;
    buf_init(&text, NULL, HEAD_MAX);
    buf_printf(&text, "%s://%.*s%.*s", c->tls ? "https" : "http", STR(host), STR(c->path));
    buf_byte(&text, '\0');
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (!text.failed) code = curl_easy_setopt(p->easy, CURLOPT_URL, text.p);
    if (is_unix && code == CURLE_OK) {
        buf_clear(&text);
        buf_str(&text, str_slice(c->address, 5, c->address.n));
        buf_byte(&text, '\0');
        code = text.failed ? CURLE_OUT_OF_MEMORY
                           : curl_easy_setopt(p->easy, CURLOPT_UNIX_SOCKET_PATH, text.p);
    }
    buf_release(&text);
    return code;
}

static CURLcode set_blob(CURL *easy, CURLoption option, const struct buf *b)
{
    struct curl_blob blob = {.data = b->p, .len = b->n, .flags = CURL_BLOB_COPY};
    return b->n > 0 ? curl_easy_setopt(easy, option, &blob) : CURLE_OK;
}

// Bytes, not files: libcurl remembers an authority by the name of its file, and reads a certificate
// and its key whenever it connects, maybe while they are being replaced.
static CURLcode set_tls(struct http_call_private *p)
{
    const struct tls_pem *pem = &p->client->pem;
    CURLcode code = set_blob(p->easy, CURLOPT_CAINFO_BLOB, &pem->ca);
    if (code == CURLE_OK) code = set_blob(p->easy, CURLOPT_SSLCERT_BLOB, &pem->cert);
    if (code == CURLE_OK) code = set_blob(p->easy, CURLOPT_SSLKEY_BLOB, &pem->key);
    return code;
}

static CURLcode set_options(struct http_call_private *p)
{
    CURL *easy = p->easy;
    uint64_t now = clock_mono_ns();
    uint64_t left = p->deadline_ns > now ? p->deadline_ns - now : 0;
    long left_ms = p->deadline_ns ? (long)(left / (uint64_t)NS_PER_MS) + 1 : 0;  // 0: no limit
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    // A call that ends while its name is looked up: others would wait with it for the DNS.
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, DNS_KEEP_S);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, READ_BYTES);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, left_ms);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)p->call->stall_s);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, p);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, p->why);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, p);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, p);
    // Nodes talk to each other directly: a proxy in the environment is meant for other programs.
    CURLcode code = curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    return code;
}

static bool prepare(struct http_call_private *p, err *e)
{
    p->easy = take_easy(p->client);
    if (!p->easy) return err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for a request");
    CURLcode code = set_options(p);
    if (code == CURLE_OK && !set_headers(p, e)) return false;
    if (code == CURLE_OK) code = curl_easy_setopt(p->easy, CURLOPT_HTTPHEADER, p->headers);
    if (code == CURLE_OK && p->call->tls) code = set_tls(p);
    if (code == CURLE_OK) code = set_target(p);
    if (code == CURLE_OK) code = set_method(p);
    if (code == CURLE_OK) return true;
    describe(p, code, e);
    return false;
}

// Starts waiting calls while the address has room. May free h.
static void start_waiting(struct client *cl, struct host *h)
{
    loop_assert(cl->loop);
    while (h->first && h->running < cl->connections_per_host) {
        struct http_call_private *p = h->first;
        err e = {0};
        if (!prepare(p, &e)) {
            finish(p, &e);
            continue;
        }
        leave_queue(h, p);
        set_state(p, CALL_RUNNING);
        h->running++;
        cl->running++;
        CURLMcode code = curl_multi_add_handle(cl->multi, p->easy);
        if (code == CURLM_OK) continue;
        const struct http_call *c = p->call;
        err_set(&e, ERR_RESOURCE_EXHAUSTED, "%s %.*s%.*s: %s", c->method, STR(c->address),
                STR(c->path), curl_multi_strerror(code));
        finish(p, &e);
    }
    forget_if_idle(cl, h);
}

static void take_finished(struct client *cl)
{
    int left = 0;
    for (CURLMsg *m = curl_multi_info_read(cl->multi, &left); m;
         m = curl_multi_info_read(cl->multi, &left)) {
        if (m->msg != CURLMSG_DONE) continue;
        CURLcode code = m->data.result;
        struct http_call_private *p = NULL;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &p);
        long status = 0;
        curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        p->call->status = (unsigned)status;
        err e = {0};
        if (code != CURLE_OK) describe(p, code, &e);
        struct host *h = p->host;  // finish may free p
        finish(p, code == CURLE_OK ? NULL : &e);
        start_waiting(cl, h);
    }
}

// Here and not in on_socket, because libcurl forbids removing a handle from within its callbacks.
static void end_blind(struct client *cl)
{
    while (cl->blind) {
        struct http_call_private *p = cl->blind;
        struct host *h = p->host;
        const struct http_call *c = p->call;
        err e = {0};
        err_set(&e, ERR_RESOURCE_EXHAUSTED, "%s %.*s%.*s: the loop takes no more sockets",
                c->method, STR(c->address), STR(c->path));
        finish(p, &e);
        start_waiting(cl, h);
    }
}

static void act(struct client *cl, curl_socket_t fd, int events)
{
    int running = 0;
    curl_multi_socket_action(cl->multi, fd, events, &running);
    take_finished(cl);
    end_blind(cl);
}

// ---- sockets and time

static void handle_closed(struct client *cl)
{
    lock_take(&cl->lock);
    if (--cl->handles == 0) cond_wake_all(&cl->closed);
    lock_give(&cl->lock);
}

static void handle_opened(struct client *cl)
{
    lock_take(&cl->lock);
    cl->handles++;
    lock_give(&cl->lock);
}

static void on_ready(uv_poll_t *h, int status, int events)
{
    struct socket *s = CONTAINER_OF(h, struct socket, poll);
    int what = 0;
    if (status < 0) what = CURL_CSELECT_ERR;
    if (events & UV_READABLE) what |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE) what |= CURL_CSELECT_OUT;
    act(s->client, s->fd, what);
}

static void on_socket_closed(uv_handle_t *h)
{
    struct socket *s = CONTAINER_OF((uv_poll_t *)h, struct socket, poll);
    struct client *cl = s->client;
    mem_free(NULL, s, sizeof *s);
    handle_closed(cl);
}

static struct socket *watch(struct client *cl, curl_socket_t fd)
{
    err e = {0};
    struct socket *s = mem_alloc(NULL, sizeof *s, &e);
    if (!s) return NULL;
    s->client = cl;
    s->fd = fd;
    if (uv_poll_init_socket(loop_uv(cl->loop), &s->poll, fd) != 0) {
        mem_free(NULL, s, sizeof *s);
        return NULL;
    }
    handle_opened(cl);
    curl_multi_assign(cl->multi, fd, s);
    return s;
}

// An error from on_socket would end all transfers. So it notes the one that cannot go on.
static void note_blind(struct client *cl, CURL *easy)
{
    struct http_call_private *p = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &p);
    if (!p || p->blind) return;
    p->blind = true;
    p->next = cl->blind;
    cl->blind = p;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct client *cl = arg;
    struct socket *s = socket_arg;
    if (what == CURL_POLL_REMOVE) {
        if (!s) return 0;
        uv_poll_stop(&s->poll);
        curl_multi_assign(cl->multi, fd, NULL);
        uv_close((uv_handle_t *)&s->poll, on_socket_closed);
        return 0;
    }
    if (!s) s = watch(cl, fd);
    int events = 0;
    if (what & CURL_POLL_IN) events |= UV_READABLE;
    if (what & CURL_POLL_OUT) events |= UV_WRITABLE;
    if (!s || uv_poll_start(&s->poll, events, on_ready) != 0) note_blind(cl, easy);
    return 0;
}

static void on_time(uv_timer_t *t)
{
    act(CONTAINER_OF(t, struct client, timer), CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    struct client *cl = arg;
    if (timeout_ms < 0)
        uv_timer_stop(&cl->timer);
    else
        uv_timer_start(&cl->timer, on_time, (uint64_t)timeout_ms, 0);
    return 0;
}

// ---- life of the client

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void open_on_loop(void *arg)
{
    struct client *cl = arg;
    uv_timer_init(loop_uv(cl->loop), &cl->timer);
    handle_opened(cl);
}

struct client *client_new(struct loop *l, struct mem_budget *memory, unsigned connections_per_host,
                          err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_curl);
    assert(connections_per_host > 0);
    metric_register(net_metrics, net_metric_count);
    struct client *cl = mem_must(sizeof *cl);
    cl->loop = l;
    cl->memory = memory;
    cl->connections_per_host = connections_per_host;
    cl->multi = curl_multi_init();
    if (!cl->multi) {
        err_set(e, ERR_RESOURCE_EXHAUSTED, "libcurl does not start");
        mem_must_free(cl);
        return NULL;
    }
    curl_multi_setopt(cl->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(cl->multi, CURLMOPT_SOCKETDATA, cl);
    curl_multi_setopt(cl->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(cl->multi, CURLMOPT_TIMERDATA, cl);
    curl_multi_setopt(cl->multi, CURLMOPT_MAXCONNECTS, CACHED_MAX);
    lock_init(&cl->lock, LOCK_SERVER);
    cond_init(&cl->closed);
    loop_run(l, open_on_loop, cl);
    return cl;
}

struct new_pem {
    struct client *client;
    struct tls_pem pem;
};

// On the loop, which alone reads the contents: no lock is needed. The old ones come back.
static void exchange_pem(void *arg)
{
    struct new_pem *n = arg;
    struct tls_pem before = n->client->pem;
    n->client->pem = n->pem;
    n->pem = before;
}

bool client_set_tls(struct client *c, const struct client_tls *tls, err *e)
{
    struct new_pem n = {.client = c};
    if (!tls_pem_read(&n.pem, tls->ca_file, tls->cert_file, tls->key_file, e)) return false;
    atomic_store(&c->has_certificate, n.pem.cert.n > 0);
    loop_run(c->loop, exchange_pem, &n);
    tls_pem_release(&n.pem);
    return true;
}

bool client_has_certificate(const struct client *c)
{
    return atomic_load(&c->has_certificate);
}

static void on_timer_closed(uv_handle_t *h)
{
    handle_closed(CONTAINER_OF((uv_timer_t *)h, struct client, timer));
}

static void close_on_loop(void *arg)
{
    struct client *cl = arg;
    assert(cl->running == 0 && !cl->hosts);
    while (cl->spare_count)
        curl_easy_cleanup(cl->spare[--cl->spare_count]);
    curl_multi_cleanup(cl->multi);
    uv_close((uv_handle_t *)&cl->timer, on_timer_closed);
}

static void nothing(void *arg)
{
    (void)arg;
}

void client_free(struct client *c)
{
    if (!c) return;
    loop_run(c->loop, close_on_loop, c);
    lock_take(&c->lock);
    while (c->handles > 0)
        cond_wait(&c->closed, &c->lock);
    lock_give(&c->lock);
    // The loop may still be about to give the lock back: after one more task it has.
    loop_run(c->loop, nothing, NULL);
    cond_release(&c->closed);
    lock_release(&c->lock);
    tls_pem_release(&c->pem);
    introductions_release(&c->said);
    mem_must_free(c);
}

// ---- calls

static void on_start(struct loop_task *t)
{
    struct http_call_private *p = CONTAINER_OF(t, struct http_call_private, start);
    struct client *cl = p->client;
    loop_assert(cl->loop);
    const struct http_call *c = p->call;
    struct host *h = host_of(cl, c->address, c->tls);
    if (!h) {
        err e = {0};
        err_set(&e, ERR_RESOURCE_EXHAUSTED, "%s %.*s%.*s: no memory for a request", c->method,
                STR(c->address), STR(c->path));
        finish(p, &e);
        return;
    }
    set_state(p, CALL_WAITING);
    wait_turn(h, p);
    start_waiting(cl, h);
    act(cl, CURL_SOCKET_TIMEOUT, 0);
}

static void on_stop(struct loop_task *t)
{
    struct http_call_private *p = CONTAINER_OF(t, struct http_call_private, stop);
    loop_assert(p->client->loop);
    if (p->state != CALL_OVER) {
        err e = {0};
        const struct http_call *c = p->call;
        err_set(&e, ERR_CANCELED, "%s %.*s%.*s: stopped", c->method, STR(c->address), STR(c->path));
        struct client *cl = p->client;
        struct host *h = p->host;
        finish(p, &e);
        if (h) start_waiting(cl, h);
    }
    unref(p);
}

static void stop_call(struct call *call)
{
    struct http_call *c = CONTAINER_OF(call, struct http_call, call);
    struct http_call_private *p = c->inner;
    if (atomic_exchange(&p->stop_posted, true)) return;
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);  // on_stop gives it back
    loop_post(p->client->loop, &p->stop);
}

void client_loopback(struct client *c, str address, struct server *s)
{
    c->loopback_address = address;
    c->loopback = s;
}

void client_introduce(struct client *c, str node, str cluster)
{
    introductions_say(&c->said, node, cluster);
}

bool client_introduction(const struct client *c, str *node, str *cluster)
{
    return introductions_get(&c->said, node, cluster);
}

void http_start(struct client *cl, struct req *r, struct http_call *c, enum rank rank)
{
    assert(!loop_is_any_here() && c->method && c->answer_max > 0);
    if (cl->loopback && !c->tls && str_eq(c->address, cl->loopback_address))
        return loopback_start(cl->loopback, cl->memory, r, c, rank);
    err e = {0};
    struct http_call_private *p = mem_alloc(NULL, sizeof *p, &e);
    c->inner = p;
    c->status = 0;
    c->answer_headers = (struct http_headers){0};
    buf_init(&c->answer, cl->memory, c->answer_max);
    call_begin(&c->call, rank, stop_call);
    if (!p) {
        call_finish(&c->call, &e);
        return;
    }
    p->call = c;
    p->client = cl;
    p->start.run = on_start;
    p->stop.run = on_stop;
    p->started_ns = clock_mono_ns();
    p->deadline_ns = r->deadline_mono_ns;
    atomic_store_explicit(&p->refs, 2, memory_order_relaxed);  // the job's and the loop's
    arena_init(&p->arena, cl->memory, HEAD_MAX);
    loop_post(cl->loop, &p->start);
}

void http_call_release(struct http_call *c)
{
    if (c->loopback) loopback_release(c);
    if (!c->inner) return;
    buf_release(&c->answer);
    c->answer_headers = (struct http_headers){0};
    unref(c->inner);
    c->inner = NULL;
}
