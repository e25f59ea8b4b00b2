// SPDX-License-Identifier: Apache-2.0
//
// wal_damage.c - which entries a log should hold, so that missing ones are counted.
//
// RocksDB opens a damaged log with the entries that it can read and does not say what it left out.
// Which entries were acknowledged is known from other sources:
//
//     within a cut         seqs have no gaps: an entry is written only after those before it landed
//     the end of a cut     is in the row of the cut, once it closed; in the first seq of the next
//                          cut; in the mark
//     the rows of a cut    are in its row, once it closed; in its last entry; in the mark
//
// The mark is a file beside RocksDB's, <log>/ACKNOWLEDGED. Once a second it says how far the newest
// cut is acknowledged. It is written after the entries that it counts were synced, so it is never
// ahead of them and needs no sync of its own. It lacks the entries of the last second before a
// crash. Nobody misses those of them that were torn: a torn entry was not acknowledged, unless the
// disk lied about a sync. If the last write-ahead file is damaged behind the mark, nobody can tell
// what is missing from there on.
//
// Seqs of another stream begin anew. So when the log goes over to the next stream, a second file,
// <log>/ENDED, says the same of the last cut of the stream before.
//
//     8 "FTACKED\n" | 16 stream | 8 cut | 8 last seq | 8 rows of the cut | 4 CRC32C of all before
//
// numbers little-endian.
#include "base/hash.h"
#include "ingester/log/wal_int.h"
#include "ingester/metrics.h"
#include "sys/file.h"
#include "sys/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const char magic[8] = "FTACKED\n";

#define MARK_BYTES 52
static_assert(MARK_BYTES == sizeof magic + 16 + 8 + 8 + 8 + 4, "as drawn above");

// ---- the mark

