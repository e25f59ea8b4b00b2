// SPDX-License-Identifier: Apache-2.0
//
// The cache. A section's entry goes through these states, all changes under the lock:
//
//     absent --a query wants it (inspect)--> placeholder, that query reads the section
//     placeholder --parsed (publish)--> ready; each query that uses it holds a reference
//     placeholder --failed, or no room (forget)--> absent
//     ready --unused, room is needed (make_room)--> absent
//
// Queries that meet a placeholder of another one wait until something changes, and look again: then
// the section is ready, or they read it themselves. So an error, or the end of the reading query,
// is never passed on to others. No query waits while others wait for it: it reads and publishes all
// its placeholders before it waits (blocks_load).
//
// A section that finds no room in the cache is parsed on the memory of the query, for it alone.
#include "querier/block/blocks.h"

#include "base/hash.h"
#include "querier/block/block_int.h"
#include "querier/metrics.h"
#include "service/process.h"
#include "sys/clock.h"

#define BUCKETS      4096u                 // a power of two
#define TAIL         ((uint64_t)32 << 10)  // read of an object's end: most footers are within
#define FOOTER_PLACE UINT64_MAX            // in place of an extent's offset, for footers
#define WAIT_NS      ((uint64_t)100 * 1000 * 1000)  // then a waiting query looks whether it ended

struct blocks {
    struct store *store;
    struct disk_cache *disk;  // or NULL
    struct mem_budget memory;
    struct lock lock;  // of everything below
    struct cond ready;
    struct block_kept *buckets[BUCKETS];
    struct block_kept *newest;
    struct block_kept *oldest;
    struct block_names_set *names;
};

struct blocks *blocks_new(struct store *s, struct mem_budget *parent, size_t memory)
{
    struct blocks *b = mem_must(sizeof *b);
    b->store = s;
    mem_budget_init(&b->memory, "querier.cache_memory", parent, memory);
    lock_init(&b->lock, LOCK_BLOCKS);
    cond_init(&b->ready);
    b->names = block_names_set_new(&b->memory);
    process_watch_budget(&b->memory);
    return b;
}

void blocks_keep_on_disk(struct blocks *b, struct disk_cache *c)
{
    assert(c && !b->disk);
    b->disk = c;
}

struct store *blocks_store(const struct blocks *b)
{
    return b->store;
}

struct disk_cache *blocks_disk(const struct blocks *b)
{
    return b->disk;
}

// ---- entries

static void free_entry(struct block_kept *k)
{
    assert(!k->listed && !k->newer && !k->older);
    block_names_unref(k->names);
    arena_release(&k->arena);
    mem_free(k->budget, k, sizeof *k);
}

static void free_entries(struct block_kept *v)
{
    while (v) {
        struct block_kept *next = v->next;
        free_entry(v);
        v = next;
    }
}

static uint64_t hash_of(str object, uint64_t at, enum block_part part)
{
    return hash_table_and(hash_table_and(hash_table_str(object), at), part);
}

static uint64_t place_of(const struct block_want *w)
{
    return w->part == BLOCK_PART_FOOTER ? FOOTER_PLACE : w->extent->at;
}

static struct block_kept *find(struct blocks *b, const struct block_want *w, uint64_t hash)
{
    struct block_kept *k = b->buckets[hash % BUCKETS];
    assert(lock_is_mine(&b->lock));
    while (k && (k->hash != hash || k->at != place_of(w) || k->part != w->part ||
                 !str_eq(k->object, w->object->name))) {
        k = k->next;
    }
    return k;
}

static void leave_age(struct blocks *b, struct block_kept *k)
{
    assert(lock_is_mine(&b->lock) && k->ready);
    *(k->newer ? &k->newer->older : &b->newest) = k->older;
    *(k->older ? &k->older->newer : &b->oldest) = k->newer;
    k->newer = NULL;
    k->older = NULL;
}

