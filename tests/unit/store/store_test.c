// SPDX-License-Identifier: Apache-2.0
#include "lib/memstore.h"
#include "lib/test.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>

// ---- the bench: a request and a store

struct bench {
    struct req req;
    struct store *store;
};

static int set_up(void **state)
{
    struct bench *b = mem_must(sizeof *b);
    req_init(&b->req, RANK_DUTY, NULL, 1 << 20, 0);
    b->store = memstore_open();
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    store_close(b->store);
    req_release(&b->req);
    mem_must_free(b);
    return 0;
}

static void put(struct bench *b, const char *name, const char *text)
{
    bool existed = true;
    assert_ok(store_put(b->store, &b->req, str_of(name), str_of(text), &existed, e));
    assert_false(existed);
}

struct words {
    char text[4096];
    size_t most;  // then it ends the list; 0: no end
    size_t n;
};

static bool add_word(void *arg, str name, uint64_t size, err *e)
{
    struct words *w = arg;
    size_t n = strlen(w->text);
    int more = snprintf(w->text + n, sizeof w->text - n, "%s%.*s:%llu", n ? " " : "", STR(name),
                        (unsigned long long)size);
    assert_in_range(more, 1, sizeof w->text - n - 1);
    if (++w->n == w->most) return err_set(e, ERR_ABORTED, "enough");
    return true;
}

// ---- names

static void names_that_are_none_reach_no_store(void **state)
{
    static char long_name[STORE_NAME_MAX + 2];
    static char long_part[257];
    memset(long_name, 'a', sizeof long_name - 1);
    for (size_t i = 100; i < sizeof long_name - 1; i += 100)
        long_name[i] = '/';
    memset(long_part, 'a', sizeof long_part - 1);
    const struct {
        const char *name;
        str object;
        const char *says;
    } cases[] = {
        {"empty", S(""), "empty"},
        {"an empty part", S("a//b"), "part ''"},
        {"begins with a slash", S("/a"), "part ''"},
        {"ends with a slash", S("a/"), "part ''"},
        {"a dot", S("a/./b"), "part '.'"},
        {"two dots", S("../b"), "part '..'"},
        {"two dots at the end", S("b/.."), "part '..'"},
        {"only a dot", S("."), "part '.'"},
        {"a zero byte", S("a\0b"), "byte 0x00 at 1"},
        {"a line end", S("a\n"), "byte 0x0a at 1"},
        {"a space", S("a b"), "byte 0x20 at 1"},
        {"beyond ASCII", S("a\xc3\xa4"), "byte 0xc3 at 1"},
        {"delete", S("\x7f"), "byte 0x7f at 0"},
        {"too long", str_make(long_name, STORE_NAME_MAX + 1), "1025 bytes long, limit 1024"},
        {"a part too long", str_make(long_part, 256), "a part of 256 bytes, limit 255"},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        err why = {0};
        bool existed = false;
        char byte = 0;
        uint64_t size = 0;
        print_message("case %s\n", cases[i].name);
        assert_false(store_put(b->store, &b->req, cases[i].object, S("x"), &existed, &why));
        assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(why.msg, cases[i].says));
        assert_false(store_read(b->store, &b->req, cases[i].object, 0, 1, &byte, &why));
        assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
        assert_false(store_size(b->store, &b->req, cases[i].object, &size, &why));
        assert_false(store_delete(b->store, &b->req, cases[i].object, &why));
        assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    }
    struct memstore_totals t = memstore_totals(b->store);
    for (int op = 0; op < MEMSTORE_OPS; op++)
        assert_int_equal(t.ops[op], 0);
    err why = {0};
    long_name[STORE_NAME_MAX] = '\0';
    assert_true(store_name_check(str_of("v1/a0/~tenant~/live/a/.hidden..x"), &why));
    assert_true(store_name_check(str_make(long_part, 255), &why));
    assert_true(store_name_check(str_of(long_name), &why));
}

