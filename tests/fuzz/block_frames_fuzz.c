// SPDX-License-Identifier: Apache-2.0
//
// The contents of a section, without CRC32C: the first byte says which (vectors, totals, heads,
// details, symbols), the next two how many items it has. Properties: only data_loss (or what the
// arena holds); symbols that parse are written and parse to the same stacks; all others are as many
// as were asked for, and details have a vector and a factor.
#include "block/order.h"
#include "block/reader.h"
#include "block/writer_int.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
}

static bool vectors(struct arena *a, str bytes, uint64_t n, err *e)
{
    struct block_vectors v = {0};
    if (!block_vectors_parse(a, bytes, n, &v, e)) return false;
    must(v.n == n);
    size_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t total = 0;
        err fault = {0};
        str one = block_vector_at(&v, i);
        sum += one.n;
        (void)!columns_check(one, UINT32_MAX, &total, &fault);
    }
    must(sum == v.bytes.n);
    return true;
}

static bool totals(struct arena *a, str bytes, uint64_t n, err *e)
{
    struct block_total *v = NULL;
    if (!block_totals_parse(a, bytes, n, &v, e)) return false;
    for (uint64_t i = 0; i < n; i++)
        must(v[i].profiles <= INT64_MAX);
    return true;
}

static bool heads(struct arena *a, str bytes, uint64_t n, err *e)
{
    struct block_heads h = {0};
    if (!block_heads_parse(a, bytes, n, &h, e)) return false;
    must(h.n == n);
    return true;
}

static bool details(struct arena *a, str bytes, uint64_t n, err *e)
{
    struct block_heads h = {.times = ARENA_ARRAY(a, int64_t, n), .n = n};
    struct block_details d = {0};
    if (!block_details_parse(a, bytes, &h, &d, e)) return false;
    must(d.n == n);
    size_t pairs = 0;
    for (uint64_t i = 0; i < n; i++) {
        must(d.vectors[i] <= INT64_MAX && (!d.factors || d.factors[i] != 0));
        if (d.annotations) pairs += d.annotations[i].n;
    }
    must(pairs <= n * bytes.n);
    return true;
}

static void same_stacks(const struct symbol_table *t, const struct symbol_table *u)
{
    must(t->stack_count == u->stack_count && t->frame_count == u->frame_count);
    for (uint32_t i = 1; i < t->stack_count; i++) {
        const struct symbol_frame *f = &t->frames[t->stacks[i].frame];
        const struct symbol_frame *g = &u->frames[u->stacks[i].frame];
        const struct symbol_function *p = &t->functions[f->function];
        const struct symbol_function *q = &u->functions[g->function];
        must(t->stacks[i].parent == u->stacks[i].parent);
        must(f->line == g->line && f->address == g->address && f->inlined == g->inlined);
        must(p->start_line == q->start_line);
        must(str_eq(t->strings[p->name], u->strings[q->name]));
        must(str_eq(t->strings[p->filename], u->strings[q->filename]));
        must(str_eq(t->strings[p->system_name], u->strings[q->system_name]));
        must(t->mappings[f->mapping].limit == u->mappings[g->mapping].limit);
    }
}

static bool symbols(struct arena *a, str bytes, err *e)
{
    struct symbol_table t = {0};
    struct symbol_table back = {0};
    struct writer_contents c = {0};
    struct buf out;
    if (!block_symbols_parse(a, bytes, &t, e)) return false;
    must(block_is_ordered(&t));
    buf_init(&out, NULL, SIZE_MAX);
    if (writer_symbols(&t, true, a, &out, &c, e) && block_symbols_parse(a, c.bytes, &back, e)) {
        same_stacks(&t, &back);
    } else {
        must(e->code == ERR_RESOURCE_EXHAUSTED);
    }
    buf_release(&out);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) return 0;
    struct arena a;
    str bytes = str_make(data + 3, size - 3);
    uint64_t n = data[1] | (uint64_t)data[2] << 8;
    err e = {0};
    bool ok = false;
    arena_init(&a, NULL, (size_t)256 << 20);
    switch (data[0] % 5) {
    case 0:
        ok = vectors(&a, bytes, n, &e);
        break;
    case 1:
        ok = totals(&a, bytes, n, &e);
        break;
    case 2:
        ok = heads(&a, bytes, n, &e);
        break;
    case 3:
        ok = details(&a, bytes, n, &e);
        break;
    default:
        ok = symbols(&a, bytes, &e);
    }
    must(ok || e.code == ERR_DATA_LOSS || e.code == ERR_RESOURCE_EXHAUSTED);
    arena_release(&a);
    return 0;
}
