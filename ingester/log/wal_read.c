// SPDX-License-Identifier: Apache-2.0
//
// wal_read.c - reads the entries of a cut back, and counts those that should be there and are not.
//
//     1. An iterator goes over the family in order. This is all, unless a block or file is damaged.
//     2. An iterator ends at damage. Then each remaining seq is asked for by itself. So entries in
//        other blocks and files are found.
//     3. Missing entries are counted. Seqs of a stream have no gaps, and each entry says how many
//        rows its cut had before it, so the entry behind a gap tells how many rows the gap had.
//
// An entry that cannot be decoded, or that the owner refuses as damaged, counts as missing. An
// error that may pass (memory, the disk) ends the scan, and the next one begins anew. wal_damage.c
// knows where a cut should end.
#include "codec/lz4.h"
#include "codec/pb.h"
#include "ingester/log/wal_int.h"

// An entry of format 3 may be packed against an earlier entry of its cut, its base. A cut has at
// most so many different bases, so a slot for each holds them all.
#define BASES_MAX 64

struct scan {
    struct wal *wal;
    struct cut *cut;
    wal_entry_fn *fn;
    void *arg;
    uint64_t bytes;
    uint64_t seen_seq;  // of the last entry that was met, readable or not
    uint64_t next_seq;
    uint64_t rows;  // of the cut before next_seq, or ROWS_UNKNOWN
    uint64_t lost_entries;
    uint64_t lost_rows;
    err why;  // the first damage that was met
    bool vanished;
    struct buf unpacked;
    struct scan_base {
        uint64_t seq;  // 0: none
        struct buf bytes;
    } bases[BASES_MAX];
};

// ---- what is missing

// Whether another try would find the same.
bool scan_is_damage(const err *e)
{
    return e->code == ERR_DATA_LOSS || e->code == ERR_INVALID_ARGUMENT ||
           e->code == ERR_OUT_OF_RANGE;
}

void scan_note_damage(struct scan *s, const err *e)
{
    if (s->why.code == ERR_OK) s->why = *e;
}

// All entries before seq should have been read; those that were not are missing. `rows` is how many
// rows the cut has before seq, or ROWS_UNKNOWN.
static void note_gap(struct scan *s, uint64_t seq, uint64_t rows)
{
    if (seq <= s->next_seq) return;
    assert(s->next_seq > 0);
    uint64_t entries = seq - s->next_seq;
    bool known = rows != ROWS_UNKNOWN && s->rows != ROWS_UNKNOWN && rows > s->rows;
    s->lost_entries += entries;
    s->lost_rows += known ? MAX(rows - s->rows, entries) : entries;  // each has one at least
    if (!known) s->rows = ROWS_UNKNOWN;
}

struct wal *scan_wal(const struct scan *s)
{
    return s->wal;
}

const struct cut *scan_cut(const struct scan *s)
{
    return s->cut;
}

void scan_vanished(struct scan *s)
{
    s->vanished = true;
    atomic_store_explicit(&s->cut->dropped, true, memory_order_release);
}

// ---- one entry

// Records are field 4 of both messages. Bytes that are no message (tests write such) have none.
uint64_t batch_rows(str rows)
{
    uint64_t n = 0;
    struct pb_reader r = pb_reader(rows);
    while (pb_next(&r))
        n += r.field == 4 && r.type == PB_BYTES;
    return n;
}

// An entry as it is on disk.
struct kept {
    struct wal_entry entry;
    uint64_t size;  // of the batch; 0: it is not packed
    uint64_t base;  // seq; 0: none
    uint64_t rows;  // of its cut before it, or ROWS_UNKNOWN
    str block;
};

static void read_bytes(struct kept *k, unsigned field, str bytes)
{
    if (field == 3) k->entry.tenant = bytes;
    if (field == 4) k->entry.batch = bytes;
    if (field == 6) k->block = bytes;
    if (field == 9) k->entry.rows = bytes;
}

static void read_number(struct kept *k, uint64_t *cut, unsigned field, uint64_t number)
{
    if (field == 1) k->entry.seq = number;
    if (field == 2) *cut = number;
    if (field == 5) k->size = number;
    if (field == 7) k->base = number;
    if (field == 8) k->rows = number;
}

static bool read_kept(const struct cut *c, str key, str value, struct kept *k, err *e)
{
    uint64_t cut = 0;
    *k = (struct kept){.rows = ROWS_UNKNOWN};
    struct pb_reader r = pb_reader(value);
    while (pb_next(&r)) {
        if (r.type == PB_BYTES) read_bytes(k, r.field, r.bytes);
        if (r.type == PB_VARINT) read_number(k, &cut, r.field, r.number);
    }
    if (!r.fault && key.n == 8 && k->entry.seq == key_parse(key.p) && cut == c->number) return true;
    return err_set(e, ERR_DATA_LOSS, "log: an entry of cut %llu is not what its key says",
                   (unsigned long long)c->number);
}

