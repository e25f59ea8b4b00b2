// SPDX-License-Identifier: Apache-2.0
//
// A store in a bucket of a service in memory: the table of all stores, and what follows from each
// answer that a service may give.
#include "lib/bucket.h"
#include "s3/s3.h"
#include "store/check.h"
#include "sys/clock.h"
#include "unit/s3/bucket_table.h"

#include <stdlib.h>

static struct bucket *bucket;

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    bucket = bucket_new();
    bucket_bench_init(b, bucket_url(bucket), BUCKET, S3_DIALECT_AMAZON);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    bucket_bench_release(*state);
    bucket_free(bucket);
    free(*state);
    return 0;
}

// ---- creations, one request

struct outcome {
    const char *name;
    enum bucket_trouble trouble;
    unsigned count;
    enum err_code code;  // ERR_OK: it succeeds
    bool existed;
    unsigned objects;
};

static void creations_end_as_the_service_says(void **state)
{
    static const struct outcome cases[] = {
        {"the service is busy twice", BUCKET_BUSY, 2, ERR_OK, false, 1},
        {"it breaks before", BUCKET_BREAKS, 1, ERR_OK, false, 1},
        {"the answer is lost: the second try meets our own object", BUCKET_LANDS, 1, ERR_OK, false,
         1},
        {"two creations at once, and the other one failed", BUCKET_CONFLICT, 3, ERR_OK, false, 1},
        {"somebody else was first", BUCKET_STEALS, 1, ERR_OK, true, 1},
        {"no try is answered, though the first was carried out", BUCKET_LANDS, 100, ERR_OK, false,
         1},
        {"it is not allowed", BUCKET_DENIES, 100, ERR_UNAVAILABLE, false, 0},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct outcome *c = &cases[i];
        bool existed = false;
        err why = {0};
        bucket_fail(bucket, "put", c->trouble, 1, c->count);
        bool ok = store_put(b->store, &b->req, S("v1/x"), S("mine"), &existed, &why);
        bucket_heal(bucket);
        if ((ok ? ERR_OK : why.code) != c->code || existed != c->existed ||
            bucket_objects(bucket) != c->objects)
            fail_msg("%s: %s, existed %d, %zu objects", c->name, why.msg, existed,
                     bucket_objects(bucket));
        assert_ok(store_delete(b->store, &b->req, S("v1/x"), e));
    }
}

// What happened is not known: no try was answered, though all were carried out. The bytes are
// there, and the next attempt of the caller is told so.
static void an_outcome_that_is_not_known_is_unavailable_and_harms_nothing(void **state)
{
    struct bench *b = *state;
    bool existed = false;
    err why = {0};
    struct req r;
    char to[4];
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 300 * (uint64_t)NS_PER_MS);
    bucket_fail(bucket, "put", BUCKET_LANDS, 1, 1);
    bucket_fail(bucket, "head", BUCKET_BREAKS, 1, 1000);
    assert_false(store_put(b->store, &r, S("v1/x"), S("mine"), &existed, &why));
    assert_true(why.code == ERR_UNAVAILABLE || why.code == ERR_DEADLINE_EXCEEDED);
    assert_false(existed);
    req_release(&r);
    bucket_heal(bucket);
    assert_ok(store_read(b->store, &b->req, S("v1/x"), 0, 4, to, e));
    assert_memory_equal(to, "mine", 4);
    assert_ok(store_put(b->store, &b->req, S("v1/x"), S("mine"), &existed, e));
    assert_true(existed);
}

// ---- creations in parts

#define PARTS ((size_t)33 << 20)

static bool put_parts(struct bench *b, bool unique, bool *existed, err *e)
{
    char *bytes = calloc(1, PARTS);
    str all = str_make(bytes, PARTS);
    *existed = false;
    bool ok = unique ? store_put_unique(b->store, &b->req, S("v1/x"), all, e)
                     : store_put(b->store, &b->req, S("v1/x"), all, existed, e);
    free(bytes);
    return ok;
}

