// SPDX-License-Identifier: Apache-2.0
//
// A creation, when all goes well:
//
//     1. make t/<ulid> and lock it                                store_begin
//     2. write bytes                                              store_write
//     3. write the rest, sync the file                            store_commit
//     4. link it to its name, making folders as needed
//     5. sync its folder, and those above it that may be new
//     6. remove t/<ulid>
//
// When it fails:
//
//     crash before 4   a file stays in t/; its lock ended with the process, so the next open of the
//                      store removes it
//     crash after 4    the object is there, but no caller was told; the power may fail before 5
//     name is taken    5 and 6 as above: the object of the other one must be durable as well
//
// A file in t/ is in use if it is locked. Its age shows nothing: clocks differ, and uploads may
// take any time.
#include "base/fault.h"
#include "base/hash.h"
#include "store/local_int.h"
#include "store/metrics.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/rand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// Small pieces are put together in memory; as much as one write takes.
#define CHUNK_MAX ((size_t)256 << 10)
#define CHUNK_MIN ((size_t)4 << 10)

// Attempts to link into a folder that another process removes each time.
#define LINK_TRIES 100

struct upload {
    struct store_upload upload;
    struct local *local;
    struct req *req;
    int fd;
    char *chunk;
    size_t chunk_n;
    size_t chunk_cap;
    uint64_t at;  // bytes in the file
    size_t name_n;
    char name[STORE_NAME_MAX + 1];
    char temp[PATH_MAX];
};

static str upload_name(const struct upload *u)
{
    return str_make(u->name, u->name_n);
}

// ---- the unfinished file

static bool is_taken(int why)
{
    // flock and fcntl tell it by different numbers.
    return why == EAGAIN || why == EACCES;
}

// Is it locked by us and still there? Between its making and its locking a sweep of another process
// may have taken it for a left-over file.
static bool is_ours(int fd)
{
    struct stat st;
    return lock_file_take(fd) && fstat(fd, &st) == 0 && st.st_nlink > 0;
}

static void temp_name(const struct local *l, char temp[PATH_MAX])
{
    uint8_t random[10];
    char ulid[ULID_TEXT];
    rand_bytes(random, sizeof random);
    ulid_print(ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random), ulid);
    snprintf(temp, PATH_MAX, "%s/t/%s", l->dir, ulid);
}

