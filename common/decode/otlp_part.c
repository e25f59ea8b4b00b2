// SPDX-License-Identifier: Apache-2.0
//
// otlp_part.c - from samples and rows of the dictionary to a profile. It has the locations,
// functions and mappings that its own samples use, each once.
#include "base/ulid.h"
#include "decode/otlp_int.h"
#include "decode/quick.h"
#include "decode/symbol.h"
#include "model/marks.h"
#include "model/symbols.h"

#define NOT_IN_TABLE UINT32_MAX  // where a row comes from that is not the dictionary's
#define TRACE_BYTES  16
#define SPAN_BYTES   8

// May quick.h read this message of the request?
static bool has_slack(const struct otlp *d, str message)
{
    return (size_t)(d->all.p + d->all.n - (message.p + message.n)) >= QUICK_SLACK;
}

// A message of numbers: v[field] for fields up to 4, zero for those that are not there. False if it
// has others.
static bool read_numbers(const struct otlp *d, str message, uint64_t v[5])
{
    const uint8_t *at = (const uint8_t *)message.p;
    memset(v, 0, 5 * sizeof *v);
    return message.n && has_slack(d, message) && quick_numbers(at, at + message.n, v, 4);
}

static bool full(const struct otlp_part *x, err *e)
{
    return arena_fail(x->a, e);
}

// A row for `idx` in two columns that grow together: the rows, and where they come from.
#define ROW(x, rows, count, cap, from, from_cap)                                 \
    (arena_grow((x)->a, &(rows), &(cap), (size_t)(count) + 1, sizeof *(rows)) && \
     arena_grow((x)->a, &(from), &(from_cap), (size_t)(count) + 1, sizeof *(from)))

static bool text(struct otlp_part *x, uint64_t idx, str *s, err *e)
{
    // Index 0 means that there is none, whether the table has its row or not.
    if (idx == 0 && x->d->tables[OTLP_STRINGS].n == 0) return true;
    if (idx >= x->d->tables[OTLP_STRINGS].n) {
        x->odd = true;
        return true;
    }
    if (!otlp_string(x->d, idx, s, e)) return false;
    losses_add(&x->p->losses, LOSS_SYMBOL_LENGTH, symbol_is_long(*s, x->d->o.symbol_max));
    *s = symbol_cut(*s, x->d->o.symbol_max);
    if (x->p->language_hint.n == 0 && decode_language(*s).n) x->p->language_hint = *s;
    return true;
}

// ---- mappings

// The build ID that debuggers know; else one of those that agents compute themselves.
static bool read_build_id(struct otlp_part *x, struct pb_reader *r, str *id, int *rank, err *e)
{
    static const str keys[] = {S_INIT("process.executable.build_id.gnu"),
                               S_INIT("process.executable.build_id.go"),
                               S_INIT("process.executable.build_id.htlhash")};
    const uint8_t *at = NULL;
    uint64_t idx = 0;
    while (pb_packed_next(r, &at, &idx)) {
        const struct otlp_attribute *one = otlp_attribute(x->d, idx, e);
        if (!one) return false;
        for (int i = 0; i < *rank; i++) {
            if (!str_eq(one->l.name, keys[i]) || one->l.value.n == 0) continue;
            *id = one->l.value;
            *rank = i;
        }
    }
    return pb_done(r, e);
}

static bool read_mapping(struct otlp_part *x, str row, struct profile_mapping *m, err *e)
{
    int rank = 3;
    struct pb_reader r = pb_reader(row);
    while (pb_next(&r)) {
        bool number = r.type == PB_VARINT;
        if (r.field == 1 && number) m->start = r.number;
        if (r.field == 2 && number) m->limit = r.number;
        if (r.field == 3 && number) m->offset = r.number;
        if (r.field == 4 && number && !text(x, r.number, &m->filename, e)) return false;
        if (r.field == 5 && (number || r.type == PB_BYTES) &&
            !read_build_id(x, &r, &m->build_id, &rank, e)) {
            return false;
        }
    }
    return pb_done(&r, e);
}

