// SPDX-License-Identifier: Apache-2.0
#include "ingester/log/log_object.h"

#include "base/hash.h"
#include "codec/pb.h"

#include <inttypes.h>

#define LOG_FORMAT 2

// The format without a bound. Seals still have it where the stream below them does.
#define LOG_FORMAT_UNBOUND 1

// Fields of LogObject.
enum {
    FORMAT = 1,
    HEAD,
    HEAD_CHECK,
    ENTRIES,
    CHECK
};

// ---- writing

static void put_check(struct buf *out, uint32_t field)
{
    uint32_t crc = out->n ? crc32c(0, out->p, out->n) : 0;
    buf_byte(out, (unsigned char)(field << 3 | PB_FIXED32));
    for (int i = 0; i < 4; i++)
        buf_byte(out, (unsigned char)(crc >> (8 * i)));
}

// Whether what a head says of the covered part of its stream can be: the oldest cut that was not
// covered began here, or in an object before.
static bool bound_fits(const struct log_object_head *h)
{
    const struct log_object_bound *b = &h->covered;
    if (!b->below || b->below > h->number || !b->cut || !b->seq) return false;
    if (h->seal) return b->below < h->number;
    if (b->cut > h->cut || b->seq > h->cut_first_seq) return false;
    return b->below < h->number || (b->cut == h->cut && b->seq == h->first_seq);
}

void log_object_begin(struct log_object_packer *p, struct buf *out, const struct log_object_head *h)
{
    assert(out->n == 0 && h->number > 0);
    assert(!h->covered.below || bound_fits(h));
    assert(h->seal ? h->count == 0 : h->count > 0 && h->cut > 0 && h->cut_first_seq > 0);
    assert(h->seal || h->cut_first_seq <= h->first_seq);
    *p = (struct log_object_packer){.out = out,
                                    .seq = h->first_seq,
                                    .left = h->count,
                                    .cut = h->cut};
    pb_put_u64(out, FORMAT, h->covered.below ? LOG_FORMAT : LOG_FORMAT_UNBOUND);
    size_t mark = pb_begin(out, HEAD);
    pb_put_bytes(out, 1, str_make(h->stream.b, sizeof h->stream.b));
    pb_put_u64(out, 2, h->number);
    pb_put_bytes(out, 3, str_make(h->nonce.b, sizeof h->nonce.b));
    pb_put_fixed64_opt(out, 4, (uint64_t)h->made_ns);
    pb_put_u64_opt(out, 5, h->seal);
    pb_put_bytes_opt(out, 6, h->seal ? str_slice(h->node, 0, LOG_OBJECT_NODE_MAX) : (str){0});
    pb_put_u64_opt(out, 7, h->cut);
    pb_put_fixed64_opt(out, 8, (uint64_t)h->cut_opened_ns);
    pb_put_u64_opt(out, 9, h->cut_first_seq);
    pb_put_u64_opt(out, 10, h->first_seq);
    pb_put_u64_opt(out, 11, h->count);
    pb_put_u64_opt(out, 12, h->covered.below);
    pb_put_u64_opt(out, 13, h->covered.below ? h->covered.cut : 0);
    pb_put_u64_opt(out, 14, h->covered.below ? h->covered.seq : 0);
    pb_end(out, mark);
    put_check(out, HEAD_CHECK);
    assert(out->failed || out->n <= LOG_OBJECT_HEAD_MAX);
}

// Message Entry, as in the local log: its length first, so that nothing is moved.
void log_object_add(struct log_object_packer *p, str tenant, uint64_t rows_before, str news,
                    str rows)
{
    size_t n = news.n + rows.n;
    assert(p->left > 0 && p->seq > 0);
    size_t size = 4 + varint_size(p->seq) + varint_size(p->cut) + varint_size(rows_before) +
                  varint_size(n) + n;
    if (tenant.n) size += 1 + varint_size(tenant.n) + tenant.n;
    pb_put_varint(p->out, ENTRIES << 3 | PB_BYTES);
    pb_put_varint(p->out, size);
    size_t from = p->out->n;
    pb_put_u64(p->out, 1, p->seq);
    pb_put_u64(p->out, 2, p->cut);
    pb_put_bytes_opt(p->out, 3, tenant);
    pb_put_u64(p->out, 8, rows_before);
    pb_put_varint(p->out, 9 << 3 | PB_BYTES);
    pb_put_varint(p->out, n);
    buf_str(p->out, news);
    buf_str(p->out, rows);
    assert(p->out->failed || p->out->n == from + size);
    p->seq++;
    p->left--;
}