static void one_bad_name_among_reads_spoils_no_other(void **state)
{
    struct bench *b = *state;
    put(b, "a", "alpha");
    char to[4][8] = {{0}};
    struct store_read v[] = {
        {.name = S("a"), .n = 5, .to = to[0]},
        {.name = S("../a"), .n = 5, .to = to[1]},
        {.name = S("a"), .at = 2, .n = 3, .to = to[2]},
        {.name = S("b"), .n = 1, .to = to[3]},
    };
    store_read_many(b->store, &b->req, v, COUNT(v));
    assert_true(v[0].ok);
    assert_string_equal(to[0], "alpha");
    assert_false(v[1].ok);
    assert_int_equal(v[1].fault.code, ERR_INVALID_ARGUMENT);
    assert_true(v[2].ok);
    assert_string_equal(to[2], "pha");
    assert_false(v[3].ok);
    assert_int_equal(v[3].fault.code, ERR_NOT_FOUND);
}

static void one_bad_name_among_sizes_spoils_no_other(void **state)
{
    struct bench *b = *state;
    put(b, "a", "alpha");
    struct store_sizing v[] = {{.name = S("../a")}, {.name = S("a")}, {.name = S("b")}};
    store_size_many(b->store, &b->req, v, COUNT(v));
    assert_false(v[0].ok);
    assert_int_equal(v[0].fault.code, ERR_INVALID_ARGUMENT);
    assert_true(v[1].ok);
    assert_int_equal(v[1].size, 5);
    assert_false(v[2].ok);
    assert_int_equal(v[2].fault.code, ERR_NOT_FOUND);
}

// ---- what a store does

static void an_object_is_created_once_and_read_back(void **state)
{
    struct bench *b = *state;
    put(b, "x/y", "first");
    bool existed = false;
    assert_ok(store_put(b->store, &b->req, S("x/y"), S("second"), &existed, e));
    assert_true(existed);
    struct buf out;
    buf_init(&out, NULL, 100);
    buf_z(&out, "<");
    assert_ok(store_get(b->store, &b->req, S("x/y"), &out, e));
    assert_true(str_is(buf_view(&out), "<first"));
    put(b, "empty", "");
    assert_ok(store_get(b->store, &b->req, S("empty"), &out, e));
    assert_true(str_is(buf_view(&out), "<first"));
    buf_release(&out);
    assert_ok(store_delete(b->store, &b->req, S("x/y"), e));
    assert_ok(store_delete(b->store, &b->req, S("x/y"), e));
    uint64_t size = 0;
    err why = {0};
    assert_false(store_size(b->store, &b->req, S("x/y"), &size, &why));
    assert_int_equal(why.code, ERR_NOT_FOUND);
    put(b, "x/y", "third");
}

static void an_object_too_large_for_its_buffer_is_refused(void **state)
{
    struct bench *b = *state;
    put(b, "a", "0123456789");
    struct buf out;
    buf_init(&out, NULL, 9);
    err why = {0};
    assert_false(store_get(b->store, &b->req, S("a"), &out, &why));
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    buf_release(&out);
}

static void an_upload_given_up_leaves_nothing(void **state)
{
    struct bench *b = *state;
    err why = {0};
    struct store_upload *u = store_begin(b->store, &b->req, S("a"), 3, &why);
    assert_non_null(u);
    assert_ok(store_write(u, S("abc"), e));
    store_abandon(u);
    store_abandon(NULL);
    assert_int_equal(memstore_count(b->store, ""), 0);
    assert_int_equal(memstore_uploads(b->store), 0);
}

