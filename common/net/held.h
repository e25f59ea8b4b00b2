// SPDX-License-Identifier: Apache-2.0
//
// held.h - private to net: answers that are made and wait for their clients to read them.
//
// A client that reads slowly makes us hold its answers in memory. Three limits keep that memory
// from being taken from others:
//
//     memory       The answer of a worker moves to a budget of its own (options.answers), and the
//                  rest of the request's memory is given back. So slow readers take nothing from
//                  pushes.
//     shares       Each connection and each tenant may leave a share of that budget unread. Beyond
//                  it new requests are refused before a worker begins them, and answers that were
//                  begun before are refused when they are made. One answer at a time is always
//                  within the share.
//     reserve      Answers to vital requests count against options.reserve, with shares of their
//                  own: a sixteenth for each connection, and half for all answers that are not
//                  small (HELD_LITTLE). So the answer whether the server is ready finds room.
//     time         The whole answer has a time limit, however steadily the client reads. The limit
//                  grows with the bytes that the connection has not read (options.answer_rate).
//                  While the budget is used up, the fixed part of the limit falls to
//                  options.write_timeout_ns.
//
// Small answers (HELD_SMALL) are counted, but not refused and not under this time limit. The limit
// on time without progress holds for all answers (conn.c, h2.c).
#pragma once

#include "base/hash.h"
#include "net/server.h"

#define HELD_SMALL   ((size_t)64 << 10)
#define HELD_LITTLE  ((size_t)4 << 10)  // what counts as small among answers to vital requests
#define HELD_TENANTS 4096  // counters, chosen by a keyed hash of the name; tenants may share one

struct exchange;

// Bytes of answers that a connection's client has not read. The connection and each of its
// exchanges hold a reference.
struct reader {
    _Atomic size_t held;
    _Atomic size_t vital;  // of answers to vital requests, which `held` does not contain
    _Atomic unsigned refs;
};

struct held {  // a server's
    struct hash_key key;
    _Atomic uint64_t refused_ns;  // monotonic, when there was last no room; 0: never
    _Atomic uint64_t vital_refused_ns;
    _Atomic size_t tenants[HELD_TENANTS];
};

struct reader *reader_new(void);  // NULL: no memory
struct reader *reader_share(struct reader *r);
void reader_drop(struct reader *r);  // NULL is fine

// Are the connection and the tenant below their shares, so that a worker may begin the request? Any
// thread. Fails with resource_exhausted naming share, value and setting.
bool held_may_begin(const struct exchange *ex, err *e) MUST_CHECK;

// Counts the answer that a worker has made, and moves it to the budget of answers. Fails as above;
// then the answer's memory stays the request's.
bool held_begin(struct exchange *ex, err *e) MUST_CHECK;
void held_end(struct exchange *ex);   // the exchange ends: it was sent, or its client is gone
void held_sent(struct exchange *ex);  // the worker sent it; held_end follows later, on the loop

// The loop begins to send the answer.
void held_send(struct exchange *ex);
bool held_too_long(const struct exchange *ex);  // is the time limit for the whole answer over?
