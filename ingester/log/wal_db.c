// SPDX-License-Identifier: Apache-2.0
//
// wal_db.c - RocksDB under the log: its options, its column families, its errors as err.
//
// An error that another try may get past is unavailable. A wrong checksum or a missing file is
// data_loss: callers pass over what is lost and count it.
#include "base/fault.h"
#include "ingester/log/wal_int.h"
#include "sys/file.h"
#include "sys/log.h"

#include <stdio.h>
#include <stdlib.h>

// RocksDB keeps so many tables open. There may be one for each cut, and a process has 1024
// descriptors by default, which sockets need as well.
#define OPEN_FILES_MAX 256

// The write buffer of one column family; the database's own limit holds all of them together.
#define FAMILY_BUFFER ((size_t)16 << 20)

// A write-ahead file is kept until each family with rows in it is flushed. Beyond so many bytes
// RocksDB flushes the family that holds the oldest file.
#define WAL_BYTES_MAX ((uint64_t)256 << 20)

#define READAHEAD     ((size_t)2 << 20)
#define MANIFEST_STEP ((size_t)64 << 10)  // 4 MiB by default, which a small disk may not have

enum {  // values from RocksDB's C++ headers; its C interface takes plain numbers
    RECOVER_ALL_READABLE = 3,
    LOG_ONLY_FATAL = 4,
};

// Takes RocksDB's message.
static bool failed(char *message, const char *what, err *e)
{
    if (!message) return false;
    assert(e);
    (void)err_set(e, ERR_UNAVAILABLE, "log: %s: %s", what, message);
    rocksdb_free(message);
    return true;
}

// Whether the next try would find the same: a checksum is wrong, or a file is gone. The C interface
// has no codes, only the text.
static bool is_lost(const char *message)
{
    return strncmp(message, "Corruption", strlen("Corruption")) == 0 ||
           strstr(message, "No such file or directory");
}

static bool read_failed(char *message, const char *what, err *e)
{
    if (!message) return false;
    bool lost = is_lost(message);
    (void)failed(message, what, e);
    if (lost) e->code = ERR_DATA_LOSS;
    return true;
}

// ---- options

static void set_options(struct db *d, size_t buffers, bool may_make)
{
    rocksdb_options_t *o = d->options;
    rocksdb_options_set_create_if_missing(o, may_make);
    // This mode reads every record that can be read: it cuts a torn tail and goes on behind a
    // damaged record. It does not say what it left out; gaps between seqs do (wal_damage.c). The
    // other modes drop everything behind the damage, or refuse to open where a family was flushed
    // behind it.
    rocksdb_options_set_wal_recovery_mode(o, RECOVER_ALL_READABLE);
    // Debian's build aborts the process when its info log meets a full disk.
    rocksdb_options_set_info_log_level(o, LOG_ONLY_FATAL);
    rocksdb_options_set_keep_log_file_num(o, 1);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
    rocksdb_options_set_stats_persist_period_sec(o, 0);
    rocksdb_options_set_max_open_files(o, OPEN_FILES_MAX);
    rocksdb_options_set_max_background_jobs(o, 2);
    // Entries are appended in order and go with their family: there is nothing to compact.
    rocksdb_options_set_disable_auto_compactions(o, 1);
    rocksdb_options_set_write_buffer_size(o, MIN(FAMILY_BUFFER, buffers / 2));
    rocksdb_options_set_db_write_buffer_size(o, buffers);
    rocksdb_options_set_max_total_wal_size(o, WAL_BYTES_MAX);
    rocksdb_options_set_manifest_preallocation_size(o, MANIFEST_STEP);
    rocksdb_options_set_skip_stats_update_on_db_open(o, 1);
    // A family that is dropped while its flush is under way leaves a table that nobody names. Each
    // flush looks for such files: there are few in all, and deleted profiles may be in them.
    rocksdb_options_set_delete_obsolete_files_period_micros(o, 0);
    // Entries are mostly vectors and ids, which compress too little to be worth the time.
    rocksdb_options_set_compression(o, rocksdb_no_compression);
    // Tables are read once, at a start: a cache would only take memory.
    rocksdb_block_based_options_set_no_block_cache(d->table, 1);
    rocksdb_options_set_block_based_table_factory(o, d->table);

    rocksdb_writeoptions_set_sync(d->synced, 1);
    rocksdb_readoptions_set_fill_cache(d->scan, 0);
    rocksdb_readoptions_set_verify_checksums(d->scan, 1);
    rocksdb_readoptions_set_readahead_size(d->scan, READAHEAD);
    rocksdb_flushoptions_set_wait(d->flush, 0);
}

