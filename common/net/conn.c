// SPDX-License-Identifier: Apache-2.0
//
// conn.c - a connection from accept to close: its states, which protocol it speaks, and what waits
// to be written.
#include "net/conn.h"

#include "net/exchange.h"
#include "net/metrics.h"
#include "net/tls.h"
#include "sys/clock.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

// Bounds for one connection in one turn of the loop, so that a fast client does not keep the others
// of its shard waiting.
#define READS_A_TURN  4   // of CONN_CHUNK
#define WRITES_A_TURN 16  // sendmsg calls
#define ROUNDS_A_TURN 16  // of flush and ops->more

static const char h2_preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static_assert(sizeof h2_preface - 1 == H2_PREFACE_BYTES, "RFC 9113 section 3.4");

#define BIT(state)       (1u << (CONN_##state))
#define INPUT_BIT(input) (1u << (CONN_INPUT_##input))

static const unsigned successors[CONN_STATES] = {
    [CONN_SNIFF] = BIT(OPEN) | BIT(FINISH) | BIT(CLOSED),
    [CONN_OPEN] = BIT(FINISH) | BIT(CLOSED),
    [CONN_FINISH] = BIT(LINGER) | BIT(CLOSED),
    [CONN_LINGER] = BIT(CLOSED),
    [CONN_CLOSED] = 0,
};

static const unsigned input_successors[CONN_INPUTS] = {
    [CONN_INPUT_MORE] = INPUT_BIT(UNREAD) | INPUT_BIT(HANGUP) | INPUT_BIT(OVER),
    [CONN_INPUT_UNREAD] = INPUT_BIT(MORE) | INPUT_BIT(HANGUP) | INPUT_BIT(OVER),
    [CONN_INPUT_HANGUP] = INPUT_BIT(OVER),
    [CONN_INPUT_OVER] = 0,
};

static void enter(struct conn *c, enum conn_state to)
{
    assert(c->state < CONN_STATES && (successors[c->state] & 1u << to));
    c->state = to;
}

static void enter_input(struct conn *c, enum conn_input to)
{
    assert(c->input < CONN_INPUTS && (input_successors[c->input] & 1u << to));
    c->input = to;
}

// From FINISH on the protocol has said its last word, and input could only start a second one.
static bool takes_input(const struct conn *c)
{
    return c->state == CONN_SNIFF || c->state == CONN_OPEN;
}

void conn_timed_out(const char *kind)
{
    metric_add_to(&net_timeouts, str_of(kind), 1);
}

size_t conn_pending(const struct conn *c)
{
    assert(c->out_at <= c->out.n);
    return c->out.n - c->out_at + c->lent.n;
}

bool conn_may_say_more(const struct conn *c)
{
    size_t pending = conn_pending(c);
    bool counted = c->out.room <= CONN_OUT_KEEP || c->out_counted == c->out.room;
    return pending == 0 || (counted && pending < CONN_OUT_MANY);
}

// Output must work without the budget, to say that it is used up; so this cannot fail.
static void count_output(struct conn *c)
{
    const struct server_options *o = &c->shard->server->options;
    struct mem_budget *memory = o->answers ? o->answers : o->memory;
    size_t room = c->out.room > CONN_OUT_KEEP ? c->out.room : 0;
    err e = {0};
    // Small output is not counted, so that short answers cost no update of shared counters.
    if (room < c->out_counted) {
        mem_unreserve(memory, c->out_counted - room);
        c->out_counted = room;
    } else if (room > c->out_counted && mem_reserve(memory, room - c->out_counted, &e)) {
        c->out_counted = room;
    }
}

// Output that can never become records does not count: the connection would wait for a writable
// socket, be woken at once, and have nothing to write, again and again until the write time limit.
static size_t pending_on_wire(const struct conn *c)
{
    if (!c->tls) return conn_pending(c);
    return tls_pending(c->tls).n + (tls_may_seal(c->tls) ? conn_pending(c) : 0);
}

void conn_dirty(struct conn *c)
{
    if (c->dirty_link || c->state == CONN_CLOSED) return;
    struct conn **first = &c->shard->dirty;
    c->dirty_next = *first;
    if (c->dirty_next) c->dirty_next->dirty_link = &c->dirty_next;
    c->dirty_link = first;
    *first = c;
}

