// SPDX-License-Identifier: Apache-2.0
//
// A log in a store before which something refuses objects of more than `most` bytes, of all names
// or of the log's.
#include "ingester/log/wal_object_int.h"
#include "ingester/metrics.h"
#include "lib/await.h"
#include "lib/dir.h"
#include "lib/memstore.h"
#include "lib/test.h"
#include "store/check.h"
#include "sys/clock.h"
#include "sys/thread.h"
#include "unit/ingester/log_clock.h"

#include <stdlib.h>

#define PUSHES 6

struct bench {
    char dir[DIR_MAX];
    struct store *store;
    struct wal *w;
    size_t object_max;
    size_t most;                // bytes of a creation that is taken; 0: all are
    enum memstore_fault fault;  // what the others meet
    const char *below;          // only names that begin so
    bool times_out;             // the next creation does, and happens
    bool arrives;               // what was refused does before the next list, all the same
    _Atomic size_t refused;
    _Atomic size_t largest;  // that landed, below v1/log/
};

// As of a try whose answer was lost, and which was on its way for long.
static void arrive(struct bench *b)
{
    const struct object_log_writer *x = &b->w->objects->writer;
    char stream[ULID_TEXT];
    char name[128];
    ulid_print(x->stream, stream);
    snprintf(name, sizeof name, "v1/log/%s/%016llx", stream, (unsigned long long)x->number);
    memstore_set(b->store, name, buf_view(&x->bytes));
    b->arrives = false;
}

static enum memstore_fault before(void *arg, const struct memstore_event *ev)
{
    struct bench *b = arg;
    if (ev->op == MEMSTORE_LIST && b->arrives) arrive(b);
    if (ev->op != MEMSTORE_CREATE) return MEMSTORE_FINE;
    if (b->times_out) {
        b->times_out = false;
        return MEMSTORE_LANDS;
    }
    if (!b->most || ev->bytes <= b->most || !str_starts(ev->name, str_of(b->below)))
        return MEMSTORE_FINE;
    atomic_fetch_add(&b->refused, 1);
    return b->fault;
}

static enum memstore_fault after(void *arg, const struct memstore_event *ev)
{
    struct bench *b = arg;
    if (ev->op == MEMSTORE_CREATE && ev->done && str_starts(ev->name, S("v1/log/")))
        atomic_store(&b->largest, MAX(atomic_load(&b->largest), (size_t)ev->bytes));
    return MEMSTORE_FINE;
}

static void start(struct bench *b)
{
    const struct wal_options o = {.dir = b->dir,
                                  .owner = "ingester-0",
                                  .cut_bytes = 1 << 20,
                                  .cut_age_ns = 600 * NS_PER_S,
                                  .keep_ns = INT64_C(31) * 86400 * NS_PER_S,
                                  .store = b->store,
                                  .object_max = b->object_max,
                                  .wall_ns = log_wall,
                                  .boot_ns = log_boot};
    assert_ok((b->w = wal_open(&o, e)) != NULL);
    assert_ok(wal_find(b->w, e));
}

static void refuse(struct bench *b, size_t most, const char *below)
{
    b->most = most;
    b->below = below;
    b->fault = MEMSTORE_TOO_LARGE;
}

