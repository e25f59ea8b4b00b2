// SPDX-License-Identifier: Apache-2.0
#include "walk/place.h"

#include "s3/s3.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 1000

static const char *place;
static struct store *bucket;  // one world after the other
static struct mem_budget bucket_memory;
static _Atomic unsigned under_way;
static struct store *world;  // the first store of the world that is open

// When objects of the bucket were made, by the walk's clock; the newest of a name counts.
static struct {
    pthread_mutex_t lock;
    int64_t now_ns;
    struct made {
        char *name;
        int64_t ns;
    } * v;
    size_t n;
} made = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct seat_store {
    struct store store;
    memstore_hook *before;
    memstore_hook *after;
    void *arg;
    size_t page;
};

struct seat_upload {
    struct store_upload upload;
    struct store_upload *inner;
    struct req *req;
    uint64_t bytes;
    char name[STORE_NAME_MAX + 1];
};

static struct seat_store *seat_store_of(struct store *s)
{
    return (struct seat_store *)s;
}

// ---- operations

// The thread's own clock is not the client's.
static int64_t request_begin(void)
{
    int64_t here = clock_wall_here;
    clock_wall_here = 0;
    atomic_fetch_add(&under_way, 1);
    return here;
}

static void request_end(int64_t here)
{
    atomic_fetch_sub(&under_way, 1);
    clock_wall_here = here;
}

void place_wait(void)
{
    while (atomic_load(&under_way))
        usleep(200);
}

static struct memstore_event event(struct seat_store *m, struct req *r, enum memstore_op op,
                                   str name)
{
    return (struct memstore_event){.store = &m->store, .req = r, .op = op, .name = name};
}

static enum memstore_fault op_begin(struct seat_store *m, const struct memstore_event *ev)
{
    return m->before ? m->before(m->arg, ev) : MEMSTORE_FINE;
}

static bool op_end(struct seat_store *m, struct memstore_event *ev, bool ok)
{
    ev->ok = ok;
    if (m->after) m->after(m->arg, ev);
    return ok;
}

static bool fails(const struct memstore_event *ev, enum memstore_fault what, err *e)
{
    enum err_code code = what == MEMSTORE_ABORTS      ? ERR_ABORTED
                         : what == MEMSTORE_EXPIRES   ? ERR_DEADLINE_EXCEEDED
                         : what == MEMSTORE_FORGETS   ? ERR_NOT_FOUND
                         : what == MEMSTORE_TOO_LARGE ? ERR_OUT_OF_RANGE
                                                      : ERR_UNAVAILABLE;
    return err_set(e, code, "object %.*s: the walk wants it to fail", STR(ev->name));
}

// Is it not carried out? FORGETS is for reads only, TOO_LARGE for creations.
static bool stops(enum memstore_fault what)
{
    return what == MEMSTORE_FAILS || what == MEMSTORE_FORGETS || what == MEMSTORE_TOO_LARGE;
}

// What came of an operation that was carried out, and what is reported.
static bool end(struct seat_store *m, struct memstore_event *ev, enum memstore_fault what, bool ok,
                err *e)
{
    if (ok && what != MEMSTORE_FINE) ok = fails(ev, what, e);
    return op_end(m, ev, ok);
}

static void read_one(struct seat_store *m, struct req *r, struct store_read *v)
{
    struct memstore_event ev = event(m, r, MEMSTORE_READ, v->name);
    enum memstore_fault what = op_begin(m, &ev);
    ev.bytes = v->n;
    if (stops(what)) {
        v->ok = op_end(m, &ev, fails(&ev, what, &v->fault));
        return;
    }
    int64_t here = request_begin();
    store_read_many(bucket, r, v, 1);
    request_end(here);
    ev.done = v->ok;
    v->ok = end(m, &ev, what, v->ok, &v->fault);
}

static void place_read_many(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        read_one(seat_store_of(s), r, &v[i]);
}

static bool place_size(struct store *s, struct req *r, str name, uint64_t *size, err *e)
{
    struct seat_store *m = seat_store_of(s);
    struct memstore_event ev = event(m, r, MEMSTORE_READ, name);
    enum memstore_fault what = op_begin(m, &ev);
    if (stops(what)) return op_end(m, &ev, fails(&ev, what, e));
    int64_t here = request_begin();
    bool ok = ev.done = store_size(bucket, r, name, size, e);
    request_end(here);
    return end(m, &ev, what, ok, e);
}

static bool place_get(struct store *s, struct req *r, str name, struct buf *out, err *e)
{
    struct seat_store *m = seat_store_of(s);
    struct memstore_event ev = event(m, r, MEMSTORE_READ, name);
    enum memstore_fault what = op_begin(m, &ev);
    if (stops(what)) return op_end(m, &ev, fails(&ev, what, e));
    int64_t here = request_begin();
    bool ok = ev.done = store_get(bucket, r, name, out, e);
    request_end(here);
    return end(m, &ev, what, ok, e);
}

// ---- lists

