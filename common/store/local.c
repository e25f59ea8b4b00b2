// SPDX-License-Identifier: Apache-2.0
//
// local.c - opens a store in a directory, and what its other files share: paths, errors, closing.
#include "store/local_int.h"
#include "store/metrics.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/rand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Another process may be opening the same directory, which takes a moment.
#define OPEN_WAIT_NS ((uint64_t)(30 * NS_PER_S))
#define OPEN_LOOK_NS (10 * NS_PER_MS)

void local_path_of(const struct local *l, str name, struct local_path *path)
{
    assert(name.n <= STORE_NAME_MAX && (l->tree == 'o' || l->tree == 't'));
    int n = snprintf(path->p, sizeof path->p, "%s/%c/%.*s", l->dir, l->tree, STR(name));
    assert(n > 0 && (size_t)n < sizeof path->p);
    path->n = (size_t)n;
    path->top = path->n - name.n;
    assert(path->top > 2 && path->p[path->top - 1] == '/');
}

bool local_fault(err *e, int why, const char *verb, str name)
{
    enum err_code code = ERR_UNAVAILABLE;
    assert(why != 0);
    if (why == ENOENT || why == ENOTDIR || why == EISDIR) code = ERR_NOT_FOUND;
    if (why == ENOMEM) code = ERR_RESOURCE_EXHAUSTED;
    // These come from a file system without links or without fsync of folders.
    if (why == EPERM || why == EOPNOTSUPP || why == ENOSYS || why == EMLINK || why == EINVAL)
        code = ERR_FAILED_PRECONDITION;
    char text[128];
    return err_set(e, code, "%s object %.*s: %s", verb, STR(name),
                   strerror_r(why, text, sizeof text));
}

bool local_alive(const struct req *r, err *e)
{
    return !r || req_alive(r, e);
}

static bool inspect_objects(const struct local *l, struct stat *st)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/o", l->dir);
    return stat(path, st) == 0;
}

bool local_is_there(const struct local *l, err *e)
{
    struct stat st;
    if (!inspect_objects(l, &st)) {
        return err_set(e, ERR_UNAVAILABLE,
                       "store %s: %s; was it moved, or is its disk not mounted any more?", l->dir,
                       strerror(errno));
    }
    // By identity, not by contents: an empty store and one that is not mounted look alike.
    return (st.st_dev == l->dev && st.st_ino == l->ino) ||
           err_set(e, ERR_UNAVAILABLE,
                   "store %s: another directory is there now; put the former one back, or restart",
                   l->dir);
}

bool local_may_change(const struct local *l, err *e)
{
    return !l->read_only ||
           err_set(e, ERR_FAILED_PRECONDITION, "store %s is open for reading only", l->dir);
}

void local_close_file(int fd)
{
    // Callers report errno of what failed before.
    int why = errno;
    if (fd >= 0) (void)close(fd);  // it was only read, or synced before: an error loses nothing
    errno = why;
}

static void local_close(struct store *s)
{
    struct local *l = local_of(s);
    io_close(l->io);
    lock_release(&l->lock);
    mem_must_free(l);
}

static const struct store_kind local_kind = {
    .name = "local",
    .read_many = local_read_many,
    .list = local_list,
    .begin = local_begin,
    .write = local_write,
    .commit = local_commit,
    .abandon = local_abandon,
    .remove = local_remove,
    .remove_many = local_remove_many,
    .size = local_size,
    .size_many = local_size_many,
    .age = local_age,
    .close = local_close,
};

// ---- opening

static bool name_dir(struct local *l, const char *dir, err *e)
{
    if (!l->read_only && !dir_make(dir, e)) return false;
    char *real = realpath(dir, NULL);
    if (!real) return err_set(e, ERR_UNAVAILABLE, "%s: %s", dir, strerror(errno));
    size_t n = strlen(real);
    bool ok = n < sizeof l->dir;
    if (ok) memcpy(l->dir, real, n + 1);
    free(real);
    return ok || err_set(e, ERR_INVALID_ARGUMENT, "its path is %zu bytes long, limit %zu", n,
                         sizeof l->dir - 1);
}