static int set_up(void **state)
{
    struct bench *b = mem_must(sizeof *b);
    atomic_store(&log_clock_ns, 1000 * NS_PER_S);
    dir_new(b->dir);
    b->store = memstore_open();
    memstore_set_hooks(b->store, before, after, b);
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

static int tear_down(void **state)
{
    struct bench *b = *state;
    b->most = 0;
    if (b->w) stop(b);
    assert_int_equal(memstore_uploads(b->store), 0);
    assert_int_equal(memstore_count(b->store, STORE_CHECK_PREFIX), 0);
    store_close(b->store);
    dir_remove(b->dir);
    mem_must_free(b);
    return 0;
}

static int64_t count_of(struct metric *m)
{
    return atomic_load(&m->cells[0].sum);
}

// ---- pushes. Rows are a letter, and as many dots as make them so long.

struct name {
    uint64_t run;  // in which it was brought
    size_t bytes;  // besides 4
};

struct push {
    struct bench *b;
    char letter;
    size_t bytes;
    struct name *name;  // its rows need it; NULL: none
    struct wal_place place;
    err why;
    bool ok;
};

// As the head does: what this run has not brought yet.
static bool news(void *arg, uint64_t run, struct buf *out, err *e)
{
    struct name *n = arg;
    if (n->run != run) buf_z(out, "name");
    for (size_t i = 0; n->run != run && i < n->bytes; i++)
        buf_byte(out, '-');
    n->run = run;
    return buf_ok(out, e);
}

static void *push(void *arg)
{
    struct push *p = arg;
    char *rows = mem_must(p->bytes);
    memset(rows, '.', p->bytes);
    rows[0] = p->letter;
    const struct wal_item item = {.rows = str_make(rows, p->bytes),
                                  .count = 1,
                                  .news = p->name ? news : NULL,
                                  .arg = p->name};
    p->why = (err){0};
    p->ok = wal_append(p->b->w, S("t"), &item, 1, &p->place, &p->why);
    if (p->ok) wal_unpin(p->b->w, p->place.cut);
    mem_must_free(rows);
    return NULL;
}

static struct push push_one(struct bench *b, char letter, size_t bytes)
{
    struct push p = {.b = b, .letter = letter, .bytes = bytes};
    push(&p);
    return p;
}

static size_t waiters(struct wal *w)
{
    size_t n = 0;
    lock_take(&w->lock);
    for (const struct waiter *x = w->first; x; x = x->next)
        n++;
    lock_give(&w->lock);
    return n;
}

// All in one group, in this order.
static void push_together(struct bench *b, struct push *v, size_t n)
{
    pthread_t threads[PUSHES];
    assert_in_range(n, 1, PUSHES);
    wal_take_lead(b->w);
    for (size_t i = 0; i < n; i++) {
        v[i].b = b;
        assert_ok(thread_start(&threads[i], "push", push, &v[i], e));
        AWAIT(waiters(b->w) == i + 1);
    }
    wal_give_lead(b->w);
    for (size_t i = 0; i < n; i++)
        thread_join(threads[i]);
    assert_int_equal(wal_count(b->w).waiting, 0);
}

static bool note(void *arg, const struct wal_entry *entry, err *e)
{
    (void)e;
    bool brings = str_starts(entry->rows, S("name"));
    str rows = str_slice(entry->rows, brings ? 4 : 0, entry->rows.n);
    while (str_starts(rows, S("-")))
        rows = str_slice(rows, 1, rows.n);
    if (entry->known) return true;
    buf_printf(arg, "%s%c", brings ? "+" : "", rows.p[0]);
    return true;
}

// What the next process reads: letters of all entries, cuts apart; "+": it brings the name.
static void the_next_one_reads(struct bench *b, const char *want)
{
    struct cut *cuts[64];
    struct buf text;
    b->most = 0;
    stop(b);
    start(b);
    size_t n = wal_cuts(b->w, cuts, COUNT(cuts));
    buf_init(&text, NULL, 1 << 20);
    for (size_t i = 0; i < n; i++) {
        if (i) buf_byte(&text, ' ');
        assert_ok(wal_scan(b->w, cuts[i], note, &text, e));
    }
    buf_byte(&text, 0);
    assert_string_equal(text.p, want);
    buf_release(&text);
}

static struct wal_object_limit limit(struct bench *b)
{
    struct wal_object_limit l;
    wal_object_limit(b->w, &l);
    return l;
}

// ---- too large together

static void what_is_too_large_together_goes_in_smaller_objects(void **state)
{
    struct bench *b = *state;
    struct push v[PUSHES];
    int64_t objects = count_of(&ingester_log_refused_objects);
    int64_t pushes = count_of(&ingester_log_refused_pushes);
    assert_int_equal(limit(b).most, OBJECT_BYTES);
    refuse(b, 9000, "v1/");
    for (size_t i = 0; i < PUSHES; i++)
        v[i] = (struct push){.letter = (char)('a' + i), .bytes = 3000};
    assert_true(push_one(b, 'x', 10).ok);
    push_together(b, v, PUSHES);
    for (size_t i = 0; i < PUSHES; i++)
        if (!v[i].ok) fail_msg("%zu: %s", i, v[i].why.msg);
    assert_int_equal(wal_state(b->w), WAL_OPEN);
    assert_in_range(limit(b).most, 8000, 9000);
    assert_true(limit(b).limited);
    assert_true(b->largest <= 9000);
    assert_int_equal(count_of(&ingester_log_refused_objects), objects + 1);
    assert_int_equal(count_of(&ingester_log_refused_pushes), pushes);
    // What comes later is not tried in objects that are too large.
    size_t refused = b->refused;
    push_together(b, v, PUSHES);
    assert_int_equal(b->refused, refused);
    the_next_one_reads(b, "x abcdefabcdef");
}

// The trial takes what the log's object was refused for.
static void what_only_the_log_is_refused_is_halved(void **state)
{
    struct bench *b = *state;
    struct push v[4];
    refuse(b, 5000, "v1/log/");
    for (size_t i = 0; i < COUNT(v); i++)
        v[i] = (struct push){.letter = (char)('a' + i), .bytes = 3000};
    push_together(b, v, COUNT(v));
    for (size_t i = 0; i < COUNT(v); i++)
        if (!v[i].ok) fail_msg("%zu: %s", i, v[i].why.msg);
    assert_in_range(b->refused, 1, 3);
    assert_int_equal(wal_state(b->w), WAL_OPEN);
    the_next_one_reads(b, "abcd");
}

// What the refused object brought, and what had no place in one, comes again.
static void names_of_what_was_refused_are_brought_again(void **state)
{
    struct bench *b = *state;
    struct name name = {0};
    struct push v[] = {
        {.letter = 'a', .bytes = 9000, .name = &name},  // too large by itself
        {.letter = 'b', .bytes = 100, .name = &name},  {.letter = 'c', .bytes = 100, .name = &name},
        {.letter = 'd', .bytes = 3900, .name = &name}, {.letter = 'e', .bytes = 10, .name = &name},
    };
    refuse(b, 5000, "v1/");
    push_together(b, v, COUNT(v));
    assert_false(v[0].ok);
    for (size_t i = 1; i < COUNT(v); i++)
        if (!v[i].ok) fail_msg("%zu: %s", i, v[i].why.msg);
    // Cuts that have nothing are gone, and each of the others brings the name.
    the_next_one_reads(b, "+bcde");
}

// The news of c have no place behind b. So c comes first in the next object, and the run is a new
// one.
static void what_its_news_make_too_large_waits_for_the_next_object(void **state)
{
    struct bench *b = *state;
    struct name small = {0};
    struct name large = {.bytes = 4200};
    struct push v[] = {
        {.letter = 'b', .bytes = 100, .name = &small},
        {.letter = 'c', .bytes = 100, .name = &large},
        {.letter = 'd', .bytes = 100, .name = &large},
        {.letter = 'e', .bytes = 100, .name = &small},
    };
    stop(b);
    b->object_max = 5000;
    start(b);
    assert_ok(wal_begin(b->w, e));
    refuse(b, 5000, "v1/");
    push_together(b, v, COUNT(v));
    for (size_t i = 0; i < COUNT(v); i++)
        if (!v[i].ok) fail_msg("%zu: %s", i, v[i].why.msg);
    assert_int_equal(b->refused, 0);
    the_next_one_reads(b, "+b+cd+e");
}

// ---- too large alone

static void what_is_too_large_alone_is_refused_and_nothing_else(void **state)
{
    struct bench *b = *state;
    int64_t pushes = count_of(&ingester_log_refused_pushes);
    refuse(b, 5000, "v1/");
    struct push large = push_one(b, 'a', 6000);
    assert_false(large.ok);
    assert_int_equal(large.why.code, ERR_OUT_OF_RANGE);
    assert_non_null(strstr(large.why.msg, "it is too large"));
    assert_non_null(strstr(large.why.msg, "takes objects of at most"));
    assert_int_equal(wal_state(b->w), WAL_OPEN);
    assert_int_equal(wal_count(b->w).waiting, 0);
    assert_true(push_one(b, 'b', 1000).ok);
    // Again, and now it is known: the store is not asked.
    size_t refused = b->refused;
    large = push_one(b, 'a', 6000);
    assert_int_equal(large.why.code, ERR_OUT_OF_RANGE);
    assert_int_equal(b->refused, refused);
    assert_int_equal(count_of(&ingester_log_refused_pushes), pushes + 2);
    the_next_one_reads(b, "b");
}

static void others_of_its_group_are_stored(void **state)
{
    struct bench *b = *state;
    struct push v[] = {
        {.letter = 'a', .bytes = 100}, {.letter = 'b', .bytes = 6000},
        {.letter = 'c', .bytes = 100}, {.letter = 'd', .bytes = 7000},
        {.letter = 'e', .bytes = 100},
    };
    refuse(b, 5000, "v1/");
    push_together(b, v, COUNT(v));
    for (size_t i = 0; i < COUNT(v); i++) {
        bool large = v[i].bytes > 5000;
        if (v[i].ok == large) fail_msg("%c: %s", v[i].letter, v[i].why.msg);
        if (large) assert_int_equal(v[i].why.code, ERR_OUT_OF_RANGE);
    }
    the_next_one_reads(b, "ace");
}

// ---- names in doubt

static void a_refusal_after_a_time_out_is_settled_by_the_seal(void **state)
{
    struct bench *b = *state;
    assert_true(push_one(b, 'a', 10).ok);
    refuse(b, 5000, "v1/");
    b->times_out = true;
    struct push large = push_one(b, 'b', 6000);  // it is there
    assert_int_equal(large.why.code, ERR_UNAVAILABLE);
    assert_int_equal(wal_state(b->w), WAL_BROKEN);
    assert_ok(wal_recover(b->w, e));
    struct cut *c = NULL;
    assert_int_equal(wal_cuts(b->w, &c, 1), 1);
    assert_true(wal_is_unread(c));
    the_next_one_reads(b, "ab");
}

static void what_was_refused_and_is_there_is_read(void **state)
{
    struct bench *b = *state;
    assert_true(push_one(b, 'a', 10).ok);
    refuse(b, 5000, "v1/");
    b->arrives = true;
    struct push large = push_one(b, 'b', 6000);
    assert_int_equal(large.why.code, ERR_UNAVAILABLE);  // nobody may think that it is not stored
    assert_int_equal(wal_state(b->w), WAL_BROKEN);
    assert_ok(wal_recover(b->w, e));
    struct cut *c = NULL;
    assert_int_equal(wal_cuts(b->w, &c, 1), 1);
    assert_true(wal_is_unread(c));
    assert_ok(wal_begin(b->w, e));
    assert_true(push_one(b, 'c', 10).ok);
    the_next_one_reads(b, "ab c");
}

static void a_refusal_after_a_failure_is_settled_by_the_seal(void **state)
{
    struct bench *b = *state;
    assert_true(push_one(b, 'a', 10).ok);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, 2);  // the seal as well
    struct push large = push_one(b, 'b', 6000);                      // it is not there
    assert_int_equal(large.why.code, ERR_UNAVAILABLE);
    refuse(b, 5000, "v1/");
    assert_ok(wal_recover(b->w, e));
    assert_true(limit(b).limited);
    struct cut *c = NULL;
    assert_int_equal(wal_cuts(b->w, &c, 1), 1);
    assert_false(wal_is_unread(c));
    assert_ok(wal_begin(b->w, e));
    assert_true(push_one(b, 'c', 10).ok);
    the_next_one_reads(b, "a c");
}

