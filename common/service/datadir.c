// SPDX-License-Identifier: Apache-2.0
//
// datadir.c - opens, checks and locks a data directory; writes its format and names when it is new.
#include "service/datadir.h"

#include "base/fault.h"
#include "codec/json.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/rand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMAT S("flametree 1\n")

static bool join(char to[PATH_MAX], const char *path, const char *name, err *e)
{
    int n = snprintf(to, PATH_MAX, "%s/%s", path, name);
    if (n > 0 && n < PATH_MAX) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "path is too long: %s/%s", path, name);
}

static bool check_format(const struct datadir *d, err *e)
{
    char path[PATH_MAX];
    if (!join(path, d->path, "format", e)) return false;
    struct buf text;
    err why = {0};
    buf_init(&text, NULL, 4096);
    bool ok = file_read(path, &text, &why);
    if (!ok && why.code == ERR_NOT_FOUND) return file_write(path, FORMAT, e);
    if (!ok) *e = why;  // not written anew: the directory may have another format
    str found = str_trim(buf_view(&text));
    assert(d->lock >= 0);
    if (ok && !str_eq(found, str_trim(FORMAT))) {
        ok = err_set(e, ERR_FAILED_PRECONDITION,
                     "data directory %s has format '%.*s'; this program knows '%.*s'", d->path,
                     STR(found), STR(str_trim(FORMAT)));
    }
    buf_release(&text);
    return ok;
}

bool datadir_open(struct datadir *d, const char *path, err *e)
{
    static const char *const parts[] = {"ingester", "store", "cache", "run"};
    d->lock = -1;
    if (!dir_make(path, e)) return err_wrap(e, "data directory");
    // Absolute, so that a later chdir or a relative setting changes nothing.
    if (!realpath(path, d->path))
        return err_set(e, ERR_UNAVAILABLE, "data directory %s: %s", path, strerror(errno));
    char name[PATH_MAX];
    if (!join(name, d->path, "lock", e) || !lock_file_open(name, &d->lock, e))
        return err_wrap(e, "data directory");
    bool ok = check_format(d, e);  // under the lock: two processes may start in an empty directory
    for (size_t i = 0; ok && i < COUNT(parts); i++)
        ok = join(name, d->path, parts[i], e) && dir_make(name, e);
    FAULT("datadir.made");
    // The folders must be there after a loss of power: an empty directory would look like a new
    // one.
    ok = ok && dir_sync(d->path, e);
    if (!ok) datadir_close(d);
    return ok;
}

void datadir_close(struct datadir *d)
{
    lock_file_close(d->lock);
    d->lock = -1;
}

// A file with one ULID.
static bool read_id(const struct datadir *d, const char *name, id128 *id, bool *known, err *e)
{
    char path[PATH_MAX];
    struct buf text;
    err why = {0};
    *known = false;
    if (!join(path, d->path, name, e)) return false;
    buf_init(&text, NULL, 4096);
    bool ok = file_read(path, &text, &why);
    if (ok) {
        *known = ok = ulid_parse(str_trim(buf_view(&text)), id, e) || err_wrap(e, "%s", path);
    } else {
        ok = why.code == ERR_NOT_FOUND;
        if (!ok) *e = why;
    }
    buf_release(&text);
    return ok;
}

static bool write_id(const struct datadir *d, const char *name, id128 id, err *e)
{
    char path[PATH_MAX];
    char line[ULID_TEXT + 1];
    ulid_print(id, line);
    assert(strlen(line) == ULID_TEXT - 1);
    line[strlen(line) + 1] = 0;
    line[strlen(line)] = '\n';
    return join(path, d->path, name, e) && file_write(path, str_of(line), e);
}

bool datadir_identify(const struct datadir *d, const char *const keeps[2], id128 *directory, err *e)
{
    char path[PATH_MAX];
    bool known = false;
    assert(d->lock >= 0);  // without the lock two processes may take one identity
    if (!read_id(d, "directory", directory, &known, e)) return false;
    bool kept = !keeps;
    for (size_t i = 0; known && !kept && i < 2 && keeps[i]; i++) {
        if (!join(path, d->path, keeps[i], e)) return false;
        kept = file_exists(path);
    }
    // An identity without what it stands for (`keeps`) is that of a directory that was emptied:
    // what was in it is lost, so this is another one.
    if (known && kept) return true;
    uint8_t random[10];
    rand_bytes(random, sizeof random);
    *directory = ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random);
    return write_id(d, "directory", *directory, e);
}

bool datadir_read_cluster(const struct datadir *d, id128 *cluster, bool *known, err *e)
{
    return read_id(d, "cluster", cluster, known, e);
}

bool datadir_write_cluster(const struct datadir *d, id128 cluster, err *e)
{
    assert(d->lock >= 0);
    return write_id(d, "cluster", cluster, e);
}

bool datadir_write_ports(const struct datadir *d, unsigned public_port, const char *internal,
                         const char *admin, str more, err *e)
{
    char path[PATH_MAX];
    if (!join(path, d->path, "run/ports.json", e)) return false;
    struct buf text;
    buf_init(&text, NULL, (size_t)2 * PATH_MAX);
    buf_printf(&text, "{\"public\":%u,\"internal\":", public_port);
    json_put_string(&text, str_of(internal));
    if (admin[0]) {
        buf_z(&text, ",\"admin\":");
        json_put_string(&text, str_of(admin));
    }
    buf_str(&text, more);
    buf_z(&text, "}\n");
    bool ok = buf_ok(&text, e) && file_write(path, buf_view(&text), e);
    buf_release(&text);
    return ok;
}

void datadir_remove_ports(const struct datadir *d)
{
    char path[PATH_MAX];
    err ignored = {0};  // a stale file does no harm: its ports do not answer
    if (!join(path, d->path, "run/ports.json", &ignored)) return;
    if (!file_remove(path, &ignored)) return;
}
