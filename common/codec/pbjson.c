// SPDX-License-Identifier: Apache-2.0
//
// pbjson.c - walks the descriptors of protobuf-c with a stack of DEPTH_MAX frames, so nothing
// recurses on input.
#include "codec/pbjson.h"

#include "codec/base64.h"
#include "codec/json.h"

#include <stdio.h>
#include <stdlib.h>

#define DEPTH_MAX 100

typedef const ProtobufCFieldDescriptor field;

static bool is_present_by_case(field *f)
{
    return (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static bool has_flag(field *f)
{
    return !is_present_by_case(f) && f->label == PROTOBUF_C_LABEL_OPTIONAL &&
           f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE;
}

// protoc's rule for JSON names: underscores go, the letter after one becomes a capital.
static bool is_json_name(const char *proto, str name)
{
    // Compared letter by letter, because printing the name first would cost memory for each field.
    size_t at = 0;
    bool capital = false;
    for (; *proto; proto++) {
        if (*proto == '_') {
            capital = true;
            continue;
        }
        char c = capital && *proto >= 'a' && *proto <= 'z' ? (char)(*proto - 'a' + 'A') : *proto;
        capital = false;
        if (at >= name.n || name.p[at++] != c) return false;
    }
    return at == name.n;
}

static void put_json_name(struct buf *b, const char *proto)
{
    bool capital = false;
    for (; *proto; proto++) {
        if (*proto == '_') {
            capital = true;
            continue;
        }
        bool lift = capital && *proto >= 'a' && *proto <= 'z';
        buf_byte(b, (unsigned char)(lift ? *proto - 'a' + 'A' : *proto));
        capital = false;
    }
}

static size_t size_of(field *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

// ---- reading

#define FIELDS_MAX 256  // of one message type

struct frame {
    ProtobufCMessage *m;
    uint64_t seen[FIELDS_MAX / 64];  // fields that had their value, by index
    field *array;                    // the array whose items are being read, or NULL
    size_t room;                     // of that array
};

struct parser {
    struct arena *arena;
    struct json_reader json;
    struct frame stack[DEPTH_MAX];
    size_t depth;
};

static bool refuse(field *f, const char *want, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "invalid value for field %s: not %s", f->name, want);
}

// The integer that a JSON number denotes: "1.5e1" is 15. Fails beyond 64 bits, and for fractions.
static bool whole_number(str text, bool *negative, uint64_t *v)
{
    if (text.n == 0 || json_number_size(text) != text.n) return false;
    *negative = text.p[0] == '-';
    text = str_slice(text, *negative, text.n);
    if (str_u64(text, v)) return true;

    size_t e_at = MIN(str_find(text, 'e'), str_find(text, 'E'));
    str mantissa = str_slice(text, 0, e_at);
    int64_t exponent = 0;
    if (e_at < text.n && !str_i64(str_slice(text, e_at + 1, text.n), &exponent)) return false;
    size_t dot = str_find(mantissa, '.');
    size_t fraction = dot < mantissa.n ? mantissa.n - dot - 1 : 0;
    if (exponent < -1000 || exponent > 1000) return false;  // the loops below run |exponent| times
    // 20 digits are enough for 64 bits; more may still be zeros that the exponent takes away.
    char digits[64];
    size_t n = 0;
    for (size_t i = 0; i < mantissa.n; i++) {
        if (i == dot) continue;
        if (n == sizeof digits) return false;
        digits[n++] = mantissa.p[i];
    }
    int64_t shift = exponent - (int64_t)fraction;
    for (; shift < 0 && n > 0 && digits[n - 1] == '0'; shift++)  // zeros at the end of a fraction
        n--;
    if (n == 0) {
        *v = 0;
        return true;
    }
    if (shift < 0) return false;
    for (; shift > 0; shift--) {
        if (n == sizeof digits) return false;
        digits[n++] = '0';
    }
    return str_u64(str_make(digits, n), v);
}

static bool set_signed(void *slot, field *f, str text, err *e)
{
    bool wide = size_of(f) == 8;
    bool negative = false;
    uint64_t v = 0;
    uint64_t most = wide ? INT64_MAX : INT32_MAX;
    if (!whole_number(text, &negative, &v) || v > most + (negative ? 1 : 0)) {
        return refuse(f, wide ? "an int64" : "an int32", e);
    }
    // Unsigned arithmetic, because -INT64_MIN has no positive counterpart.
    uint64_t bits = negative ? 0 - v : v;
    uint32_t half = (uint32_t)bits;
    memcpy(slot, wide ? (void *)&bits : (void *)&half, wide ? 8 : 4);
    return true;
}

static bool set_unsigned(void *slot, field *f, str text, err *e)
{
    bool wide = size_of(f) == 8;
    bool negative = false;
    uint64_t v = 0;
    if (!whole_number(text, &negative, &v) || (negative && v) || (!wide && v > UINT32_MAX)) {
        return refuse(f, wide ? "a uint64" : "a uint32", e);
    }
    uint32_t half = (uint32_t)v;
    memcpy(slot, wide ? (void *)&v : (void *)&half, wide ? 8 : 4);
    return true;
}

static bool number_of(str text, bool quoted, double *v)
{
    static const struct {
        const char *name;
        double v;
    } words[] = {{"NaN", __builtin_nan("")},
                 {"Infinity", __builtin_inf()},
                 {"-Infinity", -__builtin_inf()}};
    for (size_t i = 0; quoted && i < COUNT(words); i++) {
        *v = words[i].v;
        if (str_is(text, words[i].name)) return true;
    }
    // A double has at most 309 digits before its point; longer texts are refused.
    char z[400];
    if (text.n == 0 || text.n >= sizeof z || json_number_size(text) != text.n) return false;
    memcpy(z, text.p, text.n);
    z[text.n] = '\0';
    *v = strtod(z, NULL);
    return !__builtin_isinf(*v);
}

static bool set_floating(void *slot, field *f, str text, bool quoted, err *e)
{
    double v = 0;
    if (!number_of(text, quoted, &v)) return refuse(f, "a number", e);
    if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
        memcpy(slot, &v, sizeof v);
        return true;
    }
    assert(f->type == PROTOBUF_C_TYPE_FLOAT);
    float narrow = (float)v;
    if (__builtin_isinf(narrow) && !__builtin_isinf(v)) return refuse(f, "a float", e);
    memcpy(slot, &narrow, sizeof narrow);
    return true;
}

// Unknown names and numbers mean the default: a newer client's choice is no reason to fail.
static bool set_enum(void *slot, field *f, str text, bool quoted, err *e)
{
    const ProtobufCEnumDescriptor *desc = f->descriptor;
    int32_t v = 0;
    if (quoted) {
        for (unsigned i = 0; i < desc->n_values; i++) {
            if (str_is(text, desc->values[i].name)) v = desc->values[i].value;
        }
    } else {
        bool negative = false;
        uint64_t number = 0;
        if (!whole_number(text, &negative, &number) || number > (uint64_t)INT32_MAX + negative) {
            return refuse(f, "an enum value", e);
        }
        v = (int32_t)(negative ? -(int64_t)number : (int64_t)number);
        if (!protobuf_c_enum_descriptor_get_value(desc, v)) v = 0;
    }
    memcpy(slot, &v, sizeof v);
    return true;
}

static bool set_string(struct parser *p, void *slot, field *f, str text, err *e)
{
    if (text.n && memchr(text.p, 0, text.n)) return refuse(f, "a string without U+0000", e);
    str copy = arena_str(p->arena, text);
    if (!copy.p) return arena_fail(p->arena, e);
    memcpy(slot, &copy.p, sizeof copy.p);
    return true;
}

static bool set_bytes(struct parser *p, void *slot, field *f, str text, err *e)
{
    char *out = arena_new(p->arena, base64_room(text.n));
    if (!out) return arena_fail(p->arena, e);
    ProtobufCBinaryData data = {.data = (uint8_t *)out};
    if (!base64_decode(text, out, &data.len, e)) {
        return err_wrap(e, "invalid value for field %s", f->name);
    }
    if (data.len == 0) data.data = NULL;  // as protobuf-c has it for an empty field
    memcpy(slot, &data, sizeof data);
    return true;
}

static bool set_scalar(struct parser *p, void *slot, field *f, enum json_token t, err *e)
{
    str text = p->json.text;
    bool quoted = t == JSON_STRING;
    switch (f->type) {
    case PROTOBUF_C_TYPE_BOOL: {
        protobuf_c_boolean v = t == JSON_TRUE;
        memcpy(slot, &v, sizeof v);
        return t == JSON_TRUE || t == JSON_FALSE ? true : refuse(f, "a boolean", e);
    }
    case PROTOBUF_C_TYPE_STRING:
        return quoted ? set_string(p, slot, f, text, e) : refuse(f, "a string", e);
    case PROTOBUF_C_TYPE_BYTES:
        return quoted ? set_bytes(p, slot, f, text, e) : refuse(f, "a base64 string", e);
    default:
        break;
    }
    if (!quoted && t != JSON_NUMBER) return refuse(f, "a number or a string", e);
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return set_signed(slot, f, text, e);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return set_floating(slot, f, text, quoted, e);
    case PROTOBUF_C_TYPE_ENUM:
        return set_enum(slot, f, text, quoted, e);
    default:
        return set_unsigned(slot, f, text, e);
    }
}