static void while_nothing_is_taken_the_log_says_so(void **state)
{
    struct bench *b = *state;
    err why = {0};
    assert_true(push_one(b, 'a', 10).ok);
    refuse(b, 1, "v1/");
    struct push p = push_one(b, 'b', 10);
    assert_int_equal(p.why.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(p.why.msg, "nothing can be stored"));
    assert_int_equal(wal_state(b->w), WAL_BROKEN);
    for (int i = 0; i < 3; i++) {
        assert_false(wal_recover(b->w, &why));
        assert_non_null(strstr(why.msg, "nothing can be stored"));
    }
    p = push_one(b, 'b', 10);
    assert_non_null(strstr(p.why.msg, "nothing can be stored"));
    b->most = 0;
    assert_ok(wal_recover(b->w, e));
    assert_ok(wal_begin(b->w, e));
    assert_true(push_one(b, 'c', 10).ok);
    the_next_one_reads(b, "a c");
}

// ---- failed, and not as refusals for good are: with 500, or 403 and a page

static void fail_larger(struct bench *b, size_t most)
{
    refuse(b, most, "v1/log/");
    b->fault = MEMSTORE_FAILS;
}

// The store takes a seal in its place, so the log goes on.
static void a_push_that_fails_alone_is_put_off_and_nothing_else(void **state)
{
    struct bench *b = *state;
    assert_true(push_one(b, 'a', 10).ok);
    fail_larger(b, 5000);
    struct push large = push_one(b, 'b', 6000);
    assert_int_equal(large.why.code, ERR_ABORTED);
    assert_non_null(strstr(large.why.msg, "the test wants it to fail"));
    assert_int_equal(wal_state(b->w), WAL_OPEN);
    assert_true(push_one(b, 'c', 10).ok);
    b->most = 0;
    assert_true(push_one(b, 'd', 6000).ok);
    the_next_one_reads(b, "a cd");
}

