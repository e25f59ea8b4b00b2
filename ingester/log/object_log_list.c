// SPDX-License-Identifier: Apache-2.0
//
// object_log_list.c - which objects of a log are there: lists, page by page, and what to think of
// an object that is not there (object_log.h).
#include "ingester/log/object_log_int.h"
#include "sys/clock.h"

#include <time.h>

// Of a name and the prefix of a LIST.
#define SCRATCH ((size_t)4096)

// A whole folder of one stream, where the streams are to be listed: the rest of it is passed over.
#define FOLDER_MANY 1000

size_t object_log_page_max = (size_t)1 << 14;

uint64_t object_log_pause_ns = (uint64_t)(100 * NS_PER_MS);

// ---- pages

static bool see_name(void *arg, str name, uint64_t size, err *e)
{
    struct object_log_pager *p = arg;
    uint64_t number = 0;
    (void)e;
    if (!name_log_number(str_slice(name, p->prefix.n, name.n), &number)) return true;
    p->more = p->n == p->most;
    if (!p->more) p->v[p->n++] = (struct object_log_listed){number, size};
    return !p->more;
}

bool object_log_page(struct store *s, struct req *r, struct object_log_pager *p, err *e)
{
    struct arena a;
    err why = {0};
    p->n = 0;
    p->more = false;
    arena_init(&a, r->arena.budget, SCRATCH);
    str after = p->after
                    ? arena_printf(&a, "%.*s%016llx", STR(p->prefix), (unsigned long long)p->after)
                    : (str){0};
    bool ok = arena_ok(&a, &why) && store_list(s, r, p->prefix, after, see_name, p, &why);
    arena_release(&a);
    if (ok || p->more) return true;
    *e = why;
    return false;
}

bool object_log_each(struct store *s, struct req *r, const struct object_log_span *of,
                     object_log_see *see, void *arg, err *e)
{
    struct object_log_pace pace = object_log_pace(r);
    struct arena a;
    uint64_t last = of->last ? of->last : UINT64_MAX;
    uint64_t after = of->first ? of->first - 1 : 0;
    assert(after < last);
    // One more than there can be, which shows that the end was reached.
    const size_t most = (size_t)MIN((uint64_t)object_log_page_max - 1, last - after) + 1;
    struct object_log_listed *v = mem_resize_bare(r->arena.budget, NULL, 0, most * sizeof *v, e);
    arena_init(&a, r->arena.budget, SCRATCH);
    struct object_log_pager p = {.prefix = name_log(&a, of->stream),
                                 .after = after,
                                 .v = v,
                                 .most = most};
    bool ok = v && arena_ok(&a, e);
    for (bool more = true; ok && more;) {
        ok = object_log_page(s, r, &p, e);
        if (!ok || p.n == 0) break;
        p.after = v[p.n - 1].number;
        more = p.more && p.after < last;
        for (size_t i = 0; ok && i < p.n && v[i].number <= last; i++)
            ok = see(arg, &v[i], e);
        object_log_go_on(&pace);
    }
    arena_release(&a);
    mem_free(r->arena.budget, v, most * sizeof *v);
    return ok;
}

// ---- single objects

struct search {
    str prefix;
    struct object_log_sought *v;
    size_t n;
    size_t at;  // the first that was not passed
    bool passed;
};

static bool see_sought(void *arg, str name, uint64_t size, err *e)
{
    struct search *x = arg;
    uint64_t number = 0;
    (void)e;
    if (!name_log_number(str_slice(name, x->prefix.n, name.n), &number)) return true;
    while (x->at < x->n && x->v[x->at].number < number)
        x->at++;
    x->passed = x->at == x->n;
    if (x->passed) return false;
    if (x->v[x->at].number != number) return true;
    x->v[x->at].there = true;
    x->v[x->at].size = size;
    return true;
}

