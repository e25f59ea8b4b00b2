// SPDX-License-Identifier: Apache-2.0
//
// A log whose home is an object store, on one in memory that fails as told.
#include "ingester/log/wal_object_int.h"
#include "lib/await.h"
#include "lib/dir.h"
#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/stream.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/thread.h"
#include "unit/ingester/log_clock.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct bench {
    char dir[DIR_MAX];
    struct store *store;
    struct wal *w;
    int64_t linger_ns;
    size_t waiting_max;
    bool news_fail;
};

static struct wal_options options(struct bench *b)
{
    return (struct wal_options){.dir = b->dir,
                                .owner = "ingester-0",
                                .cut_bytes = 1 << 20,
                                .cut_age_ns = 600 * NS_PER_S,
                                .keep_ns = INT64_C(31) * 86400 * NS_PER_S,
                                .store = b->store,
                                .linger_ns = b->linger_ns,
                                .waiting_max = b->waiting_max,
                                .wall_ns = log_wall,
                                .boot_ns = log_boot};
}

static void start(struct bench *b)
{
    struct wal_options o = options(b);
    assert_ok((b->w = wal_open(&o, e)) != NULL);
    assert_ok(wal_find(b->w, e));
}

static int set_up(void **state)
{
    struct bench *b = mem_must(sizeof *b);
    atomic_store(&log_clock_ns, 1000 * NS_PER_S);
    dir_new(b->dir);
    b->store = memstore_open();
    start(b);
    assert_ok(wal_begin(b->w, e));
    *state = b;
    return 0;
}

static void stop(struct bench *b)
{
    wal_drain(b->w);
    wal_close(b->w);
    b->w = NULL;
}

// As if the process had been killed: nothing is sealed or tidied.
static void kill_it(struct bench *b)
{
    memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, UINT64_MAX);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    memstore_fail(b->store, MEMSTORE_DELETE, MEMSTORE_FAILS, 1, UINT64_MAX);
    stop(b);
    memstore_heal(b->store);
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    if (b->w) stop(b);
    assert_int_equal(memstore_uploads(b->store), 0);
    store_close(b->store);
    dir_remove(b->dir);
    mem_must_free(b);
    return 0;
}

static bool push(struct bench *b, const char *rows, struct wal_place *place, err *e)
{
    struct wal_item item = {.rows = str_of(rows), .count = 1};
    if (!wal_append(b->w, S("t"), &item, 1, place, e)) return false;
    wal_unpin(b->w, place->cut);
    return true;
}

static struct wal_place append(struct bench *b, const char *rows)
{
    struct wal_place place;
    assert_ok(push(b, rows, &place, e));
    return place;
}

static void append_each(struct bench *b, const char *letters)
{
    for (; *letters; letters++)
        append(b, (const char[]){*letters, '\0'});
}

static bool note(void *arg, const struct wal_entry *entry, err *e)
{
    (void)e;
    buf_printf(arg, "%u:%.*s%s ", (unsigned)entry->seq, STR(entry->rows), entry->known ? "!" : "");
    return true;
}

// What unread cuts have, oldest first.
static void reads(struct bench *b, const char *want)
{
    struct cut *cuts[64];
    struct buf text;
    size_t n = wal_cuts(b->w, cuts, COUNT(cuts));
    buf_init(&text, NULL, 1 << 20);
    for (size_t i = 0; i < n; i++)
        if (wal_is_unread(cuts[i])) assert_ok(wal_scan(b->w, cuts[i], note, &text, e));
    buf_byte(&text, 0);
    assert_string_equal(text.p, want);
    buf_release(&text);
}

static void drop_all(struct bench *b)
{
    struct cut *cuts[64];
    assert_ok(wal_cut_now(b->w, e));
    size_t n = wal_cuts(b->w, cuts, COUNT(cuts));
    for (size_t i = 0; i < n; i++)
        assert_ok(wal_drop(b->w, cuts[i], e));
}