struct page {
    size_t most;
    size_t n;
    bool full;
    struct {
        char name[STORE_NAME_MAX + 1];
        uint64_t size;
    } v[];
};

static bool take_name(void *arg, str name, uint64_t size, err *e)
{
    struct page *p = arg;
    if (p->n == p->most) {
        p->full = true;
        return err_set(e, ERR_CANCELED, "the page is full");
    }
    snprintf(p->v[p->n].name, sizeof p->v[0].name, "%.*s", STR(name));
    p->v[p->n++].size = size;
    return true;
}

static bool list_page(struct seat_store *m, struct req *r, str prefix, str after, struct page *p,
                      err *e)
{
    struct memstore_event ev = event(m, r, MEMSTORE_LIST, prefix);
    enum memstore_fault what = op_begin(m, &ev);
    p->n = 0;
    p->full = false;
    if (stops(what)) return op_end(m, &ev, fails(&ev, what, e));
    int64_t here = request_begin();
    bool ok = store_list(bucket, r, prefix, after, take_name, p, e) || p->full;
    request_end(here);
    if (ok) *e = (err){0};
    ev.done = ok;
    ev.bytes = p->n;
    return end(m, &ev, what, ok, e);
}

static bool place_list(struct store *s, struct req *r, str prefix, str after, store_visit *fn,
                       void *arg, err *e)
{
    struct seat_store *m = seat_store_of(s);
    struct page *p = malloc(sizeof *p + m->page * sizeof p->v[0]);
    char last[STORE_NAME_MAX + 1];
    bool ok = p != NULL;
    if (!ok) abort();
    p->most = m->page;
    for (bool more = true; ok && more;) {
        ok = list_page(m, r, prefix, after, p, e);
        more = ok && p->full;
        for (size_t i = 0; ok && i < p->n; i++)
            ok = fn(arg, str_of(p->v[i].name), p->v[i].size, e);
        if (!p->n) continue;
        snprintf(last, sizeof last, "%s", p->v[p->n - 1].name);
        after = str_of(last);
    }
    free(p);
    return ok;
}

// ---- the clock of objects

static void note_made(const char *name)
{
    pthread_mutex_lock(&made.lock);
    made.v = realloc(made.v, (made.n + 1) * sizeof *made.v);
    if (!made.v) abort();
    made.v[made.n] = (struct made){strdup(name), made.now_ns};
    if (!made.v[made.n++].name) abort();
    pthread_mutex_unlock(&made.lock);
}

static void forget_made(void)
{
    for (size_t i = 0; i < made.n; i++)
        free(made.v[i].name);
    free(made.v);
    made.v = NULL;
    made.n = 0;
}

static bool place_age(struct store *s, struct req *r, str name, int64_t *age_ns, err *e)
{
    uint64_t size = 0;
    if (!place_size(s, r, name, &size, e)) return false;
    *age_ns = 0;
    pthread_mutex_lock(&made.lock);
    for (size_t i = 0; i < made.n; i++)
        if (str_is(name, made.v[i].name)) *age_ns = made.now_ns - made.v[i].ns;
    pthread_mutex_unlock(&made.lock);
    return true;
}

void place_pass(int64_t ns)
{
    if (!place) {
        memstore_pass(world, ns);
        return;
    }
    pthread_mutex_lock(&made.lock);
    made.now_ns += ns;
    pthread_mutex_unlock(&made.lock);
}

// ---- creating and deleting

static struct store_upload *place_begin(struct store *s, struct req *r, str name,
                                        enum store_naming naming, uint64_t about, err *e)
{
    int64_t here = request_begin();
    struct store_upload *inner = naming == STORE_UNIQUE
                                     ? store_begin_unique(bucket, r, name, about, e)
                                     : store_begin(bucket, r, name, about, e);
    request_end(here);
    if (!inner) return NULL;
    struct seat_upload *u = calloc(1, sizeof *u);
    if (!u) abort();
    u->upload.store = s;
    u->inner = inner;
    u->req = r;
    snprintf(u->name, sizeof u->name, "%.*s", STR(name));
    return &u->upload;
}

static bool place_write(struct store_upload *up, str bytes, err *e)
{
    struct seat_upload *u = (struct seat_upload *)up;
    u->bytes += bytes.n;
    int64_t here = request_begin();
    bool ok = store_write(u->inner, bytes, e);
    request_end(here);
    return ok;
}

static void place_abandon(struct store_upload *up)
{
    struct seat_upload *u = (struct seat_upload *)up;
    int64_t here = request_begin();
    store_abandon(u->inner);
    request_end(here);
    free(u);
}

static bool place_commit(struct store_upload *up, bool *existed, err *e)
{
    struct seat_upload *u = (struct seat_upload *)up;
    struct seat_store *m = seat_store_of(up->store);
    struct memstore_event ev = event(m, u->req, MEMSTORE_CREATE, str_of(u->name));
    ev.bytes = u->bytes;
    enum memstore_fault what = op_begin(m, &ev);
    *existed = false;
    if (stops(what)) {
        bool ok = op_end(m, &ev, fails(&ev, what, e));
        place_abandon(up);
        return ok;
    }
    int64_t here = request_begin();
    bool ok = store_commit(u->inner, existed, e);
    request_end(here);
    ev.done = ok && !*existed;
    if (ev.done) note_made(u->name);
    if (!end(m, &ev, what, ok, e)) *existed = ok = false;
    free(u);
    return ok;
}