static bool push(struct parser *p, const ProtobufCMessageDescriptor *desc, ProtobufCMessage **m,
                 err *e)
{
    if (p->depth == DEPTH_MAX || p->json.depth > DEPTH_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "nested deeper than %d levels", DEPTH_MAX);
    }
    assert(desc->n_fields <= FIELDS_MAX);
    *m = arena_new(p->arena, desc->sizeof_message);
    if (!*m) return arena_fail(p->arena, e);
    protobuf_c_message_init(desc, *m);
    p->stack[p->depth++] = (struct frame){.m = *m};
    return true;
}

// Reads a value whose first token is t into a field's slot.
static bool set_value(struct parser *p, void *slot, field *f, enum json_token t, err *e)
{
    if (f->type != PROTOBUF_C_TYPE_MESSAGE) return set_scalar(p, slot, f, t, e);
    if (t != JSON_OBJECT) return refuse(f, "an object", e);
    ProtobufCMessage *m = NULL;
    if (!push(p, f->descriptor, &m, e)) return false;
    memcpy(slot, &m, sizeof m);
    return true;
}

static bool add_item(struct parser *p, struct frame *top, enum json_token t, err *e)
{
    field *f = top->array;
    char *base = (char *)top->m;
    size_t n = 0;
    memcpy(&n, base + f->quantifier_offset, sizeof n);
    if (!arena_grow(p->arena, base + f->offset, &top->room, n + 1, size_of(f))) {
        return arena_fail(p->arena, e);
    }
    assert(n < top->room);
    char *items = NULL;
    memcpy(&items, base + f->offset, sizeof items);
    if (!set_value(p, items + n * size_of(f), f, t, e)) return false;
    // Counted once it is whole. A message is pushed on the stack here and filled in later.
    n++;
    memcpy(base + f->quantifier_offset, &n, sizeof n);
    return true;
}

