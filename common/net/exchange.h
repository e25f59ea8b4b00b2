// SPDX-License-Identifier: Apache-2.0
//
// exchange.h - private to net: the life of one request, in any protocol.
//
//     exchange_new            HEAD
//     exchange_head           asks the app; BODY, or ANSWER when it is answered or refused at once
//     exchange_body           bytes of the body; ANSWER when they are too many
//     exchange_body_end       QUEUED, and then RUNNING in a worker
//     (the worker is done)    ANSWER: conn_ops.answer is called; HELD before, if the app says so
//     (or it sent the answer) ANSWER: conn_ops.sent is called, whenever the loop is awake next
//     exchange_end            DONE: freed
//
// A call from within the process (loopback.h) is an exchange without connection and loop: the
// thread that makes its answer calls `done`.
//
// While QUEUED or RUNNING the exchange belongs to the worker; the loop only sets `canceled`. If the
// connection goes away meanwhile, the exchange is freed when the worker gives it back.
//
// A worker that made a small answer may send it itself, so that the loop need not be woken: a push
// that comes alone then costs one switch of threads less. The loop offers this with the job if the
// connection will have no other output until then (conn_ops.offers). It withdraws the offer before
// it does anything with the connection (exchange_recall). Both sides decide under the exchange's
// lock, so exactly one of them writes to the socket. Bytes that the socket did not take are sent by
// the loop as usual.
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

// The offer to a worker to send its answer. Once the offer is open, both sides change it under the
// lock.
enum exchange_offer {
    OFFER_NONE,
    OFFER_OPEN,
    OFFER_WITHDRAWN,  // by the loop
    OFFER_USED,       // the worker has sent; x.out has the unsent bytes, or has failed
    OFFER_STATES
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
    bool offered;                       // loop only: there is an offer, which it has not recalled
    const struct conn_ops *ops;         // of the connection; NULL unless it was offered
    int fd;                             // of the connection, if it was offered
    struct lock lock;                   // of offer, if there is a connection
    enum exchange_offer offer;
    _Atomic enum exchange_state state;
    struct mem_budget *from;  // budget that the exchange itself counts against
    struct arena kept;        // the request's arena, put aside by a refusal
    bool refused;             // app.refuse made the answer
    bool spare;               // the arena is not counted
    bool body_only_head;      // HEAD, 204, 304: no body is sent
    bool no_body;             // the method was HEAD (held.c forgets the method)
    bool vital;               // server_app.vital
    struct reader *reader;    // of its connection; NULL: from within the process
    size_t held;              // bytes of the answer that are counted (held.h)
    _Atomic size_t *held_by;  // the count of its connection
    _Atomic size_t *held_of;  // that of its tenant; NULL: none
    size_t owed;              // bytes that the connection had not read when sending began
    uint64_t sent_ns;         // when sending began
    uint64_t mark_ns;         // last progress of the client: sending its body, reading the answer
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

// A call from within the process, canceled with `asker`. The thread that makes the answer calls
// `done` once, and does not touch the exchange after that. Fails with resource_exhausted, or with
// unavailable while the server drains.
struct exchange *exchange_inside(struct server *s, const struct req *asker,
                                 void (*done)(struct exchange *ex), struct http_call *call,
                                 err *e) MUST_CHECK;

// Replaces its arena by one of memory for refusals, so that it can be refused when the budget is
// used up. Earlier allocations stay valid.
void exchange_spare(struct exchange *ex);

// Must this request be answered even if memory is used up? Its head is filled in. It then goes on
// with memory that is kept for such requests (server_options.reserve). length: as below; a request
// with a body is not vital, because the body would come into that memory, as slowly as its client
// likes.
bool exchange_is_vital(const struct exchange *ex, uint64_t length);

// The head is filled in. length: of the body, UINT64_MAX if unknown. Returns true if the body is
// wanted; otherwise the answer was given to conn_ops.answer.
bool exchange_head(struct exchange *ex, uint64_t length);

// Appends to the body. False: refused, and the answer was given to conn_ops.answer.
bool exchange_body(struct exchange *ex, const char *p, size_t n);

// Sets the whole body of an exchange without a connection; borrowed until the exchange ends.
bool exchange_body_lent(struct exchange *ex, str body);

// The body is complete: submits the request to its lane, or runs it here if it has none.
void exchange_body_end(struct exchange *ex);

// The client announces so many more bytes. False: that is over the limit, and it was refused.
bool exchange_body_fits(struct exchange *ex, uint64_t more);

// Lets the app refuse it with this HTTP status and fault, and gives the answer to the connection.
void exchange_refuse(struct exchange *ex, unsigned status, const err *e, const char *reason);

// Answers in plain text without asking the app, because the message is no valid request.
void exchange_reject(struct exchange *ex, unsigned status, const err *e, const char *reason);

// The loop, at an event of the connection: withdraws the offer, so the worker does not send any
// more. If it has sent already, the exchange ends now.
void exchange_recall(struct exchange *ex);

// The loop, when the connection closes: withdraws the offer. If the worker has sent already, the
// exchange ends later, so that callers up the stack may still hold it.
void exchange_silence(struct exchange *ex);

// Frees it: the answer was written, or it has no client any more.
void exchange_end(struct exchange *ex);

// The client is gone. Frees it now, or when the worker gives it back.
void exchange_abandon(struct exchange *ex);
void exchange_cancel(struct exchange *ex);  // only tells a running handler

// Takes a call from within the process out of its lane if it still waits there: true, and `done` is
// not called. Called by the job that made the call.
bool exchange_withdraw(struct exchange *ex);

bool exchange_has_head(const struct exchange *ex);
bool exchange_wants_body(const struct exchange *ex);
bool exchange_is_answered(const struct exchange *ex);

// Has the client owed us bytes of the body for too long?
bool exchange_body_late(const struct exchange *ex, uint64_t now_ns);

// The answer's body as it goes on the wire.
str exchange_answer(const struct exchange *ex);
