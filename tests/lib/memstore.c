// SPDX-License-Identifier: Apache-2.0
#include "lib/memstore.h"

#include "lib/memobjects.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define PAGE  1000
#define WIDTH 16

struct seen {
    char *name;
    size_t n;
    uint64_t size;
};

struct order {
    enum memstore_fault what;
    uint64_t after;  // operations that are still fine
    uint64_t count;
};

struct memstore {
    struct store store;
    struct memobjects *objects;
    struct order orders[MEMSTORE_OPS];  // under the mutex, as all below
    struct memstore_totals totals;
    size_t uploads;
    struct seen *old;  // what there was
    size_t old_n;
    size_t page;
    size_t width;
    uint64_t turn_ns;
    memstore_hook *before;
    memstore_hook *after;
    void *arg;
};

struct upload {
    struct store_upload upload;
    struct req *req;
    char *name;
    size_t name_n;
    char *bytes;
    size_t n;
    size_t cap;
};

static struct memstore *memstore_of(struct store *s)
{
    return (struct memstore *)s;
}

static void lock(struct memstore *m)
{
    if (pthread_mutex_lock(&m->objects->mutex)) abort();
}

static void unlock(struct memstore *m)
{
    if (pthread_mutex_unlock(&m->objects->mutex)) abort();
}

// ---- operations

static enum memstore_fault ordered(struct memstore *m, enum memstore_op op)
{
    struct order *o = &m->orders[op];
    if (o->count == 0) return MEMSTORE_FINE;
    if (o->after > 0) {
        o->after -= 1;
        return MEMSTORE_FINE;
    }
    if (o->count != UINT64_MAX) o->count -= 1;
    return o->what;
}

// Of n operations that are asked for together.
static void take_turns(struct memstore *m, size_t n)
{
    uint64_t turns = (n + m->width - 1) / m->width;
    lock(m);
    m->totals.turns += turns;
    unlock(m);
    uint64_t ns = turns * m->turn_ns;
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    if (ns && nanosleep(&t, NULL) != 0) abort();
}

// Counts it, asks the hook; the fault that it meets.
static enum memstore_fault op_begin(struct memstore *m, struct memstore_event *ev)
{
    lock(m);
    m->totals.ops[ev->op] += 1;
    enum memstore_fault what = ordered(m, ev->op);
    unlock(m);
    enum memstore_fault asked = m->before ? m->before(m->arg, ev) : MEMSTORE_FINE;
    return asked ? asked : what;
}

static bool op_end(struct memstore *m, struct memstore_event *ev, bool ok)
{
    ev->ok = ok;
    lock(m);
    if (!ok) m->totals.failed[ev->op] += 1;
    unlock(m);
    if (m->after) m->after(m->arg, ev);
    return ok;
}

static bool fails(const struct memstore_event *ev, enum memstore_fault what, err *e)
{
    static const char *const words[] = {"create", "read", "list", "delete"};
    bool large = what == MEMSTORE_TOO_LARGE && ev->op == MEMSTORE_CREATE;
    enum err_code code = what == MEMSTORE_ABORTS    ? ERR_ABORTED
                         : what == MEMSTORE_EXPIRES ? ERR_DEADLINE_EXCEEDED
                         : what == MEMSTORE_STARVES ? ERR_RESOURCE_EXHAUSTED
                         : large                    ? ERR_OUT_OF_RANGE
                                                    : ERR_UNAVAILABLE;
    return err_set(e, code, "%s object %.*s: %s", words[ev->op], STR(ev->name),
                   what == MEMSTORE_LANDS ? "timed out"
                   : large                ? "it is too large"
                                          : "the test wants it to fail");
}

// It happens, and is reported as a failure all the same.
static bool lands(enum memstore_fault what)
{
    return what == MEMSTORE_LANDS || what == MEMSTORE_ABORTS || what == MEMSTORE_EXPIRES ||
           what == MEMSTORE_STARVES;
}

// Nothing happens, of operations that are no reads.
static bool is_refused(enum memstore_fault what)
{
    return what == MEMSTORE_FAILS || what == MEMSTORE_SHORT || what == MEMSTORE_FORGETS ||
           what == MEMSTORE_TOO_LARGE;
}

static bool alive(struct req *r, err *e)
{
    return !r || req_alive(r, e);
}

