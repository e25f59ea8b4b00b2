// SPDX-License-Identifier: Apache-2.0
//
// local_list.c - lists objects in the order of their names, one folder of the path open at a time.
//
// A name orders by all of its bytes, '/' too. A folder "a" therefore counts as "a/" among its
// neighbours: "a-b" comes before "a/c". Each folder is read whole and sorted; then the walk goes
// down (walk_down) and on (walk_on).
#include "store/local_int.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LOOK_EVERY 256  // entries between two checks of the deadline

// ---- one folder, in order

struct entry {
    size_t at;  // of its name in `names`
    uint32_t n;
    bool folder;
};

struct level {
    struct mem_budget *memory;
    struct entry *v;
    size_t n, cap;
    char *names;
    size_t names_n, names_cap;
    size_t next;    // to be visited
    size_t path_n;  // of the path up to this folder, its '/' included
};

static void level_release(struct level *v)
{
    mem_free(v->memory, v->v, v->cap * sizeof *v->v);
    mem_free(v->memory, v->names, v->names_cap);
    *v = (struct level){0};
}

// Names are put into one array, and entries hold offsets: the array moves as it grows.
static bool level_add(struct level *v, str name, bool folder, err *e)
{
    assert(name.n > 0 && name.n <= UINT32_MAX);
    assert(v->next == 0);  // offsets and order are fixed once the visits begin
    if (!mem_grow_bare(v->memory, &v->v, &v->cap, v->n + 1, sizeof *v->v, e) ||
        !mem_grow_bare(v->memory, &v->names, &v->names_cap, v->names_n + name.n, 1, e))
        return false;
    memcpy(v->names + v->names_n, name.p, name.n);
    v->v[v->n++] = (struct entry){v->names_n, (uint32_t)name.n, folder};
    v->names_n += name.n;
    return true;
}

static str entry_name(const struct level *v, const struct entry *x)
{
    assert(x->at + x->n <= v->names_n);
    return str_make(v->names + x->at, x->n);
}

// The order of object names, in which the name of a folder continues with '/'. So "a.b" comes
// before the folder "a", because '.' is less than '/'.
static int by_name(const void *a, const void *b, void *level)
{
    const struct entry *x = a;
    const struct entry *y = b;
    str s = entry_name(level, x);
    str t = entry_name(level, y);
    size_t n = MIN(s.n, t.n);
    int order = memcmp(s.p, t.p, n);
    if (order) return order;
    int c = s.n > n ? (unsigned char)s.p[n] : x->folder ? '/' : -1;
    int d = t.n > n ? (unsigned char)t.p[n] : y->folder ? '/' : -1;
    if (c != d) return c - d;
    return s.n < t.n ? -1 : s.n > t.n;
}

// ---- a walk over all folders that may hold wanted names

struct walk {
    struct local *local;
    struct req *req;
    str prefix;
    str after;
    struct level *levels;
    size_t n, cap;
    unsigned looks;
    struct local_path path;  // of the current entry; from `top` on it is the name
};

static str walk_name(const struct walk *w)
{
    return str_make(w->path.p + w->path.top, w->path.n - w->path.top);
}

// Puts a name behind the first n bytes of the path. False: longer than a name can be.
static bool walk_point(struct walk *w, size_t n, str name, bool folder)
{
    assert(n >= w->path.top);
    if (n + name.n + folder - w->path.top > STORE_NAME_MAX) return false;
    // Checked before: a folder may have names that are longer than any that a store makes.
    memcpy(w->path.p + n, name.p, name.n);
    w->path.n = n + name.n;
    if (folder) w->path.p[w->path.n++] = '/';
    w->path.p[w->path.n] = '\0';
    return true;
}

// Is the name wanted? For a folder: may names below it be wanted?
static bool wanted(const struct walk *w, str name, bool folder)
{
    err ignored = {0};  // an invalid name is a file that no store made
    if (folder ? !store_prefix_check(name, &ignored) : !store_name_check(name, &ignored))
        return false;
    if (!folder) return str_starts(name, w->prefix) && str_cmp(name, w->after) > 0;
    // A folder is wanted if it is below the prefix or on the way to it.
    if (!str_starts(name, w->prefix) && !str_starts(w->prefix, name)) return false;
    return str_starts(w->after, name) || str_cmp(name, w->after) > 0;
}

static bool still_alive(struct walk *w, err *e)
{
    return w->looks++ % LOOK_EVERY != 0 || local_alive(w->req, e);
}

