// SPDX-License-Identifier: Apache-2.0
//
// lexicon.c - slots with a lexicon each, of which the oldest go when memory is short; and which
// ingesters take lexicons.
#include "intake/lexicon.h"

#include "sys/rand.h"

#include <stdlib.h>

// After refusals in a row 1, 2, 4 ... at most so many pushes bring their symbols along before
// another lexicon is tried. So an ingester that always refuses (a service with too many stacks, no
// memory) costs next to nothing.
#define PAUSE_MOST 1024

// While memory is full, one of so many newcomers is let in. Agents push in turns: if each newcomer
// got the place of the lexicon that was not used for longest, none would be there when it is needed
// again.
#define ADMITTED 16

// Members beyond this number get no lexicons. A cluster has some tens; this bounds the table.
#define MEMBERS_MOST 4096

// The lexicon of a tenant, service and member, or why there is none.
struct slot {
    struct shelf_item item;
    struct lexicon *lexicon;  // or NULL
    uint32_t pause;           // pushes that go without
    uint32_t refusals;        // in a row
    size_t tenant_n;
    size_t service_n;
    size_t member_n;
    char text[];  // the three
};

void lexicons_init(struct lexicons *ls, struct mem_budget *parent, size_t limit)
{
    *ls = (struct lexicons){0};
    // A budget with limit 0 would have no limit at all.
    mem_budget_init(&ls->memory, "distributor.lexicon_memory", parent, MAX(limit, (size_t)1));
    lock_init(&ls->lock, LOCK_LEXICONS);
    shelf_init(&ls->shelf, &ls->memory);
}

static void lexicon_free(struct lexicon *l)
{
    assert(atomic_load_explicit(&l->refs, memory_order_relaxed) <= 1);
    struct mem_budget *b = l->memory.parent;
    symbols_hints_release(&l->hints);
    symbols_release(&l->symbols);
    lock_release(&l->lock);
    mem_free(b, l, sizeof *l);
}

// The last reference goes after all use: release orders that before the free, acquire sees it.
void lexicon_unref(struct lexicon *l)
{
    assert(atomic_load_explicit(&l->refs, memory_order_relaxed) > 0);
    if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1) lexicon_free(l);
}

static size_t slot_size(const struct slot *s)
{
    return sizeof *s + s->tenant_n + s->service_n + s->member_n;
}

static void release_lexicon(struct slot *s)
{
    if (!s->lexicon) return;
    // Pushes that use it find out before they add more rows (tell_stacks). Those that are sending
    // it go on: what the ingester has of it stays right.
    atomic_store_explicit(&s->lexicon->ended, true, memory_order_relaxed);
    lexicon_unref(s->lexicon);
    s->lexicon = NULL;
}

static void slot_remove(struct lexicons *ls, struct slot *s)
{
    release_lexicon(s);
    shelf_remove(&ls->shelf, &s->item);
    mem_free(&ls->memory, s, slot_size(s));
}

static struct slot *oldest(const struct lexicons *ls)
{
    return CONTAINER_OF(ls->shelf.oldest, struct slot, item);
}

void lexicons_release(struct lexicons *ls)
{
    // Lexicons first, then members, then the budget, which must be empty: whoever still had a
    // reference would show here.
    while (ls->shelf.count)
        slot_remove(ls, oldest(ls));
    shelf_release(&ls->shelf);
    for (size_t i = 0; i < ls->member_count; i++)
        mem_free(&ls->memory, ls->members[i].id, ls->members[i].n);
    mem_free(&ls->memory, ls->members, ls->member_cap * sizeof *ls->members);
    assert(atomic_load(&ls->memory.used) == 0);
    lock_release(&ls->lock);
}

static size_t limit_of(const struct lexicons *ls)
{
    return atomic_load_explicit(&ls->memory.limit, memory_order_relaxed);
}

// ---- members

static struct lexicon_member *member_of(struct lexicons *ls, str id)
{
    assert(lock_is_mine(&ls->lock));
    for (size_t i = 0; i < ls->member_count; i++) {
        if (str_eq((str){ls->members[i].id, ls->members[i].n}, id)) return &ls->members[i];
    }
    return NULL;
}

static struct lexicon_member *member_add(struct lexicons *ls, str id)
{
    err e = {0};
    if (ls->member_count == MEMBERS_MOST || id.n == 0) return NULL;
    if (!mem_grow(&ls->memory, &ls->members, &ls->member_cap, ls->member_count + 1,
                  sizeof *ls->members, &e)) {
        return NULL;
    }
    char *text = mem_alloc(&ls->memory, id.n, &e);
    if (!text) return NULL;
    // Counted only now: a member without a name would be taken for another one.
    memcpy(text, id.p, id.n);
    struct lexicon_member *m = &ls->members[ls->member_count++];
    *m = (struct lexicon_member){.id = text, .n = id.n};
    return m;
}

void lexicons_note_member(struct lexicons *ls, str member, bool takes)
{
    lock_take(&ls->lock);
    struct lexicon_member *m = member_of(ls, member);
    // Without memory the member stays unknown and gets no lexicons; the next answer tries again.
    if (!m && takes) m = member_add(ls, member);
    if (m) m->takes = takes;
    lock_give(&ls->lock);
}