static struct memstore_event event(struct memstore *m, struct req *r, enum memstore_op op, str name)
{
    return (struct memstore_event){.store = &m->store, .req = r, .op = op, .name = name};
}

static bool no_object(str name, err *e)
{
    return err_set(e, ERR_NOT_FOUND, "read object %.*s: there is none", STR(name));
}

static bool read_bytes(struct memstore *m, struct store_read *v, enum memstore_fault what, err *e)
{
    bool ok = true;
    lock(m);
    const struct memobject *o = memobjects_find(m->objects, v->name);
    if (!o || what == MEMSTORE_FORGETS) {
        ok = no_object(v->name, e);
    } else if (v->at > o->n || v->n > o->n - v->at || what == MEMSTORE_SHORT) {
        uint64_t n = v->at < o->n ? MIN(v->n, o->n - v->at) / 2 : 0;
        if (n) memcpy(v->to, o->bytes + v->at, n);
        ok = err_set(e, ERR_OUT_OF_RANGE,
                     "read object %.*s: it ends before byte %llu + %zu; there are %llu",
                     STR(v->name), (unsigned long long)v->at, v->n, (unsigned long long)o->n);
    } else if (v->n) {
        memcpy(v->to, o->bytes + v->at, v->n);
        if (what == MEMSTORE_FLIPS) v->to[v->n / 2] ^= 0x10;
        if (what == MEMSTORE_SWAPS) memset(v->to, '<', v->n);
        m->totals.read_bytes += v->n;
    }
    unlock(m);
    return ok;
}

static void read_one(struct memstore *m, struct req *r, struct store_read *v)
{
    struct memstore_event ev = event(m, r, MEMSTORE_READ, v->name);
    enum memstore_fault what = op_begin(m, &ev);
    ev.bytes = v->n;
    v->ok = alive(r, &v->fault);
    if (v->ok && (what == MEMSTORE_FAILS || what == MEMSTORE_TOO_LARGE))
        v->ok = fails(&ev, what, &v->fault);
    if (v->ok) v->ok = ev.done = read_bytes(m, v, what, &v->fault);
    if (v->ok && lands(what)) v->ok = fails(&ev, what, &v->fault);
    if (!op_end(m, &ev, v->ok)) return;
}

static void memory_read_many(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    take_turns(memstore_of(s), n);
    for (size_t i = 0; i < n; i++)
        read_one(memstore_of(s), r, &v[i]);
}

// The size and the age of an object.
static bool look_at(struct memstore *m, struct req *r, str name, uint64_t *size, int64_t *age_ns,
                    err *e)
{
    struct memstore_event ev = event(m, r, MEMSTORE_READ, name);
    enum memstore_fault what = op_begin(m, &ev);
    bool ok = alive(r, e);
    if (ok && (what == MEMSTORE_FAILS || what == MEMSTORE_TOO_LARGE || lands(what)))
        ok = fails(&ev, what, e);
    if (ok) {
        lock(m);
        const struct memobject *o =
            what == MEMSTORE_FORGETS ? NULL : memobjects_find(m->objects, name);
        if (o) *size = o->n;
        if (o) *age_ns = m->objects->now_ns - o->made_ns;
        unlock(m);
        ok = ev.done = o || no_object(name, e);
    }
    return op_end(m, &ev, ok);
}

static bool size_one(struct memstore *m, struct req *r, str name, uint64_t *size, err *e)
{
    int64_t age_ns = 0;
    return look_at(m, r, name, size, &age_ns, e);
}

static bool memory_age(struct store *s, struct req *r, str name, int64_t *age_ns, err *e)
{
    uint64_t size = 0;
    take_turns(memstore_of(s), 1);
    return look_at(memstore_of(s), r, name, &size, age_ns, e);
}

static bool memory_size(struct store *s, struct req *r, str name, uint64_t *size, err *e)
{
    take_turns(memstore_of(s), 1);
    return size_one(memstore_of(s), r, name, size, e);
}

static void memory_size_many(struct store *s, struct req *r, struct store_sizing *v, size_t n)
{
    take_turns(memstore_of(s), n);
    for (size_t i = 0; i < n; i++)
        v[i].ok = size_one(memstore_of(s), r, v[i].name, &v[i].size, &v[i].fault);
}

// ---- listing

