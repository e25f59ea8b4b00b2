// SPDX-License-Identifier: Apache-2.0
//
// pb.c - reading and writing the wire format, and the scan that bounds what protobuf-c would
// allocate for a message before it is called.
#include "codec/pb.h"

#define FIELD_MAX  ((1u << 29) - 1)
#define HEAD_MAX   5  // bytes of a tag or a length; protobuf-c gives up there too
#define DEPTH_MAX  100
#define SLAB_FIRST 16   // field records that protobuf-c keeps on its stack, per message
#define SLAB_BYTES 32   // bytes that each further one takes from the heap
#define FIELDS_MAX 256  // of one message type

struct pb_reader pb_reader(str message)
{
    const uint8_t *p = (const uint8_t *)message.p;
    return (struct pb_reader){.at = p, .end = message.n ? p + message.n : p};
}

static bool stop(struct pb_reader *r, const char *fault)
{
    assert(fault && !r->fault);
    r->fault = fault;
    r->at = r->end;
    return false;
}

static bool head_get(struct pb_reader *r, uint64_t *v)
{
    const uint8_t *from = r->at;
    return varint_get(&r->at, r->end, v) && r->at - from <= HEAD_MAX;
}

static bool fixed_get(struct pb_reader *r, size_t n)
{
    assert(n == 4 || n == 8);
    if ((size_t)(r->end - r->at) < n) return stop(r, "a fixed-size number is cut");
    r->number = 0;
    for (size_t i = 0; i < n; i++)
        r->number |= (uint64_t)r->at[i] << (8 * i);
    r->at += n;
    return true;
}

bool pb_next(struct pb_reader *r)
{
    if (r->at == r->end || r->fault) return false;
    assert(r->at < r->end);
    uint64_t tag = 0;
    if (!head_get(r, &tag)) return stop(r, "a field's tag is cut or too long");
    if (tag >> 3 == 0 || tag >> 3 > FIELD_MAX) return stop(r, "a field number is out of range");
    r->field = (uint32_t)(tag >> 3);
    r->number = 0;
    r->bytes = (str){0};
    uint64_t n = 0;
    switch (tag & 7) {
    case PB_VARINT:
        r->type = PB_VARINT;
        if (!varint_get(&r->at, r->end, &r->number)) return stop(r, "a varint is cut or too long");
        return true;
    case PB_FIXED64:
        r->type = PB_FIXED64;
        return fixed_get(r, 8);
    case PB_BYTES:
        r->type = PB_BYTES;
        if (!head_get(r, &n)) return stop(r, "a length is cut or too long");
        if (n > (uint64_t)(r->end - r->at) || n > INT32_MAX) {
            return stop(r, "a length reaches past the end");
        }
        r->bytes = str_make(r->at, n);
        r->at += n;
        return true;
    case PB_FIXED32:
        r->type = PB_FIXED32;
        return fixed_get(r, 4);
    default:
        return stop(r, "a field is of a group or of an unknown wire type");
    }
}

bool pb_done(const struct pb_reader *r, err *e)
{
    if (!r->fault) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "protobuf: %s", r->fault);
}

// The end of a packed field. A single value (not packed) counts as a pack of one, after which *at
// is r->at.
static const uint8_t *pack_end(struct pb_reader *r, const uint8_t **at)
{
    const uint8_t *begin = (const uint8_t *)r->bytes.p;
    assert(r->type == PB_BYTES);
    if (!*at) *at = begin;
    return begin + r->bytes.n;
}

bool pb_packed_next(struct pb_reader *r, const uint8_t **at, uint64_t *v)
{
    if (r->fault) return false;
    if (r->type != PB_BYTES) {
        if (*at) return false;
        *at = r->at;
        *v = r->number;
        return true;
    }
    const uint8_t *end = pack_end(r, at);
    if (*at == end) return false;
    if (!varint_get(at, end, v)) return stop(r, "a packed varint is cut or too long");
    return true;
}

// ---- writing

void pb_put_varint(struct buf *b, uint64_t v)
{
    uint8_t bytes[VARINT_MAX];
    buf_put(b, bytes, varint_put(bytes, v));
}

static void put_tag(struct buf *b, uint32_t field, enum pb_type type)
{
    assert(field >= 1 && field <= FIELD_MAX);
    pb_put_varint(b, (uint64_t)field << 3 | type);
}