static size_t objects(struct bench *b)
{
    return memstore_count(b->store, "v1/log/");
}

static id128 stream_of(struct bench *b)
{
    struct wal_place place;
    assert_ok(wal_position(b->w, &place, e));
    return place.stream;
}

// The stream's name in the store; static.
static const char *object(id128 stream, uint64_t number)
{
    static char name[128];
    char text[ULID_TEXT];
    ulid_print(stream, text);
    snprintf(name, sizeof name, "v1/log/%s/%016llx", text, (unsigned long long)number);
    return name;
}

// ---- writing and reading back

static void what_was_appended_is_read_by_the_next_process(void **state)
{
    struct bench *b = *state;
    id128 first = stream_of(b);
    assert_int_equal(append(b, "a").last_seq, 1);
    append(b, "b");
    assert_ok(wal_cut_now(b->w, e));
    assert_int_equal(append(b, "c").last_seq, 3);
    assert_int_equal(objects(b), 3);
    kill_it(b);
    start(b);
    assert_int_equal(objects(b), 4);
    assert_true(memstore_has(b->store, object(first, 4)));
    reads(b, "1:a 2:b 3:c ");
    assert_int_equal(wal_cuts(b->w, NULL, 0), 2);
    assert_ok(wal_begin(b->w, e));
    append(b, "d");
    assert_false(id128_eq(first, stream_of(b)));
    assert_int_equal(wal_count(b->w).closed_cuts, 2);
    kill_it(b);
    start(b);
    reads(b, "1:a 2:b 3:c 1:d ");
}

// Its stream is sealed, and is cleared away later: its registration has to go first.
static void a_process_that_ends_well_leaves_nothing_to_read(void **state)
{
    struct bench *b = *state;
    append_each(b, "ab");
    drop_all(b);
    stop(b);
    assert_int_equal(objects(b), 3);
    start(b);
    assert_int_equal(wal_cuts(b->w, NULL, 0), 0);
    assert_ok(wal_begin(b->w, e));
    wal_tick(b->w);
    assert_int_equal(objects(b), 3);
    atomic_fetch_add(&log_clock_ns, OBJECT_LOG_LATE_NS);
    wal_tick(b->w);
    assert_int_equal(objects(b), 1);
}

static void covered_cuts_are_deleted_when_the_next_object_tells(void **state)
{
    struct bench *b = *state;
    append_each(b, "ab");
    drop_all(b);
    assert_int_equal(objects(b), 2);
    wal_tick(b->w);
    assert_int_equal(objects(b), 2);
    append(b, "c");
    wal_tick(b->w);
    assert_int_equal(objects(b), 1);
    kill_it(b);
    start(b);
    reads(b, "3:c ");
}

static void what_a_dead_process_had_covered_is_deleted_later(void **state)
{
    struct bench *b = *state;
    append_each(b, "ab");
    kill_it(b);
    start(b);
    reads(b, "1:a 2:b ");
    assert_ok(wal_begin(b->w, e));
    drop_all(b);
    wal_tick(b->w);
    assert_int_equal(objects(b), 3);
    // A process that comes now does not read them again.
    kill_it(b);
    start(b);
    reads(b, "");
    assert_ok(wal_begin(b->w, e));
    assert_int_equal(objects(b), 4);  // the second stream has a seal and nothing else
    atomic_fetch_add(&log_clock_ns, OBJECT_LOG_LATE_NS);
    wal_tick(b->w);
    assert_int_equal(objects(b), 2);
}

// ---- trouble

static void a_store_that_does_not_answer_at_the_start_is_waited_for(void **state)
{
    struct bench *b = *state;
    struct wal_options o = options(b);
    err why = {0};
    append(b, "a");
    kill_it(b);
    memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, 1);
    memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_FAILS, 2, 2);
    assert_ok((b->w = wal_open(&o, e)) != NULL);
    for (int i = 0; i < 3; i++) {
        assert_false(wal_find(b->w, &why));
        assert_int_equal(why.code, ERR_UNAVAILABLE);
    }
    assert_ok(wal_find(b->w, e));
    assert_ok(wal_find(b->w, e));
    reads(b, "1:a ");
}

