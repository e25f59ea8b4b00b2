// SPDX-License-Identifier: Apache-2.0
//
// What the log has of the head: after a kill the head is what it was, row by row, whatever order
// entries reached the log in, and names are in the log once per cut. The kill is a copy of the
// log's files, of which each synced write is whole; a second ingester starts on it.
#include "base/fault.h"
#include "segments.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/thread.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include <rocksdb/c.h>

#define GROUPS  12  // of pairs, each of one service
#define PAIRS   4   // in each: a row and, sometimes, its sibling
#define THREADS 4
#define ROUNDS  40

static int64_t base_ns;

// ---- rows that are what their number says

// Rows whose numbers are of another hundred have no names in common.
static _Thread_local unsigned hundred;

static uint32_t some_stack(struct symbols *s, struct dice *d)
{
    char text[100];
    uint32_t stack = 0;
    snprintf(text, sizeof text, "main%u;a%u.%u;b%u.%u;c%u.%u@%u", hundred, hundred,
             (unsigned)roll(d, 9), hundred, (unsigned)roll(d, 30), hundred, (unsigned)roll(d, 200),
             (unsigned)roll(d, 3));
    assert_ok((stack = stack_of_text(s, str_of(text), e)) != MAP_NONE);
    return stack;
}

static str some_vector(struct arena *a, struct symbols *s, struct dice *d, int64_t *total)
{
    struct vector_entry v[12];
    size_t n = 1 + roll(d, COUNT(v));
    struct buf out;
    for (size_t i = 0; i < n; i++) {
        v[i] = (struct vector_entry){some_stack(s, d), (int64_t)roll(d, 1000) - 100};
        *total += v[i].value;
    }
    buf_init(&out, NULL, 1 << 16);
    assert_ok(vector_normalise(v, &n, e));
    vector_encode(v, n, &out);
    str bytes = arena_str(a, buf_view(&out));
    buf_release(&out);
    return bytes;
}

static id128 id_of(uint64_t number)
{
    id128 id = {{0}};
    for (size_t i = 0; i < 8; i++)
        id.b[i] = (uint8_t)(number >> (8 * i));
    id.b[15] = 1;
    return id;
}

static labels some_labels(struct arena *a, const char *service, uint64_t pod, bool wall)
{
    label *v = ARENA_ARRAY(a, label, 3);
    v[0] =
        (label){S(LABEL_PROFILE_TYPE), wall ? S("wall:wall:ns:wall:ns") : S("cpu:cpu:ns:cpu:ns")};
    v[1] = (label){S("pod"), arena_printf(a, "p-%u", (unsigned)pod)};
    v[2] = (label){S(LABEL_SERVICE), str_of(service)};
    return (labels){v, 3};
}

struct making {
    struct arena *a;
    struct symbols symbols;
    struct batch b;
};

static void making_begin(struct making *m, struct arena *a, const char *service, uint32_t most)
{
    *m = (struct making){.a = a};
    assert_ok(symbols_init(&m->symbols, NULL, e));
    m->b.service = str_of(service);
    m->b.series = ARENA_ARRAY(a, labels, most);
    m->b.records = ARENA_ARRAY(a, struct record, most);
}

static str making_end(struct making *m)
{
    struct buf out;
    m->b.symbols = m->symbols.t;
    buf_init(&out, NULL, 1 << 26);
    assert_ok(batch_encode(&m->b, m->a, &out, e));
    str bytes = arena_str(m->a, buf_view(&out));
    buf_release(&out);
    symbols_release(&m->symbols);
    return bytes;
}

static struct record *making_record(struct making *m, labels ls)
{
    m->b.series[m->b.series_count] = ls;
    struct record *r = &m->b.records[m->b.record_count++];
    *r = (struct record){.series = m->b.series_count++, .sibling = RECORD_NO_SIBLING};
    return r;
}