static void become_newest(struct blocks *b, struct block_kept *k)
{
    assert(lock_is_mine(&b->lock) && k->ready && k != b->newest);
    k->older = b->newest;
    k->newer = NULL;
    *(b->newest ? &b->newest->newer : &b->oldest) = k;
    b->newest = k;
    assert(b->oldest && !b->oldest->older);
}

static void leave_table(struct blocks *b, struct block_kept *k)
{
    assert(lock_is_mine(&b->lock) && k->listed);
    struct block_kept **at = &b->buckets[k->hash % BUCKETS];
    while (*at != k) {
        assert(*at);
        at = &(*at)->next;
    }
    *at = k->next;
    k->next = NULL;
    k->listed = false;
}

// Takes unused entries out of the table, the longest unused first, until they make up `bytes`.
// False: there was none.
static bool make_room(struct blocks *b, size_t bytes)
{
    struct block_kept *gone = NULL;
    size_t freed = 0;
    lock_take(&b->lock);
    for (struct block_kept *k = b->oldest; k && freed < bytes;) {
        struct block_kept *newer = k->newer;
        if (k->refs == 0) {
            leave_age(b, k);
            leave_table(b, k);
            freed += k->arena.reserved + sizeof *k;
            k->next = gone;
            gone = k;
        }
        k = newer;
    }
    lock_give(&b->lock);
    free_entries(gone);  // without the lock: freeing large sections takes long
    return freed > 0;
}

void blocks_unref(struct blocks *b, struct block_kept *k)
{
    if (!k) return;
    lock_take(&b->lock);
    assert(k->refs > 0);
    // An entry of the table stays for other queries, however few use it; one that was made for this
    // question alone goes.
    bool last = --k->refs == 0 && !k->listed;
    lock_give(&b->lock);
    if (last) free_entry(k);
}

void blocks_free(struct blocks *b)
{
    if (!b) return;
    while (make_room(b, SIZE_MAX)) {
    }
    assert(b->oldest == NULL);
    block_names_set_free(b->names);
    process_unwatch_budget(&b->memory);
    cond_release(&b->ready);
    lock_release(&b->lock);
    mem_must_free(b);
}

// ---- parsing

static bool parse_footer(struct block_kept *k, const struct block_want *w, str footer,
                         const struct block_extent *x, err *e)
{
    str contents;
    return block_section(&k->arena, x, footer, "footer", &contents, e) &&
           block_footer_parse(&k->arena, contents, w->object->bytes, &k->footer, e);
}

// The parsed form of a section that is not packed borrows its bytes, so they must be the entry's.
static bool own(struct arena *a, bool packed, str *bytes, err *e)
{
    if (!packed) *bytes = arena_str(a, *bytes);
    return arena_ok(a, e);
}

static bool parse_section(struct block_kept *k, const struct block_want *w, str stored, err *e)
{
    static const char *const names[] = {"footer", "index", "symbols", "vectors of nodes",
                                        "symbols"};
    struct arena *a = &k->arena;
    str contents;
    if (!own(a, w->extent->packed, &stored, e) ||
        !block_section(a, w->extent, stored, names[w->part], &contents, e)) {
        return false;
    }
    switch (w->part) {
    case BLOCK_PART_INDEX:
        return block_index_parse(a, contents, w->service, &k->index, e);
    case BLOCK_PART_SYMBOLS:
        return block_symbols_parse(a, contents, &k->symbols, e);
    case BLOCK_PART_VECTORS:
        return block_vectors_parse(a, contents, w->count, &k->vectors, e);
    default:
        return err_set(e, ERR_INTERNAL, "a footer is no section");
    }
}

// A want that this query reads.
struct read_part {
    struct block_want *want;
    struct block_extent footer;  // once the trailer was read
};

