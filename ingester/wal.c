// SPDX-License-Identifier: Apache-2.0
#include "ingester/wal.h"

#include "base/fault.h"
#include "codec/lz4.h"
#include "codec/pb.h"
#include "ingester/metrics.h"
#include "ingester/wal_int.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/log.h"

#include <stdlib.h>

// One write holds at most so much; the rest is the next leader's. RocksDB copies it once more.
#define GROUP_BYTES_MAX ((size_t)16 << 20)

// ---- the lead

void wal_take_lead(struct wal *w)
{
    lock_take(&w->lock);
    w->outsiders++;
    while (w->led)
        cond_wait(&w->idle, &w->lock);
    w->outsiders--;
    w->led = true;
    lock_give(&w->lock);
}

// To whoever waits from outside, else to the first of the queue. With w->lock.
static void pass_lead(struct wal *w)
{
    w->led = false;
    if (w->outsiders == 0 && w->first) {
        w->led = true;
        w->first->leads = true;
        cond_wake_one(&w->first->wake);
    }
    cond_wake_all(&w->idle);
}

void wal_give_lead(struct wal *w)
{
    lock_take(&w->lock);
    pass_lead(w);
    lock_give(&w->lock);
}

// ---- appending

bool wal_admits(const struct wal *w, err *e)
{
    switch (w->state) {
    case WAL_OPEN:
        return true;
    case WAL_BROKEN:
        return err_set(e, ERR_UNAVAILABLE, "the log is being opened again after a failed write: %s",
                       w->fault.msg);
    case WAL_RECOVERED:
        return err_set(e, ERR_UNAVAILABLE, "the log is being read");
    case WAL_DRAINED:
        return err_set(e, ERR_UNAVAILABLE, "the ingester is shutting down");
    }
    abort();
}

// No message between nodes is larger (internal.body_max).
#define BATCH_BYTES_MAX ((size_t)1 << 30)

// With much more than that free the disk is looked at ten times a second, not for each commit.
#define ROOM_AMPLE   ((uint64_t)256 << 20)
#define ROOM_STEP    ((uint64_t)16 << 20)  // bytes of entries until one looks again
#define ROOM_TIME_NS ((uint64_t)(100 * NS_PER_MS))

// The gate of docs/design.md: pushes end before the disk does.
static bool disk_has_room(struct wal *w, size_t bytes, err *e)
{
    const struct wal_options *o = &w->options;
    uint64_t available = 0;
    if (o->disk_max && w->bytes + bytes > o->disk_max) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED,
                       "the log holds %llu bytes, ingester.log_disk is %llu",
                       (unsigned long long)w->bytes, (unsigned long long)o->disk_max);
    }
    uint64_t now = clock_mono_ns();
    if (now < w->room_until_ns && bytes <= w->room_left) {
        w->room_left -= bytes;
        return true;
    }
    w->room_until_ns = 0;
    if (!dir_free_bytes(o->dir, &available, e)) return err_wrap(e, "log");
    if (available >= o->disk_reserve && available - o->disk_reserve >= bytes) {
        if (available - o->disk_reserve - bytes >= ROOM_AMPLE) {
            w->room_until_ns = now + ROOM_TIME_NS;
            w->room_left = ROOM_STEP;
        }
        return true;
    }
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "the disk of the log has %llu bytes free, ingester.disk_reserve is %llu",
                   (unsigned long long)available, (unsigned long long)o->disk_reserve);
}

// Message Entry up to the bytes of its batch.
static void put_head(struct buf *out, uint64_t seq, uint64_t cut, str tenant,
                     const struct packed_batch *b)
{
    pb_put_u64_opt(out, 1, seq);
    pb_put_u64_opt(out, 2, cut);
    pb_put_bytes_opt(out, 3, tenant);
    pb_put_u64_opt(out, 5, b->size);
    if (b->size && b->base) pb_put_u64_opt(out, 7, b->base->seq);
    pb_put_varint(out, (b->size ? 6 : 4) << 3 | PB_BYTES);
    pb_put_varint(out, b->bytes.n);
}