// A row with all that a row may have, and its sibling if that is asked for.
static void put_pair(struct making *m, uint64_t number, bool both)
{
    struct dice d = {number * 7919 + 1};
    hundred = (unsigned)(number / 100);
    const char *service = m->b.service.p;
    uint32_t at = m->b.record_count;
    struct record *r = making_record(m, some_labels(m->a, service, roll(&d, 20), false));
    r->time_ns = base_ns + (int64_t)roll(&d, (uint64_t)(7200 * NS_PER_S));
    r->id = id_of(number);
    r->duration_ns = (int64_t)roll(&d, 3) * NS_PER_S;
    r->period = (int64_t)roll(&d, 3) * 10000000;
    r->vector = some_vector(m->a, &m->symbols, &d, &r->total);
    if (roll(&d, 4) == 0) r->attempt = 1 + (uint32_t)roll(&d, 2);
    r->has_first_stream = r->attempt > 0 && roll(&d, 2);
    if (r->has_first_stream) memset(r->first_stream.b, 1 + (int)roll(&d, 200), 16);
    if (roll(&d, 3) == 0) {
        struct span_part *p = ARENA_ARRAY(m->a, struct span_part, 2);
        int64_t total = 0;
        for (uint32_t i = 0; i < 2; i++) {
            p[i].span_id = 1 + roll(&d, 9);
            p[i].has_trace = roll(&d, 2);
            if (p[i].has_trace) memset(p[i].trace_id, 1 + (int)roll(&d, 200), 16);
            p[i].vector = some_vector(m->a, &m->symbols, &d, &total);
        }
        r->spans = p;
        r->span_count = 2;
    }
    if (roll(&d, 3) == 0) {
        label *note = ARENA_NEW(m->a, label);
        *note = (label){S("note"), arena_printf(m->a, "%u", (unsigned)roll(&d, 50))};
        r->annotations = note;
        r->annotation_count = 1;
    }
    if (!both) return;
    struct record *s = making_record(m, some_labels(m->a, service, roll(&d, 20), true));
    s->time_ns = r->time_ns;
    s->id = r->id;
    s->sibling = at;
    s->factor = roll(&d, 2) ? 10000000 : -3;
    s->total = r->total * s->factor;
}

static const char *service_of(uint64_t group)
{
    return group % 2 ? "api" : "web";
}

// ---- pushing

static MUST_CHECK bool push_batches(struct whole *w, const str *batches, size_t n, err *e)
{
    struct req r;
    struct buf message;
    struct buf answer;
    req_init(&r, RANK_INGESTER, &w->memory, SIZE_MAX, 0);
    r.tenant = S("one");
    buf_init(&message, NULL, 1 << 26);
    buf_init(&answer, NULL, 1 << 26);
    for (size_t i = 0; i < n; i++)
        pb_put_bytes(&message, 1, batches[i]);
    bool ok = append_run(w->in, &r, buf_view(&message), &answer, e);
    buf_release(&message);
    buf_release(&answer);
    req_release(&r);
    return ok;
}

// Pairs [from, to) with all names of theirs in one batch.
static void push_pairs(struct whole *w, const char *service, uint64_t from, uint64_t to)
{
    struct arena a;
    struct making m;
    arena_init(&a, NULL, SIZE_MAX);
    making_begin(&m, &a, service, (uint32_t)(2 * (to - from)));
    for (uint64_t i = from; i < to; i++)
        put_pair(&m, i, i % 3 == 0);
    str bytes = making_end(&m);
    assert_ok(push_batches(w, &bytes, 1, e));
    arena_release(&a);
}

struct pusher {
    struct whole *w;
    uint64_t seed;
};