static void lists_are_in_order_and_begin_where_told(void **state)
{
    struct bench *b = *state;
    static const char *const names[] = {"b", "a/b", "a-b/c", "a/a/c", "a0", "a/a", "a"};
    for (size_t i = 0; i < COUNT(names); i++)
        put(b, names[i], names[i]);
    static const struct {
        const char *prefix, *after, *expected;
    } cases[] = {
        {"", "", "a:1 a-b/c:5 a/a:3 a/a/c:5 a/b:3 a0:2 b:1"},
        {"a/", "", "a/a:3 a/a/c:5 a/b:3"},
        {"a/", "a/a", "a/a/c:5 a/b:3"},
        {"a/", "a", "a/a:3 a/a/c:5 a/b:3"},
        {"a/", "a/b", ""},
        {"a/", "b", ""},
        {"a", "a/az", "a/b:3 a0:2"},
        {"c", "", ""},
    };
    for (size_t page = 1; page < 10; page++) {
        memstore_set_page(b->store, page);
        for (size_t i = 0; i < COUNT(cases); i++) {
            struct words w = {0};
            assert_ok(store_list(b->store, &b->req, str_of(cases[i].prefix), str_of(cases[i].after),
                                 add_word, &w, e));
            assert_string_equal(w.text, cases[i].expected);
        }
    }
    struct words w = {.most = 2};
    err why = {0};
    assert_false(store_list(b->store, &b->req, S(""), S(""), add_word, &w, &why));
    assert_int_equal(why.code, ERR_ABORTED);
    assert_string_equal(w.text, "a:1 a-b/c:5");
    assert_false(store_list(b->store, &b->req, S("../"), S(""), add_word, &w, &why));
    assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
}

static void a_list_tells_whether_a_name_is_lacking(void **state)
{
    struct bench *b = *state;
    bool lacks = false;
    put(b, "a/1", "one");
    put(b, "a/10", "ten");
    assert_ok(store_lacks(b->store, &b->req, S("a/1"), &lacks, e));
    assert_false(lacks);
    assert_ok(store_lacks(b->store, &b->req, S("a"), &lacks, e));
    assert_true(lacks);
    assert_ok(store_delete(b->store, &b->req, S("a/1"), e));
    assert_ok(store_lacks(b->store, &b->req, S("a/1"), &lacks, e));
    assert_true(lacks);
}

// ---- absence

static bool read_it(struct bench *b, str name, err *e)
{
    char to[2];
    return store_read(b->store, &b->req, name, 0, 2, to, e);
}

static bool read_pieces(struct bench *b, str name, err *e)
{
    char to[3][2];
    struct store_read v[] = {{.name = name, .n = 2, .to = to[0]},
                             {.name = S("there"), .n = 2, .to = to[1]},
                             {.name = name, .at = 1, .n = 1, .to = to[2]}};
    store_read_many(b->store, &b->req, v, COUNT(v));
    if (!v[1].ok) fail_msg("a piece that is there: %s", v[1].fault.msg);
    if (!v[0].ok) *e = v[0].fault;
    if (!v[2].ok) *e = v[2].fault;
    return v[0].ok && v[2].ok;
}

static bool get_it(struct bench *b, str name, err *e)
{
    struct buf out;
    buf_init(&out, NULL, 10);
    bool ok = store_get(b->store, &b->req, name, &out, e) && str_is(buf_view(&out), "10");
    buf_release(&out);
    return ok;
}

static bool look_at(struct bench *b, str name, err *e)
{
    uint64_t size = 0;
    return store_size(b->store, &b->req, name, &size, e) && size == 2;
}

static bool look_at_many(struct bench *b, str name, err *e)
{
    struct store_sizing v[] = {{.name = S("there")}, {.name = name}};
    store_size_many(b->store, &b->req, v, COUNT(v));
    if (!v[1].ok) *e = v[1].fault;
    return v[0].ok && v[1].ok;
}

static bool ask_age(struct bench *b, str name, err *e)
{
    int64_t age_ns = 0;
    return store_age(b->store, &b->req, name, &age_ns, e);
}

// By each way to ask for an object.
static void there_is_none_is_said_only_if_a_list_has_none_either(void **state)
{
    static const struct {
        const char *name;
        bool (*run)(struct bench *b, str name, err *e);
    } ways[] = {
        {"read", read_it}, {"pieces", read_pieces}, {"get", get_it},
        {"size", look_at}, {"sizes", look_at_many}, {"age", ask_age},
    };
    struct bench *b = *state;
    put(b, "a", "10");
    put(b, "there", "10");
    for (size_t i = 0; i < COUNT(ways); i++) {
        err why = {0};
        print_message("%s\n", ways[i].name);
        memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_FORGETS, 1, 2);
        assert_ok(ways[i].run(b, S("a"), e));
        assert_int_equal(memstore_totals(b->store).failed[MEMSTORE_READ], 2);
        assert_false(ways[i].run(b, S("none"), &why));
        assert_int_equal(why.code, ERR_NOT_FOUND);
        memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, UINT64_MAX);
        assert_false(ways[i].run(b, S("none"), &why));
        assert_int_equal(why.code, ERR_UNAVAILABLE);
        memstore_heal(b->store);
        memstore_reset_totals(b->store);
    }
    err why = {0};
    memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_FORGETS, 1, UINT64_MAX);
    assert_false(read_it(b, S("a"), &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(why.msg, "the store lists it, and then says that there is none"));
}

