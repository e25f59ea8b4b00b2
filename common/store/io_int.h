// SPDX-License-Identifier: Apache-2.0
//
// io_int.h - reads, writes and syncs of files, many at once; for local*.c and io*.c.
//
// Two ways, chosen at open. `uring`: a caller takes one of a few rings, gives the kernel its
// operations and waits for them itself, so there is neither a thread nor a lock between the two.
// `threads`: the caller does them one after another, and idle threads of a lane help him. The
// second is also taken where the first cannot (no ring is free or the kernel has no memory for it),
// so that results are the same. One operation alone is a plain system call either way: a caller
// may block, and a ring would only cost more.
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
    struct iovec *v;  // used up
    int v_n;          // at most IOV_MAX
    uint64_t at;
    size_t n;      // the sum of v
    bool after;    // not before the operation in front of it succeeded, whole
    bool began;    // false after io_run: the request ended before
    size_t done;   // bytes; fewer than n without an error: the file ends there
    int error;     // errno; 0: none
    bool settled;  // private
};

struct io;
struct io *io_open(unsigned width, bool no_uring, err *e) MUST_CHECK;  // returns owned
void io_close(struct io *io);                                          // NULL is fine
bool io_has_uring(const struct io *io);

// Does all of them, `width` at a time, in any order but for those that come after another. Returns
// when no memory of them is in use any more. r may be NULL: no end and no help. What began when the
// deadline passes is waited for: its bytes would go where somebody else's are by then.
void io_run(struct io *io, struct req *r, struct io_op *v, size_t n);

// Calls fn(arg, i) for each i below n, on this thread and on idle ones of the lane, in any order;
// returns when all calls have. fn looks at the request itself.
void io_each(struct io *io, struct req *r, size_t n, void (*fn)(void *arg, size_t i), void *arg);