// Some pairs of a group, with siblings that an earlier push may have left out, and twice where the
// dice say so. Others push the same at the same time.
static str roll_batch(struct arena *a, struct dice *d)
{
    struct making m;
    uint64_t group = roll(d, GROUPS);
    making_begin(&m, a, service_of(group), 4 * PAIRS);
    for (uint64_t i = 0; i < PAIRS; i++) {
        for (uint64_t times = roll(d, 8) ? roll(d, 2) : 2; times > 0; times--)
            put_pair(&m, group * PAIRS + i, roll(d, 2));
    }
    return making_end(&m);
}

static void *push_at_random(void *arg)
{
    struct pusher *p = arg;
    struct dice d = {p->seed};
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct arena a;
        str batches[3];
        size_t n = 1 + roll(&d, COUNT(batches));
        err fault = {0};
        arena_init(&a, NULL, SIZE_MAX);
        for (size_t k = 0; k < n; k++)
            batches[k] = roll_batch(&a, &d);
        AWAIT(push_batches(p->w, batches, n, &fault) || fault.code != ERR_UNAVAILABLE);
        if (fault.code != ERR_OK && fault.code != ERR_UNAVAILABLE) fail_msg("%s", fault.msg);
        arena_release(&a);
    }
    return NULL;
}

// ---- a kill

static void copy_log(const char *from, const char *to)
{
    char path[DIR_PATH_MAX];
    char copy[DIR_PATH_MAX];
    dir_path(copy, to, "ingester");
    assert_ok(dir_make(copy, e));
    dir_path(copy, to, "ingester/log");
    assert_ok(dir_make(copy, e));
    dir_path(path, from, "ingester/log");
    DIR *d = opendir(path);
    for (struct dirent *f; (f = readdir(d));) {
        char name[DIR_PATH_MAX + 256];
        struct buf bytes;
        if (f->d_name[0] == '.' || strcmp(f->d_name, "LOCK") == 0) continue;
        buf_init(&bytes, NULL, 1 << 26);
        snprintf(name, sizeof name, "%s/%s", path, f->d_name);
        bool there = file_read(name, &bytes, &(err){0});  // RocksDB removes some meanwhile
        snprintf(name, sizeof name, "%s/%s", copy, f->d_name);
        if (there) assert_ok(file_write(name, buf_view(&bytes), e));
        buf_release(&bytes);
    }
    closedir(d);
}

static void lines_take(struct lines *l, struct whole *w)
{
    lines_init(l);
    lines_of_head(l, w->in->head, S("one"));
    lines_sort(l);
}

// Starts on a copy of the log: the head is what it is here. Lost: so many entries, with what is
// said of them.
static void check_restart(struct whole *w, const char *dir, const char *flags)
{
    char copy[DIR_MAX];
    struct whole after;
    struct lines want;
    struct lines got;
    dir_new(copy);
    lines_take(&want, w);
    copy_log(dir, copy);
    whole_start(&after, copy, flags);
    whole_await(&after);
    lines_take(&got, &after);
    lines_same(&got, &want);
    assert_true(got.n > 0);
    assert_int_equal(wal_count(after.in->wal).lost_entries, 0);
    lines_release(&got);
    lines_release(&want);
    whole_stop(&after);
    dir_remove(copy);
}

// ---- tests

static void push_from_threads(struct whole *w, uint64_t seed)
{
    pthread_t threads[THREADS];
    struct pusher pushers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        pushers[i] = (struct pusher){w, seed * 100 + i};
        assert_ok(thread_start(&threads[i], "pusher", push_at_random, &pushers[i], e));
    }
    for (unsigned i = 0; i < THREADS; i++)
        thread_join(threads[i]);
}

static void after_a_kill_the_head_is_what_it_was(void **state)
{
    (void)state;
    static const char *const flags[] = {
        "", "--ingester.cut_bytes=4KiB",
        "--ingester.cut_bytes=8KiB --limits.max_stacks_per_service_hour=40"};
    for (size_t i = 0; i < 2 * COUNT(flags); i++) {
        char dir[DIR_MAX];
        struct whole w;
        dir_new(dir);
        base_ns = clock_wall_ns() - 8000 * NS_PER_S;
        whole_start(&w, dir, flags[i % COUNT(flags)]);
        whole_await(&w);
        push_from_threads(&w, i + 1);
        struct head_counts counts = head_count(w.in->head);
        assert_true(counts.duplicates > 0);
        if (i % COUNT(flags) == 2) assert_true(counts.capped > 0);
        check_restart(&w, dir, flags[i % COUNT(flags)]);
        whole_stop(&w);
        dir_remove(dir);
    }
}

