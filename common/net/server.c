// SPDX-License-Identifier: Apache-2.0
//
// server.c - listens, accepts connections and gives them to shards; and the end of a server.
#include "net/server.h"

#include "net/exchange.h"
#include "net/metrics.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ACCEPTS_A_TURN 64
#define BACKLOG        1024
#define TURNED_AWAY    64  // clients over the limit that may wait for their 503 at a time
#define SWEEP_MIN_NS   ((uint64_t)(5 * NS_PER_MS))
#define SWEEP_MAX_NS   ((uint64_t)NS_PER_S)
#define STILL_NS       ((uint64_t)NS_PER_S)  // a loop that is so late stood still

// ---- listening

static bool fail_listen(err *e, const char *address, const char *what, int fd)
{
    int fault = errno;
    if (fd >= 0) (void)close(fd);
    char text[128];
    return err_set(e, ERR_UNAVAILABLE, "listen on %s: %s: %s", address, what,
                   strerror_r(fault, text, sizeof text));
}

// A process that was killed leaves its socket file behind, and bind would fail. The file is removed
// only if no process listens on it.
static void remove_stale(const struct sockaddr_un *un)
{
    struct stat st;
    if (lstat(un->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode)) return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    bool dead = connect(fd, (const struct sockaddr *)un, sizeof *un) != 0 && errno == ECONNREFUSED;
    (void)close(fd);
    if (dead) (void)!unlink(un->sun_path);
}

static bool listen_unix(struct server *s, const char *path, err *e)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof un.sun_path)
        return err_set(e, ERR_UNAVAILABLE, "listen on unix:%s: path is longer than %zu bytes", path,
                       sizeof un.sun_path - 1);
    memcpy(un.sun_path, path, strlen(path));
    remove_stale(&un);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return fail_listen(e, path, "socket", fd);
    if (bind(fd, (struct sockaddr *)&un, sizeof un) != 0) return fail_listen(e, path, "bind", fd);
    s->unix_path = strdup(path);
    // Before listen, so that no other user can connect: only our own processes talk over it.
    if (!s->unix_path || chmod(path, 0600) != 0 || listen(fd, BACKLOG) != 0)
        return fail_listen(e, path, "listen", fd);
    s->listener = fd;
    return true;
}

// "host:port", "[v6]:port", ":port"
static bool split_address(const char *address, char host[256], char port[16])
{
    str all = str_of(address);
    // The last colon: an IPv6 address has others before it.
    size_t colon = str_rfind(all, ':');
    if (colon == all.n) return false;
    str h = str_slice(all, 0, colon);
    str p = str_slice(all, colon + 1, all.n);
    if (str_starts(h, S("[")) && str_ends(h, S("]"))) h = str_slice(h, 1, h.n - 1);
    if (h.n >= 256 || p.n >= 16 || p.n == 0) return false;
    memcpy(host, h.p, h.n);
    host[h.n] = '\0';
    memcpy(port, p.p, p.n);
    port[p.n] = '\0';
    return true;
}