static void a_write_that_landed_all_the_same_is_read(void **state)
{
    struct bench *b = *state;
    struct wal_place place;
    err why = {0};
    id128 first = stream_of(b);
    append(b, "a");
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_LANDS, 1, 1);
    assert_false(push(b, "b", &place, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_int_equal(wal_state(b->w), WAL_BROKEN);
    assert_false(push(b, "c", &place, &why));
    assert_ok(wal_recover(b->w, e));
    reads(b, "1:a! 2:b ");
    assert_ok(wal_begin(b->w, e));
    assert_int_equal(append(b, "c").last_seq, 1);
    assert_true(memstore_has(b->store, object(first, 3)));  // the seal
    assert_int_equal(wal_count(b->w).lost_entries, 0);
}

static void the_same_bytes_are_put_until_the_store_is_back(void **state)
{
    struct bench *b = *state;
    struct wal_place place;
    err why = {0};
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    assert_false(push(b, "a", &place, &why));
    for (int i = 0; i < 3; i++) {
        assert_false(wal_recover(b->w, &why));
        assert_int_equal(why.code, ERR_UNAVAILABLE);
    }
    memstore_heal(b->store);
    memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, 1);
    assert_false(wal_recover(b->w, &why));  // it landed, and the seal fails
    assert_ok(wal_recover(b->w, e));
    reads(b, "1:a ");
    assert_ok(wal_begin(b->w, e));
    append(b, "b");
    // Put more than once, so it stays for a while.
    drop_all(b);
    wal_tick(b->w);
    assert_int_equal(objects(b), 3);
    atomic_fetch_add(&log_clock_ns, OBJECT_LOG_LATE_NS);
    wal_tick(b->w);
    assert_int_equal(objects(b), 2);  // the seal, and the newest object of the open stream
}

static void seal(struct bench *b, id128 stream)
{
    struct req r;
    uint64_t number = 0;
    const struct object_log_sealer by = {.node = S("other")};
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    assert_ok(object_log_seal(b->store, &r, stream, &by, &number, e));
    req_release(&r);
}

static void register_it(struct bench *b, id128 stream)
{
    struct req r;
    bool existed = false;
    const struct registered_stream own = {.stream = stream, .node = S("n"), .address = S("a:1")};
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    assert_ok(stream_register(b->store, &r, &own, &existed, e));
    req_release(&r);
}

static void what_meets_a_seal_goes_into_the_next_stream(void **state)
{
    struct bench *b = *state;
    id128 first = stream_of(b);
    append(b, "a");
    seal(b, first);
    struct wal_place place = append(b, "b");
    assert_false(id128_eq(place.stream, first));
    assert_int_equal(place.last_seq, 1);
    assert_int_equal(wal_state(b->w), WAL_OPEN);
    // One that has no entries yet.
    seal(b, place.stream);
    append(b, "c");
    id128 third = stream_of(b);
    assert_ok(wal_cut_now(b->w, e));
    seal(b, third);
    append(b, "d");
    kill_it(b);
    start(b);
    reads(b, "1:a 1:b 1:c 1:d ");
}

static void a_seal_met_after_a_failed_write_ends_the_stream(void **state)
{
    struct bench *b = *state;
    struct wal_place place;
    err why = {0};
    id128 first = stream_of(b);
    append(b, "a");
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, 2);
    assert_false(push(b, "b", &place, &why));
    seal(b, first);
    assert_ok(wal_recover(b->w, e));
    reads(b, "");
    assert_ok(wal_begin(b->w, e));
    append(b, "c");
    kill_it(b);
    start(b);
    reads(b, "1:a 1:c ");
}