// Names need the symbol table only to be mapped: it is scratch, and the map is kept.
static bool parse_names(struct block_walk *walk, struct block_kept *k, const struct block_want *w,
                        str stored, err *e)
{
    struct arena scratch;
    struct symbol_table t;
    str contents;
    arena_init(&scratch, &walk->m->memory, SIZE_MAX);
    bool ok = block_section(&scratch, w->extent, stored, "symbols", &contents, e) &&
              block_symbols_parse(&scratch, contents, &t, e);
    if (ok) {
        k->stack_count = t.stack_count;
        k->names = block_names_map(walk->blocks->names, w->service->name, &k->arena, &t,
                                   &k->to_names, &k->name_rows, e);
    }
    arena_release(&scratch);
    return ok && k->names;
}

static bool parse(struct block_walk *walk, struct block_kept *k, const struct read_part *p,
                  str bytes, err *e)
{
    k->object = arena_str(&k->arena, p->want->object->name);
    if (!arena_ok(&k->arena, e)) return false;
    if (p->want->part == BLOCK_PART_NAMES) return parse_names(walk, k, p->want, bytes, e);
    if (p->want->part != BLOCK_PART_FOOTER) return parse_section(k, p->want, bytes, e);
    return own(&k->arena, p->footer.packed, &bytes, e) &&
           parse_footer(k, p->want, bytes, &p->footer, e);
}

// ---- loading

static struct block_kept *new_entry(struct mem_budget *memory, const struct block_want *w,
                                    uint64_t hash, err *e)
{
    struct block_kept *k = mem_alloc(memory, sizeof *k, e);
    if (!k) return NULL;
    k->budget = memory;
    k->object = w->object->name;  // borrowed from the query, until the entry is parsed
    k->at = place_of(w);
    k->part = w->part;
    k->hash = hash;
    k->refs = 1;
    arena_init(&k->arena, memory, SIZE_MAX);
    k->arena.setting = memory->name;
    return k;
}

// The state of a section that a query wants.
enum state {
    READY,  // ready: the want has a reference
    MINE,   // it was absent: this query made a placeholder and has to read it
    OTHERS  // another query reads it
};

// Looks a want up in the table. False: no memory.
static bool inspect(struct block_walk *walk, struct block_want *w, enum state *state, err *e)
{
    struct blocks *b = walk->blocks;
    uint64_t hash = hash_of(w->object->name, place_of(w), w->part);
    lock_take(&b->lock);
    struct block_kept *k = find(b, w, hash);
    if (k && k->ready) {
        k->refs++;
        leave_age(b, k);
        become_newest(b, k);
        w->kept = k;
    }
    *state = !k ? MINE : k->ready ? READY : OTHERS;
    lock_give(&b->lock);
    if (*state == READY) metric_add(&querier_block_cache_hits, 1);
    if (*state != MINE) return true;

    // The placeholder is allocated without the lock, so another query may have been faster.
    struct block_kept *made = new_entry(&walk->m->memory, w, hash, e);
    if (!made) return false;
    lock_take(&b->lock);
    if (find(b, w, hash)) {
        // It may be ready already: then the next round of blocks_load finds it.
        *state = OTHERS;
    } else {
        made->listed = true;
        made->next = b->buckets[hash % BUCKETS];
        b->buckets[hash % BUCKETS] = made;
        w->kept = made;
        w->mine = true;
    }
    lock_give(&b->lock);
    if (*state == OTHERS) free_entry(made);
    if (*state == MINE) metric_add(&querier_block_cache_misses, 1);
    return true;
}

// Wakes the queries that wait for others: something was published or forgotten.
static void wake_others(struct blocks *b)
{
    lock_take(&b->lock);
    cond_wake_all(&b->ready);
    lock_give(&b->lock);
}

// Removes the query's placeholder; queries that wait for it read the section themselves.
static void forget(struct blocks *b, struct block_want *w)
{
    assert(w->mine && !w->kept->ready && w->kept->refs == 1);
    lock_take(&b->lock);
    leave_table(b, w->kept);
    lock_give(&b->lock);
    free_entry(w->kept);
    w->kept = NULL;
    w->mine = false;
}

