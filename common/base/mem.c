// SPDX-License-Identifier: Apache-2.0
//
// mem.c - counting against budgets and all their parents, and the pieces that a thread keeps.
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FT_FAULTS
_Atomic(mem_fault_fn) mem_fault;

static bool fault(enum mem_kind kind)
{
    mem_fault_fn ask = atomic_load_explicit(&mem_fault, memory_order_relaxed);
    return ask && ask(kind);
}
#else
static bool fault(enum mem_kind kind)
{
    (void)kind;
    return false;
}
#endif

void *mem_try(size_t n)
{
    return fault(MEM_MAY_FAIL) ? NULL : calloc(1, n ? n : 1);
}

void mem_try_free(void *p)
{
    free(p);
}

void mem_budget_init(struct mem_budget *b, const char *name, struct mem_budget *parent,
                     size_t limit)
{
    assert(name && parent != b);
    b->name = name;
    b->parent = parent;
    atomic_init(&b->leaves, 0);
    atomic_init(&b->share, 0);
    atomic_init(&b->limit, limit);
    atomic_init(&b->used, 0);
    atomic_init(&b->peak, 0);
    atomic_init(&b->refused, 0);
}

const struct mem_budget *mem_tightest(const struct mem_budget *b)
{
    const struct mem_budget *found = NULL;
    size_t least = SIZE_MAX;
    for (; b; b = b->parent) {
        // Relaxed reads: the answer is for a message or a hint, and may be old by the time it is
        // used.
        size_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
        size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
        size_t room = limit > used ? limit - used : 0;
        if (limit == 0 || (found && room >= least)) continue;
        found = b;
        least = room;
    }
    return found;
}

// The room that b leaves to others in its parents' limits, besides the bytes that it has counted.
static size_t leaves_now(const struct mem_budget *b)
{
    size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
    bool within = used <= atomic_load_explicit(&b->share, memory_order_relaxed);
    return within ? 0 : atomic_load_explicit(&b->leaves, memory_order_relaxed);
}

size_t mem_room(const struct mem_budget *b)
{
    size_t least = SIZE_MAX;
    size_t leave = 0;
    for (; b; leave = MAX(leave, leaves_now(b)), b = b->parent) {
        size_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
        size_t taken = atomic_load_explicit(&b->used, memory_order_relaxed);
        if (limit == 0) continue;
        least = MIN(least, limit - MIN(limit, taken > SIZE_MAX - leave ? limit : taken + leave));
    }
    return least;
}

bool mem_no_room(const struct mem_budget *b, const char *what, size_t held, err *e)
{
    const struct mem_budget *t = mem_tightest(b);
    if (!t) return err_set(e, ERR_RESOURCE_EXHAUSTED, "out of memory: no room for %s", what);
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "memory budget %s: no room for %s (%zu bytes), %zu of %zu are in use", t->name,
                   what, held, atomic_load_explicit(&t->used, memory_order_relaxed),
                   atomic_load_explicit(&t->limit, memory_order_relaxed));
}

// Takes n bytes of b alone; `leave` bytes of its limit are not for the caller.
static bool reserve_one(struct mem_budget *b, size_t n, size_t leave, err *e)
{
    size_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
    size_t most = limit > leave ? limit - leave : 0;
    // Added first and taken back if it was too much: two threads that only looked before adding
    // could both find the last room.
    size_t before = atomic_fetch_add_explicit(&b->used, n, memory_order_relaxed);
    size_t after = before + n;
    if (limit && (after > most || after < before)) {
        atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&b->refused, 1, memory_order_relaxed);
        char rest[64] = "";
        if (leave) snprintf(rest, sizeof rest, ", %zu are left to others", leave);
        return err_set(e, ERR_RESOURCE_EXHAUSTED,
                       "memory budget %s: %zu bytes more do not fit, %zu of %zu are in use%s",
                       b->name, n, before, limit, rest);
    }
    size_t peak = atomic_load_explicit(&b->peak, memory_order_relaxed);
    while (after > peak &&
           !atomic_compare_exchange_weak_explicit(&b->peak, &peak, after, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
    return true;
}

bool mem_reserve(struct mem_budget *b, size_t n, err *e)
{
    size_t leave = 0;
    // Upwards: what a budget leaves of its parents' limits counts for the parents, not for itself.
    for (struct mem_budget *at = b; at; leave = MAX(leave, leaves_now(at)), at = at->parent) {
        if (reserve_one(at, n, leave, e)) continue;
        // All or nothing: the budgets below the one that refused have counted the bytes already.
        for (struct mem_budget *back = b; back != at; back = back->parent) {
            atomic_fetch_sub_explicit(&back->used, n, memory_order_relaxed);
        }
        return false;
    }
    return true;
}

void mem_unreserve(struct mem_budget *b, size_t n)
{
    for (; b; b = b->parent) {
        size_t before = atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
        assert(before >= n);
        (void)before;
    }
}

static bool out_of_memory(err *e, size_t n)
{
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "out of memory: the system gives no %zu bytes", n);
}

