// SPDX-License-Identifier: Apache-2.0
//
// What lies between a store and its service answers in the service's place. Nothing follows from
// that: no object is taken for gone or for stored, and what may never be stored is told apart from
// what may be later.
#include "lib/bucket.h"
#include "s3/s3.h"
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

struct lie {
    const char *name;
    enum bucket_trouble trouble;
    bool passes;  // it is asked again
};

static const struct lie lies[] = {
    {"404 with a page", BUCKET_PAGE_404, true},
    {"403 with a page", BUCKET_PAGE_403, true},
    {"200 with a page", BUCKET_PAGE_200, true},
    {"200 and nothing else", BUCKET_NOTHING, true},
    {"200 with a page and an ETag", BUCKET_PAGE_ETAG, true},
    {"no such bucket", BUCKET_UPROOTED, false},
};

// ---- what is there

static bool read_all(struct bench *b, struct req *r, err *e)
{
    char to[4];
    return store_read(b->store, r, S("v1/x"), 0, 4, to, e) && memcmp(to, "kept", 4) == 0;
}

static bool get_all(struct bench *b, struct req *r, err *e)
{
    struct buf out;
    buf_init(&out, NULL, 100);
    bool ok = store_get(b->store, r, S("v1/x"), &out, e) && str_is(buf_view(&out), "kept");
    buf_release(&out);
    return ok;
}

static bool look(struct bench *b, struct req *r, err *e)
{
    uint64_t size = 0;
    return store_size(b->store, r, S("v1/x"), &size, e) && size == 4;
}

static bool look_many(struct bench *b, struct req *r, err *e)
{
    struct store_sizing v[] = {{.name = S("v1/x")}, {.name = S("v1/x")}};
    store_size_many(b->store, r, v, COUNT(v));
    for (size_t i = COUNT(v); i-- > 0;)
        if (!v[i].ok) *e = v[i].fault;
    return v[0].ok && v[1].ok && v[0].size == 4 && v[1].size == 4;
}

static bool ask_age(struct bench *b, struct req *r, err *e)
{
    int64_t age_ns = 0;
    return store_age(b->store, r, S("v1/x"), &age_ns, e);
}

static const struct {
    const char *name;
    const char *action;
    bool (*run)(struct bench *b, struct req *r, err *e);
} readings[] = {
    {"read", "get", read_all},    {"get", "get", get_all},  {"size", "head", look},
    {"sizes", "head", look_many}, {"age", "head", ask_age},
};

static void an_object_is_not_taken_for_gone_because_of_what_others_say(void **state)
{
    struct bench *b = *state;
    bench_put(b, "v1/x", S("kept"));
    for (size_t i = 0; i < COUNT(readings) * COUNT(lies); i++) {
        const struct lie *l = &lies[i % COUNT(lies)];
        const size_t at = i / COUNT(lies);
        err once = {0};
        err always = {0};
        struct req r;
        bucket_fail(bucket, readings[at].action, l->trouble, 1, 1);
        bool ok = readings[at].run(b, &b->req, &once);
        // A HEAD has no body that could tell whose word it is: it is asked again in any case.
        bool passes = l->passes || strcmp(readings[at].action, "head") == 0;
        if (ok != passes) fail_msg("%s, once %s: %s", readings[at].name, l->name, once.msg);
        bucket_fail(bucket, readings[at].action, l->trouble, 1, 1000);
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 150 * (uint64_t)NS_PER_MS);
        ok = readings[at].run(b, &r, &always);
        req_release(&r);
        bucket_heal(bucket);
        if (ok || (always.code != ERR_UNAVAILABLE && always.code != ERR_DEADLINE_EXCEEDED))
            fail_msg("%s, always %s: %s %s", readings[at].name, l->name, err_name(always.code),
                     always.msg);
    }
}

