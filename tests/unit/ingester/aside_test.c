// SPDX-License-Identifier: Apache-2.0
//
// A stream whose loss was accepted comes back: its log is set aside, and taken back or removed.
#include "base/fault.h"
#include "flush_world.h"
#include "ingester/aside.h"
#include "manifest/forgotten.h"

#include <dirent.h>
#include <errno.h>

#define MANY 20

static id128 open_stream(struct world *x)
{
    struct wal_place place;
    assert_ok(wal_position(x->w.in->wal, &place, e));
    return place.stream;
}

static void fill(struct world *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        push(x, 1 + roll(&x->dice, 8), HOUR);
}

// The process ends before anything of its log is in the store, and its stream is given up.
static void give_up(struct world *x, id128 stream)
{
    struct req r;
    const struct registered_stream s = {.stream = stream,
                                        .node = S("ingester-0"),
                                        .log = STREAM_LOG_LOCAL,
                                        .made_ns = 1};
    memstore_fail(x->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    whole_stop(&x->w);
    memstore_heal(x->store);
    req_init(&r, RANK_PUBLIC, NULL, SIZE_MAX, 0);
    assert_ok(stream_forget(x->store, &r, &s, 2, e));
    req_release(&r);
}

static bool recover(struct world *x, id128 stream, struct aside_recovered *out, err *e)
{
    struct req r;
    req_init(&r, RANK_PUBLIC, &x->w.memory, SIZE_MAX, 60 * (uint64_t)NS_PER_S);
    bool ok = aside_recover(x->w.in, &r, stream, out, e);
    req_release(&r);
    return ok;
}

static size_t set_aside(struct world *x)
{
    struct arena a;
    id128 *v = NULL;
    size_t n = 0;
    arena_init(&a, NULL, SIZE_MAX);
    assert_ok(aside_list(x->w.in, &a, &v, &n, e));
    arena_release(&a);
    return n;
}

static void is_nowhere(struct world *x)
{
    struct flush_totals done = {0};
    assert_int_equal(rows_held(x), 0);
    assert_ok(flush(x, &done, e));
    assert_int_equal(segments(x), 0);
}

static void is_over(struct world *x)
{
    assert_int_equal(set_aside(x), 0);
    assert_int_equal(memstore_count(x->store, "v1/forgotten/"), 0);
    assert_int_equal(memstore_count(x->store, "v1/deleted/"), 0);
}

static void a_forgotten_stream_is_not_read_until_it_is_recovered(void **state)
{
    struct world x;
    struct aside_recovered got;
    (void)state;
    world_needs_log_on_disk();
    world_start(&x, 5, "");
    id128 stream = open_stream(&x);
    fill(&x, MANY);
    give_up(&x, stream);
    for (int i = 0; i < 3; i++) {
        start(&x);
        is_nowhere(&x);
        assert_int_equal(set_aside(&x), 1);
        whole_stop(&x.w);
    }
    start(&x);
    assert_ok(recover(&x, stream, &got, e));
    assert_int_equal(got.rows, x.rows);
    assert_int_equal(got.segments, segments(&x));
    assert_int_equal(got.deleted + got.lost, 0);
    check(&x);
    is_over(&x);
    err again = {0};
    assert_false(recover(&x, stream, &got, &again));
    assert_int_equal(again.code, ERR_NOT_FOUND);
    restart(&x);
    check(&x);
    world_end(&x);
}

static void of_two_streams_the_other_one_is_read(void **state)
{
    struct world x;
    struct aside_recovered got;
    (void)state;
    world_needs_log_on_disk();
    world_start(&x, 6, "");
    id128 stream = open_stream(&x);
    fill(&x, MANY);
    uint64_t first = x.rows;
    memstore_fail(x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    restart(&x);
    fill(&x, MANY);
    assert_int_equal(rows_held(&x), x.rows);
    give_up(&x, stream);
    start(&x);
    assert_int_equal(rows_held(&x), x.rows - first);
    assert_int_equal(set_aside(&x), 1);
    assert_ok(recover(&x, stream, &got, e));
    assert_int_equal(got.rows, first);
    check(&x);
    is_over(&x);
    world_end(&x);
}

static void a_recovery_that_fails_is_repeated(void **state)
{
    (void)state;
    world_needs_log_on_disk();
    for (uint64_t nth = 1; nth < 4; nth++) {
        struct world x;
        struct aside_recovered got;
        err fault = {0};
        world_start(&x, 7 + nth, "");
        id128 stream = open_stream(&x);
        fill(&x, MANY);
        give_up(&x, stream);
        start(&x);
        memstore_fail(x.store, MEMSTORE_CREATE, nth % 2 ? MEMSTORE_LANDS : MEMSTORE_FAILS, nth,
                      UINT64_MAX);
        assert_false(recover(&x, stream, &got, &fault));
        assert_int_equal(fault.code, ERR_UNAVAILABLE);
        assert_int_equal(set_aside(&x), 1);
        memstore_heal(x.store);
        if (nth == 2) restart(&x);
        assert_ok(recover(&x, stream, &got, e));
        check(&x);
        is_over(&x);
        world_end(&x);
    }
}

// ---- wherever it fails

static const char *fails_at;
static unsigned fails_nth;

// The nth file that would be removed is not, and none after it: as if the process ended there.
static bool fail_removing(const char *name)
{
    if (strcmp(name, fails_at) != 0 || fails_nth == 0) return false;
    if (fails_nth > 1) {
        fails_nth--;
        return false;
    }
    errno = EIO;
    return true;
}

static bool remove_log(struct world *x, id128 stream, err *e)
{
    struct req r;
    req_init(&r, RANK_PUBLIC, &x->w.memory, SIZE_MAX, 60 * (uint64_t)NS_PER_S);
    bool ok = aside_remove(x->w.in, &r, stream, e);
    req_release(&r);
    return ok;
}

static void has_no_waste(struct world *x)
{
    char path[DIR_MAX + 40];
    snprintf(path, sizeof path, "%s/ingester/forgotten", x->dir);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *f = readdir(d); f; f = readdir(d))
        assert_true(f->d_name[0] == '.');
    closedir(d);
}

// A log that loses its files one by one, and a process that ends after any of them. All was in the
// store before, and nobody takes what is left for a log.
static void a_recovered_log_goes_wherever_its_removal_ends(void **state)
{
    (void)state;
    world_needs_log_on_disk();
    bool all = false;
    for (unsigned nth = 1; !all; nth++) {
        struct world x;
        struct aside_recovered got;
        err fault = {0};
        world_start(&x, 60 + nth, "");
        id128 stream = open_stream(&x);
        fill(&x, 3);
        give_up(&x, stream);
        start(&x);
        fails_at = "wal.aside.removing";
        fails_nth = nth;
        fault_on(fail_removing);
        all = recover(&x, stream, &got, &fault);
        fault_on(NULL);
        if (!all) {
            assert_int_equal(fault.code, ERR_UNAVAILABLE);
            assert_int_equal(set_aside(&x), 0);
            assert_int_equal(memstore_count(x.store, "v1/forgotten/"), 1);
            check(&x);
            // A start goes on with it, as the same call does.
            if (nth % 2)
                restart(&x);
            else
                assert_ok(recover(&x, stream, &got, e));
        }
        has_no_waste(&x);
        check(&x);
        is_over(&x);
        assert_true(nth < 100);
        assert_true(nth > 3 || !all);
        world_end(&x);
    }
}

// Who said that a log is lost for good does not get a part of it back.
static void a_log_whose_removal_began_is_not_recovered(void **state)
{
    (void)state;
    world_needs_log_on_disk();
    for (unsigned nth = 1; nth < 6; nth += 2) {
        struct world x;
        struct aside_recovered got;
        err fault = {0};
        world_start(&x, 90 + nth, "");
        id128 stream = open_stream(&x);
        fill(&x, 3);
        give_up(&x, stream);
        start(&x);
        fails_at = "wal.aside.removing";
        fails_nth = nth;
        fault_on(fail_removing);
        assert_false(remove_log(&x, stream, &fault));
        fault_on(NULL);
        if (nth == 3)
            restart(&x);
        else
            assert_ok(recover(&x, stream, &got, e));
        if (nth != 3) assert_int_equal(got.rows + got.lost, 0);
        is_over(&x);
        is_nowhere(&x);
        has_no_waste(&x);
        world_end(&x);
    }
}

// Takes the rows whose lines have the text out of what is wanted.
static size_t want_not(struct lines *l, const char *text)
{
    size_t kept = 0;
    size_t gone = 0;
    for (size_t i = 0; i < l->n; i++) {
        bool is = str_contains(l->v[i], str_of(text));
        gone += is;
        if (!is) l->v[kept++] = l->v[i];
    }
    l->n = kept;
    return gone;
}

static void note_end(struct world *x, struct req *r, str tenant, uint8_t id, const char *match)
{
    struct manifest_tombstone t = {.id = {{id}}, .hide = {.from_ns = -1, .to_ns = INT64_MAX - 1}};
    if (match) assert_ok(selector_parse(&r->arena, str_of(match), &t.hide.selector, e));
    assert_ok(deletion_note_end(x->store, r, tenant, t.id, match ? &t : NULL, 3, e));
}

// Sample types of a profile share stacks; of some of them one type is deleted and others stay.
static void what_was_deleted_since_does_not_come_back(void **state)
{
    struct world x;
    struct aside_recovered got;
    struct req r;
    (void)state;
    world_needs_log_on_disk();
    world_start(&x, 30, "");
    id128 stream = open_stream(&x);
    req_init(&r, RANK_PUBLIC, NULL, SIZE_MAX, 0);
    // Of before: it is not noted, as no stream was forgotten then.
    note_end(&x, &r, str_of(fact_tenants[1]), 8, "{}");
    assert_int_equal(memstore_count(x.store, "v1/deleted/"), 0);
    fill(&x, 2 * MANY);
    give_up(&x, stream);
    note_end(&x, &r, str_of(fact_tenants[0]), 9, NULL);
    char match[200];
    snprintf(match, sizeof match, "{__profile_type__=\"%s\"}", fact_types[0]);
    note_end(&x, &r, str_of(fact_tenants[1]), 10, match);
    note_end(&x, &r, str_of(fact_tenants[1]), 10, match);
    assert_int_equal(memstore_count(x.store, "v1/deleted/"), 2);
    size_t gone = x.want[0].n;
    x.want[0].n = 0;
    size_t types = want_not(&x.want[1], fact_types[0]);
    assert_true(gone > 0 && types > 0 && x.want[1].n > 0);
    start(&x);
    assert_ok(recover(&x, stream, &got, e));
    assert_int_equal(got.deleted, gone + types);
    assert_int_equal(got.rows, x.rows - gone - types);
    check(&x);
    is_over(&x);
    req_release(&r);
    world_end(&x);
}

static void a_log_that_is_removed_is_gone(void **state)
{
    struct world x;
    struct req r;
    (void)state;
    world_needs_log_on_disk();
    world_start(&x, 40, "");
    id128 stream = open_stream(&x);
    fill(&x, MANY);
    give_up(&x, stream);
    start(&x);
    req_init(&r, RANK_PUBLIC, NULL, SIZE_MAX, 0);
    assert_ok(aside_remove(x.w.in, &r, stream, e));
    req_release(&r);
    is_over(&x);
    restart(&x);
    is_nowhere(&x);
    world_end(&x);
}

// Nobody knows whether the stream was forgotten: its rows are not shown before that is known.
static void nothing_is_read_before_the_store_answers(void **state)
{
    struct world x;
    err why = {0};
    (void)state;
    world_needs_log_on_disk();
    world_start(&x, 50, "");
    id128 stream = open_stream(&x);
    fill(&x, MANY);
    give_up(&x, stream);
    memstore_fail(x.store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, UINT64_MAX);
    whole_start_with(&x.w, x.dir, x.flags, x.store);
    AWAIT(memstore_totals(x.store).failed[MEMSTORE_LIST] >= 2);
    assert_false(ingester_answers(x.w.in, &why));
    assert_int_equal(rows_held(&x), 0);
    memstore_heal(x.store);
    whole_await(&x.w);
    is_nowhere(&x);
    assert_int_equal(set_aside(&x), 1);
    world_end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forgotten_stream_is_not_read_until_it_is_recovered),
        cmocka_unit_test(of_two_streams_the_other_one_is_read),
        cmocka_unit_test(a_recovery_that_fails_is_repeated),
        cmocka_unit_test(a_recovered_log_goes_wherever_its_removal_ends),
        cmocka_unit_test(a_log_whose_removal_began_is_not_recovered),
        cmocka_unit_test(what_was_deleted_since_does_not_come_back),
        cmocka_unit_test(a_log_that_is_removed_is_gone),
        cmocka_unit_test(nothing_is_read_before_the_store_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
