// SPDX-License-Identifier: Apache-2.0
//
// Requests with random profiles go through the whole pipeline into an send buffer that uses
// lexicons; what an ingester that keeps them reads is compared with what one reads that gets all
// symbols. Answers get lost, ingesters forget, requests overlap.
#include "base/map.h"
#include "intake/lexicon.h"
#include "intake/pipeline.h"
#include "lib/limits.h"
#include "lib/pprof.h"
#include "lib/test.h"
#include "model/vector.h"
#include "sys/clock.h"
#include "unit/model/stacks.h"

#include <pthread.h>
#include <stdio.h>

#define NOW     (INT64_C(1700000000) * NS_PER_S)
#define OWNERS  2
#define READERS 64

static const char *const owner_names[OWNERS] = {"ingester-0", "ingester-1"};

struct dice {
    uint64_t state;
};

static uint32_t roll(struct dice *d, uint32_t n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33) % n;
}

// ---- profiles

// Functions, locations and samples in an order that differs each time; names repeat from profile to
// profile, and a few are new.
static void put_profile(struct buf *b, struct dice *d, uint32_t names, uint32_t samples)
{
    char text[48];
    uint32_t shift = roll(d, names);
    pp_string(b, "");
    pp_string(b, "cpu");
    pp_string(b, "nanoseconds");
    pp_string(b, "main.go");
    pp_type(b, 1, 2);
    for (uint32_t i = 0; i < names; i++) {
        uint32_t n = (i + shift) % names;
        snprintf(text, sizeof text, "service.(*Worker).step%u", n);
        pp_string(b, text);
        size_t m = pb_begin(b, 5);
        pb_put_u64(b, 1, 100 + i);
        pb_put_u64(b, 2, 4 + i);
        pb_put_u64(b, 3, n % 3 ? 4 + i : 0);
        pb_put_u64(b, 4, 3);
        pb_put_u64(b, 5, n % 5);
        pb_end(b, m);
        struct pp_line lines[] = {{100 + i, 7 + n % 4}, {100 + roll(d, i + 1), 9}};
        pp_location(b, 500 + i, 0, n % 2 ? 0x1000 + n : 0, lines, n % 7 == 0 ? 2 : 1);
    }
    pp_string(b, "span_id");
    pp_string(b, "7370616e7370616e");
    const struct pp_label span = {4 + names, 5 + names, 0};
    for (uint32_t i = 0; i < samples; i++) {
        uint64_t ids[12];
        uint32_t depth = 1 + roll(d, COUNT(ids));
        for (uint32_t k = 0; k < depth; k++)
            ids[k] = 500 + roll(d, names);
        pp_labelled(b, ids, depth, 1 + roll(d, 1000), &span, i % 16 == 0);
    }
}

// ---- what an ingester keeps

struct reader {
    id128 id;
    struct symbols s;
};

struct readers {
    struct reader v[READERS];
    size_t n;
};

static void forget(struct readers *r)
{
    for (size_t i = 0; i < r->n; i++)
        symbols_release(&r->v[i].s);
    r->n = 0;
}

static struct reader *find_reader(struct readers *r, const struct batch *b)
{
    for (size_t i = 0; i < r->n; i++) {
        if (id128_eq(r->v[i].id, b->lexicon)) return &r->v[i];
    }
    const struct symbol_counts none = {1, 1, 1, 1, 1};
    if (memcmp(&b->had, &none, sizeof none) != 0) return NULL;
    assert_true(r->n < READERS);
    r->v[r->n].id = b->lexicon;
    assert_ok(symbols_init(&r->v[r->n].s, NULL, e));
    return &r->v[r->n++];
}

