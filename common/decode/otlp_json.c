// SPDX-License-Identifier: Apache-2.0
//
// otlp_json.c - OTLP/JSON to protobuf: the tables name the fields that are read, and the rest of
// this room sees one encoding.
//
// Field names are the same since 1.8, so JSON becomes protobuf of 1.10, or of 1.7 where it has that
// version's names. Lengths are written as varints of five bytes, because they are known only at the
// end of a message.
#include "base/ulid.h"
#include "codec/base64.h"
#include "decode/json_values.h"
#include "decode/otlp_int.h"

#define DEPTH_MAX    64
#define LENGTH_BYTES 5
#define ID_MAX       16

enum kind {
    MESSAGE,
    TEXT,
    ID,      // hex as OTLP says, or base64 as all other bytes in JSON
    NUMBER,  // a varint; 64-bit numbers may be strings
    FIXED,   // fixed64
    OLD      // a field of 1.7
};

enum message {
    REQUEST,
    RESOURCE_PROFILES,
    RESOURCE,
    SCOPE_PROFILES,
    SCOPE,
    KEY_VALUE,
    ATTRIBUTE,
    ANY_VALUE,
    ARRAY_VALUE,
    DICTIONARY,
    MAPPING,
    LOCATION,
    LINE,
    FUNCTION,
    LINK,
    STACK,
    PROFILE,
    VALUE_TYPE,
    SAMPLE,
    OLD_DICTIONARY,
    OLD_SCOPE_PROFILES,
    OLD_RESOURCE_PROFILES,
    OLD_REQUEST,
    OLD_PROFILE,
    OLD_SAMPLE,
    MESSAGES
};

struct field {
    const char *name;
    uint8_t number;
    uint8_t kind;
    uint8_t message;
    bool repeated;
};

#define FIELDS_MAX 12

