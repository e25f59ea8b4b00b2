// SPDX-License-Identifier: Apache-2.0
//
// read_all.c - goes through the sections in the order of the footer and the index.
#include "unit/block/read_all.h"

static bool section(struct arena *a, str bytes, const struct block_extent *x, str *contents, err *e)
{
    if (x->at + x->stored > bytes.n) return err_set(e, ERR_DATA_LOSS, "short read");
    return block_section(a, x, str_slice(bytes, x->at, x->at + x->stored), "section", contents, e);
}

static bool read_vectors(struct arena *a, str bytes, const struct block_frames *f, uint32_t stacks,
                         err *e)
{
    for (uint32_t i = 0; i < f->n; i++) {
        str contents = {0};
        struct block_vectors v = {0};
        int64_t total = 0;
        if (!section(a, bytes, &f->v[i].extent, &contents, e) ||
            !block_vectors_parse(a, contents, f->v[i].count, &v, e)) {
            return false;
        }
        for (uint32_t k = 0; k < v.n; k++) {
            if (!columns_check(block_vector_at(&v, k), stacks, &total, e)) return false;
        }
    }
    return true;
}

static bool read_run(struct arena *a, str bytes, const struct block_index *x, uint32_t i, err *e)
{
    str contents = {0};
    struct block_heads heads = {0};
    struct block_details details = {0};
    if (!section(a, bytes, &x->heads.v[i].extent, &contents, e) ||
        !block_heads_parse(a, contents, x->heads.v[i].count, &heads, e) ||
        !section(a, bytes, &x->details.v[i].extent, &contents, e)) {
        return false;
    }
    return block_details_parse(a, contents, &heads, &details, e);
}

static bool read_spans(struct arena *a, str bytes, const struct block_index *x, err *e)
{
    str contents = {0};
    const struct block_blooms *blooms = NULL;
    if (x->spans.n == 0) return true;
    if (!section(a, bytes, &x->blooms, &contents, e) ||
        !block_blooms_parse(a, contents, x->spans.n, &blooms, e)) {
        return false;
    }
    for (uint32_t i = 0; i < x->spans.n; i++) {
        struct block_row_spans *rows = NULL;
        if (!section(a, bytes, &x->spans.v[i].extent, &contents, e) ||
            !block_spans_parse(a, contents, x->spans.v[i].count, &rows, e)) {
            return false;
        }
    }
    return true;
}

static bool read_service(struct arena *a, str bytes, const struct block_service_ref *s, err *e)
{
    str contents = {0};
    struct symbol_table t = {0};
    struct block_index x = {0};
    if (!section(a, bytes, &s->symbols, &contents, e) || !block_symbols_parse(a, contents, &t, e) ||
        !section(a, bytes, &s->index, &contents, e) || !block_index_parse(a, contents, s, &x, e)) {
        return false;
    }
    for (uint32_t i = 0; i < x.heads.n; i++) {
        if (!read_run(a, bytes, &x, i, e)) return false;
    }
    for (uint32_t i = 0; i < x.totals.n; i++) {
        struct block_total *totals = NULL;
        if (!section(a, bytes, &x.totals.v[i].extent, &contents, e) ||
            !block_totals_parse(a, contents, x.totals.v[i].count, &totals, e)) {
            return false;
        }
    }
    return read_vectors(a, bytes, &x.vectors, t.stack_count, e) &&
           read_vectors(a, bytes, &x.nodes_at, t.stack_count, e) && read_spans(a, bytes, &x, e);
}

bool read_block(struct arena *a, str bytes, err *e)
{
    struct block_extent x = {0};
    struct block_footer f = {0};
    str contents = {0};
    if (!block_trailer(bytes, bytes.n, &x, e) || !section(a, bytes, &x, &contents, e) ||
        !block_footer_parse(a, contents, bytes.n, &f, e)) {
        return false;
    }
    for (uint32_t i = 0; i < f.service_count; i++) {
        if (!read_service(a, bytes, &f.services[i], e)) return false;
    }
    return true;
}
