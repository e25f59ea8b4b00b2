// SPDX-License-Identifier: Apache-2.0
//
// otlp_read.c - single messages of OTLP in each of the layouts.
#include "base/hash.h"
#include "decode/otlp_int.h"

// Field numbers that changed between layouts. Sample.stack is always 1.
static const struct {
    uint8_t attributes, link, values, stamps;     // of Sample
    uint8_t time, duration, period_type, period;  // of Profile
} fields[OTLP_LAYOUTS] = {
    [OTLP_1_10] = {2, 3, 4, 5, 3, 4, 5, 6},
    [OTLP_1_8] = {3, 4, 2, 5, 3, 4, 5, 6},
    [OTLP_1_7] = {4, 5, 3, 6, 4, 5, 6, 7},
};

static bool clash(const struct pb_reader *r, const char *message, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "%s: field %u has wire type %d", message, r->field,
                   (int)r->type);
}

static bool check_index(const struct otlp *d, enum otlp_table table, uint64_t idx, err *e)
{
    static const char *const names[] = {"",     "mapping", "location",  "function",
                                        "link", "string",  "attribute", "stack"};
    if (idx < d->tables[table].n) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "%s index %lld is out of range, table has %u rows",
                   names[table], (long long)idx, d->tables[table].n);
}

bool otlp_row(const struct otlp *d, enum otlp_table table, uint64_t idx, str *row, err *e)
{
    if (!check_index(d, table, idx, e)) return false;
    const uint8_t *at = (const uint8_t *)d->all.p + d->tables[table].at[idx];
    // A tag and a length of one byte each, as most rows have.
    if (at[0] < 0x80 && at[1] < 0x80) {
        *row = str_make(at + 2, at[1]);
        return true;
    }
    struct pb_reader r = pb_reader(str_slice(d->all, d->tables[table].at[idx], d->all.n));
    bool ok = pb_next(&r);
    assert(ok && r.type == PB_BYTES);  // as when the table was made
    *row = r.bytes;
    return ok;
}

bool otlp_string(const struct otlp *d, uint64_t idx, str *s, err *e)
{
    return otlp_row(d, OTLP_STRINGS, idx, s, e);
}

static bool add_type(struct otlp *d, struct otlp_head *h, str type, err *e)
{
    // Since 1.8 the field is not repeated: of several the last one counts, as in all of protobuf.
    if (d->layout != OTLP_1_7) h->type_count = 0;
    if (h->type_count == OTLP_TYPES_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "a profile has more than %d sample types",
                       OTLP_TYPES_MAX);
    }
    h->types[h->type_count++] = type;
    return true;
}

static bool add_indices(struct otlp *d, struct pb_reader *r, err *e)
{
    const uint8_t *at = NULL;
    uint64_t v = 0;
    while (pb_packed_next(r, &at, &v)) {
        if (!arena_grow(d->a, &d->indices, &d->index_cap, d->index_count + 1, sizeof *d->indices)) {
            return arena_fail(d->a, e);
        }
        d->indices[d->index_count++] = (uint32_t)MIN(v, UINT32_MAX);  // in no table either
    }
    return pb_done(r, e);
}

bool otlp_read_head(struct otlp *d, str message, struct otlp_head *h, err *e)
{
    *h = (struct otlp_head){0};
    d->index_count = 0;
    bool old = d->layout == OTLP_1_7;
    enum pb_type time_type = old ? PB_VARINT : PB_FIXED64;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        bool fits = true;
        if (r.field == 1) {
            fits = r.type == PB_BYTES;
            if (fits && !add_type(d, h, r.bytes, e)) return false;
        } else if (r.field == 2) {
            fits = r.type == PB_BYTES;
            h->samples++;
        } else if (old && r.field == 3) {
            fits = r.type == PB_BYTES || r.type == PB_VARINT;
            if (fits && !add_indices(d, &r, e)) return false;
        } else if (r.field == fields[d->layout].time) {
            fits = r.type == time_type;
            h->time_ns = (int64_t)r.number;
        } else if (r.field == fields[d->layout].duration) {
            fits = r.type == PB_VARINT;
            h->duration_ns = (int64_t)r.number;
        } else if (r.field == fields[d->layout].period_type) {
            fits = r.type == PB_BYTES;
            h->period_type = r.bytes;
        } else if (r.field == fields[d->layout].period) {
            fits = r.type == PB_VARINT;
            h->period = (int64_t)r.number;
        }
        if (!fits) return clash(&r, "Profile", e);
    }
    return pb_done(&r, e);
}

static bool add_stamps(const struct otlp *d, struct pb_reader *r, struct otlp_sample *s, err *e)
{
    if (d->layout != OTLP_1_7) {
        if (r->type == PB_FIXED64) s->stamps++;
        if (r->type != PB_BYTES) return r->type == PB_FIXED64 || clash(r, "Sample", e);
        s->stamps += r->bytes.n / 8;
        return r->bytes.n % 8 == 0 || clash(r, "Sample", e);
    }
    if (r->type != PB_BYTES && r->type != PB_VARINT) return clash(r, "Sample", e);
    const uint8_t *at = NULL;
    uint64_t v = 0;
    while (pb_packed_next(r, &at, &v))
        s->stamps++;
    return pb_done(r, e);
}