// Gathered from two places, so that the batch is copied once only.
static bool put_entries(struct wal *w, rocksdb_writebatch_t *batch, struct waiter *from,
                        uint64_t *seq, err *e)
{
    struct buf head;
    buf_init(&head, NULL, from->tenant.n + ENTRY_OVERHEAD);
    for (size_t i = 0; i < from->batches->n; i++) {
        const struct packed_batch *b = &from->batches->v[i];
        struct packed_batch whole = {.bytes = b->whole};
        if (b->size && b->base && !wal_is_base(b->base, w->open)) {  // its cut closed meanwhile
            from->bytes += b->whole.n - b->bytes.n;
            b = &whole;
        }
        char key[8];
        const char *keys[] = {key};
        size_t key_size = sizeof key;
        key_print(*seq, key);
        buf_clear(&head);
        put_head(&head, *seq, w->open->number, from->tenant, b);
        if (!buf_ok(&head, e)) break;
        const char *values[] = {head.p, b->bytes.p};
        const size_t sizes[] = {head.n, b->bytes.n};
        rocksdb_writebatch_putv_cf(batch, w->open->family, 1, keys, &key_size, 2, values, sizes);
        ++*seq;
    }
    bool ok = buf_ok(&head, e);
    buf_release(&head);
    return ok;
}

// The first write into a cut tells when it was opened.
static bool put_cut_row(struct wal *w, rocksdb_writebatch_t *batch, err *e)
{
    char key[META_KEY];
    struct buf value;
    buf_init(&value, NULL, 4096);
    meta_cut_key(w->open->stream, w->open->number, key);
    meta_cut_value(w->open, &value);
    bool ok = buf_ok(&value, e);
    if (ok) meta_put(&w->db, batch, key, buf_view(&value));
    buf_release(&value);
    return ok;
}

// The faults that tests set here fail as the disk would.
static bool write_synced(struct wal *w, rocksdb_writebatch_t *batch, err *e)
{
    uint64_t began = clock_mono_ns();
    if (FAULT_ERRNO("wal.write.before")) return err_set(e, ERR_UNAVAILABLE, "log: write: %m");
    if (!db_write(&w->db, batch, true, e)) return false;
    if (FAULT_ERRNO("wal.sync.after")) return err_set(e, ERR_UNAVAILABLE, "log: sync: %m");
    metric_observe_ns(&ingester_log_sync, clock_mono_ns() - began);
    return true;
}

// Writes a group, which the leader took from the queue. A refusal (*broken stays false) wrote
// nothing.
static bool commit(struct wal *w, struct waiter *group, size_t bytes, bool *broken, err *e)
{
    if (!disk_has_room(w, bytes, e) || !mem_reserve(w->options.memory, bytes, e)) return false;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    uint64_t seq = w->next_seq;
    bool ok = wal_need_cut(w, bytes, e);
    *broken = !ok;
    if (ok && w->open->first_seq == 0) ok = put_cut_row(w, batch, e);
    for (struct waiter *x = group; ok && x; x = x->next) {
        ok = put_entries(w, batch, x, &seq, e);
        x->place.last_seq = seq - 1;
    }
    if (ok) {
        ok = write_synced(w, batch, e);
        *broken = !ok;
    }
    rocksdb_writebatch_destroy(batch);
    mem_unreserve(w->options.memory, bytes);
    return ok;
}

// What a commit changed, for all to see. With w->lock.
static void note_commit(struct wal *w, struct waiter *group)
{
    struct cut *c = w->open;
    uint64_t first = w->next_seq;
    size_t bytes = 0;
    for (struct waiter *x = group; x; x = x->next) {
        bytes += x->bytes;
        x->place.stream = c->stream;
        x->place.cut = c;
        c->pins++;
        w->next_seq = x->place.last_seq + 1;
    }
    if (c->first_seq == 0) c->first_seq = first;
    c->last_seq = w->next_seq - 1;
    c->read_seq = c->last_seq;
    c->newest_wall_ns = w->options.wall_ns();
    c->newest_boot_ns = w->options.boot_ns();
    c->bytes += bytes;
    w->bytes += bytes;
    w->streams[w->stream_count - 1].highest_seq = c->last_seq;
    metric_add(&ingester_log_commits, 1);
    metric_add(&ingester_log_entries, w->next_seq - first);
}

static void finish(struct waiter *x, bool ok, const err *fault)
{
    x->ok = ok;
    if (!ok) *x->e = *fault;
    x->done = true;
    if (!x->leads) cond_wake_one(&x->wake);
}

