// SPDX-License-Identifier: Apache-2.0
//
// batch.c - writes and reads messages Batch and Record. The reader passes over the message twice:
// once for the tables that records refer to and the number of records, then for the records.
#include "model/batch.h"

#include "codec/pb.h"
#include "model/vector.h"

// ---- writing

static str bytes_of(const uint8_t b[16])
{
    return str_make(b, 16);
}

static size_t span_bytes(const struct span_part *s)
{
    size_t id = s->span_id ? 9 : 0;
    size_t trace = s->has_trace ? 18 : 0;
    size_t vector = s->vector.n ? 1 + varint_size(s->vector.n) + s->vector.n : 0;
    return id + trace + vector;
}

static uint8_t *put_span(uint8_t *at, const struct span_part *s)
{
    at = pb_raw_head(at, 11, span_bytes(s));
    at = pb_raw_fixed64_opt(at, 1, s->span_id);
    if (s->has_trace) at = pb_raw_bytes(at, 2, bytes_of(s->trace_id));
    return pb_raw_bytes_opt(at, 3, s->vector);
}

// An upper bound of a record's bytes without its annotations: room is made once for each record.
static size_t record_room(const struct record *r)
{
    size_t room = (size_t)16 * PB_RAW_MAX + 2 * sizeof r->id + r->vector.n;
    for (uint32_t i = 0; i < r->span_count; i++)
        room += (size_t)4 * PB_RAW_MAX + sizeof r->spans[i].trace_id + r->spans[i].vector.n;
    return room;
}

static void put_record(struct buf *out, const struct record *r, uint64_t fingerprint)
{
    bool sibling = r->sibling != RECORD_NO_SIBLING;
    size_t mark = pb_begin(out, 4);
    char *room = buf_reserve(out, record_room(r));
    if (!room) return;  // the buf stays failed, and batch_encode asks it at its end
    uint8_t *at = (uint8_t *)room;
    at = pb_raw_u64_opt(at, 1, r->series);
    at = pb_raw_fixed64_opt(at, 2, fingerprint);
    at = pb_raw_fixed64_opt(at, 3, (uint64_t)r->time_ns);
    at = pb_raw_bytes(at, 4, bytes_of(r->id.b));
    at = pb_raw_u64_opt(at, 5, (uint64_t)r->duration_ns);
    at = pb_raw_u64_opt(at, 6, (uint64_t)r->period);
    at = pb_raw_bytes_opt(at, 7, r->vector);
    if (sibling) {
        at = pb_raw_u64(at, 8, (uint64_t)r->sibling + 1);
        at = pb_raw_u64_opt(at, 9, zigzag(r->factor));
    }
    at = pb_raw_u64_opt(at, 10, zigzag(r->total));
    for (uint32_t i = 0; i < r->span_count; i++)
        at = put_span(at, &r->spans[i]);
    at = pb_raw_u64_opt(at, 12, r->attempt);
    if (r->has_first_stream) at = pb_raw_bytes(at, 13, bytes_of(r->first_stream.b));
    at = pb_raw_u64_opt(at, 15, r->identified);
    out->n += (size_t)((char *)at - room);
    labels_put((labels){r->annotations, r->annotation_count}, out, 14);
    pb_end(out, mark);
}

// The counts with their field numbers; reader and writer both walk this list.
static const size_t had_fields[] = {
    offsetof(struct symbol_counts, strings),  offsetof(struct symbol_counts, functions),
    offsetof(struct symbol_counts, mappings), offsetof(struct symbol_counts, frames),
    offsetof(struct symbol_counts, stacks),
};
#define HAD_FIRST    2
#define LEXICON_ROWS 7

static bool put_lexicon(const struct batch *b, struct buf *out, err *e)
{
    size_t mark = pb_begin(out, 5);
    pb_put_bytes(out, 1, bytes_of(b->lexicon.b));
    for (uint32_t i = 0; i < COUNT(had_fields); i++) {
        uint32_t had = 0;
        memcpy(&had, (const char *)&b->had + had_fields[i], sizeof had);
        assert(had >= 1);  // row 0 is in every table
        pb_put_u64_opt(out, HAD_FIRST + i, had - 1);
    }
    size_t rows = pb_begin(out, LEXICON_ROWS);
    if (!symbols_encode_rest(&b->symbols, &b->had, out, e)) return false;
    pb_end(out, rows);
    pb_end(out, mark);
    return true;
}

static bool put_symbols(const struct batch *b, struct arena *scratch, struct buf *out, err *e)
{
    if (b->has_lexicon) return true;
    size_t mark = pb_begin(out, 3);
    if (!symbols_encode(&b->symbols, NULL, scratch, NULL, out, e)) return false;
    pb_end(out, mark);
    return true;
}