void *mem_alloc(struct mem_budget *b, size_t n, err *e)
{
    if (!mem_reserve(b, n, e)) return NULL;
    void *p = mem_try(n);
    if (p) return p;
    mem_unreserve(b, n);
    out_of_memory(e, n);
    return NULL;
}

void *mem_resize(struct mem_budget *b, void *p, size_t old, size_t n, err *e)
{
    void *q = mem_resize_bare(b, p, old, n, e);
    if (q && n > old) memset((char *)q + old, 0, n - old);
    return q;
}

void *mem_resize_bare(struct mem_budget *b, void *p, size_t old, size_t n, err *e)
{
    assert(p || old == 0);
    if (n > old && !mem_reserve(b, n - old, e)) return NULL;
    void *q = fault(MEM_MAY_FAIL) ? NULL : realloc(p, n ? n : 1);
    if (!q) {
        if (n > old) mem_unreserve(b, n - old);
        out_of_memory(e, n);
        return NULL;
    }
    if (n < old)
        mem_unreserve(b, old - n);  // after realloc: if it fails, the old bytes stay in use
    return q;
}

void mem_free(struct mem_budget *b, void *p, size_t n)
{
    if (!p) return;
    free(p);
    mem_unreserve(b, n);
}

void mem_touch(void *p, size_t n)
{
    volatile char *v = p;
    for (size_t i = 0; i < n; i += 4096)
        v[i] = 0;
}

// ---- pieces that are kept

// The pieces of a thread, oldest first; freed when it ends. The oldest make room for new ones, so
// pieces of sizes that are not used any more go in time.
struct kept {
    size_t bytes;
    unsigned n;
    struct {
        void *p;
        size_t n;
    } v[16];
};

static _Thread_local struct kept *kept_here;
static pthread_key_t kept_key;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;
static bool kept_works;

static void *kept_out(struct kept *k, unsigned i)
{
    assert(i < k->n && k->bytes >= k->v[i].n);
    void *p = k->v[i].p;
    k->bytes -= k->v[i].n;
    k->n--;
    memmove(&k->v[i], &k->v[i + 1], (k->n - i) * sizeof k->v[0]);
    return p;
}

static void kept_free(void *arg)
{
    struct kept *k = arg;
    while (k->n > 0)
        free(kept_out(k, k->n - 1));
    assert(k->bytes == 0);
    free(k);
    kept_here = NULL;
}

static void kept_begin(void)
{
    kept_works = pthread_key_create(&kept_key, kept_free) == 0;
}

static struct kept *kept_of_thread(void)
{
    if (kept_here) return kept_here;
    (void)pthread_once(&kept_once, kept_begin);
    if (!kept_works) return NULL;
    kept_here = calloc(1, sizeof *kept_here);
    // Without the key's destructor the pieces would be lost when the thread ends, so none are kept.
    if (kept_here && pthread_setspecific(kept_key, kept_here) != 0) kept_free(kept_here);
    return kept_here;
}

// The smallest piece with at least n bytes and less than twice as many; k->n: there is none.
static unsigned kept_find(const struct kept *k, size_t n)
{
    unsigned best = k->n;
    for (unsigned i = 0; i < k->n; i++) {
        size_t has = k->v[i].n;
        if (has >= n && has / 2 < n && (best == k->n || has <= k->v[best].n)) best = i;
    }
    return best;
}

