// SPDX-License-Identifier: Apache-2.0
//
// wal_pack.c - batches on their way into entries.
//
// A batch is mostly names, and a service sends the same names again and again. So a batch is packed
// against an earlier one of its cut, its base: what both have costs a few bytes. Bases are of the
// open cut only, because a cut is dropped as a whole. Which batch is a base is nobody's decision
// but the packer's: an entry names the seq of its base, and whoever reads it looks that up.
#include "base/hash.h"
#include "codec/lz4.h"
#include "codec/pb.h"
#include "ingester/wal_int.h"

#define BASE_LEAST 1024  // bytes of a batch; smaller ones have nothing to offer

// ---- bases

static void let_go(struct wal *w, struct base *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) > 1) return;
    lz4_base_free(w->options.memory, b->ready);
    mem_free(w->options.memory, b, sizeof *b + b->n);
}

// Batches are alike if they are of the same tenant and service and about as large, which tells
// profiles of a processor from those of a heap. A mistake costs bytes and nothing else.
static uint64_t kind_of(str tenant, str batch)
{
    uint64_t h = hash_table_and(hash_table_str(tenant), (uint64_t)__builtin_clzll(batch.n | 1));
    struct pb_reader r = pb_reader(batch);
    if (pb_next(&r) && r.field == 1 && r.type == PB_BYTES)
        h = hash_table_and(h, hash_table_str(r.bytes));
    return h;
}

// With w->lock.
static struct base *find(const struct wal *w, uint64_t kind)
{
    for (size_t i = 0; i < w->base_count; i++) {
        if (w->bases[i]->kind == kind) return w->bases[i];
    }
    return NULL;
}

static void find_bases(struct wal *w, struct packed *p)
{
    lock_take(&w->lock);
    for (size_t i = 0; i < p->n; i++) {
        struct packed_batch *b = &p->v[i];
        if (b->whole.n >= BASE_LEAST) b->base = find(w, b->kind);
        if (b->base) atomic_fetch_add_explicit(&b->base->refs, 1, memory_order_relaxed);
    }
    lock_give(&w->lock);
}

static struct base *base_new(struct wal *w, const struct packed_batch *from)
{
    err none = {0};  // without memory there is no base
    size_t n = MIN(from->whole.n, LZ4_BASE_MAX);
    struct base *b = mem_alloc(w->options.memory, sizeof *b + n, &none);
    if (!b) return NULL;
    b->kind = from->kind;
    b->refs = 1;
    b->n = n;
    memcpy(b->bytes, from->whole.p, n);
    b->ready = lz4_base_new(w->options.memory, str_make(b->bytes, n), &none);
    if (b->ready) return b;
    let_go(w, b);
    return NULL;
}

// Has the cut room for a base of this kind? With w->lock.
static bool wants(const struct wal *w, const struct cut *cut, uint64_t kind)
{
    return w->open == cut && w->base_count < BASES_MAX && !find(w, kind);
}

static void offer(struct wal *w, const struct packed_batch *from, const struct cut *cut,
                  uint64_t seq)
{
    lock_take(&w->lock);
    bool wanted = wants(w, cut, from->kind);
    lock_give(&w->lock);
    struct base *b = wanted ? base_new(w, from) : NULL;
    if (!b) return;
    b->stream = cut->stream;
    b->cut = cut->number;
    b->seq = seq;
    lock_take(&w->lock);
    wanted = wants(w, cut, from->kind);
    if (wanted) w->bases[w->base_count++] = b;
    lock_give(&w->lock);
    if (!wanted) let_go(w, b);
}

void wal_offer(struct wal *w, const struct packed *p, const struct wal_place *place)
{
    uint64_t first = place->last_seq + 1 - p->n;
    for (size_t i = 0; i < p->n; i++) {
        const struct packed_batch *b = &p->v[i];
        if (!b->base && b->whole.n >= BASE_LEAST) offer(w, b, place->cut, first + i);
    }
}

bool wal_is_base(const struct base *b, const struct cut *c)
{
    return b->cut == c->number && id128_eq(b->stream, c->stream);
}

void wal_forget_bases(struct wal *w)
{
    struct base *gone[BASES_MAX];
    lock_take(&w->lock);
    size_t n = w->base_count;
    if (n) memcpy(gone, w->bases, n * sizeof(struct base *));
    w->base_count = 0;
    lock_give(&w->lock);
    for (size_t i = 0; i < n; i++)
        let_go(w, gone[i]);
}

// ---- packing

// Field 4 of message Batch, each a record; what is no batch (tests have such) has none.
uint64_t batch_rows(str batch)
{
    uint64_t rows = 0;
    struct pb_reader r = pb_reader(batch);
    while (pb_next(&r))
        rows += r.field == 4 && r.type == PB_BYTES;
    return rows;
}

static bool pack_one(struct packed_batch *b, struct buf *out, err *e)
{
    bool smaller = false;
    b->from = out->n;
    bool ok = b->base ? lz4_pack_against(b->base->ready, b->whole, out, &smaller, e)
                      : lz4_pack(b->whole, out, &smaller, e);
    b->size = smaller ? b->whole.n : 0;
    b->n = out->n - b->from;
    return ok;
}

// Packing costs less than it saves: the checksum, the copies and the writes of what was not made.
bool wal_pack(struct wal *w, str tenant, const str *batches, size_t n, struct packed *p, err *e)
{
    *p = (struct packed){.n = n};
    buf_init(&p->bytes, w->options.memory, SIZE_MAX);
    p->v = mem_alloc(w->options.memory, n * sizeof *p->v, e);
    if (!p->v) return false;
    for (size_t i = 0; i < n; i++) {
        p->v[i].whole = batches[i];
        p->v[i].kind = kind_of(tenant, batches[i]);
        p->v[i].rows = batch_rows(batches[i]);
    }
    find_bases(w, p);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = pack_one(&p->v[i], &p->bytes, e);
    // The buffer moves while it grows.
    for (size_t i = 0; ok && i < n; i++) {
        struct packed_batch *b = &p->v[i];
        b->bytes = b->size ? str_slice(buf_view(&p->bytes), b->from, b->from + b->n) : b->whole;
        p->weight += tenant.n + ENTRY_OVERHEAD + b->bytes.n;
    }
    if (!ok) wal_unpack(w, p);
    return ok;
}

void wal_unpack(struct wal *w, struct packed *p)
{
    for (size_t i = 0; p->v && i < p->n; i++)
        let_go(w, p->v[i].base);
    mem_free(w->options.memory, p->v, p->n * sizeof *p->v);
    buf_release(&p->bytes);
    *p = (struct packed){0};
}