static void a_stream_that_somebody_else_writes_is_given_up(void **state)
{
    struct bench *b = *state;
    struct wal_place place;
    err why = {0};
    id128 first = stream_of(b);
    append(b, "a");
    str bytes = memstore_bytes(b->store, object(first, 1));
    memstore_set(b->store, object(first, 2), bytes);  // of another number, so it is damaged
    assert_false(push(b, "b", &place, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_ok(wal_recover(b->w, e));
    assert_ok(wal_begin(b->w, e));
    append(b, "c");
    kill_it(b);
    start(b);
    reads(b, "1:a 1:c ");  // the other object is told
    id128 lost[WAL_DAMAGED_MAX];
    assert_int_equal(wal_damaged(b->w, lost), 1);
}

static void an_hour_without_a_push_begins_a_stream(void **state)
{
    struct bench *b = *state;
    id128 first = stream_of(b);
    atomic_fetch_add(&log_clock_ns, 3601 * NS_PER_S);
    wal_tick(b->w);
    assert_true(id128_eq(first, stream_of(b)));  // it has nothing yet
    append(b, "a");
    id128 second = stream_of(b);
    assert_false(id128_eq(first, second));
    atomic_fetch_add(&log_clock_ns, 3601 * NS_PER_S);
    wal_tick(b->w);
    assert_false(id128_eq(second, stream_of(b)));
    assert_true(memstore_has(b->store, object(second, 2)));
    kill_it(b);
    start(b);
    reads(b, "1:a ");
}

// A directory in the place of the new file. Streams that are not in the file are adopted by whoever
// knows the registrations; here nobody does.
static void a_full_disk_stops_nothing(void **state)
{
    struct bench *b = *state;
    char taken[PATH_MAX];
    char text[ULID_TEXT];
    struct buf noted;
    buf_init(&noted, NULL, 4096);
    append(b, "a");
    snprintf(taken, sizeof taken, "%s/STREAMS.tmp", b->dir);
    assert_int_equal(mkdir(taken, 0700), 0);
    seal(b, stream_of(b));
    append(b, "b");
    id128 second = stream_of(b);
    atomic_fetch_add(&log_clock_ns, 3601 * NS_PER_S);
    wal_tick(b->w);
    append(b, "c");
    assert_int_equal(wal_state(b->w), WAL_OPEN);
    assert_false(id128_eq(second, stream_of(b)));
    kill_it(b);
    start(b);
    reads(b, "1:a ");
    assert_false(wal_has_stream(b->w, second));
    assert_ok(wal_begin(b->w, e));
    append(b, "d");
    assert_int_equal(rmdir(taken), 0);
    wal_tick(b->w);
    snprintf(taken, sizeof taken, "%s/STREAMS", b->dir);
    assert_ok(file_read(taken, &noted, e));
    ulid_print(stream_of(b), text);
    buf_byte(&noted, 0);
    assert_non_null(strstr(noted.p, text));
    buf_release(&noted);
    // Nor does a file that says nothing.
    kill_it(b);
    assert_ok(file_write(taken, S("what is this\n"), e));
    start(b);
    reads(b, "");
    assert_ok(wal_begin(b->w, e));
}

static void damage_is_counted_and_the_rest_is_read(void **state)
{
    struct bench *b = *state;
    id128 first = stream_of(b);
    append_each(b, "abc");
    kill_it(b);
    size_t n = memstore_bytes(b->store, object(first, 2)).n;
    memstore_flip(b->store, object(first, 2), n - 6, 1);
    start(b);
    reads(b, "1:a 3:c ");
    assert_int_equal(wal_count(b->w).lost_entries, 1);
    assert_ok(wal_begin(b->w, e));
}

// Something on the way says once that an object is not there.
static void a_false_404_loses_nothing(void **state)
{
    struct bench *b = *state;
    append_each(b, "abc");
    kill_it(b);
    for (uint64_t nth = 1; nth <= 12; nth++) {
        memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_FORGETS, nth, 1);
        start(b);
        reads(b, "1:a 2:b 3:c ");
        assert_int_equal(wal_count(b->w).lost_entries, 0);
        kill_it(b);
    }
    start(b);
}

// Something on the way says "created", once, and nothing is.
static void a_write_without_effect_is_counted_and_the_rest_is_read(void **state)
{
    struct bench *b = *state;
    id128 lost[WAL_DAMAGED_MAX];
    register_it(b, stream_of(b));
    append(b, "a");
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_PRETENDS, 1, 1);
    append_each(b, "bc");
    kill_it(b);
    start(b);
    reads(b, "1:a 3:c ");
    assert_int_equal(wal_count(b->w).lost_entries, 1);
    assert_int_equal(wal_damaged(b->w, lost), 1);
    assert_ok(wal_begin(b->w, e));
    drop_all(b);
    wal_tick(b->w);
    assert_int_equal(memstore_count(b->store, "v1/damaged/"), 2);
}

