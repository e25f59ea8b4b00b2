// SPDX-License-Identifier: Apache-2.0
//
// Rounds are numbered: `begun` is the last that began, `over` the last that ended. A round ends
// when each stream that it began with is gone, and then the next one begins; so `over` is
// `begun` or one less. A wish is granted by the end of the first round that began after it was
// noted.
#include "compactor/watch.h"

#include "compactor/choose.h"

#include <stdlib.h>

#define STREAMS_BYTES ((size_t)16 << 20)

void watch_init(struct watch *w, struct mem_budget *memory)
{
    *w = (struct watch){0};
    arena_init(&w->arena, memory, STREAMS_BYTES);
}

void watch_release(struct watch *w)
{
    arena_release(&w->arena);
    w->streams = NULL;
    w->count = 0;
}

static int order(const void *a, const void *b)
{
    return id_cmp(*(const id128 *)a, *(const id128 *)b);
}

static bool begin(struct watch *w, int64_t wall_ns, const id128 *v, size_t n, err *e)
{
    arena_release(&w->arena);
    w->count = 0;
    w->streams = ARENA_ARRAY(&w->arena, id128, n + 1);
    if (!w->streams) return arena_fail(&w->arena, e);
    if (n) memcpy(w->streams, v, n * sizeof *v);
    w->count = n;  // only now: a list that is not whole would end the round too early
    w->begun++;
    w->begun_wall_ns = wall_ns;
    return true;
}

bool watch_saw(struct watch *w, int64_t wall_ns, const id128 *v, size_t n, err *e)
{
    size_t kept = 0;
    assert(w->over == w->begun || w->over + 1 == w->begun);
    for (size_t i = 0; i < w->count; i++) {
        if (n && bsearch(&w->streams[i], v, n, sizeof *v, order))
            w->streams[kept++] = w->streams[i];
    }
    w->count = kept;
    if (kept) return true;
    w->over = w->begun;
    if (!begin(w, wall_ns, v, n, e)) return false;
    if (n == 0) w->over = w->begun;  // nothing is held anywhere: the round ends at once
    return true;
}

void wish_release(struct wish *s, struct mem_budget *memory)
{
    mem_free(memory, s->v, s->cap * sizeof *s->v);
    *s = (struct wish){0};
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
