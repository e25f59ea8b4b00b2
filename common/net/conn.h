// SPDX-License-Identifier: Apache-2.0
//
// conn.h - private to net: connections of a server, and the shards they live in.
//
// A shard is the part of a server that runs on one loop: its connections there, one read buffer,
// one timer. Only the loop's thread touches it.
//
//     socket -> conn_feed -> [tls_feed] -> conn_plain -> ops->feed    (h1.c, h2.c)
//     exchange_* ... app ... ops->answer -> conn_put, conn_lend -> [tls_seal] -> socket
//
// A connection has two states, because its two sides move apart. conn_state says how far we are:
//
//     SNIFF   the protocol is unknown          the first bytes decide         -> OPEN
//     OPEN    a protocol reads and answers     conn_finish                    -> FINISH
//     FINISH  the last output is being sent; input stays in the socket
//                                              all output is sent             -> LINGER
//     LINGER  our side is shut; input is dropped, so that a reset by the kernel does not
//             destroy the last answer          end of input or LINGER_NS      -> CLOSED
//     CLOSED  the handle closes; its callback frees the memory, so pointers hold until the turn
//             ends. Any state may go to CLOSED: errors, time limits, cut_shard.
//
// conn_input says how far the client is. We learn that only as far as we read:
//
//     MORE    the client may send more, and we have read all that it sent
//     UNREAD  bytes (or a FIN) wait in the socket that we do not want yet     -> MORE when read
//     HANGUP  the client sent FIN; there may be bytes before it that we have not read
//     OVER    we have read the FIN, and all before it
//
// Both have a table of allowed successors in conn.c, which asserts it at each change. h1_phase and
// enum h2_state are the states of the protocols, and are asserted in the same way.
//
// Events neither write nor close by themselves: they mark the connection dirty. At the end of the
// loop's turn the shard sends output, asks the protocol for more, sets the events to poll for and
// closes the connections that are done. So one turn costs one sendmsg, however many events it had,
// and no protocol is called from within itself.
#pragma once

#include "loop/loop.h"
#include "net/h1_head.h"
#include "net/held.h"
#include "net/server.h"
#include "sys/lock.h"

#define CONN_CHUNK       ((size_t)64 << 10)   // bytes read at once
#define CONN_OUT_MANY    ((size_t)256 << 10)  // bytes waiting to be sent: produce no more beyond
#define CONN_OUT_MAX     ((size_t)16 << 20)   // one answer's head and copied frames lie far below
#define CONN_OUT_KEEP    ((size_t)4 << 10)    // memory that an idle connection may keep
#define PROGRESS_BYTES   ((size_t)64 << 10)   // so many bytes renew a body or write time limit
#define LINGER_NS        ((uint64_t)(2 * NS_PER_S))
#define H2_PREFACE_BYTES 24

// For libraries that read only but do not say const.
static inline void *conn_unconst(const void *p)
{
    void *q = NULL;
    memcpy(&q, &p, sizeof q);
    return q;
}

struct exchange;
struct tls;
struct h2;

struct server {
    struct server_options options;
    struct server_app app;
    struct tls_context *tls;  // NULL: no TLS
    struct shard *shards;
    size_t shard_count;
    int listener;
    uv_poll_t accepting;  // on the first shard's loop
    bool accepting_open;
    int spare_fd;       // closed for a moment when there are no file descriptors left (shed_one)
    size_t next_shard;  // new connections go to the shards in turn
    unsigned port;
    char *unix_path;
    _Atomic unsigned connections;  // accepted and not yet freed
    _Atomic unsigned turned_away;  // of these: over the limit, being sent a 503
    _Atomic unsigned exchanges;
    struct held held;
    atomic_bool draining;
    struct lock lock;          // for `change` only
    struct cond change;        // a connection, exchange or shard ended while draining
    _Atomic unsigned handles;  // of shards and the listener
};

// Counts down `handles`. Called on the loop of the handle that was closed.
void server_handle_closed(struct server *s);

struct shard {
    struct server *server;
    struct loop *loop;  // NULL in tests without a loop
    uv_loop_t *uv;
    uv_timer_t sweep;
    uv_check_t turn_end;
    struct conn *first;
    struct conn *dirty;
    uint64_t now_ns;    // monotonic time of the last event, less stood_ns
    uint64_t stood_ns;  // time in which the process or its machine stood still (shard_pass)
    uint64_t real_ns;   // time of the last event, by the clock that tests do not set
    uint64_t sweep_ns;
    bool sweep_due;
    char chunk[CONN_CHUNK];
};

enum conn_state {
    CONN_SNIFF,
    CONN_OPEN,
    CONN_FINISH,
    CONN_LINGER,
    CONN_CLOSED,
    CONN_STATES
};

enum conn_input {
    CONN_INPUT_MORE,
    CONN_INPUT_UNREAD,
    CONN_INPUT_HANGUP,
    CONN_INPUT_OVER,
    CONN_INPUTS
};

