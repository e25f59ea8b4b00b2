// SPDX-License-Identifier: Apache-2.0
//
// An object of a log in the store. Its checks are put right first, or nothing behind them would be
// reached. Properties: what is read is written to bytes that are read to the same; the head that is
// read by itself is the object's.
#include "base/hash.h"
#include "codec/pb.h"
#include "ingester/log/log_object.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The stream and number that the bytes claim, wherever they do.
static void claimed(str bytes, id128 *stream, uint64_t *number)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field != 2 || r.type != PB_BYTES) continue;
        struct pb_reader head = pb_reader(r.bytes);
        while (pb_next(&head)) {
            if (head.field == 1 && head.type == PB_BYTES && head.bytes.n == sizeof stream->b)
                memcpy(stream->b, head.bytes.p, sizeof stream->b);
            if (head.field == 2 && head.type == PB_VARINT) *number = head.number;
        }
    }
}

static void put_checks_right(char *p, size_t n)
{
    struct pb_reader r = pb_reader(str_make(p, n));
    while (pb_next(&r)) {
        size_t end = (size_t)((const char *)r.at - p);
        if ((r.field != 3 && r.field != 5) || r.type != PB_FIXED32 || end < 5) continue;
        uint32_t crc = crc32c(0, p, end - 5);
        for (size_t i = 0; i < 4; i++)
            p[end - 4 + i] = (char)(crc >> (8 * i));
    }
}

static void write_again(const struct log_object *o, struct buf *out)
{
    struct log_object_packer p;
    struct log_object_entry x;
    str rest = o->entries;
    err e = {0};
    buf_init(out, NULL, (size_t)1 << 30);
    log_object_begin(&p, out, &o->head);
    while (log_object_next(&rest, &x))
        log_object_add(&p, x.tenant, x.rows_before, str_slice(x.rows, 0, x.rows.n / 2),
                       str_slice(x.rows, x.rows.n / 2, x.rows.n));
    if (!log_object_end(&p, &e)) abort();
}

static void must_be_equal(const struct log_object *a, const struct log_object *b)
{
    struct log_object_entry x;
    struct log_object_entry y;
    str s = a->entries;
    str t = b->entries;
    const struct log_object_head *h = &a->head;
    const struct log_object_head *k = &b->head;
    if (!id128_eq(h->nonce, k->nonce) || h->made_ns != k->made_ns || h->seal != k->seal ||
        !str_eq(h->node, k->node) || h->cut != k->cut || h->cut_opened_ns != k->cut_opened_ns ||
        h->cut_first_seq != k->cut_first_seq || h->first_seq != k->first_seq ||
        h->count != k->count)
        abort();
    while (log_object_next(&s, &x)) {
        if (!log_object_next(&t, &y) || x.seq != y.seq || x.rows_before != y.rows_before ||
            !str_eq(x.tenant, y.tenant) || !str_eq(x.rows, y.rows))
            abort();
    }
    if (log_object_next(&t, &y)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    id128 stream = {{0}};
    uint64_t number = 0;
    err e = {0};
    struct log_object o;
    struct log_object again;
    struct log_object_head h;
    char *bytes = malloc(size + 1);
    if (!bytes) abort();
    if (size) memcpy(bytes, data, size);
    claimed(str_make(bytes, size), &stream, &number);
    put_checks_right(bytes, size);
    str all = str_make(bytes, size);
    bool ok = number && log_object_decode(all, stream, number, &o, &e);
    str front = str_slice(all, 0, LOG_OBJECT_HEAD_MAX);
    if (ok && !log_object_decode_head(front, stream, number, &h, &e)) abort();
    if (log_object_is_foreign(front) && number &&
        log_object_decode_head(front, stream, number, &h, &e))
        abort();  // it is no object that can be read
    if (ok) {
        struct buf out;
        write_again(&o, &out);
        if (!log_object_decode(buf_view(&out), stream, number, &again, &e)) abort();
        must_be_equal(&o, &again);
        buf_release(&out);
    }
    free(bytes);
    return 0;
}