// ---- slots, with the lock

static bool same_slot(const void *ctx, struct shelf_item *item)
{
    const struct lexicon_key *k = ctx;
    const struct slot *s = CONTAINER_OF(item, struct slot, item);
    const char *at = s->text;
    return str_eq(k->tenant, (str){at, s->tenant_n}) &&
           str_eq(k->service, (str){at + s->tenant_n, s->service_n}) &&
           str_eq(k->member, (str){at + s->tenant_n + s->service_n, s->member_n});
}

static uint64_t hash_of(const struct lexicon_key *k)
{
    uint64_t h = hash_table_and(hash_table_str(k->tenant), hash_table_str(k->service));
    return hash_table_and(h, hash_table_str(k->member));
}

static struct slot *slot_add(struct lexicons *ls, const struct lexicon_key *k, uint64_t hash)
{
    err e = {0};
    size_t n = k->tenant.n + k->service.n + k->member.n;
    assert(lock_is_mine(&ls->lock) && k->member.n > 0);
    struct slot *s = mem_alloc(&ls->memory, sizeof *s + n, &e);
    if (!s) return NULL;
    s->tenant_n = k->tenant.n;
    s->service_n = k->service.n;
    s->member_n = k->member.n;
    if (k->tenant.n) memcpy(s->text, k->tenant.p, k->tenant.n);
    if (k->service.n) memcpy(s->text + k->tenant.n, k->service.p, k->service.n);
    memcpy(s->text + k->tenant.n + k->service.n, k->member.p, k->member.n);
    if (shelf_put(&ls->shelf, &s->item, hash, &e)) return s;
    mem_free(&ls->memory, s, sizeof *s + n);
    return NULL;
}

static struct lexicon *lexicon_new(struct lexicons *ls)
{
    err e = {0};
    struct lexicon *l = mem_alloc(&ls->memory, sizeof *l, &e);
    if (!l) return NULL;
    mem_budget_init(&l->memory, "distributor.lexicon_memory", &ls->memory, limit_of(ls) / 4);
    lock_init(&l->lock, LOCK_LEXICON);
    atomic_init(&l->refs, 1);
    // Random, because an ingester keeps lexicons of all distributors under their ids, those of
    // earlier processes too.
    rand_bytes(l->id.b, sizeof l->id.b);
    symbols_hints_init(&l->hints, &l->memory);
    // Row 0 of each table is the empty one, which every table has.
    l->told = (struct symbol_counts){1, 1, 1, 1, 1};
    if (symbols_init(&l->symbols, &l->memory, &e)) {
        // A key of its own: clients choose what is looked up here, and the answer takes longer
        // where rows collide.
        symbols_seed(&l->symbols, rand_key());
        atomic_fetch_add_explicit(&ls->opened, 1, memory_order_relaxed);
        return l;
    }
    lexicon_free(l);
    return NULL;
}

static size_t most_of(const struct lexicons *ls)
{
    return limit_of(ls) / 4 * 3;
}

// Newcomers are held back from 5/8 on, below the 3/4 at which lexicons are dropped: one that is
// dropped must not make place for two.
static bool is_crowded(const struct lexicons *ls)
{
    return atomic_load_explicit(&ls->memory.used, memory_order_relaxed) > limit_of(ls) / 8 * 5;
}

// Drops lexicons that were not used for longest until there is room for others to grow. Pushes may
// still use them, and their memory is freed later; so their bytes are subtracted here, or this
// would drop all of them.
static void make_room(struct lexicons *ls, const struct slot *keep)
{
    size_t used = atomic_load_explicit(&ls->memory.used, memory_order_relaxed);
    size_t most = most_of(ls);
    assert(lock_is_mine(&ls->lock));
    while (used > most && ls->shelf.count > 0 && oldest(ls) != keep) {
        struct slot *s = oldest(ls);
        size_t bytes = slot_size(s) + (s->lexicon ? sizeof *s->lexicon : 0);
        if (s->lexicon)
            bytes += atomic_load_explicit(&s->lexicon->memory.used, memory_order_relaxed);
        slot_remove(ls, s);
        atomic_fetch_add_explicit(&ls->evicted, 1, memory_order_relaxed);
        used -= MIN(bytes, used);
    }
}

void lexicons_limit(struct lexicons *ls, size_t limit)
{
    limit = MAX(limit, (size_t)1);
    if (limit == limit_of(ls)) return;
    lock_take(&ls->lock);
    atomic_store_explicit(&ls->memory.limit, limit, memory_order_relaxed);
    make_room(ls, NULL);
    lock_give(&ls->lock);
}

