// SPDX-License-Identifier: Apache-2.0
//
// Two locks: the set's is held for a few instructions only, to find a table and to count
// references; a table's own is held while stacks are mapped to it, which takes long. No thread
// takes one of them while it holds the other.
#include "querier/block/block_names.h"

#include "sys/lock.h"

// A new table is begun when the current one has so many times the rows of a new block's stacks; but
// never for a small one.
#define MANY_TIMES 4u
#define SMALL      65536u

struct block_names {
    struct block_names_set *set;
    struct block_names *next;
    char *name;  // service's bytes
    str service;
    uint32_t refs;  // under the set's lock
    bool current;   // new blocks are mapped to it; under the set's lock
    uint32_t rows;  // it has at least so many; under the set's lock
    struct symbols symbols;
    pthread_rwlock_t lock;  // of symbols
};

struct block_names_set {
    struct mem_budget *memory;
    struct lock lock;
    struct block_names *v;
};

struct block_names_set *block_names_set_new(struct mem_budget *memory)
{
    struct block_names_set *s = mem_must(sizeof *s);
    s->memory = memory;
    lock_init(&s->lock, LOCK_BLOCKS);
    return s;
}

void block_names_set_free(struct block_names_set *s)
{
    // Sections hold tables, queries hold sections: a table that is left is a reference that leaked.
    assert(!s->v);
    lock_release(&s->lock);
    mem_must_free(s);
}

static void free_names(struct block_names *n)
{
    struct mem_budget *memory = n->set->memory;
    symbols_release(&n->symbols);
    pthread_rwlock_destroy(&n->lock);
    mem_free(memory, n->name, MAX(n->service.n, 1));
    mem_free(memory, n, sizeof *n);
}

static struct block_names *new_names(struct block_names_set *s, str service, err *e)
{
    struct block_names *n = mem_alloc(s->memory, sizeof *n, e);
    char *name = n ? mem_alloc(s->memory, MAX(service.n, 1), e) : NULL;
    if (!name || !symbols_init(&n->symbols, s->memory, e)) {
        if (name) mem_free(s->memory, name, MAX(service.n, 1));
        if (n) mem_free(s->memory, n, sizeof *n);
        return NULL;
    }
    if (service.n) memcpy(name, service.p, service.n);
    n->set = s;
    n->name = name;
    n->service = str_make(name, service.n);
    n->refs = 1;
    n->current = true;
    pthread_rwlock_init(&n->lock, NULL);
    return n;
}

static struct block_names *find(struct block_names_set *s, str service)
{
    assert(lock_is_mine(&s->lock));
    struct block_names *n = s->v;
    while (n && !(n->current && str_eq(n->service, service)))
        n = n->next;
    return n;
}

// The service's current table, with a reference; a new one if there is none or it is too large.
static struct block_names *find_or_make(struct block_names_set *s, str service, uint32_t stacks,
                                        err *e)
{
    lock_take(&s->lock);
    struct block_names *n = find(s, service);
    // It stays for the blocks that are mapped to it, and goes with the last of them.
    if (n && n->rows > SMALL && n->rows / MANY_TIMES > stacks) {
        n->current = false;
        n = NULL;
    }
    if (n) n->refs++;
    lock_give(&s->lock);
    if (n) return n;

    // Allocated without the lock, so another query may have made it meanwhile: then its table
    // counts.
    struct block_names *made = new_names(s, service, e);
    if (!made) return NULL;
    lock_take(&s->lock);
    n = find(s, service);
    if (n) {
        n->refs++;
    } else {
        made->next = s->v;
        s->v = made;
    }
    lock_give(&s->lock);
    if (n) free_names(made);
    return n ? n : made;
}

void block_names_hold(struct block_names *n)
{
    lock_take(&n->set->lock);
    assert(n->refs > 0);
    n->refs++;
    lock_give(&n->set->lock);
}

void block_names_unref(struct block_names *n)
{
    if (!n) return;
    struct block_names_set *s = n->set;
    lock_take(&s->lock);
    assert(n->refs > 0);
    bool last = --n->refs == 0;
    if (last) {
        struct block_names **at = &s->v;
        while (*at != n) {
            assert(*at);
            at = &(*at)->next;
        }
        *at = n->next;
    }
    lock_give(&s->lock);
    if (last) free_names(n);
}

static bool map_stacks(struct block_names *n, struct arena *scratch, const struct symbol_table *t,
                       uint32_t *map, err *e)
{
    struct symbols_remap remap;
    if (!symbols_remap_init(&remap, scratch, t, &n->symbols, e)) return false;
    remap.names_only = true;
    for (uint32_t i = 0; i < t->stack_count; i++) {
        map[i] = symbols_remap_stack(&remap, i, e);
        if (map[i] == MAP_NONE) return false;
    }
    return true;
}

struct block_names *block_names_map(struct block_names_set *s, str service, struct arena *a,
                                    const struct symbol_table *t, uint32_t **map, uint32_t *rows,
                                    err *e)
{
    *map = ARENA_ARRAY(a, uint32_t, t->stack_count);
    struct block_names *n = arena_ok(a, e) ? find_or_make(s, service, t->stack_count, e) : NULL;
    if (!n) return NULL;
    // The table's own lock, not the set's: a service with many stacks holds up only itself. Rows
    // that a failure leaves behind are names that some block may still need.
    struct arena scratch;
    arena_init(&scratch, s->memory, SIZE_MAX);
    pthread_rwlock_wrlock(&n->lock);
    assert(!lock_is_mine(&s->lock));
    bool ok = map_stacks(n, &scratch, t, *map, e);
    *rows = n->symbols.t.stack_count;  // sums of this block have so many rows
    pthread_rwlock_unlock(&n->lock);
    arena_release(&scratch);
    if (!ok) {
        block_names_unref(n);
        return NULL;
    }
    // Others may have mapped more by now. find_or_make only needs a lower bound.
    lock_take(&s->lock);
    n->rows = MAX(n->rows, *rows);
    lock_give(&s->lock);
    return n;
}

bool block_names_add(struct block_names *n, struct merge *m, int64_t **sums, size_t *room, err *e)
{
    pthread_rwlock_rdlock(&n->lock);
    const struct symbol_table *t = &n->symbols.t;
    // The table may have grown since the sums were made: rows that they do not have are zeros.
    bool ok = mem_grow(m->symbols.budget, sums, room, t->stack_count, sizeof **sums, e) &&
              merge_add_sums(m, t, *sums, e);
    pthread_rwlock_unlock(&n->lock);
    return ok;
}