// ---- names of families: <stream as ULID>.<cut as 16 hex digits>

static void family_print(id128 stream, uint64_t number, char name[FAMILY_TEXT])
{
    ulid_print(stream, name);
    snprintf(name + 26, FAMILY_TEXT - 26, ".%016llx", (unsigned long long)number);
}

static bool family_parse(const char *name, struct db_family *f, err *e)
{
    str text = str_of(name);
    uint8_t number[8];
    if (text.n != FAMILY_TEXT - 1 || text.p[26] != '.' ||
        !hex_parse(str_slice(text, 27, text.n), number, sizeof number) ||
        !ulid_parse(str_slice(text, 0, 26), &f->stream, e)) {
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "log: column family '%s' is not of this format (%s)", name, WAL_FORMAT);
    }
    f->number = 0;
    for (size_t i = 0; i < sizeof number; i++)
        f->number = f->number << 8 | number[i];
    return true;
}

static int by_stream_and_number(const void *a, const void *b)
{
    const struct db_family *x = a;
    const struct db_family *y = b;
    int order = memcmp(x->stream.b, y->stream.b, sizeof x->stream.b);
    if (order) return order;
    return x->number < y->number ? -1 : x->number > y->number;
}

// ---- open

// Opens all families that are there, because RocksDB refuses to open only some of them.
static bool open_families(struct db *d, const char *dir, char **names, size_t count,
                          struct db_family **families, size_t *n, err *e)
{
    char *message = NULL;
    const size_t options_bytes = count * sizeof(void *);
    const rocksdb_options_t **options = mem_alloc(NULL, options_bytes, e);
    rocksdb_column_family_handle_t **handles = mem_alloc(NULL, count * sizeof(void *), e);
    struct db_family *out = mem_alloc(NULL, count * sizeof *out, e);
    bool ok = options && handles && out;
    *n = 0;
    for (size_t i = 0; ok && i < count; i++)
        options[i] = d->options;
    for (size_t i = 0; ok && i < count; i++)
        ok = strcmp(names[i], "default") == 0 || family_parse(names[i], &out[i], e);
    if (ok) {
        d->rocks =
            rocksdb_open_column_families(d->options, dir, (int)count, (const char *const *)names,
                                         options, handles, &message);
    }
    // A file is gone or too short: open without it, so that the rest is served. The gaps between
    // seqs show what it held.
    assert(!ok || d->rocks || message);
    if (ok && message && is_lost(message)) {
        char text[LOG_QUOTE_MAX];
        log_error(NULL, "log.files_damaged", "fault=%s then=\"%s\"",
                  log_quote(text, str_of(message)), "what can be read of it is opened");
        rocksdb_free(message);
        message = NULL;
        rocksdb_options_set_paranoid_checks(d->options, 0);
        d->rocks =
            rocksdb_open_column_families(d->options, dir, (int)count, (const char *const *)names,
                                         options, handles, &message);
    }
    ok = ok && !read_failed(message, "open", e);
    for (size_t i = 0; ok && i < count; i++) {
        if (strcmp(names[i], "default") == 0) {
            d->meta = handles[i];
        } else {
            out[i].handle = handles[i];
            out[(*n)++] = out[i];
        }
    }
    mem_free(NULL, (void *)options, options_bytes);
    mem_free(NULL, (void *)handles, count * sizeof(void *));
    if (!ok) {
        mem_free(NULL, out, count * sizeof *out);
        return false;
    }
    qsort(out, *n, sizeof *out, by_stream_and_number);
    *families = out;
    return true;
}

static bool check_format(struct db *d, err *e)
{
    bool found = false;
    struct buf value;
    buf_init(&value, NULL, 4096);
    err fault = {0};
    bool ok = db_meta_get(d, S("format"), &value, &found, &fault);
    // A damaged row of the format is no reason to refuse: families of another format would have
    // names that family_parse refuses.
    if (!ok && fault.code == ERR_DATA_LOSS) ok = true;
    if (!ok) *e = fault;
    str is = buf_view(&value);
    bool older = found && (str_is(is, "1") || str_is(is, "2") || str_is(is, "3"));
    if (ok && found && !older && !str_eq(is, S(WAL_FORMAT))) {
        ok = err_set(e, ERR_FAILED_PRECONDITION, "log: format '%.*s' is unknown, this is '%s'",
                     STR(str_slice(is, 0, 64)), WAL_FORMAT);
    }
    // From here on entries of format 4 are written, which an older program must not misread.
    if (ok && (!found || older)) {
        rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
        meta_put(d, batch, "format", S(WAL_FORMAT));
        ok = db_write(d, batch, true, e);
        rocksdb_writebatch_destroy(batch);
    }
    buf_release(&value);
    return ok;
}

