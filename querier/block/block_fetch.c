// SPDX-License-Identifier: Apache-2.0
//
// Many sections by few reads: gets are sorted by object and place, those with small gaps between
// them become one run, and all runs are read at the same time. A store's round trip costs more than
// a gap, and it costs the same for all of them together.
#include "querier/block/block_int.h"
#include "querier/metrics.h"
#include "sys/clock.h"

#include <stdlib.h>
#include <time.h>

#define GAP_MAX ((uint64_t)1 << 20)           // bytes between two sections that are read with them
#define TRIES   3                             // of a read while the store is unavailable
#define WAIT_NS ((uint64_t)10 * 1000 * 1000)  // before the second try; then four times that
#define RUN_MAX ((uint64_t)32 << 20)          // bytes of one read, unless one section has more

struct block_bytes {
    struct block_bytes *next;
    char *p;
    size_t n;
};

// One read of the store for gets [from, to) of the order.
struct run {
    size_t from;
    size_t to;
};

struct plan {
    struct block_get **order;
    size_t n;
    struct run *runs;
    size_t run_count;
};

static int by_place(const void *a, const void *b)
{
    const struct block_get *x = *(struct block_get *const *)a;
    const struct block_get *y = *(struct block_get *const *)b;
    if (x->object != y->object) {
        int order = str_cmp(x->object->name, y->object->name);
        if (order) return order;
    }
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->n < y->n ? -1 : x->n > y->n;
}

// May the get be part of the run, whose gets so far end at `end`?
static bool goes_on(const struct plan *p, const struct run *run, uint64_t end,
                    const struct block_get *g)
{
    const struct block_get *first = p->order[run->from];
    assert(run->from <= run->to && run->to <= p->n);
    return str_eq(first->object->name, g->object->name) && g->at <= end + GAP_MAX &&
           g->at + g->n <= first->at + RUN_MAX;
}

static bool make_plan(struct arena *a, struct block_get *v, size_t n, struct plan *p)
{
    p->order = ARENA_ARRAY(a, struct block_get *, n);
    p->runs = ARENA_ARRAY(a, struct run, n);
    if (!p->order || !p->runs) return false;
    for (size_t i = 0; i < n; i++) {
        // Those that the wave's prefetched bytes or the disk have served already need no read.
        if (v[i].n && !v[i].bytes.p) p->order[p->n++] = &v[i];
    }
    if (p->n) qsort(p->order, p->n, sizeof *p->order, by_place);
    uint64_t end = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct block_get *g = p->order[i];
        struct run *last = p->run_count ? &p->runs[p->run_count - 1] : NULL;
        if (!last || !goes_on(p, last, end, g)) {
            p->runs[p->run_count] = (struct run){i, i};
            last = &p->runs[p->run_count++];
            end = 0;
        }
        last->to = i + 1;
        end = MAX(end, g->at + g->n);  // gets may overlap, so the last one need not end last
    }
    assert(p->run_count <= p->n);
    return true;
}

static bool add_bytes(struct block_walk *w, struct block_io *io, size_t n, char **p, err *e)
{
    struct block_bytes *b = mem_alloc(&w->m->memory, sizeof *b, e);
    if (!b) return false;
    b->p = mem_resize_bare(&w->m->memory, NULL, 0, n, e);
    if (!b->p) {
        mem_free(&w->m->memory, b, sizeof *b);
        return false;
    }
    b->n = n;  // mem_free wants the size that was asked for
    b->next = io->v;
    io->v = b;
    *p = b->p;
    return true;
}

static void drop_newest_bytes(struct block_walk *w, struct block_io *io)
{
    struct block_bytes *b = io->v;
    assert(b);
    io->v = b->next;
    mem_free(&w->m->memory, b->p, b->n);
    mem_free(&w->m->memory, b, sizeof *b);
}

// The reason that a read's gets have. An object that is shorter than its manifest and footer say is
// damaged.
static const err *fault_of(struct block_walk *w, const struct store_read *read)
{
    err *why = ARENA_NEW(&w->arena, err);
    if (!why) return NULL;
    *why = read->fault;
    if (why->code == ERR_OUT_OF_RANGE) why->code = ERR_DATA_LOSS;
    // The request is alive (read_runs), so this was a time limit of the store itself.
    if (why->code == ERR_CANCELED || why->code == ERR_DEADLINE_EXCEEDED) {
        why->code = ERR_UNAVAILABLE;
    }
    return why;
}