// With w->lock. Those in the queue would only wait for the same fault.
static void set_broken(struct wal *w, const err *fault)
{
    if (w->open) w->open->in_doubt = true;
    if (w->state == WAL_DRAINED) return;
    w->state = WAL_BROKEN;
    w->fault = *fault;
    err refused = {0};
    (void)wal_admits(w, &refused);
    while (w->first) {
        struct waiter *x = w->first;
        w->first = x->next;
        finish(x, false, &refused);
    }
    w->last = NULL;
}

void wal_break(struct wal *w, const err *fault)
{
    char text[LOG_QUOTE_MAX];
    log_error(NULL, "log.failed", "fault=%s", log_quote(text, str_of(fault->msg)));
    metric_add(&ingester_log_failures, 1);
    lock_take(&w->lock);
    set_broken(w, fault);
    lock_give(&w->lock);
}

// Takes what fits one write from the queue. With w->lock.
static struct waiter *take_group(struct wal *w, size_t *bytes)
{
    struct waiter *group = w->first;
    struct waiter *last = group;
    *bytes = group->bytes;
    while (last->next && *bytes + last->next->bytes <= GROUP_BYTES_MAX) {
        last = last->next;
        *bytes += last->bytes;
    }
    w->first = last->next;
    if (!w->first) w->last = NULL;
    last->next = NULL;
    return group;
}

// Runs with w->lock, which is given back during the write.
static void lead(struct wal *w)
{
    size_t bytes = 0;
    struct waiter *group = take_group(w, &bytes);
    err fault = {0};
    bool broken = false;
    lock_give(&w->lock);
    bool ok = commit(w, group, bytes, &broken, &fault);
    if (broken) wal_break(w, &fault);
    lock_take(&w->lock);
    if (ok) note_commit(w, group);
    while (group) {
        struct waiter *x = group;
        group = x->next;
        finish(x, ok, &fault);
    }
    pass_lead(w);
}

static bool append(struct wal *w, str tenant, const struct packed *batches, struct wal_place *place,
                   err *e)
{
    struct waiter me = {.tenant = tenant, .batches = batches, .bytes = batches->weight, .e = e};
    cond_init(&me.wake);
    lock_take(&w->lock);
    bool ok = wal_admits(w, e);
    if (ok) {
        if (w->last) {
            w->last->next = &me;
        } else {
            w->first = &me;
        }
        w->last = &me;
        if (!w->led && w->outsiders == 0) {
            w->led = true;
            w->first->leads = true;
        }
        while (!me.done && !me.leads)
            cond_wait(&me.wake, &w->lock);
        if (!me.done) lead(w);
        assert(me.done);
        ok = me.ok;
        *place = me.place;
    }
    lock_give(&w->lock);
    cond_release(&me.wake);
    return ok;
}

bool wal_append(struct wal *w, str tenant, const str *batches, size_t n, struct wal_place *place,
                err *e)
{
    assert(n > 0);
    struct packed packed;
    if (!wal_pack(w, tenant, batches, n, &packed, e)) return false;
    bool ok = append(w, tenant, &packed, place, e);
    if (ok) wal_offer(w, &packed, place);
    wal_unpack(w, &packed);
    return ok;
}

void wal_unpin(struct wal *w, struct cut *c)
{
    lock_take(&w->lock);
    assert(c->pins > 0);
    c->pins--;
    lock_give(&w->lock);
}

bool wal_position(struct wal *w, struct wal_place *place, err *e)
{
    lock_take(&w->lock);
    bool ok = wal_admits(w, e);
    if (ok) {
        const struct wal_stream *own = &w->streams[w->stream_count - 1];
        *place = (struct wal_place){.stream = own->id, .last_seq = own->highest_seq};
    }
    lock_give(&w->lock);
    return ok;
}

// ---- reading back

struct scan {
    struct wal *wal;
    const struct cut *cut;
    wal_entry_fn *fn;
    void *arg;
    uint64_t bytes;
    struct buf unpacked;
    struct scan_base {
        uint64_t seq;  // 0: none
        struct buf bytes;
    } bases[BASES_MAX];
};

// An entry as it is kept; size 0: its batch is not packed.
struct kept {
    struct wal_entry entry;
    uint64_t size;
    uint64_t base;
    str block;
};