// The first bytes of the page are shown, without what a terminal would obey.
static void the_error_says_that_something_else_has_answered(void **state)
{
    struct bench *b = *state;
    err why = {0};
    bench_put(b, "v1/x", S("kept"));
    bucket_fail(bucket, "get", BUCKET_PAGE_404, 1, 1000);
    assert_false(read_all(b, &b->req, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(why.msg, "answers 404, which does not look like its own answer (of a "
                                    "proxy?): '<html>  <head><title>a proxy"));
    assert_null(strpbrk(why.msg, "\r\n"));
}

static void what_is_not_there_is_not_found_by_each_way_to_ask(void **state)
{
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(readings); i++) {
        err why = {0};
        assert_false(readings[i].run(b, &b->req, &why));
        if (why.code != ERR_NOT_FOUND) fail_msg("%s: %s", readings[i].name, why.msg);
    }
    bench_put(b, "v1/x", S(""));  // no byte that could be read
    uint64_t size = 1;
    bucket_fail(bucket, "head", BUCKET_PAGE_404, 1, 1);
    assert_ok(store_size(b->store, &b->req, S("v1/x"), &size, e));
    assert_int_equal(size, 0);
}

// Even the service's own words may come from what keeps answers on the way. A list is asked as
// well.
static void an_absence_is_confirmed_by_a_list(void **state)
{
    struct bench *b = *state;
    bool lacks = true;
    err why = {0};
    bench_put(b, "v1/x", S("kept"));
    bench_put(b, "v1/xx", S("longer"));
    bucket_fail(bucket, "get", BUCKET_FORGETS, 1, 1);
    assert_ok(read_all(b, &b->req, e));
    bucket_fail(bucket, "get", BUCKET_FORGETS, 1, 1000);
    assert_false(read_all(b, &b->req, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(why.msg, "the store lists it"));
    bucket_heal(bucket);
    assert_ok(store_lacks(b->store, &b->req, S("v1/x"), &lacks, e));
    assert_false(lacks);
    assert_ok(store_delete(b->store, &b->req, S("v1/x"), e));
    assert_ok(store_lacks(b->store, &b->req, S("v1/x"), &lacks, e));
    assert_true(lacks);
    for (size_t i = 0; i < COUNT(lies); i++) {
        struct req r;
        err e = {0};
        lacks = true;
        bucket_fail(bucket, "list", lies[i].trouble, 1, 1000);
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 150 * (uint64_t)NS_PER_MS);
        assert_false(store_lacks(b->store, &r, S("v1/x"), &lacks, &e));
        assert_false(lacks);
        req_release(&r);
        bucket_heal(bucket);
    }
}

// ---- creations

static void a_creation_counts_if_the_service_has_the_bytes(void **state)
{
    static const struct {
        const char *name;
        enum bucket_trouble trouble;
        unsigned count;
        enum err_code code;  // ERR_OK: it succeeds
        unsigned tries;      // 0: any number
    } cases[] = {
        {"200 with a page", BUCKET_PAGE_200, 2, ERR_OK, 3},
        {"200 and nothing else", BUCKET_NOTHING, 1, ERR_OK, 2},
        {"200 with a page and an ETag", BUCKET_PAGE_ETAG, 1, ERR_OK, 2},
        {"404 with a page", BUCKET_PAGE_404, 1, ERR_OK, 2},
        {"403 with a page", BUCKET_PAGE_403, 1, ERR_OK, 2},
        {"an ETag of other bytes", BUCKET_FORGES, 1, ERR_UNAVAILABLE, 1},
        {"200 and nothing else, always", BUCKET_NOTHING, 100, ERR_UNAVAILABLE, 0},
        {"too large", BUCKET_PAGE_413, 1, ERR_OUT_OF_RANGE, 1},
        {"no such bucket", BUCKET_UPROOTED, 1, ERR_UNAVAILABLE, 1},
        {"not allowed", BUCKET_DENIES, 1, ERR_UNAVAILABLE, 1},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        const size_t at = i / 2;
        const bool unique = i % 2 != 0;
        bool existed = false;
        err why = {0};
        unsigned before = bucket_requests(bucket, "put");
        bucket_fail(bucket, "put", cases[at].trouble, 1, cases[at].count);
        bool ok = unique ? store_put_unique(b->store, &b->req, S("v1/x"), S("mine"), &why)
                         : store_put(b->store, &b->req, S("v1/x"), S("mine"), &existed, &why);
        bucket_heal(bucket);
        unsigned tries = bucket_requests(bucket, "put") - before;
        bool there = cases[at].code == ERR_OK;
        if ((ok ? ERR_OK : why.code) != cases[at].code || existed ||
            bucket_objects(bucket) != (there ? 1 : 0) ||
            (cases[at].tries && tries != cases[at].tries))
            fail_msg("%s: %s, existed %d, %zu objects, %u tries", cases[at].name, why.msg, existed,
                     bucket_objects(bucket), tries);
        assert_ok(store_delete(b->store, &b->req, S("v1/x"), e));
    }
}