static bool add_values(struct pb_reader *r, struct otlp_sample *s, err *e)
{
    if (r->type != PB_BYTES && r->type != PB_VARINT) return clash(r, "Sample", e);
    const uint8_t *at = NULL;
    uint64_t v = 0;
    while (pb_packed_next(r, &at, &v)) {
        if (s->value_count < OTLP_TYPES_MAX) s->values[s->value_count] = (int64_t)v;
        s->value_count++;
        s->overflows |= __builtin_add_overflow(s->sum, (int64_t)v, &s->sum);
    }
    return pb_done(r, e);
}

static bool add_attributes(const struct otlp *d, struct pb_reader *r, struct otlp_sample *s, err *e)
{
    if (r->type != PB_BYTES && r->type != PB_VARINT) return clash(r, "Sample", e);
    const uint8_t *at = NULL;
    uint64_t v = 0;
    while (pb_packed_next(r, &at, &v)) {
        if (d->lenient && v >= d->tables[OTLP_ATTRIBUTES].n) {
            s->attribute_surplus++;
            continue;
        }
        if (!check_index(d, OTLP_ATTRIBUTES, v, e)) return false;
        if (s->attribute_count == OTLP_LABELS_MAX) {
            s->attribute_surplus++;
            continue;
        }
        s->attributes[s->attribute_count++] = (uint32_t)v;
    }
    return pb_done(r, e);
}

// Its value can be read, so it stays where the rest of the sample is not in the message.
static void let_dangle(struct otlp *d, struct otlp_sample *s)
{
    d->faults += s->attribute_surplus;
    if (s->link >= d->tables[OTLP_LINKS].n) {
        d->faults += s->link != 0;
        s->link = 0;
    }
    s->dangling = d->layout == OTLP_1_7
                      ? s->stack > d->index_count || s->length > d->index_count - s->stack
                      : s->stack >= d->tables[OTLP_STACKS].n;
    if (s->dangling) s->stack = s->length = 0;
    d->faults += s->dangling;
}

// Whether it has a value. A sample that has none, or one that is no number of 64 bits, does not
// take others with it if the message fits no layout else (find_layout).
static bool has_value(struct otlp *d, const struct otlp_sample *s, err *e)
{
    bool any = s->value_count > 0 || s->stamps > 0;
    d->valued += any;
    if (d->lenient) {
        d->faults += !any || s->overflows;
        return true;
    }
    if (!any) return err_set(e, ERR_INVALID_ARGUMENT, "sample value is required");
    return !s->overflows ||
           err_set(e, ERR_INVALID_ARGUMENT, "the sum of a sample's values exceeds 64 bits");
}

static bool is_complete(struct otlp *d, struct otlp_sample *s, const struct otlp_head *h, err *e)
{
    if (!has_value(d, s, e)) return false;
    if (d->lenient) let_dangle(d, s);
    // Link 0 means that there is none, whether the table has its row or not.
    if (s->link != 0 && !check_index(d, OTLP_LINKS, s->link, e)) return false;
    if (d->layout != OTLP_1_7) return s->dangling || check_index(d, OTLP_STACKS, s->stack, e);
    if (h->type_count > 1 && s->value_count != h->type_count) {
        return err_set(e, ERR_INVALID_ARGUMENT, "a sample has %llu values, its profile %zu types",
                       (unsigned long long)s->value_count, h->type_count);
    }
    if (s->stack <= d->index_count && s->length <= d->index_count - s->stack) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "location indices %lld and the %lld from there: the profile has %zu",
                   (long long)s->stack, (long long)s->length, d->index_count);
}

bool otlp_read_sample(struct otlp *d, str message, const struct otlp_head *h, err *e)
{
    struct otlp_sample *s = &d->sample;
    s->stack = s->length = s->link = s->stamps = s->value_count = 0;
    s->sum = 0;
    s->dangling = s->overflows = false;
    s->attribute_count = s->attribute_surplus = 0;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        bool fits = true;
        if (r.field == 1) {
            fits = r.type == PB_VARINT;
            s->stack = r.number;
        } else if (r.field == 2 && d->layout == OTLP_1_7) {
            fits = r.type == PB_VARINT;
            s->length = r.number;
        } else if (r.field == fields[d->layout].attributes) {
            if (!add_attributes(d, &r, s, e)) return false;
        } else if (r.field == fields[d->layout].values) {
            if (!add_values(&r, s, e)) return false;
        } else if (r.field == fields[d->layout].link) {
            fits = r.type == PB_VARINT;
            s->link = r.number;
        } else if (r.field == fields[d->layout].stamps && !add_stamps(d, &r, s, e)) {
            return false;
        }
        if (!fits) return clash(&r, "Sample", e);
    }
    return pb_done(&r, e) && is_complete(d, s, h, e);
}

// ---- attributes

