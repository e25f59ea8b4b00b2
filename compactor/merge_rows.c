// SPDX-License-Identifier: Apache-2.0
//
// merge_rows.c - rows in, rows and nodes of class ALL out.
//
// Type by type, in two passes over the rows: the first writes their vectors, hour by hour, and adds
// up the nodes (prepare_type); the second writes the rows, series by series, with the new numbers
// of their vectors (write_group). At the end rows in are compared with rows out and copies.
#include "base/fault.h"
#include "compactor/merge_int.h"

#include <inttypes.h>

#define FIVES_AN_HOUR (size_t)(SLOT_HOUR / SLOT_FIVE)

// A node of fewer rows, or with more than half as many entries as their vectors have, is not worth
// its bytes: a query reads the rows.
#define CHILDREN_MIN 3
#define SAVES_MIN    2

// Leaves of days with fewer rows of a type in five minutes, on average, have nodes of hours.
#define FIVE_ROWS_MIN 32

// ---- labels

bool labels_without(struct service_merge *s, labels ls, const struct block_dropped_labels *dropped,
                    labels *out, err *e)
{
    label *v = ARENA_ARRAY(&s->arena, label, ls.n + 1);
    if (!v) return arena_fail(&s->arena, e);
    size_t n = 0;
    for (size_t i = 0; i < ls.n; i++) {
        if (!str_among(ls.v[i].name, dropped->v, dropped->n)) v[n++] = ls.v[i];
    }
    *out = (labels){v, n};
    return true;
}

static bool add_name(struct service_merge *s, str name, struct block_dropped_labels *all, err *e)
{
    uint32_t at = 0;
    while (at < all->n && str_cmp(all->v[at], name) < 0)
        at++;
    if (at < all->n && str_eq(all->v[at], name)) return true;
    str *v = ARENA_ARRAY(&s->arena, str, all->n + 1);
    if (!v) return arena_fail(&s->arena, e);
    for (uint32_t i = 0; i <= all->n; i++)
        v[i] = i < at ? all->v[i] : i == at ? name : all->v[i - 1];
    *all = (struct block_dropped_labels){v, all->n + 1};
    return true;
}

bool dropped_of(struct service_merge *s, str type, struct block_dropped_labels *out, err *e)
{
    *out = (struct block_dropped_labels){0};
    for (size_t i = 0; i < s->input_count; i++) {
        const struct block_index *x = &s->inputs[i].index;
        for (uint32_t t = 0; t < x->type_count; t++) {
            if (!str_eq(x->types[t], type)) continue;
            for (uint32_t k = 0; k < x->dropped[t].n; k++) {
                if (!add_name(s, x->dropped[t].v[k], out, e)) return false;
            }
        }
    }
    return true;
}

bool series_labels(struct service_merge *s, struct input *in, const struct block_key_ref *k,
                   labels *ls, bool *wanted, void *arg, err *e)
{
    (void)s;
    (void)in;
    (void)arg;
    (void)e;
    *wanted = k->class == BLOCK_SERIES;
    *ls = k->ls;
    return true;
}

// ---- rows out

struct five {
    struct merge_sums sums;
    uint64_t entries;  // of its rows
    bool spoiled;      // a sum does not fit 64 bits: no node is written, queries add up rows
};

// The sums of slots [lo, hi) of 5 minutes, counted from the first of the hour; or of the one slot
// that is the hour.
struct fives {
    struct five *v;
    int64_t width;
    int64_t first_slot;
    size_t lo;
    size_t hi;
};

static void fives_release(struct fives *f)
{
    for (size_t i = 0; i < f->hi - f->lo; i++)
        merge_sums_release(&f->v[i].sums);
    memset(f->v, 0, (f->hi - f->lo) * sizeof *f->v);
}

// Adds a row to its slot.
static bool add_five(struct service_merge *s, struct five *to, const struct merged_row *row,
                     const struct vector_entry *v, size_t n, err *e)
{
    struct merge_sums *sums = &to->sums;
    err fault = {0};
    assert(!to->spoiled);
    to->entries += n;
    if (!sums->sums && !merge_sums_init(sums, s->merge->memory, s->stack_count, e)) return false;
    if (merge_sums_add(sums, v, n, row->factor, &fault) &&
        merge_sums_note(sums, 1, row->total, row->time_ns, row->time_ns, &fault)) {
        return true;
    }
    // Not a failure of the job: a node only saves work, and the rows are written in any case.
    to->spoiled = true;
    merge_sums_release(sums);
    return true;
}