// The rows of a lexicon are unique, so adding them in order gives each its own number.
static void add_rows(struct reader *r, const struct batch *b)
{
    const struct symbol_table *t = &b->symbols;
    err e = {0};
    assert_true(b->had.strings <= r->s.t.string_count && b->had.stacks <= r->s.t.stack_count);
    for (uint32_t i = 1; i < t->string_count; i++)
        assert_int_equal(symbols_string(&r->s, t->strings[i], &e), b->had.strings + i - 1);
    for (uint32_t i = 1; i < t->function_count; i++)
        assert_int_equal(symbols_function(&r->s, t->functions[i], &e), b->had.functions + i - 1);
    for (uint32_t i = 1; i < t->mapping_count; i++)
        assert_int_equal(symbols_mapping(&r->s, t->mappings[i], &e), b->had.mappings + i - 1);
    for (uint32_t i = 1; i < t->frame_count; i++)
        assert_int_equal(symbols_frame(&r->s, t->frames[i], &e), b->had.frames + i - 1);
    for (uint32_t i = 1; i < t->stack_count; i++) {
        assert_int_equal(symbols_stack(&r->s, t->stacks[i].parent, t->stacks[i].frame, &e),
                         b->had.stacks + i - 1);
    }
}

static void add_vector(struct merge *m, struct symbols_remap *remap, str vector)
{
    struct vector_reader r;
    struct vector_entry v;
    assert_ok(vector_open(&r, vector, e));
    while (vector_next(&r, &v)) {
        uint32_t row = symbols_remap_stack(remap, v.stack, &(err){0});
        assert_int_not_equal(row, MAP_NONE);
        assert_ok(mem_grow(NULL, &m->sums, &m->room, m->symbols.t.stack_count, sizeof *m->sums, e));
        m->sums[row] += v.value;
    }
    assert_ok(vector_done(&r, e));
}

// Those of spans once more, so that their stacks count too.
static void add_vectors(struct merge *m, const struct batch *b, const struct symbol_table *t)
{
    struct arena a;
    struct symbols_remap remap;
    arena_init(&a, NULL, 1 << 26);
    assert_ok(symbols_remap_init(&remap, &a, t, &m->symbols, e));
    for (uint32_t i = 0; i < b->record_count; i++) {
        add_vector(m, &remap, b->records[i].vector);
        assert_int_equal(b->records[i].span_count, 1);
        add_vector(m, &remap, b->records[i].spans[0].vector);
    }
    arena_release(&a);
}

// True if the batch was taken.
static bool read_batch(struct readers *from, struct send_batch *p, struct merge *m, size_t *bytes)
{
    struct arena a;
    struct batch b;
    struct buf out;
    bool taken = true;
    arena_init(&a, NULL, 1 << 26);
    buf_init(&out, NULL, 1 << 24);
    assert_ok(send_batch_encode(p, &a, &out, e));
    *bytes += out.n;
    assert_ok(batch_decode(&a, buf_view(&out), &b, e));
    if (b.has_lexicon) {
        struct reader *r = find_reader(from, &b);
        taken = r != NULL;
        if (r) add_rows(r, &b);
        if (r) add_vectors(m, &b, &r->s.t);
    } else {
        add_vectors(m, &b, &b.symbols);
    }
    buf_release(&out);
    arena_release(&a);
    return taken;
}

// ---- requests

struct world {
    struct lexicons lexicons;
    struct readers readers[OWNERS];
    struct dice dice;
    uint32_t names;
    uint32_t samples;
};

static struct world *world_new(uint64_t seed, size_t memory)
{
    struct world *w = mem_must(sizeof *w);
    lexicons_init(&w->lexicons, NULL, memory);
    for (size_t i = 0; i < OWNERS; i++)
        lexicons_note_member(&w->lexicons, str_of(owner_names[i]), true);
    w->dice.state = seed;
    w->names = 40;
    w->samples = 60;
    return w;
}

static void world_free(struct world *w)
{
    for (size_t i = 0; i < OWNERS; i++)
        forget(&w->readers[i]);
    lexicons_release(&w->lexicons);
    mem_must_free(w);
}

static uint32_t owner_of(void *arg, str service, uint64_t hash, uint32_t *home)
{
    (void)arg;
    (void)service;
    uint32_t owner = (uint32_t)(hash % OWNERS);
    if (home) *home = owner;
    return owner;
}

static struct lexicon_key key_of(str service, uint32_t owner)
{
    return (struct lexicon_key){S("tenant"), service, str_of(owner_names[owner])};
}

static struct lexicon *lexicon_of(void *arg, str service, uint32_t owner)
{
    struct world *w = arg;
    const struct lexicon_key k = key_of(service, owner);
    return lexicons_take(&w->lexicons, &k);
}