// Puts the parsed section in the place of the placeholder. The query keeps the reference of k.
static void publish(struct blocks *b, struct block_want *w, struct block_kept *k)
{
    struct block_kept *holder = w->kept;
    assert(w->mine && !holder->ready && k->refs == 1 && !k->listed && k->hash == holder->hash);
    lock_take(&b->lock);
    leave_table(b, holder);
    k->listed = true;
    k->ready = true;
    k->next = b->buckets[k->hash % BUCKETS];
    b->buckets[k->hash % BUCKETS] = k;
    become_newest(b, k);
    lock_give(&b->lock);
    free_entry(holder);
    w->kept = k;
    w->mine = false;
}

// Parses what was read into a new entry. NULL with *e; then *had is the memory that the entry took
// until it failed.
static struct block_kept *make_entry(struct mem_budget *memory, const struct read_part *p,
                                     struct block_walk *walk, str bytes, size_t *had, err *e)
{
    struct block_kept *k = new_entry(memory, p->want, p->want->kept->hash, e);
    if (!k || parse(walk, k, p, bytes, e)) return k;
    *had = k->arena.reserved;
    free_entry(k);
    return NULL;
}

// Parses a section that was read: for the cache; if that has no room even after unused entries
// went, for this question alone. Room for twice the unpacked size is made first: parsed forms are
// larger than their bytes, and a failed attempt costs the parse.
static bool keep(struct block_walk *walk, const struct read_part *p, str bytes, err *e)
{
    struct blocks *b = walk->blocks;
    struct block_want *w = p->want;
    uint64_t raw = w->part == BLOCK_PART_FOOTER ? p->footer.raw : w->extent->raw;
    size_t limit = atomic_load_explicit(&b->memory.limit, memory_order_relaxed);
    size_t used = atomic_load_explicit(&b->memory.used, memory_order_relaxed);
    if (limit && used + 2 * raw > limit) (void)make_room(b, used + 2 * raw - limit);
    for (bool more = 2 * raw <= limit || limit == 0; more;) {
        *e = (err){0};
        size_t had = 0;
        struct block_kept *k = make_entry(&b->memory, p, walk, bytes, &had, e);
        if (k) {
            publish(b, w, k);
            return true;
        }
        if (e->code != ERR_RESOURCE_EXHAUSTED) return false;
        more = make_room(b, MAX(had, 2 * raw));
    }
    *e = (err){0};
    size_t had = 0;
    struct block_kept *alone = make_entry(&walk->m->memory, p, walk, bytes, &had, e);
    w->no_room = !alone && w->part == BLOCK_PART_NAMES && e->code == ERR_RESOURCE_EXHAUSTED;
    if (!alone && !w->no_room) return false;
    forget(b, w);
    w->kept = alone;
    return true;
}

// The section cannot be had. The reason goes to the want; only a lack of memory ends the question.
static bool fail(struct block_walk *walk, struct block_want *w, const err *why, err *e)
{
    assert(why->code && !w->why);
    if (w->mine) forget(walk->blocks, w);
    if (why->code == ERR_RESOURCE_EXHAUSTED) {
        *e = *why;
        return false;
    }
    err *kept = ARENA_NEW(&walk->arena, err);
    if (!kept) return block_no_room(walk, e);
    *kept = *why;
    w->why = kept;
    return true;
}

// Finds the footer's extent in the trailer, and its bytes in the tail that was read. *again: the
// footer is longer than the tail, and *got becomes a read of all of it.
static bool find_footer(struct read_part *p, struct block_get *got, bool *again, err *e)
{
    const struct level_object *o = p->want->object;
    *again = false;
    if (got->why) {
        *e = *got->why;
        return false;
    }
    if (o->bytes < BLOCK_TRAILER) {
        return err_set(e, ERR_DATA_LOSS, "%llu bytes are no block", (unsigned long long)o->bytes);
    }
    str trailer = str_slice(got->bytes, got->bytes.n - BLOCK_TRAILER, got->bytes.n);
    if (!block_trailer(trailer, o->bytes, &p->footer, e)) return false;
    if (p->footer.at >= got->at) {
        size_t from = p->footer.at - got->at;
        got->bytes = str_slice(got->bytes, from, from + p->footer.stored);
        return true;
    }
    *got = (struct block_get){.object = o, .at = p->footer.at, .n = p->footer.stored};
    *again = true;
    return true;
}

