// SPDX-License-Identifier: Apache-2.0
//
// model_read.c - reads a block, service by service, and compares it with its model.
#include "unit/block/model_read.h"

str model_section(str bytes, const struct block_extent *x)
{
    str contents = {0};
    assert_true(x->at + x->stored <= bytes.n);
    assert_ok(block_section(&arena, x, str_slice(bytes, x->at, x->at + x->stored), "section",
                            &contents, e));
    return str_make(tail_guard(contents.p, contents.n), contents.n);
}

void model_open(str bytes, struct model_block *b)
{
    struct block_extent x = {0};
    b->bytes = bytes;
    assert_ok(block_trailer(bytes, bytes.n, &x, e));
    assert_ok(block_footer_parse(&arena, model_section(bytes, &x), bytes.n, &b->footer, e));
}

// The frame that was asked for last stays inflated.
static str model_vector_at(const struct model_block *b, const struct block_frame *f, uint64_t place)
{
    static struct arena scratch;
    static struct block_frame last;
    static const char *of;
    static struct block_vectors v;
    if (of != b->bytes.p || last.extent.at != f->extent.at || last.extent.crc != f->extent.crc) {
        str contents = {0};
        str stored = str_slice(b->bytes, f->extent.at, f->extent.at + f->extent.stored);
        arena_release(&scratch);
        arena_init(&scratch, NULL, SIZE_MAX);
        assert_ok(block_section(&scratch, &f->extent, stored, "vectors", &contents, e));
        assert_ok(block_vectors_parse(&scratch, contents, f->count, &v, e));
        last = *f;
        of = b->bytes.p;
    }
    assert_true(place < v.n);
    return block_vector_at(&v, (uint32_t)place);
}

bool model_has_vector(const struct model_block *b, const struct block_frame *f, uint64_t place,
                      str wanted)
{
    return str_eq(model_vector_at(b, f, place), wanted);
}

bool model_node_has(const struct model_block *b, const struct block_index *x,
                    const struct block_node_ref *n, str wanted)
{
    const uint8_t *at = (const uint8_t *)wanted.p;
    const uint8_t *end = at + wanted.n;
    uint64_t count = 0;
    uint64_t divisor = 0;
    assert_true(varint_get(&at, end, &count) && varint_get(&at, end, &divisor));
    uint8_t head[2 * VARINT_MAX];
    size_t used = varint_put(head, count);
    used += varint_put(head + used, 1);
    str got = model_vector_at(b, &x->nodes_at.v[n->frame], n->place);
    return n->factor == (count ? (int64_t)divisor : 1) && got.n == used + (size_t)(end - at) &&
           memcmp(got.p, head, used) == 0 && memcmp(got.p + used, at, (size_t)(end - at)) == 0;
}

static void model_same_nodes(const struct model_block *b, const struct block_index *x,
                             const struct model_key *k, const struct block_key_ref *ref)
{
    assert_int_equal(ref->node_count, k->node_count);
    for (uint32_t i = 0; i < k->node_count; i++) {
        const struct block_node_ref *n = &x->nodes[ref->first_node + i];
        const struct block_node *want = &k->nodes[i].node;
        assert_true(n->node.slot == want->slot && n->node.width == want->width);
        assert_true(n->node.profiles == want->profiles && n->node.total == want->total);
        assert_true(n->node.first_ns == want->first_ns && n->node.last_ns == want->last_ns);
        assert_true(n->frame < x->nodes_at.n);
        assert_true(model_node_has(b, x, n, k->nodes[i].columns));
    }
}

static struct block_total *model_totals_of(const struct model_block *b, const struct block_frame *f)
{
    struct block_total *v = NULL;
    assert_ok(block_totals_parse(&arena, model_section(b->bytes, &f->extent), f->count, &v, e));
    return v;
}