static bool make_temp(struct upload *u, err *e)
{
    for (int tries = 0; tries < LINK_TRIES; tries++) {
        temp_name(u->local, u->temp);
        u->fd = open(u->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
        if (u->fd < 0 && errno == EEXIST) continue;  // forked processes draw the same numbers
        if (u->fd < 0 && errno == ENOENT) {          // t/ was removed
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/t", u->local->dir);
            if (!dir_make(path, e)) return false;
            continue;
        }
        if (u->fd < 0) return local_fault(e, errno, "create", upload_name(u));
        assert(u->fd >= 0);
        if (is_ours(u->fd)) return true;
        int why = errno;
        local_close_file(u->fd);
        u->fd = -1;
        // Another process locked it first (a sweep), or removed it: the next name is tried.
        bool gone = unlink(u->temp) != 0 && errno == ENOENT;
        if (!gone && !is_taken(why)) return local_fault(e, why, "create", upload_name(u));
    }
    return local_fault(e, EBUSY, "create", upload_name(u));
}

static void upload_free(struct upload *u)
{
    // Removed before it is closed, and so unlocked: a sweep sees a locked file or none.
    if (u->fd >= 0 && unlink(u->temp) != 0 && errno != ENOENT) {
        err why = {0};
        char text[LOG_QUOTE_MAX];
        local_fault(&why, errno, "remove the unfinished file of", upload_name(u));
        log_warn(&u->req->log, "store.left_over", "why=%s", log_quote(text, str_of(why.msg)));
    }
    local_close_file(u->fd);
    mem_free(u->local->memory, u->chunk, u->chunk_cap);
    mem_free(u->local->memory, u, sizeof *u);
}

// A link to a name is exclusive at no cost, so both kinds of names are the same here.
struct store_upload *local_begin(struct store *s, struct req *r, str name, enum store_naming naming,
                                 uint64_t about, err *e)
{
    (void)naming;
    struct local *l = local_of(s);
    if (!local_alive(r, e) || !local_may_change(l, e) || !local_is_there(l, e)) return NULL;
    struct upload *u = mem_alloc(l->memory, sizeof *u, e);
    if (!u) return NULL;
    assert(name.n > 0 && name.n <= STORE_NAME_MAX);
    u->upload.store = s;
    u->local = l;
    u->req = r;
    u->fd = -1;
    u->name_n = name.n;
    memcpy(u->name, name.p, name.n);
    // `about` is a hint: a small object is written with one call, a large one in chunks of one
    // write.
    size_t cap = about < CHUNK_MIN ? CHUNK_MIN : about > CHUNK_MAX ? CHUNK_MAX : (size_t)about;
    u->chunk = mem_resize_bare(l->memory, NULL, 0, cap, e);
    if (u->chunk) u->chunk_cap = cap;
    if (u->chunk && make_temp(u, e)) {
        FAULT("store.temp");
        return &u->upload;
    }
    upload_free(u);
    return NULL;
}

// The clock of the file system, which may be a server's, shows in the time of a file that is made
// now.
bool local_age(struct store *s, struct req *r, str name, int64_t *age_ns, err *e)
{
    struct local_path path;
    struct stat was;
    struct stat is;
    if (!local_alive(r, e)) return false;
    local_path_of(local_of(s), name, &path);
    if (stat(path.p, &was) != 0) return local_fault(e, errno, "look at", name);
    if (!S_ISREG(was.st_mode)) return local_fault(e, ENOENT, "look at", name);
    struct store_upload *up = local_begin(s, r, name, STORE_UNIQUE, 1, e);
    if (!up) return false;
    const struct upload *u = CONTAINER_OF(up, struct upload, upload);
    bool ok = fstat(u->fd, &is) == 0 || local_fault(e, errno, "look at", name);
    local_abandon(up);
    if (ok) {
        *age_ns = (int64_t)(is.st_mtim.tv_sec - was.st_mtim.tv_sec) * NS_PER_S +
                  (is.st_mtim.tv_nsec - was.st_mtim.tv_nsec);
    }
    return ok;
}

// ---- its bytes

// Writes the chunk and then `more`, without copying; then syncs if it is the end.
static bool flush(struct upload *u, str more, bool end, err *e)
{
    char *rest = (char *)(uintptr_t)more.p;  // NOLINT: only read, which an iovec cannot say
    struct iovec v[2] = {{u->chunk, u->chunk_n}, {rest, more.n}};
    size_t empty = u->chunk_n == 0;
    struct io_op ops[2] = {{.what = IO_WRITE,
                            .fd = u->fd,
                            .v = v + empty,
                            .v_n = (int)(1 - empty) + (more.n > 0),
                            .at = u->at,
                            .n = u->chunk_n + more.n},
                           {.what = IO_SYNC, .fd = u->fd}};
    assert(u->fd >= 0 && u->chunk_n <= u->chunk_cap);
    // Without bytes there is only the sync; without the end only the write.
    struct io_op *first = ops[0].n ? ops : ops + 1;
    size_t n = (size_t)(ops + 1 + end - first);
    ops[1].after = first == ops;
    if (n == 0) return true;
    if (!local_alive(u->req, e)) return false;
    if (FAULT_ERRNO("store.write")) return local_fault(e, errno, "write", upload_name(u));
    if (end && FAULT_ERRNO("store.sync")) return local_fault(e, errno, "sync", upload_name(u));
    assert(n <= COUNT(ops));
    // Without a request: what has begun is waited for in any case, and the deadline was asked
    // above.
    io_run(u->local->io, NULL, first, n);
    for (size_t i = 0; i < n; i++) {
        if (first[i].error)
            return local_fault(e, first[i].error, first[i].what == IO_SYNC ? "sync" : "write",
                               upload_name(u));
    }
    metric_add_to(&store_bytes, S("written"), ops[0].n);
    u->at += ops[0].n;
    u->chunk_n = 0;
    return true;
}

bool local_write(struct store_upload *up, str bytes, err *e)
{
    struct upload *u = CONTAINER_OF(up, struct upload, upload);
    assert(bytes.p && u->chunk_n <= u->chunk_cap);
    if (u->chunk_n + bytes.n > u->chunk_cap) return flush(u, bytes, false, e);
    memcpy(u->chunk + u->chunk_n, bytes.p, bytes.n);
    u->chunk_n += bytes.n;
    return true;
}

// ---- folders

// An inode number may be reused for a later folder of the same name, so the time of birth counts as
// well. 0: unknown.
static uint64_t identity_of(int fd)
{
    struct statx s;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &s) != 0) return 0;
    uint64_t id = hash_table_and(s.stx_ino, (uint64_t)s.stx_btime.tv_sec);
    return hash_table_and(id, s.stx_btime.tv_nsec) | 1;
}