// Fields that are not read are left out, as are those that nobody knows: OTLP says to ignore them.
static const struct field fields[MESSAGES][FIELDS_MAX] = {
    [REQUEST] = {{"resourceProfiles", 1, MESSAGE, RESOURCE_PROFILES, true},
                 {"dictionary", 2, MESSAGE, DICTIONARY, false}},
    [RESOURCE_PROFILES] = {{"resource", 1, MESSAGE, RESOURCE, false},
                           {"scopeProfiles", 2, MESSAGE, SCOPE_PROFILES, true}},
    [RESOURCE] = {{"attributes", 1, MESSAGE, KEY_VALUE, true}},
    [SCOPE_PROFILES] = {{"scope", 1, MESSAGE, SCOPE, false},
                        {"profiles", 2, MESSAGE, PROFILE, true}},
    [SCOPE] = {{"attributes", 3, MESSAGE, KEY_VALUE, true}},
    [KEY_VALUE] = {{"key", 1, TEXT, 0, false},
                   {"value", 2, MESSAGE, ANY_VALUE, false},
                   {"keyStrindex", 3, NUMBER, 0, false}},
    [ATTRIBUTE] = {{"keyStrindex", 1, NUMBER, 0, false},
                   {"value", 2, MESSAGE, ANY_VALUE, false},
                   {"key", 0, OLD, 0, false}},
    [ANY_VALUE] = {{"stringValue", 1, TEXT, 0, false},
                   {"intValue", 3, NUMBER, 0, false},
                   {"arrayValue", 5, MESSAGE, ARRAY_VALUE, false},
                   {"stringValueStrindex", 8, NUMBER, 0, false}},
    [ARRAY_VALUE] = {{"values", 1, MESSAGE, ANY_VALUE, true}},
    [DICTIONARY] = {{"mappingTable", OTLP_MAPPINGS, MESSAGE, MAPPING, true},
                    {"locationTable", OTLP_LOCATIONS, MESSAGE, LOCATION, true},
                    {"functionTable", OTLP_FUNCTIONS, MESSAGE, FUNCTION, true},
                    {"linkTable", OTLP_LINKS, MESSAGE, LINK, true},
                    {"stringTable", OTLP_STRINGS, TEXT, 0, true},
                    {"attributeTable", OTLP_ATTRIBUTES, MESSAGE, ATTRIBUTE, true},
                    {"stackTable", OTLP_STACKS, MESSAGE, STACK, true}},
    [MAPPING] = {{"memoryStart", 1, NUMBER, 0, false},
                 {"memoryLimit", 2, NUMBER, 0, false},
                 {"fileOffset", 3, NUMBER, 0, false},
                 {"filenameStrindex", 4, NUMBER, 0, false},
                 {"attributeIndices", 5, NUMBER, 0, true}},
    [LOCATION] = {{"mappingIndex", 1, NUMBER, 0, false},
                  {"address", 2, NUMBER, 0, false},
                  {"lines", 3, MESSAGE, LINE, true},
                  {"line", 3, MESSAGE, LINE, true}},  // until 1.8
    [LINE] = {{"functionIndex", 1, NUMBER, 0, false}, {"line", 2, NUMBER, 0, false}},
    [FUNCTION] = {{"nameStrindex", 1, NUMBER, 0, false},
                  {"systemNameStrindex", 2, NUMBER, 0, false},
                  {"filenameStrindex", 3, NUMBER, 0, false},
                  {"startLine", 4, NUMBER, 0, false}},
    [LINK] = {{"traceId", 1, ID, 0, false}, {"spanId", 2, ID, 0, false}},
    [STACK] = {{"locationIndices", 1, NUMBER, 0, true}},
    [VALUE_TYPE] = {{"typeStrindex", 1, NUMBER, 0, false}, {"unitStrindex", 2, NUMBER, 0, false}},
    [PROFILE] = {{"sampleType", 1, MESSAGE, VALUE_TYPE, false},
                 {"samples", 2, MESSAGE, SAMPLE, true},
                 {"sample", 2, MESSAGE, SAMPLE, true},  // until 1.8
                 {"timeUnixNano", 3, FIXED, 0, false},
                 {"durationNano", 4, NUMBER, 0, false},
                 {"periodType", 5, MESSAGE, VALUE_TYPE, false},
                 {"period", 6, NUMBER, 0, false},
                 {"locationIndices", 0, OLD, 0, true},
                 {"timeNanos", 0, OLD, 0, false}},
    [SAMPLE] = {{"stackIndex", 1, NUMBER, 0, false},
                {"attributeIndices", 2, NUMBER, 0, true},
                {"linkIndex", 3, NUMBER, 0, false},
                {"values", 4, NUMBER, 0, true},
                {"timestampsUnixNano", 5, FIXED, 0, true},
                {"locationsStartIndex", 0, OLD, 0, false},
                {"locationsLength", 0, OLD, 0, false},
                {"value", 0, OLD, 0, true}},
    [OLD_REQUEST] = {{"resourceProfiles", 1, MESSAGE, OLD_RESOURCE_PROFILES, true},
                     {"dictionary", 2, MESSAGE, OLD_DICTIONARY, false}},
    [OLD_RESOURCE_PROFILES] = {{"resource", 1, MESSAGE, RESOURCE, false},
                               {"scopeProfiles", 2, MESSAGE, OLD_SCOPE_PROFILES, true}},
    [OLD_SCOPE_PROFILES] = {{"scope", 1, MESSAGE, SCOPE, false},
                            {"profiles", 2, MESSAGE, OLD_PROFILE, true}},
    [OLD_DICTIONARY] = {{"mappingTable", OTLP_MAPPINGS, MESSAGE, MAPPING, true},
                        {"locationTable", OTLP_LOCATIONS, MESSAGE, LOCATION, true},
                        {"functionTable", OTLP_FUNCTIONS, MESSAGE, FUNCTION, true},
                        {"linkTable", OTLP_LINKS, MESSAGE, LINK, true},
                        {"stringTable", OTLP_STRINGS, TEXT, 0, true},
                        {"attributeTable", OTLP_ATTRIBUTES, MESSAGE, KEY_VALUE, true}},
    [OLD_PROFILE] = {{"sampleType", 1, MESSAGE, VALUE_TYPE, true},
                     {"sample", 2, MESSAGE, OLD_SAMPLE, true},
                     {"locationIndices", 3, NUMBER, 0, true},
                     {"timeNanos", 4, NUMBER, 0, false},
                     {"durationNanos", 5, NUMBER, 0, false},
                     {"periodType", 6, MESSAGE, VALUE_TYPE, false},
                     {"period", 7, NUMBER, 0, false}},
    [OLD_SAMPLE] = {{"locationsStartIndex", 1, NUMBER, 0, false},
                    {"locationsLength", 2, NUMBER, 0, false},
                    {"value", 3, NUMBER, 0, true},
                    {"attributeIndices", 4, NUMBER, 0, true},
                    {"linkIndex", 5, NUMBER, 0, false},
                    {"timestampsUnixNano", 6, NUMBER, 0, true}},
};

