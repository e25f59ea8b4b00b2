// SPDX-License-Identifier: Apache-2.0
#include "unit/ingester/segments.h"

void lines_init(struct lines *l)
{
    *l = (struct lines){0};
    arena_init(&l->arena, NULL, SIZE_MAX);
}

void lines_release(struct lines *l)
{
    arena_release(&l->arena);
    *l = (struct lines){0};
}

int lines_order(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

// ---- one line

static void line_begin(struct line *x, struct lines *to, str tenant, str service, labels ls)
{
    x->to = to;
    buf_init(&x->text, NULL, 1 << 20);
    buf_printf(&x->text, "%.*s %.*s ", STR(tenant), STR(service));
    labels_print(ls, &x->text);
}

static void line_stack(struct line *x, uint32_t stack)
{
    uint32_t path[64];
    size_t depth = 0;
    for (; stack && depth < COUNT(path); stack = x->t->stacks[stack].parent)
        path[depth++] = x->t->stacks[stack].frame;
    while (depth-- > 0) {
        buf_byte(&x->text, ';');
        buf_str(&x->text, symbols_frame_name(x->t, path[depth]));
        buf_printf(&x->text, "@%lld", (long long)x->t->frames[path[depth]].line);
    }
}

// Entries by their texts, as numbers of stacks differ from table to table.
static void line_vector(struct line *x, const struct vector_entry *v, size_t n, int64_t factor)
{
    str *texts = ARENA_ARRAY(&x->to->arena, str, n);
    size_t from = x->text.n;
    for (size_t i = 0; i < n; i++) {
        line_stack(x, v[i].stack);
        buf_printf(&x->text, "=%lld", (long long)(v[i].value * factor));
        texts[i] = arena_str(&x->to->arena, str_make(x->text.p + from, x->text.n - from));
        x->text.n = from;
    }
    qsort(texts, n, sizeof *texts, lines_order);
    for (size_t i = 0; i < n; i++)
        buf_printf(&x->text, " %.*s", STR(texts[i]));
}

static void line_packed(struct line *x, str vector, int64_t factor)
{
    struct vector_reader r;
    struct vector_entry v[64];
    size_t n = 0;
    assert_ok(vector_open(&r, vector, e));
    while (n < COUNT(v) && vector_next(&r, &v[n]))
        n++;
    assert_ok(vector_done(&r, e));
    line_vector(x, v, n, factor);
}

static void line_columns(struct line *x, str columns, int64_t factor)
{
    struct vector_entry *v = NULL;
    size_t n = 0;
    assert_ok(columns_entries(&x->to->arena, columns, 64, &v, &n, e));
    line_vector(x, v, n, factor);
}

struct line_row {
    int64_t time_ns;
    id128 id;
    int64_t total;
    int64_t duration_ns;
    int64_t period;
    uint32_t attempt;
    const id128 *first_stream;  // or NULL
};

// As blocks have it, in head and log as well.
static uint32_t placed(bool is)
{
    return is ? BLOCK_IDENTIFIED : 0;
}

static void line_fields(struct line *x, const struct line_row *r)
{
    char id[UUID_TEXT];
    uuid_print(r->id, id);
    buf_printf(&x->text, " t=%lld id=%s total=%lld dur=%lld period=%lld attempt=%u",
               (long long)r->time_ns, id, (long long)r->total, (long long)r->duration_ns,
               (long long)r->period, r->attempt);
    if (r->first_stream) {
        uuid_print(*r->first_stream, id);
        buf_printf(&x->text, " first=%s", id);
    }
}

static void line_note(struct line *x, label note)
{
    buf_printf(&x->text, " note %.*s=%.*s", STR(note.name), STR(note.value));
}

static void line_span(struct line *x, uint64_t span, bool has_trace, const void *trace)
{
    buf_printf(&x->text, " span %llu", (unsigned long long)span);
    if (has_trace) {
        char hex[33];
        hex_print(trace, 16, hex);
        buf_printf(&x->text, "/%s", hex);
    }
}

static void line_end(struct line *x)
{
    struct lines *l = x->to;
    assert_ok(buf_ok(&x->text, e));
    assert_true(arena_grow(&l->arena, &l->v, &l->cap, l->n + 1, sizeof *l->v));
    l->v[l->n++] = arena_str(&l->arena, buf_view(&x->text));
    buf_release(&x->text);
}

// ---- from a batch

void lines_of_batch(struct lines *l, str tenant, const struct batch *b)
{
    for (uint32_t i = 0; i < b->record_count; i++) {
        const struct record *r = &b->records[i];
        bool own = r->sibling == RECORD_NO_SIBLING;
        struct line x = {.t = &b->symbols};
        struct line_row row = {r->time_ns,
                               r->id,
                               r->total,
                               r->duration_ns,
                               r->period,
                               r->attempt | placed(r->identified && r->attempt == 0),
                               r->has_first_stream ? &r->first_stream : NULL};
        line_begin(&x, l, tenant, b->service, b->series[r->series]);
        line_fields(&x, &row);
        line_packed(&x, own ? r->vector : b->records[r->sibling].vector, own ? 1 : r->factor);
        for (uint32_t k = 0; k < r->annotation_count; k++)
            line_note(&x, r->annotations[k]);
        for (uint32_t k = 0; k < r->span_count; k++) {
            line_span(&x, r->spans[k].span_id, r->spans[k].has_trace, r->spans[k].trace_id);
            line_packed(&x, r->spans[k].vector, 1);
        }
        line_end(&x);
    }
}

// ---- from the head

static void lines_of_row(struct lines *l, struct service_head *s, labels ls, const struct row *r)
{
    struct line x = {.t = &s->symbols.t};
    const struct row_notes *notes = r->notes;
    struct line_row row = {r->time_ns,
                           r->id,
                           r->total,
                           r->duration_ns,
                           r->period,
                           r->attempt | placed(r->placing > 0),
                           notes && notes->has_first_stream ? &notes->first_stream : NULL};
    line_begin(&x, l, s->tenant, s->service, ls);
    line_fields(&x, &row);
    line_packed(&x, payload_view(r->vector), r->factor);
    for (uint32_t k = 0; notes && k < notes->count; k++)
        line_note(&x, row_note(notes, k));
    for (uint32_t k = 0; r->spans && k < r->spans->count; k++) {
        const struct row_span *p = &r->spans->v[k];
        line_span(&x, p->span_id, p->has_trace, p->trace_id);
        line_packed(&x, row_span_vector(r->spans, k), 1);
    }
    line_end(&x);
}

// Of the own streams, or of an adopted one.
static bool counts(const struct service_head *s, uint32_t series, const struct row *row)
{
    const struct head_query q = {.adopted = row->cut->adopted};
    return row_is_there(&q, s, series, row);
}

void lines_of_head(struct lines *l, struct head *h, str tenant)
{
    pthread_rwlock_rdlock(&h->lock);
    for (uint32_t i = 0; i < h->service_count; i++) {
        struct service_head *s = h->services[i];
        pthread_rwlock_rdlock(&s->lock);
        for (uint32_t k = 0; str_eq(s->tenant, tenant) && k < s->index.series_count; k++) {
            label room[16];
            labels ls = index_labels(&s->index, k, room);
            struct rows_cursor c = rows_within(&s->rows[k], INT64_MIN, INT64_MAX);
            const struct row *row = NULL;
            while ((row = rows_next(&c))) {
                if (counts(s, k, row)) lines_of_row(l, s, ls, row);
            }
        }
        pthread_rwlock_unlock(&s->lock);
    }
    pthread_rwlock_unlock(&h->lock);
}

// ---- from an object

struct segment_read {
    struct lines *to;
    struct req req;
    struct block_source src;
    struct symbol_table t;
    struct block_index index;
};

static str segment_section(struct segment_read *x, const struct block_extent *extent)
{
    str contents = {0};
    assert_ok(block_source_sections(&x->req.arena, &x->src, extent, 1, &contents, e));
    return contents;
}

static str segment_vector(struct segment_read *x, uint64_t number)
{
    struct block_vectors v;
    const struct block_frame *f = block_frame_of(&x->index.vectors, number);
    assert_non_null(f);
    assert_ok(block_vectors_parse(&x->req.arena, segment_section(x, &f->extent), f->count, &v, e));
    return block_vector_at(&v, (uint32_t)(number - f->first));
}

static void lines_of_key(struct segment_read *x, str service, const struct block_key_ref *key)
{
    for (uint64_t n = key->first_row; n < key->first_row + key->row_count; n++) {
        struct block_heads heads;
        struct block_details d;
        struct block_row_spans *spans = NULL;
        const struct block_frame *hf = block_frame_of(&x->index.heads, n);
        const struct block_frame *df = block_frame_of(&x->index.details, n);
        const struct block_frame *sf = block_frame_of(&x->index.spans, n);
        assert_ok(block_heads_parse(&x->req.arena, segment_section(x, &hf->extent), hf->count,
                                    &heads, e));
        assert_ok(
            block_details_parse(&x->req.arena, segment_section(x, &df->extent), &heads, &d, e));
        if (sf) {
            assert_ok(block_spans_parse(&x->req.arena, segment_section(x, &sf->extent), sf->count,
                                        &spans, e));
        }
        uint64_t i = n - df->first;
        static const id128 none;
        bool first = d.first_streams && !id128_eq(d.first_streams[i], none);
        struct line l = {.t = &x->t};
        struct line_row row = {heads.times[i],
                               d.ids[i],
                               heads.totals[i],
                               d.durations ? d.durations[i] : 0,
                               d.periods ? d.periods[i] : 0,
                               heads.attempts ? heads.attempts[i] : 0,
                               first ? &d.first_streams[i] : NULL};
        line_begin(&l, x->to, x->src.footer.about.tenant, service, key->ls);
        line_fields(&l, &row);
        line_columns(&l, segment_vector(x, d.vectors[i]), d.factors ? d.factors[i] : 1);
        for (size_t k = 0; d.annotations && k < d.annotations[i].n; k++)
            line_note(&l, d.annotations[i].v[k]);
        for (uint32_t k = 0; spans && k < spans[i].n; k++) {
            const struct block_span *s = &spans[i].v[k];
            line_span(&l, s->span_id, s->has_trace, s->trace.b);
            line_columns(&l, s->vector, 1);
        }
        line_end(&l);
    }
}

static void segment_fault(void *arg, str service, const char *text)
{
    fail_msg("%s: service %.*s: %s", (const char *)arg, STR(service), text);
}

// All rows of the object, which must be what it says.
static void lines_of_object(struct lines *l, struct store *s, const char *name)
{
    struct segment_read x = {.to = l};
    struct block_verified verified = {0};
    struct block_verify_options o = {.report = segment_fault,
                                     .arg = (void *)(uintptr_t)name,
                                     .cap = SIZE_MAX};
    req_init(&x.req, RANK_DUTY, NULL, SIZE_MAX, 0);
    assert_ok(block_source_open(&x.req.arena, store_origin(s, &x.req), str_of(name),
                                memstore_bytes(s, name).n, &x.src, e));
    assert_ok(block_verify(&x.src, &o, &verified, e));
    assert_int_equal(verified.faults, 0);
    // Footers have the placing of their rows, and no other (push_bytes).
    const struct block_footer *f = &x.src.footer;
    bool any = false;
    for (uint32_t i = 0; i < f->service_count; i++)
        for (uint32_t k = 0; k < f->services[i].dataset_count; k++)
            any = any || f->services[i].datasets[k].placed;
    assert_int_equal(f->about.placings.n, any);
    if (any) assert_true(f->about.placings.v[0] == TEST_PLACING);
    for (uint32_t i = 0; i < x.src.footer.service_count; i++) {
        const struct block_service_ref *service = &x.src.footer.services[i];
        assert_ok(block_source_service(&x.req.arena, &x.src, service, &x.t, &x.index, e));
        for (uint32_t k = 0; k < x.index.key_count; k++) {
            if (x.index.keys[k].class == BLOCK_SERIES)
                lines_of_key(&x, service->name, &x.index.keys[k]);
        }
    }
    req_release(&x.req);
}

// ---- what a question would add up: the head, then segments that it does not name, then leaves

static bool is_named(const struct wal_ref *refs, size_t n, const struct segment_name *s)
{
    for (size_t i = 0; i < n; i++) {
        if (refs[i].cut == s->cut && refs[i].hour == s->hour &&
            id128_eq(refs[i].stream, s->stream) && s->part >= refs[i].first_part) {
            return true;
        }
    }
    return false;
}

bool lines_of_question(struct lines *l, struct whole *w, str tenant, struct req *r)
{
    struct wal_ref *refs = NULL;
    size_t n = 0;
    struct snapshot snapshot;
    bool exact = true;
    head_pin(w->in->head);
    lines_of_head(l, w->in->head, tenant);
    assert_ok(wal_refs(w->in->wal, &r->arena, INT64_MIN / 2, INT64_MAX / 2, &refs, &n, e));
    if (w->in->flush) flush_names(w->in->flush, &tenant, 1, refs, &n);
    head_unpin(w->in->head);
    if (!w->in->flush) return true;
    assert_ok(snapshot_take(w->in->flush->manifests, r, &r->arena, tenant, &snapshot, e));
    for (size_t i = 0; i < snapshot.segment_count; i++) {
        const struct segment_name *s = &snapshot.segments[i].name;
        if (!is_named(refs, n, s)) {
            str name = name_segment(&r->arena, tenant, s);
            lines_of_object(l, w->process.store, name.p);
        }
    }
    size_t count = 0;
    const struct manifest_block *v = manifest_blocks(snapshot.manifest, &count);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < v[i].source_count; k++) {
            for (uint32_t c = 0; c < v[i].sources[k].cuts; c++) {
                const struct segment_name name = segment_run_at(&v[i].sources[k], c);
                exact = exact && !is_named(refs, n, &name);
            }
        }
        str name = arena_str(&r->arena, v[i].name);
        lines_of_object(l, w->process.store, name.p);
    }
    snapshot_release(&snapshot);
    return exact;
}

void lines_sort(struct lines *l)
{
    if (l->n) qsort(l->v, l->n, sizeof *l->v, lines_order);
}

void lines_same(struct lines *got, struct lines *want)
{
    lines_sort(got);
    lines_sort(want);
    for (size_t i = 0; i < MIN(got->n, want->n); i++) {
        if (!str_eq(got->v[i], want->v[i])) {
            fail_msg("row %zu of %zu, %zu wanted:\n  %.*s\nis not\n  %.*s", i, got->n, want->n,
                     STR(got->v[i]), STR(want->v[i]));
        }
    }
    assert_int_equal(got->n, want->n);
}