// ---- the store in memory does what tests order

static void operations_fail_when_they_are_told_to(void **state)
{
    struct bench *b = *state;
    bool existed = false;
    err why = {0};
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 2, 1);
    put(b, "a", "1");
    assert_false(store_put(b->store, &b->req, S("b"), S("2"), &existed, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    put(b, "b", "2");
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_LANDS, 1, 1);
    assert_false(store_put(b->store, &b->req, S("c"), S("3"), &existed, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_false(existed);
    assert_true(memstore_has(b->store, "c"));
    memstore_fail(b->store, MEMSTORE_DELETE, MEMSTORE_FAILS, 1, UINT64_MAX);
    for (int i = 0; i < 3; i++)
        assert_false(store_delete(b->store, &b->req, S("c"), &why));
    assert_true(memstore_has(b->store, "c"));
    memstore_heal(b->store);
    assert_ok(store_delete(b->store, &b->req, S("c"), e));
    struct memstore_totals t = memstore_totals(b->store);
    assert_int_equal(t.ops[MEMSTORE_CREATE], 4);
    assert_int_equal(t.failed[MEMSTORE_CREATE], 2);
    assert_int_equal(t.ops[MEMSTORE_DELETE], 4);
    assert_int_equal(t.created_bytes, 3);
}

static void reads_are_short_or_wrong_when_they_are_told_to(void **state)
{
    struct bench *b = *state;
    put(b, "a", "0123456789");
    char to[10];
    err why = {0};
    memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_FLIPS, 1, 1);
    assert_ok(store_read(b->store, &b->req, S("a"), 0, 10, to, e));
    assert_memory_not_equal(to, "0123456789", 10);
    memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_SHORT, 1, 1);
    assert_false(store_read(b->store, &b->req, S("a"), 0, 10, to, &why));
    assert_int_equal(why.code, ERR_OUT_OF_RANGE);
    memstore_flip(b->store, "a", 3, 0);
    assert_ok(store_read(b->store, &b->req, S("a"), 0, 10, to, e));
    assert_memory_equal(to, "0122456789", 10);
    memstore_cut(b->store, "a", 4);
    assert_false(store_read(b->store, &b->req, S("a"), 0, 10, to, &why));
    assert_int_equal(why.code, ERR_OUT_OF_RANGE);
    memstore_set(b->store, "a", S("new"));
    assert_true(str_is(memstore_bytes(b->store, "a"), "new"));
    char *names = memstore_names(b->store, "");
    assert_string_equal(names, "a\n");
    free(names);
    memstore_drop(b->store, "a");
    assert_false(memstore_has(b->store, "a"));
}

struct tale {
    char text[256];
    struct store *other;
};

static enum memstore_fault tell(void *arg, const struct memstore_event *ev)
{
    struct tale *t = arg;
    size_t n = strlen(t->text);
    assert_in_range(snprintf(t->text + n, sizeof t->text - n, "%d%.*s%d%d ", ev->op, STR(ev->name),
                             ev->done, ev->ok),
                    1, sizeof t->text - n - 1);
    return MEMSTORE_FINE;
}

// Another process creates the same name just before us.
static enum memstore_fault race(void *arg, const struct memstore_event *ev)
{
    struct tale *t = arg;
    if (ev->op == MEMSTORE_DELETE) return MEMSTORE_FAILS;
    bool existed = true;
    assert_ok(store_put(t->other, ev->req, ev->name, S("theirs"), &existed, e));
    assert_false(existed);
    return MEMSTORE_FINE;
}

