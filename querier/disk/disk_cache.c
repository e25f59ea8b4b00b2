// SPDX-License-Identifier: Apache-2.0
//
// A row's key is the object's name, a zero byte, and the section's place and length as eight bytes
// each; its value is the section. FIFO never merges files, so a look-up asks the bloom filters of
// all of them, which stay in memory: files are so large that there are about FILES of them.
#include "querier/disk/disk_cache.h"

#include "querier/metrics.h"
#include "store/store.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "sys/thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <rocksdb/c.h>

#define FILES          512u
#define FILE_MIN       ((uint64_t)256 << 10)
#define ROOM_MIN       ((uint64_t)1 << 20)
#define FILE_MAX       ((uint64_t)64 << 20)
#define BUFFERS        3u                 // one is filled, the others are being written
#define TABLES_MEMORY  ((size_t)4 << 20)  // what RocksDB reads of tables: their indexes, few blocks
#define FREE_SHARE     4u  // at most 3/4 of what is free or taken by the cache already
#define LOOK_NS        (60 * (uint64_t)NS_PER_S)    // between looks at the size, at most
#define EXPIRE_NS      (3600 * (uint64_t)NS_PER_S)  // between expiries, at most,
#define EXPIRE_SHARE   4u                           // and at most this part of the age
#define LOG_ONLY_FATAL 4                            // RocksDB's FATAL_LEVEL
#define KEY_MAX        (STORE_NAME_MAX + 1 + 16)

struct disk_cache {
    rocksdb_t *rocks;
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
    struct mem_budget *memory;
    size_t reserved;
    size_t section_max;
    uint64_t expire_ns;  // between expiries
    pthread_t thread;
    bool has_thread;
    struct lock lock;  // of the flag below
    struct cond ends;
    bool ending;
};

struct key {
    char p[KEY_MAX];
    size_t n;
};

static void key_of(str object, uint64_t at, size_t n, struct key *k)
{
    assert(object.n > 0 && object.n <= STORE_NAME_MAX);
    memcpy(k->p, object.p, object.n);
    k->n = object.n;
    k->p[k->n++] = 0;
    for (int i = 0; i < 8; i++)
        k->p[k->n++] = (char)(at >> (56 - 8 * i));
    for (int i = 0; i < 8; i++)
        k->p[k->n++] = (char)((uint64_t)n >> (56 - 8 * i));
}

// Takes RocksDB's message: true if there is one.
static bool failed(char *message)
{
    if (!message) return false;
    metric_add(&querier_disk_cache_failures, 1);
    rocksdb_free(message);
    return true;
}

// ---- reading and writing

bool disk_cache_get(struct disk_cache *c, str object, uint64_t at, size_t n, char *to)
{
    struct key k;
    char *message = NULL;
    key_of(object, at, n, &k);
    rocksdb_pinnableslice_t *row = rocksdb_get_pinned(c->rocks, c->read, k.p, k.n, &message);
    size_t have = 0;
    const char *bytes = row ? rocksdb_pinnableslice_value(row, &have) : NULL;
    bool found = !failed(message) && bytes && have == n;
    if (found) memcpy(to, bytes, n);
    if (row) rocksdb_pinnableslice_destroy(row);
    metric_add(found ? &querier_disk_cache_hits : &querier_disk_cache_misses, 1);
    if (found) metric_add(&querier_disk_cache_read_bytes, n);
    return found;
}

size_t disk_cache_section_max(const struct disk_cache *c)
{
    return c->section_max;
}

void disk_cache_put(struct disk_cache *c, str object, uint64_t at, str bytes)
{
    struct key k;
    char *message = NULL;
    if (bytes.n == 0 || bytes.n > c->section_max) return;
    key_of(object, at, bytes.n, &k);
    // The write options refuse instead of waiting: a question does not wait for this disk.
    rocksdb_put(c->rocks, c->write, k.p, k.n, bytes.p, bytes.n, &message);
    if (!failed(message)) metric_add(&querier_disk_cache_written_bytes, bytes.n);
}