static void others_of_its_group_are_stored_when_it_fails(void **state)
{
    struct bench *b = *state;
    struct push v[PUSHES];
    for (size_t i = 0; i < PUSHES; i++)
        v[i] = (struct push){.letter = (char)('a' + i), .bytes = i == 2 ? 6000 : 100};
    fail_larger(b, 5000);
    push_together(b, v, PUSHES);
    for (size_t i = 0; i < PUSHES; i++) {
        if (v[i].ok == (i == 2)) fail_msg("%c: %s", v[i].letter, v[i].why.msg);
        if (!v[i].ok) assert_int_equal(v[i].why.code, ERR_ABORTED);
    }
    assert_int_equal(wal_state(b->w), WAL_OPEN);
    b->most = 0;
    struct cut *cuts[8];
    size_t n = wal_cuts(b->w, cuts, COUNT(cuts));
    uint64_t entries = 0;
    for (size_t i = 0; i < n; i++)
        entries += cuts[i]->last_seq - cuts[i]->first_seq + 1;
    assert_int_equal(entries, PUSHES - 1);
}

// Each try makes all others wait, so there are few.
static void what_fails_again_and_again_is_put_off_without_the_store(void **state)
{
    struct bench *b = *state;
    fail_larger(b, 5000);
    for (int i = 0; i < 2; i++)
        assert_int_equal(push_one(b, 'b', 6000).why.code, ERR_ABORTED);
    size_t refused = b->refused;
    for (int i = 0; i < 5; i++) {
        struct push large = push_one(b, 'b', 6000);
        assert_int_equal(large.why.code, ERR_ABORTED);
        assert_non_null(strstr(large.why.msg, "is put off"));
        assert_true(push_one(b, 'c', 3000).ok);
    }
    assert_int_equal(b->refused, refused);
    atomic_fetch_add(&log_clock_ns, 61 * NS_PER_S);
    assert_int_equal(push_one(b, 'b', 6000).why.code, ERR_ABORTED);
    assert_int_equal(b->refused, refused + 1);
    atomic_fetch_add(&log_clock_ns, 61 * NS_PER_S);
    b->most = 0;
    for (int i = 0; i < 3; i++)
        assert_true(push_one(b, 'd', 6000).ok);
}

