// SPDX-License-Identifier: Apache-2.0
//
// held.h - private to net: answers that are made and wait for their clients to read them.
//
// Whoever reads slowly makes us hold what he asked for. That must not become what others need:
//
//     memory       An answer of a worker moves to a budget of its own (options.answers), and all
//                  else that its request held is given back: so readers take nothing from pushes.
//     shares       A connection, and a tenant, may leave so much of it unread: beyond that what
//                  they ask is refused before it is worked on, and what workers had begun when it
//                  is done. One answer at a time is always within the share.
//     time         An answer has a time for all of it, however steadily it is read, that grows with
//                  what its connection has not read (options.answer_rate). While memory of answers
//                  is used up, the time without that growth is options.write_timeout_ns.
//
// Small answers (HELD_SMALL) are counted, but neither refused nor hurried, beyond the time without
// progress that holds for all (conn.c, h2.c).
#pragma once

#include "base/hash.h"
#include "net/server.h"

#define HELD_SMALL   ((size_t)64 << 10)
#define HELD_TENANTS 4096  // counters; tenants whose names fall on one, by a secret hash, share it

struct exchange;

// What a connection's client has not read; lives as long as the connection and its exchanges.
struct reader {
    _Atomic size_t held;
    _Atomic unsigned refs;
};

struct held {  // a server's
    struct hash_key key;
    _Atomic uint64_t refused_ns;  // monotonic, when there was last no room; 0: never
    _Atomic size_t tenants[HELD_TENANTS];
};

struct reader *reader_new(void);  // NULL: no memory
struct reader *reader_share(struct reader *r);
void reader_drop(struct reader *r);  // NULL is fine

// Has the asker left too much unread to be asked for more? Any thread. Fails with
// resource_exhausted naming share, value and setting.
bool held_may_begin(const struct exchange *ex, err *e) MUST_CHECK;

// The answer is made: it is counted and moved. A worker. Fails as above; then it still is the
// request's.
bool held_begin(struct exchange *ex, err *e) MUST_CHECK;
void held_end(struct exchange *ex);   // it is sent, or nobody wants it
void held_sent(struct exchange *ex);  // the worker sent it; its end is told later

// The answer begins to be sent; its loop. Is its time over?
void held_send(struct exchange *ex);
bool held_too_long(const struct exchange *ex);