uint64_t disk_cache_bytes(const struct disk_cache *c)
{
    uint64_t n = 0;
    if (rocksdb_property_int(c->rocks, "rocksdb.total-sst-files-size", &n)) return 0;
    return n;
}

// ---- what is too old

void disk_cache_expire(struct disk_cache *c)
{
    char *message = NULL;
    // RocksDB looks at ages only when it compacts. In this style that means: deletes whole files.
    rocksdb_compact_range(c->rocks, NULL, 0, NULL, 0);
    // A file that somebody read just then is deleted at RocksDB's next look for such, which may be
    // far; to allow deletions is to look.
    rocksdb_disable_file_deletions(c->rocks, &message);
    (void)failed(message);
    message = NULL;
    rocksdb_enable_file_deletions(c->rocks, 1, &message);
    (void)failed(message);
}

static void show_size(const struct disk_cache *c)
{
    metric_set(&querier_disk_cache_bytes, (int64_t)disk_cache_bytes(c));
}

static void *look_after(void *arg)
{
    struct disk_cache *c = arg;
    const uint64_t look_ns = MIN(LOOK_NS, c->expire_ns);
    uint64_t next = clock_mono_ns() + look_ns;
    uint64_t expire = clock_mono_ns() + c->expire_ns;
    lock_take(&c->lock);
    while (!c->ending) {
        if (cond_wait_until(&c->ends, &c->lock, next)) continue;  // woken: does it end?
        lock_give(&c->lock);
        if (clock_mono_ns() >= expire) {
            disk_cache_expire(c);
            expire = clock_mono_ns() + c->expire_ns;
        }
        show_size(c);
        next = clock_mono_ns() + look_ns;
        lock_take(&c->lock);
    }
    lock_give(&c->lock);
    return NULL;
}

// ---- life

// Bytes of the files in a directory.
static uint64_t bytes_there(const char *directory)
{
    uint64_t sum = 0;
    DIR *d = opendir(directory);
    const struct dirent *entry = NULL;
    struct stat st;
    if (!d) return 0;
    while ((entry = readdir(d))) {
        if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    }
    closedir(d);
    return sum;
}

// Bytes that may be on disk: of the limit, what the file system has room for.
static uint64_t room_for(const char *directory, uint64_t bytes)
{
    uint64_t room = 0;
    err ignored = {0};
    if (!dir_free_bytes(directory, &room, &ignored)) return bytes;
    return MIN(bytes, (room + bytes_there(directory)) / FREE_SHARE * (FREE_SHARE - 1));
}

static bool set_options(struct disk_cache *c, uint64_t bytes, uint64_t file, uint64_t age_s, err *e)
{
    char text[1024];
    char *message = NULL;
    // The C interface has no function for the age, but takes all options as text. LOG_ONLY_FATAL,
    // because Debian's build aborts the process when its info log meets a full disk.
    snprintf(text, sizeof text,
             "create_if_missing=true;paranoid_checks=true;"
             "compaction_style=kCompactionStyleFIFO;"
             "compaction_options_fifo={max_table_files_size=%llu;allow_compaction=false;};ttl=%llu;"
             "write_buffer_size=%llu;max_write_buffer_number=%u;"
             "compression=kNoCompression;max_open_files=-1;max_background_jobs=2;"
             "info_log_level=FATAL_LEVEL;keep_log_file_num=1;stats_dump_period_sec=0;"
             "stats_persist_period_sec=0;manifest_preallocation_size=65536;"
             "skip_stats_update_on_db_open=true;"
             "block_based_table_factory={filter_policy=bloomfilter:10:false;block_cache=%zu;};",
             (unsigned long long)(bytes - file), (unsigned long long)age_s,
             (unsigned long long)file, BUFFERS, TABLES_MEMORY);
    rocksdb_options_t *plain = rocksdb_options_create();
    rocksdb_get_options_from_string(plain, text, c->options, &message);
    rocksdb_options_destroy(plain);
    if (!message) return true;
    (void)err_set(e, ERR_INTERNAL, "cache on disk: %s", message);
    rocksdb_free(message);
    return false;
}