void pb_put_u64(struct buf *b, uint32_t field, uint64_t v)
{
    put_tag(b, field, PB_VARINT);
    pb_put_varint(b, v);
}

void pb_put_u64_opt(struct buf *b, uint32_t field, uint64_t v)
{
    if (v) pb_put_u64(b, field, v);
}

void pb_put_i64_opt(struct buf *b, uint32_t field, int64_t v)
{
    pb_put_u64_opt(b, field, (uint64_t)v);
}

void pb_put_fixed64_opt(struct buf *b, uint32_t field, uint64_t v)
{
    if (!v) return;
    // proto3 leaves defaults out, and so do all functions that end in _opt.
    put_tag(b, field, PB_FIXED64);
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(v >> (8 * i));
    buf_put(b, bytes, sizeof bytes);
}

void pb_put_double_opt(struct buf *b, uint32_t field, double v)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof bits);
    pb_put_fixed64_opt(b, field, bits);
}

void pb_put_bytes(struct buf *b, uint32_t field, str s)
{
    put_tag(b, field, PB_BYTES);
    pb_put_varint(b, s.n);
    buf_str(b, s);
}

void pb_put_bytes_opt(struct buf *b, uint32_t field, str s)
{
    if (s.n) pb_put_bytes(b, field, s);
}

size_t pb_begin(struct buf *b, uint32_t field)
{
    put_tag(b, field, PB_BYTES);
    // The place where the bytes begin. pb_end puts their length before them.
    return b->n;
}

void pb_end(struct buf *b, size_t mark)
{
    if (b->failed) return;
    assert(mark <= b->n);
    size_t n = b->n - mark;
    uint8_t head[VARINT_MAX];
    size_t head_n = varint_put(head, n);
    if (!buf_reserve(b, head_n)) return;
    // The length is known only now, and its size depends on it.
    memmove(b->p + mark + head_n, b->p + mark, n);
    memcpy(b->p + mark, head, head_n);
    b->n += head_n;
}

// ---- the scan before protobuf-c

struct frame {
    const ProtobufCMessageDescriptor *desc;
    struct pb_reader r;
    size_t fields;
    uint64_t seen[FIELDS_MAX / 64];  // singular messages, by index of the field
};

struct scan {
    struct frame stack[DEPTH_MAX];
    size_t depth;
    size_t memory;  // that unpacking takes at least
    size_t limit;
};

static bool scan_fault(const struct scan *s, err *e, const char *what)
{
    assert(s->depth > 0);
    const struct frame *f = &s->stack[s->depth - 1];
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(f->desc, f->r.field);
    return err_set(e, ERR_INVALID_ARGUMENT, "protobuf: %s.%s: %s", f->desc->name,
                   field ? field->name : "(unknown field)", what);
}

static bool take(struct scan *s, size_t bytes, err *e)
{
    assert(s->memory <= s->limit);
    // Compared with what is left, so that a sum beyond 64 bits cannot fit by wrapping.
    if (bytes <= s->limit - s->memory) {
        s->memory += bytes;
        return true;
    }
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "message needs more than the %zu bytes that are left to unpack it", s->limit);
}

// By the format a singular message may come in several pieces, to be merged. No encoder writes
// that, and protobuf-c 1.4.1 reads outside its tables when it merges messages with an unset oneof.
// So a second piece is refused.
static bool first_time(struct frame *f, const ProtobufCFieldDescriptor *field)
{
    size_t index = (size_t)(field - f->desc->fields);
    assert(index < FIELDS_MAX);
    uint64_t bit = 1ull << index % 64;
    bool first = !(f->seen[index / 64] & bit);
    f->seen[index / 64] |= bit;
    return first;
}

static bool push(struct scan *s, const ProtobufCMessageDescriptor *desc, str bytes, err *e)
{
    if (s->depth == DEPTH_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "protobuf: nested deeper than %d messages",
                       DEPTH_MAX);
    }
    assert(desc->n_fields <= FIELDS_MAX);
    s->stack[s->depth++] = (struct frame){.desc = desc, .r = pb_reader(bytes)};
    return take(s, desc->sizeof_message, e);
}

static enum pb_type wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return PB_FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return PB_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return PB_BYTES;
    default:
        return PB_VARINT;
    }
}

