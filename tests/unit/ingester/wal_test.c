// SPDX-License-Identifier: Apache-2.0
#include "ingester/log/wal_int.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/thread.h"
#include "whole.h"

#include <dirent.h>

#include <rocksdb/c.h>

#define THREADS 8
#define PUSHES  40

static int64_t fake_now;
static int64_t stand_still;  // for so long once, before who looked at the clock goes on
static int64_t fake_clock(void)
{
    int64_t now = fake_now;
    fake_now += stand_still;
    stand_still = 0;
    return now;
}

static int64_t set_ahead;  // what somebody did to the wall clock
static int64_t fake_wall(void)
{
    return fake_now + set_ahead;
}

static struct wal_options options(const char *dir)
{
    return (struct wal_options){.dir = dir,
                                .owner = "ingester-0",
                                .buffers = 4 << 20,
                                .cut_bytes = 1 << 20,
                                .cut_age_ns = 600 * NS_PER_S,
                                .keep_ns = 31 * 86400 * NS_PER_S,
                                .wall_ns = fake_wall,
                                .boot_ns = fake_clock};
}

static struct wal *reopen(const struct wal_options *o, bool begin)
{
    err fault = {0};
    struct wal *w = wal_open(o, &fault);
    if (!w) fail_msg("%s", fault.msg);
    struct cut *cuts[64];
    size_t n = wal_cuts(w, cuts, COUNT(cuts));
    for (size_t i = 0; i < n; i++)
        cuts[i]->read_seq = cuts[i]->last_seq;
    if (begin) assert_ok(wal_begin(w, e));
    return w;
}

static void end(struct wal *w)
{
    wal_drain(w);
    wal_close(w);
}

static struct wal_place append(struct wal *w, const char *bytes)
{
    struct wal_place place;
    struct wal_item item = {.rows = str_of(bytes)};
    assert_ok(wal_append(w, S("t"), &item, 1, &place, e));
    wal_unpin(w, place.cut);
    return place;
}

// What a scan sees, as "seq:tenant:batch " texts.
static bool note(void *arg, const struct wal_entry *entry, err *e)
{
    (void)e;
    buf_printf(arg, "%u:%.*s:%.*s ", (unsigned)entry->seq, STR(entry->tenant),
               STR(entry->rows.n ? entry->rows : entry->batch));
    return true;
}

static void assert_scans(struct wal *w, struct cut *c, const char *want)
{
    struct buf text;
    buf_init(&text, NULL, 1 << 20);
    c->read_seq = 0;
    assert_ok(wal_scan(w, c, note, &text, e));
    buf_byte(&text, 0);
    assert_string_equal(text.p, want);
    buf_release(&text);
}

// ---- many at once

struct pusher {
    struct wal *wal;
    unsigned number;
    struct wal_place places[PUSHES];
};

static void *push_some(void *arg)
{
    struct pusher *p = arg;
    for (unsigned i = 0; i < PUSHES; i++) {
        char text[2][40];
        struct wal_item items[2] = {0};
        for (unsigned k = 0; k < 2; k++) {
            snprintf(text[k], sizeof text[k], "%u.%u.%u", p->number, i, k);
            items[k].rows = str_of(text[k]);
        }
        assert_ok(wal_append(p->wal, S("t"), items, 1 + i % 2, &p->places[i], e));
        wal_unpin(p->wal, p->places[i].cut);
    }
    return NULL;
}

struct seen {
    uint64_t last;
    bool there[THREADS][PUSHES][2];
};

static bool see(void *arg, const struct wal_entry *entry, err *e)
{
    (void)e;
    struct seen *s = arg;
    unsigned v[3];
    assert_int_equal(sscanf(entry->rows.p, "%u.%u.%u", &v[0], &v[1], &v[2]), 3);
    assert_int_equal(entry->seq, s->last + 1);
    s->last = entry->seq;
    assert_false(s->there[v[0]][v[1]][v[2]]);
    s->there[v[0]][v[1]][v[2]] = true;
    return true;
}

