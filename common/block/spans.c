// SPDX-License-Identifier: Apache-2.0
//
// spans.c - frames of spans and their bloom filters, written and read.
//
// The filters are split block Bloom filters as Parquet has them ("Parquet Bloom Filter"): a key is
// in one block of 32 bytes, and sets one bit in each of its eight words. So a look-up touches one
// line of cache.
#include "block/spans.h"

#include "base/hash.h"
#include "block/reader.h"
#include "codec/varint.h"

#include <stdlib.h>

#define BLOOM_WORDS 8
#define BLOOM_BLOCK ((size_t)BLOOM_WORDS * 4)  // bytes
#define BLOOM_BITS  12                         // for each key

// The odd numbers of Parquet's format. Others would do as well, but blocks of all times must be
// read with the same ones.
static const uint32_t salts[BLOOM_WORDS] = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                            0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};

// ---- bloom filters

static uint64_t span_hash(uint64_t span_id)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(span_id >> (8 * i));
    return hash_bytes(bytes, sizeof bytes);
}

static uint64_t trace_hash(id128 trace)
{
    return hash_bytes(trace.b, sizeof trace.b);
}

// Offset of the block of a key; blocks are fewer than 2^32.
// (The upper half of the hash is scaled to the number of blocks, without a division; the lower half
// chooses the bits.)
static size_t block_at(uint64_t blocks, uint64_t hash)
{
    assert(blocks > 0 && blocks <= UINT32_MAX);
    return (((hash >> 32) * blocks) >> 32) * BLOOM_BLOCK;
}

// The bit of word i.
static uint32_t bit_of(uint64_t hash, int i)
{
    return ((uint32_t)hash * salts[i]) >> 27;
}

static void bloom_add(uint8_t *filter, uint64_t blocks, uint64_t hash)
{
    uint8_t *block = filter + block_at(blocks, hash);
    for (int i = 0; i < BLOOM_WORDS; i++) {
        uint32_t bit = bit_of(hash, i);
        block[4 * i + bit / 8] |= (uint8_t)(1u << (bit % 8));
    }
}

static bool bloom_has(const uint8_t *filter, uint64_t blocks, uint64_t hash)
{
    const uint8_t *block = filter + block_at(blocks, hash);
    for (int i = 0; i < BLOOM_WORDS; i++) {
        uint32_t bit = bit_of(hash, i);
        if (!(block[4 * i + bit / 8] >> (bit % 8) & 1)) return false;
    }
    return true;
}

// ---- writing

enum {
    FRAME_BUFFERS = 6,
    BUFFERS = 8
};

// The columns of a frame in their order, then the buffers of the filters.
static void buffers(struct block_spans *s, struct buf *v[BUFFERS])
{
    v[0] = &s->counts;
    v[1] = &s->traced;
    v[2] = &s->ids;
    v[3] = &s->traces;
    v[4] = &s->sizes;
    v[5] = &s->vectors;
    v[6] = &s->blocks;
    v[7] = &s->filters;
}

void block_spans_init(struct block_spans *s, struct mem_budget *budget)
{
    *s = (struct block_spans){.budget = budget};
    struct buf *v[BUFFERS];
    buffers(s, v);
    for (int i = 0; i < BUFFERS; i++)
        buf_init(v[i], budget, SIZE_MAX);
}

void block_spans_release(struct block_spans *s)
{
    struct buf *v[BUFFERS];
    buffers(s, v);
    for (int i = 0; i < BUFFERS; i++)
        buf_release(v[i]);
    mem_free(s->budget, s->keys, s->key_cap * sizeof *s->keys);
    block_spans_init(s, s->budget);
}

static void put_number(struct buf *out, uint64_t v)
{
    char *p = buf_reserve(out, VARINT_MAX);
    if (p) out->n += varint_put((uint8_t *)p, v);
}

static void put_id(struct buf *out, uint64_t v)
{
    char *p = buf_reserve(out, 8);
    if (!p) return;
    for (int i = 0; i < 8; i++)
        p[i] = (char)(v >> (8 * i));
    out->n += 8;
}

