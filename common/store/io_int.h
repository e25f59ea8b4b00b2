// SPDX-License-Identifier: Apache-2.0
//
// io_int.h - reads, writes and syncs of files, many at once; for local*.c and io*.c.
//
// There are two ways, chosen at open. `uring`: the caller takes one of a few rings, submits its
// operations and waits for them itself, without another thread in between. `threads`: the caller
// does them one after another, and idle threads of a lane help. When no ring is free or the kernel
// has no memory for one, `threads` is used instead; the results are the same. A single operation is
// always a plain system call: the caller may block, and a ring would only cost more.
#pragma once

#include "loop/req.h"

#include <sys/uio.h>

enum io_what {
    IO_READ,
    IO_WRITE,
    IO_SYNC,  // the file and its size are durable
};

struct io_op {
    enum io_what what;
    int fd;
    struct iovec *v;  // modified
    int v_n;          // at most IOV_MAX
    uint64_t at;
    size_t n;       // the sum of v
    bool after;     // begins only when the operation before it has succeeded as a whole
    bool began;     // false after io_run: the request ended before it began
    size_t done;    // bytes; fewer than n without an error: the file ends there
    int error;      // errno; 0: none
    bool complete;  // private
};

struct io;
struct io *io_open(unsigned width, bool no_uring, err *e) MUST_CHECK;  // returns owned
void io_close(struct io *io);                                          // NULL is fine
bool io_has_uring(const struct io *io);

// Does all of them, `width` at a time, in any order except for those with `after`. Returns when
// none of their memory is in use any more. r may be NULL: then there is no deadline, and no thread
// helps. Operations that have begun when the deadline passes are waited for: otherwise the kernel
// would write into memory that the caller uses for something else by then.
void io_run(struct io *io, struct req *r, struct io_op *v, size_t n);

// Calls fn(arg, i) for each i below n, on this thread and on idle ones of the lane, in any order.
// Returns when all calls have returned. fn must check the request's deadline itself.
void io_each(struct io *io, struct req *r, size_t n, void (*fn)(void *arg, size_t i), void *arg);
