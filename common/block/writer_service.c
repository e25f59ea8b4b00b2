// SPDX-License-Identifier: Apache-2.0
//
// The state of the current service: made, emptied for the next service, freed. The memory of small
// arrays and buffers goes from one service to the next.
#include "block/writer_int.h"

// An array or buffer of a service that has no more room is left to the next service: allocating a
// dozen of them takes longer than filling those of a small service does.
#define ROOM_KEPT ((size_t)64 << 10)

static void vectors_init(struct block_writer *w, struct writer_vectors *v, const char *what)
{
    *v = (struct writer_vectors){.what = what};
    buf_init(&v->bytes, w->memory, BLOCK_SECTION_MAX);
}

static void frames_release(struct block_writer *w, struct writer_frames *f)
{
    mem_free(w->memory, f->v, f->cap * sizeof *f->v);
    *f = (struct writer_frames){0};
}

static void vectors_release(struct block_writer *w, struct writer_vectors *v)
{
    buf_release(&v->bytes);
    frames_release(w, &v->frames);
}

void writer_service_init(struct block_writer *w)
{
    struct writer_service *s = &w->s;
    *s = (struct writer_service){0};
    arena_init(&s->arena, w->memory, SIZE_MAX);
    vectors_init(w, &s->row_vectors, "vectors");
    vectors_init(w, &s->node_vectors, "vectors of nodes");
    vectors_init(w, &s->all_vectors, "vectors of all");
    buf_init(&s->kept_symbols, w->memory, SIZE_MAX);
    buf_init(&s->kept_all, w->memory, SIZE_MAX);
    buf_init(&s->kept_totals, w->memory, SIZE_MAX);
    buf_init(&s->kept_heads, w->memory, SIZE_MAX);
    s->all_vectors.keep = &s->kept_all;
    writer_share_init(&s->share, w->memory);
}

void writer_service_release(struct block_writer *w)
{
    struct writer_service *s = &w->s;
    vectors_release(w, &s->row_vectors);
    vectors_release(w, &s->node_vectors);
    vectors_release(w, &s->all_vectors);
    writer_share_release(&s->share);
    frames_release(w, &s->totals);
    frames_release(w, &s->heads);
    frames_release(w, &s->details);
    frames_release(w, &s->spans);
    buf_release(&s->kept_symbols);
    buf_release(&s->kept_all);
    buf_release(&s->kept_totals);
    buf_release(&s->kept_heads);
    mem_free(w->memory, s->types, s->type_cap * sizeof *s->types);
    mem_free(w->memory, s->keys, s->key_cap * sizeof *s->keys);
    mem_free(w->memory, s->nodes, s->node_cap * sizeof *s->nodes);
    mem_free(w->memory, s->vector_totals, s->vector_cap * sizeof *s->vector_totals);
    arena_release(&s->arena);
}

// ---- from one service to the next

// Empties an array that has little room, and frees a larger one.
static void reuse(struct block_writer *w, void *items, size_t *cap, size_t size)
{
    void *p = NULL;
    if (*cap * size <= ROOM_KEPT) return;
    memcpy(&p, items, sizeof p);  // items is a T **; copied as bytes to obey aliasing rules
    mem_free(w->memory, p, *cap * size);
    p = NULL;
    memcpy(items, &p, sizeof p);
    *cap = 0;
}

static void reuse_buf(struct buf *b)
{
    if (b->room > ROOM_KEPT) buf_release(b);
    buf_clear(b);
}

static void reuse_frames(struct block_writer *w, struct writer_frames *f)
{
    reuse(w, &f->v, &f->cap, sizeof *f->v);
    f->n = 0;
}

static void reuse_vectors(struct block_writer *w, struct writer_vectors *v)
{
    reuse_buf(&v->bytes);
    reuse_frames(w, &v->frames);
    v->count = 0;
    v->total = 0;
}

void writer_service_next(struct block_writer *w)
{
    struct writer_service *s = &w->s;
    reuse_vectors(w, &s->row_vectors);
    reuse_vectors(w, &s->node_vectors);
    reuse_vectors(w, &s->all_vectors);
    writer_share_release(&s->share);
    writer_share_init(&s->share, w->memory);
    reuse_frames(w, &s->totals);
    reuse_frames(w, &s->heads);
    reuse_frames(w, &s->details);
    reuse_frames(w, &s->spans);
    reuse_buf(&s->kept_symbols);
    reuse_buf(&s->kept_all);
    reuse_buf(&s->kept_totals);
    reuse_buf(&s->kept_heads);
    reuse(w, &s->types, &s->type_cap, sizeof *s->types);
    reuse(w, &s->keys, &s->key_cap, sizeof *s->keys);
    reuse(w, &s->nodes, &s->node_cap, sizeof *s->nodes);
    reuse(w, &s->vector_totals, &s->vector_cap, sizeof *s->vector_totals);
    arena_release(&s->arena);
    s->open = false;
    s->name = (str){0};
    s->stack_count = 0;
    s->used = NULL;
    s->ranks = NULL;
    s->type_count = s->key_count = s->node_count = 0;
    s->vector_count = 0;
    s->blooms = s->symbols = (struct block_extent){0};
}
