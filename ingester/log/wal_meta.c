// SPDX-License-Identifier: Apache-2.0
//
// wal_meta.c - rows of the log's meta family: keys and messages of streams and cuts
// (docs/formats/log.md).
#include "codec/pb.h"
#include "ingester/log/wal_int.h"

#include <stdio.h>

#define AT(field, type) ((field) << 3 | (unsigned)(type))

static const char stream_prefix[] = "stream/";
static const char loss_prefix[] = "loss/";

void meta_stream_key(id128 stream, char key[META_KEY])
{
    char text[ULID_TEXT];
    ulid_print(stream, text);
    snprintf(key, META_KEY, "%s%s", stream_prefix, text);
}

void meta_cut_key(id128 stream, uint64_t number, char key[META_KEY])
{
    char text[ULID_TEXT];
    ulid_print(stream, text);
    snprintf(key, META_KEY, "cut/%s.%016llx", text, (unsigned long long)number);
}

// Message StreamInfo.
void meta_stream_value(const struct wal_stream *s, const char *owner, struct buf *out)
{
    pb_put_bytes(out, 1, str_make(s->id.b, sizeof s->id.b));
    pb_put_bytes_opt(out, 2, str_of(owner));
    pb_put_bytes_opt(out, 4, str_of(s->state));
    pb_put_u64_opt(out, 5, s->highest_seq);
}

// Message CutInfo.
void meta_cut_value(const struct cut *c, struct buf *out)
{
    // An open cut's row has no end: a crash must not leave a number that a later entry went beyond.
    pb_put_u64_opt(out, 1, c->closed);
    pb_put_fixed64_opt(out, 2, (uint64_t)c->opened_wall_ns);
    pb_put_fixed64_opt(out, 3, (uint64_t)c->newest_wall_ns);
    pb_put_u64_opt(out, 4, c->first_seq);
    pb_put_u64_opt(out, 5, c->last_seq);
    pb_put_u64_opt(out, 6, c->bytes);
    if (c->closed && c->rows != ROWS_UNKNOWN) pb_put_u64(out, 7, c->rows);
}

// Only the row of a closed cut has a last seq and rows. Fields that are not known are passed over:
// a later program may have written them.
bool meta_cut_read(str value, struct cut *c, err *e)
{
    struct pb_reader r = pb_reader(value);
    c->rows = ROWS_UNKNOWN;
    while (pb_next(&r)) {
        switch (AT(r.field, r.type)) {
        case AT(1, PB_VARINT):
            c->closed = r.number != 0;
            break;
        case AT(2, PB_FIXED64):
            c->opened_wall_ns = (int64_t)r.number;
            break;
        case AT(3, PB_FIXED64):
            c->newest_wall_ns = (int64_t)r.number;
            break;
        case AT(4, PB_VARINT):
            c->first_seq = r.number;
            break;
        case AT(5, PB_VARINT):
            c->last_seq = r.number;
            break;
        case AT(6, PB_VARINT):
            c->bytes = r.number;
            break;
        case AT(7, PB_VARINT):
            c->rows = r.number;
            break;
        default:
            break;
        }
    }
    return pb_done(&r, e) || err_wrap(e, "log: cut row");
}

void meta_put(struct db *d, rocksdb_writebatch_t *batch, const char *key, str value)
{
    assert(d->meta);
    rocksdb_writebatch_put_cf(batch, d->meta, key, strlen(key), value.p, value.n);
}

static bool stream_read(str key, str value, struct wal_stream *s, err *e)
{
    *s = (struct wal_stream){.state = "unchecked"};
    str name = str_slice(key, sizeof stream_prefix - 1, key.n);
    if (!ulid_parse(name, &s->id, e)) return err_wrap(e, "log: stream row");
    struct pb_reader r = pb_reader(value);
    // Only the number is read: owner and state are for people who look into the database.
    while (pb_next(&r)) {
        if (AT(r.field, r.type) == AT(5, PB_VARINT)) s->highest_seq = r.number;
    }
    return pb_done(&r, e) || err_wrap(e, "log: stream row");
}

