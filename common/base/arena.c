// SPDX-License-Identifier: Apache-2.0
//
// arena.c - chunks that grow with the arena, and hooks that run at its release. The chunk in use is
// the first of a list; a large allocation has a chunk of its own.
#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>

#define CHUNK_MIN 4000
#define CHUNK_MAX 262144

// Under ASan every allocation is a separate chunk, so that ASan finds overruns and use after
// release. gcc and clang announce ASan in different ways.
#if defined(__SANITIZE_ADDRESS__)
#define CHUNK_EACH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHUNK_EACH 1
#endif
#endif
#ifndef CHUNK_EACH
#define CHUNK_EACH 0
#endif

struct arena_chunk {
    struct arena_chunk *next;
    size_t used;
    size_t size;
    alignas(max_align_t) unsigned char bytes[];
};

struct arena_hook {
    struct arena_hook *next;
    void (*fn)(void *arg);
    void *arg;
};

void arena_init(struct arena *a, struct mem_budget *budget, size_t cap)
{
    *a = (struct arena){.cap = cap, .budget = budget};
}

// A chunk with at least `room` bytes. NULL: the budget or the system has none.
static struct arena_chunk *piece_new(const struct arena *a, size_t room)
{
    err ignored = {0};
    assert(room > 0);
    size_t bytes = sizeof(struct arena_chunk) + room;
    struct arena_chunk *c =
        CHUNK_EACH ? mem_alloc(a->budget, bytes, &ignored) : mem_take(a->budget, &bytes, &ignored);
    if (c) c->size = bytes - sizeof *c;
    return c;
}

static void piece_free(const struct arena *a, struct arena_chunk *c)
{
    size_t bytes = sizeof *c + c->size;
    assert(c->used <= c->size);
    if (CHUNK_EACH)
        mem_free(a->budget, c, bytes);
    else
        mem_give(a->budget, c, bytes, sizeof *c + c->used);
}

void arena_release(struct arena *a)
{
    for (struct arena_hook *h = a->hooks; h; h = h->next)  // first: they may point into the chunks
        h->fn(h->arg);
    for (struct arena_chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        piece_free(a, c);
    }
    if (a->spare) piece_free(a, a->spare);
    arena_init(a, a->budget, a->cap);
}

void arena_move(struct arena *a, struct mem_budget *to)
{
    size_t held = 0;
    err ignored = {0};
    for (const struct arena_chunk *c = a->chunks; c; c = c->next)
        held += sizeof *c + c->size;
    assert(!a->spare);
    if (mem_reserve(to, held, &ignored)) {
        mem_unreserve(a->budget, held);
        a->budget = to;
        return;
    }
    a->exhausted = true;
    a->starved = true;
}

bool arena_spare(struct arena *a, size_t n)
{
    assert(!a->spare);
    a->spare = piece_new(a, n);
    if (a->spare) return true;
    a->exhausted = true;
    a->starved = true;
    return false;
}

void arena_use_spare(struct arena *a)
{
    struct arena_chunk *c = a->spare;
    if (!c) return;
    a->spare = NULL;
    // In front, so that the next allocations find it.
    c->next = a->chunks;
    a->chunks = c;
    a->reserved += c->size;
    // The cap may be the limit that was hit. SIZE_MAX, no cap, stays.
    if (__builtin_add_overflow(a->cap, c->size, &a->cap)) a->cap = SIZE_MAX;
    a->exhausted = false;
    a->starved = false;
}

static void *refuse(struct arena *a)
{
    a->exhausted = true;
    return NULL;
}

// A new chunk is as large as all chunks before it, so that a big request makes few mallocs and a
// small one wastes little.
static struct arena_chunk *chunk_new(struct arena *a, size_t need)
{
    size_t room = CHUNK_EACH ? 0 : MIN(MAX(a->reserved, (size_t)CHUNK_MIN), (size_t)CHUNK_MAX);
    if (room < need) room = need;
    struct arena_chunk *c = piece_new(a, room);
    a->starved = !c;
    if (!c) return NULL;
    assert(c->size >= need);
    room = c->size;
    a->reserved += room;
    struct arena_chunk *head = a->chunks;
    if (head && head->size - head->used > room - need) {  // keep filling the roomier one
        c->next = head->next;
        head->next = c;
    } else {
        c->next = head;
        a->chunks = c;
    }
    return c;
}

void *arena_new(struct arena *a, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size == 0) size = 1;
    if (a->exhausted || size > a->cap - a->used || size > SIZE_MAX / 2) return refuse(a);
    // Rounded after the check, so that rounding cannot overflow; then checked again.
    size = (size + align - 1) & ~(align - 1);
    if (size > a->cap - a->used) return refuse(a);

    struct arena_chunk *c = a->chunks;
    if (!c || size > c->size - c->used) c = chunk_new(a, size);
    if (!c) return refuse(a);
    void *p = c->bytes + c->used;
    c->used += size;
    a->used += size;
    assert(c->used <= c->size && a->used <= a->cap);
    return p;
}

void *arena_array(struct arena *a, size_t size, size_t n)
{
    size_t total = 0;
    if (__builtin_mul_overflow(size, n, &total)) return refuse(a);
    return arena_new(a, total);
}

bool arena_grow(struct arena *a, void *items, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return true;
    size_t more = *cap ? *cap : 8;
    while (more < need) {
        if (__builtin_mul_overflow(more, 2, &more)) return refuse(a) != NULL;
    }
    // Copied, not moved: what points into the smaller array stays valid until the release.
    void *p = arena_array(a, size, more);
    if (!p) return false;
    void *old = NULL;
    memcpy(&old, items, sizeof old);  // items is a T **; copied as bytes to obey aliasing rules
    if (*cap) memcpy(p, old, *cap * size);
    memcpy(items, &p, sizeof p);
    *cap = more;
    return true;
}

str arena_str(struct arena *a, str s)
{
    char *p = s.n < SIZE_MAX ? arena_new(a, s.n + 1) : refuse(a);
    if (!p) return (str){0};
    if (s.n) memcpy(p, s.p, s.n);
    return (str){p, s.n};
}

str arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n >= 0 ? arena_new(a, (size_t)n + 1) : refuse(a);
    if (!p) return (str){0};
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return (str){p, (size_t)n};
}

bool arena_defer(struct arena *a, void (*fn)(void *arg), void *arg)
{
    assert(fn);
    struct arena_hook *h = ARENA_NEW(a, struct arena_hook);
    if (!h) return false;
    // In front of the others, so that they run last in, first out.
    *h = (struct arena_hook){.next = a->hooks, .fn = fn, .arg = arg};
    a->hooks = h;
    return true;
}

bool arena_ok(const struct arena *a, err *e)
{
    if (!a->exhausted) return true;
    if (a->starved) return mem_no_room(a->budget, "this request", a->used, e);
    if (a->setting) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED,
                       "request needs more than %s, %zu bytes (%zu in use)", a->setting, a->cap,
                       a->used);
    }
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "request needs more than its %zu bytes (%zu in use)",
                   a->cap, a->used);
}

bool arena_fail(const struct arena *a, err *e)
{
    if (!arena_ok(a, e)) return false;
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for the request");
}
