// SPDX-License-Identifier: Apache-2.0
//
// exchange.h - private to net: the life of one request, whatever protocol it came by.
//
//     exchange_new            HEAD
//     exchange_head           asks the app; BODY, or ANSWER when it is answered or refused at once
//     exchange_body           bytes of the body; ANSWER when they are too many
//     exchange_body_end       QUEUED, and then RUNNING in a worker
//     (the worker is done)    ANSWER: conn_ops.answer is called; HELD before, if the app says so
//     (or it sent the answer) ANSWER: conn_ops.sent is called, whenever the loop is awake next
//     exchange_end            DONE: freed
//
// A call from within the process (loopback.h) is an exchange without connection and loop: whoever
// makes its answer tells `done`.
//
// While QUEUED or RUNNING the exchange is the worker's; the loop only sets `canceled`. An exchange
// whose connection went away meanwhile is freed when the worker gives it back.
//
// A worker that made a small answer may send it itself, so that the loop need not be woken for it:
// a push that comes alone costs a switch of threads less. That is offered with the job where the
// connection says nothing else meanwhile (conn_ops.offers), and withdrawn under the exchange's lock
// before the loop does anything with the connection (exchange_recall): whoever holds the lock
// speaks. What the socket did not take goes the usual way.
#pragma once

#include "net/conn.h"

enum exchange_state {
    EXCHANGE_HEAD,
    EXCHANGE_BODY,
    EXCHANGE_QUEUED,
    EXCHANGE_RUNNING,
    EXCHANGE_HELD,
    EXCHANGE_ANSWER,
    EXCHANGE_DONE,
    EXCHANGE_STATES
};

struct exchange {
    struct http_exchange x;  // what the application sees
    struct server *server;
    struct conn *conn;  // loop only; NULL once the client is gone
    struct exchange *next;
    struct exchange *prev;
    struct loop *loop;
    struct job job;
    struct loop_task given_back;
    void (*done)(struct exchange *ex);  // of a call from within the process; else NULL
    struct http_call *call;             // the same
    struct hold *hold;                  // HELD
    bool offered;                       // loop only: to the worker, to send the answer itself
    const struct conn_ops *ops;         // of its connection, if it was offered; as the socket
    int fd;
    struct lock lock;  // of the two that follow, of a request with a connection
    bool may_send;     // offered, and not withdrawn
    bool sent;         // the worker did; x.out has what is left of the answer, or has failed
    _Atomic enum exchange_state state;
    struct mem_budget *from;  // what the exchange itself counts against
    struct arena kept;        // the request's arena, put aside by a refusal
    bool refused;             // app.refuse made the answer
    bool spare;               // the arena is not counted
    bool body_only_head;      // HEAD, 204, 304: no body is sent
    bool no_body;             // it was HEAD, as the method is forgotten
    bool vital;               // server_app.vital
    struct reader *reader;    // of its connection; NULL: from within the process
    size_t held;              // bytes of the answer that are counted (held.h)
    _Atomic size_t *held_of;  // of its tenant
    size_t owed;              // bytes that the connection had not read when the answer was made
    uint64_t sent_ns;         // when that was
    uint64_t mark_ns;         // last progress of what the client owes us
    size_t mark_bytes;
    struct h2_stream {
        int32_t id;
        size_t head_bytes;    // of names and values
        unsigned head_fault;  // status to refuse the head with
        bool input_over;      // END_STREAM came
        size_t sent;          // bytes of the body given to frames
    } h2;
};

// A new request of c; NULL when there is no memory.
struct exchange *exchange_new(struct conn *c, unsigned version);

// A call from within the process, canceled with `asker`. Its answer is told to `done`, once, by
// whichever thread made it, which does not touch the exchange after that. Fails with
// resource_exhausted, or unavailable while the server drains.
struct exchange *exchange_inside(struct server *s, const struct req *asker,
                                 void (*done)(struct exchange *ex), struct http_call *call,
                                 err *e) MUST_CHECK;

// From here on its arena is memory that does not count, so that it can be refused when the budget
// is used up. What was made before stays.
void exchange_spare(struct exchange *ex);

// The head is filled in, but there was no room for it: may it go on with memory that is kept for
// what must work even then?
bool exchange_is_vital(const struct exchange *ex);

// The head is filled in. length: of the body, UINT64_MAX if unknown. Returns true if the body is
// wanted; otherwise the answer was given to conn_ops.answer.
bool exchange_head(struct exchange *ex, uint64_t length);

// False: refused, answer was given to conn_ops.answer.
bool exchange_body(struct exchange *ex, const char *p, size_t n);

// All of it, of an exchange without a connection: borrowed until the exchange ends.
bool exchange_body_lent(struct exchange *ex, str body);
void exchange_body_end(struct exchange *ex);

// The client announces so many more bytes. False: that is over the limit, and it was refused.
bool exchange_body_fits(struct exchange *ex, uint64_t more);

// Lets the app refuse it with this HTTP status and fault, and gives the answer to the connection.
void exchange_refuse(struct exchange *ex, unsigned status, const err *e, const char *reason);

// Answers without asking the app, in plain text: what came is no request.
void exchange_reject(struct exchange *ex, unsigned status, const err *e, const char *reason);

// An event of its connection, or the connection closes; the loop. From here on the worker does not
// send. If it has sent already, the exchange ends now.
void exchange_recall(struct exchange *ex);
void exchange_silence(struct exchange *ex);  // the same, but it ends later

// The answer was written, or nobody wants it.
void exchange_end(struct exchange *ex);

// Its client is gone.
void exchange_abandon(struct exchange *ex);
void exchange_cancel(struct exchange *ex);  // tells a running handler only

// Takes a call from within the process out of its lane if it still waits there: true, and `done` is
// not told. The job that made it.
bool exchange_withdraw(struct exchange *ex);

bool exchange_has_head(const struct exchange *ex);
bool exchange_wants_body(const struct exchange *ex);
bool exchange_is_answered(const struct exchange *ex);

// Has the client owed us bytes of the body for too long?
bool exchange_body_late(const struct exchange *ex, uint64_t now_ns);

// The answer's body as it goes on the wire.
str exchange_answer(const struct exchange *ex);