static void uploads_in_parts_end_as_the_service_says(void **state)
{
    static const struct {
        const char *action;
        struct outcome o;
    } cases[] = {
        {"begin", {"busy at the begin", BUCKET_BUSY, 1, ERR_OK, false, 1}},
        {"part", {"two parts break", BUCKET_BREAKS, 2, ERR_OK, false, 1}},
        {"part", {"a part lands", BUCKET_LANDS, 1, ERR_OK, false, 1}},
        {"part", {"parts are not allowed", BUCKET_DENIES, 100, ERR_UNAVAILABLE, false, 0}},
        {"end", {"the answer of the end is lost", BUCKET_LANDS, 1, ERR_OK, false, 1}},
        {"end", {"a conflict at the end", BUCKET_CONFLICT, 2, ERR_OK, false, 1}},
        {"end", {"the end is not allowed", BUCKET_DENIES, 100, ERR_UNAVAILABLE, false, 0}},
    };
    struct bench *b = *state;
    bool tried = false;
    assert_ok(put_parts(b, false, &tried, e));  // whether the end has a condition is tried out
    assert_ok(store_delete(b->store, &b->req, S("v1/x"), e));
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        const struct outcome *c = &cases[i / 2].o;
        bool unique = i % 2;
        bool existed = false;
        err why = {0};
        if (!unique && strcmp(cases[i / 2].action, "end") != 0) continue;  // the name matters there
        bucket_fail(bucket, cases[i / 2].action, c->trouble, 1, c->count);
        bool ok = put_parts(b, unique, &existed, &why);
        bucket_heal(bucket);
        if ((ok ? ERR_OK : why.code) != c->code || existed != c->existed ||
            bucket_objects(bucket) != c->objects)
            fail_msg("%s: %s, existed %d, %zu objects", c->name, why.msg, existed,
                     bucket_objects(bucket));
        // Nobody knows the fate of an end that failed: a try may be under way, and needs the
        // parts. They are left to store_tidy.
        bool ended = strcmp(cases[i / 2].action, "end") == 0;
        assert_int_equal(bucket_uploads(bucket), ended && !ok ? 1 : 0);
        assert_ok(store_delete(b->store, &b->req, S("v1/x"), e));
        uint64_t dropped = 0;
        assert_ok(store_tidy(b->store, &b->req, 0, &dropped, e));
        assert_int_equal(bucket_uploads(bucket), 0);
    }
}

// Bodies of 12 MiB are too large, and those of a part are not.
static void what_is_too_large_as_a_whole_goes_up_in_parts(void **state)
{
    struct bench *b = *state;
    static char bytes[(size_t)12 << 20];
    const str all = str_make(bytes, sizeof bytes);
    bool existed = false;
    err why = {0};
    unsigned parts = bucket_requests(bucket, "part");
    bucket_fail(bucket, "put", BUCKET_PAGE_413, 1, 1);
    assert_ok(store_put_unique(b->store, &b->req, S("v1/large/1"), all, e));
    assert_int_equal(bucket_requests(bucket, "part"), parts + 2);
    // It is known now; and what an exclusive name needs is tried out.
    unsigned puts = bucket_requests(bucket, "put");
    assert_ok(store_put(b->store, &b->req, S("v1/large/2"), all, &existed, e));
    assert_false(existed);
    assert_ok(store_put(b->store, &b->req, S("v1/large/2"), all, &existed, e));
    assert_true(existed);
    assert_int_equal(bucket_requests(bucket, "put"), puts + 1);  // of that trial
    // Less than a part, and a part, cannot be divided.
    bucket_fail(bucket, "put", BUCKET_PAGE_413, 1, 1);
    assert_false(store_put(b->store, &b->req, S("v1/large/3"), S("1"), &existed, &why));
    assert_int_equal(why.code, ERR_OUT_OF_RANGE);
    bucket_fail(bucket, "part", BUCKET_PAGE_413, 1, 2);
    assert_false(store_put_unique(b->store, &b->req, S("v1/large/4"), all, &why));
    assert_int_equal(why.code, ERR_OUT_OF_RANGE);
    assert_int_equal(bucket_uploads(bucket), 0);
    bucket_heal(bucket);
}

static void a_service_without_conditions_for_parts_gets_whole_objects(void **state)
{
    struct bench *b = *state;
    bool existed = false;
    bucket_ignore_conditions(bucket, false, true);
    assert_ok(put_parts(b, false, &existed, e));
    assert_false(existed);
    unsigned parts = bucket_requests(bucket, "part");
    assert_int_equal(parts, 1);  // of the trial
    assert_ok(put_parts(b, false, &existed, e));
    assert_true(existed);
    assert_int_equal(bucket_requests(bucket, "part"), parts);
    assert_ok(store_delete(b->store, &b->req, S("v1/x"), e));
    assert_ok(put_parts(b, true, &existed, e));  // nobody else creates it
    assert_int_equal(bucket_requests(bucket, "part"), parts + 5);
    assert_int_equal(bucket_objects(bucket), 1);
    assert_int_equal(bucket_uploads(bucket), 0);
}

static void a_service_without_conditions_is_refused_at_the_start(void **state)
{
    struct bench *b = *state;
    struct store *other = b->open(b);
    err why = {0};
    bucket_ignore_conditions(bucket, true, true);
    assert_false(store_check(b->store, other, (id128){0}, &b->req, &why));
    assert_int_equal(why.code, ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(why.msg, "accepts two creations of one name"));
    store_close(other);
}