// Head or body, what is readable of a cut is read, and the whole of it is kept for a person.
static void a_damaged_head_is_counted_and_its_cut_is_kept(void **state)
{
    struct bench *b = *state;
    id128 lost[WAL_DAMAGED_MAX];
    id128 first = stream_of(b);
    append_each(b, "abc");
    assert_ok(wal_cut_now(b->w, e));
    append(b, "d");
    kill_it(b);
    memstore_flip(b->store, object(first, 2), 20, 1);
    start(b);
    reads(b, "1:a 3:c 4:d ");
    assert_int_equal(wal_count(b->w).lost_entries, 1);
    assert_int_equal(wal_damaged(b->w, lost), 1);
    assert_true(id128_eq(lost[0], first));
    assert_ok(wal_begin(b->w, e));
    assert_int_equal(memstore_count(b->store, "v1/damaged/"), 0);
    drop_all(b);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 3, 1);
    wal_tick(b->w);
    assert_false(wal_is_covered(b->w, first));  // what is damaged is not kept yet
    wal_tick(b->w);
    assert_int_equal(memstore_count(b->store, "v1/damaged/"), 3);
    assert_true(wal_is_covered(b->w, first));
    atomic_fetch_add(&log_clock_ns, OBJECT_LOG_LATE_NS);
    wal_tick(b->w);
    assert_false(memstore_has(b->store, object(first, 2)));
    assert_int_equal(memstore_count(b->store, "v1/damaged/"), 3);
}

static void a_stream_of_damaged_heads_alone_is_told_and_ends(void **state)
{
    struct bench *b = *state;
    id128 lost[WAL_DAMAGED_MAX];
    id128 first = stream_of(b);
    append(b, "a");
    kill_it(b);
    memstore_flip(b->store, object(first, 1), 20, 1);
    start(b);
    reads(b, "");
    assert_int_equal(wal_count(b->w).lost_entries, 1);
    assert_int_equal(wal_damaged(b->w, lost), 1);
    assert_ok(wal_begin(b->w, e));
    wal_tick(b->w);
    assert_true(wal_is_covered(b->w, first));
    assert_int_equal(memstore_count(b->store, "v1/damaged/"), 1);
}

static void a_cut_that_vanishes_while_it_is_read_does_not_count(void **state)
{
    struct bench *b = *state;
    id128 first = stream_of(b);
    append_each(b, "ab");
    kill_it(b);
    start(b);
    memstore_drop(b->store, object(first, 2));
    reads(b, "1:a ");
    struct cut *c = NULL;
    assert_int_equal(wal_cuts(b->w, &c, 1), 1);
    assert_true(atomic_load(&c->dropped));
    assert_int_equal(wal_count(b->w).lost_entries, 0);
    assert_ok(wal_begin(b->w, e));
}

static bool no_news(void *arg, uint64_t run, struct buf *out, err *e)
{
    struct bench *b = arg;
    assert_true(run > 0);
    buf_z(out, "n");
    return !b->news_fail || err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory");
}

