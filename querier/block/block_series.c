// SPDX-License-Identifier: Apache-2.0
#include "querier/block/block_series.h"

bool block_labels_of(struct block_walk *w, const struct block_unit *u, uint32_t key, labels *out,
                     err *e)
{
    const struct block_key_ref *k = &u->index->keys[key];
    *out = k->ls;
    if (k->class != BLOCK_ALL) return true;
    label *v = ARENA_ARRAY(&w->wave, label, 2);
    if (!v) return block_no_room(w, e);
    v[0] = (label){S(LABEL_PROFILE_TYPE), u->index->types[k->type]};
    v[1] = (label){S(LABEL_SERVICE), u->service->name};
    *out = (labels){v, 2};
    return true;
}

bool block_series_init(struct block_walk *w, const struct block_unit *u, struct block_series *s,
                       err *e)
{
    s->v = ARENA_ARRAY(&w->wave, struct cells_series *, u->index->key_count);
    return s->v || block_no_room(w, e);
}

bool block_series_of(struct block_walk *w, const struct block_unit *u, struct block_series *s,
                     uint32_t key, struct cells_series **out, err *e)
{
    *out = s->v[key];
    if (*out) return true;
    struct cells_series *made = ARENA_NEW(&w->wave, struct cells_series);
    if (!made) return block_no_room(w, e);
    s->v[key] = made;
    *out = made;
    return block_labels_of(w, u, key, &made->ls, e);
}

// ---- rows

static void span_of(const void *row, uint32_t i, struct exemplar *x, str *vector)
{
    const struct block_hit *h = row;
    const struct block_span *span = &h->spans->v[i];
    x->span_id = span->span_id;
    x->has_trace = span->has_trace;
    x->trace = span->trace;
    *vector = span->vector;
}

static label note_of(const void *row, uint32_t i)
{
    const struct block_hit *h = row;
    return h->annotations.v[i];
}

// The strings of annotations go with the row's chunk.
static const struct row_source rows_of_blocks = {.span = span_of,
                                                 .note = note_of,
                                                 .notes_last = false};

struct source_row block_source_row(const struct block_hit *h, str columns, const struct site *site,
                                   struct arena *scratch)
{
    return (struct source_row){.source = &rows_of_blocks,
                               .row = h,
                               .site = site,
                               .scratch = scratch,
                               .id = h->id,
                               .time_ns = h->time_ns,
                               .duration_ns = h->duration_ns,
                               .total = h->total,
                               .vector = columns,
                               .factor = h->factor,
                               .spans = h->spans ? h->spans->n : 0,
                               .notes = (uint32_t)h->annotations.n};
}