static bool scan_pack(struct scan *s, const ProtobufCFieldDescriptor *field, err *e)
{
    struct pb_reader *r = &s->stack[s->depth - 1].r;
    enum pb_type type = wire_type_of(field->type);
    if (type != PB_VARINT) {
        size_t width = type == PB_FIXED64 ? 8 : 4;
        if (r->bytes.n % width) return scan_fault(s, e, "a packed number is cut");
        return take(s, r->bytes.n, e);
    }
    size_t count = 0;
    const uint8_t *at = NULL;
    for (uint64_t v = 0; pb_packed_next(r, &at, &v);)
        count++;
    if (r->fault) return scan_fault(s, e, r->fault);
    // At least 4 bytes for each: what protobuf-c takes for the narrowest type.
    return take(s, count * 4, e);
}

static bool scan_string(struct scan *s, str text, err *e)
{
    if (text.n && memchr(text.p, 0, text.n)) return scan_fault(s, e, "a string holds a NUL byte");
    if (!str_utf8(text)) return scan_fault(s, e, "a string is not valid UTF-8");
    return take(s, text.n + 1, e);
}

static bool scan_field(struct scan *s, err *e)
{
    struct frame *f = &s->stack[s->depth - 1];
    // protobuf-c keeps a record of each field that it meets, known or not.
    if (++f->fields > SLAB_FIRST && !take(s, SLAB_BYTES, e)) return false;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(f->desc, f->r.field);
    if (!field) return take(s, sizeof(ProtobufCMessageUnknownField) + f->r.bytes.n, e);

    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    enum pb_type want = wire_type_of(field->type);
    if (f->r.type != want) {
        if (repeated && f->r.type == PB_BYTES) return scan_pack(s, field, e);
        return scan_fault(s, e, "has the wrong wire type");
    }
    if (repeated && !take(s, 4, e)) return false;
    if (field->type == PROTOBUF_C_TYPE_STRING) return scan_string(s, f->r.bytes, e);
    if (field->type == PROTOBUF_C_TYPE_BYTES) return take(s, f->r.bytes.n, e);
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) return true;
    if (!repeated && !first_time(f, field)) return scan_fault(s, e, "occurs twice");
    return push(s, field->descriptor, f->r.bytes, e);
}

static bool scan(const ProtobufCMessageDescriptor *desc, str bytes, size_t limit, err *e)
{
    struct scan s;  // not zeroed: DEPTH_MAX frames are several KB
    s.depth = 0;
    s.memory = 0;
    s.limit = limit;
    if (!push(&s, desc, bytes, e)) return false;
    while (s.depth > 0) {
        struct frame *f = &s.stack[s.depth - 1];
        // A field that is a message becomes the top of the stack, and its parent waits.
        if (pb_next(&f->r)) {
            if (!scan_field(&s, e)) return false;
            continue;
        }
        if (!pb_done(&f->r, e)) return err_wrap(e, "%s", f->desc->name);
        s.depth--;
    }
    return true;
}

bool pb_check(const ProtobufCMessageDescriptor *desc, str bytes, err *e)
{
    return scan(desc, bytes, SIZE_MAX, e);
}

static void *arena_alloc(void *arena, size_t n)
{
    return arena_new(arena, n);
}

static void arena_forget(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

ProtobufCMessage *pb_unpack(struct arena *a, const ProtobufCMessageDescriptor *desc, str bytes,
                            err *e)
{
    if (!scan(desc, bytes, a->cap - a->used, e)) return NULL;
    // An exhausted arena shows as a failure of protobuf-c; frees do nothing until the arena goes.
    ProtobufCAllocator allocator = {arena_alloc, arena_forget, a};
    ProtobufCMessage *m = protobuf_c_message_unpack(desc, &allocator, bytes.n,
                                                    (const uint8_t *)(bytes.n ? bytes.p : ""));
    // Asked first: without memory protobuf-c returns NULL for a message that is sound.
    if (!arena_ok(a, e)) return NULL;
    if (!m) err_set(e, ERR_INVALID_ARGUMENT, "protobuf: %s: malformed", desc->name);
    return m;
}

void pb_pack(const ProtobufCMessage *m, struct buf *out)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    char *at = n ? buf_reserve(out, n) : NULL;
    if (!at) return;
    assert(out->room - out->n >= n);
    out->n += protobuf_c_message_pack(m, (uint8_t *)at);
}

char *pb_z(struct arena *a, str s)
{
    static char nothing[1];  // never written to: string fields are only read
    str copy = arena_str(a, s);
    if (!copy.p) return nothing;
    union {
        const char *borrowed;
        char *owned;
    } p = {.borrowed = copy.p};
    return p.owned;
}