static void appends_of_many_threads_are_all_there_once_in_order(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    static struct pusher pushers[THREADS];
    pthread_t threads[THREADS];
    fake_now = 1000 * NS_PER_S;
    o.cut_bytes = 4096;  // several cuts
    struct wal *w = reopen(&o, true);
    for (unsigned i = 0; i < THREADS; i++) {
        pushers[i] = (struct pusher){.wal = w, .number = i};
        assert_ok(thread_start(&threads[i], "pusher", push_some, &pushers[i], e));
    }
    for (unsigned i = 0; i < THREADS; i++)
        thread_join(threads[i]);
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned k = 1; k < PUSHES; k++)
            assert_true(pushers[i].places[k - 1].last_seq < pushers[i].places[k].last_seq);
    }
    end(w);
    w = reopen(&o, false);
    struct cut *cuts[64];
    size_t n = wal_cuts(w, cuts, COUNT(cuts));
    struct seen *s = mem_must(sizeof *s);
    assert_true(n > 3 && n <= COUNT(cuts));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(cuts[i]->number, i + 1);
        assert_int_equal(cuts[i]->first_seq, s->last + 1);
        assert_true(cuts[i]->closed);
        cuts[i]->read_seq = 0;
        assert_ok(wal_scan(w, cuts[i], see, s, e));
        assert_int_equal(cuts[i]->last_seq, s->last);
    }
    assert_int_equal(s->last, THREADS * PUSHES * 3 / 2);
    mem_must_free(s);
    wal_close(w);
    dir_remove(dir);
}

// ---- cuts

static void cuts_close_by_size_and_by_age_of_arrival(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    static char big[2][70000];
    uint64_t x = 1;
    for (size_t i = 0; i < 2 * (sizeof big[0] - 1); i++)  // what cannot be packed
        big[i % 2][i / 2] =
            (char)(1 + ((x = x * 6364136223846793005u + 1442695040888963407u) >> 33) % 255);
    fake_now = 1000 * NS_PER_S;
    o.cut_bytes = 100000;
    struct wal *w = reopen(&o, true);
    append(w, big[0]);
    assert_int_equal(append(w, "a").cut->number, 1);
    assert_int_equal(append(w, big[1]).cut->number, 2);
    fake_now += 599 * NS_PER_S;
    assert_int_equal(append(w, "b").cut->number, 2);
    fake_now += NS_PER_S;
    struct wal_place last = append(w, "c");
    assert_int_equal(last.cut->number, 3);
    assert_int_equal(last.last_seq, 5);
    assert_int_equal(last.cut->first_seq, 5);
    fake_now += 600 * NS_PER_S;
    assert_int_equal(wal_count(w).open_cuts, 1);
    wal_tick(w);  // nobody pushes
    assert_int_equal(wal_count(w).open_cuts, 0);
    assert_int_equal(wal_count(w).closed_cuts, 3);
    assert_int_equal(append(w, "d").cut->number, 4);
    uint64_t bytes = wal_count(w).bytes;
    end(w);
    w = reopen(&o, true);
    assert_int_equal(wal_count(w).bytes, bytes);
    assert_int_equal(wal_count(w).closed_cuts, 4);
    assert_int_equal(wal_count(w).closed_streams, 1);
    assert_int_equal(append(w, "e").cut->number, 1);  // of a stream of its own
    end(w);
    dir_remove(dir);
}

static void a_dropped_cut_is_gone_and_so_is_an_empty_stream(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    struct cut *cuts[8];
    fake_now = 1000 * NS_PER_S;
    struct wal *w = reopen(&o, true);
    struct cut *first = append(w, "a").cut;
    fake_now += 700 * NS_PER_S;
    struct cut *second = append(w, "b").cut;
    assert_true(wal_cut_is_past(w, first, 699 * NS_PER_S));
    assert_false(wal_cut_is_past(w, first, 700 * NS_PER_S));
    assert_false(wal_cut_is_past(w, second, -1));  // open
    assert_ok(wal_drop(w, first, e));
    assert_int_equal(wal_cuts(w, cuts, COUNT(cuts)), 1);
    end(w);
    w = reopen(&o, true);
    struct wal_stream streams[4];
    assert_int_equal(wal_streams(w, streams, COUNT(streams)), 2);
    assert_string_equal(streams[0].state, "sealed-owner");
    assert_int_equal(streams[0].highest_seq, 2);
    assert_string_equal(streams[1].state, "open");
    assert_int_equal(wal_cuts(w, cuts, COUNT(cuts)), 1);
    assert_int_equal(cuts[0]->number, 2);
    assert_scans(w, cuts[0], "2:t:b ");
    assert_ok(wal_drop(w, cuts[0], e));
    assert_int_equal(wal_streams(w, streams, COUNT(streams)), 1);
    assert_int_equal(wal_count(w).bytes, 0);
    end(w);
    w = reopen(&o, false);
    assert_int_equal(wal_streams(w, streams, COUNT(streams)), 0);
    assert_int_equal(wal_cuts(w, cuts, COUNT(cuts)), 0);
    wal_close(w);
    dir_remove(dir);
}