// A mapping takes two rows, because its flags say of all its locations whether they have functions:
// the first row is for those that have, the second for the others.
static bool mapping_of(struct otlp_part *x, uint64_t idx, bool named, uint32_t *out, err *e)
{
    struct otlp *d = x->d;
    struct profile *p = x->p;
    str row = {0};
    if (idx >= d->tables[OTLP_MAPPINGS].n) {
        x->odd |= idx != 0;
        *out = PROFILE_NONE;
        return true;
    }
    if (!otlp_row(d, OTLP_MAPPINGS, idx, &row, e)) return false;
    if (d->mapping_rows[idx] == 0) {
        struct profile_mapping m = {0};
        if (!read_mapping(x, row, &m, e)) return false;
        for (int i = 0; i < 2; i++) {
            if (!ROW(x, p->mappings, p->mapping_count, x->mapping_cap, x->mappings,
                     x->mapping_of_cap)) {
                return full(x, e);
            }
            m.flags = i == 0 ? SYMBOL_HAS_FUNCTIONS : 0;
            x->mappings[p->mapping_count] = (uint32_t)idx;
            p->mappings[p->mapping_count++] = m;
        }
        d->mapping_rows[idx] = p->mapping_count - 1;
    }
    *out = d->mapping_rows[idx] - 1 + !named;
    return true;
}

// ---- functions and lines

static bool read_function(struct otlp_part *x, str row, struct profile_function *f, err *e)
{
    uint64_t v[5];
    if (read_numbers(x->d, row, v)) {
        f->start_line = (int64_t)v[4];
        return text(x, v[1], &f->name, e) && text(x, v[2], &f->system_name, e) &&
               text(x, v[3], &f->filename, e);
    }
    struct pb_reader r = pb_reader(row);
    while (pb_next(&r)) {
        if (r.type != PB_VARINT) continue;
        if (r.field == 1 && !text(x, r.number, &f->name, e)) return false;
        if (r.field == 2 && !text(x, r.number, &f->system_name, e)) return false;
        if (r.field == 3 && !text(x, r.number, &f->filename, e)) return false;
        if (r.field == 4) f->start_line = (int64_t)r.number;
    }
    return pb_done(&r, e);
}

static bool function_of(struct otlp_part *x, uint64_t idx, uint32_t *out, err *e)
{
    struct otlp *d = x->d;
    struct profile *p = x->p;
    str row = {0};
    if (!otlp_row(d, OTLP_FUNCTIONS, idx, &row, e)) return false;
    if (d->function_rows[idx] == 0) {
        struct profile_function f = {0};
        if (!read_function(x, row, &f, e)) return false;
        if (!ROW(x, p->functions, p->function_count, x->function_cap, x->functions,
                 x->function_of_cap)) {
            return full(x, e);
        }
        x->functions[p->function_count] = (uint32_t)idx;
        p->functions[p->function_count++] = f;
        d->function_rows[idx] = p->function_count;
    }
    *out = d->function_rows[idx] - 1;
    return true;
}

// The row of a function that stands for one that is not in the dictionary.
static bool unknown_function(struct otlp_part *x, uint32_t *out, err *e)
{
    struct profile *p = x->p;
    if (x->unknown_function == 0) {
        if (!ROW(x, p->functions, p->function_count, x->function_cap, x->functions,
                 x->function_of_cap)) {
            return full(x, e);
        }
        x->functions[p->function_count] = NOT_IN_TABLE;
        p->functions[p->function_count] = (struct profile_function){.name = S(STACK_UNKNOWN_NAME)};
        x->unknown_function = ++p->function_count;
    }
    *out = x->unknown_function - 1;
    return true;
}

static bool put_line(struct otlp_part *x, struct profile_line line, struct profile_location *l,
                     err *e)
{
    struct profile *p = x->p;
    if (!arena_grow(x->a, &p->lines, &x->line_cap, (size_t)p->line_count + 1, sizeof *p->lines)) {
        return full(x, e);
    }
    p->lines[p->line_count++] = line;
    l->line_count++;
    return true;
}