static void is_full(void *arg, str service, uint32_t owner, struct lexicon *l)
{
    struct world *w = arg;
    const struct lexicon_key k = key_of(service, owner);
    lexicons_full(&w->lexicons, &k, l);
}

struct push {
    struct arena a;
    struct pipeline with;
    struct pipeline without;
    uint64_t looked;  // slots of indexes, for the one with
};

static void push_begin(struct world *w, struct push *p, struct dice *d)
{
    p->looked = 0;
    arena_init(&p->a, NULL, (size_t)1 << 28);
    pipeline_init(&p->with, &p->a, &stock_limits, NOW, 1);
    pipeline_init(&p->without, &p->a, &stock_limits, NOW, 1);
    send_buffer_init(&p->with.out, &p->a, owner_of, w);
    p->with.out.lexicon = lexicon_of;
    p->with.out.full = is_full;
    for (uint32_t i = 1 + roll(d, 3); i > 0; i--) {
        struct buf b;
        char pod[8];
        int n = snprintf(pod, sizeof pod, "p%u", roll(d, 6));
        label ls[] = {{S("__name__"), S("process_cpu")},
                      {S("pod"), str_make(pod, (size_t)n)},
                      {S("service_name"), roll(d, 4) ? S("api") : S("web")}};
        buf_init(&b, NULL, 1 << 24);
        put_profile(&b, d, w->names, w->samples);
        struct pipeline_item item = {buf_view(&b), {0}, ls, COUNT(ls)};
        uint64_t before = map_looked;
        pipeline_pprof(&p->with, &item);
        p->looked += map_looked - before;
        pipeline_pprof(&p->without, &item);
        buf_release(&b);
    }
    assert_false(p->with.failed);
    send_buffer_seal(&p->with.out);
    send_buffer_seal(&p->without.out);
}

static str merge_text(struct arena *a, const struct merge *m)
{
    struct tree t;
    assert_ok(tree_build(a, &m->symbols.t, m->sums, NULL, 0, &t, e));
    return text_of_tree(a, &t);
}

static void same_sums(const struct merge *a, const struct merge *b)
{
    struct arena arena;
    arena_init(&arena, NULL, 1 << 26);
    str x = merge_text(&arena, a);
    str y = merge_text(&arena, b);
    if (!str_eq(x, y)) fail_msg("sums are\n%.*s\ninstead of\n%.*s", STR(x), STR(y));
    arena_release(&arena);
}

// Sends as dispatch.c does; returns bytes sent.
static size_t push_end(struct world *w, struct push *p, bool loses)
{
    size_t bytes = 0;
    struct merge with;
    struct merge without;
    assert_ok(merge_init(&with, NULL, true, e));
    assert_ok(merge_init(&without, NULL, true, e));
    for (size_t i = 0; i < p->with.out.batch_count; i++) {
        struct send_batch *x = p->with.out.batches[i];
        struct lexicon *l = x->lexicon;
        if (loses && roll(&w->dice, 20) == 0) forget(&w->readers[x->owner]);
        if (loses && roll(&w->dice, 20) == 0) {  // another ingester gets it
            assert_ok(send_batch_make_whole(x, &p->a, e));
            assert_null(x->lexicon);
        }
        if (!read_batch(&w->readers[x->owner], x, &with, &bytes)) {
            const struct lexicon_key k = key_of(x->batch.service, x->owner);
            lexicons_refused(&w->lexicons, &k, l);
            assert_ok(send_batch_make_whole(x, &p->a, e));
            assert_true(read_batch(&w->readers[x->owner], x, &with, &bytes));
        } else if (x->lexicon && !(loses && roll(&w->dice, 8) == 0)) {
            lexicon_stored(x->lexicon, &x->sent);
        }
    }
    size_t ignored = 0;
    for (size_t i = 0; i < p->without.out.batch_count; i++)
        assert_true(read_batch(NULL, p->without.out.batches[i], &without, &ignored));
    same_sums(&with, &without);
    merge_release(&with);
    merge_release(&without);
    arena_release(&p->a);
    return bytes;
}

// ---- tests