// IPV6_V6ONLY is set off, because its default is the system's: "[::]:4040" takes IPv4 as well.
static int bind_one(const struct addrinfo *ai)
{
    int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    int on = 1;
    int off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (ai->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int fault = errno;
    (void)close(fd);
    errno = fault;
    return -1;
}

static unsigned port_of(int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    // Asked for, because port 0 lets the system choose one (tests).
    if (getsockname(fd, (struct sockaddr *)&at, &n) != 0) return 0;
    char port[16];
    uint64_t v = 0;
    if (getnameinfo((struct sockaddr *)&at, n, NULL, 0, port, sizeof port, NI_NUMERICSERV) != 0 ||
        !str_u64(str_of(port), &v))
        return 0;
    return (unsigned)v;
}

static bool listen_tcp(struct server *s, const char *address, err *e)
{
    char host[256];
    char port[16];
    if (!split_address(address, host, port))
        return err_set(e, ERR_UNAVAILABLE, "listen on %s: not host:port or unix:/path", address);
    // The first address that can be bound is used: a name may stand for several.
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int fault = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
    if (fault) return err_set(e, ERR_UNAVAILABLE, "listen on %s: %s", address, gai_strerror(fault));
    int fd = -1;
    for (struct addrinfo *ai = found; ai && fd < 0; ai = ai->ai_next)
        fd = bind_one(ai);
    int why = errno;
    freeaddrinfo(found);
    errno = why;
    if (fd < 0) return fail_listen(e, address, "bind", fd);
    s->listener = fd;
    s->port = port_of(fd);
    return true;
}

static bool listen_on(struct server *s, const char *address, err *e)
{
    s->listener = -1;
    if (str_starts(str_of(address), S("unix:"))) return listen_unix(s, address + 5, e);
    return listen_tcp(s, address, e);
}

// ---- accepting

struct arrival {
    struct loop_task task;
    struct shard *shard;
    int fd;
    bool turned_away;
    char peer[64];
};

static const char too_many[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                               "Retry-After: 1\r\nConnection: close\r\n\r\n";

static void give_up(struct arrival *a)
{
    struct server *s = a->shard->server;
    // Both counts were taken in admit, on the accepting loop.
    assert(a->fd >= 0);
    (void)close(a->fd);
    atomic_fetch_sub(&s->connections, 1);
    if (a->turned_away) atomic_fetch_sub(&s->turned_away, 1);
}

static void on_arrival(struct loop_task *t)
{
    struct arrival *a = CONTAINER_OF(t, struct arrival, task);
    struct shard *s = a->shard;
    shard_tick(s);
    assert(loop_is_here(s->loop));
    bool first = !s->first;
    struct conn *c = conn_new(s, a->fd, a->peer);
    if (!c)
        give_up(a);
    else if (first)
        uv_timer_start(&s->sweep, s->sweep.timer_cb, s->sweep_ns / (uint64_t)NS_PER_MS,
                       s->sweep_ns / (uint64_t)NS_PER_MS);
    if (c && a->turned_away) {
        c->turned_away = true;
        conn_put(c, too_many, sizeof too_many - 1);
        conn_finish(c);
    } else if (c && conn_is_draining(c)) {
        // It was accepted before the drain and arrived after drain_shard went round.
        conn_drain(c);
    }
    mem_free(NULL, a, sizeof *a);
}

static void describe_peer(const struct sockaddr_storage *at, socklen_t n, char peer[64])
{
    char host[48];
    char port[8];
    memcpy(peer, "unix", 5);
    if (at->ss_family != AF_INET && at->ss_family != AF_INET6) return;
    if (getnameinfo((const struct sockaddr *)at, n, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    bool v6 = at->ss_family == AF_INET6;
    (void)snprintf(peer, 64, v6 ? "[%s]:%s" : "%s:%s", host, port);
}

// Sends the 503 as far as that is possible without waiting. A client that has sent its request
// already may only see a reset.
static void refuse_connection(const struct server *s, int fd)
{
    if (!s->tls) (void)!send(fd, too_many, sizeof too_many - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    (void)close(fd);
}

// May a connection be taken? *turned_away: only to send it a 503, because it is over the limit.
// Only the accepting loop calls this, so that the limit is exact.
static bool admit(struct server *s, bool *turned_away)
{
    // In this order: conn_end counts `turned_away` down before `connections`, so `inside` may come
    // out too high for a moment, but never wraps below 0.
    unsigned all = atomic_load(&s->connections);
    unsigned away = atomic_load(&s->turned_away);
    assert(all >= away);
    unsigned inside = all - away;
    *turned_away = inside >= s->options.connections_max;
    if (*turned_away) {
        metric_add_to(&net_refused, S("connections"), 1);
        if (s->tls || away >= TURNED_AWAY) return false;  // a 503 over TLS would need a handshake
        atomic_fetch_add(&s->turned_away, 1);
    }
    atomic_fetch_add(&s->connections, 1);
    return true;
}

static void welcome(struct server *s, int fd, const struct sockaddr_storage *at, socklen_t n)
{
    bool turned_away = false;
    metric_add_to(&net_accepted, str_of(s->options.name), 1);
    err e = {0};
    struct arrival *a = mem_alloc(NULL, sizeof *a, &e);
    if (!a || !admit(s, &turned_away)) {
        mem_free(NULL, a, sizeof *a);
        refuse_connection(s, fd);
        return;
    }
    a->task.run = on_arrival;
    a->turned_away = turned_away;
    a->fd = fd;
    describe_peer(at, n, a->peer);
    if (!s->unix_path) {
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    assert(loop_is_here(s->shards[0].loop));
    a->shard = &s->shards[s->next_shard++ % s->shard_count];
    if (loop_is_here(a->shard->loop))
        on_arrival(&a->task);
    else
        loop_post(a->shard->loop, &a->task);
}

// Without a free file descriptor accept fails, the listener stays readable, and the loop would
// spin. So the spare descriptor is closed, one client is accepted and turned away, and the spare
// opened again.
static void shed_one(struct server *s)
{
    metric_add_to(&net_refused, S("descriptors"), 1);
    assert(loop_is_here(s->shards[0].loop));
    if (s->spare_fd >= 0) (void)close(s->spare_fd);
    int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) refuse_connection(s, fd);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_acceptable(uv_poll_t *h, int status, int events)
{
    struct server *s = CONTAINER_OF(h, struct server, accepting);
    (void)events;
    if (status < 0) return;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct sockaddr_storage at = {0};
        socklen_t n = sizeof at;
        int fd = accept4(s->listener, (struct sockaddr *)&at, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            welcome(s, fd, &at, n);
            continue;
        }
        // ECONNABORTED: the client left between its connect and our accept.
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) shed_one(s);
        return;
    }
}

// ---- shards

void shard_pass(struct shard *s, uint64_t mono_ns, uint64_t real_ns)
{
    assert(real_ns >= s->real_ns);
    uint64_t gap = real_ns - s->real_ns;
    // With connections the sweep timer wakes the loop every sweep_ns. A much longer gap means that
    // the process or its machine stood still, and clients are not to blame for that time.
    if (s->first && s->real_ns && gap > s->sweep_ns + STILL_NS) s->stood_ns += gap - s->sweep_ns;
    s->real_ns = real_ns;
    s->now_ns = mono_ns - s->stood_ns;
}

// Tests set the monotonic clock forward (sys/clock.h) to let time limits pass. Standing still is
// therefore seen by libuv's clock, which they cannot set.
void shard_tick(struct shard *s)
{
    shard_pass(s, clock_mono_ns(), uv_hrtime());
}

// libuv runs timers before it polls sockets, where the very bytes may wait whose absence would end
// a connection. So the limits are checked at the end of the turn, and for the time that it is now:
// a poll that a signal interrupts ends the turn with what came meanwhile unread.
static void on_sweep(uv_timer_t *t)
{
    struct shard *s = CONTAINER_OF(t, struct shard, sweep);
    shard_tick(s);
    s->sweep_due = true;
}

static void on_turn_end(uv_check_t *h)
{
    struct shard *s = CONTAINER_OF(h, struct shard, turn_end);
    // Answers of workers that were posted "later" belong to this turn's output.
    loop_catch_up(s->loop);
    shard_send_output(
        s);  // before the limits: output that the socket takes now is no client's delay
    if (!s->sweep_due) return;
    s->sweep_due = false;
    for (struct conn *c = s->first; c; c = c->next)
        conn_sweep(c);  // conn_close keeps the memory until a later turn, so c->next holds
    shard_send_output(s);
}

static void open_shard(void *arg)
{
    struct shard *s = arg;
    uv_timer_init(s->uv, &s->sweep);
    s->sweep.timer_cb = on_sweep;
    uv_check_init(s->uv, &s->turn_end);
    uv_check_start(&s->turn_end, on_turn_end);
    atomic_fetch_add(&s->server->handles, 2);
}

static void start_accepting(void *arg)
{
    struct server *s = arg;
    s->accepting_open = uv_poll_init(loop_uv(s->shards[0].loop), &s->accepting, s->listener) == 0;
    if (!s->accepting_open) return;
    assert(s->listener >= 0);
    atomic_fetch_add(&s->handles, 1);
    uv_poll_start(&s->accepting, UV_READABLE, on_acceptable);
}

void server_handle_closed(struct server *s)
{
    // Under the lock, unlike other counts: server_close frees the server when `handles` is 0.
    assert(atomic_load(&s->handles) > 0);
    lock_take(&s->lock);
    if (atomic_fetch_sub(&s->handles, 1) == 1) cond_wake_all(&s->change);
    lock_give(&s->lock);
}

static void on_accepting_closed(uv_handle_t *h)
{
    struct server *s = CONTAINER_OF((uv_poll_t *)h, struct server, accepting);
    (void)close(s->listener);
    s->listener = -1;
    server_handle_closed(s);
}

static void on_sweep_closed(uv_handle_t *h)
{
    server_handle_closed(CONTAINER_OF((uv_timer_t *)h, struct shard, sweep)->server);
}

static void on_turn_end_closed(uv_handle_t *h)
{
    server_handle_closed(CONTAINER_OF((uv_check_t *)h, struct shard, turn_end)->server);
}

static void stop_accepting(void *arg)
{
    struct server *s = arg;
    if (!s->accepting_open) return;
    s->accepting_open = false;
    uv_close((uv_handle_t *)&s->accepting, on_accepting_closed);
}

static void drain_shard(void *arg)
{
    struct shard *s = arg;
    shard_tick(s);
    for (struct conn *c = s->first; c; c = c->next)
        conn_drain(c);
}

static void cut_shard(void *arg)
{
    struct shard *s = arg;
    for (struct conn *c = s->first; c; c = c->next)
        conn_close(c);
}

static void close_shard(void *arg)
{
    struct shard *s = arg;
    uv_close((uv_handle_t *)&s->sweep, on_sweep_closed);
    uv_close((uv_handle_t *)&s->turn_end, on_turn_end_closed);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void on_each(struct server *s, void (*fn)(void *shard))
{
    // One after the other: loop_run waits, so all of the shard's work is done when it returns.
    for (size_t i = 0; i < s->shard_count; i++)
        loop_run(s->shards[i].loop, fn, &s->shards[i]);
}

// Waits until *count is 0 or the time has come (UINT64_MAX: never). True: it is 0.
static bool await_zero(struct server *s, _Atomic unsigned *count, uint64_t until_ns)
{
    bool in_time = true;
    lock_take(&s->lock);
    while (in_time && atomic_load(count) > 0) {
        if (until_ns == UINT64_MAX)
            cond_wait(&s->change, &s->lock);
        else
            in_time = cond_wait_until(&s->change, &s->lock, until_ns);
    }
    lock_give(&s->lock);
    return atomic_load(count) == 0;
}

static uint64_t sweep_period(const struct server_options *o)
{
    uint64_t least =
        MIN(MIN(o->head_timeout_ns, o->body_timeout_ns),
            // A quarter of the shortest limit, so that no limit is exceeded by more than that.
            MIN(o->idle_timeout_ns, o->write_timeout_ns));
    return MIN(MAX(least / 4, SWEEP_MIN_NS), SWEEP_MAX_NS);
}

static void free_server(struct server *s)
{
    tls_context_free(s->tls);
    if (s->listener >= 0) (void)close(s->listener);
    if (s->unix_path) (void)!unlink(s->unix_path);
    if (s->spare_fd >= 0) (void)close(s->spare_fd);
    free(s->unix_path);
    cond_release(&s->change);
    lock_release(&s->lock);
    mem_must_free(s->shards);
    mem_must_free(s);
}

struct server *server_open(const struct server_options *o, struct server_app app,
                           struct loop *const *loops, size_t loop_count, err *e)
{
    assert(loop_count > 0 && o->head_max > 0 && o->connections_max > 0);
    assert(app.head && app.run && app.refuse);
    assert(!loop_is_any_here());
    metric_register(net_metrics, net_metric_count);
    metric_set_to(&net_connections_limit, str_of(o->name), o->connections_max);
    struct server *s = mem_must(sizeof *s);
    s->options = *o;
    s->app = app;
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    s->held.key = rand_key();
    lock_init(&s->lock, LOCK_SERVER);
    cond_init(&s->change);
    if (!listen_on(s, o->listen, e)) goto fail;
    if (o->tls_cert_file) {
        s->tls = tls_context_new(o->tls_cert_file, o->tls_key_file, o->tls_client_ca_file, e);
        if (!s->tls) goto fail;
    }
    s->shards = mem_must(loop_count * sizeof *s->shards);
    s->shard_count = loop_count;
    for (size_t i = 0; i < loop_count; i++) {
        struct shard *at = &s->shards[i];
        at->server = s;
        at->loop = loops[i];
        at->uv = loop_uv(loops[i]);
        at->sweep_ns = sweep_period(o);
        loop_run(at->loop, open_shard, at);
    }
    loop_run(loops[0], start_accepting, s);
    // Accepting begins last: from there on requests come, on all shards.
    if (s->accepting_open) return s;
    err_set(e, ERR_UNAVAILABLE, "listen on %s: the loop does not take the socket", o->listen);
    server_close(s);
    return NULL;
fail:
    free_server(s);
    return NULL;
}

bool server_check_tls(const char *cert_file, const char *key_file, const char *client_ca_file,
                      err *e)
{
    struct tls_context *t = tls_context_new(cert_file, key_file, client_ca_file, e);
    if (t) tls_context_free(t);
    return t != NULL;
}

bool server_reload_tls(struct server *s, err *e)
{
    const struct server_options *o = &s->options;
    return !s->tls ||
           tls_context_reload(s->tls, o->tls_cert_file, o->tls_key_file, o->tls_client_ca_file, e);
}

unsigned server_port(const struct server *s)
{
    return s->port;
}

void server_drain(struct server *s, uint64_t timeout_ns)
{
    uint64_t until = clock_mono_ns() + timeout_ns;
    atomic_store(&s->draining, true);  // first: connections accepted from here on drain themselves
    loop_run(s->shards[0].loop, stop_accepting, s);
    assert(!loop_is_any_here());  // loops must go on while this waits
    on_each(s, drain_shard);
    if (await_zero(s, &s->connections, until)) return;
    on_each(s, cut_shard);
    (void)await_zero(s, &s->connections, UINT64_MAX);
}

// In this order: exchanges need connections and loops to end, shards may only be closed without
// exchanges, and the memory may only be freed without handles.
void server_close(struct server *s)
{
    if (!s) return;
    server_drain(s, 0);
    (void)await_zero(s, &s->exchanges, UINT64_MAX);
    on_each(s, close_shard);
    (void)await_zero(s, &s->handles, UINT64_MAX);
    on_each(s, nothing);  // the loop that counted down last may still hold the lock
    assert(atomic_load(&s->connections) == 0 && atomic_load(&s->exchanges) == 0);
    free_server(s);
}