static bool add_line(struct otlp_part *x, str message, struct profile_location *l, err *e)
{
    struct profile *p = x->p;
    struct profile_line line = {0};
    uint64_t function = 0;
    uint64_t v[5];
    struct pb_reader r = pb_reader(message);
    if (read_numbers(x->d, message, v)) {
        function = v[1];
        line.line = (int64_t)v[2];
        r.at = r.end;
    }
    while (pb_next(&r)) {
        if (r.type != PB_VARINT) continue;
        if (r.field == 1) function = r.number;
        if (r.field == 2) line.line = (int64_t)r.number;
    }
    if (!pb_done(&r, e)) return false;
    if (function >= x->d->tables[OTLP_FUNCTIONS].n) {
        x->odd = true;  // the frame has its address, or is unknown
        return true;
    }
    if (!function_of(x, function, &line.function, e)) return false;
    // The zero value of the table: there is no function, so the frame has its address only.
    if (function == 0 && p->functions[line.function].name.n == 0) return true;
    return put_line(x, line, l, e);
}

// ---- locations

// A location that has lost its lines, and has no address, is unknown.
static bool add_unknown_line(struct otlp_part *x, struct profile_location *l, err *e)
{
    struct profile_line line = {0};
    return unknown_function(x, &line.function, e) && put_line(x, line, l, e);
}

static bool read_location(struct otlp_part *x, str row, struct profile_location *l, err *e)
{
    uint64_t mapping = 0;
    struct pb_reader r = pb_reader(row);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_VARINT) mapping = r.number;
        if (r.field == 2 && r.type == PB_VARINT) l->address = r.number;
        if (r.field == 3 && r.type == PB_BYTES && !add_line(x, r.bytes, l, e)) return false;
    }
    if (!pb_done(&r, e)) return false;
    if (x->odd && l->line_count == 0 && l->address == 0 && !add_unknown_line(x, l, e)) return false;
    return mapping_of(x, mapping, l->line_count > 0, &l->mapping, e);
}

// A row for a location; *unknown is its mark.
static bool put_location(struct otlp_part *x, const struct profile_location *l, uint32_t from,
                         err *e)
{
    struct profile *p = x->p;
    if (!ROW(x, p->locations, p->location_count, x->location_cap, x->locations,
             x->location_of_cap) ||
        !arena_grow(x->a, &x->unknown, &x->unknown_cap, (size_t)p->location_count + 1,
                    sizeof *x->unknown)) {
        return full(x, e);
    }
    x->locations[p->location_count] = from;
    x->unknown[p->location_count] = x->odd;
    p->locations[p->location_count++] = *l;
    return true;
}

// The row + 1 of a location that stands for those that are not in the dictionary.
static bool unknown_location(struct otlp_part *x, uint32_t *out, err *e)
{
    if (x->unknown_location == 0) {
        struct profile_location l = {.mapping = PROFILE_NONE, .first_line = x->p->line_count};
        x->odd = true;
        if (!add_unknown_line(x, &l, e) || !put_location(x, &l, NOT_IN_TABLE, e)) return false;
        x->unknown_location = x->p->location_count;
    }
    *out = x->unknown_location;
    return true;
}

// The row + 1 of a location that is not in the part yet.
static bool location_of(struct otlp_part *x, uint64_t idx, uint32_t *out, err *e)
{
    struct otlp *d = x->d;
    struct profile *p = x->p;
    str row = {0};
    struct profile_location l = {.first_line = p->line_count};
    x->odd = false;
    if (idx >= d->tables[OTLP_LOCATIONS].n) return unknown_location(x, out, e);
    if (!otlp_row(d, OTLP_LOCATIONS, idx, &row, e) || !read_location(x, row, &l, e) ||
        !put_location(x, &l, (uint32_t)idx, e)) {
        return false;
    }
    *out = d->location_rows[idx] = p->location_count;
    return true;
}