bool batch_encode(const struct batch *b, struct arena *scratch, struct buf *out, err *e)
{
    // Records carry the fingerprint of their series: a reader sees if the two do not belong
    // together.
    uint64_t *fingerprints = ARENA_ARRAY(scratch, uint64_t, b->series_count);
    if (!fingerprints) return arena_fail(scratch, e);
    pb_put_bytes_opt(out, 1, b->service);
    for (uint32_t i = 0; i < b->series_count; i++) {
        size_t mark = pb_begin(out, 2);
        labels_put(b->series[i], out, 1);
        pb_end(out, mark);
        fingerprints[i] = labels_fingerprint(b->series[i]);
    }
    if (!put_symbols(b, scratch, out, e)) return false;
    for (uint32_t i = 0; i < b->record_count; i++) {
        const struct record *r = &b->records[i];
        assert(r->series < b->series_count);
        assert(r->sibling == RECORD_NO_SIBLING || r->sibling < i);
        put_record(out, r, fingerprints[r->series]);
    }
    if (b->has_lexicon && !put_lexicon(b, out, e)) return false;
    return buf_ok(out, e);
}

// ---- reading

// A field with the wire type that the schema gives it; with another it is unknown and skipped.
#define AT(field, type) ((field) << 3 | (unsigned)(type))

static unsigned at(const struct pb_reader *r)
{
    return AT(r->field, r->type);
}

// How often a field of bytes occurs in a message, up to a fault. The reader that fills an array of
// this size stops at the same fault, and reports it.
static uint32_t occurrences(str message, uint32_t field)
{
    uint32_t n = 0;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r))
        n += r.field == field && r.type == PB_BYTES;
    return n;
}

static bool read_pair(str bytes, label *l, err *e)
{
    *l = (label){0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (at(&r) == AT(1, PB_BYTES)) l->name = r.bytes;
        if (at(&r) == AT(2, PB_BYTES)) l->value = r.bytes;
    }
    if (!pb_done(&r, e)) return false;
    if (str_utf8(l->name) && str_utf8(l->value)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "a label is not UTF-8");
}

static bool read_series(struct arena *a, str bytes, labels *out, err *e)
{
    uint32_t n = occurrences(bytes, 1);
    label *v = ARENA_ARRAY(a, label, n);
    if (!v) return arena_fail(a, e);
    *out = (labels){.v = v};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (at(&r) != AT(1, PB_BYTES)) continue;
        label *l = &v[out->n];
        if (!read_pair(r.bytes, l, e)) return false;
        if (l->name.n == 0 || l->value.n == 0) {
            return err_set(e, ERR_INVALID_ARGUMENT, "a label has no name or no value");
        }
        if (out->n > 0 && str_cmp(l[-1].name, l->name) >= 0) {
            return err_set(e, ERR_INVALID_ARGUMENT, "labels are not in order: %.*s",
                           STR(str_slice(l->name, 0, 200)));
        }
        out->n++;
    }
    if (!pb_done(&r, e)) return false;
    return out->n > 0 || err_set(e, ERR_INVALID_ARGUMENT, "there are no labels");
}

static bool read_id(str bytes, uint8_t id[16], const char *name, err *e)
{
    if (bytes.n != 16) {
        return err_set(e, ERR_INVALID_ARGUMENT, "%s has %zu bytes instead of 16", name, bytes.n);
    }
    memcpy(id, bytes.p, 16);
    return true;
}

static bool read_span(str bytes, uint32_t stack_count, struct span_part *s, err *e)
{
    *s = (struct span_part){0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (at(&r) == AT(1, PB_FIXED64)) s->span_id = r.number;
        if (at(&r) == AT(2, PB_BYTES)) {
            s->has_trace = r.bytes.n > 0;
            if (s->has_trace && !read_id(r.bytes, s->trace_id, "a trace id", e)) return false;
        }
        if (at(&r) == AT(3, PB_BYTES)) s->vector = r.bytes;
    }
    int64_t total = 0;
    if (!pb_done(&r, e)) return false;
    return vector_check(s->vector, stack_count, &total, e) || err_wrap(e, "a span");
}

struct reader {
    struct arena *arena;
    struct batch *b;
    err *e;
};

static bool narrow(struct reader *x, uint64_t v, const char *name, uint32_t *out)
{
    *out = (uint32_t)v;
    if (v <= UINT32_MAX) return true;
    return err_set(x->e, ERR_INVALID_ARGUMENT, "%s %llu does not fit 32 bits", name,
                   (unsigned long long)v);
}