// A message that is open, or an array of messages.
struct level {
    const struct field *array;  // NULL: a message
    uint8_t message;
    size_t length;  // where its length goes; of the request none
};

struct reading {
    struct json_reader r;
    struct buf *out;
    struct level levels[DEPTH_MAX];
    size_t depth;
    bool old;
};

static bool broken(struct reading *x, const char *what, err *e)
{
    return json_broken(&x->r, what, e);
}

// Names are in camel case; protojson takes those of the proto files as well. A key may have any
// bytes, NUL too, so the end of the name ends the comparison.
static bool names(str key, const char *name)
{
    for (size_t i = 0; i < key.n; i++) {
        char c = key.p[i];
        if (c == '_' && i + 1 < key.n && key.p[i + 1] >= 'a' && key.p[i + 1] <= 'z') {
            c = (char)(key.p[++i] - 'a' + 'A');
        }
        if (*name == '\0' || *name++ != c) return false;
    }
    return *name == '\0';
}

static const struct field *find(uint8_t message, str key)
{
    for (size_t i = 0; i < FIELDS_MAX && fields[message][i].name; i++) {
        if (names(key, fields[message][i].name)) return &fields[message][i];
    }
    return NULL;
}

static void put_tag(struct reading *x, const struct field *f, enum pb_type type)
{
    buf_byte(x->out, (unsigned char)(f->number << 3 | (int)type));
}

static size_t open_length(struct reading *x)
{
    static const char room[LENGTH_BYTES];
    buf_put(x->out, room, sizeof room);
    return x->out->n - LENGTH_BYTES;
}

static void close_length(struct reading *x, size_t at)
{
    if (x->out->failed) return;
    size_t n = x->out->n - at - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++)
        x->out->p[at + (size_t)i] = (char)((n >> (7 * i) & 0x7f) | (i < LENGTH_BYTES - 1) << 7);
}

// ---- values

static bool whole(str text, uint64_t *v)
{
    int64_t i = 0;
    double d = 0;
    if (str_u64(text, v)) return true;
    // Numbers may be written with a fraction or an exponent if they are whole.
    if (!str_i64(text, &i)) {
        if (json_number_size(text) != text.n || !json_double(text, &d) || !json_whole(d, &i) ||
            (double)i != d) {
            return false;
        }
    }
    *v = (uint64_t)i;
    return true;
}

static bool put_number(struct reading *x, const struct field *f, enum json_token t, bool tagged,
                       err *e)
{
    uint64_t v = 0;
    bool good = (t == JSON_NUMBER || t == JSON_STRING) && whole(x->r.text, &v);
    if (!good) return broken(x, "a whole number", e);
    if (tagged) put_tag(x, f, f->kind == FIXED ? PB_FIXED64 : PB_VARINT);
    if (f->kind == NUMBER) {
        pb_put_varint(x->out, v);
        return true;
    }
    for (int i = 0; i < 8; i++)
        buf_byte(x->out, (unsigned char)(v >> (8 * i)));
    return true;
}

static bool put_id(struct reading *x, const struct field *f, err *e)
{
    str text = x->r.text;
    char bytes[2 * ID_MAX];
    size_t n = text.n / 2;
    bool hex = (text.n == 32 || text.n == 16) && hex_parse(text, (uint8_t *)bytes, n);
    if (!hex) {
        if (base64_room(text.n) > sizeof bytes) return broken(x, "an id", e);
        if (!base64_decode(text, bytes, &n, e)) return err_wrap(e, "%s", f->name);
    }
    put_tag(x, f, PB_BYTES);
    pb_put_varint(x->out, n);
    buf_put(x->out, bytes, n);
    return true;
}

static bool put_text(struct reading *x, const struct field *f, enum json_token t, err *e)
{
    if (t != JSON_STRING) return broken(x, "a string", e);
    if (f->kind == ID) return put_id(x, f, e);
    pb_put_bytes(x->out, f->number, x->r.text);
    return true;
}

