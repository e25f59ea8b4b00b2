// SPDX-License-Identifier: Apache-2.0
//
// Logs whose files are damaged: what can be read is read, what was acknowledged and cannot be read
// is counted, and both together are all that was acknowledged. On real directories of RocksDB.
#include "base/fault.h"
#include "base/hash.h"
#include "ingester/flush/flush.h"
#include "ingester/log/wal_int.h"
#include "ingester/metrics.h"
#include "lib/await.h"
#include "lib/clock.h"
#include "lib/memstore.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "whole.h"

#include <dirent.h>

#define ENTRIES   600
#define CUT_BYTES 150000
#define FILES_MAX 64
#define NEWEST    SIZE_MAX  // the file with the largest number
#define DICE      40        // random damages of each layout

static struct wal_options options(const char *dir)
{
    return (struct wal_options){.dir = dir,
                                .owner = "ingester-0",
                                .buffers = 4 << 20,
                                .cut_bytes = CUT_BYTES,
                                .cut_age_ns = 600 * NS_PER_S,
                                .keep_ns = 31 * 86400 * NS_PER_S};
}

// ---- what is in the log: batch i is known by i

static unsigned rows_of(uint64_t i)
{
    return 1 + (unsigned)(i % 4);
}

// Names and noise.
static void put_batch(struct buf *out, uint64_t i)
{
    struct dice d = {i};
    char text[2000];
    buf_clear(out);
    pb_put_bytes(out, 1, i % 3 ? S("api") : S("web"));
    size_t n = 0;
    for (unsigned k = 0; n < sizeof text - 64 && i % 5 == 0; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "function_%u;", k);
    pb_put_bytes(out, 3, str_make(text, n));
    for (unsigned k = 0; k < rows_of(i); k++) {
        char noise[250];
        for (size_t b = 0; b < sizeof noise; b++)
            noise[b] = (char)roll(&d, 256);
        pb_put_bytes(out, 4, str_make(noise, sizeof noise));
    }
}

static uint64_t rows_until(uint64_t n)
{
    uint64_t rows = 0;
    for (uint64_t i = 1; i <= n; i++)
        rows += rows_of(i);
    return rows;
}

static struct wal *open_begun(const char *dir)
{
    struct wal_options o = options(dir);
    err fault = {0};
    struct wal *w = wal_open(&o, &fault);
    assert_non_null(w);
    assert_ok(wal_begin(w, e));
    return w;
}

static void fill(struct wal *w, uint64_t n)
{
    struct buf bytes;
    buf_init(&bytes, NULL, 1 << 20);
    for (uint64_t i = 1; i <= n; i++) {
        struct wal_place place;
        put_batch(&bytes, i);
        struct wal_item item = {.rows = buf_view(&bytes), .count = rows_of(i)};
        assert_ok(wal_append(w, S("t"), &item, 1, &place, e));
        assert_int_equal(place.last_seq, i);
        wal_unpin(w, place.cut);
    }
    buf_release(&bytes);
}

// ---- files

static bool is_copied(const struct dirent *f)
{
    return f->d_name[0] != '.' && strcmp(f->d_name, "LOCK") != 0;
}

// Changes when a file comes, goes or grows.
static uint64_t files_look(const char *dir)
{
    DIR *d = opendir(dir);
    uint64_t sum = 0;
    for (struct dirent *f; (f = readdir(d));) {
        char path[512];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (!is_copied(f) || stat(path, &st) != 0) continue;
        sum += hash_str(str_of(f->d_name)) * (1 + 2 * (uint64_t)st.st_size);
    }
    closedir(d);
    return sum;
}

static void copy_each(const char *from, const char *to)
{
    DIR *d = opendir(from);
    for (struct dirent *f; (f = readdir(d));) {
        char path[512];
        struct buf bytes;
        if (!is_copied(f)) continue;
        buf_init(&bytes, NULL, 1 << 26);
        snprintf(path, sizeof path, "%s/%s", from, f->d_name);
        bool there = file_read(path, &bytes, &(err){0});
        snprintf(path, sizeof path, "%s/%s", to, f->d_name);
        if (there) assert_ok(file_write(path, buf_view(&bytes), e));
        buf_release(&bytes);
    }
    closedir(d);
}