#ifdef FT_FAULTS
static _Atomic unsigned writes;

static bool fail_some_writes(const char *name)
{
    if (strcmp(name, "wal.sync.after") != 0 || atomic_fetch_add(&writes, 1) % 13 != 12)
        return false;
    errno = EIO;
    return true;
}
#endif

// What a cut in doubt has is read again with the names that its earlier entries brought.
static void failed_writes_are_read_again_with_their_names(void **state)
{
    (void)state;
#ifdef FT_FAULTS
    char dir[DIR_MAX];
    struct whole w;
    dir_new(dir);
    base_ns = clock_wall_ns() - 8000 * NS_PER_S;
    whole_start(&w, dir, "");
    whole_await(&w);
    atomic_store(&writes, 0);
    fault_on(fail_some_writes);
    push_from_threads(&w, 77);
    fault_on(NULL);
    assert_true(atomic_load(&writes) > 13);
    whole_await(&w);
    assert_int_equal(wal_count(w.in->wal).lost_entries, 0);
    check_restart(&w, dir, "");
    whole_stop(&w);
    dir_remove(dir);
#else
    skip();
#endif
}

static uint64_t table_of(struct whole *w)
{
    struct service_head *s = head_service_at(w->in->head, 0);
    assert_non_null(s);
    uint64_t table = s->table;
    service_unref(s);
    return table;
}

// The open cut has entries with numbers from before and from after.
static void a_cut_is_readable_when_tables_were_renumbered(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    struct whole w;
    struct cut *cuts[4];
    size_t rows = 0;
    dir_new(dir);
    base_ns = clock_wall_ns() - 8000 * NS_PER_S;
    whole_start(&w, dir, "");
    whole_await(&w);
    push_pairs(&w, "api", 1000, 1200);
    assert_ok(wal_cut_now(w.in->wal, e));
    push_pairs(&w, "api", 2000, 2005);
    uint64_t table = table_of(&w);
    assert_int_equal(wal_cuts(w.in->wal, cuts, COUNT(cuts)), 2);
    assert_true(head_drop(w.in->head, cuts[0], true, &rows));
    assert_ok(wal_drop(w.in->wal, cuts[0], e));
    assert_true(rows > 200);
    assert_true(table_of(&w) != table);
    push_pairs(&w, "api", 1990, 2010);
    push_pairs(&w, "web", 3000, 3005);
    check_restart(&w, dir, "");
    whole_stop(&w);
    dir_remove(dir);
}

