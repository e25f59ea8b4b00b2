// SPDX-License-Identifier: Apache-2.0
//
// head_log.c - which rows of a service's tables the open cut's log has, and how an entry brings
// them. docs/formats/log.md has the bytes.
#include "ingester/head/head_log.h"

#include "codec/pb.h"
#include "ingester/head/head_int.h"
#include "model/vector.h"

// ---- marks

static uint32_t rows_of(const struct service_head *s, enum log_table table)
{
    const struct symbol_table *t = &s->symbols.t;
    const uint32_t counts[LOG_TABLES] = {t->string_count, t->function_count, t->mapping_count,
                                         t->frame_count,  t->stack_count,    s->index.series_count};
    return counts[table];
}

// Tables grow a little with most pushes, so each gets a quarter more than it needs, and this
// allocates seldom.
bool marks_room(struct service_head *s, err *e)
{
    struct marks *m = &s->marks;
    struct marks wider = {.run = m->run};
    bool fits = true;
    for (int i = 0; i < LOG_TABLES; i++) {
        uint32_t need = rows_of(s, (enum log_table)i) / 64 + 1;
        fits = fits && need <= m->t[i].words;
        wider.t[i].at = (uint32_t)wider.words;
        wider.t[i].words = need <= m->t[i].words ? m->t[i].words : need + need / 4;
        wider.words += 2 * (size_t)wider.t[i].words;
    }
    if (fits) return true;
    wider.bits = mem_alloc(service_budget(s), wider.words * sizeof *wider.bits, e);
    if (!wider.bits) return false;
    // Only `had` is copied. `brings` is empty, because no thread is between news_begin and
    // news_write: both hold the service's lock, which this has for writing.
    for (int i = 0; i < LOG_TABLES; i++) {
        if (m->bits)
            memcpy(wider.bits + wider.t[i].at, m->bits + m->t[i].at,
                   m->t[i].words * sizeof *m->bits);
    }
    marks_release(s);
    *m = wider;
    return true;
}

void marks_release(struct service_head *s)
{
    mem_free(service_budget(s), s->marks.bits, s->marks.words * sizeof *s->marks.bits);
    s->marks = (struct marks){0};
}

// ---- gathering what an entry brings

// True: the row was not marked, so the rows that it refers to may not be marked either.
static bool bring(struct news *n, enum log_table table, uint32_t row)
{
    struct marks *m = &n->service->marks;
    uint32_t word = row / 64;
    uint64_t bit = UINT64_C(1) << (row % 64);
    uint64_t *had = m->bits + m->t[table].at;
    uint64_t *brings = had + m->t[table].words;
    assert(word < m->t[table].words);
    if ((had[word] | brings[word]) & bit) return false;
    brings[word] |= bit;
    if (n->high[table] == 0 || word < n->low[table]) n->low[table] = word;
    n->high[table] = MAX(n->high[table], word + 1);
    return true;
}

static void bring_string(struct news *n, uint32_t row)
{
    if (row) (void)bring(n, LOG_STRINGS, row);
}

static void bring_frame(struct news *n, uint32_t row)
{
    const struct symbol_table *t = &n->service->symbols.t;
    if (row == 0 || !bring(n, LOG_FRAMES, row)) return;
    const struct symbol_frame *frame = &t->frames[row];
    if (frame->function && bring(n, LOG_FUNCTIONS, frame->function)) {
        const struct symbol_function *f = &t->functions[frame->function];
        bring_string(n, f->name);
        bring_string(n, f->system_name);
        bring_string(n, f->filename);
    }
    if (frame->mapping && bring(n, LOG_MAPPINGS, frame->mapping)) {
        const struct symbol_mapping *m = &t->mappings[frame->mapping];
        bring_string(n, m->filename);
        bring_string(n, m->build_id);
    }
}

void news_begin(struct news *n, struct service_head *s, uint64_t run)
{
    struct marks *m = &s->marks;
    *n = (struct news){.service = s};
    assert(run != 0);
    if (m->run == run) return;
    memset(m->bits, 0, m->words * sizeof *m->bits);
    m->run = run;
}

// Stops at the first marked stack: its ancestors are marked too.
void news_stack(struct news *n, uint32_t stack)
{
    const struct symbol_table *t = &n->service->symbols.t;
    for (; stack && bring(n, LOG_STACKS, stack); stack = t->stacks[stack].parent)
        bring_frame(n, t->stacks[stack].frame);
}