// Has the budget room for n bytes? A kept piece may be larger than asked for: if only that does not
// fit, a fresh one of the right size is taken instead.
static bool has_room(const struct mem_budget *b, size_t n)
{
    const struct mem_budget *t = mem_tightest(b);
    size_t used = t ? atomic_load_explicit(&t->used, memory_order_relaxed) : 0;
    return !t || n <= atomic_load_explicit(&t->limit, memory_order_relaxed) - MIN(used, t->limit);
}

void *mem_take(struct mem_budget *b, size_t *n, err *e)
{
    struct kept *k = kept_here;
    unsigned i = k ? kept_find(k, *n) : 0;
    bool again = k && i < k->n && (k->v[i].n == *n || has_room(b, k->v[i].n));
    size_t size = again ? k->v[i].n : *n;
    assert(size >= *n);
    if (!mem_reserve(b, size, e)) return NULL;
    // Kept pieces are behind the fault point too: tests must see each allocation fail.
    void *p = NULL;
    if (!fault(MEM_MAY_FAIL)) p = again ? kept_out(k, i) : calloc(1, size);
    if (!p) {
        mem_unreserve(b, size);
        out_of_memory(e, size);
        return NULL;
    }
    *n = size;
    return p;
}

void mem_give(struct mem_budget *b, void *p, size_t n, size_t dirty)
{
    assert(dirty <= n);
    mem_unreserve(b, n);
    // A piece that would push out more than half of the others is not worth keeping.
    struct kept *k = n <= MEM_KEPT_MAX / 2 ? kept_of_thread() : NULL;
    if (!k) {
        free(p);
        return;
    }
    assert(p);
    while (k->n == COUNT(k->v) || k->bytes + n > MEM_KEPT_MAX)
        free(kept_out(k, 0));
    memset(p, 0, dirty);  // mem_take promises zeros; only the dirty part needs them
    k->v[k->n].p = p;
    k->v[k->n++].n = n;
    k->bytes += n;
}

size_t mem_kept_bytes(void)
{
    return kept_here ? kept_here->bytes : 0;
}

void *mem_must(size_t n)
{
    void *p = calloc(1, n ? n : 1);
    (void)fault(MEM_MUST);
    if (p) return p;
    // Not the log: it may need memory.
    fprintf(stderr, "flametree: out of memory: the system gives no %zu bytes at start-up\n", n);
    abort();
}

void mem_must_free(void *p)
{
    free(p);
}

// Up to so many elements an array doubles, then it grows by half: with doubling, a quarter of the
// memory of thousands of long-lived tables (mostly symbols of services) would be unused.
#define DOUBLES 512

static bool grow(struct mem_budget *b, void *items, size_t *cap, size_t need, size_t size, err *e,
                 void *(*resize)(struct mem_budget *, void *, size_t, size_t, err *))
{
    assert(size > 0 && need > *cap);
    size_t more = *cap ? *cap : 8;
    while (more < need) {
        size_t step = more < DOUBLES ? more : more / 2;
        if (__builtin_add_overflow(more, step, &more)) return out_of_memory(e, SIZE_MAX);
    }
    size_t bytes = 0;
    if (__builtin_mul_overflow(more, size, &bytes)) return out_of_memory(e, SIZE_MAX);
    void *p = NULL;
    memcpy(&p, items, sizeof p);  // items is a T **; copied as bytes to obey aliasing rules
    p = resize(b, p, *cap * size, bytes, e);
    if (!p) return false;
    memcpy(items, &p, sizeof p);
    *cap = more;
    return true;
}

bool mem_grow(struct mem_budget *b, void *items, size_t *cap, size_t need, size_t size, err *e)
{
    return need <= *cap || grow(b, items, cap, need, size, e, mem_resize);
}

bool mem_grow_bare(struct mem_budget *b, void *items, size_t *cap, size_t need, size_t size, err *e)
{
    return need <= *cap || grow(b, items, cap, need, size, e, mem_resize_bare);
}