static bool put_numbers(struct reading *x, const struct field *f, err *e)
{
    put_tag(x, f, PB_BYTES);
    size_t length = open_length(x);
    for (;;) {
        enum json_token t = json_next(&x->r);
        if (t == JSON_ARRAY_END) break;
        if (!put_number(x, f, t, false, e)) return false;
    }
    close_length(x, length);
    return true;
}

static bool put_texts(struct reading *x, const struct field *f, err *e)
{
    for (;;) {
        enum json_token t = json_next(&x->r);
        if (t == JSON_ARRAY_END) return true;
        if (!put_text(x, f, t, e)) return false;
    }
}

// ---- messages

static bool push(struct reading *x, struct level one, err *e)
{
    if (x->depth == DEPTH_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: messages are nested deeper than %d",
                       x->r.at, DEPTH_MAX);
    }
    x->levels[x->depth++] = one;
    return true;
}

static bool open_message(struct reading *x, const struct field *f, err *e)
{
    put_tag(x, f, PB_BYTES);
    return push(x, (struct level){.message = f->message, .length = open_length(x)}, e);
}

static bool read_field(struct reading *x, const struct field *f, err *e)
{
    enum json_token t = json_next(&x->r);
    if (t == JSON_NULL) return true;  // as if it were not there
    // 1.7 had several sample types, so a list of them says which version this is.
    if (t == JSON_ARRAY && f->kind == MESSAGE && f->message == VALUE_TYPE && !f->repeated) {
        x->old = true;
        return true;
    }
    if (f->repeated != (t == JSON_ARRAY)) return broken(x, f->repeated ? "a list" : "a value", e);
    switch ((enum kind)f->kind) {
    case MESSAGE:
        if (t == JSON_ARRAY) return push(x, (struct level){.array = f}, e);
        return t == JSON_OBJECT ? open_message(x, f, e) : broken(x, "an object", e);
    case TEXT:
    case ID:
        return f->repeated ? put_texts(x, f, e) : put_text(x, f, t, e);
    default:
        return f->repeated ? put_numbers(x, f, e) : put_number(x, f, t, true, e);
    }
}

// One step: the next field of an open message, or the next message of an open array.
static bool step(struct reading *x, err *e)
{
    struct level *l = &x->levels[x->depth - 1];
    enum json_token t = json_next(&x->r);
    if (l->array) {
        if (t == JSON_OBJECT) return open_message(x, l->array, e);
        if (t != JSON_ARRAY_END) return broken(x, "an object", e);
        x->depth--;
        return true;
    }
    if (t == JSON_OBJECT_END) {
        if (x->depth > 1) close_length(x, l->length);
        x->depth--;
        return true;
    }
    if (t != JSON_KEY) return broken(x, "a field", e);
    const struct field *f = find(l->message, x->r.text);
    if (f && f->kind == OLD) x->old = true;
    if (f && f->kind != OLD) return read_field(x, f, e);
    // A body of something else would be taken for a request without profiles.
    if (!f && x->depth == 1) {
        return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: unknown field \"%.*s\"", x->r.at,
                       (int)MIN(x->r.text.n, 64u), x->r.text.p);
    }
    return json_pass(&x->r, e);
}

static bool read_all(struct reading *x, enum otlp_layout layout, err *e)
{
    x->levels[x->depth++] = (struct level){.message = layout == OTLP_1_7 ? OLD_REQUEST : REQUEST};
    if (json_next(&x->r) != JSON_OBJECT) return broken(x, "an object", e);
    while (x->depth > 0) {
        if (!step(x, e)) return false;
        if (x->out->failed) return buf_ok(x->out, e);
        if (x->old) return true;
    }
    return json_next(&x->r) == JSON_END || broken(x, "the end", e);
}

static void release(void *arg)
{
    buf_release(arg);
}

bool otlp_json_read(struct arena *a, str text, enum otlp_layout layout, str *out, bool *old, err *e)
{
    struct buf *b = ARENA_NEW(a, struct buf);
    struct reading *x = ARENA_NEW(a, struct reading);
    if (!b || !x || !arena_defer(a, release, b)) return arena_fail(a, e);
    buf_init(b, a->budget, MIN(a->cap, (size_t)INT32_MAX));
    x->out = b;
    json_reader_init(&x->r, a, text);
    if (!read_all(x, layout, e)) return false;
    *old = x->old;
    *out = buf_view(b);
    return true;
}
