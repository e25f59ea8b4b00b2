// SPDX-License-Identifier: Apache-2.0
//
// pprof_samples.c - the samples of a pprof message: stacks, values, labels. Nearly all bytes of a
// profile are here, so the quick way reads a sample in one go.
#include "decode/pprof_int.h"

// A packed run of location ids; *missing becomes true if one does not exist.
static bool read_stack(struct pprof *d, const struct field *f, bool *missing)
{
    struct profile *p = d->p;
    // Each id takes a byte at least, which bounds the room.
    size_t most = f->type == WIRE_BYTES ? f->value : 1;
    if (!arena_grow(d->a, &p->stack_locations, &d->stack_cap, p->stack_location_count + most,
                    sizeof *p->stack_locations)) {
        return false;
    }
    uint32_t *to = p->stack_locations + p->stack_location_count;
    bool none = false;
    if (f->type == WIRE_VARINT) {
        *to++ = idmap_row(&d->locations, f->value);
        // The row is written even if it does not exist: the caller replaces it.
        none = to[-1] == MAP_NONE;
    } else {
        struct cursor c = inside(f);
        while (c.at < c.end) {
            uint64_t id = 0;
            if (!number_next(&c, &id)) return broken(d, c.at, "cut or overlong location id");
            uint32_t row = idmap_row(&d->locations, id);
            none |= row == MAP_NONE;
            *to++ = row;
        }
    }
    *missing |= none;
    p->stack_location_count = (uint32_t)(to - p->stack_locations);
    assert(p->stack_location_count <= d->stack_cap);
    return true;
}

static bool read_values(struct pprof *d, const struct field *f, int64_t *row, uint32_t *n)
{
    // Values beyond the types are counted and not kept; the caller sees the wrong number.
    uint32_t most = d->p->type_count;
    if (f->type == WIRE_VARINT) {
        if (*n < most) row[*n] = (int64_t)f->value;
        ++*n;
        return true;
    }
    struct cursor c = inside(f);
    while (c.at < c.end) {
        uint64_t v = 0;
        if (!number_next(&c, &v)) return broken(d, c.at, "cut or overlong value");
        if (*n < most) row[*n] = (int64_t)v;
        ++*n;
    }
    return true;
}

INLINE bool put_label(struct pprof *d, const uint64_t *v)
{
    struct profile *p = d->p;
    if (p->label_count == d->label_cap &&
        !arena_grow(d->a, &p->labels, &d->label_cap, p->label_count + 1, sizeof *p->labels)) {
        return false;
    }
    p->labels[p->label_count++] = (struct profile_label){
        .key = text(d, v[1], DEFECT_LABEL_INDEX),
        .text = text(d, v[2], DEFECT_LABEL_INDEX),
        .number = (int64_t)v[3],
        .unit = text(d, v[4], DEFECT_NONE),
    };
    return true;
}

static bool read_label(struct pprof *d, const struct field *f)
{
    uint64_t v[5] = {0};
    return numbers(d, inside(f), v, 4) && put_label(d, v);
}

// A sample while it is read.
struct reading {
    int64_t *row;     // of its values
    uint32_t values;  // that it has
    bool missing;     // a location does not exist
};

// Replaces the locations of a stack that do not exist by one that says nothing. pprof.c left room
// for it behind the last location.
static void stand_in(struct pprof *d, uint32_t first)
{
    struct profile *p = d->p;
    if (d->no_location == 0) {
        d->broken[p->location_count] = d->any_broken = true;
        p->locations[p->location_count++] = (struct profile_location){.mapping = PROFILE_NONE};
        d->no_location = p->location_count;
    }
    for (uint32_t i = first; i < p->stack_location_count; i++) {
        if (p->stack_locations[i] == MAP_NONE) p->stack_locations[i] = d->no_location - 1;
    }
}

// Counts the samples that have a frame which is not in the file.
static void count_broken(struct pprof *d)
{
    struct profile *p = d->p;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        bool any = false;
        for (uint32_t k = 0; k < s->location_count && !any; k++)
            any = d->broken[p->stack_locations[s->first_location + k]];
        losses_add(&p->losses, LOSS_UNKNOWN_FRAME, any);
    }
}

// Reads a packed run of location ids the quick way: false if it is odd. Each id takes a byte at
// least, which bounds the room.
INLINE bool quick_stack(struct pprof *d, struct cursor c, struct reading *r)
{
    struct profile *p = d->p;
    size_t most = (size_t)(c.end - c.at);
    if (d->stack_cap - p->stack_location_count < most &&
        !arena_grow(d->a, &p->stack_locations, &d->stack_cap, p->stack_location_count + most,
                    sizeof *p->stack_locations)) {
        return false;
    }
    uint32_t *to = p->stack_locations + p->stack_location_count;
    const uint8_t *at = c.at;
    while (at < c.end) {
        uint64_t id = 0;
        at = quick_number(at, &id);
        if (!at) return false;
        uint32_t row = idmap_row(&d->locations, id);
        r->missing |= row == MAP_NONE;
        *to++ = row;
    }
    p->stack_location_count = (uint32_t)(to - p->stack_locations);
    assert(p->stack_location_count <= d->stack_cap);
    return at == c.end;
}