static void pinned_cuts_stay(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    struct wal_place place;
    struct wal_item item = {.rows = S("a")};
    fake_now = 1000 * NS_PER_S;
    struct wal *w = reopen(&o, true);
    assert_ok(wal_append(w, S("t"), &item, 1, &place, e));
    fake_now += 700 * NS_PER_S;
    wal_tick(w);
    assert_false(wal_cut_is_past(w, place.cut, 0));
    wal_unpin(w, place.cut);
    assert_true(wal_cut_is_past(w, place.cut, 0));
    end(w);
    dir_remove(dir);
}

// ---- clocks

#define HOUR (3600 * NS_PER_S)
#define DAY  (24 * HOUR)
#define KEEP (10 * DAY)

static void a_wall_clock_that_jumps_ages_nothing(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    fake_now = 100 * DAY;
    set_ahead = 20000 * DAY;
    struct wal *w = reopen(&o, true);
    struct cut *open = append(w, "a").cut;
    set_ahead += 40 * DAY;
    wal_tick(w);
    assert_int_equal(wal_count(w).open_cuts, 1);
    set_ahead -= 80 * DAY;
    fake_now += 600 * NS_PER_S;
    wal_tick(w);  // 10 minutes are over, whatever the wall clock says
    assert_int_equal(wal_count(w).closed_cuts, 1);
    for (int i = -1; i <= 1; i++) {
        set_ahead = 20000 * DAY + i * 40 * DAY;
        wal_tick(w);
        assert_false(wal_cut_is_past(w, open, KEEP));
        assert_int_equal(open->newest_wall_ns, fake_wall() - 600 * NS_PER_S);
    }
    fake_now += KEEP;
    set_ahead = 0;
    assert_true(wal_cut_is_past(w, open, KEEP));
    end(w);
    set_ahead = 0;
    dir_remove(dir);
}

static void a_thread_that_stands_still_between_two_clocks_sees_no_jump(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    fake_now = 100 * DAY;
    struct wal *w = reopen(&o, true);
    struct cut *open = append(w, "a").cut;
    fake_now += 60 * NS_PER_S;
    int64_t opened = open->opened_wall_ns;
    stand_still = 30 * NS_PER_S;
    wal_tick(w);
    assert_int_equal(open->opened_wall_ns, opened);
    assert_int_equal(stand_still, 0);
    end(w);
    dir_remove(dir);
}

// Closes cut 1 at a time, ends, and finds it again with the wall clock elsewhere.
static struct wal *found(const struct wal_options *o, int64_t ahead, int64_t ahead_later,
                         struct cut **c)
{
    set_ahead = ahead;
    struct wal *w = reopen(o, true);
    append(w, "a");
    end(w);
    set_ahead = ahead_later;
    w = reopen(o, true);
    assert_int_equal(wal_cuts(w, c, 1), 1);
    return w;
}