static bool is_known(struct local *l, uint64_t path, uint64_t identity)
{
    const struct local_folder *f = &l->known[path % LOCAL_FOLDERS];
    assert(path);
    lock_take(&l->lock);
    bool known = f->path == path && f->identity == identity;
    lock_give(&l->lock);
    return known && identity;
}

static void set_known(struct local *l, uint64_t path, uint64_t identity)
{
    lock_take(&l->lock);
    l->known[path % LOCAL_FOLDERS] = (struct local_folder){path, identity};
    lock_give(&l->lock);
}

// Shortens the path to that of the folder that it is in; false at <dir>/o.
static bool path_up(struct local_path *p)
{
    if (p->n < p->top) return false;
    // <dir>/o ends one byte before `top`: its slash is counted there.
    while (p->p[p->n - 1] != '/')
        p->n -= 1;
    p->p[--p->n] = '\0';
    return true;
}

// Syncs the folder of a path and those above it, up to one whose entry in the folder above it is
// known to be durable. It is not enough to sync folders that we made: another process may have made
// one a moment ago and not have synced it yet. A folder that is gone has no entries to sync.
static bool sync_folders(struct local *l, struct local_path p, str name, err *e)
{
    uint64_t below = 0;  // the folder whose entry the next fsync makes durable
    uint64_t below_identity = 0;
    while (path_up(&p)) {
        int fd = open(p.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) return errno == ENOENT || local_fault(e, errno, "sync the folder of", name);
        bool ok = fsync(fd) == 0 || local_fault(e, errno, "sync the folder of", name);
        uint64_t identity = identity_of(fd);
        local_close_file(fd);
        if (!ok) return false;
        // Only after this folder's fsync: it has the entry of the one below.
        if (below) set_known(l, below, below_identity);
        below = hash_table_bytes(p.p, p.n);
        below_identity = identity;
        if (is_known(l, below, identity)) break;
    }
    return true;
}

// Makes the missing folders of a path. True as well if another process removes one meanwhile: then
// the caller's link fails again, and it comes back.
static bool make_folders(const struct local_path *to, str name, err *e)
{
    struct local_path p = *to;
    assert(p.n > p.top);
    for (size_t i = p.top; i < p.n; i++) {
        if (p.p[i] != '/') continue;
        p.p[i] = '\0';
        // From the top down; folders that are there are the usual case.
        int why = mkdir(p.p, 0750) == 0 ? 0 : errno;
        p.p[i] = '/';
        if (why == ENOENT) return true;
        if (why && why != EEXIST) return local_fault(e, why, "make a folder for", name);
    }
    return true;
}

// Removes the folders of a path that are empty. One that is not ends it: rmdir fails.
static void remove_folders(struct local_path p)
{
    while (path_up(&p) && p.n > p.top && rmdir(p.p) == 0)
        ;
}

// ---- the name

// Is the taken name an object? False: it is a folder, either left over empty and now removed, or
// with objects below it (*e is set).
static bool is_object(const struct local_path *to, str name, err *e)
{
    struct stat st;
    if (lstat(to->p, &st) != 0 || !S_ISDIR(st.st_mode)) return true;
    if (rmdir(to->p) == 0 || errno == ENOENT) return false;
    return err_set(e, ERR_INVALID_ARGUMENT, "create object %.*s: objects are below that name",
                   STR(name));
}

// Has the file a name besides the one in t/? When the answer of a file server gets lost, the kernel
// asks again, and is told that the name is taken: by our own link.
static bool is_linked(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink > 1;
}

// Gives the file its name. *existed: another object has it.
static bool link_to(struct upload *u, const struct local_path *to, bool *existed, err *e)
{
    str name = upload_name(u);
    err why = {0};
    for (int tries = 0; tries < LINK_TRIES; tries++) {
        if (FAULT_ERRNO("store.link")) return local_fault(e, errno, "create", name);
        if (link(u->temp, to->p) == 0) return true;
        // Folders may be removed between making them and the link: another process deleted their
        // last object. So all of this is tried again.
        if (errno == ENOENT) {
            if (!make_folders(to, name, e)) return false;
        } else if (errno != EEXIST) {
            return local_fault(e, errno, "create", name);
        } else if (is_linked(u->fd)) {
            return true;
        } else if (is_object(to, name, &why)) {
            return *existed = true;
        } else if (why.code) {
            *e = why;
            return false;
        }
    }
    return err_set(e, ERR_UNAVAILABLE, "create object %.*s: its folder is removed again and again",
                   STR(name));
}