bool log_object_end(struct log_object_packer *p, err *e)
{
    assert(p->left == 0);
    put_check(p->out, CHECK);
    return buf_ok(p->out, e);
}

// ---- reading

static bool damaged(err *e, const char *what)
{
    return err_set(e, ERR_DATA_LOSS, "%s", what);
}

static bool read_id(str bytes, id128 *id)
{
    if (bytes.n != sizeof id->b) return false;
    memcpy(id->b, bytes.p, sizeof id->b);
    return true;
}

static void read_head_number(struct log_object_head *h, uint32_t field, uint64_t v)
{
    switch (field) {
    case 2:
        h->number = v;
        break;
    case 4:
        h->made_ns = (int64_t)v;
        break;
    case 5:
        h->seal = v != 0;
        break;
    case 7:
        h->cut = v;
        break;
    case 8:
        h->cut_opened_ns = (int64_t)v;
        break;
    case 9:
        h->cut_first_seq = v;
        break;
    case 10:
        h->first_seq = v;
        break;
    case 11:
        h->count = v;
        break;
    case 12:
        h->covered.below = v;
        break;
    case 13:
        h->covered.cut = v;
        break;
    case 14:
        h->covered.seq = v;
        break;
    default:  // of a later program
        break;
    }
}

static bool check_entries_head(const struct log_object_head *h, err *e)
{
    if (h->node.n) return damaged(e, "it is no seal, and names a sealer");
    if (!h->cut || !h->count || !h->cut_first_seq || h->first_seq < h->cut_first_seq) {
        return err_set(e, ERR_DATA_LOSS,
                       "its head has cut %" PRIu64 ", count %" PRIu64 ", cut_first_seq %" PRIu64
                       ", first_seq %" PRIu64,
                       h->cut, h->count, h->cut_first_seq, h->first_seq);
    }
    if (h->count > UINT64_MAX - h->first_seq) return damaged(e, "its entries have no numbers left");
    return true;
}

static bool check_head(const struct log_object_head *h, uint64_t format, id128 stream,
                       uint64_t number, err *e)
{
    if (!id128_eq(h->stream, stream)) return damaged(e, "its head names another stream");
    if (h->number != number)
        return err_set(e, ERR_DATA_LOSS, "its head has number %" PRIu64, h->number);
    bool bare = !h->cut && !h->cut_first_seq && !h->first_seq && !h->count;
    if (h->seal && !bare) return damaged(e, "it is a seal with entries");
    if (!h->seal && !check_entries_head(h, e)) return false;
    if (format == LOG_FORMAT_UNBOUND || bound_fits(h)) return true;
    return err_set(e, ERR_DATA_LOSS,
                   "its head says that all below number %" PRIu64 " is covered, where cut %" PRIu64
                   " begins with seq %" PRIu64,
                   h->covered.below, h->covered.cut, h->covered.seq);
}

static bool read_head(str message, uint64_t format, id128 stream, uint64_t number,
                      struct log_object_head *h, err *e)
{
    bool ids = true;
    unsigned seen = 0;
    *h = (struct log_object_head){0};
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.type != PB_BYTES) read_head_number(h, r.field, r.number);
        if (r.type == PB_BYTES && r.field == 1) ids = ids && read_id(r.bytes, &h->stream);
        if (r.type == PB_BYTES && r.field == 3) ids = ids && read_id(r.bytes, &h->nonce);
        if (r.type == PB_BYTES && r.field == 6) h->node = r.bytes;
        if (r.type == PB_BYTES && (r.field == 1 || r.field == 3)) seen |= 1u << r.field;
    }
    if (r.fault || !ids || seen != (1u << 1 | 1u << 3)) return damaged(e, "its head is malformed");
    if (format == LOG_FORMAT_UNBOUND) h->covered = (struct log_object_bound){0};
    return h->node.n <= LOG_OBJECT_NODE_MAX ? check_head(h, format, stream, number, e)
                                            : damaged(e, "the name of its sealer is too long");
}

// The next field must be this one.
static bool expect(struct pb_reader *r, uint32_t field, enum pb_type type)
{
    return pb_next(r) && r->field == field && r->type == type;
}

// Whether the field that was just read has the CRC32C of the bytes before it.
static bool is_right(const struct pb_reader *r, const char *from)
{
    size_t before = (size_t)((const char *)r->at - from) - 5;  // its tag has one byte, it has four
    return crc32c(0, from, before) == (uint32_t)r->number;
}