bool object_log_seek(struct store *s, struct req *r, id128 stream, struct object_log_sought *v,
                     size_t n, err *e)
{
    struct arena a;
    err why = {0};
    assert(n > 0);
    arena_init(&a, r->arena.budget, SCRATCH);
    struct search x = {.prefix = name_log(&a, stream), .v = v, .n = n};
    for (size_t i = 0; i < n; i++)
        v[i] = (struct object_log_sought){.number = v[i].number};
    str from = v[0].number > 1 ? name_log_object(&a, stream, v[0].number - 1) : (str){0};
    bool ok = arena_ok(&a, &why) && store_list(s, r, x.prefix, from, see_sought, &x, &why);
    arena_release(&a);
    if (ok || x.passed) return true;
    *e = why;
    return false;
}

// ---- asking again

bool object_log_ask_again(struct object_log_patience *p, struct req *r, err *e)
{
    if (p->asked == OBJECT_LOG_ASKS) return false;
    uint64_t until = clock_mono_ns() + (object_log_pause_ns << p->asked++);
    for (uint64_t now = clock_mono_ns(); now < until; now = clock_mono_ns()) {
        uint64_t ns = MIN(until - now, (uint64_t)(100 * NS_PER_MS));
        if (!req_alive(r, e)) return false;
        nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
    }
    return true;
}

struct object_log_pace object_log_pace(struct req *r)
{
    return (struct object_log_pace){.r = r, .step_ns = req_left_ns(r)};
}

void object_log_go_on(const struct object_log_pace *p)
{
    if (p->r->deadline_mono_ns) p->r->deadline_mono_ns = clock_mono_ns() + p->step_ns;
}

// ---- streams

struct streams {
    struct arena *arena;
    size_t prefix_n;
    id128 *v;
    size_t n;
    size_t cap;
    size_t seen;  // objects of the last one
    bool many;    // it has more than anybody wants to list
};

static bool see_stream(void *arg, str name, uint64_t size, err *e)
{
    struct streams *x = arg;
    id128 id;
    uint64_t number = 0;
    (void)size;
    str rest = str_slice(name, x->prefix_n, name.n);
    if (!name_ulid(&rest, &id) || !name_char(&rest, '/') || !name_log_number(rest, &number))
        return true;
    if (x->n && id128_eq(x->v[x->n - 1], id)) {
        x->many = ++x->seen == FOLDER_MANY;
        return !x->many;
    }
    if (!arena_grow(x->arena, &x->v, &x->cap, x->n + 1, sizeof *x->v))
        return arena_fail(x->arena, e);
    x->v[x->n++] = id;
    x->seen = 1;
    return true;
}

bool object_log_folders(struct store *s, struct req *r, struct arena *a, bool copies,
                        id128 **streams, size_t *n, err *e)
{
    str prefix = copies ? name_all_damaged() : name_logs();
    object_log_naming *name = copies ? name_damaged_object : name_log_object;
    struct streams x = {.arena = a, .prefix_n = prefix.n};
    struct object_log_pace pace = object_log_pace(r);
    bool ok = true;
    for (bool more = true; ok && more;) {
        struct arena scratch;
        err why = {0};
        arena_init(&scratch, r->arena.budget, SCRATCH);
        // No number is higher, so the next name is of another stream.
        str after = x.many ? name(&scratch, x.v[x.n - 1], UINT64_MAX) : (str){0};
        x.many = false;
        ok = arena_ok(&scratch, &why) && store_list(s, r, prefix, after, see_stream, &x, &why);
        more = !ok && x.many;
        ok = ok || more;
        if (!ok) *e = why;
        arena_release(&scratch);
        object_log_go_on(&pace);
    }
    *streams = x.v;
    *n = x.n;
    return ok;
}

bool object_log_streams(struct store *s, struct req *r, struct arena *a, id128 **streams, size_t *n,
                        err *e)
{
    return object_log_folders(s, r, a, false, streams, n, e);
}