bool block_spans_row(struct block_spans *s, const struct block_span *v, size_t n, err *e)
{
    assert(n == 0 || v);
    // Two keys for each span at most: its own id and its trace.
    if (!mem_grow_bare(s->budget, &s->keys, &s->key_cap, s->key_count + 2 * n, sizeof *s->keys,
                       e)) {
        return false;
    }
    put_number(&s->counts, n);
    for (size_t i = 0; i < n; i++) {
        buf_byte(&s->traced, v[i].has_trace);
        put_id(&s->ids, v[i].span_id);
        s->keys[s->key_count++] = span_hash(v[i].span_id);
        if (v[i].has_trace) {
            buf_put(&s->traces, v[i].trace.b, sizeof v[i].trace.b);
            s->keys[s->key_count++] = trace_hash(v[i].trace);
        }
        put_number(&s->sizes, v[i].vector.n);
        buf_str(&s->vectors, v[i].vector);
    }
    assert(s->key_count <= s->key_cap);
    s->spans += n;
    struct buf *bufs[BUFFERS];
    buffers(s, bufs);
    for (int i = 0; i < FRAME_BUFFERS; i++) {
        if (!buf_ok(bufs[i], e)) return err_wrap(e, "spans");
    }
    return true;
}

size_t block_spans_bytes(const struct block_spans *s)
{
    if (s->spans == 0) return 0;
    return varint_size(s->spans) + s->counts.n + s->traced.n + s->ids.n + s->traces.n + s->sizes.n +
           s->vectors.n;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Sized by its distinct keys: many spans of a frame belong to one trace.
static bool add_filter(struct block_spans *s, err *e)
{
    assert(s->key_count > 0);
    qsort(s->keys, s->key_count, sizeof *s->keys, by_number);
    size_t distinct = 0;
    for (size_t i = 0; i < s->key_count; i++) {
        if (i == 0 || s->keys[i] != s->keys[i - 1]) s->keys[distinct++] = s->keys[i];
    }
    assert(distinct > 0);  // a frame with spans has keys
    uint64_t blocks = (distinct * BLOOM_BITS + BLOOM_BLOCK * 8 - 1) / (BLOOM_BLOCK * 8);
    put_number(&s->blocks, blocks);
    uint8_t *filter = (uint8_t *)buf_reserve(&s->filters, blocks * BLOOM_BLOCK);
    if (filter) {
        memset(filter, 0, blocks * BLOOM_BLOCK);
        for (size_t i = 0; i < distinct; i++)
            bloom_add(filter, blocks, s->keys[i]);
        s->filters.n += blocks * BLOOM_BLOCK;
    }
    return buf_ok(&s->blocks, e) && buf_ok(&s->filters, e);
}

bool block_spans_frame(struct block_spans *s, struct buf *out, err *e)
{
    struct buf *v[BUFFERS];
    buffers(s, v);
    // A frame without spans has no bytes at all: most frames of most services.
    if (s->spans) {
        if (!add_filter(s, e)) return err_wrap(e, "bloom filter");
        put_number(out, s->spans);
        for (int i = 0; i < FRAME_BUFFERS; i++)
            buf_str(out, buf_view(v[i]));
    }
    for (int i = 0; i < FRAME_BUFFERS; i++)
        buf_clear(v[i]);
    s->spans = 0;
    s->key_count = 0;
    return buf_ok(out, e);
}

bool block_spans_blooms(struct block_spans *s, struct buf *out, err *e)
{
    buf_str(out, buf_view(&s->blocks));
    buf_str(out, buf_view(&s->filters));
    buf_clear(&s->blocks);
    buf_clear(&s->filters);
    return buf_ok(out, e);
}

// ---- reading

struct block_blooms {
    uint32_t frames;
    const uint32_t *first;  // by frame: its first block; one more at the end
    const uint8_t *filters;
};

static bool fault(err *e, const char *what)
{
    return err_set(e, ERR_DATA_LOSS, "%s", what);
}

bool block_blooms_parse(struct arena *a, str contents, uint32_t frames,
                        const struct block_blooms **out, err *e)
{
    const uint8_t *at = (const uint8_t *)contents.p;
    const uint8_t *end = contents.n ? at + contents.n : at;
    // Before memory is allocated: each frame has a byte at least.
    if (frames > contents.n) return fault(e, "bloom filters: fewer than frames of spans");
    struct block_blooms *b = ARENA_NEW(a, struct block_blooms);
    uint32_t *first = ARENA_ARRAY(a, uint32_t, (size_t)frames + 1);
    if (!b || !first) return arena_fail(a, e);
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < frames; i++) {
        uint64_t n = 0;
        first[i] = (uint32_t)blocks;
        if (!varint_get(&at, end, &n)) return fault(e, "bloom filters: the sizes are cut off");
        if (n == 0) return fault(e, "bloom filters: one without blocks");
        if (n > contents.n / BLOOM_BLOCK - blocks) return fault(e, "bloom filters: cut off");
        blocks += n;
    }
    if (blocks > UINT32_MAX || blocks * BLOOM_BLOCK != (uint64_t)(end - at)) {
        return fault(e, "bloom filters: not as many bytes as they say");
    }
    first[frames] = (uint32_t)blocks;
    *b = (struct block_blooms){frames, first, at};
    *out = b;
    return true;
}