static bool is_known(uint64_t format)
{
    return format == LOG_FORMAT || format == LOG_FORMAT_UNBOUND;
}

static bool head_from(struct pb_reader *r, str bytes, id128 stream, uint64_t number,
                      struct log_object_head *h, err *e)
{
    // A field may be written in more bytes than it needs; the checks rely on tags of one byte.
    if (bytes.n == 0 || bytes.p[0] != (FORMAT << 3 | PB_VARINT) || !expect(r, FORMAT, PB_VARINT))
        return damaged(e, "it does not begin as one");
    uint64_t format = r->number;
    if (!is_known(format))
        return err_set(e, ERR_DATA_LOSS, "it has format %" PRIu64 "; this program reads up to %d",
                       format, LOG_FORMAT);
    if (!expect(r, HEAD, PB_BYTES)) return damaged(e, "it has no head");
    str head = r->bytes;
    const char *check = (const char *)r->at;
    if (!expect(r, HEAD_CHECK, PB_FIXED32) || (const char *)r->at != check + 5)
        return damaged(e, "its head has no check");
    if (r->at > (const uint8_t *)bytes.p + LOG_OBJECT_HEAD_MAX)
        return damaged(e, "its head is too long");
    if (!is_right(r, bytes.p)) return damaged(e, "its head does not match its check");
    return read_head(head, format, stream, number, h, e);
}

bool log_object_decode_head(str bytes, id128 stream, uint64_t number, struct log_object_head *h,
                            err *e)
{
    struct pb_reader r = pb_reader(bytes);
    return head_from(&r, bytes, stream, number, h, e);
}

bool log_object_is_foreign(str bytes)
{
    struct pb_reader r = pb_reader(bytes);
    if (bytes.n == 0 || bytes.p[0] != (FORMAT << 3 | PB_VARINT) || !expect(&r, FORMAT, PB_VARINT) ||
        is_known(r.number) || !expect(&r, HEAD, PB_BYTES))
        return false;
    const char *check = (const char *)r.at;
    return expect(&r, HEAD_CHECK, PB_FIXED32) && (const char *)r.at == check + 5 &&
           is_right(&r, bytes.p);
}

// One entry, whose cut must be the head's.
static bool read_entry(str message, uint64_t *cut, struct log_object_entry *x)
{
    *x = (struct log_object_entry){.bytes = message};
    *cut = 0;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.type == PB_BYTES && r.field == 3) x->tenant = r.bytes;
        if (r.type == PB_BYTES && r.field == 9) x->rows = r.bytes;
        if (r.type == PB_VARINT && r.field == 1) x->seq = r.number;
        if (r.type == PB_VARINT && r.field == 2) *cut = r.number;
        if (r.type == PB_VARINT && r.field == 8) x->rows_before = r.number;
    }
    return !r.fault;
}

bool log_object_decode(str bytes, id128 stream, uint64_t number, struct log_object *o, err *e)
{
    *o = (struct log_object){0};
    struct log_object_head *h = &o->head;
    struct pb_reader r = pb_reader(bytes);
    if (!head_from(&r, bytes, stream, number, h, e)) return false;
    const char *from = (const char *)r.at;
    const char *to = from;
    uint64_t seq = h->first_seq;
    uint64_t left = h->count;
    while (pb_next(&r) && r.field == ENTRIES && r.type == PB_BYTES && left > 0) {
        struct log_object_entry x;
        uint64_t cut = 0;
        if (!read_entry(r.bytes, &cut, &x) || x.seq != seq || cut != h->cut)
            return err_set(e, ERR_DATA_LOSS, "its entry %" PRIu64 " is not what its place says",
                           seq);
        seq++;
        left--;
        to = (const char *)r.at;
    }
    bool whole = !r.fault && left == 0 && r.field == CHECK && r.type == PB_FIXED32 &&
                 (const char *)r.at == to + 5 && r.at == r.end;
    if (!whole) return damaged(e, "it has other entries than its head says");
    if (!is_right(&r, bytes.p)) return damaged(e, "it does not match its check");
    o->entries = str_make(from, (size_t)(to - from));
    return true;
}

bool log_object_next(str *rest, struct log_object_entry *x)
{
    uint64_t cut = 0;
    struct pb_reader r = pb_reader(*rest);
    if (rest->n == 0 || !pb_next(&r)) return false;
    (void)read_entry(r.bytes, &cut, x);  // log_object_decode has seen that it can be read
    *rest = str_slice(*rest, (size_t)((const char *)r.at - rest->p), rest->n);
    return true;
}