static void a_group_without_its_news_is_refused(void **state)
{
    struct bench *b = *state;
    struct wal_place place;
    err why = {0};
    struct wal_item item = {.rows = S("r"), .count = 1, .news = no_news, .arg = b};
    b->news_fail = true;
    assert_false(wal_append(b->w, S("t"), &item, 1, &place, &why));
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    b->news_fail = false;
    assert_ok(wal_append(b->w, S("t"), &item, 1, &place, e));
    wal_unpin(b->w, place.cut);
    assert_int_equal(place.last_seq, 1);
    kill_it(b);
    start(b);
    reads(b, "1:nr ");
}

// ---- many at once

static void *push_one(void *arg)
{
    append(arg, "x");
    return NULL;
}

static void pushes_that_come_together_share_an_object(void **state)
{
    enum {
        THREADS = 8
    };
    struct bench *b = *state;
    pthread_t threads[THREADS];
    stop(b);
    b->linger_ns = 300 * NS_PER_MS;
    b->waiting_max = 1 << 20;
    start(b);
    assert_ok(wal_begin(b->w, e));
    size_t before = objects(b);
    for (size_t i = 0; i < THREADS; i++)
        assert_ok(thread_start(&threads[i], "push", push_one, b, e));
    for (size_t i = 0; i < THREADS; i++)
        thread_join(threads[i]);
    assert_in_range(objects(b) - before, 1, THREADS - 1);
    kill_it(b);
    b->linger_ns = 0;
    start(b);
    assert_int_equal(wal_cuts(b->w, NULL, 0), 1);
}

static void what_may_wait_has_a_limit(void **state)
{
    struct bench *b = *state;
    pthread_t one;
    struct wal_place place;
    err why = {0};
    stop(b);
    b->linger_ns = 3600 * NS_PER_S;
    b->waiting_max = 1;
    start(b);
    assert_ok(wal_begin(b->w, e));
    assert_ok(thread_start(&one, "push", push_one, b, e));
    AWAIT(wal_count(b->w).waiting > 0);
    assert_false(push(b, "y", &place, &why));
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(why.msg, "log_waiting_bytes"));
    wal_drain(b->w);  // ends the wait
    thread_join(one);
    assert_int_equal(wal_count(b->w).waiting, 0);
    wal_close(b->w);
    b->w = NULL;
}

// ---- streams follow each other

static size_t serves(struct bench *b, struct wal_served v[8])
{
    size_t n = wal_serves(b->w, v, 8);
    assert_in_range(n, 0, 8);
    return n;
}

static id128 plan(struct bench *b)
{
    id128 stream;
    assert_ok(wal_plan_stream(b->w, &stream, e));
    return stream;
}

static void a_stream_is_served_until_it_is_sealed_and_covered(void **state)
{
    struct bench *b = *state;
    struct wal_served v[8];
    id128 first = append(b, "a").stream;
    id128 second = plan(b);
    wal_offer_stream(b->w, second);
    assert_true(id128_eq(append(b, "b").stream, first));  // its cut is open
    assert_ok(wal_cut_now(b->w, e));
    struct wal_place c = append(b, "c");
    assert_true(id128_eq(c.stream, second) && c.last_seq == 1 && c.cut->number == 1);
    assert_int_equal(serves(b, v), 2);
    assert_true(id128_eq(v[0].stream, first) && v[0].held && !v[0].open && v[1].open);
    // Its last cut is dropped, but there is no seal.
    struct cut *cuts[8];
    assert_int_equal(wal_cuts(b->w, cuts, 8), 2);
    assert_ok(wal_drop(b->w, cuts[0], e));
    assert_int_equal(serves(b, v), 2);
    assert_true(id128_eq(v[0].stream, first) && v[0].held && v[0].oldest_ns == 0);
    memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, UINT64_MAX);
    wal_tick(b->w);
    assert_int_equal(serves(b, v), 2);
    memstore_heal(b->store);
    wal_tick(b->w);
    assert_int_equal(serves(b, v), 1);
    assert_true(id128_eq(v[0].stream, second) && v[0].open);
}