static void a_service_that_looks_first_and_writes_then_is_refused(void **state)
{
    struct bench *b = *state;
    struct store *other = b->open(b);
    err why = {0};
    assert_ok(s3_check_races(b->store, &b->req, e));
    bucket_look_and_write(bucket);
    assert_ok(store_check(b->store, other, (id128){0}, &b->req, e));  // one after the other
    assert_false(s3_check_races(b->store, &b->req, &why));
    assert_int_equal(why.code, ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(why.msg, "creations of one name at the same time"));
    assert_int_equal(bucket_objects(bucket), 0);
    store_close(other);
}

static void uploads_older_than_a_day_are_dropped_and_no_others(void **state)
{
    static const char *const times[] = {"2020-01-02T03:04:05.000Z", "2021-01-02T03:04:05Z", "",
                                        "nonsense"};
    struct bench *b = *state;
    struct store_upload *u[COUNT(times)];
    char *bytes = calloc(1, PARTS);
    uint64_t dropped = 0;
    for (size_t i = 0; i < COUNT(times); i++) {
        err why = {0};
        char name[16];
        snprintf(name, sizeof name, "v1/%zu", i);
        bucket_set_initiated(bucket, times[i]);
        u[i] = store_begin_unique(b->store, &b->req, str_of(name), PARTS, &why);
        assert_non_null(u[i]);
        assert_ok(store_write(u[i], str_make(bytes, PARTS), e));
    }
    assert_int_equal(bucket_uploads(bucket), COUNT(times));
    assert_ok(store_tidy(b->store, &b->req, (uint64_t)24 * 3600 * NS_PER_S, &dropped, e));
    assert_int_equal(dropped, 2);
    assert_int_equal(bucket_uploads(bucket), 2);
    for (size_t i = 0; i < COUNT(times); i++)
        store_abandon(u[i]);
    assert_int_equal(bucket_uploads(bucket), 0);
    free(bytes);
}

// ---- reads and lists

static void reads_are_right_whatever_the_service_does_to_them(void **state)
{
    static const struct {
        const char *name;
        enum bucket_trouble trouble;
        unsigned count;
    } cases[] = {
        {"busy", BUCKET_BUSY, 3},
        {"broken", BUCKET_LANDS, 2},
        {"a bit is wrong, twice", BUCKET_WRONG, 2},
        {"half of it", BUCKET_HALF, 2},
    };
    struct bench *b = *state;
    bench_put(b, "v1/x", S("0123456789"));
    for (size_t i = 0; i < COUNT(cases); i++) {
        char to[10] = "";
        struct buf all;
        bucket_fail(bucket, "get", cases[i].trouble, 1, cases[i].count);
        assert_ok(store_read(b->store, &b->req, S("v1/x"), 0, 10, to, e));
        assert_memory_equal(to, "0123456789", 10);
        bucket_fail(bucket, "get", cases[i].trouble, 1, cases[i].count);
        buf_init(&all, NULL, 100);
        assert_ok(store_get(b->store, &b->req, S("v1/x"), &all, e));
        if (!str_is(buf_view(&all), "0123456789")) fail_msg("%s", cases[i].name);
        buf_release(&all);
        bucket_heal(bucket);
    }
}

// The second request for a read that stalls is answered, and counts.
static void a_read_that_stalls_is_asked_for_once_more(void **state)
{
    struct bench *b = *state;
    char to[4];
    bench_put(b, "v1/x", S("kept"));
    for (int i = 0; i < 100; i++)  // what second requests are paid with
        assert_ok(store_read(b->store, &b->req, S("v1/x"), 0, 4, to, e));
    memset(to, 0, sizeof to);
    bucket_fail(bucket, "get", BUCKET_STALLS, 1, 1);
    unsigned before = bucket_requests(bucket, "get");
    assert_ok(store_read(b->store, &b->req, S("v1/x"), 0, 4, to, e));
    assert_memory_equal(to, "kept", 4);
    assert_int_equal(bucket_requests(bucket, "get"), before + 2);
    bucket_go_on(bucket);
}

static bool note_name(void *arg, str name, uint64_t size, err *e)
{
    struct buf *names = arg;
    (void)size;
    (void)e;
    buf_printf(names, "%.*s ", STR(name));
    return true;
}