// The store takes nothing for a while. Then it does, but not this object.
static void what_fails_after_an_outage_is_given_up(void **state)
{
    struct bench *b = *state;
    err why = {0};
    assert_true(push_one(b, 'a', 10).ok);
    fail_larger(b, 1);
    assert_int_equal(push_one(b, 'b', 6000).why.code, ERR_UNAVAILABLE);
    for (int i = 0; i < 3; i++)
        assert_false(wal_recover(b->w, &why));
    fail_larger(b, 5000);
    assert_ok(wal_recover(b->w, e));
    assert_ok(wal_begin(b->w, e));
    assert_true(push_one(b, 'c', 10).ok);
    the_next_one_reads(b, "a c");
}

// ---- the limit

static void a_limit_ends_when_it_is_over(void **state)
{
    static const char *const below[] = {"v1/", "v1/log/"};
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(below); i++) {
        refuse(b, 5000, below[i]);
        assert_false(push_one(b, 'a', 6000).ok);
        wal_tick(b->w);
        assert_true(limit(b).limited);
        b->most = 0;
        wal_tick(b->w);
        assert_true(limit(b).limited);
        atomic_fetch_add(&log_clock_ns, 600 * NS_PER_S);
        wal_tick(b->w);
        assert_false(limit(b).limited);
        assert_int_equal(limit(b).most, OBJECT_BYTES);
        assert_true(push_one(b, 'b', 6000).ok);
    }
}