void news_series(struct news *n, uint32_t series)
{
    (void)bring(n, LOG_SERIES, series);
}

// ---- writing it

static void put_text(struct buf *out, str text)
{
    pb_put_varint(out, text.n);
    buf_str(out, text);
}

static void put_series(const struct index *x, uint32_t row, struct buf *out)
{
    const struct index_series *s = &x->series[row];
    pb_put_varint(out, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct index_name *name = &x->names[s->pairs[i].name];
        put_text(out, name->text);
        put_text(out, name->values[s->pairs[i].value].text);
    }
}

static void put_frame(const struct symbol_frame *f, struct buf *out)
{
    pb_put_varint(out, f->function);
    pb_put_varint(out, zigzag(f->line));
    pb_put_varint(out, (uint64_t)f->mapping << 1 | f->inlined);
    pb_put_varint(out, f->address);
}

static void put_mapping(const struct symbol_mapping *m, struct buf *out)
{
    pb_put_varint(out, m->start);
    pb_put_varint(out, m->limit);
    pb_put_varint(out, m->offset);
    pb_put_varint(out, m->filename);
    pb_put_varint(out, m->build_id);
    pb_put_varint(out, m->flags);
}

static void put_function(const struct symbol_function *f, struct buf *out)
{
    pb_put_varint(out, f->name);
    pb_put_varint(out, f->system_name);
    pb_put_varint(out, f->filename);
    pb_put_varint(out, zigzag(f->start_line));
}

static void put_row(const struct service_head *s, enum log_table table, uint32_t row,
                    struct buf *out)
{
    const struct symbol_table *t = &s->symbols.t;
    switch (table) {
    case LOG_STRINGS:
        put_text(out, t->strings[row]);
        return;
    case LOG_FUNCTIONS:
        put_function(&t->functions[row], out);
        return;
    case LOG_MAPPINGS:
        put_mapping(&t->mappings[row], out);
        return;
    case LOG_FRAMES:
        put_frame(&t->frames[row], out);
        return;
    case LOG_STACKS:
        pb_put_varint(out, row - t->stacks[row].parent);
        pb_put_varint(out, t->stacks[row].frame);
        return;
    case LOG_SERIES:
        put_series(&s->index, row, out);
        return;
    case LOG_TABLES:
        return;
    }
}

static bool has_bit(const uint64_t *bits, uint32_t high, uint32_t row)
{
    return row / 64 < high && bits[row / 64] >> (row % 64) & 1;
}

// Stretches of rows that follow each other: how many numbers lie between, how many rows, the rows.
static void put_stretches(const struct news *n, enum log_table table, const uint64_t *brings,
                          struct buf *out)
{
    uint32_t high = n->high[table];
    uint32_t next = 0;
    for (uint32_t word = n->low[table]; word < high; word++) {
        uint64_t left = brings[word];
        // The last stretch may have gone on into this word: its bits are done.
        if (next > word * 64) left &= next < word * 64 + 64 ? ~UINT64_C(0) << (next % 64) : 0;
        while (left) {
            uint32_t row = word * 64 + (uint32_t)__builtin_ctzll(left);
            uint32_t end = row + 1;
            while (has_bit(brings, high, end))
                end++;
            pb_put_varint(out, row - next);
            pb_put_varint(out, end - row);
            for (; row < end; row++)
                put_row(n->service, table, row, out);
            next = end;
            left = end < word * 64 + 64 ? left & ~UINT64_C(0) << (end % 64) : 0;
        }
    }
}

void news_write(struct news *n, struct buf *out)
{
    struct marks *m = &n->service->marks;
    for (int i = 0; i < LOG_TABLES; i++) {
        if (n->high[i] == 0) continue;
        uint64_t *had = m->bits + m->t[i].at;
        uint64_t *brings = had + m->t[i].words;
        size_t mark = pb_begin(out, LOG_BRINGS + (uint32_t)i);
        put_stretches(n, (enum log_table)i, brings, out);
        pb_end(out, mark);
        for (uint32_t word = n->low[i]; word < n->high[i]; word++) {
            had[word] |= brings[word];
            brings[word] = 0;
        }
    }
}

// ---- what was staged

