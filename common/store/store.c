// SPDX-License-Identifier: Apache-2.0
//
// store.c - what all kinds of stores share: checks of names, metrics, and the way to each kind.
#include "store/store.h"

#include "store/metrics.h"
#include "sys/clock.h"

#define PART_MAX 255  // what file systems allow a name to be

// ---- names

// Checks that hold for prefixes as well, whose last part may be empty or unfinished.
static bool check_bytes(str name, const char *what, err *e)
{
    if (name.n > STORE_NAME_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "%s of an object is %zu bytes long, limit %d", what,
                       name.n, STORE_NAME_MAX);
    }
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];
        if (c <= ' ' || c > '~') {
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "%s of an object has byte 0x%02x at %zu; it must be printable ASCII",
                           what, c, i);
        }
    }
    return true;
}

static bool check_parts(str name, const char *what, bool last_may_be_empty, err *e)
{
    str rest = name;
    while (rest.p) {
        str part = str_split(rest, '/', &rest);
        bool last = !rest.p;
        if (part.n == 0 && last && last_may_be_empty) break;
        if (part.n == 0 || str_is(part, ".") || str_is(part, "..")) {
            return err_set(e, ERR_INVALID_ARGUMENT, "%s of an object '%.*s' has a part '%.*s'",
                           what, STR(name), STR(part));
        }
        if (part.n > PART_MAX) {
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "%s of an object has a part of %zu bytes, limit %d", what, part.n,
                           PART_MAX);
        }
    }
    return true;
}

bool store_name_check(str name, err *e)
{
    if (name.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "name of an object is empty");
    return check_bytes(name, "name", e) && check_parts(name, "name", false, e);
}

bool store_prefix_check(str prefix, err *e)
{
    return check_bytes(prefix, "prefix", e) && check_parts(prefix, "prefix", true, e);
}

// ---- metrics

static void count(str operation, str result, uint64_t n)
{
    if (n > 0) metric_add_set(&store_operations, (str[]){operation, result}, n);
}

// Counts an operation; returns ok.
static bool counted(str operation, uint64_t began, bool ok, const err *e)
{
    metric_observe_ns_to(&store_seconds, operation, clock_mono_ns() - began);
    count(operation, ok ? S("ok") : str_of(err_name(e->code)), 1);
    return ok;
}

// ---- absence

#define ASK_MOST 3  // of one name, while a list and a read say different things

struct seeking {
    str name;
    bool there;
};

static bool see_sought(void *arg, str name, uint64_t size, err *e)
{
    struct seeking *x = arg;
    (void)size;
    (void)e;
    x->there = x->there || str_eq(name, x->name);
    return true;
}

bool store_lacks(struct store *s, struct req *r, str name, bool *lacks, err *e)
{
    struct seeking x = {.name = name};
    *lacks = false;
    if (!store_list(s, r, name, (str){0}, see_sought, &x, e)) return false;
    *lacks = !x.there;
    return true;
}

// After "there is no such object", the answer number `asked`: must it be asked again, since a list
// shows the name? Otherwise *e is what is known: not_found, which a list has confirmed; why there
// was no list; or unavailable, if the two say different things again and again (*denied).
static bool asks_again(struct store *s, struct req *r, str name, unsigned asked, bool *denied,
                       err *e)
{
    bool lacks = false;
    err unlisted = {0};
    *denied = false;
    if (e->code != ERR_NOT_FOUND || !s->kind->list) return false;
    if (!store_lacks(s, r, name, &lacks, &unlisted)) {
        *e = unlisted;
        (void)err_wrap(e, "is object %.*s gone", STR(name));
        return false;
    }
    if (lacks) return false;
    metric_add(&store_denied, 1);
    if (asked < ASK_MOST) return true;
    *denied = true;
    err_set(e, ERR_UNAVAILABLE,
            "read object %.*s: the store lists it, and then says that there is none", STR(name));
    return false;
}

// ---- reading

static void count_reads(const struct store_read *v, size_t n, uint64_t began)
{
    size_t fine = 0;
    metric_observe_ns_to(&store_seconds, S("read"), clock_mono_ns() - began);
    for (size_t i = 0; i < n; i++) {
        fine += v[i].ok;
        if (!v[i].ok) count(S("read"), str_of(err_name(v[i].fault.code)), 1);
    }
    count(S("read"), S("ok"), fine);
}

// Pieces of one object that follow each other are confirmed together.
static void confirm_reads(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct store_read *x = &v[i];
        if (!x->ok && x->fault.code == ERR_NOT_FOUND && i > 0 && !v[i - 1].ok &&
            str_eq(x->name, v[i - 1].name)) {
            x->fault = v[i - 1].fault;
            x->denied = v[i - 1].denied;
            continue;
        }
        for (unsigned asked = 1; !x->ok && asks_again(s, r, x->name, asked, &x->denied, &x->fault);
             asked++)
            s->kind->read_many(s, r, x, 1);
    }
}