static void lists_of_many_pages_are_whole_or_fail(void **state)
{
    static const struct {
        const char *name;
        enum bucket_trouble trouble;
        unsigned count;
        enum err_code code;
    } cases[] = {
        {"no trouble", BUCKET_FINE, 0, ERR_OK},
        {"busy", BUCKET_BUSY, 2, ERR_OK},
        {"broken", BUCKET_LANDS, 2, ERR_OK},
        {"a page is cut, twice", BUCKET_HALF, 2, ERR_OK},
        {"pages are cut for ever", BUCKET_HALF, 100, ERR_UNAVAILABLE},
        {"not allowed", BUCKET_DENIES, 1, ERR_UNAVAILABLE},
    };
    struct bench *b = *state;
    bucket_set_page(bucket, 3);
    for (unsigned i = 0; i < 10; i++) {
        char name[16];
        snprintf(name, sizeof name, "v1/%u", i);
        bench_put(b, name, S("x"));
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (unsigned nth = 1; nth <= 4; nth++) {
            struct buf names;
            err why = {0};
            buf_init(&names, NULL, 1000);
            bucket_fail(bucket, "list", cases[i].trouble, nth, cases[i].count);
            bool ok = store_list(b->store, &b->req, S("v1/"), (str){0}, note_name, &names, &why);
            bucket_heal(bucket);
            if ((ok ? ERR_OK : why.code) != cases[i].code)
                fail_msg("%s: %s", cases[i].name, why.msg);
            if (ok)
                assert_true(
                    str_is(buf_view(&names), "v1/0 v1/1 v1/2 v1/3 v1/4 v1/5 v1/6 v1/7 v1/8 v1/9 "));
            buf_release(&names);
        }
    }
}

static void a_list_goes_on_behind_a_name_even_if_the_service_knows_no_start(void **state)
{
    static const struct {
        const char *after;
        const char *names;
    } cases[] = {
        {"", "v1/a v1/b v1/c v1/d "},
        {"v1/a", "v1/b v1/c v1/d "},
        {"v1/bb", "v1/c v1/d "},
        {"v1/c", "v1/d "},
        {"v1/d", ""},
    };
    struct bench *b = *state;
    bench_put(b, "v1/a", S("x"));
    bench_put(b, "v1/b", S("x"));
    bench_put(b, "v1/c", S("x"));
    bench_put(b, "v1/d", S("x"));
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        const size_t at = i % COUNT(cases);
        struct buf names;
        if (i == COUNT(cases)) bucket_ignore_start(bucket);
        buf_init(&names, NULL, 1000);
        assert_ok(
            store_list(b->store, &b->req, S("v1/"), str_of(cases[at].after), note_name, &names, e));
        if (!str_is(buf_view(&names), cases[at].names))
            fail_msg("%zu: after %s: %.*s", i, cases[at].after, STR(buf_view(&names)));
        buf_release(&names);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static void the_host_of_an_endpoint_tells_googles_dialect(void **state)
{
    static const struct {
        const char *url;
        enum s3_dialect dialect;
    } cases[] = {
        {"https://storage.googleapis.com", S3_DIALECT_GOOGLE},
        {"https://storage.googleapis.com/", S3_DIALECT_GOOGLE},
        {"http://storage.googleapis.com:80", S3_DIALECT_GOOGLE},
        {"https://bucket.storage.googleapis.com", S3_DIALECT_GOOGLE},
        {"https://notstorage.googleapis.com", S3_DIALECT_AMAZON},
        {"https://storage.googleapis.com.example.net", S3_DIALECT_AMAZON},
        {"https://s3.us-east-1.amazonaws.com", S3_DIALECT_AMAZON},
        {"", S3_DIALECT_AMAZON},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (s3_dialect_of(str_of(cases[i].url)) != cases[i].dialect) fail_msg("%s", cases[i].url);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TABLE(CASE),
        BUCKET_TABLE(CASE),
        LEFT_TABLE(CASE),
        cmocka_unit_test(the_host_of_an_endpoint_tells_googles_dialect),
        CASE(creations_end_as_the_service_says),
        CASE(an_outcome_that_is_not_known_is_unavailable_and_harms_nothing),
        CASE(uploads_in_parts_end_as_the_service_says),
        CASE(what_is_too_large_as_a_whole_goes_up_in_parts),
        CASE(a_service_without_conditions_for_parts_gets_whole_objects),
        CASE(a_service_without_conditions_is_refused_at_the_start),
        CASE(a_service_that_looks_first_and_writes_then_is_refused),
        CASE(uploads_older_than_a_day_are_dropped_and_no_others),
        CASE(reads_are_right_whatever_the_service_does_to_them),
        CASE(a_read_that_stalls_is_asked_for_once_more),
        CASE(lists_of_many_pages_are_whole_or_fail),
        CASE(a_list_goes_on_behind_a_name_even_if_the_service_knows_no_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
