// SPDX-License-Identifier: Apache-2.0
#include "block/writer_int.h"

void writer_part(struct writer_parts *p, size_t at)
{
    if (at == 0 || (p->n > 0 && p->ends[p->n - 1] == at)) return;
    if (p->n < COUNT(p->ends) - 1) p->ends[p->n++] = at;
}

// From one part to the next: *from .. *to, false behind the last.
static bool part_next(const struct writer_parts *p, size_t count, size_t i, size_t *from,
                      size_t *to)
{
    *from = i ? p->ends[i - 1] : 0;
    *to = i < p->n ? p->ends[i] : count;
    return i <= p->n && *from < *to;
}

// ---- totals and heads
void writer_totals(struct block_writer *w, struct buf *out)
{
    size_t from = 0;
    size_t to = 0;
    for (size_t i = 0; part_next(&w->total_parts, w->total_count, i, &from, &to); i++) {
        const struct block_total *v = w->totals + from;
        size_t n = to - from;
        wire_put_u64(out, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = v[k].slot;
        wire_put_numbers(out, w->column, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = v[k].sum;
        wire_put_numbers(out, w->column, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = (int64_t)v[k].profiles;
        wire_put_numbers(out, w->column, n);
    }
}

void writer_heads(struct block_writer *w, struct buf *out)
{
    size_t from = 0;
    size_t to = 0;
    for (size_t i = 0; part_next(&w->row_parts, w->row_count, i, &from, &to); i++) {
        const struct block_row *v = w->rows + from;
        size_t n = to - from;
        wire_put_u64(out, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = v[k].time_ns;
        wire_put_numbers(out, w->column, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = v[k].total;
        wire_put_numbers(out, w->column, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = v[k].attempt;
        wire_put_numbers(out, w->column, n);
    }
}

// ---- details
static void put_columns(struct block_writer *w, struct buf *out)
{
    size_t from = 0;
    size_t to = 0;
    for (size_t i = 0; part_next(&w->row_parts, w->row_count, i, &from, &to); i++) {
        const struct block_row *v = w->rows + from;
        size_t n = to - from;
        wire_put_u64(out, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = (int64_t)v[k].vector;
        wire_put_numbers(out, w->column, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = v[k].factor;
        wire_put_numbers(out, w->column, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = v[k].duration_ns;
        wire_put_numbers(out, w->column, n);
        for (size_t k = 0; k < n; k++)
            w->column[k] = v[k].period;
        wire_put_numbers(out, w->column, n);
    }
}

// The number of each row's set among distinct ones, which are found by an index of their hashes.
static bool number_sets(struct block_writer *w, struct map *index, uint32_t *first, uint32_t *sets,
                        err *e)
{
    *sets = 0;
    for (uint32_t i = 0; i < w->row_count; i++) {
        labels ls = w->rows[i].annotations;
        w->column[i] = 0;
        if (ls.n == 0) continue;
        uint64_t hash = labels_hash(ls);
        uint32_t step = 0;
        uint32_t row = map_next(index, hash, &step);
        while (row != MAP_NONE && !labels_eq(w->rows[first[row]].annotations, ls))
            row = map_next(index, hash, &step);
        if (row == MAP_NONE) {
            row = *sets;
            first[(*sets)++] = i;
            if (!map_put(index, hash, row, e)) return false;
        }
        w->column[i] = row + 1;
    }
    return true;
}

static bool put_annotations(struct block_writer *w, struct buf *out, err *e)
{
    struct map index;
    uint32_t sets = 0;
    bool any = false;
    for (uint32_t i = 0; i < w->row_count && !any; i++)
        any = w->rows[i].annotations.n > 0;
    if (!any) {
        wire_put_u64(out, 0);
        return true;
    }
    uint32_t *first = mem_alloc(w->memory, w->row_cap * sizeof *first, e);
    if (!first) return false;
    map_init(&index, w->memory);
    bool ok = number_sets(w, &index, first, &sets, e);
    wire_put_u64(out, sets);
    for (uint32_t i = 0; ok && i < sets; i++) {
        labels ls = w->rows[first[i]].annotations;
        wire_put_u64(out, ls.n);
        for (size_t k = 0; k < ls.n; k++) {
            wire_put_str(out, ls.v[k].name);
            wire_put_str(out, ls.v[k].value);
        }
    }
    if (sets > 0) wire_put_numbers(out, w->column, w->row_count);
    map_release(&index);
    mem_free(w->memory, first, w->row_cap * sizeof *first);
    return ok;
}

static void put_first_streams(struct block_writer *w, struct buf *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->row_count; i++)
        n += w->rows[i].has_first_stream;
    wire_put_u64(out, n);
    uint32_t next = 0;
    for (uint32_t i = 0; i < w->row_count; i++) {
        if (!w->rows[i].has_first_stream) continue;
        wire_put_u64(out, i - next);
        buf_put(out, w->rows[i].first_stream.b, sizeof(id128));
        next = i + 1;
    }
}

bool writer_details(struct block_writer *w, struct buf *out, size_t *split, err *e)
{
    put_columns(w, out);
    if (!put_annotations(w, out, e)) return false;
    put_first_streams(w, out);
    return writer_ids(w, out, split, e);
}

// ---- cutting frames
static struct buf *begin(struct block_writer *w)
{
    buf_clear(&w->contents);
    return &w->contents;
}

bool writer_frame_add(struct block_writer *w, struct writer_frames *f,
                      const struct block_frame *one, err *e)
{
    if (f->n == UINT32_MAX) return err_set(e, ERR_RESOURCE_EXHAUSTED, "there are too many frames");
    if (!mem_grow(w->memory, &f->v, &f->cap, (size_t)f->n + 1, sizeof *f->v, e)) return false;
    f->v[f->n++] = *one;
    return true;
}

bool writer_cut_vectors(struct block_writer *w, struct writer_vectors *v, err *e)
{
    if (v->count == 0) return true;
    struct block_frame one = {.count = v->count};
    struct writer_contents c = {0};
    if (!writer_vectors(w, v, begin(w), &c, e)) return false;
    v->count = 0;
    buf_clear(&v->bytes);
    return writer_section(w, &c, v->what, v->keep, &one.extent, e) &&
           writer_frame_add(w, &v->frames, &one, e);
}

bool writer_cut_totals(struct block_writer *w, err *e)
{
    if (w->total_count == 0) return true;
    struct block_frame one = {.count = w->total_count};
    struct buf *out = begin(w);
    writer_totals(w, out);
    w->total_count = 0;
    w->total_parts.n = 0;
    return writer_section_of(w, out, "totals", &w->s.kept_totals, &one.extent, e) &&
           writer_frame_add(w, &w->s.totals, &one, e);
}

static bool cut_spans(struct block_writer *w, const struct block_frame *run, err *e)
{
    struct block_frame one = *run;
    struct buf *out = begin(w);
    if (!block_spans_frame(&w->spans, out, e)) return false;
    if (out->n == 0) return buf_ok(out, e);
    one.first = w->s.heads.n;
    return writer_section_of(w, out, "spans", NULL, &one.extent, e) &&
           writer_frame_add(w, &w->s.spans, &one, e);
}

static bool cut_details(struct block_writer *w, const struct block_frame *run, err *e)
{
    struct block_frame one = *run;
    struct buf *out = begin(w);
    struct writer_contents c = {0};
    if (!writer_details(w, out, &c.splits[0], e) || !buf_ok(out, e)) return false;
    c.bytes = buf_view(out);
    return writer_section(w, &c, "details", NULL, &one.extent, e) &&
           writer_frame_add(w, &w->s.details, &one, e);
}

static bool cut_heads(struct block_writer *w, const struct block_frame *run, err *e)
{
    struct block_frame one = *run;
    struct buf *out = begin(w);
    writer_heads(w, out);
    return writer_section_of(w, out, "heads", &w->s.kept_heads, &one.extent, e) &&
           writer_frame_add(w, &w->s.heads, &one, e);
}

bool writer_cut_rows(struct block_writer *w, err *e)
{
    if (w->row_count == 0) return true;
    struct block_frame run = {.count = w->row_count,
                              .first_ns = w->rows[0].time_ns,
                              .last_ns = w->rows[0].time_ns};
    for (uint32_t i = 1; i < w->row_count; i++) {
        run.first_ns = MIN(run.first_ns, w->rows[i].time_ns);
        run.last_ns = MAX(run.last_ns, w->rows[i].time_ns);
    }
    if (!cut_spans(w, &run, e) || !cut_details(w, &run, e) || !cut_heads(w, &run, e)) return false;
    w->row_count = 0;
    w->row_parts.n = 0;
    arena_release(&w->row_arena);
    return true;
}
