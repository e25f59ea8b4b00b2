// SPDX-License-Identifier: Apache-2.0
#include "block/source.h"

#include <inttypes.h>

// Footers of packs with thousands of services are longer; those are read again.
#define TAIL ((uint64_t)64 << 10)

static bool named(str name, err *e)
{
    return err_wrap(e, "block %.*s", STR(name));
}

// A store names its objects itself. An object that ends before its listed size is damaged, not
// asked too much of.
static bool store_fault(const err *fault, err *e)
{
    *e = *fault;
    if (e->code == ERR_OUT_OF_RANGE) e->code = ERR_DATA_LOSS;
    return false;
}

static bool read_at(struct block_source *src, struct req *r, uint64_t at, size_t n, char *to,
                    err *e)
{
    err fault = {0};
    return store_read(src->store, r, src->name, at, n, to, &fault) || store_fault(&fault, e);
}

// The stored bytes of the footer; *x becomes its extent.
static bool read_footer(struct arena *a, struct block_source *src, struct req *r,
                        struct block_extent *x, str *stored, err *e)
{
    size_t n = (size_t)MIN(src->size, TAIL);
    if (n < BLOCK_TRAILER) {
        err_set(e, ERR_DATA_LOSS, "%" PRIu64 " bytes are too few for a block", src->size);
        return named(src->name, e);
    }
    char *tail = arena_new(a, n);
    if (!tail) return arena_ok(a, e);
    uint64_t from = src->size - n;
    if (!read_at(src, r, from, n, tail, e)) return false;
    str trailer = str_make(tail + n - BLOCK_TRAILER, BLOCK_TRAILER);
    if (!block_trailer(trailer, src->size, x, e)) return named(src->name, e);
    if (x->at >= from) {
        *stored = str_make(tail + (x->at - from), x->stored);
        return true;
    }
    char *all = arena_new(a, x->stored);
    if (!all) return arena_ok(a, e);
    *stored = str_make(all, x->stored);
    return read_at(src, r, x->at, x->stored, all, e);
}

bool block_source_open(struct arena *a, struct store *s, struct req *r, str name, uint64_t size,
                       struct block_source *out, err *e)
{
    struct block_extent *x = &out->footer_at;
    str stored = {0};
    str contents = {0};
    *out = (struct block_source){.store = s, .name = arena_str(a, name), .size = size};
    if (!arena_ok(a, e) || !read_footer(a, out, r, x, &stored, e)) return false;
    return (block_section(a, x, stored, "footer", &contents, e) &&
            block_footer_parse(a, contents, size, &out->footer, e)) ||
           named(name, e);
}

bool block_source_sections(struct arena *a, const struct block_source *src, struct req *r,
                           const struct block_extent *x, size_t n, str *contents, err *e)
{
    struct store_read *reads = ARENA_ARRAY(a, struct store_read, n);
    size_t count = 0;
    if (!reads) return arena_ok(a, e);
    for (size_t i = 0; i < n; i++) {
        contents[i] = (str){0};
        if (x[i].stored == 0) continue;
        char *to = arena_new(a, x[i].stored);
        if (!to) return arena_ok(a, e);
        reads[count++] =
            (struct store_read){.name = src->name, .at = x[i].at, .n = x[i].stored, .to = to};
    }
    if (count) store_read_many(src->store, r, reads, count);
    count = 0;
    for (size_t i = 0; i < n; i++) {
        if (x[i].stored == 0) continue;
        const struct store_read *got = &reads[count++];
        if (!got->ok) return store_fault(&got->fault, e);
        if (!block_section(a, &x[i], str_make(got->to, got->n), "section", &contents[i], e)) {
            return named(src->name, e);
        }
    }
    return true;
}

bool block_source_service(struct arena *a, const struct block_source *src, struct req *r,
                          const struct block_service_ref *service, struct symbol_table *symbols,
                          struct block_index *index, err *e)
{
    const struct block_extent x[] = {service->index, service->symbols};
    str contents[COUNT(x)] = {{0}};
    if (!block_source_sections(a, src, r, x, COUNT(x), contents, e)) return false;
    bool ok = block_index_parse(a, contents[0], service, index, e) &&
              block_symbols_parse(a, contents[1], symbols, e);
    if (ok && index->stack_count != symbols->stack_count) {
        ok = err_set(e, ERR_DATA_LOSS, "the index is of %u stacks, the symbols have %u",
                     index->stack_count, symbols->stack_count);
    }
    if (ok) return true;
    err_wrap(e, "service %.*s", STR(service->name));
    return named(src->name, e);
}
