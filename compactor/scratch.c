// SPDX-License-Identifier: Apache-2.0
//
// Files are made with O_TMPFILE, so they have no name that a killed process could leave behind.
// Reads and writes say their place (pread, pwrite): the file's own offset is never used.
#include "compactor/scratch.h"

#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEAR_BYTES    ((size_t)4 << 20)
#define PENDING_BYTES ((size_t)256 << 10)

static bool failed(const char *what, const char *folder, err *e)
{
    char text[64];
    const char *why = strerror_r(errno, text, sizeof text);
    return err_set(e, ERR_UNAVAILABLE, "%s: cannot %s an intermediate file: %s", folder, what, why);
}

static int open_file(const char *folder, err *e)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    // Another worker may make the folder at the same time.
    if (fd < 0 && errno == ENOENT && (mkdir(folder, 0700) == 0 || errno == EEXIST))
        fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) failed("make", folder, e);
    return fd;
}

static bool write_all(int fd, const char *folder, str bytes, uint64_t at, err *e)
{
    while (bytes.n) {
        ssize_t n = FAULT_ERRNO("compact.scratch") ? -1 : pwrite(fd, bytes.p, bytes.n, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed("write", folder, e);
        bytes = str_slice(bytes, (size_t)n, bytes.n);
        at += (uint64_t)n;
    }
    return true;
}

static bool read_all(int fd, uint64_t at, size_t n, char *to, err *e)
{
    while (n) {
        ssize_t got = pread(fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed("read", "scratch", e);
        if (got == 0) return err_set(e, ERR_OUT_OF_RANGE, "an intermediate file is too short");
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

// ---- spool

void spool_init(struct spool *s, const char *folder, struct mem_budget *memory)
{
    *s = (struct spool){.folder = folder, .fd = -1};
    buf_init(&s->near, memory, NEAR_BYTES);
}

void spool_release(struct spool *s)
{
    if (s->fd >= 0) (void)close(s->fd);
    s->fd = -1;
    buf_release(&s->near);
    s->n = 0;
}

void spool_clear(struct spool *s)
{
    buf_clear(&s->near);
    s->n = 0;
}

bool spool_put(struct spool *s, str bytes, err *e)
{
    // Once a piece went to the file, all later ones do: so each piece lies in one of the two, and
    // the file begins where the memory ends.
    if (s->n == s->near.n && bytes.n <= NEAR_BYTES - s->near.n) {
        buf_str(&s->near, bytes);
        s->n += bytes.n;
        return buf_ok(&s->near, e);
    }
    assert(s->n >= s->near.n);
    if (s->fd < 0) s->fd = open_file(s->folder, e);
    if (s->fd < 0 || !write_all(s->fd, s->folder, bytes, s->n - s->near.n, e)) return false;
    s->n += bytes.n;
    return true;
}

bool spool_get(const struct spool *s, uint64_t at, size_t n, char *to, err *e)
{
    assert(at + n <= s->n);
    if (at + n <= s->near.n) {
        memcpy(to, s->near.p + at, n);
        return true;
    }
    assert(at >= s->near.n);  // a piece that was put is got as a whole
    return read_all(s->fd, at - s->near.n, n, to, e);
}

// ---- scratch

static void read_many(struct store *store, struct req *r, struct store_read *v, size_t n)
{
    const struct scratch *s = CONTAINER_OF(store, const struct scratch, store);
    for (size_t i = 0; i < n; i++) {
        v[i].fault = (err){0};
        v[i].ok =
            req_alive(r, &v[i].fault) && read_all(s->fd, v[i].at, v[i].n, v[i].to, &v[i].fault);
    }
}

bool scratch_init(struct scratch *s, const char *folder, struct mem_budget *memory, err *e)
{
    static const struct store_kind kind = {.name = "scratch", .read_many = read_many};
    *s = (struct scratch){.store = {.kind = &kind}, .fd = open_file(folder, e)};
    buf_init(&s->pending, memory, 2 * PENDING_BYTES);
    return s->fd >= 0;
}

void scratch_restart(struct scratch *s)
{
    buf_clear(&s->pending);
    s->size = 0;
}

void scratch_release(struct scratch *s)
{
    if (s->fd >= 0) (void)close(s->fd);
    s->fd = -1;
    buf_release(&s->pending);
}

bool scratch_end(struct scratch *s, err *e)
{
    str pending = buf_view(&s->pending);
    assert(s->fd >= 0 && s->size >= pending.n);
    if (!write_all(s->fd, "scratch", pending, s->size - pending.n, e)) return false;
    buf_release(&s->pending);
    return true;
}

bool scratch_sink(void *scratch, str bytes, err *e)
{
    struct scratch *s = scratch;
    assert(s->fd >= 0 && s->size >= s->pending.n);
    if (s->pending.n + bytes.n > PENDING_BYTES) {
        if (!write_all(s->fd, "scratch", buf_view(&s->pending), s->size - s->pending.n, e))
            return false;
        buf_clear(&s->pending);
    }
    s->size += bytes.n;
    if (bytes.n > PENDING_BYTES) return write_all(s->fd, "scratch", bytes, s->size - bytes.n, e);
    buf_str(&s->pending, bytes);
    return buf_ok(&s->pending, e);
}