static void model_same_totals(const struct model_block *b, const struct block_index *x,
                              const struct model_key *k, const struct block_key_ref *ref)
{
    assert_int_equal(ref->total_count, k->total_count);
    const struct block_frame *have = NULL;
    struct block_total *v = NULL;
    for (uint32_t i = 0; i < k->total_count; i++) {
        const struct block_frame *f = block_frame_of(&x->totals, ref->first_total + i);
        if (!f) fail_msg("total %u is nowhere", i);
        if (f && f != have) v = model_totals_of(b, f);
        have = f;
        const struct block_total *t = &v[ref->first_total + i - f->first];
        assert_true(t->slot == k->totals[i].slot && t->sum == k->totals[i].sum &&
                    t->profiles == k->totals[i].profiles);
    }
}

void model_run(const struct model_block *b, const struct block_index *x,
               const struct block_frame *f, struct model_run *run)
{
    const struct block_frame *d = &x->details.v[f - x->heads.v];
    *run = (struct model_run){.frame = f};
    assert_true(d->first == f->first && d->count == f->count);
    assert_ok(
        block_heads_parse(&arena, model_section(b->bytes, &f->extent), f->count, &run->heads, e));
    assert_ok(block_details_parse(&arena, model_section(b->bytes, &d->extent), &run->heads,
                                  &run->details, e));
    for (uint32_t i = 0; i < x->spans.n; i++) {
        const struct block_frame *s = &x->spans.v[i];
        if (s->first != f->first) continue;
        assert_ok(block_spans_parse(&arena, model_section(b->bytes, &s->extent), f->count,
                                    &run->spans, e));
    }
}

static void model_same_row(const struct model_block *b, const struct block_index *x,
                           const struct model_service *s, const struct block_row *row,
                           const struct model_run *run, uint64_t i)
{
    const struct block_details *d = &run->details;
    assert_true(run->heads.times[i] == row->time_ns && run->heads.totals[i] == row->total);
    assert_int_equal(run->heads.attempts ? run->heads.attempts[i] : 0, row->attempt);
    assert_true(row->time_ns >= run->frame->first_ns && row->time_ns <= run->frame->last_ns);
    assert_memory_equal(&d->ids[i], &row->id, sizeof row->id);
    assert_true(d->vectors[i] == row->vector);
    assert_true((d->factors ? d->factors[i] : 1) == row->factor);
    assert_true((d->durations ? d->durations[i] : 0) == row->duration_ns);
    assert_true((d->periods ? d->periods[i] : 0) == row->period);
    id128 none = {0};
    const id128 *first = d->first_streams ? &d->first_streams[i] : &none;
    assert_true(id128_eq(*first, row->has_first_stream ? row->first_stream : none));
    assert_true(labels_eq(d->annotations ? d->annotations[i] : (labels){0}, row->annotations));
    assert_int_equal(run->spans ? run->spans[i].n : 0, row->span_count);
    for (size_t k = 0; k < row->span_count; k++) {
        const struct block_span *one = &run->spans[i].v[k];
        assert_true(one->span_id == row->spans[k].span_id);
        assert_true(one->has_trace == row->spans[k].has_trace);
        assert_true(str_eq(one->vector, row->spans[k].vector));
    }
    const struct block_frame *f = block_frame_of(&x->vectors, row->vector);
    assert_non_null(f);
    assert_true(model_has_vector(b, f, row->vector - f->first, s->vectors[row->vector]));
}

static void model_same_rows(const struct model_block *b, const struct block_index *x,
                            const struct model_service *s, const struct model_key *k,
                            const struct block_key_ref *ref)
{
    assert_int_equal(ref->row_count, k->row_count);
    struct model_run run = {0};
    for (uint32_t i = 0; i < k->row_count; i++) {
        const struct block_frame *f = block_frame_of(&x->heads, ref->first_row + i);
        assert_non_null(f);
        if (f != run.frame) model_run(b, x, f, &run);
        model_same_row(b, x, s, &k->rows[i], &run, ref->first_row + i - f->first);
    }
}