// Up to a page of what there was; how many.
static size_t copy_old_page(const struct memstore *m, str prefix, str after, struct seen *page)
{
    size_t n = 0;
    for (size_t i = 0; i < m->old_n && n < m->page; i++) {
        str name = str_make(m->old[i].name, m->old[i].n);
        if (!str_starts(name, prefix) || str_cmp(name, after) <= 0) continue;
        page[n++] = (struct seen){mem_copy(name.p, name.n), name.n, m->old[i].size};
    }
    return n;
}

// Up to a page of copies; how many.
static size_t copy_page(struct memstore *m, str prefix, str after, struct seen *page)
{
    size_t n = 0;
    lock(m);
    const struct memobjects *o = m->objects;
    for (size_t i = memobjects_place(o, str_cmp(after, prefix) > 0 ? after : prefix);
         i < o->n && n < m->page && str_starts(memobject_name(&o->v[i]), prefix); i++) {
        if (str_eq(memobject_name(&o->v[i]), after)) continue;
        page[n++] =
            (struct seen){mem_copy(o->v[i].name, o->v[i].name_n), o->v[i].name_n, o->v[i].n};
    }
    unlock(m);
    return n;
}

struct seen_page {
    struct seen *v;
    size_t n;
    bool ends;  // the list is over with it, whatever else there is
};

static bool list_page(struct memstore *m, struct req *r, str prefix, str after, struct seen_page *p,
                      err *e)
{
    struct memstore_event ev = event(m, r, MEMSTORE_LIST, prefix);
    take_turns(m, 1);
    enum memstore_fault what = op_begin(m, &ev);
    bool ok = alive(r, e);
    if (ok && is_refused(what)) ok = fails(&ev, what, e);
    if (ok) {
        size_t n = what == MEMSTORE_OLD ? copy_old_page(m, prefix, after, p->v)
                                        : copy_page(m, prefix, after, p->v);
        p->n = what == MEMSTORE_ENDS ? (n + 1) / 2 : n;
        p->ends = n < m->page || p->n < n;
        while (n > p->n)
            free(p->v[--n].name);
        ev.bytes = n;
        ev.done = true;
        if (lands(what)) ok = fails(&ev, what, e);
    }
    return op_end(m, &ev, ok);
}

static bool memory_list(struct store *s, struct req *r, str prefix, str after, store_visit *fn,
                        void *arg, err *e)
{
    struct memstore *m = memstore_of(s);
    struct seen_page p = {.v = mem_or_abort(calloc(m->page, sizeof *p.v))};
    char last[STORE_NAME_MAX];
    bool ok = true;
    for (p.ends = false; ok && !p.ends;) {
        p.n = 0;
        ok = list_page(m, r, prefix, after, &p, e);
        for (size_t i = 0; i < p.n; i++) {
            ok = ok && fn(arg, str_make(p.v[i].name, p.v[i].n), p.v[i].size, e);
            if (i + 1 == p.n) {
                memcpy(last, p.v[i].name, p.v[i].n);
                after = str_make(last, p.v[i].n);
            }
            free(p.v[i].name);
        }
    }
    free(p.v);
    return ok;
}

// ---- creating

static struct store_upload *memory_begin(struct store *s, struct req *r, str name,
                                         enum store_naming naming, uint64_t about, err *e)
{
    struct memstore *m = memstore_of(s);
    if (!alive(r, e)) return NULL;
    (void)about;
    (void)naming;
    struct upload *u = mem_or_abort(calloc(1, sizeof *u));
    u->upload.store = s;
    u->req = r;
    u->name = mem_copy(name.p, name.n);
    u->name_n = name.n;
    lock(m);
    m->uploads += 1;
    unlock(m);
    return &u->upload;
}

static bool memory_write(struct store_upload *up, str bytes, err *e)
{
    struct upload *u = (struct upload *)up;
    if (!alive(u->req, e)) return false;
    if (u->n + bytes.n > u->cap) {
        u->cap = MAX(2 * u->cap, u->n + bytes.n);
        u->bytes = mem_or_abort(realloc(u->bytes, u->cap));
    }
    memcpy(u->bytes + u->n, bytes.p, bytes.n);
    u->n += bytes.n;
    return true;
}

static void memory_abandon(struct store_upload *up)
{
    struct upload *u = (struct upload *)up;
    struct memstore *m = memstore_of(up->store);
    lock(m);
    m->uploads -= 1;
    unlock(m);
    free(u->name);
    free(u->bytes);
    free(u);
}

