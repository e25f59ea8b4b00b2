// SPDX-License-Identifier: Apache-2.0
//
// Message Batch. Properties: what decodes encodes, and that decodes and encodes to the same bytes;
// protobuf-c reads the same bytes to the same values.
#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "model/batch.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
}

static void check_round_trip(struct arena *a, const struct batch *b)
{
    struct buf one;
    struct buf two;
    struct batch back;
    err e = {0};
    buf_init(&one, NULL, SIZE_MAX);
    buf_init(&two, NULL, SIZE_MAX);
    must(batch_encode(b, a, &one, &e));
    must(batch_decode(a, buf_view(&one), &back, &e));
    must(batch_encode(&back, a, &two, &e));
    must(str_eq(buf_view(&one), buf_view(&two)));
    buf_release(&one);
    buf_release(&two);
}

static bool same(str s, ProtobufCBinaryData d)
{
    return str_eq(s, pb_blob(d));
}

static bool same_id(const uint8_t id[16], bool has, ProtobufCBinaryData d)
{
    return same(has ? str_make(id, 16) : (str){0}, d);
}

static void compare_labels(const label *v, size_t n, Flametree__V1__Label **w, size_t m)
{
    must(n == m);
    for (size_t i = 0; i < n; i++) {
        must(str_eq(v[i].name, pb_text(w[i]->name)));
        must(str_eq(v[i].value, pb_text(w[i]->value)));
    }
}

static void compare_record(const struct record *r, const Flametree__V1__Record *p)
{
    must(r->series == p->series_ref && r->time_ns == p->time_ns);
    must(same_id(r->id.b, true, p->id));
    must(r->duration_ns == p->duration_ns && r->period == p->period);
    must(same(r->vector, p->vector));
    must(r->sibling == (p->sibling_ref ? p->sibling_ref - 1 : RECORD_NO_SIBLING));
    must(r->factor == p->factor && r->total == p->total && r->attempt == p->attempt);
    must(same_id(r->first_stream.b, r->has_first_stream, p->first_stream));
    must(r->span_count == p->n_spans && r->annotation_count == p->n_annotations);
    for (uint32_t i = 0; i < r->span_count; i++) {
        must(r->spans[i].span_id == p->spans[i]->span_id);
        must(same_id(r->spans[i].trace_id, r->spans[i].has_trace, p->spans[i]->trace_id));
        must(same(r->spans[i].vector, p->spans[i]->vector));
    }
    for (uint32_t i = 0; i < r->annotation_count; i++) {
        must(str_eq(r->annotations[i].name, pb_text(p->annotations[i]->key)));
        must(str_eq(r->annotations[i].value, pb_text(p->annotations[i]->value)));
    }
}

#define SAME_COLUMN(n, values, wanted)                     \
    do {                                                   \
        must((n) == 0 || (n) + 1 == count);                \
        for (uint32_t i = 1; i < count; i++) {             \
            must((wanted) == ((n) ? (values)[i - 1] : 0)); \
        }                                                  \
    } while (0)

static void compare_symbols(const struct symbol_table *t, uint32_t first_stack,
                            const Flametree__V1__Symbols *p)
{
    must(p->n_strings + 1 == t->string_count);
    for (uint32_t i = 1; i < t->string_count; i++)
        must(same(t->strings[i], p->strings[i - 1]));
    uint32_t count = t->function_count;
    SAME_COLUMN(p->n_function_name, p->function_name, t->functions[i].name);
    SAME_COLUMN(p->n_function_system_name, p->function_system_name, t->functions[i].system_name);
    SAME_COLUMN(p->n_function_filename, p->function_filename, t->functions[i].filename);
    SAME_COLUMN(p->n_function_start_line, p->function_start_line, t->functions[i].start_line);
    count = t->mapping_count;
    SAME_COLUMN(p->n_mapping_start, p->mapping_start, t->mappings[i].start);
    SAME_COLUMN(p->n_mapping_limit, p->mapping_limit, t->mappings[i].limit);
    SAME_COLUMN(p->n_mapping_offset, p->mapping_offset, t->mappings[i].offset);
    SAME_COLUMN(p->n_mapping_filename, p->mapping_filename, t->mappings[i].filename);
    SAME_COLUMN(p->n_mapping_build_id, p->mapping_build_id, t->mappings[i].build_id);
    SAME_COLUMN(p->n_mapping_flags, p->mapping_flags, t->mappings[i].flags);
    count = t->frame_count;
    SAME_COLUMN(p->n_frame_function, p->frame_function, t->frames[i].function);
    SAME_COLUMN(p->n_frame_line, p->frame_line, t->frames[i].line);
    SAME_COLUMN(p->n_frame_mapping, p->frame_mapping, t->frames[i].mapping);
    SAME_COLUMN(p->n_frame_address, p->frame_address, t->frames[i].address);
    SAME_COLUMN(p->n_frame_inlined, p->frame_inlined, t->frames[i].inlined);
    count = t->stack_count;
    SAME_COLUMN(p->n_stack_parent_delta, p->stack_parent_delta,
                first_stack + i - 1 - t->stacks[i].parent);
    SAME_COLUMN(p->n_stack_frame, p->stack_frame, t->stacks[i].frame);
}

static void compare_lexicon(const struct batch *b, const Flametree__V1__Lexicon *p)
{
    must(same(str_make(b->lexicon.b, sizeof b->lexicon.b), p->id));
    must(b->had.strings == p->strings + 1 && b->had.functions == p->functions + 1);
    must(b->had.mappings == p->mappings + 1 && b->had.frames == p->frames + 1);
    must(b->had.stacks == p->stacks + 1);
    if (p->rows) compare_symbols(&b->symbols, b->had.stacks, p->rows);
}

// protobuf-c refuses some bytes that this reader takes (NUL in strings, fields of another wire
// type, which it does not skip); what both take must be the same.
static void compare_with_protobuf_c(struct arena *a, str bytes, const struct batch *b)
{
    err e = {0};
    ProtobufCMessage *m = pb_unpack(a, &flametree__v1__batch__descriptor, bytes, &e);
    if (!m) return;
    const Flametree__V1__Batch *p = (const Flametree__V1__Batch *)m;
    must(str_eq(b->service, pb_text(p->service)));
    must(b->series_count == p->n_series && b->record_count == p->n_records);
    for (uint32_t i = 0; i < b->series_count; i++) {
        compare_labels(b->series[i].v, b->series[i].n, p->series[i]->labels,
                       p->series[i]->n_labels);
    }
    if (p->symbols) compare_symbols(&b->symbols, 1, p->symbols);
    must(b->has_lexicon == (p->lexicon != NULL));
    if (p->lexicon) compare_lexicon(b, p->lexicon);
    for (uint32_t i = 0; i < b->record_count; i++)
        compare_record(&b->records[i], p->records[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct batch b;
    err e = {0};
    str bytes = str_make(data, size);
    arena_init(&a, NULL, (size_t)1 << 30);
    if (batch_decode(&a, bytes, &b, &e)) {
        check_round_trip(&a, &b);
        compare_with_protobuf_c(&a, bytes, &b);
    } else {
        must(e.code == ERR_INVALID_ARGUMENT);
    }
    arena_release(&a);
    return 0;
}