// Stages in one order, logs in the other: what comes first in the log brings the names.
static void names_come_with_the_first_entry_of_the_log(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    struct whole w;
    struct arena arenas[2];
    struct staged *staged[2];
    struct wal_item items[2];
    struct wal_place place;
    dir_new(dir);
    base_ns = clock_wall_ns() - 8000 * NS_PER_S;
    whole_start(&w, dir, "");
    whole_await(&w);
    for (unsigned i = 0; i < 2; i++) {
        struct making m;
        struct batch b;
        arena_init(&arenas[i], NULL, SIZE_MAX);
        making_begin(&m, &arenas[i], "api", 400);
        for (uint64_t k = 0; k < 100; k++) {
            put_pair(&m, k, true);
            m.b.records[m.b.record_count - 1].id.b[14] = (uint8_t)i;  // other rows, equal names
            m.b.records[m.b.record_count - 2].id.b[14] = (uint8_t)i;
        }
        str bytes = making_end(&m);
        assert_ok(batch_decode(&arenas[i], bytes, &b, e));
        assert_ok(head_stage(w.in->head, &arenas[i], S("one"), &b, NULL, &staged[i], e));
        items[i] = (struct wal_item){.count = staged_rows(staged[i]),
                                     .news = head_log_news,
                                     .arg = staged[i]};
        assert_ok(head_log(staged[i], &items[i].rows, e));
    }
    uint64_t costs[2];
    for (unsigned i = 2; i-- > 0;) {
        uint64_t before = wal_count(w.in->wal).bytes;
        assert_ok(wal_append(w.in->wal, S("one"), &items[i], 1, &place, e));
        costs[i] = wal_count(w.in->wal).bytes - before - items[i].rows.n;
    }
    assert_true(costs[1] > 5000);
    assert_true(costs[0] < 100);
    for (unsigned i = 0; i < 2; i++) {
        head_publish(staged[i], place.cut);
        wal_unpin(w.in->wal, place.cut);
        arena_release(&arenas[i]);
    }
    check_restart(&w, dir, "");
    whole_stop(&w);
    dir_remove(dir);
}

static uint64_t cost_of(struct whole *w, uint64_t number, unsigned again)
{
    struct arena a;
    struct making m;
    uint64_t before = wal_count(w->in->wal).bytes;
    arena_init(&a, NULL, SIZE_MAX);
    making_begin(&m, &a, "api", 1);
    struct dice d = {number};
    struct record *r = making_record(&m, some_labels(&a, "api", 1, false));
    struct vector_entry v[300];
    size_t n = COUNT(v);
    struct buf out;
    for (size_t i = 0; i < n; i++) {
        v[i] = (struct vector_entry){some_stack(&m.symbols, &d), 1 + (int64_t)i + again};
        r->total += v[i].value;
    }
    buf_init(&out, NULL, 1 << 16);
    assert_ok(vector_normalise(v, &n, e));
    vector_encode(v, n, &out);
    r->vector = buf_view(&out);
    r->time_ns = base_ns + again;
    r->id = id_of(number + again);
    str bytes = making_end(&m);
    buf_release(&out);
    assert_ok(push_batches(w, &bytes, 1, e));
    arena_release(&a);
    return wal_count(w->in->wal).bytes - before;
}

// Names are in a cut's log once; the next cut has them again, but only those that its rows need.
static void known_names_cost_nothing_in_a_cut(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    struct whole w;
    dir_new(dir);
    base_ns = clock_wall_ns() - 8000 * NS_PER_S;
    whole_start(&w, dir, "");
    whole_await(&w);
    uint64_t first = cost_of(&w, 1000, 0);
    uint64_t other = cost_of(&w, 5000, 0);
    for (unsigned i = 1; i < 20; i++) {
        uint64_t again = cost_of(&w, 1000, i);
        if (again > first / 5) fail_msg("%u of %u bytes", (unsigned)again, (unsigned)first);
    }
    assert_ok(wal_cut_now(w.in->wal, e));
    uint64_t next = cost_of(&w, 1000, 20);
    assert_true(next > first / 2 && next < first + other / 5);
    assert_true(cost_of(&w, 1000, 21) <= first / 5);
    check_restart(&w, dir, "");
    whole_stop(&w);
    dir_remove(dir);
}