// Claims of a record that are compared with the batch once the whole record is read.
struct claims {
    uint64_t fingerprint;
    uint32_t sibling_ref;
    bool has_id;
};

static bool read_field(struct reader *x, const struct pb_reader *r, struct record *rec,
                       struct claims *c)
{
    switch (at(r)) {
    case AT(1, PB_VARINT):
        return narrow(x, r->number, "series", &rec->series);
    case AT(2, PB_FIXED64):
        c->fingerprint = r->number;
        return true;
    case AT(3, PB_FIXED64):
        rec->time_ns = (int64_t)r->number;
        return true;
    case AT(4, PB_BYTES):
        c->has_id = true;
        return read_id(r->bytes, rec->id.b, "the id", x->e);
    case AT(5, PB_VARINT):
        rec->duration_ns = (int64_t)r->number;
        return true;
    case AT(6, PB_VARINT):
        rec->period = (int64_t)r->number;
        return true;
    case AT(7, PB_BYTES):
        rec->vector = r->bytes;
        return true;
    case AT(8, PB_VARINT):
        return narrow(x, r->number, "sibling", &c->sibling_ref);
    case AT(9, PB_VARINT):
        rec->factor = unzigzag(r->number);
        return true;
    case AT(10, PB_VARINT):
        rec->total = unzigzag(r->number);
        return true;
    case AT(11, PB_BYTES):
        assert(rec->spans);  // sized by occurrences()
        return read_span(r->bytes, batch_stacks(x->b), &rec->spans[rec->span_count++], x->e);
    case AT(12, PB_VARINT):
        return narrow(x, r->number, "attempt", &rec->attempt);
    case AT(13, PB_BYTES):
        rec->has_first_stream = r->bytes.n > 0;
        if (!rec->has_first_stream) return true;
        return read_id(r->bytes, rec->first_stream.b, "the first stream", x->e);
    case AT(14, PB_BYTES):
        assert(rec->annotations);
        return read_pair(r->bytes, &rec->annotations[rec->annotation_count++], x->e);
    case AT(15, PB_VARINT):
        rec->identified = r->number != 0;
        return true;
    default:
        return true;
    }
}

static bool check_values(struct reader *x, struct record *rec, const struct claims *c)
{
    int64_t total = 0;
    if (c->sibling_ref == 0) {
        if (!vector_check(rec->vector, batch_stacks(x->b), &total, x->e)) return false;
    } else {
        // Its vector is the sibling's times the factor. Only of records before it, and never of
        // another sibling: so one step finds the vector, and nothing goes round in circles.
        rec->sibling = c->sibling_ref - 1;
        const struct record *sibling =
            rec->sibling < x->b->record_count ? &x->b->records[rec->sibling] : NULL;
        if (!sibling || sibling->sibling != RECORD_NO_SIBLING) {
            return err_set(x->e, ERR_INVALID_ARGUMENT,
                           "sibling %u is no earlier record with a vector", rec->sibling);
        }
        if (rec->vector.n > 0 || rec->factor == 0) {
            return err_set(x->e, ERR_INVALID_ARGUMENT,
                           "a sibling's factor and a vector exclude "
                           "each other, and the factor is not 0");
        }
        if (__builtin_mul_overflow(sibling->total, rec->factor, &total)) {
            return err_set(x->e, ERR_INVALID_ARGUMENT, "the sibling's total times %lld overflows",
                           (long long)rec->factor);
        }
    }
    if (total == rec->total) return true;
    return err_set(x->e, ERR_INVALID_ARGUMENT, "total is %lld, the sum of the values %lld",
                   (long long)rec->total, (long long)total);
}

// b->record_count is the number of records that were read before this one.
static bool read_record(struct reader *x, str bytes, struct record *rec)
{
    struct batch *b = x->b;
    struct claims c = {0};
    *rec = (struct record){.sibling = RECORD_NO_SIBLING};
    // Counted first, so that each array is allocated once and a record cannot grow it step by step.
    uint32_t spans = occurrences(bytes, 11);
    uint32_t annotations = occurrences(bytes, 14);
    if (spans) rec->spans = ARENA_ARRAY(x->arena, struct span_part, spans);
    if (annotations) rec->annotations = ARENA_ARRAY(x->arena, label, annotations);
    if (!arena_ok(x->arena, x->e)) return false;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (!read_field(x, &r, rec, &c)) return false;
    }
    if (!pb_done(&r, x->e)) return false;
    if (!c.has_id) return err_set(x->e, ERR_INVALID_ARGUMENT, "there is no id");
    if (rec->series >= b->series_count) {
        return err_set(x->e, ERR_INVALID_ARGUMENT, "series %u is not below %u", rec->series,
                       b->series_count);
    }
    if (c.fingerprint != b->fingerprints[rec->series]) {
        return err_set(x->e, ERR_INVALID_ARGUMENT, "the fingerprint is not that of series %u",
                       rec->series);
    }
    return check_values(x, rec, &c);
}

