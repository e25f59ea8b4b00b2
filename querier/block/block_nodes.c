// SPDX-License-Identifier: Apache-2.0
//
// Vectors of the nodes that a want chose in a wave, frame by frame. Frames of class ALL are small
// in number and wanted by most flame graphs, so they stay in the cache, parsed; frames of other
// classes are read, used and forgotten.
#include "querier/block/block_int.h"
#include "querier/metrics.h"

#include <stdlib.h>

// Frames are read so much at a time.
#define CHUNK_BYTES ((uint64_t)8 << 20)
#define CHUNK_GETS  256u

struct reading {
    struct block_walk *w;
    block_use_fn *fn;
    void *arg;
    struct block_want *wants;  // CHUNK_GETS
};

bool block_add_node(struct block_walk *w, struct block_nodes *s, struct block_node_use use, err *e)
{
    assert(use.unit && use.unit->index && use.node->frame < use.unit->index->nodes_at.n);
    if (!arena_grow(&w->wave, &s->v, &s->cap, s->n + 1, sizeof *s->v)) return block_no_room(w, e);
    s->v[s->n++] = use;
    return true;
}

static int by_frame(const void *a, const void *b)
{
    const struct block_node_use *x = a;
    const struct block_node_use *y = b;
    if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
    if (x->node->frame != y->node->frame) return x->node->frame < y->node->frame ? -1 : 1;
    return x->node->place < y->node->place ? -1 : x->node->place > y->node->place;
}

static bool same_frame(const struct block_node_use *a, const struct block_node_use *b)
{
    return a->unit == b->unit && a->node->frame == b->node->frame;
}

static const struct block_frame *frame_of(const struct block_node_use *u)
{
    return &u->unit->index->nodes_at.v[u->node->frame];
}

static bool use(struct reading *r, const struct block_node_use *u, const struct block_vectors *v,
                err *e)
{
    r->w->out->nodes++;
    return !r->fn || r->fn(r->arg, u, block_vector_at(v, u->node->place), e);
}

// Nodes of class ALL, by frames from the cache.
static bool use_kept(struct reading *r, const struct block_node_use *v, size_t n, err *e)
{
    struct block_want *wants = r->wants;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && same_frame(&v[i - 1], &v[i])) continue;
        assert(count < CHUNK_GETS);
        wants[count++] = (struct block_want){.object = v[i].unit->object->object,
                                             .part = BLOCK_PART_VECTORS,
                                             .service = v[i].unit->service,
                                             .extent = &frame_of(&v[i])->extent,
                                             .count = frame_of(&v[i])->count};
    }
    bool ok = blocks_load(r->w, wants, count, e);
    size_t at = 0;
    for (size_t i = 0; ok && i < n; i++) {
        struct block_object *o = v[i].unit->object;
        err why = {0};
        if (i && !same_frame(&v[i - 1], &v[i])) at++;
        assert(at < count);
        if (o->faulty) continue;  // its other frames are of no use either: the plan is made anew
        if (wants[at].why) {
            ok = block_note(r->w, o, wants[at].why, e);
        } else if (!use(r, &v[i], &wants[at].kept->vectors, &why)) {
            ok = block_note(r->w, o, &why, e);
        }
        ok = ok && req_alive(r->w->req, e);
    }
    // After a failure too; blocks_unref takes those that were not loaded (NULL).
    for (size_t i = 0; i < count; i++)
        blocks_unref(r->w->blocks, wants[i].kept);
    return ok;
}

static bool use_frame(struct reading *r, const struct block_node_use *v, size_t n,
                      const struct block_get *got, err *e)
{
    const struct block_frame *f = frame_of(v);
    struct block_vectors vectors;
    struct arena a;
    str bytes;
    err why = {0};
    if (v->unit->object->faulty) return true;
    arena_init(&a, &r->w->m->memory, SIZE_MAX);
    bool ok = block_contents(r->w, &a, &f->extent, got, "vectors of nodes", &bytes, &why) &&
              block_vectors_parse(&a, bytes, f->count, &vectors, &why);
    for (size_t i = 0; ok && i < n; i++)
        ok = use(r, &v[i], &vectors, &why);
    arena_release(&a);
    return ok || block_note(r->w, v->unit->object, &why, e);
}

// Nodes of other classes: their frames are read and forgotten.
static bool use_read(struct reading *r, const struct block_node_use *v, size_t n, err *e)
{
    struct block_get gets[CHUNK_GETS];
    struct block_io io = {0};
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct block_extent *x = &frame_of(&v[i])->extent;
        if (i && same_frame(&v[i - 1], &v[i])) continue;
        assert(count < CHUNK_GETS);
        gets[count++] =
            (struct block_get){.object = v[i].unit->object->object, .at = x->at, .n = x->stored};
    }
    bool ok = block_fetch(r->w, &io, gets, count, e);
    count = 0;
    for (size_t i = 0; ok && i < n;) {
        size_t to = i + 1;
        while (to < n && same_frame(&v[i], &v[to]))
            to++;
        ok = req_alive(r->w->req, e) && use_frame(r, v + i, to - i, &gets[count++], e);
        i = to;
    }
    block_io_release(r->w, &io);
    return ok;
}

uint64_t block_weigh_nodes(struct block_nodes *s)
{
    uint64_t bytes = 0;
    if (s->n) qsort(s->v, s->n, sizeof *s->v, by_frame);
    for (size_t i = 0; i < s->n; i++) {
        const struct block_frame *f = frame_of(&s->v[i]);
        if (i == 0 || !same_frame(&s->v[i - 1], &s->v[i])) bytes += f->extent.stored;
        bytes += f->extent.raw / MAX(f->count, 1);  // an estimate: vectors of a frame differ
    }
    return bytes;
}

bool block_read_nodes(struct block_walk *w, struct block_nodes *s, block_use_fn *fn, void *arg,
                      err *e)
{
    struct reading r = {.w = w, .fn = fn, .arg = arg};
    if (s->n == 0) return true;
    qsort(s->v, s->n, sizeof *s->v, by_frame);
    r.wants = ARENA_ARRAY(&w->wave, struct block_want, CHUNK_GETS);
    if (!r.wants) return block_no_room(w, e);
    size_t from = 0;
    size_t count = 0;
    uint64_t bytes = 0;
    // Nodes are in order of frames. A chunk ends where the next frame would be too much, and at the
    // end of the list.
    for (size_t i = 0; i <= s->n; i++) {
        bool end = i == s->n;
        if (!end && i > from && same_frame(&s->v[i - 1], &s->v[i])) continue;
        uint64_t more = end ? 0 : frame_of(&s->v[i])->extent.raw;
        if (i > from && (end || count == CHUNK_GETS || bytes + more > CHUNK_BYTES)) {
            bool ok = w->ask.only_all ? use_kept(&r, s->v + from, i - from, e)
                                      : use_read(&r, s->v + from, i - from, e);
            if (!ok) return false;
            from = i;
            count = 0;
            bytes = 0;
        }
        count++;
        bytes += more;
    }
    if (fn) metric_add(&querier_block_nodes, s->n);
    return true;
}
