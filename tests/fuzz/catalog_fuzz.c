// SPDX-License-Identifier: Apache-2.0
//
// A catalog of a copy that is accepted, whatever its bytes are, is written as a catalog that reads
// as the same entries.
#include "deploy/cli/cli_catalog.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(struct catalog *c, struct arena *a)
{
    struct catalog again;
    struct buf out;
    err e = {0};
    buf_init(&out, NULL, 64 << 20);
    catalog_init(&again, a);
    for (size_t i = 0; i < c->n; i++)
        c->v[i].wanted = true;
    bool ok = catalog_print(c, &out, &e) && catalog_parse(&again, buf_view(&out), &e);
    assert(ok && again.n == c->n);
    for (size_t i = 0; i < c->n; i++) {
        const struct catalog_entry *x = &c->v[i];
        const struct catalog_entry *y = catalog_find(&again, x->name);
        assert(y && y->size == x->size && y->crc == x->crc);
    }
    catalog_release(&again);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct catalog c;
    struct buf sealed;
    err e = {0};
    arena_init(&a, NULL, 64 << 20);
    catalog_init(&c, &a);
    if (catalog_parse(&c, str_make(data, size), &e)) check_written(&c, &a);
    catalog_release(&c);
    // The checksum at the end would let nearly no changed input in.
    buf_init(&sealed, NULL, 64 << 20);
    buf_str(&sealed, str_make(data, size));
    catalog_seal(&sealed);
    catalog_init(&c, &a);
    if (buf_ok(&sealed, &e) && catalog_parse(&c, buf_view(&sealed), &e)) check_written(&c, &a);
    catalog_release(&c);
    buf_release(&sealed);
    arena_release(&a);
    return 0;
}