// Finds the kind of an entry; asks the system if the folder does not have it (some file systems).
// False: neither file nor folder, or gone meanwhile.
static bool kind_of(const struct walk *w, const struct dirent *d, bool *folder)
{
    struct stat st;
    *folder = d->d_type == DT_DIR;
    if (d->d_type != DT_UNKNOWN) return d->d_type == DT_DIR || d->d_type == DT_REG;
    // lstat: a link is neither, and is not followed out of the store.
    if (lstat(w->path.p, &st) != 0) return false;
    *folder = S_ISDIR(st.st_mode);
    return S_ISDIR(st.st_mode) || S_ISREG(st.st_mode);
}

static bool read_entry(struct walk *w, struct level *v, const struct dirent *d, err *e)
{
    str name = str_of(d->d_name);
    bool folder = false;
    if (str_is(name, ".") || str_is(name, "..")) return true;
    // First as a file, for kind_of to ask about; then again with the '/' of a folder.
    if (!walk_point(w, v->path_n, name, false) || !kind_of(w, d, &folder)) return true;
    if (!walk_point(w, v->path_n, name, folder) || !wanted(w, walk_name(w), folder)) return true;
    return level_add(v, name, folder, e);
}

// Reads the folder of the path into *v. A folder that is gone counts as empty: its last object was
// deleted meanwhile.
static bool read_folder(struct walk *w, struct level *v, err *e)
{
    *v = (struct level){.memory = w->local->memory, .path_n = w->path.n};
    struct local_path folder = w->path;  // entries are put behind it
    str name = str_slice(walk_name(w), 0, w->path.n - w->path.top);
    DIR *dir = opendir(folder.p);
    if (!dir && (errno == ENOENT || errno == ENOTDIR)) return true;
    name.p = folder.p + folder.top;
    if (!dir) return local_fault(e, errno, "list", name);
    // Read whole and closed before the walk goes down: so few descriptors are open however deep.
    bool ok = true;
    for (;;) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        if (!d && errno) ok = local_fault(e, errno, "list", name);
        if (!d) break;
        ok = still_alive(w, e) && read_entry(w, v, d, e);
        if (!ok) break;
    }
    if (closedir(dir) != 0 && ok) ok = local_fault(e, errno, "list", name);
    if (ok && v->n > 1) qsort_r(v->v, v->n, sizeof *v->v, by_name, v);
    return ok;
}

static bool walk_down(struct walk *w, err *e)
{
    if (!mem_grow(w->local->memory, &w->levels, &w->cap, w->n + 1, sizeof *w->levels, e))
        return false;
    // Counted before it is read, so that walk_release frees it after a failure as well.
    w->n += 1;
    return read_folder(w, &w->levels[w->n - 1], e);
}

// Visits one object with its current size; skips it if it was deleted meanwhile.
static bool visit(struct walk *w, store_visit *fn, void *arg, err *e)
{
    struct stat st;
    if (stat(w->path.p, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR ||
               local_fault(e, errno, "look at", walk_name(w));
    return fn(arg, walk_name(w), (uint64_t)st.st_size, e);
}

static bool walk_on(struct walk *w, store_visit *fn, void *arg, err *e)
{
    while (w->n > 0) {
        struct level *v = &w->levels[w->n - 1];
        assert(v->next <= v->n);
        if (v->next == v->n) {
            level_release(v);
            w->n -= 1;
            continue;
        }
        const struct entry *x = &v->v[v->next++];
        if (!still_alive(w, e)) return false;
        // The path is that of the entry before, maybe in a folder below: it is set anew each time.
        if (!walk_point(w, v->path_n, entry_name(v, x), x->folder)) continue;
        if (x->folder ? !walk_down(w, e) : !visit(w, fn, arg, e)) return false;
    }
    return true;
}

static void walk_init(struct walk *w, struct store *s, struct req *r, str prefix, str after)
{
    *w = (struct walk){.local = local_of(s), .req = r, .prefix = prefix, .after = after};
    str folder = prefix;
    // Begins in the folder that the prefix is in: names outside of it cannot match.
    while (folder.n > 0 && folder.p[folder.n - 1] != '/')
        folder.n -= 1;
    local_path_of(w->local, folder, &w->path);
}

static void walk_release(struct walk *w)
{
    for (size_t i = 0; i < w->n; i++)
        level_release(&w->levels[i]);
    mem_free(w->local->memory, w->levels, w->cap * sizeof *w->levels);
}

bool local_list(struct store *s, struct req *r, str prefix, str after, store_visit *fn, void *arg,
                err *e)
{
    struct walk w;
    walk_init(&w, s, r, prefix, after);
    bool ok = local_alive(r, e) && local_is_there(w.local, e) && walk_down(&w, e) &&
              walk_on(&w, fn, arg, e);
    walk_release(&w);
    return ok;
}