static void batches_say_the_same_with_and_without(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct world *w = world_new(seed, 16 << 20);
        for (unsigned i = 0; i < 60; i++) {
            struct push p[3];  // under way at once, answered in another order
            w->names = 40 + i / 4;
            for (size_t k = 0; k < COUNT(p); k++)
                push_begin(w, &p[k], &w->dice);
            for (size_t k = COUNT(p); k-- > 0;)
                (void)push_end(w, &p[k], true);
        }
        struct lexicon_facts f = lexicons_facts(&w->lexicons);
        assert_true(f.opened > 4 && f.refused > 0 && f.count > 0);
        assert_int_equal(f.evicted, 0);
        world_free(w);
    }
}

static void what_is_known_is_not_sent_again(void **state)
{
    (void)state;
    struct world *w = world_new(7, 16 << 20);
    size_t bytes[2] = {0};
    uint64_t looked[2] = {0};
    uint32_t stacks[2] = {0};
    w->samples = 400;
    for (int again = 0; again < 2; again++) {
        struct push p;
        struct dice same = {42};
        push_begin(w, &p, &same);
        looked[again] = p.looked;
        const struct send_batch *x = p.with.out.batches[0];
        stacks[again] = x->lexicon->symbols.t.stack_count;
        bytes[again] = push_end(w, &p, false);
    }
    assert_true(stacks[0] > 1000);
    assert_int_equal(stacks[1], stacks[0]);
    assert_true(bytes[1] < bytes[0] / 3);
    // Of functions only names are looked for, and of stacks those that do not lie behind their
    // caller.
    assert_true(looked[1] * 3 < looked[0] * 2);
    world_free(w);
}

static void a_member_gets_no_lexicon_before_it_said_so(void **state)
{
    (void)state;
    struct lexicons ls;
    const struct lexicon_key k = key_of(S("api"), 0);
    lexicons_init(&ls, NULL, 1 << 20);
    assert_null(lexicons_take(&ls, &k));
    lexicons_note_member(&ls, k.member, true);
    struct lexicon *l = lexicons_take(&ls, &k);
    assert_non_null(l);
    lexicons_note_member(&ls, k.member, false);
    assert_null(lexicons_take(&ls, &k));
    lexicons_note_member(&ls, k.member, true);
    struct lexicon *again = lexicons_take(&ls, &k);
    assert_ptr_equal(again, l);
    lexicon_unref(l);
    lexicon_unref(again);
    lexicons_release(&ls);
}

// Who always refuses is asked less and less; who took one is asked again at once.
static void refusals_in_a_row_make_it_wait(void **state)
{
    (void)state;
    struct lexicons ls;
    const struct lexicon_key k = key_of(S("api"), 0);
    const struct symbol_counts some = {2, 2, 1, 2, 2};
    unsigned asked = 0;
    lexicons_init(&ls, NULL, 1 << 20);
    lexicons_note_member(&ls, k.member, true);
    for (unsigned i = 0; i < 5000; i++) {
        struct lexicon *l = lexicons_take(&ls, &k);
        if (!l) continue;
        asked++;
        lexicons_refused(&ls, &k, l);
        lexicons_refused(&ls, &k, l);  // two pushes of it, one end
        lexicon_unref(l);
    }
    assert_int_equal(asked, 14);  // after 1, 2, 4 ... 1024, 1024
    assert_int_equal(lexicons_facts(&ls).refused, asked);
    struct lexicon *l = NULL;
    while (!l)
        l = lexicons_take(&ls, &k);
    lexicon_stored(l, &some);
    lexicons_refused(&ls, &k, l);
    lexicon_unref(l);
    l = lexicons_take(&ls, &k);
    assert_non_null(l);
    assert_int_equal(l->told.stacks, 1);
    lexicon_unref(l);
    lexicons_release(&ls);
}