static void a_stream_without_objects_ends_without_a_seal(void **state)
{
    struct bench *b = *state;
    struct wal_served v[8];
    id128 second = plan(b);
    wal_offer_stream(b->w, second);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    wal_tick(b->w);
    memstore_heal(b->store);
    assert_int_equal(serves(b, v), 1);
    assert_true(id128_eq(v[0].stream, second) && v[0].open);
}

static void an_idle_stream_is_followed_by_the_planned_one(void **state)
{
    struct bench *b = *state;
    id128 first = append(b, "a").stream;
    id128 second = plan(b);
    atomic_fetch_add(&log_clock_ns, 3600 * NS_PER_S);
    assert_true(id128_eq(append(b, "b").stream, second));
    assert_false(id128_eq(first, second));
    assert_false(id128_eq(plan(b), second));
}

static void a_start_serves_what_it_has_not_seen_yet(void **state)
{
    struct bench *b = *state;
    struct wal_served v[8];
    struct wal_options o = options(b);
    id128 first = append(b, "a").stream;
    (void)plan(b);
    kill_it(b);
    assert_ok((b->w = wal_open(&o, e)) != NULL);
    assert_int_equal(serves(b, v), 1);  // the planned one was never begun
    assert_true(id128_eq(v[0].stream, first) && v[0].held && !v[0].open);
    assert_ok(wal_find(b->w, e));
    assert_int_equal(serves(b, v), 1);
    reads(b, "1:a ");
    assert_ok(wal_begin(b->w, e));
    assert_int_equal(serves(b, v), 2);
}

static void at_the_end_only_what_is_not_flushed_is_held(void **state)
{
    struct bench *b = *state;
    struct wal_served v[8];
    append(b, "a");
    wal_drain(b->w);
    memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, UINT64_MAX);
    drop_all(b);
    assert_int_equal(serves(b, v), 1);
    assert_true(v[0].held);
    memstore_heal(b->store);
    wal_end(b->w);
    for (size_t i = serves(b, v); i > 0; i--)
        assert_false(v[i - 1].held);
    wal_close(b->w);
    b->w = NULL;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_was_appended_is_read_by_the_next_process),
        TEST(a_process_that_ends_well_leaves_nothing_to_read),
        TEST(covered_cuts_are_deleted_when_the_next_object_tells),
        TEST(what_a_dead_process_had_covered_is_deleted_later),
        TEST(a_store_that_does_not_answer_at_the_start_is_waited_for),
        TEST(a_write_that_landed_all_the_same_is_read),
        TEST(the_same_bytes_are_put_until_the_store_is_back),
        TEST(what_meets_a_seal_goes_into_the_next_stream),
        TEST(a_seal_met_after_a_failed_write_ends_the_stream),
        TEST(a_stream_that_somebody_else_writes_is_given_up),
        TEST(an_hour_without_a_push_begins_a_stream),
        TEST(damage_is_counted_and_the_rest_is_read),
        TEST(a_full_disk_stops_nothing),
        TEST(a_false_404_loses_nothing),
        TEST(a_write_without_effect_is_counted_and_the_rest_is_read),
        TEST(a_damaged_head_is_counted_and_its_cut_is_kept),
        TEST(a_stream_of_damaged_heads_alone_is_told_and_ends),
        TEST(a_cut_that_vanishes_while_it_is_read_does_not_count),
        TEST(a_group_without_its_news_is_refused),
        TEST(pushes_that_come_together_share_an_object),
        TEST(what_may_wait_has_a_limit),
        TEST(a_stream_is_served_until_it_is_sealed_and_covered),
        TEST(a_stream_without_objects_ends_without_a_seal),
        TEST(an_idle_stream_is_followed_by_the_planned_one),
        TEST(a_start_serves_what_it_has_not_seen_yet),
        TEST(at_the_end_only_what_is_not_flushed_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