static bool may_have(const struct block_blooms *b, uint32_t frame, uint64_t hash)
{
    assert(frame < b->frames);
    return bloom_has(b->filters + (size_t)b->first[frame] * BLOOM_BLOCK,
                     b->first[frame + 1] - b->first[frame], hash);
}

bool block_bloom_may_have_span(const struct block_blooms *b, uint32_t frame, uint64_t span_id)
{
    return may_have(b, frame, span_hash(span_id));
}

bool block_bloom_may_have_trace(const struct block_blooms *b, uint32_t frame, id128 trace)
{
    return may_have(b, frame, trace_hash(trace));
}

// Where the columns of a frame are.
struct frame {
    const uint8_t *at;
    const uint8_t *end;
    uint64_t spans;
};

static uint64_t left(const struct frame *f)
{
    return (uint64_t)(f->end - f->at);
}

// Gives each row its part of `all`.
static bool get_counts(struct frame *f, struct block_span *all, struct block_row_spans *rows,
                       uint64_t count, err *e)
{
    uint64_t given = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n = 0;
        if (!varint_get(&f->at, f->end, &n)) return fault(e, "spans: numbers of rows are cut off");
        if (n > f->spans - given) return fault(e, "spans: rows have more than there are");
        rows[i] = (struct block_row_spans){all + given, (uint32_t)n};
        given += n;
    }
    return given == f->spans || fault(e, "spans: rows have fewer than there are");
}

static bool get_ids(struct frame *f, struct block_span *all, err *e)
{
    if (left(f) / 9 < f->spans) return fault(e, "spans: ids are cut off");
    uint64_t traces = 0;
    for (uint64_t i = 0; i < f->spans; i++) {
        uint8_t traced = *f->at++;
        if (traced > 1) return fault(e, "spans: neither with nor without trace");
        all[i].has_trace = traced;
        traces += traced;
    }
    for (uint64_t i = 0; i < f->spans; i++, f->at += 8) {
        for (int b = 0; b < 8; b++)
            all[i].span_id |= (uint64_t)f->at[b] << (8 * b);
    }
    if (left(f) / sizeof(id128) < traces) return fault(e, "spans: traces are cut off");
    for (uint64_t i = 0; i < f->spans; i++) {
        if (!all[i].has_trace) continue;
        memcpy(all[i].trace.b, f->at, sizeof(id128));
        f->at += sizeof(id128);
    }
    return true;
}

static bool get_vectors(struct frame *f, struct block_span *all, err *e)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < f->spans; i++) {
        uint64_t n = 0;
        if (!varint_get(&f->at, f->end, &n)) return fault(e, "spans: sizes are cut off");
        if (n > left(f) || sum > left(f) - n) return fault(e, "spans: vectors are cut off");
        all[i].vector.n = n;
        sum += n;
    }
    if (sum != left(f)) return fault(e, "spans: not as many bytes as their vectors");
    for (uint64_t i = 0; i < f->spans; i++) {
        all[i].vector.p = (const char *)f->at;
        f->at += all[i].vector.n;
    }
    return true;
}

bool block_spans_parse(struct arena *a, str contents, uint64_t count, struct block_row_spans **rows,
                       err *e)
{
    const uint8_t *at = (const uint8_t *)contents.p;
    struct frame f = {.at = at, .end = contents.n ? at + contents.n : at};
    if (!varint_get(&f.at, f.end, &f.spans)) return fault(e, "spans: their number is cut off");
    // A row needs a byte, a span ten.
    if (count > left(&f) || f.spans > left(&f) / 10 || f.spans > UINT32_MAX) {
        return fault(e, "spans: more than there are bytes for");
    }
    struct block_span *all = ARENA_ARRAY(a, struct block_span, f.spans);
    struct block_row_spans *v = ARENA_ARRAY(a, struct block_row_spans, count);
    if (!all || !v) return arena_fail(a, e);
    if (!get_counts(&f, all, v, count, e) || !get_ids(&f, all, e) || !get_vectors(&f, all, e)) {
        return false;
    }
    *rows = v;
    return true;
}