static bool finish(struct upload *u, bool *existed, err *e)
{
    struct local_path to;
    str name = upload_name(u);
    local_path_of(u->local, name, &to);
    assert(!*existed);
    if (!flush(u, (str){0}, true, e)) return false;
    FAULT("store.synced");
    // The last moment at which the creation can be given up without a trace.
    if (!local_alive(u->req, e)) return false;
    if (!link_to(u, &to, existed, e)) {
        // They may have been made for this object alone.
        remove_folders(to);
        return false;
    }
    FAULT("store.linked");
    // Also if the name was taken: the caller relies on the other's object, which may not be synced.
    return sync_folders(u->local, to, name, e);
}

bool local_commit(struct store_upload *up, bool *existed, err *e)
{
    struct upload *u = CONTAINER_OF(up, struct upload, upload);
    bool ok = finish(u, existed, e);
    // On a failure the caller must not take the name for one that is safely there.
    if (!ok) *existed = false;
    upload_free(u);
    FAULT("store.created");
    return ok;
}

void local_abandon(struct store_upload *up)
{
    upload_free(CONTAINER_OF(up, struct upload, upload));
}

// ---- what others left

// Removes it unless a process is writing it.
static bool sweep_file(const struct local *l, str name, err *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/t/%.*s", l->dir, STR(name));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || local_fault(e, errno, "sweep unfinished", name);
    // Taken and not closed before the unlink: between them no writer can be using it.
    bool ok = true;
    if (lock_file_take(fd)) {
        ok =
            unlink(path) == 0 || errno == ENOENT || local_fault(e, errno, "sweep unfinished", name);
        if (ok) metric_add(&store_swept, 1);
    } else if (!is_taken(errno)) {
        ok = local_fault(e, errno, "sweep unfinished", name);
    }
    local_close_file(fd);
    return ok;
}

bool local_sweep(struct local *l, err *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/t", l->dir);
    DIR *dir = opendir(path);
    if (!dir) return local_fault(e, errno, "sweep folder", S("t"));
    bool ok = true;
    for (;;) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        if (!d && errno) ok = local_fault(e, errno, "sweep folder", S("t"));
        if (!d) break;
        str name = str_of(d->d_name);
        if (str_is(name, ".") || str_is(name, "..") || str_is(name, LOCAL_LOCK)) continue;
        ok = sweep_file(l, name, e);
        if (!ok) break;
    }
    if (closedir(dir) != 0 && ok) ok = local_fault(e, errno, "sweep folder", S("t"));
    return ok;
}

// ---- deleting

// The folder is synced: an object that came back after the loss of power would be taken for one
// that has not been dealt with yet.
static bool remove_file(const struct local_path *path, str name, err *e)
{
    struct local_path folder = *path;
    assert(path->n > path->top);
    path_up(&folder);
    int fd = open(folder.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || errno == ENOTDIR || local_fault(e, errno, "delete", name);
    bool ok = !FAULT_ERRNO("store.delete") && unlink(path->p) == 0;
    // EISDIR: the name is a folder, so there is no such object.
    bool there = ok || (errno != ENOENT && errno != ENOTDIR && errno != EISDIR);
    if (!ok && there) local_fault(e, errno, "delete", name);
    if (ok) {
        FAULT("store.deleted");
        ok = fsync(fd) == 0 || local_fault(e, errno, "sync the folder of", name);
    }
    local_close_file(fd);
    return ok || !there;
}

bool local_remove(struct store *s, struct req *r, str name, err *e)
{
    struct local_path path;
    if (!local_alive(r, e) || !local_may_change(local_of(s), e)) return false;
    local_path_of(local_of(s), name, &path);
    if (!remove_file(&path, name, e)) return false;
    // Not synced: an empty folder that comes back after a loss of power does no harm.
    remove_folders(path);
    return true;
}

struct removing {
    struct store *store;
    struct req *req;
    struct store_removal *v;
};

static void remove_one(void *arg, size_t i)
{
    const struct removing *w = arg;
    w->v[i].ok = local_remove(w->store, w->req, w->v[i].name, &w->v[i].fault);
}

void local_remove_many(struct store *s, struct req *r, struct store_removal *v, size_t n)
{
    struct removing w = {s, r, v};
    io_each(local_of(s)->io, r, n, remove_one, &w);
}