static bool reserve(struct otlp_part *x, size_t n, err *e)
{
    struct profile *p = x->p;
    return arena_grow(x->a, &p->stack_locations, &x->stack_cap, p->stack_location_count + n,
                      sizeof *p->stack_locations) ||
           full(x, e);
}

// Adds a location, for which there is room.
static bool push(struct otlp_part *x, uint64_t idx, err *e)
{
    struct profile *p = x->p;
    const struct otlp *d = x->d;
    assert(p->stack_location_count < x->stack_cap);
    uint32_t row = idx < d->tables[OTLP_LOCATIONS].n ? d->location_rows[idx] : 0;
    // Most locations of a stack are in the part already.
    if (row == 0 && !location_of(x, idx, &row, e)) return false;
    p->stack_locations[p->stack_location_count++] = row - 1;
    return true;
}

// Location indices, packed or not.
static bool push_all(struct otlp_part *x, struct pb_reader *r, err *e)
{
    const uint8_t *at = NULL;
    uint64_t idx = 0;
    // Each takes a byte at least.
    if (!reserve(x, r->type == PB_BYTES ? r->bytes.n : 1, e)) return false;
    while (pb_packed_next(r, &at, &idx)) {
        if (!push(x, idx, e)) return false;
    }
    return pb_done(r, e);
}

static bool add_stack(struct otlp_part *x, const struct otlp_sample *s, err *e)
{
    struct otlp *d = x->d;
    if (d->layout == OTLP_1_7) {
        if (!reserve(x, s->length, e)) return false;
        for (uint64_t i = 0; i < s->length; i++) {
            if (!push(x, d->indices[s->stack + i], e)) return false;
        }
        return true;
    }
    str row = {0};
    if (!otlp_row(d, OTLP_STACKS, s->stack, &row, e)) return false;
    struct pb_reader r = pb_reader(row);
    while (pb_next(&r)) {
        if (r.field != 1 || (r.type != PB_BYTES && r.type != PB_VARINT)) continue;
        if (!push_all(x, &r, e)) return false;
    }
    return pb_done(&r, e);
}

// ---- labels

static bool add_label(struct otlp_part *x, str key, str value, err *e)
{
    struct profile *p = x->p;
    if (key.n == 0 || value.n == 0) return true;
    if (!arena_grow(x->a, &p->labels, &x->label_cap, (size_t)p->label_count + 1,
                    sizeof *p->labels)) {
        return full(x, e);
    }
    p->labels[p->label_count++] = (struct profile_label){.key = key, .text = value};
    return true;
}

// An id of the right length that is not zero, in hex; else empty.
static str id_text(struct otlp_part *x, str id, size_t n)
{
    static const uint8_t zero[TRACE_BYTES];
    assert(n <= sizeof zero);
    if (id.n != n || memcmp(id.p, zero, n) == 0) return (str){0};
    char *hex = arena_new(x->a, 2 * n + 1);
    if (!hex) return (str){0};
    hex_print((const uint8_t *)id.p, n, hex);
    return str_make(hex, 2 * n);
}

static bool add_link(struct otlp_part *x, uint64_t idx, err *e)
{
    str row = {0};
    str trace = {0};
    str span = {0};
    if (!otlp_row(x->d, OTLP_LINKS, idx, &row, e)) return false;
    struct pb_reader r = pb_reader(row);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) trace = r.bytes;
        if (r.field == 2 && r.type == PB_BYTES) span = r.bytes;
    }
    return pb_done(&r, e) && add_label(x, S("span_id"), id_text(x, span, SPAN_BYTES), e) &&
           add_label(x, S("trace_id"), id_text(x, trace, TRACE_BYTES), e) && arena_ok(x->a, e);
}

static bool same_labels(const struct otlp_part *x, const struct otlp_sample *s)
{
    return x->p->sample_count > 0 && s->link == x->last_link &&
           s->attribute_count == x->last_count &&
           memcmp(s->attributes, x->last, x->last_count * sizeof *x->last) == 0;
}

