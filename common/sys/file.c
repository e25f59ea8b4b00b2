// SPDX-License-Identifier: Apache-2.0
//
// file.c - small files as a whole, directories, and lock files.
#include "sys/file.h"

#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static bool fail(err *e, const char *what, const char *path)
{
    int why = errno;
    enum err_code code = ERR_UNAVAILABLE;
    if (why == ENOENT || why == ENOTDIR) code = ERR_NOT_FOUND;
    if (why == EACCES || why == EPERM || why == EROFS) code = ERR_PERMISSION_DENIED;
    if (why == ENOSPC || why == EDQUOT || why == EMFILE || why == ENFILE)
        code = ERR_RESOURCE_EXHAUSTED;
    char text[128];
    return err_set(e, code, "%s %s: %s", what, path, strerror_r(why, text, sizeof text));
}

// Closes fd and keeps errno, so that the reason of a failure survives.
static void close_quietly(int fd)
{
    int why = errno;
    if (fd >= 0 && close(fd) != 0) errno = why;
    errno = why;
}

bool file_read(const char *path, struct buf *out, err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(e, "open", path);
    bool ok = true;
    for (;;) {
        char part[16384];
        ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) ok = fail(e, "read", path);
        if (n <= 0) break;
        // Piece by piece, because the size of files in /proc is 0.
        buf_put(out, part, (size_t)n);
        if (out->failed) break;
    }
    close_quietly(fd);
    if (ok && !buf_ok(out, e)) return err_wrap(e, "read %s", path);
    return ok;
}

static bool write_all(int fd, str bytes)
{
    while (bytes.n > 0) {
        if (FAULT_ERRNO("file.write")) return false;
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        assert((size_t)n <= bytes.n);
        bytes = str_slice(bytes, (size_t)n, bytes.n);
    }
    return true;
}

static bool parent_of(const char *path, char parent[PATH_MAX], err *e)
{
    str p = str_of(path);
    size_t slash = str_rfind(p, '/');
    if (p.n >= PATH_MAX) return err_set(e, ERR_INVALID_ARGUMENT, "path is too long: %s", path);
    // "name" is in ".", "/name" in "/".
    if (slash == p.n)
        p = S(".");
    else
        p.n = slash ? slash : 1;
    memcpy(parent, p.p, p.n);
    parent[p.n] = '\0';
    return true;
}

// Write beside it, sync, rename over it, sync the directory: in any other order a crash can leave
// an empty file under the final name.
bool file_write(const char *path, str bytes, err *e)
{
    char parent[PATH_MAX];
    char temp[PATH_MAX + 8];
    if (!parent_of(path, parent, e)) return false;
    snprintf(temp, sizeof temp, "%s.tmp", path);

    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    if (fd < 0) return fail(e, "create", temp);
    bool ok = write_all(fd, bytes) && !FAULT_ERRNO("file.sync") && fsync(fd) == 0;
    if (!ok) fail(e, "write", temp);
    if (close(fd) != 0 && ok) ok = fail(e, "close", temp);
    FAULT("file.rename");
    if (ok && rename(temp, path) != 0) ok = fail(e, "rename to", path);
    FAULT("file.rename.after");
    if (ok) return dir_sync(parent, e);
    if (unlink(temp) != 0)
        return false;  // a file left there does no harm: the next write truncates
    return false;
}

bool file_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

bool file_remove(const char *path, err *e)
{
    if (unlink(path) == 0 || errno == ENOENT) return true;
    return fail(e, "remove", path);
}

bool dir_make(const char *path, err *e)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return err_set(e, ERR_INVALID_ARGUMENT, "not a directory name: '%s'", path);
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        part[i] = '\0';
        // EEXIST is the usual case; whether it is a directory is checked at the end.
        if (mkdir(part, 0750) != 0 && errno != EEXIST) return fail(e, "make directory", part);
        part[i] = i < n ? '/' : '\0';
    }
    struct stat s;
    if (stat(path, &s) != 0) return fail(e, "make directory", path);
    if (!S_ISDIR(s.st_mode)) {
        errno = ENOTDIR;
        return fail(e, "make directory", path);
    }
    return true;
}

bool dir_sync(const char *path, err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail(e, "open", path);
    bool ok = fsync(fd) == 0 || fail(e, "sync", path);
    close_quietly(fd);
    return ok;
}

bool dir_free_bytes(const char *path, uint64_t *bytes, err *e)
{
    struct statvfs s;
    if (statvfs(path, &s) != 0) return fail(e, "look at", path);
    *bytes = (uint64_t)s.f_bavail * s.f_frsize;
    return true;
}

bool dir_size_bytes(const char *path, uint64_t *bytes, err *e)
{
    struct statvfs s;
    if (statvfs(path, &s) != 0) return fail(e, "look at", path);
    *bytes = (uint64_t)s.f_blocks * s.f_frsize;
    return true;
}

// A lock of the open file description, not of the process: two opens in one process exclude each
// other as well, and closing some other descriptor of the file does not lose it.
bool lock_file_take(int fd)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &l) == 0;
}

bool lock_file_open(const char *path, int *fd, err *e)
{
    int f = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (f < 0) return fail(e, "open", path);
    if (!lock_file_take(f)) {
        if (errno != EAGAIN && errno != EACCES) {  // a file system without locks, for example
            bool ok = fail(e, "lock", path);
            close_quietly(f);
            return ok;
        }
        char pid[32] = "";
        ssize_t n = pread(f, pid, sizeof pid - 1, 0);
        str holder = str_trim(str_make(pid, n > 0 ? (size_t)n : 0));
        close_quietly(f);
        return err_set(e, ERR_FAILED_PRECONDITION, "%s is held by process %.*s", path,
                       STR(holder.n ? holder : S("?")));
    }
    // For people: the lock itself does not depend on what is in the file.
    char pid[32];
    int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    FAULT("file.lock");
    if (ftruncate(f, 0) != 0 || pwrite(f, pid, (size_t)n, 0) != n) {
        bool ok = fail(e, "write", path);
        close_quietly(f);
        return ok;
    }
    *fd = f;
    return true;
}

void lock_file_close(int fd)
{
    if (fd < 0) return;
    if (close(fd) != 0) return;  // the lock ends with the descriptor in any case
}