static struct block_get get_for(const struct block_want *w)
{
    uint64_t size = w->object->bytes;
    if (w->part == BLOCK_PART_FOOTER) {
        uint64_t n = MIN(size, TAIL);
        return (struct block_get){.object = w->object, .at = size - n, .n = n};
    }
    return (struct block_get){.object = w->object, .at = w->extent->at, .n = w->extent->stored};
}

struct load {
    struct read_part *parts;
    struct block_get *gets;
    size_t n;
    struct block_get *more;
    size_t *more_of;
    size_t more_count;
    struct block_io io;
};

// Was something read, and found damaged?
static bool is_damaged(const struct block_get *got, const err *why)
{
    return !got->why && got->bytes.n && why->code == ERR_DATA_LOSS;
}

static bool read_footers(struct block_walk *walk, struct load *l, err *e)
{
    for (size_t i = 0; i < l->n; i++) {
        struct read_part *p = &l->parts[i];
        struct block_get *got = &l->gets[i];
        bool again = false;
        err why = {0};
        if (p->want->part != BLOCK_PART_FOOTER) continue;
        bool ok = find_footer(p, got, &again, &why) ||
                  (is_damaged(got, &why) && block_fetch_again(walk, &l->io, got, &why) &&
                   find_footer(p, got, &again, &why));
        if (!ok) {
            if (!fail(walk, p->want, &why, e)) return false;
        } else if (again) {
            l->more_of[l->more_count] = i;
            l->more[l->more_count++] = l->gets[i];
        }
    }
    if (!block_fetch(walk, &l->io, l->more, l->more_count, e)) return false;
    for (size_t i = 0; i < l->more_count; i++)
        l->gets[l->more_of[i]] = l->more[i];
    return true;
}

// The read for what was parsed: of a footer, the part of the tail that is the footer.
static struct block_get get_of(const struct read_part *p)
{
    if (p->want->part != BLOCK_PART_FOOTER) return get_for(p->want);
    return (struct block_get){.object = p->want->object, .at = p->footer.at, .n = p->footer.stored};
}

static bool keep_all(struct block_walk *walk, struct load *l, err *e)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct read_part *p = &l->parts[i];
        struct block_get *got = &l->gets[i];
        err why = {0};
        if (!p->want->mine) continue;
        bool ok = !got->why;
        if (got->why) why = *got->why;
        ok = ok && keep(walk, p, got->bytes, &why);
        if (!ok && is_damaged(got, &why)) {
            *got = get_of(p);
            ok = block_fetch_again(walk, &l->io, got, &why) && keep(walk, p, got->bytes, &why);
        }
        if (!ok && !fail(walk, p->want, &why, e)) return false;
    }
    return true;
}

// Notes the sections that lie beside an index and will be wanted next: one read then has all.
static bool note_prefetch(struct block_walk *walk, const struct block_want *w, err *e)
{
    if (w->part != BLOCK_PART_INDEX) return true;
    return (!(walk->ask.sections & BLOCK_WITH_ALL) ||
            block_read_prefetched(walk, w->object, &w->service->all, e)) &&
           (!(walk->ask.sections & BLOCK_WITH_TOTALS) ||
            block_read_prefetched(walk, w->object, &w->service->totals, e));
}

static bool note_mine(struct block_walk *walk, struct load *l, struct block_want *v, size_t n,
                      err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!v[i].mine) continue;
        l->parts[l->n] = (struct read_part){.want = &v[i]};
        l->gets[l->n++] = get_for(&v[i]);
        if (!note_prefetch(walk, &v[i], e)) return false;
    }
    return true;
}

