// SPDX-License-Identifier: Apache-2.0
//
// pprof_int.h - shared by pprof.c and pprof_samples.c: the state of one decoding, and the careful
// way to walk a message, which checks each byte before it reads it.
#pragma once

#include "codec/varint.h"
#include "decode/decode.h"
#include "decode/idmap.h"
#include "decode/quick.h"

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5
};

enum profile_field {
    FIELD_SAMPLE_TYPE = 1,
    FIELD_SAMPLE,
    FIELD_MAPPING,
    FIELD_LOCATION,
    FIELD_FUNCTION,
    FIELD_STRING,
    FIELD_DROP_FRAMES,
    FIELD_KEEP_FRAMES,
    FIELD_TIME,
    FIELD_DURATION,
    FIELD_PERIOD_TYPE,
    FIELD_PERIOD,
    FIELD_COMMENT,
    FIELD_DEFAULT_TYPE,
    FIELD_COUNT
};

// Faults of well-formed messages, in the order in which Pyroscope checks; the first one is the
// answer.
#define DEFECTS(X)                                                       \
    X(NO_TYPES, "empty profile")                                         \
    X(LOCATION_ID, "location id is 0")                                   \
    X(FUNCTION_ID, "function id is 0")                                   \
    X(VALUES, "sample value length mismatch")                            \
    X(STRING_0, "string 0 should be empty string")                       \
    X(TYPE_INDEX, "sample type type string index out of range")          \
    X(LABEL_INDEX, "sample label string index out of range")             \
    X(FUNCTION_NAME, "function name string index out of range")          \
    X(FUNCTION_SYSTEM, "function system name index string out of range") \
    X(FUNCTION_FILE, "function file name string index out of range")     \
    X(MAPPING_FILE, "mapping file name string index out of range")       \
    X(MAPPING_BUILD_ID, "mapping build id string index out of range")

enum defect {
#define X(name, text) DEFECT_##name,
    DEFECTS(X)
#undef X
    DEFECT_NONE
};

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

struct field {
    uint32_t number;
    uint32_t type;
    uint64_t value;        // of numbers; length of bytes
    const uint8_t *bytes;  // of WIRE_BYTES
};

struct extent {
    const uint8_t *from;  // first tag of the field
    const uint8_t *to;    // behind its last value
    uint32_t count;
    size_t bytes;   // of all its values
    uint64_t last;  // value of the last one, if a number
};

struct pprof {
    struct arena *a;
    const struct decode_options *o;
    struct profile *p;
    struct cursor all;
    const uint8_t *quick_end;  // a message that ends up to here may be read the quick way
    struct extent extents[FIELD_COUNT];
    str *strings;
    uint32_t string_count;
    struct idmap mappings;
    struct idmap functions;
    struct idmap locations;
    size_t label_cap;
    size_t line_cap;
    size_t stack_cap;
    bool *broken;          // by location: something that it refers to does not exist
    bool any_broken;       // some location is
    uint32_t no_function;  // row + 1 of the function without content; 0: none yet
    uint32_t no_location;  // the same for locations
    enum defect defect;
    const char *fault;  // of the wire; NULL while all is well
    const uint8_t *fault_at;
};

#define INLINE static inline __attribute__((always_inline))

static inline bool broken(struct pprof *d, const uint8_t *at, const char *what)
{
    if (!d->fault) {
        d->fault = what;
        d->fault_at = at;
    }
    return false;
}

static inline void note(struct pprof *d, enum defect defect)
{
    if (defect < d->defect) d->defect = defect;
}

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-null-dereference"  // takes NULL..NULL for >= 2 bytes
#endif
// As varint_get, with the second byte in line as well: most location ids have two.
INLINE bool number_next(struct cursor *c, uint64_t *v)
{
    const uint8_t *p = c->at;
    if (c->end - p >= 2) {
        if (p[0] < 0x80) {
            *v = p[0];
            c->at = p + 1;
            return true;
        }
        if (p[1] < 0x80) {
            *v = (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
            c->at = p + 2;
            return true;
        }
    }
    return varint_get(&c->at, c->end, v);
}
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

// False at the end of the message, and at a fault, which is then in d->fault.
INLINE bool field_next(struct pprof *d, struct cursor *c, struct field *f)
{
    if (c->at == c->end) return false;
    const uint8_t *start = c->at;
    uint64_t tag = 0;
    if (!number_next(c, &tag)) return broken(d, start, "cut or overlong number");
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3) return broken(d, start, "bad field number");
    f->number = (uint32_t)(tag >> 3);
    f->type = (uint32_t)(tag & 7);
    size_t left = (size_t)(c->end - c->at);
    switch (f->type) {
    case WIRE_VARINT:
        return number_next(c, &f->value) || broken(d, c->at, "cut or overlong number");
    case WIRE_BYTES:
        if (!number_next(c, &f->value)) return broken(d, c->at, "cut or overlong length");
        left = (size_t)(c->end - c->at);
        if (f->value > left) return broken(d, start, "length past the end");
        f->bytes = c->at;
        c->at += f->value;
        return true;
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        f->value = f->type == WIRE_FIXED64 ? 8 : 4;
        if (f->value > left) return broken(d, start, "length past the end");
        c->at += f->value;
        return true;
    default:
        return broken(d, start, "wire type that is a group or none");
    }
}

static inline struct cursor inside(const struct field *f)
{
    return (struct cursor){f->bytes, f->bytes + f->value};
}

INLINE bool is_quick(const struct pprof *d, struct cursor c)
{
    return c.end <= d->quick_end;
}

// A message that has only numbers: v[number] = value, fields above `top` ignored.
INLINE bool numbers(struct pprof *d, struct cursor c, uint64_t *v, uint32_t top)
{
    if (is_quick(d, c) && quick_numbers(c.at, c.end, v, top)) return true;
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number > top) continue;
        if (f.type != WIRE_VARINT) return broken(d, c.at, "wrong wire type of a number");
        v[f.number] = f.value;
    }
    return !d->fault;
}

// Calls each() for every occurrence of a field.
INLINE bool walk(struct pprof *d, enum profile_field number,
                 bool (*each)(struct pprof *, const struct field *))
{
    struct cursor c = {d->extents[number].from, d->extents[number].to};
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number == number && !each(d, &f)) return false;
    }
    return !d->fault;
}

// Indexes that Pyroscope does not check mean "absent" when they are out of range: DEFECT_NONE.
INLINE str text(struct pprof *d, uint64_t idx, enum defect defect)
{
    if (idx < d->string_count) return d->strings[idx];
    note(d, defect);
    return (str){0};
}

// Reads the samples, the last table. False if the arena is exhausted or at a fault.
bool pprof_read_samples(struct pprof *d, err *e) MUST_CHECK;