static bool read_lexicon(struct reader *x, str bytes)
{
    struct batch *b = x->b;
    str rows = {0};
    bool has_id = false;
    bool has_rows = false;
    b->has_lexicon = true;
    b->had = (struct symbol_counts){1, 1, 1, 1, 1};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (at(&r) == AT(1, PB_BYTES)) {
            if (!read_id(r.bytes, b->lexicon.b, "its id", x->e)) return false;
            has_id = true;
        }
        if (at(&r) == AT(LEXICON_ROWS, PB_BYTES)) {
            if (has_rows) return err_set(x->e, ERR_INVALID_ARGUMENT, "its rows occur twice");
            rows = r.bytes;
            has_rows = true;
        }
        if (r.type != PB_VARINT || r.field - HAD_FIRST >= COUNT(had_fields)) continue;
        uint32_t had = 0;
        if (r.number >= UINT32_MAX) {
            return err_set(x->e, ERR_INVALID_ARGUMENT, "a table has %llu rows",
                           (unsigned long long)r.number);
        }
        had = (uint32_t)r.number + 1;
        memcpy((char *)&b->had + had_fields[r.field - HAD_FIRST], &had, sizeof had);
    }
    if (!pb_done(&r, x->e)) return false;
    if (!has_id) return err_set(x->e, ERR_INVALID_ARGUMENT, "there is no id");
    return symbols_decode_rest(x->arena, rows, &b->had, &b->symbols, x->e);
}

// The first pass: everything that records refer to, in whatever order the fields come.
static bool read_tables(struct reader *x, str bytes, uint32_t *records)
{
    struct batch *b = x->b;
    str symbols = {0};
    str lexicon = {0};
    bool has_symbols = false;
    bool has_lexicon = false;
    uint32_t series = occurrences(bytes, 2);
    b->series = ARENA_ARRAY(x->arena, labels, series);
    b->fingerprints = ARENA_ARRAY(x->arena, uint64_t, series);
    if (!arena_ok(x->arena, x->e)) return false;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        switch (at(&r)) {
        case AT(1, PB_BYTES):
            b->service = r.bytes;
            break;
        case AT(2, PB_BYTES):
            if (!read_series(x->arena, r.bytes, &b->series[b->series_count], x->e)) {
                return err_wrap(x->e, "series %u", b->series_count);
            }
            b->fingerprints[b->series_count] = labels_fingerprint(b->series[b->series_count]);
            b->series_count++;
            break;
        case AT(3, PB_BYTES):
            if (has_symbols) return err_set(x->e, ERR_INVALID_ARGUMENT, "symbols occur twice");
            symbols = r.bytes;
            has_symbols = true;
            break;
        case AT(4, PB_BYTES):
            ++*records;
            break;
        case AT(5, PB_BYTES):
            if (has_lexicon) return err_set(x->e, ERR_INVALID_ARGUMENT, "a lexicon occurs twice");
            lexicon = r.bytes;
            has_lexicon = true;
            break;
        default:
            break;
        }
    }
    if (!pb_done(&r, x->e)) return false;
    if (!str_utf8(b->service)) return err_set(x->e, ERR_INVALID_ARGUMENT, "service is not UTF-8");
    if (!has_lexicon) return symbols_decode(x->arena, symbols, &b->symbols, x->e);
    if (has_symbols) {
        return err_set(x->e, ERR_INVALID_ARGUMENT, "symbols and a lexicon exclude each other");
    }
    return read_lexicon(x, lexicon) || err_wrap(x->e, "lexicon");
}

static bool read_records(struct reader *x, str bytes, uint32_t records)
{
    struct batch *b = x->b;
    b->records = ARENA_ARRAY(x->arena, struct record, records);
    if (!b->records) return arena_fail(x->arena, x->e);
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (at(&r) != AT(4, PB_BYTES)) continue;
        if (!read_record(x, r.bytes, &b->records[b->record_count])) {
            return err_wrap(x->e, "record %u", b->record_count);
        }
        b->record_count++;
    }
    return pb_done(&r, x->e);
}

bool batch_decode(struct arena *a, str bytes, struct batch *b, err *e)
{
    *b = (struct batch){0};
    struct reader x = {.arena = a, .b = b, .e = e};
    uint32_t records = 0;
    if (read_tables(&x, bytes, &records) && read_records(&x, bytes, records)) return true;
    return err_wrap(e, "batch");
}
