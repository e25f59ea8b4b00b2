// SPDX-License-Identifier: Apache-2.0
//
// A kernel that does a write of a ring only in part, and goes on with the sync after it.
#include "lib/dir.h"
#include "store/io_int.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <liburing.h>

#define PIECES 3
#define PIECE  1000

static bool stops_early;
static unsigned stopped;
static off_t synced;  // the file's size at the last sync that was asked for by a call

// Both in place of the libraries'.

int fsync(int fd)
{
    struct stat st;
    synced = fstat(fd, &st) == 0 ? st.st_size : -1;
    return (int)syscall(SYS_fsync, fd);
}

// The kernel gets only the first piece of a write, and so it is whole to it.
int io_uring_submit(struct io_uring *ring)
{
    int (*submit)(struct io_uring *) = NULL;
    *(void **)&submit = dlsym(RTLD_NEXT, "io_uring_submit");
    for (unsigned i = ring->sq.sqe_head; stops_early && i != ring->sq.sqe_tail; i++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[i & *ring->sq.kring_mask];
        if (sqe->opcode != IORING_OP_WRITEV || sqe->len < 2) continue;
        sqe->len = 1;
        stopped++;
    }
    return submit(ring);
}

static void a_sync_follows_all_of_its_write(void **state)
{
    static char bytes[PIECES][PIECE];
    static char back[PIECES * PIECE];
    char dir[DIR_MAX];
    char path[DIR_PATH_MAX];
    struct io *io = NULL;
    (void)state;
    assert_ok((io = io_open(4, false, e)) != NULL);
    if (!io_has_uring(io)) {
        io_close(io);
        skip();
    }
    dir_new(dir);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i / PIECE][i % PIECE] = (char)(i * 2654435761u >> 13);
    for (int early = 0; early < 2; early++) {
        int fd = open(dir_path(path, dir, early ? "early" : "whole"), O_CREAT | O_RDWR, 0600);
        assert_true(fd >= 0);
        struct iovec v[PIECES];
        for (size_t i = 0; i < PIECES; i++)
            v[i] = (struct iovec){bytes[i], PIECE};
        struct io_op ops[] = {
            {.what = IO_WRITE, .fd = fd, .v = v, .v_n = PIECES, .n = sizeof bytes},
            {.what = IO_SYNC, .fd = fd, .after = true},
        };
        stops_early = early;
        stopped = 0;
        synced = 0;
        io_run(io, NULL, ops, COUNT(ops));
        assert_true(!ops[0].error && ops[0].done == sizeof bytes && !ops[1].error);
        assert_int_equal(stopped, early);
        assert_int_equal(synced, early ? sizeof bytes : 0);  // 0: the ring did it
        assert_int_equal(pread(fd, back, sizeof back, 0), sizeof back);
        assert_memory_equal(back, bytes, sizeof back);
        assert_int_equal(close(fd), 0);
    }
    io_close(io);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sync_follows_all_of_its_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