static void undirty(struct conn *c)
{
    if (!c->dirty_link) return;
    assert(*c->dirty_link == c);
    *c->dirty_link = c->dirty_next;
    if (c->dirty_next) c->dirty_next->dirty_link = c->dirty_link;
    c->dirty_link = NULL;
    c->dirty_next = NULL;
}

void conn_put(struct conn *c, const void *p, size_t n)
{
    assert(c->lent.n == 0);  // output is `out`, then `lent`: these bytes would overtake it
    // An answer may come after its client left; the protocol need not ask.
    if (c->state == CONN_CLOSED) return;
    buf_put(&c->out, p, n);
    if (c->out.failed) conn_close(c);
    if (c->out.room != c->out_counted) count_output(c);
    conn_dirty(c);
}

void conn_lend(struct conn *c, str bytes)
{
    assert(c->lent.n == 0);
    c->lent = bytes;
    conn_dirty(c);
}

// ---- life

struct conn *conn_new(struct shard *s, int fd, const char *peer)
{
    err e = {0};
    struct conn *c = mem_alloc(NULL, sizeof *c, &e);
    if (!c) return NULL;
    c->reader = reader_new();
    if (!c->reader) {
        mem_free(NULL, c, sizeof *c);
        return NULL;
    }
    c->shard = s;
    c->fd = fd;
    c->mark_ns = s->now_ns;
    // Input is counted: it grows as clients like. So is output, but it must work when the budget is
    // used up, to say so: count_output.
    buf_init(&c->in, s->server->options.memory, s->server->options.head_max + 2 * CONN_CHUNK);
    buf_init(&c->out, NULL, CONN_OUT_MAX);
    memcpy(c->peer, peer, MIN(strlen(peer), sizeof c->peer - 1));
    if (fd >= 0 && uv_poll_init(s->uv, &c->poll, fd) != 0) {
        reader_drop(c->reader);
        mem_free(NULL, c, sizeof *c);
        return NULL;
    }
    c->next = s->first;
    if (c->next) c->next->prev = c;
    s->first = c;
    metric_add_to(&net_connections, str_of(s->server->options.name), 1);
    conn_dirty(c);
    return c;
}

void conn_end(struct conn *c)
{
    struct shard *s = c->shard;
    if (c->state != CONN_CLOSED) enter(c, CONN_CLOSED);
    assert(!s->loop || loop_is_here(s->loop));
    undirty(c);
    while (c->exchanges)
        exchange_abandon(c->exchanges);
    if (c->ops) c->ops->release(c);
    tls_free(c->tls);
    if (c->fd >= 0) (void)close(c->fd);
    buf_release(&c->in);
    buf_release(&c->out);
    count_output(c);  // `out` has no room now, so this gives back all that was counted
    assert(c->out_counted == 0 && !c->exchanges);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->first = c->next;
    if (c->next) c->next->prev = c->prev;
    struct server *server = s->server;
    metric_add_to(&net_connections, str_of(server->options.name), UINT64_MAX);
    if (c->turned_away) atomic_fetch_sub(&server->turned_away, 1);
    reader_drop(c->reader);
    mem_free(NULL, c, sizeof *c);
    // Without connections there are no time limits, and the loop may sleep.
    if (!s->first && s->loop) uv_timer_stop(&s->sweep);
    // The count goes down last, after `turned_away`: admit reads them in the opposite order.
    if (atomic_fetch_sub(&server->connections, 1) != 1 || !atomic_load(&server->draining)) return;
    lock_take(&server->lock);
    cond_wake_all(&server->change);
    lock_give(&server->lock);
}

// Here, and not in conn_close: libuv may still name the handle in this turn.
static void on_closed(uv_handle_t *h)
{
    conn_end(CONTAINER_OF((uv_poll_t *)h, struct conn, poll));
}

void conn_close(struct conn *c)
{
    if (c->state == CONN_CLOSED) return;
    undirty(c);
    assert(!c->dirty_link);
    enter(c, CONN_CLOSED);
    // Exchanges stay in the list until conn_end: callers up the stack may hold one.
    for (struct exchange *ex = c->exchanges; ex; ex = ex->next) {
        exchange_silence(ex);
        exchange_cancel(ex);
    }
    if (c->fd >= 0) uv_close((uv_handle_t *)&c->poll, on_closed);
}

void conn_finish(struct conn *c)
{
    if (takes_input(c)) enter(c, CONN_FINISH);
    conn_dirty(c);
}