// What is too large may have landed by a try before, by another way.
static void a_creation_that_landed_before_it_was_too_large_is_one(void **state)
{
    struct bench *b = *state;
    bool existed = true;
    bucket_fail(bucket, "put", BUCKET_LANDS, 1, 1);
    bucket_fail_then(bucket, "put", BUCKET_PAGE_413);
    assert_ok(store_put(b->store, &b->req, S("v1/x"), S("mine"), &existed, e));
    assert_false(existed);
    assert_int_equal(bucket_objects(bucket), 1);
}

static void etags_that_are_no_md5_are_looked_behind(void **state)
{
    static char large[(size_t)100 << 10];
    struct bench *b = *state;
    bool existed = true;
    bucket_set_etags(bucket, false);
    assert_ok(store_put(b->store, &b->req, S("v1/x"), S("mine"), &existed, e));
    assert_false(existed);
    assert_int_equal(bucket_requests(bucket, "get"), 1);  // the bytes
    assert_ok(store_put(b->store, &b->req, S("v1/y"), str_make(large, sizeof large), &existed, e));
    assert_false(existed);
    assert_int_equal(bucket_requests(bucket, "head"), 1);  // nonce and length
    assert_int_equal(bucket_requests(bucket, "get"), 1);
    bucket_set_etags(bucket, true);
    assert_ok(store_put(b->store, &b->req, S("v1/z"), S("mine"), &existed, e));
    assert_false(existed);
    assert_int_equal(bucket_requests(bucket, "get") + bucket_requests(bucket, "head"), 2);
}

#define PARTS ((size_t)33 << 20)

static void uploads_in_parts_count_if_the_service_has_the_bytes(void **state)
{
    static const struct {
        const char *action;
        enum bucket_trouble trouble;
        enum err_code code;
    } cases[] = {
        {"begin", BUCKET_PAGE_200, ERR_OK},
        {"begin", BUCKET_NOTHING, ERR_OK},
        {"begin", BUCKET_PAGE_404, ERR_OK},
        {"begin", BUCKET_PAGE_413, ERR_OUT_OF_RANGE},
        {"part", BUCKET_PAGE_200, ERR_OK},
        {"part", BUCKET_PAGE_ETAG, ERR_OK},
        {"part", BUCKET_NOTHING, ERR_OK},
        {"part", BUCKET_PAGE_404, ERR_OK},
        {"part", BUCKET_PAGE_413, ERR_OUT_OF_RANGE},
        {"end", BUCKET_PAGE_200, ERR_OK},
        {"end", BUCKET_NOTHING, ERR_OK},
        {"end", BUCKET_FORGES, ERR_OK},
        {"end", BUCKET_PAGE_404, ERR_OK},
        {"end", BUCKET_HALF, ERR_OK},
        {"end", BUCKET_PAGE_413, ERR_OUT_OF_RANGE},
        {"end", BUCKET_UPROOTED, ERR_UNAVAILABLE},
    };
    struct bench *b = *state;
    char *bytes = calloc(1, PARTS);
    for (size_t i = 0; i < COUNT(cases); i++) {
        err why = {0};
        bucket_fail(bucket, cases[i].action, cases[i].trouble, 1, 1);
        bool ok = store_put_unique(b->store, &b->req, S("v1/x"), str_make(bytes, PARTS), &why);
        bucket_heal(bucket);
        if ((ok ? ERR_OK : why.code) != cases[i].code || bucket_objects(bucket) != (ok ? 1 : 0))
            fail_msg("%s, case %zu: %s, %zu objects", cases[i].action, i, why.msg,
                     bucket_objects(bucket));
        assert_ok(store_delete(b->store, &b->req, S("v1/x"), e));
    }
    free(bytes);
}

// ---- deletions and lists