static bool memory_commit(struct store_upload *up, bool *existed, err *e)
{
    struct upload *u = (struct upload *)up;
    struct memstore *m = memstore_of(up->store);
    str name = str_make(u->name, u->name_n);
    struct memstore_event ev = event(m, u->req, MEMSTORE_CREATE, name);
    ev.bytes = u->n;
    take_turns(m, 1);
    enum memstore_fault what = op_begin(m, &ev);
    bool ok = alive(u->req, e);
    if (ok && is_refused(what)) ok = fails(&ev, what, e);
    if (ok && what != MEMSTORE_PRETENDS) {
        char *bytes = mem_copy(u->bytes, u->n);
        lock(m);
        ev.done = memobjects_insert(m->objects, name, bytes, u->n);
        if (ev.done) m->totals.created_bytes += u->n;
        unlock(m);
        if (!ev.done) free(bytes);
        if (lands(what)) {
            ok = fails(&ev, what, e);
        } else {
            *existed = !ev.done;
        }
    }
    if (!op_end(m, &ev, ok)) *existed = false;
    memory_abandon(up);
    return ok;
}

// ---- deleting

static bool remove_one(struct memstore *m, struct req *r, str name, err *e)
{
    struct memstore_event ev = event(m, r, MEMSTORE_DELETE, name);
    enum memstore_fault what = op_begin(m, &ev);
    bool ok = alive(r, e);
    if (ok && is_refused(what)) ok = fails(&ev, what, e);
    if (ok && what != MEMSTORE_PRETENDS) {
        lock(m);
        memobjects_take_out(m->objects, name);
        unlock(m);
        ev.done = true;
        if (lands(what)) ok = fails(&ev, what, e);
    }
    return op_end(m, &ev, ok);
}

static bool memory_remove(struct store *s, struct req *r, str name, err *e)
{
    take_turns(memstore_of(s), 1);
    return remove_one(memstore_of(s), r, name, e);
}

static void memory_remove_many(struct store *s, struct req *r, struct store_removal *v, size_t n)
{
    take_turns(memstore_of(s), n);
    for (size_t i = 0; i < n; i++)
        v[i].ok = remove_one(memstore_of(s), r, v[i].name, &v[i].fault);
}

// ---- life

static void memory_close(struct store *s)
{
    struct memstore *m = memstore_of(s);
    struct memobjects *o = m->objects;
    lock(m);
    assert(m->uploads == 0);
    bool last = --o->stores == 0;
    unlock(m);
    for (size_t i = 0; i < m->old_n; i++)
        free(m->old[i].name);
    free(m->old);
    if (last) memobjects_free(o);
    free(m);
}

static const struct store_kind memory_kind = {
    .name = "memory",
    .read_many = memory_read_many,
    .list = memory_list,
    .begin = memory_begin,
    .write = memory_write,
    .commit = memory_commit,
    .abandon = memory_abandon,
    .remove = memory_remove,
    .remove_many = memory_remove_many,
    .size = memory_size,
    .size_many = memory_size_many,
    .age = memory_age,
    .close = memory_close,
};

static struct store *open_over(struct memobjects *o)
{
    struct memstore *m = mem_or_abort(calloc(1, sizeof *m));
    m->store.kind = &memory_kind;
    m->objects = o;
    m->page = PAGE;
    m->width = WIDTH;
    return &m->store;
}

struct store *memstore_open(void)
{
    struct memobjects *o = memobjects_new();
    o->stores = 1;
    return open_over(o);
}

struct store *memstore_again(struct store *s)
{
    struct memstore *m = memstore_of(s);
    assert(s->kind == &memory_kind);
    lock(m);
    m->objects->stores += 1;
    unlock(m);
    return open_over(m->objects);
}

// ---- faults

void memstore_fail(struct store *s, enum memstore_op op, enum memstore_fault what, uint64_t nth,
                   uint64_t count)
{
    struct memstore *m = memstore_of(s);
    assert(nth > 0 && op < MEMSTORE_OPS);
    lock(m);
    m->orders[op] = (struct order){what, nth - 1, count};
    unlock(m);
}

void memstore_heal(struct store *s)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    memset(m->orders, 0, sizeof m->orders);
    unlock(m);
}

void memstore_set_hooks(struct store *s, memstore_hook *before, memstore_hook *after, void *arg)
{
    struct memstore *m = memstore_of(s);
    m->before = before;
    m->after = after;
    m->arg = arg;
}