// What cannot be opened is deleted, once: it is only a cache.
static bool open_rocks(struct disk_cache *c, const char *directory, err *e)
{
    for (int tried = 0;; tried++) {
        char *message = NULL;
        char text[LOG_QUOTE_MAX];
        c->rocks = rocksdb_open(c->options, directory, &message);
        if (c->rocks) return true;
        (void)err_set(e, ERR_UNAVAILABLE, "cache on disk: open %s: %s", directory, message);
        rocksdb_free(message);
        if (tried) return false;
        log_warn(NULL, "querier.disk_cache_anew", "fault=%s then=\"%s\"",
                 log_quote(text, str_of(e->msg)), "it is deleted and begun anew");
        message = NULL;
        rocksdb_destroy_db(c->options, directory, &message);
        if (message) rocksdb_free(message);
    }
}

static void release(struct disk_cache *c)
{
    if (c->rocks) rocksdb_close(c->rocks);
    rocksdb_readoptions_destroy(c->read);
    rocksdb_writeoptions_destroy(c->write);
    rocksdb_options_destroy(c->options);
    mem_unreserve(c->memory, c->reserved);
    cond_release(&c->ends);
    mem_must_free(c);
}

void disk_cache_remove(const char *directory)
{
    char text[LOG_QUOTE_MAX];
    char *message = NULL;
    // Not a directory that another process uses: RocksDB holds a lock on it.
    if (!file_exists(directory)) return;
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_info_log_level(options, LOG_ONLY_FATAL);
    rocksdb_destroy_db(options, directory, &message);
    rocksdb_options_destroy(options);
    if (!message) return;
    log_warn(NULL, "querier.disk_cache_left", "fault=%s do=\"remove %s\"",
             log_quote(text, str_of(message)), directory);
    rocksdb_free(message);
}

struct disk_cache *disk_cache_open(const char *directory, uint64_t bytes, uint64_t age_s,
                                   struct mem_budget *memory, err *e)
{
    assert(age_s > 0);
    if (!dir_make(directory, e)) return NULL;
    uint64_t room = room_for(directory, bytes);
    uint64_t file = MIN(MAX(room / FILES, FILE_MIN), FILE_MAX);
    if (room < ROOM_MIN) {
        (void)err_set(e, ERR_RESOURCE_EXHAUSTED,
                      "cache on disk: %s has room for %llu bytes, %llu are needed", directory,
                      (unsigned long long)room, (unsigned long long)ROOM_MIN);
        return NULL;
    }
    struct disk_cache *c = mem_must(sizeof *c);
    c->options = rocksdb_options_create();
    c->write = rocksdb_writeoptions_create();
    c->read = rocksdb_readoptions_create();
    c->memory = memory;
    c->section_max = file / 2;
    c->expire_ns = MIN(EXPIRE_NS, age_s * (uint64_t)NS_PER_S / EXPIRE_SHARE);
    lock_init(&c->lock, LOCK_DISK_CACHE);
    cond_init(&c->ends);
    rocksdb_writeoptions_disable_WAL(c->write, 1);
    rocksdb_writeoptions_set_no_slowdown(c->write, 1);
    rocksdb_readoptions_set_verify_checksums(c->read, 1);
    rocksdb_readoptions_set_fill_cache(c->read, 0);
    size_t buffers = (size_t)file * BUFFERS + TABLES_MEMORY;
    bool ok = mem_reserve(memory, buffers, e);
    if (ok) c->reserved = buffers;
    ok = ok && set_options(c, room, file, age_s, e) && open_rocks(c, directory, e) &&
         thread_start(&c->thread, "disk_cache", look_after, c, e);
    if (!ok) {
        release(c);
        return NULL;
    }
    c->has_thread = true;
    disk_cache_expire(c);  // what grew too old meanwhile, or is beyond a new limit
    show_size(c);
    return c;
}

void disk_cache_close(struct disk_cache *c)
{
    if (!c) return;
    assert(c->has_thread);
    lock_take(&c->lock);
    c->ending = true;
    cond_wake_all(&c->ends);
    lock_give(&c->lock);
    pthread_join(c->thread, NULL);
    release(c);
}