bool db_open(struct db *d, const char *dir, size_t buffers, bool may_make,
             struct db_family **families, size_t *n, err *e)
{
    char current[4096];
    assert(!d->rocks && !d->options);
    snprintf(current, sizeof current, "%s/CURRENT", dir);
    bool exists = file_exists(current);
    if (FAULT_ERRNO("wal.open")) return err_set(e, ERR_UNAVAILABLE, "log: open: %m");
    // Nothing is made below a mount point whose disk went away: a later start would take it for the
    // log.
    if (!exists && !may_make) {
        return err_set(
            e, ERR_UNAVAILABLE,
            "log: what this process wrote to %s is not there any more; was it removed or "
            "unmounted? Put it back",
            dir);
    }
    *d = (struct db){.options = rocksdb_options_create(),
                     .table = rocksdb_block_based_options_create(),
                     .synced = rocksdb_writeoptions_create(),
                     .unsynced = rocksdb_writeoptions_create(),
                     .scan = rocksdb_readoptions_create(),
                     .flush = rocksdb_flushoptions_create()};
    set_options(d, buffers, may_make);
    char fresh[] = "default";
    char *only_default[] = {fresh};
    char **names = only_default;
    size_t count = 1;
    char *message = NULL;
    bool mended = wal_mend(dir, e);
    if (exists) names = rocksdb_list_column_families(d->options, dir, &count, &message);
    bool ok = !failed(message, "list column families", e) && mended &&
              open_families(d, dir, names, count, families, n, e);
    if (exists) rocksdb_list_column_families_destroy(names, count);  // on a failure too: count is 0
    if (ok && !check_format(d, e)) {
        for (size_t i = 0; i < *n; i++)
            db_family_release((*families)[i].handle);
        mem_free(NULL, *families, *n * sizeof **families);
        ok = false;
    }
    if (!ok) db_close(d);
    return ok;
}

void db_close(struct db *d)
{
    if (!d->options) return;
    // Handles before their database: closing it frees what they point to.
    db_family_release(d->meta);
    // Families of cuts were released before (unload), or this would free what they point to.
    if (d->rocks) rocksdb_close(d->rocks);
    rocksdb_flushoptions_destroy(d->flush);
    rocksdb_readoptions_destroy(d->scan);
    rocksdb_writeoptions_destroy(d->unsynced);
    rocksdb_writeoptions_destroy(d->synced);
    rocksdb_options_destroy(d->options);
    rocksdb_block_based_options_destroy(d->table);
    *d = (struct db){0};
}

// ---- families

bool db_family_make(struct db *d, id128 stream, uint64_t number, void **handle, err *e)
{
    char name[FAMILY_TEXT];
    char *message = NULL;
    assert(d->rocks && number > 0 && !*handle);
    family_print(stream, number, name);
    *handle = rocksdb_create_column_family(d->rocks, d->options, name, &message);
    return !failed(message, "create column family", e);
}

bool db_family_drop(struct db *d, void *handle, err *e)
{
    char *message = NULL;
    assert(d->rocks && handle && handle != d->meta);
    rocksdb_drop_column_family(d->rocks, handle, &message);
    // An earlier try dropped it and was reported as a failure: the log was opened again in between.
    if (message && strstr(message, "already dropped")) {
        rocksdb_free(message);
        message = NULL;
    }
    return !failed(message, "drop column family", e);
}

void db_family_release(void *handle)
{
    if (handle) rocksdb_column_family_handle_destroy(handle);
}

bool db_family_flush(struct db *d, void *handle, err *e)
{
    char *message = NULL;
    assert(d->rocks && handle);
    rocksdb_flush_cf(d->rocks, d->flush, handle, &message);
    return !failed(message, "flush", e);
}