static void a_deletion_counts_if_the_service_says_so(void **state)
{
    static const struct {
        const char *name;
        enum bucket_trouble trouble;
    } cases[] = {
        {"200 with a page", BUCKET_PAGE_200},
        {"200 and nothing else", BUCKET_NOTHING},
        {"404 with a page", BUCKET_PAGE_404},
        {"403 with a page", BUCKET_PAGE_403},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct store_removal v[] = {{.name = S("v1/x")}, {.name = S("v1/y")}};
        bench_put(b, "v1/x", S("x"));
        bucket_fail(bucket, "delete", cases[i].trouble, 1, 1);
        assert_ok(store_delete(b->store, &b->req, S("v1/x"), e));
        if (bucket_objects(bucket)) fail_msg("%s: it is there still", cases[i].name);
        bench_put(b, "v1/x", S("x"));
        bench_put(b, "v1/y", S("y"));
        bucket_fail(bucket, "delete_many", cases[i].trouble, 1, 1);
        store_delete_many(b->store, &b->req, v, COUNT(v));
        if (!v[0].ok || !v[1].ok || bucket_objects(bucket))
            fail_msg("%s: of many %zu are left", cases[i].name, bucket_objects(bucket));
    }
}

static void of_many_deletions_those_count_that_are_named(void **state)
{
    struct bench *b = *state;
    struct store_removal v[] = {{.name = S("v1/x")}, {.name = S("v1/none")}, {.name = S("v1/y")}};
    bench_put(b, "v1/x", S("x"));
    bench_put(b, "v1/y", S("y"));
    bucket_fail(bucket, "delete_many", BUCKET_SKIPS, 1, 1);
    store_delete_many(b->store, &b->req, v, COUNT(v));
    assert_true(v[0].ok && v[1].ok && !v[2].ok);
    assert_int_equal(v[2].fault.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(v[2].fault.msg, "v1/y"));
    assert_int_equal(bucket_objects(bucket), 1);
    bucket_fail(bucket, "delete_many", BUCKET_NOTHING, 1, 1);
    store_delete_many(b->store, &b->req, v, COUNT(v));
    assert_true(v[0].ok && v[1].ok && v[2].ok);
    assert_int_equal(bucket_objects(bucket), 0);
}

static void lists_are_those_that_were_asked_for(void **state)
{
    static const enum bucket_trouble troubles[] = {BUCKET_PAGE_200, BUCKET_NOTHING, BUCKET_HALF,
                                                   BUCKET_PAGE_404, BUCKET_STRAYS};
    struct bench *b = *state;
    bench_put(b, "v1/a/x", S("x"));
    bench_put(b, "v1/b/y", S("y"));
    for (size_t i = 0; i < COUNT(troubles); i++) {
        struct store_names names;
        err why = {0};
        struct req r;
        bucket_fail(bucket, "list", troubles[i], 1, 1);
        assert_ok(store_names(b->store, &b->req, S("v1/a/"), &b->req.arena, &names, e));
        if (names.n != 1 || !str_is(names.v[0].name, "v1/a/x")) fail_msg("trouble %zu", i);
        bucket_fail(bucket, "list", troubles[i], 1, 1000);
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 150 * (uint64_t)NS_PER_MS);
        if (store_names(b->store, &r, S("v1/a/"), &r.arena, &names, &why) ||
            (why.code != ERR_UNAVAILABLE && why.code != ERR_DEADLINE_EXCEEDED))
            fail_msg("trouble %zu, always: %s %s", i, err_name(why.code), why.msg);
        req_release(&r);
        bucket_heal(bucket);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_object_is_not_taken_for_gone_because_of_what_others_say),
        CASE(the_error_says_that_something_else_has_answered),
        CASE(what_is_not_there_is_not_found_by_each_way_to_ask),
        CASE(an_absence_is_confirmed_by_a_list),
        CASE(a_creation_counts_if_the_service_has_the_bytes),
        CASE(a_creation_that_landed_before_it_was_too_large_is_one),
        CASE(etags_that_are_no_md5_are_looked_behind),
        CASE(uploads_in_parts_count_if_the_service_has_the_bytes),
        CASE(a_deletion_counts_if_the_service_says_so),
        CASE(of_many_deletions_those_count_that_are_named),
        CASE(lists_are_those_that_were_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