static void read_all(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    s->kind->read_many(s, r, v, n);
    confirm_reads(s, r, v, n);
}

void store_read_many(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    size_t from = 0;  // from here to i all names are good
    uint64_t began = clock_mono_ns();
    assert(n == 0 || v);
    for (size_t i = 0; i < n; i++) {
        v[i].ok = v[i].denied = false;
        if (store_name_check(v[i].name, &v[i].fault)) continue;
        // Names that are refused reach no store; the good ones between them go in as few calls as
        // there are gaps.
        if (i > from) read_all(s, r, v + from, i - from);
        from = i + 1;
    }
    if (n > from) read_all(s, r, v + from, n - from);
    if (n > 0) count_reads(v, n, began);
}

// NOLINTNEXTLINE(readability-non-const-parameter): written into
bool store_read(struct store *s, struct req *r, str name, uint64_t at, size_t n, char *to, err *e)
{
    struct store_read one = {.name = name, .at = at, .n = n, .to = to};
    store_read_many(s, r, &one, 1);
    if (!one.ok) *e = one.fault;
    return one.ok;
}

static void size_surely(struct store *s, struct req *r, struct store_sizing *v)
{
    for (unsigned asked = 1; !v->ok && asks_again(s, r, v->name, asked, &v->denied, &v->fault);
         asked++)
        v->ok = s->kind->size(s, r, v->name, &v->size, &v->fault);
}

bool store_size(struct store *s, struct req *r, str name, uint64_t *size, err *e)
{
    uint64_t began = clock_mono_ns();
    struct store_sizing one = {.name = name};
    if (store_name_check(name, &one.fault)) {
        one.ok = s->kind->size(s, r, name, &one.size, &one.fault);
        size_surely(s, r, &one);
    }
    if (one.ok) *size = one.size;
    if (!one.ok) *e = one.fault;
    return counted(S("size"), began, one.ok, e);
}

static void size_all(struct store *s, struct req *r, struct store_sizing *v, size_t n)
{
    if (s->kind->size_many) s->kind->size_many(s, r, v, n);
    for (size_t i = 0; i < n; i++) {
        if (!s->kind->size_many) v[i].ok = s->kind->size(s, r, v[i].name, &v[i].size, &v[i].fault);
        size_surely(s, r, &v[i]);
    }
}

void store_size_many(struct store *s, struct req *r, struct store_sizing *v, size_t n)
{
    size_t from = 0;  // from here to i all names are good
    uint64_t began = clock_mono_ns();
    for (size_t i = 0; i < n; i++) {
        v[i].ok = v[i].denied = false;
        if (store_name_check(v[i].name, &v[i].fault)) continue;
        if (i > from) size_all(s, r, v + from, i - from);
        from = i + 1;
    }
    if (n > from) size_all(s, r, v + from, n - from);
    if (n > 0) metric_observe_ns_to(&store_seconds, S("size"), clock_mono_ns() - began);
    for (size_t i = 0; i < n; i++)
        count(S("size"), v[i].ok ? S("ok") : str_of(err_name(v[i].fault.code)), 1);
}

static bool age_of(struct store *s, struct req *r, str name, int64_t *age_ns, err *e)
{
    if (!s->kind->age)
        return err_set(e, ERR_FAILED_PRECONDITION, "a store of kind %s has no clock",
                       s->kind->name);
    bool denied = false;
    for (unsigned asked = 1;; asked++) {
        err fault = {0};
        if (s->kind->age(s, r, name, age_ns, &fault)) break;
        if (asks_again(s, r, name, asked, &denied, &fault)) continue;
        *e = fault;
        return false;
    }
    *age_ns = MAX(*age_ns, 0);
    return true;
}

bool store_age(struct store *s, struct req *r, str name, int64_t *age_ns, err *e)
{
    uint64_t began = clock_mono_ns();
    bool ok = store_name_check(name, e) && age_of(s, r, name, age_ns, e);
    return counted(S("age"), began, ok, e);
}

// An attempt that failed has put nothing into the buffer.
static bool get_surely(struct store *s, struct req *r, str name, struct buf *out, err *e)
{
    bool denied = false;
    for (unsigned asked = 1;; asked++) {
        err fault = {0};
        if (s->kind->get(s, r, name, out, &fault)) return true;
        if (asks_again(s, r, name, asked, &denied, &fault)) continue;
        *e = fault;
        return false;
    }
}

bool store_get(struct store *s, struct req *r, str name, struct buf *out, err *e)
{
    uint64_t size = 0;
    uint64_t began = clock_mono_ns();
    if (s->kind->get) {
        bool ok = store_name_check(name, e) && get_surely(s, r, name, out, e);
        return counted(S("read"), began, ok, e);
    }
    if (!store_size(s, r, name, &size, e)) return false;
    if (size == 0) return true;
    // Objects are never replaced, so the size holds when the bytes are read.
    char *to = buf_reserve(out, size);
    if (!to) return buf_ok(out, e);  // sets *e
    if (!store_read(s, r, name, 0, size, to, e)) return false;
    assert(out->n + size <= out->room);
    out->n += size;
    return true;
}

