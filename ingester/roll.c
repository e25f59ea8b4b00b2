// SPDX-License-Identifier: Apache-2.0
//
// roll.c - marks the cuts that are there, and creates the next number when all of them are gone.
#include "ingester/roll.h"

#include "sys/clock.h"

static void unmark(struct roll *l)
{
    mem_free(NULL, l->marked, l->marked_bytes);
    l->marked = NULL;
    l->marked_count = l->marked_bytes = 0;
    l->has_marked = false;
}

void roll_release(struct roll *l)
{
    unmark(l);
    l->number = 0;
}

void roll_noted(struct roll *l, uint64_t number, int64_t boot_ns)
{
    // The store may have an older list in hand: numbers only grow.
    if (number <= l->number) return;
    unmark(l);
    l->number = number;
    l->since_ns = boot_ns;
}

// The cuts of the log; NULL: no memory. *room of them were made room for.
static struct wal_cut *list_cuts(struct wal *wal, size_t *n, size_t *room)
{
    err ignored = {0};
    *room = wal_list_cuts(wal, NULL, 0) + 8;  // a few cuts may be made between the two calls
    struct wal_cut *v = mem_alloc(NULL, *room * sizeof *v, &ignored);
    if (!v) return NULL;
    *n = wal_list_cuts(wal, v, *room);
    // More came than there was room for; the next tick asks again.
    if (*n <= *room) return v;
    mem_free(NULL, v, *room * sizeof *v);
    return NULL;
}

static bool mark(struct roll *l, struct wal *wal)
{
    err ignored = {0};
    size_t n = 0;
    size_t room = 0;
    assert(!l->has_marked && !l->marked);
    struct wal_cut *v = list_cuts(wal, &n, &room);
    if (!v) return false;
    l->marked_bytes = (n + 1) * sizeof *l->marked;
    l->marked = mem_alloc(NULL, l->marked_bytes, &ignored);
    l->has_marked = l->marked != NULL;
    for (size_t i = 0; l->marked && i < n; i++) {
        // An empty open cut has nothing to flush. A found cut is marked even if it seems empty: it
        // may not have been read yet.
        bool empty = v[i].entries == 0 && !v[i].closed && !v[i].found;
        if (!empty) l->marked[l->marked_count++] = (struct roll_cut){v[i].stream, v[i].number};
    }
    mem_free(NULL, v, room * sizeof *v);
    if (!l->has_marked) l->marked_bytes = 0;
    return l->has_marked;
}

static bool is_marked(const struct roll *l, const struct wal_cut *c)
{
    for (size_t i = 0; i < l->marked_count; i++) {
        if (l->marked[i].number == c->number && id128_eq(l->marked[i].stream, c->stream))
            return true;
    }
    return false;
}

static bool any_is_there(const struct roll *l, struct wal *wal)
{
    size_t n = 0;
    size_t room = 0;
    bool any = false;
    if (l->marked_count == 0) return false;
    struct wal_cut *v = list_cuts(wal, &n, &room);
    // Without memory a cut may still be there: the number then waits.
    if (!v) return true;
    for (size_t i = 0; !any && i < n; i++)
        any = is_marked(l, &v[i]);
    mem_free(NULL, v, room * sizeof *v);
    return any;
}

bool roll_is_due(struct roll *l, struct wal *wal, int64_t boot_ns, int64_t interval_ns)
{
    if (l->number == 0 || boot_ns - l->since_ns < interval_ns) return false;
    if (wal_state(wal) != WAL_OPEN) return false;  // its cuts may have more than is known
    if (!l->has_marked && !mark(l, wal)) return false;
    return !any_is_there(l, wal);
}

bool roll_step(struct roll *l, struct wal *wal, struct store *s, struct req *r,
               const struct holding *own, int64_t interval_ns, err *e)
{
    struct holding next = *own;
    bool existed = false;
    if (!roll_is_due(l, wal, clock_boot_ns(), interval_ns)) return true;
    assert(l->has_marked && l->number > 0);
    next.number = l->number + 1;
    // If it existed, an earlier try that was reported as failed had landed.
    if (!holding_create(s, r, &next, &existed, e)) return false;
    // Before the former one is deleted: if that fails, the newer one counts, and the next list
    // passes over the rest.
    roll_noted(l, next.number, clock_boot_ns());
    return holding_delete(s, r, own->node, own->directory, next.number - 1, e);
}