static bool make_dirs(const struct local *l, err *e)
{
    char path[PATH_MAX];
    for (const char *part = "ot"; *part; part++) {
        snprintf(path, sizeof path, "%s/%c", l->dir, *part);
        if (!dir_make(path, e)) return false;
    }
    // o and t must be there after a loss of power, or the store would seem to be another one.
    return dir_sync(l->dir, e);
}

static bool know_objects(struct local *l, err *e)
{
    struct stat st;
    if (!inspect_objects(l, &st)) return err_set(e, ERR_UNAVAILABLE, "o: %s", strerror(errno));
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    return true;
}

static bool take_turn(const struct local *l, int *fd, err *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/t/%s", l->dir, LOCAL_LOCK);
    uint64_t until = clock_mono_ns() + OPEN_WAIT_NS;
    for (;;) {
        err why = {0};
        if (lock_file_open(path, fd, &why)) return true;
        // failed_precondition: another process holds it. Anything else will not pass by waiting.
        if (why.code != ERR_FAILED_PRECONDITION || clock_mono_ns() >= until) {
            *e = why;
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = OPEN_LOOK_NS}, NULL);
    }
}

// Does the file system keep the promises of store.h? Creates an object in t/, which must not work
// twice, reads and deletes it, by the same steps as for all other objects.
static bool try_out(struct local *l, struct req *r, err *e)
{
    uint8_t random[10];
    char name[ULID_TEXT];
    char found[ULID_TEXT] = "";
    bool existed = false;
    rand_bytes(random, sizeof random);
    ulid_print(ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random), name);
    struct store *s = &l->store;
    str text = str_of(name);
    if (!store_put(s, r, text, text, &existed, e)) return false;
    if (existed) return err_set(e, ERR_FAILED_PRECONDITION, "it has objects that nobody created");
    if (!store_put(s, r, text, text, &existed, e)) return false;
    if (!existed)
        return err_set(e, ERR_FAILED_PRECONDITION, "an object could be created a second time");
    if (!store_read(s, r, text, 0, text.n, found, e)) return false;
    assert(text.n < sizeof found);
    if (!str_eq(text, str_of(found)))
        return err_set(e, ERR_FAILED_PRECONDITION, "it does not hold what was written");
    return store_delete(s, r, text, e);
}

static bool prepare(struct local *l, bool again, err *e)
{
    int turn = -1;
    struct req r;
    l->tree = 'o';
    // A reader must change nothing, and a second client must not sweep what the first one writes.
    if (l->read_only || again) return know_objects(l, e);
    // One process at a time sweeps and tries the store out, so that none takes the files of
    // another's try for left-over ones.
    if (!make_dirs(l, e) || !know_objects(l, e) || !take_turn(l, &turn, e)) return false;
    req_init(&r, RANK_DUTY, NULL, 1 << 16, 0);
    l->tree = 't';  // no reader of o/ must ever see the object of the try
    bool ok = local_sweep(l, e) && try_out(l, &r, e);
    l->tree = 'o';
    req_release(&r);
    assert(l->tree == 'o');
    lock_file_close(turn);
    return ok;
}

struct store *store_open_local(const struct store_local_options *o, err *e)
{
    metric_register(store_metrics, store_metric_count);
    struct local *l = mem_must(sizeof *l);
    l->store.kind = &local_kind;
    l->memory = o->memory;
    l->read_only = o->read_only;
    lock_init(&l->lock, LOCK_STORE);
    bool ok = name_dir(l, o->dir, e) && (l->io = io_open(o->width, o->no_uring, e)) &&
              prepare(l, o->again, e);
    if (!ok) {
        local_close(&l->store);
        err_wrap(e, "store %s", o->dir);
        return NULL;
    }
    if (o->again) return &l->store;
    bool uring = io_has_uring(l->io);
    metric_set_to(&store_io, S("uring"), uring);
    metric_set_to(&store_io, S("threads"), !uring);
    log_info(NULL, "store.opened", "kind=local dir=%s io=%s", l->dir, uring ? "uring" : "threads");
    return &l->store;
}