void memstore_set_turns(struct store *s, size_t width, uint64_t turn_ns)
{
    struct memstore *m = memstore_of(s);
    m->width = width;
    m->turn_ns = turn_ns;
}

void memstore_remember(struct store *s)
{
    struct memstore *m = memstore_of(s);
    const struct memobjects *o = m->objects;
    lock(m);
    assert(!m->old);
    m->old = mem_or_abort(calloc(o->n + 1, sizeof *m->old));
    for (; m->old_n < o->n; m->old_n++) {
        const struct memobject *one = &o->v[m->old_n];
        m->old[m->old_n] = (struct seen){mem_copy(one->name, one->name_n), one->name_n, one->n};
    }
    unlock(m);
}

void memstore_set_page(struct store *s, size_t names)
{
    assert(names > 0);
    memstore_of(s)->page = names;
}

// ---- what is there

static struct memobject *there(struct memstore *m, const char *name)
{
    struct memobject *o = memobjects_find(m->objects, str_of(name));
    if (!o) abort();  // the test has a wrong idea of what is there
    return o;
}

bool memstore_has(struct store *s, const char *name)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    bool has = memobjects_find(m->objects, str_of(name)) != NULL;
    unlock(m);
    return has;
}

void memstore_flip(struct store *s, const char *name, uint64_t at, unsigned bit)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    struct memobject *o = there(m, name);
    assert(at < o->n && bit < 8);
    o->bytes[at] = (char)(o->bytes[at] ^ (1 << bit));
    unlock(m);
}

void memstore_cut(struct store *s, const char *name, uint64_t size)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    struct memobject *o = there(m, name);
    assert(size <= o->n);
    o->n = size;
    unlock(m);
}

void memstore_drop(struct store *s, const char *name)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    memobjects_take_out(m->objects, str_of(name));
    unlock(m);
}

void memstore_set(struct store *s, const char *name, str bytes)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    memobjects_take_out(m->objects, str_of(name));
    if (!memobjects_insert(m->objects, str_of(name), mem_copy(bytes.p, bytes.n), bytes.n)) abort();
    unlock(m);
}

void memstore_pass(struct store *s, int64_t ns)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    m->objects->now_ns += ns;
    unlock(m);
}

str memstore_bytes(struct store *s, const char *name)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    struct memobject *o = there(m, name);
    str bytes = str_make(o->bytes, o->n);
    unlock(m);
    return bytes;
}

// Calls fn for each, under the mutex.
static void each(struct store *s, const char *prefix,
                 void (*fn)(void *arg, const struct memobject *o), void *arg)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    const struct memobjects *o = m->objects;
    for (size_t i = memobjects_place(o, str_of(prefix));
         i < o->n && str_starts(memobject_name(&o->v[i]), str_of(prefix)); i++)
        fn(arg, &o->v[i]);
    unlock(m);
}

static void add_one(void *arg, const struct memobject *o)
{
    (void)o;
    *(size_t *)arg += 1;
}

size_t memstore_count(struct store *s, const char *prefix)
{
    size_t n = 0;
    each(s, prefix, add_one, &n);
    return n;
}

static void add_size(void *arg, const struct memobject *o)
{
    *(uint64_t *)arg += o->n;
}

uint64_t memstore_size(struct store *s, const char *prefix)
{
    uint64_t n = 0;
    each(s, prefix, add_size, &n);
    return n;
}

struct names {
    char *text;
    size_t n;
};

static void add_name(void *arg, const struct memobject *o)
{
    struct names *all = arg;
    all->text = mem_or_abort(realloc(all->text, all->n + o->name_n + 2));
    memcpy(all->text + all->n, o->name, o->name_n);
    all->n += o->name_n;
    memcpy(all->text + all->n, "\n", 2);
    all->n += 1;
}

char *memstore_names(struct store *s, const char *prefix)
{
    struct names all = {0};
    each(s, prefix, add_name, &all);
    return all.text ? all.text : mem_copy("", 0);
}

// ---- what was asked

struct memstore_totals memstore_totals(struct store *s)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    struct memstore_totals totals = m->totals;
    unlock(m);
    return totals;
}

void memstore_reset_totals(struct store *s)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    m->totals = (struct memstore_totals){0};
    unlock(m);
}

size_t memstore_uploads(struct store *s)
{
    struct memstore *m = memstore_of(s);
    lock(m);
    size_t n = m->uploads;
    unlock(m);
    return n;
}