// Reads what the query has to read, and the sections noted by note_prefetch, whose bytes stay until
// the wave ends.
static bool fetch_all(struct block_walk *walk, struct load *l, struct arena *scratch, err *e)
{
    struct block_prefetch *h = &walk->prefetch;
    size_t from = h->from;
    if (from == h->n) return block_fetch(walk, &l->io, l->gets, l->n, e);
    size_t n = l->n + h->n - from;
    struct block_get *gets = ARENA_ARRAY(scratch, struct block_get, n);
    if (!gets) return block_no_room(walk, e);
    memcpy(gets, l->gets, l->n * sizeof *gets);
    memcpy(gets + l->n, h->v + from, (h->n - from) * sizeof *gets);
    h->from = h->n;
    if (!block_fetch(walk, &h->io, gets, n, e)) return false;
    memcpy(l->gets, gets, l->n * sizeof *gets);
    memcpy(h->v + from, gets + l->n, (h->n - from) * sizeof *gets);
    return true;
}

// Reads and publishes the sections for which this query has placeholders.
static bool load_mine(struct block_walk *walk, struct block_want *v, size_t n, err *e)
{
    struct arena scratch;
    struct load l = {0};
    arena_init(&scratch, &walk->m->memory, SIZE_MAX);
    l.parts = ARENA_ARRAY(&scratch, struct read_part, n);
    l.gets = ARENA_ARRAY(&scratch, struct block_get, n);
    l.more = ARENA_ARRAY(&scratch, struct block_get, n);
    l.more_of = ARENA_ARRAY(&scratch, size_t, n);
    bool ok = !scratch.exhausted || block_no_room(walk, e);
    ok = ok && note_mine(walk, &l, v, n, e) && fetch_all(walk, &l, &scratch, e) &&
         read_footers(walk, &l, e) && keep_all(walk, &l, e);
    block_io_release(walk, &l.io);
    arena_release(&scratch);
    return ok;
}

// Waits until some query published or forgot a section, or for WAIT_NS. False: the request ended.
static bool wait_for_others(struct block_walk *walk, const struct block_want *w, err *e)
{
    struct blocks *b = walk->blocks;
    uint64_t hash = hash_of(w->object->name, place_of(w), w->part);
    lock_take(&b->lock);
    // Under the lock that publish and forget take, so what ends the wait cannot slip in before it.
    const struct block_kept *k = find(b, w, hash);
    if (k && !k->ready) (void)cond_wait_until(&b->ready, &b->lock, clock_mono_ns() + WAIT_NS);
    lock_give(&b->lock);
    return req_alive(walk->req, e);
}

// Looks up all wants that have nothing yet. *mine: this query made placeholders. *others: a want
// that another query reads, or NULL.
static bool inspect_all(struct block_walk *walk, struct block_want *v, size_t n, bool *mine,
                        const struct block_want **others, err *e)
{
    *mine = false;
    *others = NULL;
    for (size_t i = 0; i < n; i++) {
        enum state state = READY;
        if (v[i].kept || v[i].why || v[i].no_room) continue;
        if (!inspect(walk, &v[i], &state, e)) return false;
        *mine = *mine || state == MINE;
        if (state == OTHERS) *others = &v[i];
    }
    return true;
}

// No placeholder of this query stays, whatever happened; then the others are woken.
static void forget_mine(struct block_walk *walk, struct block_want *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i].mine) forget(walk->blocks, &v[i]);
    }
    wake_others(walk->blocks);
}

bool blocks_load(struct block_walk *walk, struct block_want *v, size_t n, err *e)
{
    for (;;) {
        bool mine = false;
        const struct block_want *others = NULL;
        bool ok = inspect_all(walk, v, n, &mine, &others, e);
        if (ok && !mine && !others) return true;
        // Own placeholders first, then waiting: two queries that wait for each other's placeholders
        // would wait for ever.
        if (ok && mine) ok = load_mine(walk, v, n, e);
        if (mine || !ok) forget_mine(walk, v, n);
        if (ok && !mine) ok = wait_for_others(walk, others, e);
        if (!ok) return false;
    }
}