static void linger(struct conn *c)
{
    bool alone = c->input == CONN_INPUT_OVER || c->fd < 0;  // nothing can come any more
    if (alone || shutdown(c->fd, SHUT_WR) != 0) {
        conn_close(c);
        return;
    }
    assert(pending_on_wire(c) == 0);
    enter(c, CONN_LINGER);
    c->mark_ns = c->shard->now_ns;
}

// ---- input

static void open_protocol(struct conn *c, const struct conn_ops *ops)
{
    assert(!c->ops);
    c->ops = ops;
    enter(c, CONN_OPEN);
    ops->open(c);
    // open may have closed it already, for want of memory.
    if (conn_is_draining(c) && c->state == CONN_OPEN) ops->drain(c);
}

static void keep_input(struct conn *c, const char *p, size_t n)
{
    buf_put(&c->in, p, n);
    if (c->in.failed) conn_close(c);
}

// The first bytes decide. As long as they could be the beginning of the HTTP/2 preface, wait: no
// HTTP/1.1 request is a prefix of it, and sweep limits the time.
static void sniff(struct conn *c, const char *p, size_t n)
{
    char seen[H2_PREFACE_BYTES];
    size_t kept = MIN(c->in.n, sizeof seen);
    if (kept) memcpy(seen, c->in.p, kept);
    size_t more = MIN(n, sizeof seen - kept);
    memcpy(seen + kept, p, more);
    size_t have = kept + more;
    bool like_h2 = memcmp(seen, h2_preface, have) == 0;
    if (like_h2 && have < sizeof seen) {
        keep_input(c, p, n);
        return;
    }
    // The kept bytes are fewer than the preface has, and the protocol gets them first.
    assert(c->in.n < H2_PREFACE_BYTES);
    open_protocol(c, like_h2 ? &h2_ops : &h1_ops);
    struct buf before = buf_take(&c->in);  // the protocol keeps its own bytes in c->in
    if (before.n && c->state == CONN_OPEN) c->ops->feed(c, before.p, before.n);
    buf_release(&before);
    if (c->state == CONN_OPEN) c->ops->feed(c, p, n);
}

void conn_plain(struct conn *c, const char *p, size_t n)
{
    if (!takes_input(c) || n == 0) return;
    if (c->tls && !c->ops && tls_chose_h2(c->tls)) open_protocol(c, &h2_ops);
    if (c->state == CONN_SNIFF)
        sniff(c, p, n);
    else if (c->state == CONN_OPEN)
        c->ops->feed(c, p, n);
}

#define TLS_HANDSHAKE_RECORD 0x16  // RFC 8446 section 5.1

void conn_feed(struct conn *c, const char *p, size_t n)
{
    if (!takes_input(c) || n == 0) return;
    assert(n <= CONN_CHUNK);
    struct tls_context *context = c->shard->server->tls;
    // A port with TLS takes plain HTTP as well, unless tls_required: probes and local tools use it.
    bool first = c->state == CONN_SNIFF && !c->tls && c->in.n == 0;
    if (first && context && p[0] == TLS_HANDSHAKE_RECORD) {
        c->tls = tls_new(context);
        if (!c->tls) {
            conn_close(c);
            return;
        }
    } else if (first && context && c->shard->server->options.tls_required) {
        static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
                                   "Content-Length: 22\r\nConnection: close\r\n\r\n"
                                   "this port speaks TLS.\n";
        metric_add_to(&net_refused, S("not_tls"), 1);
        conn_put(c, text, sizeof text - 1);
        conn_finish(c);
        return;
    }
    if (!c->tls) {
        conn_plain(c, p, n);
    } else if (!tls_feed(c, p, n)) {
        conn_finish(c);  // not conn_close: the alert that says why may wait to be sent
    }
    conn_dirty(c);
}

static void input_over(struct conn *c)
{
    enter_input(c, CONN_INPUT_OVER);
    if (c->state == CONN_OPEN)
        c->ops->input_over(c);
    else
        conn_close(c);
    conn_dirty(c);
}

// LINGER reads to drop the bytes: unread bytes would make the kernel answer with a reset. SNIFF and
// OPEN read to use them, but not while the client leaves much output unread.
static bool wants_input(const struct conn *c)
{
    if (c->input == CONN_INPUT_OVER) return false;
    if (c->state == CONN_FINISH || c->state == CONN_CLOSED) return false;
    if (c->state != CONN_OPEN) return true;
    return pending_on_wire(c) <= CONN_OUT_MANY && c->ops->wants_input(c);
}