uint64_t wal_read_rows(struct wal *w, const struct cut *c, uint64_t seq)
{
    struct kept k;
    char key[8];
    char *value = NULL;
    size_t n = 0;
    err none = {0};
    uint64_t rows = ROWS_UNKNOWN;
    assert(c->family && seq > 0);
    key_print(seq, key);
    if (!db_entry(&w->db, c->family, seq, &value, &n, &none) || !value) return rows;
    bool ok = read_kept(c, str_make(key, sizeof key), str_make(value, n), &k, &none);
    // Only entries of old formats are packed, and these do not say how many rows come before them.
    if (ok && k.rows != ROWS_UNKNOWN && k.size == 0)
        rows = k.rows + batch_rows(k.entry.rows) + batch_rows(k.entry.batch);
    rocksdb_free(value);
    return rows;
}

// Reads the entry that others name as their base. A base has no base itself: a chain would make one
// entry cost as many reads as the chain is long.
static bool read_base(struct scan *s, uint64_t seq, struct buf *out, err *e)
{
    struct kept k;
    char key[8];
    char *value = NULL;
    size_t n = 0;
    key_print(seq, key);
    if (!db_entry(&s->wal->db, s->cut->family, seq, &value, &n, e)) return false;
    if (!value) return err_set(e, ERR_DATA_LOSS, "it is not there");
    bool ok = read_kept(s->cut, str_make(key, sizeof key), str_make(value, n), &k, e);
    if (ok && k.base) ok = err_set(e, ERR_DATA_LOSS, "it has a base itself");
    if (ok && k.size) ok = lz4_unpack(k.block, k.size, out, e);
    if (ok && !k.size) {
        buf_str(out, k.entry.batch);
        ok = buf_ok(out, e);
    }
    rocksdb_free(value);
    return ok;
}

// The bytes of a base, read at its first use.
static bool find_base(struct scan *s, const struct kept *k, str *bytes, err *e)
{
    if (k->base >= k->entry.seq) {
        return err_set(e, ERR_DATA_LOSS, "its base is entry %llu", (unsigned long long)k->base);
    }
    // Base seqs of a cut are few and near each other; two that share a slot are read in turns.
    struct scan_base *b = &s->bases[k->base % BASES_MAX];
    if (b->seq != k->base) {
        b->seq = 0;
        buf_release(&b->bytes);
        buf_init(&b->bytes, s->wal->options.memory, LZ4_BASE_MAX);
        buf_clear(&s->unpacked);
        if (!read_base(s, k->base, &s->unpacked, e)) {
            return err_wrap(e, "base %llu", (unsigned long long)k->base);
        }
        buf_str(&b->bytes, str_slice(buf_view(&s->unpacked), 0, LZ4_BASE_MAX));
        buf_clear(&s->unpacked);
        if (!buf_ok(&b->bytes, e)) return false;
        // Last, so that a base that failed half-way is read again.
        assert(k->base > 0);
        b->seq = k->base;
    }
    *bytes = buf_view(&b->bytes);
    return true;
}

static bool unpack(struct scan *s, const struct kept *k, struct buf *out, err *e)
{
    str base = {0};
    if (k->base && !find_base(s, k, &base, e)) return false;
    return lz4_unpack_against(base, k->block, k->size, out, e);
}