// A string, an integer, or an array of one of these; anything else leaves the text empty. An array
// within the array is left out, so nothing recurses.
static bool read_scalar(const struct otlp *d, struct arena *a, str message, str *text, str *array,
                        err *e)
{
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        *text = *array = (str){0};  // of a oneof the last field counts
        if (r.field == 1 && r.type == PB_BYTES) *text = r.bytes;
        if (r.field == 3 && r.type == PB_VARINT) {
            *text = arena_printf(a, "%lld", (long long)r.number);
        }
        if (r.field == 5 && r.type == PB_BYTES) *array = r.bytes;
        if (r.field == 8 && r.type == PB_VARINT && !otlp_string(d, r.number, text, e)) return false;
    }
    return pb_done(&r, e) && arena_ok(a, e);
}

static bool read_value(const struct otlp *d, struct arena *a, str message, str *text, err *e)
{
    str array = {0};
    if (!read_scalar(d, a, message, text, &array, e)) return false;
    size_t n = 0;
    str one = {0};
    struct pb_reader r = pb_reader(array);
    while (pb_next(&r)) {
        if (r.field != 1 || r.type != PB_BYTES) continue;
        one = r.bytes;
        n++;
    }
    return pb_done(&r, e) && (n != 1 || read_scalar(d, a, one, text, &array, e));
}

bool otlp_key_value(const struct otlp *d, struct arena *a, str message, label *l, err *e)
{
    *l = (label){0};
    str referenced = {0};
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type != PB_BYTES) return clash(&r, "KeyValue", e);
        if (r.field == 1) l->name = r.bytes;
        if (r.field == 2 && r.type == PB_BYTES && !read_value(d, a, r.bytes, &l->value, e)) {
            return false;
        }
        if (r.field == 3 && r.type == PB_VARINT && !otlp_string(d, r.number, &referenced, e)) {
            return false;
        }
    }
    // Collectors that resolve references leave the number in place: the string counts.
    if (l->name.n == 0) l->name = referenced;
    return pb_done(&r, e);
}

bool otlp_attribute_key(const struct otlp *d, uint64_t idx, str *key, err *e)
{
    str row = {0};
    if (!otlp_row(d, OTLP_ATTRIBUTES, idx, &row, e)) return false;
    struct pb_reader r = pb_reader(row);
    while (pb_next(&r)) {
        if (r.field != 1) continue;
        if (d->layout == OTLP_1_7 && r.type == PB_BYTES) *key = r.bytes;
        // A number that is out of range is a fault only if a sample names the attribute.
        bool known = r.type == PB_VARINT && r.number < d->tables[OTLP_STRINGS].n;
        if (d->layout != OTLP_1_7 && known && !otlp_string(d, r.number, key, e)) return false;
    }
    return true;  // likewise
}

static bool read_attribute(struct otlp *d, str row, label *l, err *e)
{
    // Up to 1.7 the table had messages KeyValue.
    if (d->layout == OTLP_1_7) return otlp_key_value(d, d->a, row, l, e);
    struct pb_reader r = pb_reader(row);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type != PB_VARINT) return clash(&r, "KeyValueAndUnit", e);
        if (r.field == 1 && !otlp_string(d, r.number, &l->name, e)) return false;
        if (r.field == 2 && r.type == PB_BYTES && !read_value(d, d->a, r.bytes, &l->value, e)) {
            return false;
        }
    }
    return pb_done(&r, e);
}

// The row + 1 of a name in d->services; 0 at a failure.
static uint32_t service_row(struct otlp *d, str name, err *e)
{
    uint64_t hash = hash_table_str(name);
    uint32_t step = 0;
    uint32_t row = map_next(&d->service_rows, hash, &step);
    while (row != MAP_NONE && !str_eq(d->services[row], name)) {
        row = map_next(&d->service_rows, hash, &step);
    }
    if (row != MAP_NONE) return row + 1;
    if (!arena_grow(d->a, &d->services, &d->service_cap, d->service_count + 1, sizeof(str))) {
        arena_fail(d->a, e);
        return 0;
    }
    row = (uint32_t)d->service_count;
    d->services[d->service_count++] = name;
    return map_put(&d->service_rows, hash, row, e) ? row + 1 : 0;
}

const struct otlp_attribute *otlp_attribute(struct otlp *d, uint64_t idx, err *e)
{
    if (!check_index(d, OTLP_ATTRIBUTES, idx, e)) return NULL;
    if (d->attribute_rows[idx]) return &d->known[d->attribute_rows[idx] - 1];
    struct otlp_attribute x = {0};
    str row = {0};
    if (!otlp_row(d, OTLP_ATTRIBUTES, idx, &row, e) || !read_attribute(d, row, &x.l, e)) {
        return NULL;
    }
    if (str_is(x.l.name, "service.name") && x.l.value.n) {
        x.service = service_row(d, x.l.value, e);
        if (x.service == 0) return NULL;
    }
    if (!arena_grow(d->a, &d->known, &d->known_cap, d->known_count + 1, sizeof *d->known)) {
        arena_fail(d->a, e);
        return NULL;
    }
    d->known[d->known_count] = x;
    d->attribute_rows[idx] = (uint32_t)++d->known_count;
    return &d->known[d->attribute_rows[idx] - 1];
}