static void read_socket(struct conn *c)
{
    struct shard *s = c->shard;
    for (int i = 0; i < READS_A_TURN && wants_input(c); i++) {
        ssize_t n = recv(c->fd, s->chunk, sizeof s->chunk, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) {
            conn_close(c);
            return;
        }
        if (n == 0) {
            input_over(c);
            return;
        }
        // conn_feed may close the connection; wants_input ends the loop then.
        metric_add(&net_bytes_in, (uint64_t)n);
        conn_feed(c, s->chunk, (size_t)n);
        if ((size_t)n < sizeof s->chunk) return;  // the socket is empty: saves a call
    }
}

// Notes what the client did while we do not read. Its FIN shows as readable as long as we poll for
// that, and as a disconnect otherwise (set_interest).
static void inspect_input(struct conn *c, int events)
{
    if (c->input == CONN_INPUT_HANGUP || c->input == CONN_INPUT_OVER) return;
    bool readable = events & UV_READABLE;
    bool wanted = wants_input(c);
    // Readable and wanted: read_socket reads next, and finds a FIN itself.
    enum conn_input now = readable && !wanted ? CONN_INPUT_UNREAD : CONN_INPUT_MORE;
    if ((events & UV_DISCONNECT) && !readable && !wanted) {
        now = CONN_INPUT_HANGUP;
        for (struct exchange *ex = c->exchanges; ex; ex = ex->next)
            exchange_cancel(ex);  // it may still read the answers, so the connection stays
    }
    if (now != c->input) enter_input(c, now);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct conn *c = CONTAINER_OF(h, struct conn, poll);
    shard_tick(c->shard);
    // Before anything else: an event may make output, and a worker must not send at the same time.
    conn_recall(c);
    if (status < 0) {
        conn_close(c);
        return;
    }
    inspect_input(c, events);
    if (events & UV_READABLE) read_socket(c);
    conn_dirty(c);
}

// ---- output

void conn_recall(struct conn *c)
{
    // Only HTTP/1.1 makes offers, and has one exchange at a time.
    if (c->exchanges) exchange_recall(c->exchanges);
}

static void wrote(struct conn *c, size_t n)
{
    metric_add(&net_bytes_out, n);
    c->write_bytes += n;
    // Only so many bytes count as progress: a client that reads one byte a second has none.
    if (c->write_bytes < PROGRESS_BYTES) return;
    c->write_bytes = 0;
    c->write_ns = c->shard->now_ns;
}

void conn_take_written(struct conn *c, size_t n)
{
    size_t first = MIN(n, c->out.n - c->out_at);
    c->out_at += first;
    n -= first;
    assert(n <= c->lent.n);
    if (c->out_at == c->out.n) {
        c->out_at = 0;
        buf_clear(&c->out);
        if (c->out.room > CONN_OUT_KEEP) buf_release(&c->out);
        if (c->out_counted) count_output(c);
    }
    c->lent = str_slice(c->lent, n, c->lent.n);
}

// Sends some; false if the socket takes no more now (or the connection is closed).
static bool send_some(struct conn *c)
{
    struct iovec iov[2];
    size_t count = 0;
    if (c->tls) {
        if (!tls_seal(c)) {
            conn_close(c);
            return false;
        }
        str records = tls_pending(c->tls);
        iov[count++] = (struct iovec){conn_unconst(records.p), records.n};
    } else {
        if (c->out.n > c->out_at)
            iov[count++] = (struct iovec){c->out.p + c->out_at, c->out.n - c->out_at};
        if (c->lent.n) iov[count++] = (struct iovec){conn_unconst(c->lent.p), c->lent.n};
    }
    // Under TLS there may be output that makes no record yet: the handshake waits for the client.
    if (count == 0 || (count == 1 && iov[0].iov_len == 0)) return false;
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = count};
    assert(c->fd >= 0);
    ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        if (errno == EINTR) return true;
        if (errno != EAGAIN) conn_close(c);
        return false;
    }
    wrote(c, (size_t)n);
    if (c->tls)
        tls_sent(c->tls, (size_t)n);
    else
        conn_take_written(c, (size_t)n);
    return true;
}

