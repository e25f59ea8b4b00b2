// SPDX-License-Identifier: Apache-2.0
//
// wal_aside.c - a stream leaves the log, with all that the log holds of it, for a directory of its
// own, which is a log as well.
//
//     1. <to>.part becomes a copy of the database; its tables are hard links, so it costs no room.
//     2. The copy loses the cuts of other streams, or deleted profiles would live on in it.
//     3. It is renamed to <to>: from here on it is whole.
//     4. The log drops the stream's cuts.
//
// Whatever fails, or wherever the process ends: the log has the stream until 3 is durable, and the
// next call goes on. Before 3 it begins anew, after it 4 is repeated.
#include "base/fault.h"
#include "ingester/log/wal_int.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COPY_BUFFERS ((size_t)1 << 20)

// ---- a directory of RocksDB's, in which there are only files

static bool remove_file_of(const char *dir, const char *name, err *e)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return err_set(e, ERR_INTERNAL, "%s: the path is too long", dir);
    return file_remove(path, e);
}

bool wal_remove(const char *dir, err *e)
{
    bool ok = true;
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT) return true;
    if (!d) return err_set(e, ERR_UNAVAILABLE, "%s: %s", dir, strerror(errno));
    for (const struct dirent *f = readdir(d); ok && f; f = readdir(d)) {
        if (strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0) continue;
        ok = remove_file_of(dir, f->d_name, e);
        if (ok && FAULT_ERRNO("wal.aside.removing"))
            ok = err_set(e, ERR_UNAVAILABLE, "%s: %s", dir, strerror(errno));
    }
    (void)closedir(d);
    if (ok && rmdir(dir) != 0) ok = err_set(e, ERR_UNAVAILABLE, "%s: %s", dir, strerror(errno));
    return ok;
}

// ---- the copy

static bool copy_database(struct wal *w, const char *part, err *e)
{
    char *message = NULL;
    if (!wal_remove(part, e)) return false;
    rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(w->db.rocks, &message);
    // All that is only in write-ahead files is written to tables first.
    if (c && !message) rocksdb_checkpoint_create(c, part, 0, &message);
    if (c) rocksdb_checkpoint_object_destroy(c);
    if (!message) return true;
    (void)err_set(e, ERR_UNAVAILABLE, "log: copy: %s", message);
    rocksdb_free(message);
    return false;
}

// The marks say how far the stream's newest cut was acknowledged (wal_damage.c). Those of other
// streams mean nothing in the copy.
static bool copy_marks(const struct wal *w, const char *part, err *e)
{
    static const char *const files[] = {"ACKNOWLEDGED", "ENDED"};
    bool ok = true;
    for (size_t i = 0; ok && i < COUNT(files); i++) {
        char from[PATH_MAX];
        char to[PATH_MAX];
        struct buf bytes;
        snprintf(from, sizeof from, "%s/%s", w->options.dir, files[i]);
        snprintf(to, sizeof to, "%s/%s", part, files[i]);
        if (!file_exists(from)) continue;
        buf_init(&bytes, NULL, 4096);
        ok = file_read(from, &bytes, e) && file_write(to, buf_view(&bytes), e);
        buf_release(&bytes);
    }
    return ok;
}

static bool drop_others(const char *part, id128 stream, err *e)
{
    struct db d = {0};
    struct db_family *v = NULL;
    size_t n = 0;
    if (!db_open(&d, part, COPY_BUFFERS, false, &v, &n, e)) return false;
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        bool other = !id128_eq(v[i].stream, stream);
        ok = ok && (!other || db_family_drop(&d, v[i].handle, e));
        db_family_release(v[i].handle);
    }
    mem_free(NULL, v, n * sizeof *v);
    db_close(&d);
    return ok;
}

static bool make_copy(struct wal *w, id128 stream, const char *to, err *e)
{
    char part[PATH_MAX];
    char above[PATH_MAX];
    if (snprintf(part, sizeof part, "%s.part", to) >= (int)sizeof part)
        return err_set(e, ERR_INTERNAL, "%s: the path is too long", to);
    snprintf(above, sizeof above, "%s", to);
    char *slash = strrchr(above, '/');
    assert(slash && slash != above);
    *slash = '\0';
    if (!dir_make(above, e) || !copy_database(w, part, e) || !copy_marks(w, part, e) ||
        !drop_others(part, stream, e) || !dir_sync(part, e))
        return false;
    FAULT("wal.aside.copied");
    if (rename(part, to) != 0) return err_set(e, ERR_UNAVAILABLE, "%s: %s", part, strerror(errno));
    return dir_sync(above, e);
}

// ---- out of the log

static struct cut *cut_of(struct wal *w, id128 stream)
{
    struct cut *found = NULL;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count && !found; i++)
        if (id128_eq(w->cuts[i]->stream, stream)) found = w->cuts[i];
    lock_give(&w->lock);
    return found;
}

bool wal_set_aside(struct wal *w, id128 stream, const char *to, err *e)
{
    bool ok = true;
    assert(wal_state(w) == WAL_RECOVERED && !wal_is_remote(w));
    wal_take_lead(w);
    if (!file_exists(to)) ok = make_copy(w, stream, to, e);
    FAULT("wal.aside.renamed");
    for (struct cut *c = cut_of(w, stream); ok && c; c = cut_of(w, stream)) {
        uint64_t number = c->number;
        assert(c->pins == 0);
        ok = w->home->drop_cut(w, c, e);
        if (!ok) break;
        bool last = wal_forget_cut(w, c);
        cut_free(c);
        w->home->dropped(w, stream, number, last);
    }
    wal_give_lead(w);
    return ok;
}