static bool read_kept(const struct cut *c, str key, str value, struct kept *k, err *e)
{
    uint64_t cut = 0;
    *k = (struct kept){0};
    struct pb_reader r = pb_reader(value);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_VARINT) k->entry.seq = r.number;
        if (r.field == 2 && r.type == PB_VARINT) cut = r.number;
        if (r.field == 3 && r.type == PB_BYTES) k->entry.tenant = r.bytes;
        if (r.field == 4 && r.type == PB_BYTES) k->entry.batch = r.bytes;
        if (r.field == 5 && r.type == PB_VARINT) k->size = r.number;
        if (r.field == 6 && r.type == PB_BYTES) k->block = r.bytes;
        if (r.field == 7 && r.type == PB_VARINT) k->base = r.number;
    }
    if (!r.fault && key.n == 8 && k->entry.seq == key_parse(key.p) && cut == c->number) return true;
    return err_set(e, ERR_DATA_LOSS, "log: an entry of cut %llu is not what its key says",
                   (unsigned long long)c->number);
}

// Reads the entry that others name as their base, which has none itself.
static bool read_base(struct scan *s, uint64_t seq, struct buf *out, err *e)
{
    struct wal *w = s->wal;
    char key[8];
    char *message = NULL;
    size_t n = 0;
    struct kept k;
    key_print(seq, key);
    char *value =
        rocksdb_get_cf(w->db.rocks, w->db.scan, s->cut->family, key, sizeof key, &n, &message);
    if (message) {
        bool lost = str_starts(str_of(message), S("Corruption"));
        (void)err_set(e, lost ? ERR_DATA_LOSS : ERR_UNAVAILABLE, "read: %s", message);
        rocksdb_free(message);
        return false;
    }
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

// The bytes of a base, read when they are first asked for.
static bool find_base(struct scan *s, const struct kept *k, str *bytes, err *e)
{
    if (k->base >= k->entry.seq) {
        return err_set(e, ERR_DATA_LOSS, "its base is entry %llu", (unsigned long long)k->base);
    }
    struct scan_base *b = &s->bases[k->base % BASES_MAX];
    if (b->seq != k->base) {
        b->seq = 0;
        buf_release(&b->bytes);
        buf_init(&b->bytes, s->wal->options.memory, LZ4_BASE_MAX);
        if (!read_base(s, k->base, &s->unpacked, e)) {
            return err_wrap(e, "base %llu", (unsigned long long)k->base);
        }
        buf_str(&b->bytes, str_slice(buf_view(&s->unpacked), 0, LZ4_BASE_MAX));
        buf_clear(&s->unpacked);
        if (!buf_ok(&b->bytes, e)) return false;
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

static bool scan_one(struct scan *s, str key, str value, err *e)
{
    struct kept k;
    if (!read_kept(s->cut, key, value, &k, e)) return false;
    s->bytes += k.entry.batch.n + k.block.n + k.entry.tenant.n + ENTRY_OVERHEAD;
    if (k.entry.seq <= s->cut->read_seq) return true;
    buf_clear(&s->unpacked);
    bool ok = k.size == 0 || unpack(s, &k, &s->unpacked, e);
    if (!ok && e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
    if (k.size) k.entry.batch = buf_view(&s->unpacked);
    ok = ok && s->fn(s->arg, &k.entry, e);
    return ok || err_wrap(e, "log: entry %llu", (unsigned long long)k.entry.seq);
}

bool wal_is_unread(const struct cut *c)
{
    return c->read_seq < c->last_seq;
}

// Cuts that closed before a write failed stay ready meanwhile: a failed write can only have left
// something in the cut that was open.
bool wal_is_whole(const struct cut *c)
{
    return c->closed && !c->in_doubt && c->pins == 0 && c->last_seq > 0 && !wal_is_unread(c);
}

bool wal_scan(struct wal *w, struct cut *c, wal_entry_fn *fn, void *arg, err *e)
{
    struct scan s = {.wal = w, .cut = c, .fn = fn, .arg = arg};
    bool ok = true;
    char *message = NULL;
    buf_init(&s.unpacked, w->options.memory, BATCH_BYTES_MAX);
    rocksdb_iterator_t *it = rocksdb_create_iterator_cf(w->db.rocks, w->db.scan, c->family);
    for (rocksdb_iter_seek_to_first(it); ok && rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        str key = {0};
        str value = {0};
        key.p = rocksdb_iter_key(it, &key.n);
        value.p = rocksdb_iter_value(it, &value.n);
        ok = scan_one(&s, key, value, e);
    }
    rocksdb_iter_get_error(it, &message);
    rocksdb_iter_destroy(it);
    buf_release(&s.unpacked);
    for (size_t i = 0; i < BASES_MAX; i++)
        buf_release(&s.bases[i].bytes);
    if (message) {
        bool lost = str_starts(str_of(message), S("Corruption"));
        (void)err_set(e, lost ? ERR_DATA_LOSS : ERR_UNAVAILABLE, "log: read: %s", message);
        rocksdb_free(message);
        return false;
    }
    if (!ok) return false;
    lock_take(&w->lock);  // a cut found open did not know its size
    w->bytes += s.bytes - c->bytes;
    c->bytes = s.bytes;
    c->read_seq = c->last_seq;
    lock_give(&w->lock);
    return true;
}

// ---- looking

enum wal_state wal_state(struct wal *w)
{
    lock_take(&w->lock);
    enum wal_state state = w->state;
    lock_give(&w->lock);
    return state;
}

size_t wal_cuts(struct wal *w, struct cut **out, size_t max)
{
    lock_take(&w->lock);
    size_t n = w->cut_count;
    if (max && n) memcpy(out, w->cuts, MIN(n, max) * sizeof(struct cut *));
    lock_give(&w->lock);
    return n;
}

size_t wal_look(struct wal *w, struct wal_cut *out, size_t max)
{
    lock_take(&w->lock);
    size_t n = w->cut_count;
    for (size_t i = 0; i < MIN(n, max); i++) {
        struct cut *c = w->cuts[i];
        out[i] = (struct wal_cut){.cut = c,
                                  .stream = c->stream,
                                  .number = c->number,
                                  .bytes = c->bytes,
                                  .entries = c->first_seq ? c->last_seq - c->first_seq + 1 : 0,
                                  .opened_wall_ns = c->opened_wall_ns,
                                  .newest_boot_ns = c->newest_boot_ns,
                                  .closed = c->closed,
                                  .ready = wal_is_whole(c),
                                  .found = c->found_boot_ns != 0};
    }
    lock_give(&w->lock);
    return n;
}

static bool add_refs(struct cut *c, struct arena *a, int64_t first, int64_t last,
                     struct wal_ref **refs, size_t *cap, size_t *n)
{
    int64_t hours[64];
    for (size_t got = COUNT(hours); got == COUNT(hours) && first <= last;) {
        got = cut_hours_within(c, first, last, hours, COUNT(hours));
        if (!arena_grow(a, refs, cap, *n + got, sizeof **refs)) return false;
        for (size_t i = 0; i < got; i++)
            (*refs)[(*n)++] = (struct wal_ref){c->stream, c->number, hours[i], 0};
        if (got) first = hours[got - 1] + 1;
    }
    return true;
}

bool wal_refs(struct wal *w, struct arena *a, int64_t first_hour, int64_t last_hour,
              struct wal_ref **refs, size_t *n, err *e)
{
    size_t cap = 0;
    *refs = NULL;
    *n = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        if (atomic_load_explicit(&c->dropped, memory_order_relaxed)) continue;
        if (!add_refs(c, a, first_hour, last_hour, refs, &cap, n)) break;
    }
    lock_give(&w->lock);
    return arena_ok(a, e);
}

size_t wal_streams(struct wal *w, struct wal_stream *out, size_t max)
{
    lock_take(&w->lock);
    size_t n = w->stream_count;
    if (max && n) memcpy(out, w->streams, MIN(n, max) * sizeof *out);
    lock_give(&w->lock);
    return n;
}

struct wal_counts wal_count(struct wal *w)
{
    struct wal_counts c = {0};
    lock_take(&w->lock);
    c.bytes = w->bytes;
    for (size_t i = 0; i < w->cut_count; i++) {
        c.open_cuts += !w->cuts[i]->closed;
        c.closed_cuts += w->cuts[i]->closed;
    }
    c.open_streams = w->state == WAL_OPEN;
    c.closed_streams = w->stream_count - c.open_streams;
    lock_give(&w->lock);
    return c;
}
