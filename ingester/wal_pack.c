// SPDX-License-Identifier: Apache-2.0
#include "codec/lz4.h"
#include "ingester/wal_int.h"

// A batch of names is three times as large as its block, so packing costs less than it saves: the
// checksum, the copies and the writes of what was not made.
bool wal_pack(struct wal *w, str tenant, const str *batches, size_t n, struct packed *p, err *e)
{
    *p = (struct packed){.n = n};
    buf_init(&p->bytes, w->options.memory, SIZE_MAX);
    p->v = mem_alloc(w->options.memory, n * sizeof *p->v, e);
    if (!p->v) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        struct packed_batch *b = &p->v[i];
        bool smaller = false;
        b->from = p->bytes.n;
        ok = lz4_pack(batches[i], &p->bytes, &smaller, e);
        b->size = smaller ? batches[i].n : 0;
        b->n = p->bytes.n - b->from;
        p->weight += tenant.n + ENTRY_OVERHEAD + (smaller ? b->n : batches[i].n);
    }
    // The buffer moves while it grows.
    for (size_t i = 0; ok && i < n; i++) {
        struct packed_batch *b = &p->v[i];
        b->bytes = b->size ? str_slice(buf_view(&p->bytes), b->from, b->from + b->n) : batches[i];
    }
    if (!ok) wal_unpack(w, p);
    return ok;
}

void wal_unpack(struct wal *w, struct packed *p)
{
    mem_free(w->options.memory, p->v, p->n * sizeof *p->v);
    buf_release(&p->bytes);
    *p = (struct packed){0};
}