static bool first_of_oneof(const char *base, field *f, err *e)
{
    uint32_t which = 0;
    memcpy(&which, base + f->quantifier_offset, sizeof which);
    if (which == 0) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "the oneof of field %s is already set", f->name);
}

static bool set_field(struct parser *p, struct frame *top, field *f, err *e)
{
    char *base = (char *)top->m;
    size_t index = (size_t)(f - top->m->descriptor->fields);
    assert(index < FIELDS_MAX);
    uint64_t bit = 1ull << index % 64;
    if (top->seen[index / 64] & bit) {
        return err_set(e, ERR_INVALID_ARGUMENT, "duplicate field %s", f->name);
    }
    top->seen[index / 64] |= bit;
    enum json_token t = json_next(&p->json);
    if (t == JSON_NULL || t == JSON_FAULT)
        return true;  // the caller sees a fault at the next token
    // null stands for the default, so nothing is set.
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        if (t != JSON_ARRAY) return refuse(f, "an array", e);
        top->array = f;
        top->room = 0;
        return true;
    }
    if (is_present_by_case(f) && !first_of_oneof(base, f, e)) return false;
    if (!set_value(p, base + f->offset, f, t, e)) return false;
    if (is_present_by_case(f)) memcpy(base + f->quantifier_offset, &f->id, sizeof f->id);
    if (has_flag(f)) {
        protobuf_c_boolean yes = 1;
        memcpy(base + f->quantifier_offset, &yes, sizeof yes);
    }
    return true;
}