// One row before its key is written: its vector gets its new number, its slot the sum.
static bool prepare_row(struct service_merge *s, const struct merged_row *row, struct fives *f,
                        err *e)
{
    struct input *in = row->input;
    int64_t five = f ? slot_of(row->time_ns, f->width) - f->first_slot : -1;
    bool counts = f && five >= (int64_t)f->lo && five < (int64_t)f->hi &&
                  !f->v[five - (int64_t)f->lo].spoiled;
    // The number of a row's vector was not checked when details were parsed, as their parse does
    // not know how many vectors there are: input_row_vector refuses one that is too high.
    bool fresh = row->vector >= in->vector_count || in->vectors[row->vector] == 0;
    if (!fresh && !counts) return true;
    struct vector_entry *v = NULL;
    size_t n = 0;
    service_tidy(s);
    if (!input_row_vector(s, in, row->vector, &v, &n, e)) return false;
    if (fresh) {
        uint64_t number = 0;
        str columns = {0};
        if (!service_columns(s, v, n, &columns, e) ||
            !block_vector(s->writer, columns, &number, e)) {
            return false;
        }
        if (number >= UINT32_MAX - 1)
            return err_set(e, ERR_RESOURCE_EXHAUSTED, "too many vectors for one block");
        in->vectors[row->vector] = (uint32_t)number + 1;
    }
    return !counts || add_five(s, &f->v[(size_t)five - f->lo], row, v, n, e);
}

static bool prepare_group(struct service_merge *s, const struct key_group *g, struct fives *f,
                          err *e)
{
    struct row_merge m;
    struct merged_row row;
    bool more = true;
    if (g->v[0].key->sampled) f = NULL;  // not in nodes of ALL
    bool ok = row_merge_begin(&m, s, g, e);
    while (ok && (ok = row_merge_next(&m, &row, &more, e)) && more)
        ok = prepare_row(s, &row, f, e);
    row_merge_end(&m);
    return ok;
}

// The spans of a row with their vectors in new numbers; the scratch arena's.
static bool map_spans(struct service_merge *s, const struct merged_row *row, struct block_row *out,
                      err *e)
{
    const struct rows_frame *f = &row->input->rows;
    if (!f->spans || f->spans[row->place].n == 0) return true;
    const struct block_row_spans *from = &f->spans[row->place];
    struct block_span *to = ARENA_ARRAY(&s->scratch, struct block_span, from->n);
    if (!to) return arena_fail(&s->scratch, e);
    for (uint32_t i = 0; i < from->n; i++) {
        struct vector_entry *v = NULL;
        size_t n = 0;
        to[i] = from->v[i];
        if (!input_map(s, row->input, from->v[i].vector, &v, &n, e)) return false;
        str columns = {0};
        if (!service_columns(s, v, n, &columns, e)) return false;
        to[i].vector = arena_str(&s->scratch, columns);
    }
    out->spans = to;
    out->span_count = from->n;
    return arena_ok(&s->scratch, e);
}

static bool write_row(struct service_merge *s, const struct merged_row *row, err *e)
{
    const struct block_heads *h = &row->input->rows.heads;
    const struct block_details *d = &row->input->rows.details;
    size_t i = row->place;
    // Vectors were numbered hour by hour. A row outside of its block's hours, or out of order, was
    // in none of them, and its number was not even compared with how many there are.
    if (row->vector >= row->input->vector_count || row->input->vectors[row->vector] == 0) {
        return err_set(e, ERR_DATA_LOSS, "block %.*s: a row is out of order or of another hour",
                       STR(row->input->source->block.name));
    }
    struct block_row out = {.time_ns = row->time_ns,
                            .id = d->ids[i],
                            .total = row->total,
                            .vector = row->input->vectors[row->vector] - 1,
                            .factor = row->factor,
                            .duration_ns = d->durations ? d->durations[i] : 0,
                            .period = d->periods ? d->periods[i] : 0,
                            .attempt = h->attempts ? h->attempts[i] : 0};
    if (d->first_streams) {
        static const id128 nobody;
        out.first_stream = d->first_streams[i];
        out.has_first_stream = !id128_eq(out.first_stream, nobody);
    }
    if (d->annotations) out.annotations = d->annotations[i];
    service_tidy(s);
    return map_spans(s, row, &out, e) && block_row(s->writer, &out, e);
}