// Samples in a row with the same attributes share their labels.
static bool add_labels(struct otlp_part *x, const struct otlp_sample *s, struct profile_sample *to,
                       err *e)
{
    struct profile *p = x->p;
    if (same_labels(x, s)) {
        to->first_label = p->samples[p->sample_count - 1].first_label;
        to->label_count = p->samples[p->sample_count - 1].label_count;
        return true;
    }
    to->first_label = p->label_count;
    for (size_t i = 0; i < s->attribute_count; i++) {
        const struct otlp_attribute *one = otlp_attribute(x->d, s->attributes[i], e);
        if (!one) return false;
        // A service of its own is a label of the whole part.
        if (!one->service && !add_label(x, one->l.name, one->l.value, e)) return false;
    }
    if (s->link != 0 && !add_link(x, s->link, e)) return false;
    to->label_count = p->label_count - to->first_label;
    memcpy(x->last, s->attributes, s->attribute_count * sizeof *x->last);
    x->last_count = s->attribute_count;
    x->last_link = s->link;
    return true;
}

// ---- samples

static bool value_of(const struct otlp_part *x, const struct otlp_sample *s, int64_t *v, err *e)
{
    const struct otlp *d = x->d;
    bool apart = d->layout == OTLP_1_7 && d->head.type_count > 1;
    if (s->overflows && !apart)
        return err_set(e, ERR_INVALID_ARGUMENT, "the sum of a sample's values exceeds 64 bits");
    bool fits = true;
    *v = s->value_count ? s->sum : (int64_t)s->stamps;
    if (apart) {
        *v = s->values[d->type];
    } else if (d->layout == OTLP_1_7 && s->value_count == 1 && s->stamps > 1) {
        // The eBPF profiler of that time sent one value for all timestamps: that of each.
        fits = !__builtin_mul_overflow(*v, (int64_t)s->stamps, v);
    }
    fits = fits && !__builtin_mul_overflow(*v, x->scale, v);
    return fits || err_set(e, ERR_INVALID_ARGUMENT, "the value of a sample exceeds 64 bits");
}

static void count_unknown(struct otlp_part *x, const struct profile_sample *s)
{
    struct profile *p = x->p;
    bool unknown = false;
    for (uint32_t i = 0; i < s->location_count; i++)
        unknown |= x->unknown[p->stack_locations[s->first_location + i]];
    losses_add(&p->losses, LOSS_UNKNOWN_FRAME, unknown);
}

bool otlp_part_add(struct otlp_part *x, err *e)
{
    struct profile *p = x->p;
    const struct otlp_sample *s = &x->d->sample;
    struct profile_sample to = {.first_location = p->stack_location_count};
    int64_t value = 0;
    if (!value_of(x, s, &value, e) || (!s->dangling && !add_stack(x, s, e))) return false;
    losses_add(&p->losses, LOSS_UNKNOWN_STACK, s->dangling);
    to.location_count = p->stack_location_count - to.first_location;
    count_unknown(x, &to);
    losses_add(&p->losses, LOSS_LABELS_LIMIT, s->attribute_surplus);
    if (!add_labels(x, s, &to, e)) return false;
    size_t n = (size_t)p->sample_count + 1;
    if (!arena_grow(x->a, &p->samples, &x->sample_cap, n, sizeof *p->samples) ||
        !arena_grow(x->a, &p->values, &x->value_cap, n, sizeof *p->values)) {
        return full(x, e);
    }
    p->samples[p->sample_count] = to;
    p->values[p->sample_count++] = value;
    return true;
}

void otlp_part_end(struct otlp_part *x)
{
    const struct profile *p = x->p;
    for (uint32_t i = 0; i < p->location_count; i++) {
        if (x->locations[i] != NOT_IN_TABLE) x->d->location_rows[x->locations[i]] = 0;
    }
    for (uint32_t i = 0; i < p->function_count; i++) {
        if (x->functions[i] != NOT_IN_TABLE) x->d->function_rows[x->functions[i]] = 0;
    }
    for (uint32_t i = 0; i < p->mapping_count; i++)
        x->d->mapping_rows[x->mappings[i]] = 0;
}
