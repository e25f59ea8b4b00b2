// SPDX-License-Identifier: Apache-2.0
//
// Rounds are numbered: `begun` is the last that began, `over` the last that ended. A round ends
// when each directory that it began with has flushed, and then the next one begins; so `over` is
// `begun` or one less. A wish is granted by the end of the first round that began after it was
// noted.
#include "compactor/watch.h"

#include "compactor/choose.h"

#include <stdlib.h>

#define DIRS_BYTES ((size_t)16 << 20)

void watch_init(struct watch *w, struct mem_budget *memory)
{
    *w = (struct watch){0};
    arena_init(&w->arena, memory, DIRS_BYTES);
}

void watch_release(struct watch *w)
{
    arena_release(&w->arena);
    w->dirs = NULL;
    w->count = 0;
}

static const struct holding_at *find(const struct holding_at *v, size_t n, str directory)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(v[i].directory, directory)) return &v[i];
    }
    return NULL;
}

// Has the directory flushed what it held when the round began? Its object is deleted only with an
// empty log, so one that is gone has, and one that begins anew with a lower number had gone.
static bool has_flushed(const struct holding_at *was, const struct holding_at *is)
{
    return !is || is->number < was->number || is->number - was->number >= 2;
}

static bool begin(struct watch *w, int64_t wall_ns, const struct holding_at *v, size_t n, err *e)
{
    arena_release(&w->arena);
    w->count = 0;
    w->dirs = ARENA_ARRAY(&w->arena, struct holding_at, n + 1);
    for (size_t i = 0; w->dirs && i < n; i++)
        w->dirs[i] = (struct holding_at){arena_str(&w->arena, v[i].directory), v[i].number};
    if (!arena_ok(&w->arena, e)) return false;
    w->count = n;  // only now: a list that is not whole would end the round too early
    w->begun++;
    w->begun_wall_ns = wall_ns;
    return true;
}

bool watch_saw(struct watch *w, int64_t wall_ns, const struct holding_at *v, size_t n, err *e)
{
    size_t kept = 0;
    assert(w->over == w->begun || w->over + 1 == w->begun);
    for (size_t i = 0; i < w->count; i++) {
        if (!has_flushed(&w->dirs[i], find(v, n, w->dirs[i].directory)))
            w->dirs[kept++] = w->dirs[i];
    }
    w->count = kept;
    if (kept) return true;
    w->over = w->begun;
    if (!begin(w, wall_ns, v, n, e)) return false;
    if (n == 0) w->over = w->begun;  // no directory holds anything: the round ends at once
    return true;
}

void wish_release(struct wish *s, struct mem_budget *memory)
{
    mem_free(memory, s->v, s->cap * sizeof *s->v);
    *s = (struct wish){0};
}

static int order(const void *a, const void *b)
{
    return id_cmp(*(const id128 *)a, *(const id128 *)b);
}

bool wish_grants(const struct wish *s, uint64_t over, id128 leaf)
{
    if (s->round == 0 || s->round > over) return false;
    return bsearch(&leaf, s->v, s->n, sizeof leaf, order) != NULL;
}

bool wish_note(struct wish *s, struct mem_budget *memory, const struct watch *w, bool granted,
               const id128 *v, size_t n)
{
    err ignored = {0};
    bool waits = s->round > w->over;
    if (n == 0 && !waits) return false;
    if (waits || granted) return true;
    // Leaves beyond that are wished for later. Without memory the wish stays as it is: leaves stay
    // longer, and true makes the next look come.
    n = MIN(n, WISH_MAX);
    if (!mem_grow(memory, &s->v, &s->cap, n, sizeof *s->v, &ignored)) return true;
    memcpy(s->v, v, n * sizeof *v);
    s->n = n;
    qsort(s->v, n, sizeof *v, order);
    // A LIST that is under way began before these were wanted gone: its round is too early.
    s->round = w->begun + 1 + w->listing;
    return true;
}