static field *find_field(const ProtobufCMessageDescriptor *desc, str name)
{
    for (unsigned i = 0; i < desc->n_fields; i++) {
        // Both spellings are valid JSON for protobuf: lowerCamelCase and the name as in the file.
        field *f = &desc->fields[i];
        if (is_json_name(f->name, name) || str_is(name, f->name)) return f;
    }
    return NULL;
}

// Handles one token, which belongs to the message at the top of the stack.
static bool step(struct parser *p, enum json_token t, err *e)
{
    assert(p->depth > 0 && p->depth <= DEPTH_MAX);
    struct frame *top = &p->stack[p->depth - 1];
    if (top->array) {
        if (t != JSON_ARRAY_END) return add_item(p, top, t, e);
        top->array = NULL;
        return true;
    }
    if (t == JSON_OBJECT_END) {
        p->depth--;
        return true;
    }
    field *f = find_field(top->m->descriptor, p->json.text);
    if (f) return set_field(p, top, f, e);
    (void)json_skip(&p->json);  // a fault shows at the next token
    return true;
}

ProtobufCMessage *pbjson_parse(struct arena *a, const ProtobufCMessageDescriptor *desc, str json,
                               err *e)
{
    struct parser p;
    p.arena = a;
    p.depth = 0;
    json_reader_init(&p.json, a, json);
    enum json_token t = json_next(&p.json);
    ProtobufCMessage *m = NULL;
    if (t != JSON_OBJECT && t != JSON_FAULT) {
        err_set(e, ERR_INVALID_ARGUMENT, "the JSON value is not an object");
        return NULL;
    }
    if (t == JSON_OBJECT && !push(&p, desc, &m, e)) return NULL;
    while (t != JSON_FAULT && p.depth > 0) {
        t = json_next(&p.json);
        if (t != JSON_FAULT && !step(&p, t, e)) return NULL;
    }
    // One more token, because bytes behind the object are a fault as well.
    if (t == JSON_FAULT || json_next(&p.json) == JSON_FAULT) {
        *e = p.json.fault;
        return NULL;
    }
    return arena_ok(a, e) ? m : NULL;
}

// ---- printing

static bool is_default(const char *base, field *f)
{
    static const char zero[sizeof(ProtobufCBinaryData)];
    const char *slot = base + f->offset;
    if (is_present_by_case(f)) {
        uint32_t which = 0;
        memcpy(&which, base + f->quantifier_offset, sizeof which);
        return which != f->id;
    }
    if (has_flag(f)) return memcmp(base + f->quantifier_offset, zero, sizeof(int)) == 0;
    assert(f->label != PROTOBUF_C_LABEL_REPEATED);
    const char *text = NULL;
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        memcpy(&text, slot, sizeof text);
        return f->label == PROTOBUF_C_LABEL_NONE ? !text || !*text
                                                 : !text || text == f->default_value;
    case PROTOBUF_C_TYPE_BYTES:
        return memcmp(slot, zero, sizeof(size_t)) == 0;
    default:
        return memcmp(slot, zero, size_of(f)) == 0;
    }
}

static void put_number(struct buf *b, field *f, const char *slot)
{
    int64_t i = 0;
    int32_t half = 0;
    memcpy(&i, slot, size_of(f) == 8 ? 8 : 4);
    memcpy(&half, slot, 4);
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return buf_i64(b, half);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return buf_u64(b, (uint32_t)half);
    default:
        break;
    }
    buf_byte(b, '"');
    if (f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_FIXED64) {
        buf_u64(b, (uint64_t)i);
    } else {
        buf_i64(b, i);
    }
    buf_byte(b, '"');
}