static bool place_remove(struct store *s, struct req *r, str name, err *e)
{
    struct seat_store *m = seat_store_of(s);
    struct memstore_event ev = event(m, r, MEMSTORE_DELETE, name);
    enum memstore_fault what = op_begin(m, &ev);
    if (stops(what)) return op_end(m, &ev, fails(&ev, what, e));
    int64_t here = request_begin();
    bool ok = ev.done = store_delete(bucket, r, name, e);
    request_end(here);
    return end(m, &ev, what, ok, e);
}

// ---- life

static void place_close(struct store *s)
{
    free(s);
}

static const struct store_kind place_kind = {.name = "place",
                                             .remote = true,
                                             .read_many = place_read_many,
                                             .list = place_list,
                                             .begin = place_begin,
                                             .write = place_write,
                                             .commit = place_commit,
                                             .abandon = place_abandon,
                                             .remove = place_remove,
                                             .size = place_size,
                                             .age = place_age,
                                             .get = place_get,
                                             .close = place_close};

static struct store *new_seat_store(const struct store_kind *kind)
{
    struct seat_store *m = calloc(1, sizeof *m);
    if (!m) abort();
    m->store.kind = kind;
    m->page = PAGE;
    return &m->store;
}

static void must(bool ok, const err *e)
{
    if (ok) return;
    printf("FAILED: the bucket: %s\n", e->msg);
    exit(1);
}

// Objects of a world go with its first store.
static void bucket_close(struct store *s)
{
    struct req r;
    err e = {0};
    char *names = place_names(s, "");
    str rest = str_of(names);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    while (rest.n) {
        str name = str_split(rest, '\n', &rest);
        must(store_delete(bucket, &r, name, &e), &e);
    }
    free(names);
    req_release(&r);
    store_close(bucket);
    bucket = NULL;
    forget_made();
    free(s);
}

void place_set(const char *url)
{
    place = url;
}

static void bucket_open(void)
{
    struct arena a;
    struct s3_options o;
    err e = {0};
    char prefix[STORE_NAME_MAX];
    arena_init(&a, NULL, 1 << 16);
    must(s3_options_of_url(str_of(place), &a, &o, &e), &e);
    snprintf(prefix, sizeof prefix, "%s/walk-%016llx/", o.prefix, (unsigned long long)rand_u64());
    o.prefix = prefix[0] == '/' ? prefix + 1 : prefix;
    mem_budget_init(&bucket_memory, "bucket", NULL, 0);
    o.memory = &bucket_memory;
    bucket = store_open_s3(&o, &e);
    must(bucket != NULL, &e);
    arena_release(&a);
}

struct store *place_open(void)
{
    static struct store_kind first;
    if (!place) return world = memstore_open();
    bucket_open();
    first = place_kind;
    first.close = bucket_close;
    return world = new_seat_store(&first);
}

struct store *place_again(struct store *s)
{
    return place ? new_seat_store(&place_kind) : memstore_again(s);
}

void place_set_hooks(struct store *s, memstore_hook *before, memstore_hook *after, void *arg)
{
    if (!place) {
        memstore_set_hooks(s, before, after, arg);
        return;
    }
    struct seat_store *m = seat_store_of(s);
    m->before = before;
    m->after = after;
    m->arg = arg;
}

void place_set_page(struct store *s, size_t names)
{
    if (place)
        seat_store_of(s)->page = names;
    else
        memstore_set_page(s, names);
}

// ---- what is there

bool place_has(struct store *s, const char *name)
{
    struct req r;
    uint64_t size = 0;
    if (!place) return memstore_has(s, name);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    bool has = place_size(s, &r, str_of(name), &size, &(err){0});
    req_release(&r);
    return has;
}

void place_drop(struct store *s, const char *name)
{
    struct req r;
    err e = {0};
    if (!place) {
        memstore_drop(s, name);
        return;
    }
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    must(place_remove(s, &r, str_of(name), &e), &e);
    req_release(&r);
}

static bool add_name(void *arg, str name, uint64_t size, err *e)
{
    char **text = arg;
    size_t n = strlen(*text);
    (void)size;
    (void)e;
    *text = realloc(*text, n + name.n + 2);
    if (!*text) abort();
    memcpy(*text + n, name.p, name.n);
    memcpy(*text + n + name.n, "\n", 2);
    return true;
}

char *place_names(struct store *s, const char *prefix)
{
    struct req r;
    err e = {0};
    if (!place) return memstore_names(s, prefix);
    char *text = calloc(1, 1);
    if (!text) abort();
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    must(place_list(s, &r, str_of(prefix), (str){0}, add_name, &text, &e), &e);
    req_release(&r);
    return text;
}