// ---- listing

bool store_list(struct store *s, struct req *r, str prefix, str after, store_visit *fn, void *arg,
                err *e)
{
    uint64_t began = clock_mono_ns();
    bool ok = store_prefix_check(prefix, e) && check_bytes(after, "start", e) &&
              s->kind->list(s, r, prefix, after, fn, arg, e);
    return counted(S("list"), began, ok, e);
}

struct naming {
    struct arena *arena;
    struct store_names names;
    size_t cap;
};

static bool take_name(void *arg, str name, uint64_t size, err *e)
{
    struct naming *x = arg;
    struct store_names *o = &x->names;
    if (!arena_grow(x->arena, &o->v, &x->cap, o->n + 1, sizeof *o->v))
        return arena_fail(x->arena, e);
    o->v[o->n++] = (struct store_name){arena_str(x->arena, name), size};
    return arena_ok(x->arena, e);
}

bool store_names(struct store *s, struct req *r, str prefix, struct arena *a,
                 struct store_names *out, err *e)
{
    struct naming x = {.arena = a};
    bool ok = store_list(s, r, prefix, (str){0}, take_name, &x, e);
    *out = ok ? x.names : (struct store_names){0};
    return ok;
}

// ---- creating

struct store_upload *store_begin(struct store *s, struct req *r, str name, uint64_t about, err *e)
{
    if (!store_name_check(name, e)) return NULL;
    return s->kind->begin(s, r, name, STORE_EXCLUSIVE, about, e);
}

struct store_upload *store_begin_unique(struct store *s, struct req *r, str name, uint64_t about,
                                        err *e)
{
    if (!store_name_check(name, e)) return NULL;
    return s->kind->begin(s, r, name, STORE_UNIQUE, about, e);
}

bool store_write(struct store_upload *u, str bytes, err *e)
{
    assert(u->store);
    return bytes.n == 0 || u->store->kind->write(u, bytes, e);
}

bool store_commit(struct store_upload *u, bool *existed, err *e)
{
    *existed = false;
    assert(u->store);
    uint64_t began = clock_mono_ns();
    bool ok = u->store->kind->commit(u, existed, e);
    // "It existed" is an answer; after a failure nothing is known about the name.
    assert(ok || !*existed);
    return counted(*existed ? S("exists") : S("create"), began, ok, e);
}

void store_abandon(struct store_upload *u)
{
    if (u) u->store->kind->abandon(u);
}

static bool put_all(struct store_upload *u, str bytes, bool *existed, err *e)
{
    *existed = false;
    if (!u) return false;
    if (store_write(u, bytes, e)) return store_commit(u, existed, e);
    store_abandon(u);
    return false;
}

bool store_put(struct store *s, struct req *r, str name, str bytes, bool *existed, err *e)
{
    return put_all(store_begin(s, r, name, bytes.n, e), bytes, existed, e);
}

bool store_put_unique(struct store *s, struct req *r, str name, str bytes, err *e)
{
    bool existed = false;
    if (!put_all(store_begin_unique(s, r, name, bytes.n, e), bytes, &existed, e)) return false;
    return !existed || err_set(e, ERR_DATA_LOSS, "object %.*s is there already", STR(name));
}

// ---- deleting

bool store_delete(struct store *s, struct req *r, str name, err *e)
{
    uint64_t began = clock_mono_ns();
    bool ok = store_name_check(name, e) && s->kind->remove(s, r, name, e);
    return counted(S("delete"), began, ok, e);
}

static void remove_all(struct store *s, struct req *r, struct store_removal *v, size_t n)
{
    if (s->kind->remove_many) {
        s->kind->remove_many(s, r, v, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        v[i].ok = s->kind->remove(s, r, v[i].name, &v[i].fault);
}

void store_delete_many(struct store *s, struct req *r, struct store_removal *v, size_t n)
{
    size_t from = 0;  // from here to i all names are good
    uint64_t began = clock_mono_ns();
    for (size_t i = 0; i < n; i++) {
        v[i].ok = false;
        if (store_name_check(v[i].name, &v[i].fault)) continue;
        if (i > from) remove_all(s, r, v + from, i - from);
        from = i + 1;
    }
    if (n > from) remove_all(s, r, v + from, n - from);
    if (n > 0) metric_observe_ns_to(&store_seconds, S("delete"), clock_mono_ns() - began);
    for (size_t i = 0; i < n; i++)
        count(S("delete"), v[i].ok ? S("ok") : str_of(err_name(v[i].fault.code)), 1);
}

bool store_tidy(struct store *s, struct req *r, uint64_t age_ns, uint64_t *dropped, err *e)
{
    *dropped = 0;
    if (!s->kind->tidy) return true;
    uint64_t began = clock_mono_ns();
    return counted(S("tidy"), began, s->kind->tidy(s, r, age_ns, dropped, e), e);
}

void store_close(struct store *s)
{
    if (s) s->kind->close(s);
}