// Calls the owner with an entry.
static bool deliver(struct scan *s, struct kept *k, err *e)
{
    buf_clear(&s->unpacked);
    bool ok = k->size == 0 || unpack(s, k, &s->unpacked, e);
    if (!ok && e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
    if (k->size) k->entry.batch = buf_view(&s->unpacked);
    ok = ok && s->fn(s->arg, &k->entry, e);
    return ok || err_wrap(e, "log: entry %llu", (unsigned long long)k->entry.seq);
}

// Reads one entry. A damaged one is left to note_gap: it counts as missing when a later entry, or
// the end of the cut, shows the gap. False only for errors that may pass.
bool scan_entry(struct scan *s, str key, str value, err *e)
{
    struct kept k;
    err fault = {0};
    bool ok = read_kept(s->cut, key, value, &k, &fault);
    if (key.n == 8) s->seen_seq = key_parse(key.p);
    if (ok) {
        s->bytes +=
            k.entry.rows.n + k.entry.batch.n + k.block.n + k.entry.tenant.n + ENTRY_OVERHEAD;
        k.entry.known = k.entry.seq <= s->cut->read_seq;
    }
    // Known entries are read for the news that they bring; a batch of an old format brings none.
    if (ok && k.entry.known && k.entry.rows.n == 0) return true;
    ok = ok && deliver(s, &k, &fault);
    if (!ok && scan_is_damage(&fault)) {
        scan_note_damage(s, &fault);
        return true;
    }
    if (!ok) {
        *e = fault;
        return false;
    }
    if (k.entry.known) return true;
    uint64_t count = batch_rows(k.entry.rows) + batch_rows(k.entry.batch);
    // Only now, when this entry was delivered: a later one that is damaged begins its gap behind
    // it.
    assert(k.entry.seq > s->cut->read_seq);
    note_gap(s, k.entry.seq, k.rows);
    s->next_seq = k.entry.seq + 1;
    s->rows = k.rows == ROWS_UNKNOWN ? ROWS_UNKNOWN : k.rows + count;
    return true;
}

// ---- all of them

static bool scan_in_order(struct scan *s, bool *damaged, err *e)
{
    bool ok = true;
    err fault = {0};
    rocksdb_iterator_t *it =
        rocksdb_create_iterator_cf(s->wal->db.rocks, s->wal->db.scan, s->cut->family);
    for (rocksdb_iter_seek_to_first(it); ok && rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        str key = {0};
        str value = {0};
        key.p = rocksdb_iter_key(it, &key.n);
        value.p = rocksdb_iter_value(it, &value.n);
        ok = scan_entry(s, key, value, e);
    }
    bool whole = db_iterator_ok(it, &fault);
    rocksdb_iter_destroy(it);
    if (!ok || whole) return ok;
    *damaged = scan_is_damage(&fault);
    if (*damaged) scan_note_damage(s, &fault);
    if (!*damaged) *e = fault;
    return *damaged;
}

static bool scan_by_seq(struct scan *s, err *e)
{
    bool ok = true;
    const struct cut *c = s->cut;
    for (uint64_t seq = MAX(s->seen_seq + 1, c->first_seq); ok && seq <= c->last_seq; seq++) {
        char key[8];
        char *value = NULL;
        size_t n = 0;
        err fault = {0};
        key_print(seq, key);
        if (!db_entry(&s->wal->db, c->family, seq, &value, &n, &fault) && !scan_is_damage(&fault)) {
            *e = fault;
            return false;
        }
        if (fault.code != ERR_OK) scan_note_damage(s, &fault);
        // A seq without an entry is a gap, which the next entry shows.
        if (value) ok = scan_entry(s, str_make(key, sizeof key), str_make(value, n), e);
        rocksdb_free(value);
    }
    return ok;
}

// Notes the result in the cut. Its size too: a cut that was found open did not know it.
static void note_scan(struct scan *s, struct cut *c)
{
    struct wal *w = s->wal;
    lock_take(&w->lock);
    assert(w->bytes >= c->bytes);
    w->bytes += s->bytes - c->bytes;  // may go below; unsigned arithmetic comes out right
    c->bytes = s->bytes;
    // Also where entries are missing: another scan would find no more of them.
    c->read_seq = c->last_seq;
    c->lost_entries += s->lost_entries;
    c->lost_rows += s->lost_rows;
    w->lost_entries += s->lost_entries;
    w->lost_rows += s->lost_rows;
    if (s->lost_entries) wal_note_loss(w, c->stream, w->options.boot_ns());
    if (c->rows == ROWS_UNKNOWN || (s->rows != ROWS_UNKNOWN && c->rows < s->rows))
        c->rows = s->rows;
    lock_give(&w->lock);
    if (!s->lost_entries) return;
    w->home->note_loss(w, c->stream);
    wal_tell_damage(c, s->lost_entries, s->lost_rows, &s->why);
}

bool disk_scan(struct scan *s, err *e)
{
    bool damaged = false;
    assert(s->cut->family);
    bool ok = scan_in_order(s, &damaged, e);
    return ok && (!damaged || scan_by_seq(s, e));
}

bool wal_scan(struct wal *w, struct cut *c, wal_entry_fn *fn, void *arg, err *e)
{
    struct scan s = {.wal = w, .cut = c, .fn = fn, .arg = arg};
    assert(!c->in_doubt);
    s.next_seq = MAX(c->read_seq + 1, c->first_seq);
    // c->rows counts unread entries too, if there are any.
    s.rows = c->read_seq == 0 ? 0 : c->read_seq == c->last_seq ? c->rows : ROWS_UNKNOWN;
    buf_init(&s.unpacked, w->options.memory, BATCH_BYTES_MAX);
    bool ok = w->home->scan(&s, e);
    buf_release(&s.unpacked);
    for (size_t i = 0; i < BASES_MAX; i++)
        buf_release(&s.bases[i].bytes);
    // Nothing is noted: entries that were delivered come again, and their ids are known.
    if (!ok) return false;
    // What is missing at the end: up to where the cut should go. Its rows are only known for a cut
    // that was read as a whole.
    if (!s.vanished) note_gap(&s, c->last_seq + 1, c->read_seq ? ROWS_UNKNOWN : c->rows);
    note_scan(&s, c);
    return true;
}
