// SPDX-License-Identifier: Apache-2.0
//
// What entries bring besides their rows: the log asks for it in the order of entries, and after a
// refusal or in a new cut nothing has been brought (runs, wal.h).
#include "ingester/log/wal_int.h"
#include "sys/clock.h"
#include "sys/thread.h"
#include "whole.h"

static struct wal_options options(const char *dir)
{
    return (struct wal_options){.dir = dir,
                                .owner = "ingester-0",
                                .buffers = 4 << 20,
                                .cut_bytes = 1 << 20,
                                .cut_age_ns = 600 * NS_PER_S,
                                .keep_ns = 31 * 86400 * NS_PER_S};
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

static bool note_known(void *arg, const struct wal_entry *entry, err *e)
{
    (void)e;
    buf_printf(arg, "%u%c ", (unsigned)entry->seq, entry->known ? '+' : '-');
    return true;
}

// ---- what entries bring

#define BRINGERS 6
#define BRINGS   60

// Who asks notes what was asked: entries say as what number of their run they were asked.
struct asked {
    uint64_t run;
    uint64_t n;  // of the run
    uint64_t runs;
    uint64_t fails;  // in so many questions one is not answered
    uint64_t questions;
    _Atomic unsigned inside;
};
static struct asked asked;

static bool answer(void *arg, uint64_t run, struct buf *out, err *e)
{
    struct asked *a = arg;
    assert_int_equal(atomic_fetch_add(&a->inside, 1), 0);
    assert_true(run != 0);
    if (run != a->run) {
        assert_true(run > a->run);
        a->run = run;
        a->n = 0;
        a->runs++;
    }
    bool ok = !a->fails || ++a->questions % a->fails != 0;
    if (ok) buf_printf(out, "%llu.%llu+", (unsigned long long)run, (unsigned long long)++a->n);
    atomic_fetch_sub(&a->inside, 1);
    return ok || err_set(e, ERR_RESOURCE_EXHAUSTED, "told so");
}

static void *bring_some(void *arg)
{
    for (unsigned i = 0; i < BRINGS; i++) {
        struct wal_item items[3];
        struct wal_place place;
        err fault = {0};
        for (size_t k = 0; k < COUNT(items); k++)
            items[k] = (struct wal_item){S("rows"), 0, answer, &asked};
        if (wal_append(arg, S("t"), items, 1 + i % 3, &place, &fault)) {
            wal_unpin(arg, place.cut);
        } else {
            assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
        }
    }
    return NULL;
}

struct brought {
    uint64_t run;
    uint64_t n;
    uint64_t entries;
    uint64_t runs;
};

static bool see_brought(void *arg, const struct wal_entry *entry, err *e)
{
    struct brought *b = arg;
    (void)e;
    unsigned long long run = 0;
    unsigned long long n = 0;
    assert_int_equal(sscanf(entry->rows.p, "%llu.%llu+rows", &run, &n), 2);
    assert_true(run >= b->run);
    if (run != b->run) b->runs++;
    if (run != b->run) b->n = 0;
    b->run = run;
    assert_int_equal(n, b->n + 1);  // nothing that the run was asked for is missing before it
    b->n = n;
    b->entries++;
    return true;
}

// fails: in so many questions the owner has no answer, which refuses that write.
static void bring_and_read(uint64_t fails)
{
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    pthread_t threads[BRINGERS];
    o.cut_bytes = 8192;
    asked = (struct asked){.fails = fails};
    struct wal *w = reopen(&o, true);
    for (unsigned i = 0; i < BRINGERS; i++)
        assert_ok(thread_start(&threads[i], "bringer", bring_some, w, e));
    for (unsigned i = 0; i < BRINGERS; i++)
        thread_join(threads[i]);
    end(w);
    w = reopen(&o, false);
    struct cut *cuts[64];
    size_t n = wal_cuts(w, cuts, COUNT(cuts));
    struct brought all = {0};
    assert_true(n > 2 && n <= COUNT(cuts));
    for (size_t i = 0; i < n; i++) {
        struct brought b = {.run = all.run};
        cuts[i]->read_seq = 0;
        assert_ok(wal_scan(w, cuts[i], see_brought, &b, e));
        assert_true(b.runs > 0);  // none goes on in the next cut
        all.run = b.run;
        all.runs += b.runs;
        all.entries += b.entries;
    }
    if (!fails) {
        assert_int_equal(all.entries, BRINGERS * BRINGS * 2);
        assert_int_equal(all.runs, asked.runs);
        assert_int_equal(all.runs, n);
    } else {
        assert_true(all.runs > n);
    }
    wal_close(w);
    dir_remove(dir);
}

// ---- when a cut is full

static bool bring_much(void *arg, uint64_t run, struct buf *out, err *e)
{
    char bytes[1000] = {0};
    (void)run;
    (void)e;
    for (int i = 0; i < *(const int *)arg; i++)
        buf_str(out, str_make(bytes, sizeof bytes));
    return true;
}

// Cuts after so many entries, each with 100 bytes of rows and so many KB of what it brings.
static size_t cuts_after(unsigned entries, int news)
{
    char dir[DIR_MAX];
    char rows[100] = {0};
    struct cut *cuts[64];
    dir_new(dir);
    struct wal_options o = options(dir);
    o.cut_bytes = 10000;
    struct wal *w = reopen(&o, true);
    for (unsigned i = 0; i < entries; i++) {
        struct wal_place place;
        struct wal_item item = {str_make(rows, sizeof rows), 1, bring_much, &news};
        assert_ok(wal_append(w, S("t"), &item, 1, &place, e));
        wal_unpin(w, place.cut);
    }
    size_t n = wal_cuts(w, cuts, COUNT(cuts));
    end(w);
    dir_remove(dir);
    return n;
}

static void symbols_fill_a_cut_later_than_rows(void **state)
{
    (void)state;
    assert_int_equal(cuts_after(30, 0), 1);
    assert_int_equal(cuts_after(30, 1), 1);     // 30 KB of symbols
    assert_int_equal(cuts_after(30, 2), 2);     // 60 KB are more than four times 10
    assert_in_range(cuts_after(200, 0), 3, 4);  // rows and what each entry costs besides
}

static void what_entries_bring_is_asked_for_in_their_order(void **state)
{
    (void)state;
    bring_and_read(0);
}

static void after_a_refusal_nothing_has_been_brought(void **state)
{
    (void)state;
    bring_and_read(17);
}

// What an entry brings may not fit where its rows did.
static void a_full_disk_refuses_what_is_brought(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    struct wal_place place;
    err fault = {0};
    o.disk_max = 2 * (ENTRY_OVERHEAD + 1) + 5;
    asked = (struct asked){0};
    struct wal *w = reopen(&o, true);
    struct wal_item bare = {.rows = S("x")};
    struct wal_item full = {S("x"), 0, answer, &asked};
    assert_ok(wal_append(w, S(""), &bare, 1, &place, e));
    wal_unpin(w, place.cut);
    char large[64] = {0};
    full.rows = str_make(large, 3);
    assert_false(wal_append(w, S(""), &full, 1, &place, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(asked.n, 1);
    assert_ok(wal_append(w, S(""), &bare, 1, &place, e));
    assert_int_equal(place.last_seq, 2);
    assert_int_equal(place.cut->last_seq, 2);
    wal_unpin(w, place.cut);
    assert_false(wal_append(w, S(""), &bare, 1, &place, &(err){0}));
    end(w);
    dir_remove(dir);
}

// What the owner was given already comes again only where it may have brought something.
static void entries_that_are_known_come_first_and_say_so(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = options(dir);
    struct wal *w = reopen(&o, true);
    append(w, "a");
    append(w, "b");
    append(w, "c");
    end(w);
    w = wal_open(&o, &(err){0});
    struct cut *cuts[2];
    struct buf text;
    assert_non_null(w);
    assert_int_equal(wal_cuts(w, cuts, 2), 1);
    buf_init(&text, NULL, 1000);
    cuts[0]->read_seq = 2;
    assert_ok(wal_scan(w, cuts[0], note_known, &text, e));
    assert_true(str_is(buf_view(&text), "1+ 2+ 3- "));
    assert_int_equal(cuts[0]->lost_entries, 0);
    buf_release(&text);
    wal_close(w);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_fill_a_cut_later_than_rows),
        cmocka_unit_test(what_entries_bring_is_asked_for_in_their_order),
        cmocka_unit_test(after_a_refusal_nothing_has_been_brought),
        cmocka_unit_test(a_full_disk_refuses_what_is_brought),
        cmocka_unit_test(entries_that_are_known_come_first_and_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