static void put_float(struct buf *b, float v)
{
    if (__builtin_isnan(v) || __builtin_isinf(v)) return json_put_double(b, (double)v);
    char text[40];
    for (int precision = 6; precision <= 9; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, (double)v);
        if (strtof(text, NULL) == v) break;
    }
    buf_z(b, text);
}

static void put_enum(struct buf *b, field *f, int32_t v)
{
    const ProtobufCEnumValue *named = protobuf_c_enum_descriptor_get_value(f->descriptor, v);
    if (!named) return buf_i64(b, v);
    json_put_string(b, str_of(named->name));
}

static void put_scalar(struct buf *b, field *f, const char *slot)
{
    union {
        protobuf_c_boolean yes;
        int32_t number;
        float narrow;
        double wide;
        const char *text;
        ProtobufCBinaryData bytes;
    } v = {0};
    memcpy(&v, slot, size_of(f));
    switch (f->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return buf_z(b, v.yes ? "true" : "false");
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum(b, f, v.number);
    case PROTOBUF_C_TYPE_FLOAT:
        return put_float(b, v.narrow);
    case PROTOBUF_C_TYPE_DOUBLE:
        return json_put_double(b, v.wide);
    case PROTOBUF_C_TYPE_STRING:
        return json_put_string(b, str_of(v.text));
    case PROTOBUF_C_TYPE_BYTES:
        buf_byte(b, '"');
        base64_put(b, str_make(v.bytes.data, v.bytes.len), true);
        return buf_byte(b, '"');
    default:
        return put_number(b, f, slot);
    }
}

struct place {
    const ProtobufCMessage *m;
    unsigned at;  // field
    size_t item;  // of that field, if it is repeated
    bool any;     // was a field printed?
};

// The field that p stands at: its number of values and the first of them; 0 if it is left out.
static size_t values_of(const struct place *p, field *f, const char **first)
{
    const char *base = (const char *)p->m;
    *first = base + f->offset;
    if (f->label != PROTOBUF_C_LABEL_REPEATED) return is_default(base, f) ? 0 : 1;
    size_t n = 0;
    memcpy(&n, base + f->quantifier_offset, sizeof n);
    memcpy(first, base + f->offset, sizeof *first);
    return n;
}

static void begin_value(struct buf *out, struct place *p, field *f)
{
    bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
    if (p->item > 0) {
        buf_byte(out, ',');
    } else {
        if (p->any) buf_byte(out, ',');
        p->any = true;
        buf_byte(out, '"');
        put_json_name(out, f->name);
        buf_z(out, repeated ? "\":[" : "\":");
    }
    p->item++;
}

void pbjson_print(const ProtobufCMessage *m, struct buf *out)
{
    struct place stack[DEPTH_MAX + 1];
    size_t depth = 1;
    stack[0] = (struct place){.m = m};
    buf_byte(out, '{');
    while (depth > 0) {
        struct place *p = &stack[depth - 1];
        if (p->at == p->m->descriptor->n_fields) {
            buf_byte(out, '}');
            depth--;
            continue;
        }
        field *f = &p->m->descriptor->fields[p->at];
        const char *first = NULL;
        size_t n = values_of(p, f, &first);
        if (p->item == n) {
            if (n > 0 && f->label == PROTOBUF_C_LABEL_REPEATED) buf_byte(out, ']');
            p->at++;
            p->item = 0;
            continue;
        }
        const char *slot = first + p->item * size_of(f);
        begin_value(out, p, f);
        if (f->type != PROTOBUF_C_TYPE_MESSAGE) {
            put_scalar(out, f, slot);
            continue;
        }
        assert(depth < COUNT(stack));  // both ways in, wire and JSON, allow DEPTH_MAX messages
        struct place *child = &stack[depth++];
        *child = (struct place){0};
        memcpy(&child->m, slot, sizeof child->m);
        buf_byte(out, '{');
    }
}
