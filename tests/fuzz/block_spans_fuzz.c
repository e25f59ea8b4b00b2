// SPDX-License-Identifier: Apache-2.0
//
// Input: byte 0 chooses spans (0) or bloom filters; byte 1 is the number of rows or frames. Spans
// that parse can be encoded; the result parses to equal spans and encodes to equal bytes; their
// filter contains each span. Every filter that parses can be asked.
#include "block/reader.h"
#include "block/spans.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
}

static void write_frame(const struct block_row_spans *rows, uint32_t n, struct buf *frame,
                        struct buf *filter)
{
    struct block_spans s;
    err e = {0};
    block_spans_init(&s, NULL);
    for (uint32_t i = 0; i < n; i++)
        must(block_spans_row(&s, rows[i].v, rows[i].n, &e));
    size_t bytes = block_spans_bytes(&s);
    must(block_spans_frame(&s, frame, &e) && frame->n == bytes);
    must(block_spans_blooms(&s, filter, &e));
    block_spans_release(&s);
}

static void same_row(const struct block_row_spans *x, const struct block_row_spans *y)
{
    must(x->n == y->n);
    for (uint32_t i = 0; i < x->n; i++) {
        must(x->v[i].span_id == y->v[i].span_id && x->v[i].has_trace == y->v[i].has_trace);
        must(id128_eq(x->v[i].trace, y->v[i].trace));
        must(str_eq(x->v[i].vector, y->v[i].vector));
    }
}

static void check_same(struct arena *a, const struct block_row_spans *rows, uint32_t n, str frame,
                       str filter)
{
    struct block_row_spans *back = NULL;
    const struct block_blooms *b = NULL;
    struct buf out[2];
    err e = {0};
    must(block_spans_parse(a, frame, n, &back, &e));
    must(block_blooms_parse(a, filter, 1, &b, &e));
    for (uint32_t i = 0; i < n; i++) {
        same_row(&rows[i], &back[i]);
        for (uint32_t j = 0; j < rows[i].n; j++) {
            const struct block_span *v = &rows[i].v[j];
            must(block_bloom_may_have_span(b, 0, v->span_id));
            must(!v->has_trace || block_bloom_may_have_trace(b, 0, v->trace));
        }
    }
    for (size_t i = 0; i < COUNT(out); i++)
        buf_init(&out[i], NULL, SIZE_MAX);
    write_frame(back, n, &out[0], &out[1]);
    must(str_eq(frame, buf_view(&out[0])) && str_eq(filter, buf_view(&out[1])));
    for (size_t i = 0; i < COUNT(out); i++)
        buf_release(&out[i]);
}

static void check_spans(struct arena *a, str bytes, uint32_t n)
{
    struct block_row_spans *rows = NULL;
    struct buf frame;
    struct buf filter;
    err e = {0};
    if (!block_spans_parse(a, bytes, n, &rows, &e)) {
        must(e.code == ERR_DATA_LOSS);
        return;
    }
    buf_init(&frame, NULL, SIZE_MAX);
    buf_init(&filter, NULL, SIZE_MAX);
    write_frame(rows, n, &frame, &filter);
    if (frame.n) check_same(a, rows, n, buf_view(&frame), buf_view(&filter));
    for (uint32_t i = 0; i < n; i++)
        must(frame.n || rows[i].n == 0);
    buf_release(&frame);
    buf_release(&filter);
}

static void check_filters(struct arena *a, str bytes, uint32_t n)
{
    const struct block_blooms *b = NULL;
    err e = {0};
    if (!block_blooms_parse(a, bytes, n, &b, &e)) {
        must(e.code == ERR_DATA_LOSS);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint64_t v = 0; v < 50; v++)
            (void)block_bloom_may_have_span(b, i, v << 50 | v);
        (void)block_bloom_may_have_trace(b, i, (id128){{0}});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    struct arena a;
    str bytes = str_make(data + 2, size - 2);
    arena_init(&a, NULL, 256 << 20);
    if (data[0])
        check_filters(&a, bytes, data[1]);
    else
        check_spans(&a, bytes, data[1]);
    arena_release(&a);
    return 0;
}
