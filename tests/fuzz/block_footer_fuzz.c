// SPDX-License-Identifier: Apache-2.0
//
// The contents of a footer, without CRC32C. Properties: only data_loss (or what the arena holds);
// what parses is in order and within the object, and each service is found by its name. The same
// bytes as a trailer never crash.
#include "block/reader.h"

#include <stdlib.h>

#define OBJECT ((uint64_t)1 << 40)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
}

static void check_extent(const struct block_extent *x)
{
    must(x->at <= OBJECT && x->stored <= OBJECT - x->at);
    must(x->packed || x->raw == x->stored);
}

static void check_service(const struct block_footer *f, uint32_t i)
{
    const struct block_service_ref *s = &f->services[i];
    must(block_find_service(f, s->name) == s);
    must(i == 0 || str_cmp(f->services[i - 1].name, s->name) < 0);
    for (uint32_t k = 0; k < s->dataset_count; k++) {
        must(s->datasets[k].first_ns <= s->datasets[k].last_ns);
        must(k == 0 || str_cmp(s->datasets[k - 1].type, s->datasets[k].type) < 0);
    }
    check_extent(&s->totals);
    check_extent(&s->index);
    check_extent(&s->symbols);
    check_extent(&s->all);
    must(s->totals.at + s->totals.stored <= s->index.at);
    must(s->index.at + s->index.stored == s->symbols.at);
    must(s->symbols.at + s->symbols.stored == s->all.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct block_footer f = {0};
    struct block_extent x = {0};
    err e = {0};
    str bytes = str_make(data, size);
    arena_init(&a, NULL, (size_t)256 << 20);
    if (block_footer_parse(&a, bytes, OBJECT, &f, &e)) {
        must(f.about.kind >= BLOCK_SEGMENT && f.about.kind <= BLOCK_DAYS && f.about.hours > 0);
        for (size_t i = 0; i < f.about.source_count; i++)
            must(f.about.sources[i].n <= size);
        for (uint32_t i = 0; i < f.service_count; i++)
            check_service(&f, i);
    } else {
        must(e.code == ERR_DATA_LOSS || e.code == ERR_RESOURCE_EXHAUSTED);
    }
    must(!block_trailer(bytes, size, &x, &e) || x.at + x.stored + BLOCK_TRAILER == size);
    arena_release(&a);
    return 0;
}