static void put_span(const struct row_spans *spans, uint32_t i, struct buf *out)
{
    const struct row_span *span = &spans->v[i];
    size_t mark = pb_begin(out, 11);
    pb_put_fixed64_opt(out, 1, span->span_id);
    if (span->has_trace)
        pb_put_bytes(out, 2, str_make((const char *)span->trace_id, sizeof span->trace_id));
    pb_put_bytes(out, 3, row_span_vector(spans, i));
    pb_end(out, mark);
}

static void put_notes(const struct row_notes *notes, struct buf *out)
{
    if (notes->has_first_stream)
        pb_put_bytes(out, 13, str_make((const char *)notes->first_stream.b, 16));
    for (uint32_t i = 0; i < notes->count; i++) {
        label note = row_note(notes, i);
        labels_put((labels){&note, 1}, out, 14);
    }
}

static void put_record(const struct staged *s, uint32_t i, struct buf *out)
{
    const struct row *row = &s->rows[i].row;
    uint32_t first = s->rows[i].first;
    assert(first <= i);
    size_t mark = pb_begin(out, LOG_RECORD);
    pb_put_u64_opt(out, 1, s->rows[i].series);
    pb_put_fixed64_opt(out, 3, (uint64_t)row->time_ns);
    pb_put_bytes(out, 4, str_make((const char *)row->id.b, sizeof row->id.b));
    pb_put_i64_opt(out, 5, row->duration_ns);
    pb_put_i64_opt(out, 6, row->period);
    if (first == i) {
        pb_put_bytes(out, 7, payload_view(row->vector));
    } else {
        pb_put_u64(out, 8, (uint64_t)first + 1);
    }
    if (row->factor != 1) pb_put_u64(out, 9, zigzag(row->factor));
    pb_put_u64_opt(out, 10, zigzag(row->total));
    for (uint32_t k = 0; row->spans && k < row->spans->count; k++)
        put_span(row->spans, k, out);
    pb_put_u64_opt(out, 12, row->attempt);
    if (row->notes) put_notes(row->notes, out);
    pb_put_u64_opt(out, 15, row->placing > 0);
    pb_end(out, mark);
}

// Without the service's lock: staged rows keep their numbers, and no other thread sees them.
bool head_log(struct staged *s, str *rows, err *e)
{
    struct buf *out = &s->logged;
    assert(out->n == 0);
    pb_put_bytes(out, LOG_SERVICE, s->service->service);
    pb_put_u64(out, LOG_TABLE, s->service->table);
    uint16_t placing = 0;  // the batch's
    for (uint32_t i = 0; i < s->n; i++) {
        put_record(s, i, out);
        if (s->rows[i].row.placing) placing = s->rows[i].row.placing;
    }
    pb_put_fixed64_opt(out, LOG_PLACING, head_placing(s->service->head, placing));
    *rows = buf_view(out);
    return buf_ok(out, e);
}

static void news_vector(struct news *n, str vector)
{
    struct vector_reader r;
    struct vector_entry v;
    err e = {0};
    bool ok = vector_open(&r, vector, &e);
    while (ok && vector_next(&r, &v))
        news_stack(n, v.stack);
    assert(ok && vector_done(&r, &e));  // staging wrote it
}

static void news_row(struct news *n, const struct staged_row *r)
{
    news_vector(n, payload_view(r->row.vector));
    for (uint32_t i = 0; r->row.spans && i < r->row.spans->count; i++)
        news_vector(n, row_span_vector(r->row.spans, i));
}

// The service's lock for reading is enough to change the marks. Readers of the head do not look at
// them; staging, which does, has the lock for writing; and the log calls this for one entry at a
// time.
//
// If the log is still in the run that the batch was staged in, only the rows that staging found
// unmarked are looked at; in another run all rows are.
bool head_log_news(void *staged, uint64_t run, struct buf *out, err *e)
{
    struct staged *s = staged;
    struct service_head *service = s->service;
    struct news n;
    if (s->run == run && s->unmarked_n == 0 && !s->unmarked_series) return true;
    pthread_rwlock_rdlock(&service->lock);
    news_begin(&n, service, run);
    for (size_t i = 0; s->run == run && i < s->unmarked_n; i++)
        news_stack(&n, s->unmarked[i]);
    for (uint32_t i = 0; s->run != run && i < s->n; i++)
        news_row(&n, &s->rows[i]);
    for (uint32_t i = 0; i < s->n; i++)
        news_series(&n, s->rows[i].series);
    news_write(&n, out);
    pthread_rwlock_unlock(&service->lock);
    return buf_ok(out, e);
}