static void what_is_found_at_a_start_waits_for_the_clock_to_be_set(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t ahead[3];  // as it was written, at the start, and later on
        int64_t later;     // by the boot clock
        bool recent_ids;
    } jumps[] = {
        {"the same day", {0, 0, 0}, 2 * HOUR, false},
        {"long away", {0, 40 * DAY, 40 * DAY}, 2 * HOUR, true},
        {"long away, but not for an hour", {0, 40 * DAY, 40 * DAY}, HOUR, false},
        {"ahead at the start, then set", {0, 40 * DAY, 0}, 2 * HOUR, false},
        {"behind at the start, then set", {0, -40 * DAY, 0}, 2 * HOUR, false},
        {"set ahead later", {0, 0, 40 * DAY}, 2 * HOUR, false},
        {"written ahead", {40 * DAY, 0, 0}, 2 * HOUR, false},
        {"written ahead, kept long enough", {40 * DAY, 0, 0}, KEEP + HOUR, true},
        {"kept long enough", {0, 0, 0}, KEEP + HOUR, true},
        {"kept long enough, but the clock is behind", {0, 0, -40 * DAY}, KEEP + HOUR, false},
    };
    for (size_t i = 0; i < COUNT(jumps); i++) {
        char dir[DIR_MAX];
        dir_new(dir);
        struct wal_options o = options(dir);
        const int64_t base = 20000 * DAY;
        fake_now = 100 * DAY;
        struct cut *c = NULL;
        struct wal *w = found(&o, base + jumps[i].ahead[0], base + jumps[i].ahead[1], &c);
        set_ahead = base + jumps[i].ahead[2];
        fake_now += jumps[i].later;
        if (wal_cut_is_past(w, c, KEEP) != jumps[i].recent_ids) fail_msg("%s", jumps[i].name);
        end(w);
        dir_remove(dir);
    }
    set_ahead = 0;
}

static void streams_follow_each_other_also_when_the_clock_goes_back(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    fake_now = 1000 * DAY;
    for (int i = 0; i < 4; i++) {
        struct wal *w = reopen(&o, true);
        struct wal_stream streams[8];
        assert_int_equal(wal_streams(w, streams, COUNT(streams)), i + 1);
        for (int k = 0; k < i; k++)
            assert_true(memcmp(streams[k].id.b, streams[k + 1].id.b, sizeof streams[k].id.b) < 0);
        append(w, "a");
        end(w);
        fake_now -= 300 * DAY;
    }
    dir_remove(dir);
}

// ---- limits

static void a_full_disk_refuses_before_it_fails(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    struct wal_place place;
    struct wal_item item = {.rows = S("0123456789")};
    fake_now = 1000 * NS_PER_S;
    static const struct {
        const char *row;
        uint64_t reserve;
        uint64_t max;
    } cases[] = {{"ingester.disk_reserve", UINT64_MAX, 0}, {"ingester.log_disk", 0, 500}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        err fault = {0};
        o.disk_reserve = cases[i].reserve;
        o.disk_max = cases[i].max;
        struct wal *w = reopen(&o, true);
        bool ok = true;
        for (int k = 0; ok && k < 10; k++) {
            ok = wal_append(w, S("t"), &item, 1, &place, &fault);
            if (ok) wal_unpin(w, place.cut);
        }
        assert_false(ok);
        assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
        assert_non_null(strstr(fault.msg, cases[i].row));
        assert_int_equal(wal_state(w), WAL_OPEN);
        end(w);
    }
    dir_remove(dir);
}