// Writes the rows of a series. If all are copies of rows that masks have, its key is not begun.
static bool write_group(struct service_merge *s, const struct key_group *g, err *e)
{
    struct row_merge m;
    struct merged_row row;
    bool more = true;
    bool begun = false;
    bool ok = row_merge_begin(&m, s, g, e);
    while (ok && (ok = row_merge_next(&m, &row, &more, e)) && more) {
        if (FAULT_ERRNO("compact.row.lost")) continue;  // tests see that check_rows finds it
        if (!begun) ok = block_key(s->writer, BLOCK_SERIES, key_type(&g->v[0]), g->v[0].ls, e);
        begun = true;
        s->rows_out++;
        ok = ok && write_row(s, &row, e);
    }
    s->rows_out += m.duplicates + m.hidden;
    s->merge->duplicates += m.duplicates;
    s->merge->hidden += m.hidden;
    if (g->v[0].key->sampled) {
        s->merge->sampled_duplicates += m.duplicates;
        s->merge->sampled_hidden += m.hidden;
    }
    row_merge_end(&m);
    return ok;
}

static bool write_fives(struct service_merge *s, struct fives *f, str type, bool *begun, err *e)
{
    assert(f->lo <= f->hi && f->hi <= FIVES_AN_HOUR);
    for (size_t i = f->lo; i < f->hi; i++) {
        struct merge_sums *sums = &f->v[i - f->lo].sums;
        struct vector_entry *v = NULL;
        size_t n = 0;
        if (!sums->sums || sums->profiles < CHILDREN_MIN) continue;
        const struct block_node node = {.slot = f->first_slot + (int64_t)i,
                                        .width = f->width,
                                        .profiles = sums->profiles,
                                        .total = sums->total,
                                        .first_ns = sums->first_ns,
                                        .last_ns = sums->last_ns};
        service_tidy(s);
        if (!merge_sums_take(sums, &s->scratch, &v, &n, e)) return false;
        if (n * SAVES_MIN > f->v[i - f->lo].entries) continue;
        if (!*begun && !block_key(s->writer, BLOCK_ALL, type, (labels){0}, e)) return false;
        *begun = true;
        str columns = {0};
        if (!service_columns(s, v, n, &columns, e) || !block_node(s->writer, &node, columns, e))
            return false;
    }
    return true;
}

// As many slots at once as a quarter of the memory allows. The sums of a slot are dense, 8 bytes
// for each stack of the service, so a service of a million stacks takes 8 MB for each slot. With
// fewer slots at once the rows of the hour are read once for each lot of them.
static size_t fives_at_once(const struct service_merge *s, size_t all)
{
    size_t limit = atomic_load(&s->merge->memory->limit);
    if (limit == 0) return all;
    size_t fit = limit / 4 / ((size_t)s->stack_count * sizeof(int64_t) + sizeof(struct five));
    return fit < 1 ? 1 : MIN(fit, all);
}

// How wide the nodes of a type are. Of a day with few rows they are of hours: there may be no other
// hour nodes of ALL, and rows of the hour that an edge cuts are few.
static int64_t width_of_nodes(const struct service_merge *s, size_t from, size_t to, uint32_t hours)
{
    uint64_t rows = 0;
    for (size_t i = from; i < to; i++) {
        const struct block_key_ref *k = s->keys[i].key;
        if (!s->keys[i].input->source->mask && !k->sampled) rows += k->row_count;
    }
    return hours > 1 && rows < (uint64_t)FIVE_ROWS_MIN * FIVES_AN_HOUR * hours ? SLOT_HOUR
                                                                               : SLOT_FIVE;
}

