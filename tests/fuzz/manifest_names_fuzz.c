// SPDX-License-Identifier: Apache-2.0
//
// Names as a LIST may show them. Property: what is read is printed as it was, byte for byte.
#include "manifest/manifest_int.h"

#include <stdlib.h>

#define PREFIX S("v1/bb/acme/")

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(struct arena *a, str printed, str text)
{
    err e = {0};
    if (!arena_ok(a, &e)) abort();
    if (!str_eq(str_slice(printed, PREFIX.n, printed.n), text)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str text = str_make(data, size);
    struct segment_name s;
    struct manifest_block b;
    uint64_t version = 0;
    bool page = false;
    struct arena a;
    arena_init(&a, NULL, (size_t)1 << 20);
    str behind = str_slice(text, S("live/a/").n, text.n);
    if (str_starts(text, S("live/a/")) && segment_name_parse(behind, &s)) {
        if (s.hour < 0) abort();
        same(&a, name_segment(&a, S("acme"), &s), text);
    }
    if (str_starts(text, S("live/m/")) && name_root_version(behind, &version))
        same(&a, name_root(&a, S("acme"), version), text);
    if (name_garbage_parse(text, &b, &page))
        same(&a, page ? name_page(&a, S("acme"), b.id) : manifest_block_name(&a, S("acme"), &b),
             text);
    str log = str_slice(text, S("log/").n, text.n);
    if (str_starts(text, S("log/")) && name_log_number(log, &version)) {
        str printed = name_log_object(&a, (id128){{0}}, version);
        if (!arena_ok(&a, &(err){0}) || !str_ends(printed, log)) abort();
    }
    if (name_tenant_ok(text) && (text.n > NAME_TENANT_MAX || memchr(text.p, '/', text.n))) abort();
    arena_release(&a);
    return 0;
}
