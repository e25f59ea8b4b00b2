// SPDX-License-Identifier: Apache-2.0
//
// A version of a manifest. Properties: what is written of it is read to the same, and written to
// the same bytes; garbage has names of blocks and pages only.
#include "codec/pb.h"
#include "manifest/manifest_int.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    err e = {0};
    str bytes = str_make(data, size);
    str tenant = S("acme");
    uint64_t version = 0;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 2 && r.type == PB_BYTES) tenant = r.bytes;
        if (r.field == 3 && r.type == PB_VARINT) version = r.number;
    }
    struct manifest *m = root_parse(NULL, tenant, version, bytes, &e);
    if (!m) return 0;
    struct buf once;
    struct buf twice;
    buf_init(&once, NULL, (size_t)1 << 30);
    buf_init(&twice, NULL, (size_t)1 << 30);
    for (size_t i = 0; i < m->garbage_count; i++) {
        struct manifest_block b;
        bool page = false;
        if (!name_garbage_parse(m->garbage[i].name, &b, &page)) abort();
    }
    // Tombstones are read when they are asked for.
    struct arena a;
    struct manifest_tombstone *v = NULL;
    size_t count = 0;
    err fault = {0};
    arena_init(&a, NULL, (size_t)1 << 30);
    if (manifest_tombstones(m, &a, &v, &count, &fault) && count != m->tombstone_count) abort();
    arena_release(&a);
    root_print(m, &once);
    struct manifest *n = root_parse(NULL, tenant, version, buf_view(&once), &e);
    if (!n || n->page_count != m->page_count || n->garbage_count != m->garbage_count) abort();
    root_print(n, &twice);
    if (!str_eq(buf_view(&once), buf_view(&twice))) abort();
    manifest_unref(m);
    manifest_unref(n);
    buf_release(&once);
    buf_release(&twice);
    return 0;
}