// The rows of one hour before they are written, with nodes of a width.
static bool prepare_hour(struct service_merge *s, size_t from, size_t to, int64_t width,
                         bool *begun, err *e)
{
    const bool leaf = s->merge->what == MERGE_LEAF;
    assert(from < to && to <= s->key_count && s->merge->hours == 1);
    assert(width == SLOT_HOUR || width == SLOT_FIVE);
    const size_t all = leaf ? (size_t)(SLOT_HOUR / width) : 1;
    const size_t step = leaf ? fives_at_once(s, all) : all;
    struct five v[FIVES_AN_HOUR] = {0};
    struct fives f = {.v = v,
                      .width = width,
                      .first_slot = s->merge->from_hour * (SLOT_HOUR / width)};
    str type = key_type(&s->keys[from]);
    bool ok = true;
    for (size_t lo = 0; ok && lo < all; lo += step) {
        f.lo = lo;
        f.hi = MIN(lo + step, all);
        for (size_t at = from; ok && at < to;) {
            struct key_group g = service_group(s, &at);
            ok = prepare_group(s, &g, leaf ? &f : NULL, e);
        }
        ok = ok && (!leaf || write_fives(s, &f, type, begun, e));
        fives_release(&f);
    }
    return ok;
}

// The vectors of a day lie hour by hour, though its rows lie by series: a query for the edge of a
// range then reads the vectors of one hour.
static bool prepare_type(struct service_merge *s, size_t from, size_t to, err *e)
{
    struct block_merge *m = s->merge;
    const int64_t first = m->from_hour;
    const uint32_t hours = m->hours;
    const int64_t width = width_of_nodes(s, from, to, hours);
    bool begun = false;
    bool ok = true;
    // row_merge_begin leaves out the rows of other hours than the merge's: for each pass these are
    // one hour, and after the last one all of the block again, for write_group.
    m->hours = 1;
    for (uint32_t i = 0; ok && i < hours; i++) {
        m->from_hour = first + i;
        ok = req_alive(m->req, e) && prepare_hour(s, from, to, width, &begun, e) &&
             (hours == 1 || block_vectors_apart(s->writer, e));
    }
    m->from_hour = first;
    m->hours = hours;
    return ok;
}

// The rows that are to be written or known as copies, as the sources' indexes have them.
static uint64_t rows_in(const struct service_merge *s)
{
    const struct block_merge *m = s->merge;
    uint64_t n = 0;
    for (size_t i = 0; m->parts > 1 && i < s->key_count; i++)
        n += s->keys[i].input->source->mask ? 0 : s->keys[i].key->row_count;
    for (size_t i = 0; m->parts < 2 && i < s->input_count; i++) {
        const struct input *in = &s->inputs[i];
        for (uint32_t k = 0; !in->source->mask && k < in->index.key_count; k++)
            n += in->index.keys[k].row_count;
    }
    return n;
}

// Are all rows of the sources merged, not only those of some of their hours?
static bool takes_all(const struct service_merge *s)
{
    const struct block_merge *m = s->merge;
    for (size_t i = 0; i < s->input_count; i++) {
        const struct block_about *about = &s->inputs[i].source->block.footer.about;
        int64_t end = about->from_hour + (int64_t)about->hours;
        if (about->from_hour < m->from_hour || end > m->from_hour + (int64_t)m->hours) return false;
    }
    return true;
}

static bool check_rows(struct service_merge *s, err *e)
{
    if (!takes_all(s) || s->rows_out == rows_in(s)) return true;
    s->merge->miscounted = true;
    return err_set(e, ERR_INTERNAL,
                   "the sources have %" PRIu64 " rows, %" PRIu64 " were written or were copies",
                   rows_in(s), s->rows_out);
}

bool merge_rows(struct service_merge *s, err *e)
{
    assert(s->merge->what == MERGE_ROWS || s->merge->what == MERGE_LEAF);
    if (!service_keys(s, series_labels, NULL, e)) return false;
    for (size_t from = 0; from < s->key_count;) {
        size_t to = service_type_end(s, from);
        struct block_dropped_labels dropped = {0};
        str type = key_type(&s->keys[from]);
        bool leaf = s->merge->what == MERGE_LEAF;
        // A leaf decides which labels projections leave out; an intermediate file hands on what
        // its sources say.
        if (!(leaf ? churn_find(&s->arena, s->keys + from, to - from, &dropped, e)
                   : dropped_of(s, type, &dropped, e)) ||
            !block_dropped(s->writer, type, dropped.v, dropped.n, e)) {
            return false;
        }
        if (!prepare_type(s, from, to, e)) return false;
        for (size_t at = from; at < to;) {
            struct key_group g = service_group(s, &at);
            if (!write_group(s, &g, e)) return false;
        }
        from = to;
    }
    return check_rows(s, e);
}