static void put_number(uint8_t *to, uint64_t v, size_t n)
{
    assert(n <= 8);
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_number(const uint8_t *from, size_t n)
{
    uint64_t v = 0;
    for (size_t i = n; i > 0; i--)
        v = v << 8 | from[i - 1];
    return v;
}

static const char *const mark_files[] = {"ACKNOWLEDGED", "ENDED"};

static void mark_path(const struct wal *w, unsigned which, char *path, size_t n)
{
    snprintf(path, n, "%s/%s", w->options.dir, mark_files[which]);
}

// The newest cut with an entry. After a failed write that is a closed cut of an ended stream. The
// entries that the write left there count too: their push is acknowledged when it is sent again.
static struct wal_mark newest_mark(struct wal *w)
{
    struct wal_mark m = {0};
    lock_take(&w->lock);
    for (size_t i = w->cut_count; i > 0 && m.last_seq == 0; i--) {
        const struct cut *c = w->cuts[i - 1];
        m = (struct wal_mark){.stream = c->stream,
                              .cut = c->number,
                              .last_seq = c->last_seq,
                              .rows = c->rows};
    }
    lock_give(&w->lock);
    return m;
}

static bool write_mark(const struct wal *w, unsigned which, const struct wal_mark *m)
{
    uint8_t bytes[MARK_BYTES];
    char path[4096];
    memcpy(bytes, magic, sizeof magic);
    memcpy(bytes + 8, m->stream.b, sizeof m->stream.b);
    put_number(bytes + 24, m->cut, 8);
    put_number(bytes + 32, m->last_seq, 8);
    put_number(bytes + 40, m->rows, 8);
    put_number(bytes + 48, crc32c(0, bytes, 48), 4);
    mark_path(w, which, path, sizeof path);
    // Overwritten in place; the checksum finds a mark of which a crash wrote only a part.
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return false;  // the next second tries again; without it less can be told
    bool ok = pwrite(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes;
    (void)close(fd);
    return ok;
}

void disk_mark(struct wal *w)
{
    struct wal_mark m = newest_mark(w);
    bool is_known = m.last_seq == w->marked.last_seq && m.rows == w->marked.rows &&
                    m.cut == w->marked.cut && id128_eq(m.stream, w->marked.stream);
    if (m.last_seq == 0 || is_known) return;
    if (write_mark(w, 0, &m)) w->marked = m;
}

void disk_mark_end(struct wal *w)
{
    struct wal_mark m = newest_mark(w);
    assert(w->led);
    if (m.last_seq > 0) (void)write_mark(w, 1, &m);
}

static bool read_mark(const struct wal *w, unsigned which, struct wal_mark *m)
{
    uint8_t bytes[MARK_BYTES];
    char path[4096];
    mark_path(w, which, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool ok = pread(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes;
    (void)close(fd);
    if (!ok || memcmp(bytes, magic, sizeof magic) != 0) return false;
    if (get_number(bytes + 48, 4) != crc32c(0, bytes, 48)) return false;  // torn
    memcpy(m->stream.b, bytes + 8, sizeof m->stream.b);
    m->cut = get_number(bytes + 24, 8);
    m->last_seq = get_number(bytes + 32, 8);
    m->rows = get_number(bytes + 40, 8);
    return true;
}

void wal_find_mark(struct wal *w)
{
    for (unsigned i = 0; i < COUNT(w->found_marks); i++) {
        if (!read_mark(w, i, &w->found_marks[i])) w->found_marks[i] = (struct wal_mark){0};
    }
}

static const struct wal_mark *mark_of(const struct wal *w, id128 stream, uint64_t cut)
{
    for (unsigned i = 0; i < COUNT(w->found_marks); i++) {
        const struct wal_mark *m = &w->found_marks[i];
        if (m->cut == cut && id128_eq(m->stream, stream)) return m;
    }
    return NULL;
}

bool wal_is_marked(const struct wal *w, id128 stream, uint64_t cut)
{
    return mark_of(w, stream, cut) != NULL;
}

// ---- what cuts should hold

// The mark is believed where it says more than the disk has: entries behind those that can be read,
// or how many rows there are at least: each entry behind the mark has one.
static void expect_marked(struct wal *w)
{
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        const struct wal_mark *m = mark_of(w, c->stream, c->number);
        if (!m) continue;
        assert(lock_is_mine(&w->lock));
        bool is_longer = m->last_seq > c->last_seq;
        c->last_seq = MAX(c->last_seq, m->last_seq);
        if (!is_longer && c->rows != ROWS_UNKNOWN) continue;
        c->rows = m->rows == ROWS_UNKNOWN ? ROWS_UNKNOWN : m->rows + (c->last_seq - m->last_seq);
    }
}

// A cut ends where the next one of its stream begins. The cuts are in order of stream and number;
// where the one between two was dropped, the numbers are not neighbours and nothing can be said.
static void expect_neighbours(struct wal *w)
{
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        struct cut *before = i ? w->cuts[i - 1] : NULL;
        // Seqs of a stream begin at 1, and so does its first cut.
        if (c->number == 1) c->first_seq = 1;
        if (!before || before->number + 1 != c->number || !id128_eq(before->stream, c->stream))
            continue;
        if (c->first_seq == 0) c->first_seq = before->last_seq + 1;
        if (before->last_seq + 1 >= c->first_seq) continue;
        before->last_seq = c->first_seq - 1;
        before->rows = ROWS_UNKNOWN;
    }
}

void wal_expect(struct wal *w)
{
    lock_take(&w->lock);
    expect_marked(w);
    expect_neighbours(w);
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        // The row of a cut is written with its first entry, so there was at least one.
        if (c->first_seq == 0) c->first_seq = 1;
        if (c->last_seq < c->first_seq) c->last_seq = c->first_seq;
        wal_note_seq(w, c->stream, c->last_seq);
    }
    lock_give(&w->lock);
}

// ---- telling

void wal_tell_damage(const struct cut *c, uint64_t entries, uint64_t rows, const err *why)
{
    char stream[ULID_TEXT];
    char text[LOG_QUOTE_MAX];
    ulid_print(c->stream, stream);
    metric_add(&ingester_log_lost_entries, entries);
    metric_add(&ingester_log_lost_profiles, rows);
    log_error(NULL, "log.damaged",
              "stream=%s cut=%" PRIu64 " missing_pushes=%" PRIu64 " missing_profiles=%" PRIu64
              " fault=%s do=\"%s\"",
              stream, c->number, entries, rows,
              log_quote(text, str_of(why->code == ERR_OK ? "the entries are missing" : why->msg)),
              "look at this disk: acknowledged profiles cannot be read from the log any more; the "
              "rest of it is served and flushed");
}

// Losses are kept apart from cuts. With a store a cut leaves the log as soon as its readable rows
// are flushed, and the others are missing all the same.
void wal_note_loss(struct wal *w, id128 stream, int64_t found_boot_ns)
{
    size_t at = 0;
    size_t oldest = 0;
    for (; at < w->loss_count && !id128_eq(w->losses[at].stream, stream); at++) {
        if (w->losses[at].found_boot_ns < w->losses[oldest].found_boot_ns) oldest = at;
    }
    // The table is full: the oldest loss has been told for longest.
    assert(lock_is_mine(&w->lock) && w->loss_count <= WAL_DAMAGED_MAX);
    if (at == WAL_DAMAGED_MAX) at = oldest;
    if (at == w->loss_count) w->loss_count++;
    w->losses[at] = (struct wal_loss){stream, found_boot_ns};
}

size_t wal_damaged(struct wal *w, id128 streams[WAL_DAMAGED_MAX])
{
    size_t n = 0;
    int64_t now = w->options.boot_ns();
    lock_take(&w->lock);
    for (size_t i = 0; i < w->loss_count; i++) {
        if (now - w->losses[i].found_boot_ns > WAL_DAMAGE_TOLD_NS) continue;
        streams[n++] = w->losses[i].stream;
    }
    lock_give(&w->lock);
    return n;
}