static void remove_each(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *f; (f = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (is_copied(f)) assert_int_equal(unlink(path), 0);
    }
    closedir(d);
}

// As a kill at one moment leaves them: threads of RocksDB may write and delete files meanwhile.
static void copy_files(const char *from, const char *to)
{
    uint64_t before = files_look(from);
    copy_each(from, to);
    for (uint64_t now; (now = files_look(from)) != before; before = now) {
        remove_each(to);
        copy_each(from, to);
    }
}

struct files {
    char names[FILES_MAX][64];
    size_t n;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

// Those with something in them.
static void find_files(const char *dir, const char *ending, struct files *out)
{
    DIR *d = opendir(dir);
    out->n = 0;
    for (struct dirent *f; (f = readdir(d));) {
        char path[512];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (!str_ends(str_of(f->d_name), str_of(ending)) || stat(path, &st) != 0 || !st.st_size)
            continue;
        assert_true(out->n < FILES_MAX);
        snprintf(out->names[out->n++], sizeof out->names[0], "%.60s", f->d_name);
    }
    closedir(d);
    qsort(out->names, out->n, sizeof out->names[0], by_name);
}

enum damage {
    FLIPPED,
    ZEROED,  // a stretch of it, as of a sector that was never written
    CUT_SHORT,
    GONE,
    DAMAGES
};
static const char *const damage_names[DAMAGES] = {"flipped", "zeroed", "cut short", "gone"};

static void damage_file(const char *dir, const char *name, enum damage how, uint64_t per_mille)
{
    char path[512];
    struct buf bytes;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (how == GONE) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    buf_init(&bytes, NULL, 1 << 26);
    assert_ok(file_read(path, &bytes, e));
    size_t at = bytes.n * per_mille / 1000;
    if (how == FLIPPED) bytes.p[at] = (char)(bytes.p[at] ^ 0x10);
    if (how == ZEROED) memset(bytes.p + at, 0, MIN(bytes.n - at, 3000));
    if (how == CUT_SHORT) bytes.n = at;
    assert_ok(file_write(path, buf_view(&bytes), e));
    buf_release(&bytes);
}

// ---- what comes back

struct back {
    bool there[ENTRIES + 1];
    uint64_t entries;
    uint64_t rows;
    uint64_t lost_entries;
    uint64_t lost_rows;
};

static bool see(void *arg, const struct wal_entry *entry, err *e)
{
    struct back *b = arg;
    struct buf want;
    (void)e;
    assert_in_range(entry->seq, 1, ENTRIES);
    assert_false(b->there[entry->seq]);
    buf_init(&want, NULL, 1 << 20);
    put_batch(&want, entry->seq);
    assert_true(str_eq(entry->rows, buf_view(&want)));
    assert_true(str_is(entry->tenant, "t"));
    buf_release(&want);
    b->there[entry->seq] = true;
    b->entries++;
    b->rows += rows_of(entry->seq);
    return true;
}

static void read_back(const char *dir, struct back *b, const char *what)
{
    struct wal_options o = options(dir);
    struct cut *cuts[64];
    struct wal_cut looks[64];
    err fault = {0};
    *b = (struct back){0};
    struct wal *w = wal_open(&o, &fault);
    if (!w) fail_msg("%s: %s", what, fault.msg);
    size_t n = wal_cuts(w, cuts, COUNT(cuts));
    for (size_t i = 0; i < n; i++)
        assert_ok(wal_scan(w, cuts[i], see, b, e));
    n = wal_list_cuts(w, looks, COUNT(looks));
    for (size_t i = 0; i < n; i++) {
        b->lost_entries += looks[i].lost_entries;
        b->lost_rows += looks[i].lost_rows;
        assert_true(looks[i].ready);  // it is flushed with what it has
    }
    assert_ok(wal_begin(w, e));  // and the next stream begins
    wal_drain(w);
    wal_close(w);
}

static void check_back(const char *dir, uint64_t entries, struct back *b, const char *what)
{
    read_back(dir, b, what);
    if (b->entries + b->lost_entries != entries || b->rows + b->lost_rows > rows_until(entries) ||
        b->lost_rows < b->lost_entries) {
        fail_msg("%s: %u entries with %u rows are there, %u with %u are said to be missing, %u "
                 "with %u were acknowledged",
                 what, (unsigned)b->entries, (unsigned)b->rows, (unsigned)b->lost_entries,
                 (unsigned)b->lost_rows, (unsigned)entries, (unsigned)rows_until(entries));
    }
}

// A second start says the same.
static struct back check_twice(const char *dir, uint64_t entries, const char *what)
{
    struct back first;
    struct back second;
    check_back(dir, entries, &first, what);
    check_back(dir, entries, &second, what);
    assert_int_equal(first.entries, second.entries);
    assert_int_equal(first.lost_entries, second.lost_entries);
    return first;
}

// ---- logs to damage

struct logs {
    char fresh[DIR_MAX];    // as a kill leaves it: most is in write-ahead files
    char started[DIR_MAX];  // after one more start: all is in tables
};

static bool has_table(const char *dir)
{
    struct files files;
    find_files(dir, ".sst", &files);
    return files.n > 0;
}

static void logs_make(struct logs *l)
{
    char dir[DIR_MAX];
    struct back b;
    dir_new(dir);
    dir_new(l->fresh);
    dir_new(l->started);
    struct wal *w = open_begun(dir);
    fill(w, ENTRIES);
    wal_tick(w);
    AWAIT(has_table(dir));  // RocksDB writes them when it has time
    copy_files(dir, l->fresh);
    copy_files(dir, l->started);
    wal_drain(w);
    wal_close(w);
    dir_remove(dir);
    check_back(l->started, ENTRIES, &b, "nothing is damaged");
    assert_int_equal(b.lost_entries, 0);
    assert_int_equal(b.rows, rows_until(ENTRIES));
}

static void logs_remove(struct logs *l)
{
    dir_remove(l->fresh);
    dir_remove(l->started);
}

static struct back damaged(const char *from, const char *ending, size_t number, enum damage how,
                           uint64_t per_mille)
{
    char dir[DIR_MAX];
    char what[200];
    struct files files;
    dir_new(dir);
    copy_files(from, dir);
    find_files(dir, ending, &files);
    assert_true(files.n > 0);
    const char *name = files.names[number == NEWEST ? files.n - 1 : number % files.n];
    damage_file(dir, name, how, per_mille);
    snprintf(what, sizeof what, "%s %s at %u/1000", name, damage_names[how], (unsigned)per_mille);
    struct back b = check_twice(dir, ENTRIES, what);
    dir_remove(dir);
    return b;
}

// ---- tests

static void a_damaged_write_ahead_file_is_counted_and_the_rest_is_read(void **state)
{
    (void)state;
    struct logs l;
    logs_make(&l);
    uint64_t told = (uint64_t)atomic_load(&ingester_log_lost_entries.cells[0].sum);
    struct back b = damaged(l.fresh, ".log", NEWEST, FLIPPED, 500);
    assert_true(b.lost_entries > 0 && b.entries > ENTRIES / 2);
    assert_true(b.there[1] && b.there[ENTRIES]);
    assert_int_equal(b.rows + b.lost_rows, rows_until(ENTRIES));
    told = (uint64_t)atomic_load(&ingester_log_lost_entries.cells[0].sum) - told;
    assert_int_equal(told, 2 * b.lost_entries);  // two starts
    b = damaged(l.fresh, ".log", NEWEST, GONE, 0);
    assert_true(b.lost_entries > 0);
    logs_remove(&l);
}

static void a_damaged_table_is_counted_and_the_rest_is_read(void **state)
{
    (void)state;
    struct logs l;
    logs_make(&l);
    static const enum damage all[] = {FLIPPED, ZEROED, CUT_SHORT, GONE};
    for (size_t i = 0; i < COUNT(all); i++) {
        uint64_t lost = 0;
        for (size_t file = 0; file < 6; file++)
            lost += damaged(l.started, ".sst", file, all[i], 300).lost_entries;
        assert_true(lost > 0);
    }
    logs_remove(&l);
}

// Once a start has read all cuts, their rows in the log say how many rows of profiles each has. So
// whichever part of a table is damaged then, also the end of the cut that the process before left
// open, the missing profiles are counted and not only the pushes.
static void missing_profiles_of_a_cut_that_was_left_open_are_counted(void **state)
{
    (void)state;
    struct logs l;
    struct files files;
    uint64_t lost = 0;
    logs_make(&l);
    find_files(l.started, ".sst", &files);
    for (size_t file = 0; file < files.n; file++) {
        for (uint64_t per_mille = 50; per_mille < 1000; per_mille += 150) {
            struct back b = damaged(l.started, ".sst", file, FLIPPED, per_mille);
            assert_int_equal(b.rows + b.lost_rows, rows_until(ENTRIES));
            lost += b.lost_rows;
        }
    }
    assert_true(lost > 0);
    logs_remove(&l);
}

// Whatever is damaged, nothing is lost silently and nothing is wrong.
static void any_damage_is_counted(void **state)
{
    (void)state;
    struct logs l;
    struct dice d = {4711};
    uint64_t lost = 0;
    logs_make(&l);
    for (size_t i = 0; i < DICE; i++) {
        enum damage how = (enum damage)roll(&d, DAMAGES);
        bool fresh = roll(&d, 2);
        bool table = !fresh || roll(&d, 4) == 0;
        lost += damaged(fresh ? l.fresh : l.started, table ? ".sst" : ".log",
                        (size_t)roll(&d, FILES_MAX), how, roll(&d, 1000))
                    .lost_entries;
    }
    assert_true(lost > 0);
    logs_remove(&l);
}

// RocksDB never gets past a record whose type says that its file is a recycled one.
static void a_type_of_recycled_files_is_passed_over(void **state)
{
    (void)state;
    struct logs l;
    logs_make(&l);
    for (char type = 5; type <= 8; type++) {
        char dir[DIR_MAX];
        char path[512];
        struct files files;
        struct buf bytes;
        dir_new(dir);
        copy_files(l.fresh, dir);
        find_files(dir, ".log", &files);
        snprintf(path, sizeof path, "%s/%s", dir, files.names[files.n - 1]);
        buf_init(&bytes, NULL, 1 << 26);
        assert_ok(file_read(path, &bytes, e));
        size_t second = 7 + (size_t)((uint8_t)bytes.p[4] | (uint8_t)bytes.p[5] << 8);
        bytes.p[second + 6] = type;
        assert_ok(file_write(path, buf_view(&bytes), e));
        buf_release(&bytes);
        assert_true(check_twice(dir, ENTRIES, "a recycled type").lost_entries > 0);
        dir_remove(dir);
    }
    logs_remove(&l);
}

// What is torn off behind the last mark was acknowledged to nobody, as far as anybody can tell.
#ifdef FT_FAULTS
static bool fail_write(const char *name)
{
    if (strcmp(name, "wal.sync.after") != 0) return false;
    errno = EIO;
    return true;
}

// The push of batch i is refused, although its entry is there.
static void fail_one(struct wal *w, uint64_t i)
{
    struct buf bytes;
    struct wal_place place;
    err fault = {0};
    buf_init(&bytes, NULL, 1 << 20);
    put_batch(&bytes, i);
    struct wal_item item = {.rows = buf_view(&bytes), .count = rows_of(i)};
    fault_on(fail_write);
    assert_false(wal_append(w, S("t"), &item, 1, &place, &fault));
    fault_on(NULL);
    buf_release(&bytes);
}
#endif

// Its repeated push is acknowledged, since the entry is there, and no later cut tells of it.
static void an_entry_of_a_failed_write_is_expected_as_well(void **state)
{
    (void)state;
#ifdef FT_FAULTS
    char dir[DIR_MAX];
    char copy[DIR_MAX];
    struct back b;
    struct files tables;
    dir_new(dir);
    dir_new(copy);
    struct wal *w = open_begun(dir);
    fill(w, 5);
    wal_tick(w);
    fail_one(w, 6);
    assert_ok(wal_recover(w, e));
    assert_ok(wal_begin(w, e));
    copy_files(dir, copy);
    wal_drain(w);
    wal_close(w);
    find_files(copy, ".sst", &tables);
    assert_true(tables.n > 0);
    for (size_t i = 0; i < tables.n; i++)
        damage_file(copy, tables.names[i], GONE, 0);
    check_back(copy, 6, &b, "all tables are gone");
    assert_int_equal(b.lost_entries, 6);
    dir_remove(copy);
    dir_remove(dir);
#endif
}

#ifdef FT_FAULTS
static bool fail_meta(const char *name)
{
    if (strcmp(name, "wal.meta") != 0) return false;
    errno = EIO;
    return true;
}

// An open that reads no cut, and ends before or after it has written the rows of cuts.
static void open_half_way(const char *dir, bool writes_rows)
{
    struct wal_options o = options(dir);
    err fault = {0};
    fault_on(writes_rows ? NULL : fail_meta);
    struct wal *w = wal_open(&o, &fault);
    fault_on(NULL);
    assert_int_equal(w != NULL, writes_rows);
    wal_close(w);
}
#endif

enum half_way {
    START_WITH_ROWS,
    START_WITHOUT_ROWS,
    FAILED_WRITE,
    HALF_WAYS
};

// A start, or a failed write's try to read the log again, that ends before it has read the cuts has
// made tables already. Whichever of these is damaged then, the missing profiles are counted: by the
// last entry, which says how many rows come before it, or by the mark.
static void missing_profiles_are_counted_when_the_open_before_ended_half_way(void **state)
{
    (void)state;
#ifdef FT_FAULTS
    for (enum half_way way = 0; way < HALF_WAYS; way++) {
        char dir[DIR_MAX];
        uint64_t lost = 0;
        unsigned entries = 3;  // of one block of a table: none of them can be read without it
        dir_new(dir);
        struct wal *w = open_begun(dir);
        fill(w, entries);
        wal_tick(w);
        if (way == FAILED_WRITE) {
            fail_one(w, ++entries);
            assert_ok(wal_recover(w, e));
        }
        for (size_t i = 0;; i++) {
            char copy[DIR_MAX];
            struct files tables;
            struct back b;
            dir_new(copy);
            copy_files(dir, copy);
            if (way != FAILED_WRITE) open_half_way(copy, way == START_WITH_ROWS);
            find_files(copy, ".sst", &tables);
            if (i < tables.n) {
                damage_file(copy, tables.names[i], FLIPPED, 0);
                check_back(copy, entries, &b, tables.names[i]);
                assert_int_equal(b.rows + b.lost_rows, rows_until(entries));
                lost += b.lost_rows;
            }
            dir_remove(copy);
            if (i >= tables.n) break;
        }
        assert_true(lost > 0);
        wal_drain(w);
        wal_close(w);
        dir_remove(dir);
    }
#endif
}

static void a_torn_tail_is_no_damage(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    char torn[DIR_MAX];
    struct files files;
    struct back b;
    dir_new(dir);
    dir_new(torn);
    struct wal *w = open_begun(dir);
    fill(w, 20);
    copy_files(dir, torn);
    find_files(torn, ".log", &files);
    damage_file(torn, files.names[files.n - 1], CUT_SHORT, 970);
    read_back(torn, &b, "torn");
    assert_in_range(b.entries, 10, 19);
    assert_int_equal(b.lost_entries, 0);
    // With a mark behind it, it was.
    wal_tick(w);
    dir_remove(torn);
    dir_new(torn);
    copy_files(dir, torn);
    damage_file(torn, files.names[files.n - 1], CUT_SHORT, 970);
    check_back(torn, 20, &b, "torn before the mark");
    assert_true(b.lost_entries > 0);
    wal_drain(w);
    wal_close(w);
    dir_remove(torn);
    dir_remove(dir);
}

// Without its list of files nothing of a log can be read.
static void a_list_that_is_damaged_is_refused_by_name(void **state)
{
    (void)state;
    struct logs l;
    struct files files;
    err fault = {0};
    logs_make(&l);
    struct wal_options o = options(l.started);
    find_files(l.started, "CURRENT", &files);
    assert_int_equal(files.n, 1);
    damage_file(l.started, "CURRENT", CUT_SHORT, 500);
    assert_null(wal_open(&o, &fault));
    assert_non_null(strstr(fault.msg, "log: "));
    logs_remove(&l);
}

// ---- an ingester over such a log

// How many streams an answer says to be held and not answered for.
static size_t streams_held(struct whole *w)
{
    struct req r;
    struct buf message;
    struct buf answer;
    size_t n = 0;
    req_init(&r, RANK_INGESTER, &w->memory, SIZE_MAX, 0);
    r.tenant = str_of(fact_tenants[0]);
    buf_init(&message, NULL, 1 << 20);
    buf_init(&answer, NULL, 1 << 24);
    pb_put_i64_opt(&message, 3, INT64_MAX / 2);
    assert_ok(read_run(w->in, &r, buf_view(&message), &answer, e));
    struct pb_reader reader = pb_reader(buf_view(&answer));
    while (pb_next(&reader))
        n += reader.field == 2 && reader.type == PB_BYTES;
    buf_release(&answer);
    buf_release(&message);
    req_release(&r);
    return n;
}

// An ingester without a store leaves these facts in tables, in many cuts.
static void leave_tables(const char *dir, struct fact *facts, size_t n, struct dice *d)
{
    struct whole w;
    whole_start(&w, dir, "--ingester.cut_bytes=4KiB");
    whole_await(&w);
    for (size_t i = 0; i < n; i++) {
        facts[i] = fact_roll(d, clock_wall_ns() - 60 * NS_PER_S, NS_PER_S);
        facts[i].sampled = false;
        assert_ok(whole_push(&w, &facts[i], 1, e));
    }
    whole_stop(&w);
    whole_start(&w, dir, "");
    whole_await(&w);
    assert_int_equal(streams_held(&w), 0);
    whole_stop(&w);
}

// Is it the table of the log's rows about streams, cuts and losses? Each table ends with the name
// of its column family.
static bool is_meta(const char *dir, const char *name)
{
    char path[512];
    struct buf bytes;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    buf_init(&bytes, NULL, 1 << 24);
    assert_ok(file_read(path, &bytes, e));
    bool meta = str_contains(buf_view(&bytes), S("default"));
    buf_release(&bytes);
    return meta;
}

// Damages two tables with entries. Which number RocksDB gives the table of the rows is not known,
// and a loss whose row is damaged is not told any more.
static void damage_two_tables(const char *dir)
{
    char log[DIR_PATH_MAX];
    struct files tables;
    size_t damaged = 0;
    dir_path(log, dir, "ingester/log");
    find_files(log, ".sst", &tables);
    for (size_t i = 0; i < tables.n && damaged < 2; i++) {
        if (is_meta(log, tables.names[i])) continue;
        damage_file(log, tables.names[i], damaged ? GONE : FLIPPED, damaged ? 0 : 300);
        damaged++;
    }
    assert_int_equal(damaged, 2);
}

static void an_ingester_serves_the_rest_and_says_what_it_lacks(void **state)
{
    (void)state;
    static struct fact facts[60];
    char dir[DIR_MAX];
    struct whole w;
    struct dice d = {77};
    uint64_t held = 0;
    dir_new(dir);
    leave_tables(dir, facts, COUNT(facts), &d);
    uint64_t told = (uint64_t)atomic_load(&ingester_log_lost_profiles.cells[0].sum);
    damage_two_tables(dir);
    whole_start(&w, dir, "");
    whole_await(&w);
    told = (uint64_t)atomic_load(&ingester_log_lost_profiles.cells[0].sum) - told;
    for (size_t i = 0; i < COUNT(facts); i++)
        held += whole_holds(&w, &facts[i]);
    assert_true(told > 0);
    assert_int_equal(held + told, COUNT(facts));
    assert_int_equal(streams_held(&w), 1);
    struct fact more = fact_roll(&d, clock_wall_ns() - 60 * NS_PER_S, NS_PER_S);
    assert_ok(whole_push(&w, &more, 1, e));
    whole_stop(&w);
    dir_remove(dir);
}

// With a store the readable rest is flushed at once, and the log drops the cuts. The rows that
// cannot be read are missing all the same.
static void a_loss_is_named_for_an_hour_also_when_its_cut_is_in_the_store(void **state)
{
    (void)state;
    static struct fact facts[60];
    char dir[DIR_MAX];
    struct whole w;
    struct req r;
    struct flush_totals done = {0};
    struct dice d = {78};
    struct store *store = memstore_open();
    dir_new(dir);
    leave_tables(dir, facts, COUNT(facts), &d);
    damage_two_tables(dir);
    whole_start_with(&w, dir, "", store);
    whole_await(&w);
    req_init(&r, RANK_PUBLIC, &w.memory, SIZE_MAX, (uint64_t)(60 * NS_PER_S));
    assert_ok(flush_now(w.in->flush, &r, true, &done, e));
    req_release(&r);
    AWAIT(wal_count(w.in->wal).closed_cuts == 0);
    assert_int_equal(streams_held(&w), 1);
    assert_true(wal_count(w.in->wal).lost_entries > 0);
    whole_stop(&w);
    clock_pass(3500 * NS_PER_S);
    for (int i = 0; i < 2; i++) {  // by later processes, which find no damage themselves
        whole_start_with(&w, dir, "", store);
        whole_await(&w);
        assert_int_equal(wal_count(w.in->wal).lost_entries, 0);
        assert_int_equal(streams_held(&w), 1 - i);
        if (i == 0) clock_pass(101 * NS_PER_S);
        assert_int_equal(streams_held(&w), 0);
        whole_stop(&w);
    }
    store_close(store);
    dir_remove(dir);
}

int main(void)
{
    // Nobody loses power here: logs on a disk would only make it wait.
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_write_ahead_file_is_counted_and_the_rest_is_read),
        cmocka_unit_test(a_damaged_table_is_counted_and_the_rest_is_read),
        cmocka_unit_test(missing_profiles_of_a_cut_that_was_left_open_are_counted),
        cmocka_unit_test(any_damage_is_counted),
        cmocka_unit_test(a_type_of_recycled_files_is_passed_over),
        cmocka_unit_test(an_entry_of_a_failed_write_is_expected_as_well),
        cmocka_unit_test(missing_profiles_are_counted_when_the_open_before_ended_half_way),
        cmocka_unit_test(a_torn_tail_is_no_damage),
        cmocka_unit_test(a_list_that_is_damaged_is_refused_by_name),
        cmocka_unit_test(an_ingester_serves_the_rest_and_says_what_it_lacks),
        cmocka_unit_test(a_loss_is_named_for_an_hour_also_when_its_cut_is_in_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