static void a_drained_log_refuses(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    struct wal_place place;
    struct wal_item item = {.rows = S("x")};
    err fault = {0};
    struct wal *w = reopen(&o, false);
    assert_false(wal_append(w, S("t"), &item, 1, &place, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    assert_ok(wal_begin(w, e));
    append(w, "y");
    wal_drain(w);
    assert_false(wal_append(w, S("t"), &item, 1, &place, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    wal_close(w);
    dir_remove(dir);
}

// ---- what is on disk

static void other_formats_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *family;
        const char *key;
        const char *value;
    } cases[] = {{"format", NULL, "format", "5"}, {"family", "something", NULL, NULL}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char dir[DIR_MAX];
        dir_new(dir);
        struct wal_options o = options(dir);
        wal_close(reopen(&o, false));
        char *message = NULL;
        rocksdb_options_t *ro = rocksdb_options_create();
        rocksdb_writeoptions_t *wo = rocksdb_writeoptions_create();
        rocksdb_t *db = rocksdb_open(ro, dir, &message);
        assert_null(message);
        if (cases[i].key) {
            rocksdb_put(db, wo, cases[i].key, strlen(cases[i].key), cases[i].value, 1, &message);
        } else {
            rocksdb_column_family_handle_destroy(
                rocksdb_create_column_family(db, ro, cases[i].family, &message));
        }
        assert_null(message);
        rocksdb_close(db);
        rocksdb_writeoptions_destroy(wo);
        rocksdb_options_destroy(ro);
        err fault = {0};
        assert_null(wal_open(&o, &fault));
        if (fault.code != ERR_FAILED_PRECONDITION) fail_msg("%s: %s", cases[i].name, fault.msg);
        dir_remove(dir);
    }
}

// Replaces the value of a key in a family of a closed log.
static void overwrite(const char *dir, const char *key, size_t key_n, str value, bool in_cut)
{
    char *message = NULL;
    size_t n = 0;
    rocksdb_options_t *ro = rocksdb_options_create();
    rocksdb_writeoptions_t *wo = rocksdb_writeoptions_create();
    char **names = rocksdb_list_column_families(ro, dir, &n, &message);
    const rocksdb_options_t *all[8] = {ro, ro, ro, ro, ro, ro, ro, ro};
    rocksdb_column_family_handle_t *handles[8];
    rocksdb_t *db = rocksdb_open_column_families(ro, dir, (int)n, (const char *const *)names, all,
                                                 handles, &message);
    assert_null(message);
    for (size_t i = 0; i < n; i++) {
        if ((strcmp(names[i], "default") != 0) == in_cut)
            rocksdb_put_cf(db, wo, handles[i], key, key_n, value.p, value.n, &message);
        assert_null(message);
        rocksdb_column_family_handle_destroy(handles[i]);
    }
    rocksdb_list_column_families_destroy(names, n);
    rocksdb_close(db);
    rocksdb_writeoptions_destroy(wo);
    rocksdb_options_destroy(ro);
}

// The example of docs/formats/log.md.
static void an_entry_has_the_bytes_that_the_page_says(void **state)
{
    (void)state;
    static const char want[] = "\x08\x01\x10\x01\x1a\x01t\x40\x00\x4a\x03\x61\x62\x63";
    char dir[DIR_MAX];
    char *value = NULL;
    size_t n = 0;
    dir_new(dir);
    struct wal_options o = options(dir);
    struct wal *w = reopen(&o, true);
    struct wal_place place = append(w, "abc");
    assert_ok(db_entry(&w->db, place.cut->family, 1, &value, &n, e));
    assert_int_equal(n, sizeof want - 1);
    assert_memory_equal(value, want, n);
    rocksdb_free(value);
    end(w);
    dir_remove(dir);
}

static void formats_before_this_one_are_read_and_raised(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    struct wal *w = reopen(&o, true);
    append(w, "plain");
    end(w);
    static const char *const formats[] = {"4", "1", "2", "3"};
    for (size_t i = 0; i < COUNT(formats); i++) {
        overwrite(dir, "format", 6, str_of(formats[i]), false);
        w = wal_open(&o, &(err){0});
        struct cut *cuts[2];
        assert_non_null(w);
        assert_int_equal(wal_cuts(w, cuts, 2), 1);
        assert_scans(w, cuts[0], "1:t:plain ");
        struct buf value;
        bool found = false;
        buf_init(&value, NULL, 100);
        assert_ok(db_meta_get(&w->db, S("format"), &value, &found, e));
        assert_true(found && str_is(buf_view(&value), "4"));
        buf_release(&value);
        wal_close(w);
    }
    dir_remove(dir);
}

static void a_damaged_block_is_passed_over_and_counted(void **state)
{
    (void)state;
    static const char *const values[] = {
        "\x08\x01\x10\x01\x1a\x01t\x28\x64\x32\x02\xff\xff",             // no block
        "\x08\x01\x10\x01\x1a\x01t\x28\x64\x32\x04\x30\141bc",           // of 3 bytes, not 100
        "\x08\x01\x10\x01\x1a\x01t\x28\x64",                             // none
        "\x08\x01\x10\x01\x1a\x01t\x28\x04\x38\x01\x32\x05\x40\141bcd",  // its own base
        "\x08\x01\x10\x01\x1a\x01t\x28\x04\x38\x09\x32\x05\x40\141bcd",  // a later one
    };
    for (size_t i = 0; i < COUNT(values); i++) {
        char dir[DIR_MAX];
        dir_new(dir);
        struct wal_options o = options(dir);
        struct wal *w = reopen(&o, true);
        append(w, "damaged");
        append(w, "good");
        end(w);
        overwrite(dir, "\0\0\0\0\0\0\0\1", 8, str_of(values[i]), true);
        w = wal_open(&o, &(err){0});
        struct cut *cuts[2];
        assert_non_null(w);
        assert_int_equal(wal_cuts(w, cuts, 2), 1);
        assert_scans(w, cuts[0], "2:t:good ");
        assert_int_equal(cuts[0]->lost_entries, 1);
        assert_false(wal_is_unread(cuts[0]));
        wal_close(w);
        dir_remove(dir);
    }
}

// Copies the files of an open log, the newest write-ahead file without its last `cut` bytes.
static void copy_torn(const char *from, const char *to, size_t cut)
{
    char newest[256] = "";
    DIR *d = opendir(from);
    for (struct dirent *f; (f = readdir(d));) {
        size_t n = strlen(f->d_name);
        bool is_log = n > 4 && strcmp(f->d_name + n - 4, ".log") == 0;
        if (is_log && strcmp(f->d_name, newest) > 0) snprintf(newest, 256, "%s", f->d_name);
    }
    rewinddir(d);
    for (struct dirent *f; (f = readdir(d));) {
        char path[512];
        struct buf bytes;
        if (f->d_name[0] == '.' || strcmp(f->d_name, "LOCK") == 0) continue;
        buf_init(&bytes, NULL, 1 << 26);
        snprintf(path, sizeof path, "%s/%s", from, f->d_name);
        assert_ok(file_read(path, &bytes, e));
        if (strcmp(f->d_name, newest) == 0) bytes.n -= MIN(cut, bytes.n);
        snprintf(path, sizeof path, "%s/%s", to, f->d_name);
        assert_ok(file_write(path, buf_view(&bytes), e));
        buf_release(&bytes);
    }
    closedir(d);
}

static void a_torn_tail_is_cut_and_all_before_it_is_there(void **state)
{
    (void)state;
    char from[DIR_MAX];
    dir_new(from);
    struct wal_options o = options(from);
    fake_now = 1000 * NS_PER_S;
    struct wal *w = reopen(&o, true);
    for (int i = 0; i < 20; i++) {
        char text[32];
        snprintf(text, sizeof text, "%020d", i);
        append(w, text);
    }
    size_t last = 20;
    for (size_t cut = 0; cut < 700; cut += 37) {
        char to[DIR_MAX];
        dir_new(to);
        struct wal_options torn = options(to);
        copy_torn(from, to, cut);
        struct wal *copy = reopen(&torn, false);
        struct cut *cuts[2];
        size_t n = wal_cuts(copy, cuts, COUNT(cuts));
        size_t found = n ? (size_t)cuts[0]->last_seq : 0;
        assert_true(n <= 1 && found <= last);
        if (cut == 0) assert_int_equal(found, 20);
        if (n) assert_int_equal(cuts[0]->first_seq, 1);
        struct buf text;
        buf_init(&text, NULL, 1 << 20);
        if (n) cuts[0]->read_seq = 0;
        if (n) assert_ok(wal_scan(copy, cuts[0], note, &text, e));
        size_t entries = 0;
        for (size_t i = 0; i < text.n; i++)
            entries += text.p[i] == ' ';
        assert_int_equal(entries, found);
        buf_release(&text);
        wal_close(copy);
        dir_remove(to);
        last = found;
    }
    assert_true(last < 15);
    end(w);
    dir_remove(from);
}

// ---- what is gone

static bool some_file_has(const char *dir, const char *text)
{
    bool has = false;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        char path[512];
        err e = {0};
        struct buf bytes;
        if (f->d_name[0] == '.') continue;
        buf_init(&bytes, NULL, 1 << 26);
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        // RocksDB may delete it between the two calls.
        bool read = file_read(path, &bytes, &e);
        has = has || (read && bytes.n && memmem(bytes.p, bytes.n, text, strlen(text)));
        buf_release(&bytes);
    }
    closedir(d);
    return has;
}

static void drop_first(struct wal *w)
{
    struct cut *c = NULL;
    assert_int_equal(wal_cuts(w, &c, 1), 1);
    assert_ok(wal_drop(w, c, e));
}

// A log of which the one cut, with "ForgetThis", was dropped.
static struct wal *open_and_drop(const struct wal_options *o)
{
    fake_now = 1000 * NS_PER_S;
    struct wal *w = reopen(o, true);
    append(w, "ForgetThis");
    assert_ok(wal_cut_now(w, e));
    drop_first(w);
    return w;
}

static void the_bytes_of_a_dropped_cut_leave_the_disk_though_nothing_is_written(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    struct wal *w = open_and_drop(&o);
    append(w, "KeepThis");  // a cut that is open keeps its files as well
    fake_now += WAL_REST_NS - 1;
    wal_tick(w);
    assert_true(some_file_has(dir, "ForgetThis"));
    fake_now += 1;
    wal_tick(w);
    AWAIT(!some_file_has(dir, "ForgetThis"));
    assert_true(some_file_has(dir, "KeepThis"));
    assert_int_equal(wal_state(w), WAL_OPEN);
    end(w);
    w = reopen(&o, false);
    struct cut *c = NULL;
    assert_int_equal(wal_cuts(w, &c, 1), 1);
    assert_scans(w, c, "2:t:KeepThis ");
    wal_close(w);
    dir_remove(dir);
}

// The rest is not put off by each drop, or the files of a busy log would stay for ever.
static void the_bytes_of_dropped_cuts_leave_the_disk_though_others_are_dropped(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    struct wal *w = open_and_drop(&o);
    fake_now += WAL_REST_NS - 1;
    append(w, "AndThis");
    assert_ok(wal_cut_now(w, e));
    drop_first(w);
    wal_tick(w);
    assert_true(some_file_has(dir, "ForgetThis"));
    fake_now += 1;
    wal_tick(w);
    AWAIT(!some_file_has(dir, "ForgetThis"));
    end(w);
    dir_remove(dir);
}

static void a_log_that_is_closed_leaves_no_bytes_of_dropped_cuts(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    fake_now = 1000 * NS_PER_S;
    struct wal *w = reopen(&o, true);
    append(w, "ForgetThis");
    wal_drain(w);
    drop_first(w);
    wal_close(w);
    assert_false(some_file_has(dir, "ForgetThis"));
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_of_many_threads_are_all_there_once_in_order),
        cmocka_unit_test(cuts_close_by_size_and_by_age_of_arrival),
        cmocka_unit_test(a_dropped_cut_is_gone_and_so_is_an_empty_stream),
        cmocka_unit_test(pinned_cuts_stay),
        cmocka_unit_test(a_wall_clock_that_jumps_ages_nothing),
        cmocka_unit_test(a_thread_that_stands_still_between_two_clocks_sees_no_jump),
        cmocka_unit_test(what_is_found_at_a_start_waits_for_the_clock_to_be_set),
        cmocka_unit_test(streams_follow_each_other_also_when_the_clock_goes_back),
        cmocka_unit_test(a_full_disk_refuses_before_it_fails),
        cmocka_unit_test(a_drained_log_refuses),
        cmocka_unit_test(other_formats_are_refused),
        cmocka_unit_test(an_entry_has_the_bytes_that_the_page_says),
        cmocka_unit_test(formats_before_this_one_are_read_and_raised),
        cmocka_unit_test(a_damaged_block_is_passed_over_and_counted),
        cmocka_unit_test(a_torn_tail_is_cut_and_all_before_it_is_there),
        cmocka_unit_test(the_bytes_of_a_dropped_cut_leave_the_disk_though_nothing_is_written),
        cmocka_unit_test(the_bytes_of_dropped_cuts_leave_the_disk_though_others_are_dropped),
        cmocka_unit_test(a_log_that_is_closed_leaves_no_bytes_of_dropped_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