static struct lexicon *take(struct lexicons *ls, const struct lexicon_key *k)
{
    const struct lexicon_member *m = member_of(ls, k->member);
    if (!m || !m->takes) return NULL;
    // shelf_find makes the slot the newest, so that make_room drops others first.
    uint64_t hash = hash_of(k);
    struct shelf_item *item = shelf_find(&ls->shelf, hash, same_slot, k);
    struct slot *s = item ? CONTAINER_OF(item, struct slot, item) : NULL;
    if (!s && is_crowded(ls) && ls->turned_away++ % ADMITTED != 0) return NULL;
    // Before slot_add: with memory full that would fail although old lexicons could go.
    make_room(ls, s);
    if (!s) s = slot_add(ls, k, hash);
    if (!s) return NULL;
    // Pushes that still use an ended one keep it; this push begins another.
    if (s->lexicon && atomic_load_explicit(&s->lexicon->ended, memory_order_relaxed))
        release_lexicon(s);
    if (s->pause > 0) {
        // Counted in pushes, not in time: a service that pushes rarely is not to wait for longest.
        s->pause--;
        return NULL;
    }
    if (!s->lexicon) s->lexicon = lexicon_new(ls);
    // The slot has a reference of its own and the lock is held, so the count is above 0: relaxed is
    // enough.
    if (s->lexicon) atomic_fetch_add_explicit(&s->lexicon->refs, 1, memory_order_relaxed);
    return s->lexicon;
}

struct lexicon *lexicons_take(struct lexicons *ls, const struct lexicon_key *k)
{
    lock_take(&ls->lock);
    struct lexicon *l = take(ls, k);
    lock_give(&ls->lock);
    return l;
}

// ---- how one ends

// Takes the lexicon out of its slot, if it is still there, so that no push begins to use it. With
// `pause` the next pushes go without one: twice as many after each refusal in a row.
static void end(struct lexicons *ls, const struct lexicon_key *k, struct lexicon *l, bool pause)
{
    assert(!lock_is_mine(&l->lock));  // its rank is above that of lexicons.lock
    lock_take(&ls->lock);
    struct shelf_item *item = shelf_find(&ls->shelf, hash_of(k), same_slot, k);
    struct slot *s = item ? CONTAINER_OF(item, struct slot, item) : NULL;
    assert(atomic_load_explicit(&l->ended, memory_order_relaxed));
    // Otherwise another push ended it first, or make_room dropped it and the slot has a newer one.
    if (s && s->lexicon == l) {
        release_lexicon(s);
        if (!pause) s->refusals = 0;
        s->pause = pause ? MIN((uint32_t)PAUSE_MOST, 1u << MIN(s->refusals, 10u)) : 0;
        s->refusals += pause;
    }
    lock_give(&ls->lock);
}

void lexicons_full(struct lexicons *ls, const struct lexicon_key *k, struct lexicon *l)
{
    lock_take(&l->lock);
    // Fewer than two look-ups for each stack: most of them were new, so the table saved little.
    bool useless = l->symbols.t.stack_count > l->asked / 2;
    lock_give(&l->lock);
    // One that no ingester ever took was useless as well.
    useless |= !atomic_load_explicit(&l->answered, memory_order_relaxed);
    // Several pushes may find it full at once. The first one counts; a second pause must not
    // follow.
    if (atomic_exchange_explicit(&l->ended, true, memory_order_relaxed)) return;
    atomic_fetch_add_explicit(&ls->full, 1, memory_order_relaxed);
    end(ls, k, l, useless);
}

void lexicons_refused(struct lexicons *ls, const struct lexicon_key *k, struct lexicon *l)
{
    if (atomic_exchange_explicit(&l->ended, true, memory_order_relaxed)) return;
    atomic_fetch_add_explicit(&ls->refused, 1, memory_order_relaxed);
    end(ls, k, l, !atomic_load_explicit(&l->answered, memory_order_relaxed));
}

static void raise(uint32_t *to, uint32_t n)
{
    *to = MAX(*to, n);
}

void lexicon_stored(struct lexicon *l, const struct symbol_counts *to)
{
    lock_take(&l->lock);
    // Answers come in any order. Each push sent all rows behind its `had`, so the largest count is
    // true whichever came first.
    raise(&l->told.strings, to->strings);
    raise(&l->told.functions, to->functions);
    raise(&l->told.mappings, to->mappings);
    raise(&l->told.frames, to->frames);
    raise(&l->told.stacks, to->stacks);
    lock_give(&l->lock);
    atomic_store_explicit(&l->answered, true, memory_order_relaxed);
}

struct lexicon_facts lexicons_facts(struct lexicons *ls)
{
    lock_take(&ls->lock);
    size_t count = 0;
    for (struct shelf_item *i = ls->shelf.newest; i; i = i->older)
        count += CONTAINER_OF(i, struct slot, item)->lexicon != NULL;
    lock_give(&ls->lock);
    return (struct lexicon_facts){
        .count = count,
        .bytes = atomic_load_explicit(&ls->memory.used, memory_order_relaxed),
        .opened = atomic_load_explicit(&ls->opened, memory_order_relaxed),
        .refused = atomic_load_explicit(&ls->refused, memory_order_relaxed),
        .evicted = atomic_load_explicit(&ls->evicted, memory_order_relaxed),
        .full = atomic_load_explicit(&ls->full, memory_order_relaxed),
    };
}