// Takes an entry out of the log of a process that ended.
static void lose_entry(const char *dir, uint64_t seq)
{
    char log[DIR_PATH_MAX];
    char key[8] = {0};
    char *message = NULL;
    size_t n = 0;
    dir_path(log, dir, "ingester/log");
    key[7] = (char)seq;
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_writeoptions_t *wo = rocksdb_writeoptions_create();
    char **names = rocksdb_list_column_families(o, log, &n, &message);
    const rocksdb_options_t *all[4] = {o, o, o, o};
    rocksdb_column_family_handle_t *handles[4];
    assert_true(n <= COUNT(handles));
    rocksdb_t *db = rocksdb_open_column_families(o, log, (int)n, (const char *const *)names, all,
                                                 handles, &message);
    assert_null(message);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], "default") != 0)
            rocksdb_delete_cf(db, wo, handles[i], key, sizeof key, &message);
        assert_null(message);
        rocksdb_column_family_handle_destroy(handles[i]);
    }
    rocksdb_list_column_families_destroy(names, n);
    rocksdb_close(db);
    rocksdb_writeoptions_destroy(wo);
    rocksdb_options_destroy(o);
}

// Entries 1 and 3 have names of their own, 2 and 4 refer to those of 1, 5 to those of 3.
static void a_lost_entry_takes_along_what_refers_to_it_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        uint64_t lost;
        bool there[5];
    } cases[] = {{1, {false, false, true, false, true}},
                 {3, {true, true, false, true, false}},
                 {2, {true, false, true, true, true}},
                 {5, {true, true, true, true, false}}};
    static const uint64_t numbers[5] = {100, 100, 200, 100, 200};
    for (size_t c = 0; c < COUNT(cases); c++) {
        char dir[DIR_MAX];
        struct whole w;
        struct lines before;
        struct lines after;
        dir_new(dir);
        base_ns = clock_wall_ns() - 8000 * NS_PER_S;
        whole_start(&w, dir, "");
        whole_await(&w);
        for (unsigned i = 0; i < 5; i++) {
            struct arena a;
            struct making m;
            arena_init(&a, NULL, SIZE_MAX);
            making_begin(&m, &a, "api", 2);
            put_pair(&m, numbers[i], true);
            // Rows of their own and series of their own, by which they are known again.
            m.b.records[0].id.b[14] = m.b.records[1].id.b[14] = (uint8_t)(i + 1);
            m.b.series[0] = some_labels(&a, "api", 1000 + i, false);
            m.b.series[1] = some_labels(&a, "api", 1000 + i, true);
            str bytes = making_end(&m);
            assert_ok(push_batches(&w, &bytes, 1, e));
            arena_release(&a);
        }
        lines_take(&before, &w);
        whole_stop(&w);
        lose_entry(dir, cases[c].lost);
        whole_start(&w, dir, "");
        whole_await(&w);
        lines_take(&after, &w);
        uint64_t lost = 0;
        size_t at = 0;
        for (size_t i = 0; i < before.n; i++) {
            bool there = false;
            for (unsigned k = 0; k < 5; k++) {
                char pod[20];
                snprintf(pod, sizeof pod, "\"p-%u\"", 1000 + k);
                struct buf text;
                buf_init(&text, NULL, 1 << 20);
                buf_str(&text, before.v[i]);
                buf_byte(&text, 0);
                there = there || (cases[c].there[k] && strstr(text.p, pod));
                buf_release(&text);
            }
            lost += !there;
            if (!there) continue;
            assert_true(at < after.n);
            assert_true(str_eq(after.v[at++], before.v[i]));
        }
        assert_int_equal(at, after.n);
        struct wal_counts counts = wal_count(w.in->wal);
        assert_int_equal(counts.lost_rows, lost);
        assert_int_equal(counts.lost_entries, lost / 2);
        lines_release(&before);
        lines_release(&after);
        whole_stop(&w);
        dir_remove(dir);
    }
}

int main(void)
{
    // Nobody loses power here: logs on a disk would only make it wait.
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_kill_the_head_is_what_it_was),
        cmocka_unit_test(failed_writes_are_read_again_with_their_names),
        cmocka_unit_test(a_cut_is_readable_when_tables_were_renumbered),
        cmocka_unit_test(names_come_with_the_first_entry_of_the_log),
        cmocka_unit_test(known_names_cost_nothing_in_a_cut),
        cmocka_unit_test(a_lost_entry_takes_along_what_refers_to_it_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
