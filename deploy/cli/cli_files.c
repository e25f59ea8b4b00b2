// SPDX-License-Identifier: Apache-2.0
//
// cli_files.c - operands become a list of files; directories are walked.
#include "deploy/cli/cli_files.h"

#include "codec/compress.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 << 10)

static bool add(struct arena *a, struct cli_files *f, const char *path, err *e)
{
    assert(path && f->n <= f->cap);
    if (!arena_grow(a, &f->v, &f->cap, f->n + 1, sizeof *f->v)) return arena_fail(a, e);
    f->v[f->n++] = path;
    return true;
}

static bool fail(const char *path, err *e)
{
    assert(errno);
    enum err_code code = errno == ENOENT ? ERR_NOT_FOUND : ERR_UNAVAILABLE;
    return err_set(e, code, "%s: %s", path, strerror(errno));
}

// Adds the entries of a directory: files to `files`, directories to `dirs`.
static bool list(struct arena *a, const char *dir, struct cli_files *files, struct cli_files *dirs,
                 err *e)
{
    DIR *d = opendir(dir);
    if (!d) return fail(dir, e);
    bool ok = true;
    for (struct dirent *x; ok;) {
        // readdir() returns NULL at the end as well as on failure; only errno tells.
        errno = 0;
        x = readdir(d);
        if (!x) {
            if (errno) ok = fail(dir, e);
            break;
        }
        // Hidden files are not data: those of editors, of git, and the two names of directories.
        if (x->d_name[0] == '.') continue;
        bool slash = str_ends(str_of(dir), S("/"));
        const char *path = arena_printf(a, "%s%s%s", dir, slash ? "" : "/", x->d_name).p;
        struct stat st;
        struct stat link;
        ok = arena_ok(a, e);
        if (!ok) break;
        if (stat(path, &st) != 0 || lstat(path, &link) != 0) {
            if (errno != ENOENT && errno != ELOOP) ok = fail(path, e);  // a link to nowhere
            continue;
        }
        // Links to files are followed, links to directories are not: those may form circles.
        if (S_ISREG(st.st_mode)) ok = add(a, files, path, e);
        if (S_ISDIR(link.st_mode)) ok = add(a, dirs, path, e);
    }
    closedir(d);
    return ok;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool cli_files_below(struct arena *a, const char *dir, struct cli_files *out, err *e)
{
    struct cli_files dirs = {0};
    size_t first = out->n;
    if (!add(a, &dirs, dir, e)) return false;
    // The list grows while it is read, which saves the recursion.
    for (size_t i = 0; i < dirs.n; i++) {
        if (!list(a, dirs.v[i], out, &dirs, e)) return false;
    }
    // The order of a directory is that of its hashes; sorted, two runs do the same.
    if (out->n > first) qsort(out->v + first, out->n - first, sizeof *out->v, by_path);
    return true;
}

static bool add_directory(struct arena *a, const char *dir, struct cli_files *out, err *e)
{
    size_t first = out->n;
    if (!cli_files_below(a, dir, out, e)) return false;
    return out->n > first || err_set(e, ERR_NOT_FOUND, "%s: there are no files in it", dir);
}

bool cli_files_find(struct arena *a, const char *const *operands, size_t n, struct cli_files *out,
                    err *e)
{
    *out = (struct cli_files){0};
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        bool is_stdin = strcmp(operands[i], "-") == 0;
        bool is_dir = !is_stdin && stat(operands[i], &st) == 0 && S_ISDIR(st.st_mode);
        // A path that does not exist is kept as a file: reading it fails with the right message.
        bool ok = is_dir ? add_directory(a, operands[i], out, e) : add(a, out, operands[i], e);
        if (!ok) return false;
    }
    return true;
}

static bool read_raw(const char *path, struct buf *out, err *e)
{
    if (strcmp(path, "-") != 0) return file_read(path, out, e);
    for (;;) {
        // The size of a pipe is not known before.
        char *room = buf_reserve(out, READ_BYTES);
        if (!room) return buf_ok(out, e);
        ssize_t n = read(STDIN_FILENO, room, READ_BYTES);
        if (n == 0) return true;
        if (n < 0 && errno != EINTR)
            return err_set(e, ERR_UNAVAILABLE, "standard input: %s", strerror(errno));
        if (n > 0) out->n += (size_t)n;
    }
}

bool cli_files_read(const char *path, struct buf *out, err *e)
{
    struct buf plain;
    if (!read_raw(path, out, e)) return false;
    if (!compress_is_zstd(buf_view(out))) return true;
    buf_init(&plain, out->budget, out->cap);
    bool ok = compress_unzstd(buf_view(out), &plain, e);
    buf_release(out);
    *out = buf_take(&plain);
    return ok || err_wrap(e, "%s", path);
}