// Without a socket, output stays where a test finds it: lent pieces are copied there.
static void keep_output(struct conn *c)
{
    str lent = c->lent;
    c->lent = (str){0};
    buf_str(&c->out, lent);
}

static bool flush(struct conn *c)  // true: nothing is left to send
{
    if (c->fd < 0) {
        keep_output(c);
        return c->state != CONN_CLOSED;
    }
    int i = 0;
    while (i++ < WRITES_A_TURN && send_some(c))
        ;
    return c->state != CONN_CLOSED && pending_on_wire(c) == 0;
}

// eager: the connection has had its share of this turn and has more to say. A writable socket then
// wakes us in the next turn, after the other connections.
static void set_interest(struct conn *c, bool eager)
{
    if (c->fd < 0) return;
    assert(c->state != CONN_CLOSED);
    int interest = 0;
    bool may_leave = c->input == CONN_INPUT_MORE || c->input == CONN_INPUT_UNREAD;
    if (wants_input(c)) interest |= UV_READABLE;
    if (pending_on_wire(c) || eager) interest |= UV_WRITABLE;
    if (may_leave && !(interest & UV_READABLE)) interest |= UV_DISCONNECT;
    if (interest == c->interest) return;
    // A client that waits for its answer sends nothing, as a rule. Until it does (or leaves, which
    // shows as readable as well) polling stays as it is: so a request costs no epoll_ctl.
    bool quiet = c->input == CONN_INPUT_MORE;
    if (interest == UV_DISCONNECT && c->interest == UV_READABLE && quiet) return;
    if ((interest & ~c->interest) & UV_WRITABLE) {  // from now on the client keeps us waiting
        c->write_ns = c->shard->now_ns;
        c->write_bytes = 0;
    }
    c->interest = interest;
    int failed = interest ? uv_poll_start(&c->poll, interest, on_poll) : uv_poll_stop(&c->poll);
    if (failed) conn_close(c);
}

void conn_send_output(struct conn *c)
{
    bool empty = flush(c);
    int rounds = 0;
    while (empty && c->state == CONN_OPEN && rounds < ROUNDS_A_TURN) {
        if (!c->ops->more(c)) break;
        empty = flush(c);
        rounds++;
    }
    if (empty && c->state == CONN_FINISH) {
        if (c->tls) tls_say_goodbye(c);  // close_notify is output, so it has to be sent as well
        // If the socket took not all, it wakes us when it is writable, and this comes again.
        if (flush(c)) linger(c);
    }
    if (c->state != CONN_CLOSED) set_interest(c, rounds == ROUNDS_A_TURN);
}

void shard_send_output(struct shard *s)
{
    while (s->dirty) {
        struct conn *c = s->dirty;
        // Taken out first: what happens in its turn may mark it, or others, again.
        undirty(c);
        conn_send_output(c);
    }
}

// ---- time

// For clients that do not read: after an ordinary close the kernel would keep the unsent bytes, and
// try to send them, for minutes.
void conn_reset(struct conn *c)
{
    struct linger none = {.l_onoff = 1};
    if (c->fd >= 0) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    conn_close(c);
}

void conn_sweep(struct conn *c)
{
    const struct server_options *o = &c->shard->server->options;
    uint64_t now = c->shard->now_ns;
    if (c->state == CONN_CLOSED) return;
    if (c->state == CONN_LINGER) {
        if (now > c->mark_ns + LINGER_NS) conn_close(c);
        return;
    }
    // A client that does not read is late whatever the protocol waits for, so this comes first.
    if (pending_on_wire(c) > 0 && now > c->write_ns + o->write_timeout_ns) {
        conn_timed_out("write");
        conn_reset(c);
        return;
    }
    if (c->state == CONN_SNIFF && now > c->mark_ns + o->head_timeout_ns) {
        conn_timed_out(c->tls ? "handshake" : "head");
        conn_close(c);
        return;
    }
    if (c->state == CONN_OPEN) c->ops->sweep(c);
}

bool conn_is_draining(const struct conn *c)
{
    return atomic_load_explicit(&c->shard->server->draining, memory_order_relaxed);
}

void conn_drain(struct conn *c)
{
    conn_recall(c);
    // A client that has sent nothing yet loses nothing.
    if (c->state == CONN_SNIFF && !c->tls && c->in.n == 0) conn_close(c);
    if (c->state == CONN_OPEN) c->ops->drain(c);
    conn_dirty(c);
}