// ---- sections on disk

static void put_on_disk(struct block_walk *w, str object, uint64_t at, str bytes)
{
    struct disk_cache *disk = blocks_disk(w->blocks);
    if (disk) disk_cache_put(disk, object, at, bytes);
}

// Of rows only so many bytes of a question that a question about all rows of a month does not push
// everything else out; enough for the edges of a range, which are asked for again and again.
static void keep_on_disk(struct block_walk *w, const struct block_get *g)
{
    struct disk_cache *disk = blocks_disk(w->blocks);
    if (!disk || g->n == 0) return;
    if (g->of_rows && w->rows_put + g->n > disk_cache_section_max(disk)) return;
    if (g->of_rows) w->rows_put += g->n;
    put_on_disk(w, g->object->name, g->at, g->bytes);
}

// Gets whose bytes are on disk need no read of the store.
static bool serve_from_disk(struct block_walk *w, struct block_io *io, struct block_get *v,
                            size_t n, err *e)
{
    struct disk_cache *disk = blocks_disk(w->blocks);
    for (size_t i = 0; disk && i < n; i++) {
        struct block_get *g = &v[i];
        char *to = NULL;
        if (g->n == 0 || g->bytes.p || g->n > disk_cache_section_max(disk)) continue;
        if (!add_bytes(w, io, g->n, &to, e)) return false;
        if (disk_cache_get(disk, g->object->name, g->at, g->n, to)) {
            g->bytes = str_make(to, g->n);
        } else {
            drop_newest_bytes(w, io);
        }
    }
    return true;
}

// ---- reads of the store

// Gives each get its bytes out of its run's, or the reason why there are none.
static bool spread(struct block_walk *w, const struct plan *p, const struct store_read *reads,
                   err *e)
{
    for (size_t i = 0; i < p->run_count; i++) {
        const err *why = reads[i].ok ? NULL : fault_of(w, &reads[i]);
        if (!reads[i].ok && !why) return block_no_room(w, e);
        for (size_t k = p->runs[i].from; k < p->runs[i].to; k++) {
            struct block_get *g = p->order[k];
            g->why = why;
            assert(g->at >= reads[i].at && g->at - reads[i].at + g->n <= reads[i].n);
            if (why) continue;
            g->bytes = str_make(reads[i].to + (g->at - reads[i].at), g->n);
            keep_on_disk(w, g);
        }
        w->out->reads++;
        w->out->bytes += reads[i].n;
        metric_add(&querier_block_reads, 1);
        metric_add(&querier_block_read_bytes, reads[i].n);
    }
    return true;
}

// Sleeps in small steps, so that a request that ends does not wait. False: it ended.
static bool pause_ns(const struct req *r, uint64_t ns)
{
    err ended = {0};
    uint64_t until = clock_mono_ns() + ns;
    for (;;) {
        uint64_t now = clock_mono_ns();
        if (!req_alive(r, &ended)) return false;
        if (now >= until) return true;
        nanosleep(&(struct timespec){.tv_nsec = (long)MIN(until - now, WAIT_NS)}, NULL);
    }
}

static bool failed_for_now(const struct store_read *v)
{
    return !v->ok && v->fault.code == ERR_UNAVAILABLE;
}

// Reads all runs at once; then again those for which the store was unavailable, neighbours of the
// list together. Other failures would be the same again.
static void read_many(struct block_walk *w, struct store_read *v, size_t n)
{
    struct store *s = blocks_store(w->blocks);
    uint64_t wait = WAIT_NS;
    store_read_many(s, w->req, v, n);
    for (unsigned tried = 1; tried < TRIES; tried++, wait *= 4) {
        size_t failed = 0;
        for (size_t i = 0; i < n; i++)
            failed += failed_for_now(&v[i]);
        if (failed == 0 || !pause_ns(w->req, wait)) return;
        metric_add(&querier_block_reads_again, failed);
        for (size_t i = 0; i < n;) {
            size_t to = i;
            while (to < n && failed_for_now(&v[to]))
                to++;
            if (to > i) store_read_many(s, w->req, v + i, to - i);
            i = MAX(to, i + 1);
        }
    }
}