// Reads the rows of all streams, in the order of their names, which is that of their beginnings.
bool meta_streams(struct wal *w, err *e)
{
    struct db *d = &w->db;
    bool ok = true;
    w->stream_count = 0;
    rocksdb_iterator_t *it = rocksdb_create_iterator_cf(d->rocks, d->scan, d->meta);
    rocksdb_iter_seek(it, stream_prefix, sizeof stream_prefix - 1);
    for (; ok && rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        str key = {0};
        str value = {0};
        key.p = rocksdb_iter_key(it, &key.n);
        if (!str_starts(key, str_of(stream_prefix))) break;
        value.p = rocksdb_iter_value(it, &value.n);
        struct wal_stream s;
        // key and value are the iterator's, and live until it moves.
        ok = stream_read(key, value, &s, e) && wal_make_room(w, e);
        if (!ok) break;
        lock_take(&w->lock);
        wal_add_stream(w, &s);
        lock_give(&w->lock);
    }
    // A damaged row of a stream is passed over: its cuts name the stream as well (wal_note_seq).
    err fault = {0};
    bool whole = db_iterator_ok(it, &fault);
    rocksdb_iter_destroy(it);
    if (!ok || whole || fault.code == ERR_DATA_LOSS) return ok;
    *e = fault;
    return false;
}

// ---- losses

static void loss_key(id128 stream, char key[META_KEY])
{
    char text[ULID_TEXT];
    ulid_print(stream, text);
    snprintf(key, META_KEY, "%s%s", loss_prefix, text);
}

void meta_put_loss(struct wal *w, id128 stream)
{
    char key[META_KEY];
    struct buf value;
    err ignored = {0};
    buf_init(&value, NULL, 4096);
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    loss_key(stream, key);
    pb_put_fixed64_opt(&value, 1, (uint64_t)w->options.wall_ns());
    if (buf_ok(&value, &ignored)) {
        meta_put(&w->db, batch, key, buf_view(&value));
        (void)!db_write(&w->db, batch, true, &ignored);
    }
    rocksdb_writebatch_destroy(batch);
    buf_release(&value);
}

// For how long the loss has been told. A time that cannot be read, or that lies in the future
// because the clock was set back, counts as now: it is told too long rather than too short.
static int64_t told_for(const struct wal *w, str value)
{
    int64_t found_wall_ns = INT64_MAX;
    int64_t age = 0;
    struct pb_reader r = pb_reader(value);
    while (pb_next(&r)) {
        if (AT(r.field, r.type) == AT(1, PB_FIXED64)) found_wall_ns = (int64_t)r.number;
    }
    if (__builtin_sub_overflow(w->options.wall_ns(), found_wall_ns, &age)) return 0;
    // A loss from the future is as new as it can be.
    return MAX(age, 0);
}

bool meta_losses(struct wal *w, err *e)
{
    struct db *d = &w->db;
    bool any_over = false;
    rocksdb_writebatch_t *over = rocksdb_writebatch_create();
    rocksdb_iterator_t *it = rocksdb_create_iterator_cf(d->rocks, d->scan, d->meta);
    rocksdb_iter_seek(it, loss_prefix, sizeof loss_prefix - 1);
    for (; rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        str key = {0};
        str value = {0};
        id128 stream;
        err none = {0};
        key.p = rocksdb_iter_key(it, &key.n);
        if (!str_starts(key, str_of(loss_prefix))) break;
        value.p = rocksdb_iter_value(it, &value.n);
        int64_t told_ns = told_for(w, value);
        bool is_name = ulid_parse(str_slice(key, sizeof loss_prefix - 1, key.n), &stream, &none);
        if (!is_name || told_ns > WAL_DAMAGE_TOLD_NS) {
            rocksdb_writebatch_delete_cf(over, d->meta, key.p, key.n);
            any_over = true;
            continue;
        }
        lock_take(&w->lock);
        wal_note_loss(w, stream, w->options.boot_ns() - told_ns);
        lock_give(&w->lock);
    }
    // Where the rows themselves are damaged, what can be read of them counts.
    err fault = {0};
    bool ok = db_iterator_ok(it, &fault) || fault.code == ERR_DATA_LOSS;
    rocksdb_iter_destroy(it);
    if (!ok) *e = fault;
    ok = ok && (!any_over || db_write(d, over, false, e));
    rocksdb_writebatch_destroy(over);
    return ok;
}