enum h1_phase {
    H1_HEAD,     // waits for or collects a head
    H1_BODY,     // reads a body with Content-Length
    H1_CHUNKS,   // reads a chunked body
    H1_WAIT,     // the answer is being made; or it was the last one, and the connection finishes
    H1_WRITE,    // the answer's body is being written, lent by the exchange
    H1_DISCARD,  // the request is answered; the rest of its small body is dropped
    H1_PHASES
};

struct h1 {
    enum h1_phase phase;
    struct h1_scan scan;
    struct h1_chunks chunks;
    uint64_t left;  // bytes of the body to come
    struct exchange *exchange;
    bool keep_alive;
    bool http10;
    bool expects_continue;
    bool chunked;
    bool body_whole;  // the whole request has been read
    uint64_t served;  // requests
};

struct conn {
    struct shard *shard;
    struct conn *next;
    struct conn *prev;
    struct conn *dirty_next;
    struct conn **dirty_link;  // points to the pointer to us in the list of the dirty; NULL: clean
    bool turned_away;          // over the limit: counted in server.turned_away until it is freed
    enum conn_state state;
    enum conn_input input;
    int fd;  // -1: no socket; output stays in `out`, where tests read it
    int interest;
    uv_poll_t poll;
    const struct conn_ops *ops;
    struct tls *tls;  // NULL: plain bytes
    struct h2 *h2;
    struct h1 h1;
    struct exchange *exchanges;  // all that are not DONE
    struct reader *reader;
    struct buf in;   // input that the protocol has not consumed; counts against the budget
    struct buf out;  // output, to be sent from out_at on
    size_t out_at;
    size_t out_counted;  // bytes of `out` that are counted against the budget
    str lent;            // output after `out`, borrowed from the exchange being written
    uint64_t mark_ns;    // when the current wait began: for a head, a request, the end of LINGER
    uint64_t write_ns;   // last progress of writing
    size_t write_bytes;  // since write_ns
    char peer[64];
};

struct conn_ops {
    const char *protocol;
    void (*open)(struct conn *c);

    // Takes all bytes; those that it cannot use yet it keeps in c->in.
    void (*feed)(struct conn *c, const char *p, size_t n);

    // An exchange has its answer.
    void (*answer)(struct conn *c, struct exchange *ex);

    // May a worker send the answer of this exchange, as `render` writes it? Only if the connection
    // will have no other output until that answer. NULL: never.
    bool (*offers)(const struct conn *c, const struct exchange *ex);
    void (*render)(const struct exchange *ex, struct buf *b);
    void (*sent)(struct conn *c, struct exchange *ex);  // a worker has sent the answer

    // All output was sent: go on with the work that waited for it. True if there may be more to
    // send.
    bool (*more)(struct conn *c);
    bool (*wants_input)(const struct conn *c);
    void (*input_over)(struct conn *c);
    void (*sweep)(struct conn *c);  // enforces time limits that have passed
    void (*drain)(struct conn *c);
    void (*release)(struct conn *c);
};

extern const struct conn_ops h1_ops;
extern const struct conn_ops h2_ops;

// A connection over fd, or without a socket (-1). NULL: no memory; fd is still the caller's.
struct conn *conn_new(struct shard *s, int fd, const char *peer);
void conn_feed(struct conn *c, const char *p, size_t n);   // bytes from the socket
void conn_plain(struct conn *c, const char *p, size_t n);  // bytes after TLS

// Output: copied, or one piece borrowed until ops->more is called. After a failed copy the
// connection is closed.
void conn_put(struct conn *c, const void *p, size_t n);
void conn_lend(struct conn *c, str bytes);
size_t conn_pending(const struct conn *c);  // bytes, without TLS' own

// May the protocol produce more output now? Copied output counts against the budget; when that is
// used up, the connection sends one frame at a time.
bool conn_may_say_more(const struct conn *c);

// Removes n bytes of output that the socket took, or that became TLS records.
void conn_take_written(struct conn *c, size_t n);

void conn_dirty(struct conn *c);
void conn_finish(struct conn *c);  // take no more input, and close once everything is sent
void conn_close(struct conn *c);   // now
void conn_reset(struct conn *c);   // now, by RST: the kernel drops bytes that are still unsent
void conn_recall(struct conn *c);  // an event came: workers may not send any more (exchange_recall)
void conn_send_output(struct conn *c);  // at the end of a turn: sends, asks for more, polls
void conn_sweep(struct conn *c);
void conn_drain(struct conn *c);
bool conn_is_draining(const struct conn *c);  // is the server about to close?
void conn_end(struct conn *c);                // frees it; for connections without a socket

// Counts a client that was too slow, by kind: head, body, idle, write.
void conn_timed_out(const char *kind);

void shard_send_output(struct shard *s);  // all dirty connections
void shard_tick(struct shard *s);         // an event came: reads the clocks
void shard_pass(struct shard *s, uint64_t mono_ns, uint64_t real_ns);  // the same, with these times