static bool model_same_string(const struct symbol_table *t, uint32_t i,
                              const struct symbol_table *u, uint32_t k)
{
    return str_eq(t->strings[i], u->strings[k]);
}

static bool model_same_frame(const struct symbol_table *t, const struct symbol_frame *f,
                             const struct symbol_table *u, const struct symbol_frame *g)
{
    const struct symbol_function *p = &t->functions[f->function];
    const struct symbol_function *q = &u->functions[g->function];
    const struct symbol_mapping *m = &t->mappings[f->mapping];
    const struct symbol_mapping *n = &u->mappings[g->mapping];
    return model_same_string(t, p->name, u, q->name) &&
           model_same_string(t, p->system_name, u, q->system_name) &&
           model_same_string(t, p->filename, u, q->filename) && p->start_line == q->start_line &&
           m->start == n->start && m->limit == n->limit && m->offset == n->offset &&
           m->flags == n->flags && model_same_string(t, m->filename, u, n->filename) &&
           model_same_string(t, m->build_id, u, n->build_id) && f->line == g->line &&
           f->address == g->address && f->inlined == g->inlined;
}

void model_same_symbols(const struct symbol_table *t, const struct symbol_table *u)
{
    assert_int_equal(t->stack_count, u->stack_count);
    for (uint32_t i = 1; i < t->stack_count; i++) {
        assert_int_equal(t->stacks[i].parent, u->stacks[i].parent);
        assert_true(
            model_same_frame(t, &t->frames[t->stacks[i].frame], u, &u->frames[u->stacks[i].frame]));
    }
}

static void model_same_service(const struct model_block *b, const struct model_service *s)
{
    const struct block_service_ref *ref = block_find_service(&b->footer, s->name);
    struct symbol_table t = {0};
    struct block_index x = {0};
    assert_non_null(ref);
    assert_ok(block_symbols_parse(&arena, model_section(b->bytes, &ref->symbols), &t, e));
    assert_ok(block_index_parse(&arena, model_section(b->bytes, &ref->index), ref, &x, e));
    assert_int_equal(x.stack_count, s->symbols.stack_count);
    assert_int_equal(t.stack_count, s->symbols.stack_count);
    model_same_symbols(&t, &s->symbols);
    assert_int_equal(x.type_count, s->type_count);
    assert_int_equal(x.key_count, s->key_count);
    for (uint32_t i = 0; i < x.type_count; i++) {
        assert_true(str_eq(x.types[i], s->types[i].name));
        assert_int_equal(x.dropped[i].n, s->types[i].dropped_count);
    }
    for (uint32_t i = 0; i < x.key_count; i++) {
        const struct model_key *k = &s->keys[i];
        assert_int_equal(x.keys[i].class, k->class);
        assert_true(str_eq(x.types[x.keys[i].type], k->type));
        assert_true(labels_eq(x.keys[i].ls, k->ls));
        assert_true(x.keys[i].sampled == str_is(labels_get(k->ls, S(LABEL_SAMPLED)), "true"));
        model_same_nodes(b, &x, k, &x.keys[i]);
        model_same_totals(b, &x, k, &x.keys[i]);
        model_same_rows(b, &x, s, k, &x.keys[i]);
    }
}

void model_same(const struct model *m, str bytes)
{
    struct model_block b = {0};
    model_open(bytes, &b);
    const struct block_about *about = &b.footer.about;
    assert_int_equal(about->kind, m->about.kind);
    assert_true(str_eq(about->tenant, m->about.tenant) && id128_eq(about->id, m->about.id));
    assert_true(about->from_hour == m->about.from_hour && about->hours == m->about.hours);
    assert_int_equal(about->source_count, m->about.source_count);
    assert_int_equal(b.footer.service_count, m->service_count);
    for (uint32_t i = 0; i < m->service_count; i++)
        model_same_service(&b, &m->services[i]);
}