// Each kind of lie is one of what stores say, not of what they do.
static void what_lies_before_a_store_says_what_tests_order(void **state)
{
    struct bench *b = *state;
    struct store_names names;
    bool existed = true;
    uint64_t size = 0;
    char to[2] = "";
    err why = {0};
    put(b, "a", "10");
    memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_FORGETS, 1, 2);
    assert_false(b->store->kind->size(b->store, &b->req, S("a"), &size, &why));
    assert_int_equal(why.code, ERR_NOT_FOUND);
    memstore_heal(b->store);
    memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_SWAPS, 1, 1);
    assert_ok(store_read(b->store, &b->req, S("a"), 0, 2, to, e));
    assert_memory_not_equal(to, "10", 2);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_TOO_LARGE, 1, 1);
    assert_false(store_put(b->store, &b->req, S("b"), S("2"), &existed, &why));
    assert_int_equal(why.code, ERR_OUT_OF_RANGE);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_PRETENDS, 1, 1);
    put(b, "b", "2");
    memstore_fail(b->store, MEMSTORE_DELETE, MEMSTORE_PRETENDS, 1, 1);
    assert_ok(store_delete(b->store, &b->req, S("a"), e));
    assert_int_equal(memstore_count(b->store, ""), 1);
    memstore_remember(b->store);
    put(b, "c", "3");
    put(b, "d", "4");
    memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_OLD, 1, 1);
    assert_ok(store_names(b->store, &b->req, S(""), &b->req.arena, &names, e));
    assert_int_equal(names.n, 1);
    memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_ENDS, 1, 1);
    assert_ok(store_names(b->store, &b->req, S(""), &b->req.arena, &names, e));
    assert_int_equal(names.n, 2);
    assert_ok(store_names(b->store, &b->req, S(""), &b->req.arena, &names, e));
    assert_int_equal(names.n, 3);
}

static void hooks_come_between_and_order_faults(void **state)
{
    struct bench *b = *state;
    struct tale t = {.other = memstore_again(b->store)};
    memstore_set_hooks(b->store, race, tell, &t);
    bool existed = false;
    err why = {0};
    assert_ok(store_put(b->store, &b->req, S("a"), S("ours"), &existed, e));
    assert_true(existed);
    assert_true(str_is(memstore_bytes(b->store, "a"), "theirs"));
    assert_false(store_delete(b->store, &b->req, S("a"), &why));
    assert_string_equal(t.text, "0a01 3a00 ");
    store_close(t.other);
}

static void canceled_requests_change_nothing(void **state)
{
    struct bench *b = *state;
    put(b, "a", "1");
    atomic_store(&b->req.canceled, true);
    bool existed = false;
    err why = {0};
    char to[1];
    struct words w = {0};
    assert_false(store_put(b->store, &b->req, S("b"), S("2"), &existed, &why));
    assert_int_equal(why.code, ERR_CANCELED);
    assert_false(store_read(b->store, &b->req, S("a"), 0, 1, to, &why));
    assert_int_equal(why.code, ERR_CANCELED);
    assert_false(store_list(b->store, &b->req, S(""), S(""), add_word, &w, &why));
    assert_false(store_delete(b->store, &b->req, S("a"), &why));
    assert_int_equal(memstore_count(b->store, ""), 1);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(names_that_are_none_reach_no_store),
        CASE(one_bad_name_among_reads_spoils_no_other),
        CASE(one_bad_name_among_sizes_spoils_no_other),
        CASE(an_object_is_created_once_and_read_back),
        CASE(an_object_too_large_for_its_buffer_is_refused),
        CASE(an_upload_given_up_leaves_nothing),
        CASE(lists_are_in_order_and_begin_where_told),
        CASE(a_list_tells_whether_a_name_is_lacking),
        CASE(there_is_none_is_said_only_if_a_list_has_none_either),
        CASE(operations_fail_when_they_are_told_to),
        CASE(reads_are_short_or_wrong_when_they_are_told_to),
        CASE(what_lies_before_a_store_says_what_tests_order),
        CASE(hooks_come_between_and_order_faults),
        CASE(canceled_requests_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