INLINE bool quick_values(const struct pprof *d, struct cursor c, struct reading *r)
{
    const uint8_t *at = c.at;
    while (at < c.end) {
        uint64_t v = 0;
        at = quick_number(at, &v);
        if (!at) return false;
        if (r->values < d->p->type_count) r->row[r->values] = (int64_t)v;
        r->values++;
    }
    return at == c.end;
}

// A field of bytes inside a sample.
INLINE bool quick_part(struct pprof *d, uint32_t field, struct cursor c, struct reading *r)
{
    uint64_t v[5] = {0};
    if (field == 1) return quick_stack(d, c, r);
    if (field == 2) return quick_values(d, c, r);
    return field == 3 && quick_numbers(c.at, c.end, v, 4) && put_label(d, v);
}

INLINE bool quick_sample(struct pprof *d, struct cursor c, struct reading *r)
{
    const uint8_t *p = c.at;
    while (p < c.end) {
        uint32_t tag = *p++;
        struct cursor in = {p, p};
        size_t n = 0;
        if ((tag & 0x87) == WIRE_BYTES) {
            if (!quick_length(&p, c.end, &n)) return false;
            in = (struct cursor){p, p + n};
            p += n;
        } else {  // a lone number is a packed run of one
            uint64_t ignored = 0;
            if (tag != (1 << 3 | WIRE_VARINT) && tag != (2 << 3 | WIRE_VARINT)) return false;
            p = quick_number(p, &ignored);
            if (!p) return false;
            in.end = p;
        }
        if (!quick_part(d, tag >> 3, in, r)) return false;
    }
    return p == c.end;
}

static bool careful_sample(struct pprof *d, struct cursor c, struct reading *r)
{
    struct field g = {0};
    while (field_next(d, &c, &g)) {
        bool ok = true;
        if (g.number > 3) continue;
        if (g.type != WIRE_BYTES && (g.type != WIRE_VARINT || g.number == 3)) {
            return broken(d, c.at, "wrong wire type of a sample's field");
        }
        if (g.number == 1) {
            ok = read_stack(d, &g, &r->missing);
        } else if (g.number == 2) {
            ok = read_values(d, &g, r->row, &r->values);
        } else {
            ok = read_label(d, &g);
        }
        if (!ok) return false;
    }
    return !d->fault;
}

static bool read_sample(struct pprof *d, const struct field *f)
{
    struct profile *p = d->p;
    struct profile_sample s = {
        .first_location = p->stack_location_count,
        .first_label = p->label_count,
    };
    struct reading r = {.row = p->values + (size_t)p->sample_count * p->type_count};
    struct cursor c = inside(f);
    // The quick way may have appended to both columns before it gave up. Values need no reset: the
    // careful way writes the same places again.
    if (!is_quick(d, c) || !quick_sample(d, c, &r)) {
        p->stack_location_count = s.first_location;
        p->label_count = s.first_label;
        r = (struct reading){.row = r.row};
        if (!careful_sample(d, c, &r)) return false;
    }
    if (r.values != p->type_count) {
        // Noted and dropped: which error is told depends on the check that comes first.
        note(d, DEFECT_VALUES);
        p->stack_location_count = s.first_location;
        p->label_count = s.first_label;
        return true;
    }
    if (r.missing) stand_in(d, s.first_location);
    assert(p->stack_location_count >= s.first_location && p->label_count >= s.first_label);
    s.location_count = p->stack_location_count - s.first_location;
    s.label_count = p->label_count - s.first_label;
    assert(p->sample_count < d->extents[FIELD_SAMPLE].count);
    p->samples[p->sample_count++] = s;
    return true;
}

bool pprof_read_samples(struct pprof *d, err *e)
{
    struct profile *p = d->p;
    struct extent *x = &d->extents[FIELD_SAMPLE];
    // Each value takes a byte of its sample at least, which bounds the room: a sender with
    // thousands of types and empty samples gets no gigabytes.
    size_t values = (size_t)x->count * p->type_count;
    if (values > x->bytes) note(d, DEFECT_VALUES);
    // Defects are in Pyroscope's order: what samples could add comes later, so they need not be
    // read.
    if (d->defect <= DEFECT_VALUES) return true;
    d->stack_cap = x->bytes / 2 + 1;  // ids of two bytes; grows
    p->stack_locations = ARENA_ARRAY(d->a, uint32_t, d->stack_cap);
    p->samples = ARENA_ARRAY(d->a, struct profile_sample, x->count);
    p->values = ARENA_ARRAY(d->a, int64_t, values + p->type_count);
    if (!p->stack_locations || !p->samples || !p->values) return arena_fail(d->a, e);
    if (!walk(d, FIELD_SAMPLE, read_sample)) return false;
    if (d->any_broken) count_broken(d);
    return true;
}