bool db_meta_flush(struct db *d, bool wait, err *e)
{
    char *message = NULL;
    assert(d->rocks && d->meta);
    rocksdb_flushoptions_set_wait(d->flush, wait);
    rocksdb_flush_cf(d->rocks, d->flush, d->meta, &message);
    rocksdb_flushoptions_set_wait(d->flush, 0);
    return !failed(message, "flush", e);
}

bool db_write(struct db *d, rocksdb_writebatch_t *batch, bool sync, err *e)
{
    char *message = NULL;
    assert(d->rocks);
    rocksdb_write(d->rocks, sync ? d->synced : d->unsynced, batch, &message);
    return !failed(message, "write", e);
}

bool db_meta_get(struct db *d, str key, struct buf *value, bool *found, err *e)
{
    char *message = NULL;
    size_t n = 0;
    assert(d->rocks && d->meta);
    char *p = rocksdb_get_cf(d->rocks, d->scan, d->meta, key.p, key.n, &n, &message);
    if (read_failed(message, "read", e)) return false;
    *found = p != NULL;
    buf_put(value, p, p ? n : 0);
    rocksdb_free(p);
    return buf_ok(value, e);
}

// The bounds of a family whose entries cannot be read: RocksDB's manifest has the first and last
// key of each table. Entries that are only in write-ahead files do not count.
static void file_bounds(struct db *d, const struct db_family *f, uint64_t *first, uint64_t *last)
{
    char name[FAMILY_TEXT];
    family_print(f->stream, f->number, name);
    const rocksdb_livefiles_t *files = rocksdb_livefiles(d->rocks);
    for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
        size_t low_n = 0;
        size_t high_n = 0;
        if (strcmp(rocksdb_livefiles_column_family_name(files, i), name) != 0) continue;
        const char *low = rocksdb_livefiles_smallestkey(files, i, &low_n);
        const char *high = rocksdb_livefiles_largestkey(files, i, &high_n);
        if (low_n != 8 || high_n != 8) continue;
        *first = *first ? MIN(*first, key_parse(low)) : key_parse(low);
        *last = MAX(*last, key_parse(high));
    }
    rocksdb_livefiles_destroy(files);
}

bool db_iterator_ok(rocksdb_iterator_t *it, err *e)
{
    char *message = NULL;
    rocksdb_iter_get_error(it, &message);
    return !read_failed(message, "read", e);
}

static bool key_seq(rocksdb_iterator_t *it, uint64_t *seq, err *e)
{
    size_t n = 0;
    const char *key = rocksdb_iter_key(it, &n);
    if (n != 8) return err_set(e, ERR_DATA_LOSS, "log: a key has %zu bytes instead of 8", n);
    *seq = key_parse(key);
    return true;
}

bool db_bounds(struct db *d, const struct db_family *f, uint64_t *first, uint64_t *last, err *e)
{
    err fault = {0};
    *first = 0;
    *last = 0;
    assert(d->rocks && f->handle);
    rocksdb_iterator_t *it = rocksdb_create_iterator_cf(d->rocks, d->scan, f->handle);
    rocksdb_iter_seek_to_first(it);
    bool ok = !rocksdb_iter_valid(it) || key_seq(it, first, &fault);
    if (ok && rocksdb_iter_valid(it)) rocksdb_iter_seek_to_last(it);
    ok = ok && (!rocksdb_iter_valid(it) || key_seq(it, last, &fault));
    ok = ok && db_iterator_ok(it, &fault);
    rocksdb_iter_destroy(it);
    if (!ok && fault.code == ERR_DATA_LOSS) {
        file_bounds(d, f, first, last);
    } else if (!ok) {
        *e = fault;
    }
    return ok || fault.code == ERR_DATA_LOSS;
}

bool db_entry(struct db *d, void *handle, uint64_t seq, char **value, size_t *n, err *e)
{
    char key[8];
    char *message = NULL;
    assert(d->rocks && handle && seq > 0);
    key_print(seq, key);
    *value = rocksdb_get_cf(d->rocks, d->scan, handle, key, sizeof key, n, &message);
    return !read_failed(message, "read", e);
}

// Big-endian, so that RocksDB's order of bytes is that of seqs.
void key_print(uint64_t seq, char key[8])
{
    for (int i = 0; i < 8; i++)
        key[i] = (char)(seq >> (56 - 8 * i));
}

uint64_t key_parse(const char key[8])
{
    uint64_t seq = 0;
    for (int i = 0; i < 8; i++)
        seq = seq << 8 | (uint8_t)key[i];
    return seq;
}
