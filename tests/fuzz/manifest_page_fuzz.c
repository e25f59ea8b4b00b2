// SPDX-License-Identifier: Apache-2.0
//
// A page of a manifest. Properties: what is read is within its ranges; what is written of it is
// read to the same, and written to the same bytes.
#include "codec/pb.h"
#include "manifest/manifest_int.h"

#include <stdlib.h>

#define TENANT S("acme")

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What a root would say of it.
static struct page_ref ref_of(str bytes)
{
    struct page_ref ref = {.bytes = bytes.n};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 2 && r.type == PB_VARINT) ref.kind = (enum block_kind)(uint32_t)r.number;
        if (r.field == 3 && r.type == PB_VARINT) ref.window = (int64_t)r.number;
    }
    return ref;
}

static void print(const struct page *p, const struct page_ref *ref, struct buf *out)
{
    struct arena a;
    arena_init(&a, NULL, (size_t)1 << 30);
    struct page_draft d = {.kind = ref->kind, .window = ref->window};
    d.blocks = ARENA_ARRAY(&a, const struct manifest_block *, p->block_count);
    d.past = page_past(&a, p, &d.past_count);
    if (!d.blocks || !d.past) abort();
    for (size_t i = 0; i < p->block_count; i++)
        d.blocks[d.block_count++] = &p->blocks[i];
    page_print(&d, out);
    arena_release(&a);
}

static void check(const struct page *p, const struct page_ref *ref)
{
    err e = {0};
    for (size_t i = 0; i < p->block_count; i++) {
        const struct manifest_block *b = &p->blocks[i];
        struct manifest_block named;
        if (!manifest_block_check(b, &e) || b->kind != ref->kind) abort();
        if (!manifest_block_name_parse(str_slice(b->name, S("v1/bb/acme/").n, b->name.n), &named))
            abort();
        if (named.kind != b->kind || named.from_hour != b->from_hour || named.hours != b->hours ||
            named.pack_lo != b->pack_lo || !id128_eq(named.id, b->id))
            abort();
        for (size_t k = 0; k < b->source_count; k++)
            if (!page_absorbed(p, &b->sources[k], NULL)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    err e = {0};
    str bytes = str_make(data, size);
    struct page_ref ref = ref_of(bytes);
    struct page *p = page_parse(NULL, TENANT, &ref, bytes, &e);
    if (!p) return 0;
    struct buf once;
    struct buf twice;
    buf_init(&once, NULL, (size_t)1 << 30);
    buf_init(&twice, NULL, (size_t)1 << 30);
    check(p, &ref);
    print(p, &ref, &once);
    struct page *q = page_parse(NULL, TENANT, &ref, buf_view(&once), &e);
    if (!q || q->block_count != p->block_count || q->past_count != p->past_count ||
        q->expired_count != p->expired_count)
        abort();
    print(q, &ref, &twice);
    if (!str_eq(buf_view(&once), buf_view(&twice))) abort();
    page_unref(p);
    page_unref(q);
    buf_release(&once);
    buf_release(&twice);
    return 0;
}