static void those_longest_unused_go_first(void **state)
{
    (void)state;
    struct lexicons ls;
    char name[16];
    unsigned taken = 0;
    lexicons_init(&ls, NULL, 256 << 10);
    lexicons_note_member(&ls, S("m"), true);
    for (unsigned i = 0; i < 2000; i++) {
        int n = snprintf(name, sizeof name, "s%u", i);
        const struct lexicon_key k = {S("t"), str_make(name, (size_t)n), S("m")};
        const struct lexicon_key first = {S("t"), S("first"), S("m")};
        struct lexicon *kept = lexicons_take(&ls, &first);
        assert_non_null(kept);
        struct lexicon *l = lexicons_take(&ls, &k);
        taken += l != NULL;
        if (l) lexicon_unref(l);
        assert_true(ls.memory.used <= 256 << 10);
        if (i == 0) lexicon_stored(kept, &(struct symbol_counts){2, 2, 2, 2, 2});
        assert_int_equal(kept->told.strings, 2);  // used all the time: the same one
        lexicon_unref(kept);
    }
    struct lexicon_facts f = lexicons_facts(&ls);
    assert_true(f.evicted > 50 && f.count > 10 && f.count + f.evicted == taken + 1);
    lexicons_limit(&ls, 0);
    assert_int_equal(lexicons_facts(&ls).count, 0);
    lexicons_release(&ls);
}

// Services that push in turns, twice as many as fit: half of them are found each time.
static void in_turns_some_are_found_each_time(void **state)
{
    (void)state;
    struct lexicons ls;
    char name[16];
    unsigned opened = 0;
    lexicons_init(&ls, NULL, 256 << 10);
    lexicons_note_member(&ls, S("m"), true);
    for (unsigned i = 0; i < 40; i++) {
        unsigned found = 0;
        uint64_t before = lexicons_facts(&ls).opened;
        for (unsigned k = 0; k < 160; k++) {
            int n = snprintf(name, sizeof name, "s%u", k);
            const struct lexicon_key key = {S("t"), str_make(name, (size_t)n), S("m")};
            struct lexicon *l = lexicons_take(&ls, &key);
            found += l != NULL;
            if (l) lexicon_unref(l);
        }
        opened = (unsigned)(lexicons_facts(&ls).opened - before);
        if (i > 0) assert_true(found > lexicons_facts(&ls).count / 2);
    }
    assert_true(opened < 160 / 4);
    lexicons_release(&ls);
}

// Names that never come again fill a lexicon up to its share; then pushes bring their symbols along
// for longer and longer.
static void a_flood_of_names_stays_within_the_limit(void **state)
{
    (void)state;
    struct world *w = world_new(9, 512 << 10);
    w->samples = 100;
    for (unsigned i = 0; i < 60; i++) {
        struct push p;
        w->names = 300 + 40 * i;
        push_begin(w, &p, &w->dice);
        assert_true(w->lexicons.memory.used <= 512 << 10);
        (void)push_end(w, &p, false);
    }
    struct lexicon_facts f = lexicons_facts(&w->lexicons);
    assert_true(f.full > 0 && f.full < 40);
    world_free(w);
}

// ---- several threads

struct pusher {
    struct world *w;
    pthread_t thread;
    struct lock *lock;  // of the readers
    struct dice dice;
};

static void *push_some(void *arg)
{
    struct pusher *x = arg;
    for (unsigned i = 0; i < 25; i++) {
        struct push p;
        push_begin(x->w, &p, &x->dice);
        lock_take(x->lock);
        (void)push_end(x->w, &p, true);
        lock_give(x->lock);
    }
    return NULL;
}

static void requests_use_one_lexicon_at_once(void **state)
{
    (void)state;
    struct world *w = world_new(11, 16 << 20);
    struct lock lock;
    struct pusher pushers[4];
    lock_init(&lock, LOCK_OVERRIDES);
    for (unsigned i = 0; i < COUNT(pushers); i++) {
        pushers[i] = (struct pusher){.w = w, .lock = &lock, .dice = {i + 1}};
        assert_int_equal(pthread_create(&pushers[i].thread, NULL, push_some, &pushers[i]), 0);
    }
    for (unsigned i = 0; i < COUNT(pushers); i++)
        pthread_join(pushers[i].thread, NULL);
    lock_release(&lock);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_say_the_same_with_and_without),
        cmocka_unit_test(what_is_known_is_not_sent_again),
        cmocka_unit_test(a_member_gets_no_lexicon_before_it_said_so),
        cmocka_unit_test(refusals_in_a_row_make_it_wait),
        cmocka_unit_test(those_longest_unused_go_first),
        cmocka_unit_test(in_turns_some_are_found_each_time),
        cmocka_unit_test(a_flood_of_names_stays_within_the_limit),
        cmocka_unit_test(requests_use_one_lexicon_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