static void a_limit_that_was_found_at_the_start_holds_at_once(void **state)
{
    struct bench *b = *state;
    struct push v[] = {{.letter = 'a', .bytes = 3000}, {.letter = 'b', .bytes = 3000}};
    stop(b);
    b->object_max = 5000;
    start(b);
    assert_ok(wal_begin(b->w, e));
    refuse(b, 5000, "v1/");
    push_together(b, v, 2);
    assert_true(v[0].ok && v[1].ok);
    assert_int_equal(push_one(b, 'c', 6000).why.code, ERR_OUT_OF_RANGE);
    assert_int_equal(b->refused, 0);
    assert_int_equal(limit(b).most, 5000);
}

int main(void)
{
#define UNIT(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        UNIT(what_is_too_large_together_goes_in_smaller_objects),
        UNIT(what_only_the_log_is_refused_is_halved),
        UNIT(names_of_what_was_refused_are_brought_again),
        UNIT(what_its_news_make_too_large_waits_for_the_next_object),
        UNIT(what_is_too_large_alone_is_refused_and_nothing_else),
        UNIT(others_of_its_group_are_stored),
        UNIT(a_refusal_after_a_time_out_is_settled_by_the_seal),
        UNIT(what_was_refused_and_is_there_is_read),
        UNIT(a_refusal_after_a_failure_is_settled_by_the_seal),
        UNIT(while_nothing_is_taken_the_log_says_so),
        UNIT(a_push_that_fails_alone_is_put_off_and_nothing_else),
        UNIT(others_of_its_group_are_stored_when_it_fails),
        UNIT(what_fails_again_and_again_is_put_off_without_the_store),
        UNIT(what_fails_after_an_outage_is_given_up),
        UNIT(a_limit_ends_when_it_is_over),
        UNIT(a_limit_that_was_found_at_the_start_holds_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