static bool read_runs(struct block_walk *w, struct block_io *io, const struct plan *p, err *e)
{
    size_t bytes = p->run_count * sizeof(struct store_read);
    struct store_read *reads = mem_alloc(&w->m->memory, MAX(bytes, 1), e);
    if (!reads) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < p->run_count; i++) {
        const struct block_get *first = p->order[p->runs[i].from];
        uint64_t end = 0;
        for (size_t k = p->runs[i].from; k < p->runs[i].to; k++)
            end = MAX(end, p->order[k]->at + p->order[k]->n);
        reads[i].name = first->object->name;
        reads[i].at = first->at;
        reads[i].n = end - first->at;
        ok = add_bytes(w, io, reads[i].n, &reads[i].to, e);
    }
    if (ok && p->run_count) {
        read_many(w, reads, p->run_count);
        // A read that failed because the request ended is no fault of its object.
        ok = req_alive(w->req, e) && spread(w, p, reads, e);
    }
    mem_free(&w->m->memory, reads, MAX(bytes, 1));
    return ok;
}

// ---- prefetched sections

bool block_read_prefetched(struct block_walk *w, const struct level_object *o,
                           const struct block_extent *x, err *e)
{
    struct block_prefetch *h = &w->prefetch;
    if (x->stored == 0) return true;
    if (!arena_grow(&w->wave, &h->v, &h->cap, h->n + 1, sizeof *h->v)) return block_no_room(w, e);
    h->v[h->n++] = (struct block_get){.object = o, .at = x->at, .n = x->stored};
    return true;
}

// Bytes that were read with an index serve a get for exactly the same extent.
static void serve_prefetched(const struct block_prefetch *h, struct block_get *g)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct block_get *had = &h->v[i];
        if (had->object == g->object && had->at == g->at && had->n == g->n) g->bytes = had->bytes;
    }
}

static bool fetch(struct block_walk *w, struct block_io *io, struct block_get *v, size_t n, err *e)
{
    struct arena scratch;
    struct plan p = {0};
    arena_init(&scratch, &w->m->memory, SIZE_MAX);
    bool ok = serve_from_disk(w, io, v, n, e) &&
              (make_plan(&scratch, v, n, &p) ? read_runs(w, io, &p, e) : block_no_room(w, e));
    arena_release(&scratch);
    return ok;
}

bool block_fetch(struct block_walk *w, struct block_io *io, struct block_get *v, size_t n, err *e)
{
    bool all = true;
    assert(n == 0 || v);
    for (size_t i = 0; i < n; i++) {
        if (w->prefetch.n) serve_prefetched(&w->prefetch, &v[i]);
        all = all && v[i].bytes.p;
    }
    return all || fetch(w, io, v, n, e);
}

void block_io_release(struct block_walk *w, struct block_io *io)
{
    while (io->v)
        drop_newest_bytes(w, io);
}

// One read of bytes that were found damaged: perhaps only on their way.
static bool read_again(struct block_walk *w, struct store_read *one, err *e)
{
    metric_add(&querier_block_reads_again, 1);
    read_many(w, one, 1);
    w->out->reads++;
    w->out->bytes += one->n;
    if (one->ok) {  // the bytes on disk may be the damaged ones
        put_on_disk(w, one->name, one->at, str_make(one->to, one->n));
        return true;
    }
    const err *why = fault_of(w, one);
    if (!why) return block_no_room(w, e);
    *e = *why;
    return false;
}

bool block_fetch_again(struct block_walk *w, struct block_io *io, struct block_get *got, err *e)
{
    struct store_read one = {.name = got->object->name, .at = got->at, .n = got->n};
    *e = (err){0};
    if (!add_bytes(w, io, got->n, &one.to, e) || !read_again(w, &one, e)) return false;
    got->bytes = str_make(one.to, got->n);
    return true;
}

bool block_contents(struct block_walk *w, struct arena *a, const struct block_extent *x,
                    const struct block_get *got, const char *what, str *out, err *e)
{
    if (got->why) {
        *e = *got->why;
        return false;
    }
    if (block_section(a, x, got->bytes, what, out, e)) return true;
    if (e->code != ERR_DATA_LOSS) return false;
    struct store_read one = {.name = got->object->name, .at = got->at, .n = got->n};
    one.to = arena_new(a, got->n);
    if (!one.to) return arena_fail(a, e);
    *e = (err){0};
    return read_again(w, &one, e) && block_section(a, x, str_make(one.to, got->n), what, out, e);
}
