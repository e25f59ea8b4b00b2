// SPDX-License-Identifier: Apache-2.0
//
// Recordings of the Java Flight Recorder: both encodings, chunks, chains of checkpoints, the
// agent's labels, faults, and input that was made to take much memory or to go in circles.
#include "codec/pb.h"
#include "decode/jfr.h"
#include "lib/jfr.h"
#include "lib/test.h"
#include "unit/decode/recording.h"

#define WORK "App.main:3;App.work:7"
#define MAIN "App.main:3"

// One tick is a nanosecond, so that values are numbers of samples.
static const struct decode_options options = {.sample_rate = 1000000000};

// What the recording gives, or, without `want`, the fault that it is refused with.
static void expect_with(str bytes, str labels, const char *want, const char *fault)
{
    struct arena a;
    struct buf got;
    struct jfr_recording r = {0};
    err e = {0};
    arena_init(&a, NULL, 1 << 20);
    buf_init(&got, NULL, 1 << 16);
    str guarded = str_make(tail_guard(bytes.p, bytes.n), bytes.n);
    bool ok = decode_jfr(&a, guarded, labels, &options, &r, NULL, &e);
    if (ok != (want != NULL)) fail_msg("%s, wanted %s", e.msg, want ? want : fault);
    if (ok) recording_print(&r, &got);
    if (ok && !str_is(buf_view(&got), want)) fail_msg("got %.*s", STR(buf_view(&got)));
    if (!ok) assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    if (!ok && !strstr(e.msg, fault)) fail_msg("expected \"%s\", got \"%s\"", fault, e.msg);
    buf_release(&got);
    arena_release(&a);
}

static void expect(const struct jw *w, const char *want, const char *fault)
{
    expect_with(buf_view(&w->out), (str){0}, want, fault);
}

static const struct jw_hit hits[] = {{.stack = 1, .state = 1},
                                     {.stack = 2, .state = 1},
                                     {.stack = 1, .state = 1}};

#define CHUNK_SAMPLES WORK " = 2\n" MAIN " = 1\n"

// ---- what is read

static void check_encoding(struct jw *w)
{
    jw_chunk(w, hits, COUNT(hits));
    expect(w, "process_cpu cpu\n" CHUNK_SAMPLES, NULL);
}

static void both_encodings_say_the_same(void **state)
{
    (void)state;
    recording_in_both(check_encoding);
}

static void check_chunks(struct jw *w)
{
    jw_chunk(w, hits, COUNT(hits));
    jw_chunk(w, NULL, 0);
    w->compressed = !w->compressed;  // each chunk says it for itself
    jw_chunk(w, hits, COUNT(hits));
    expect(w, "process_cpu cpu\n" CHUNK_SAMPLES CHUNK_SAMPLES, NULL);
}

static void chunks_follow_each_other(void **state)
{
    (void)state;
    recording_in_both(check_chunks);
}

static void put_symbol(struct jw *w, uint64_t id, const char *z)
{
    jw_pool(w, JW_SYMBOL, 1);
    jw_long(w, id);
    jw_text(w, z);
}

// Three checkpoints, read from the last to the first; of two symbols of one number the later holds.
static void check_chain(struct jw *w)
{
    jw_begin(w);
    size_t first = jw_checkpoint(w, 1);
    put_symbol(w, 201, "older");
    jw_close(w);
    jw_sample(w, &hits[0]);
    size_t second = jw_app(w);
    size_t third = jw_checkpoint(w, 1);
    put_symbol(w, 202, "newer");
    jw_close(w);
    jw_link(w, third, second);
    jw_link(w, second, first);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
    expect(w, "process_cpu cpu\nApp.newer:3;App.work:7 = 1\n", NULL);
}

static void checkpoints_are_a_chain(void **state)
{
    (void)state;
    recording_in_both(check_chain);
}

// The events lie before the pools and the metadata, and in jw_app each entry names later ones; here
// what they name is also in a checkpoint that is read later.
static void check_forward(struct jw *w)
{
    static const char *const names[] = {"App", "work", "main"};
    jw_begin(w);
    jw_sample(w, &hits[0]);
    size_t symbols = jw_checkpoint(w, 1);
    jw_pool(w, JW_SYMBOL, COUNT(names));
    for (uint64_t i = 0; i < COUNT(names); i++) {
        jw_long(w, 200 + i);
        jw_text(w, names[i]);
    }
    jw_close(w);
    size_t states = jw_checkpoint(w, 1);
    jw_pool(w, JW_STATE, 1);
    jw_long(w, 1);
    jw_text_pool(w, 9);
    jw_close(w);
    size_t rest = jw_checkpoint(w, 4);
    jw_pool(w, JW_STACK, 1);
    jw_long(w, 1);
    jw_byte(w, 0);
    jw_int(w, 1);
    jw_long(w, 500);
    jw_int(w, 7);
    jw_pool(w, JW_METHOD, 1);
    jw_long(w, 500);
    jw_long(w, 300);
    jw_long(w, 201);
    jw_pool(w, JW_CLASS, 1);
    jw_long(w, 300);
    jw_long(w, 200);
    jw_pool(w, JW_STRING, 1);
    jw_long(w, 9);
    jw_text(w, "STATE_RUNNABLE");
    jw_close(w);
    jw_link(w, rest, states);
    jw_link(w, states, symbols);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
    expect(w, "process_cpu cpu\nApp.work:7 = 1\n", NULL);
}

static void references_go_forward(void **state)
{
    (void)state;
    recording_in_both(check_forward);
}

static void put_thing(struct jw *w)
{
    static const char zeros[12];
    jw_text(w, "thing");
    buf_put(&w->out, zeros, sizeof zeros);  // a float and a double have fixed sizes
    jw_int(w, 2);
    jw_short(w, 1);
    jw_short(w, 300);
    jw_byte(w, 1);
}

// An event without a class, one of a class that nobody knows, a pool of such a class, events of a
// known class whose stack or state is not there, one with a value.
static void check_unknown(struct jw *w)
{
    jw_begin(w);
    jw_event(w, 99);
    jw_byte(w, 0xff);
    jw_close(w);
    jw_event(w, JW_OTHER);
    put_thing(w);
    jw_close(w);
    jw_sample(w, &hits[0]);
    jw_sample(w, &(struct jw_hit){.stack = 77, .state = 1});
    jw_sample(w, &(struct jw_hit){.stack = 1, .state = 77});
    jw_event(w, JW_ENTER);
    jw_long(w, 1000);
    jw_long(w, 40);
    jw_long(w, 2);
    jw_close(w);
    size_t known = jw_app(w);
    size_t unknown = jw_checkpoint(w, 2);
    jw_pool(w, JW_THING, 2);
    for (uint64_t i = 0; i < 2; i++) {
        jw_long(w, i);
        put_thing(w);
    }
    put_symbol(w, 202, "behind");
    jw_close(w);
    jw_link(w, unknown, known);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
    expect(w,
           "process_cpu cpu\nApp.behind:3;App.work:7 = 2\n[unknown]:0 = 1\n"
           "mutex contentions\nApp.behind:3 = 1 40\n",
           NULL);
}

static void what_nobody_knows_is_skipped_unless_it_has_a_value(void **state)
{
    (void)state;
    recording_in_both(check_unknown);
}

// ---- what is not in the pools

// Two samples of App.work, one of a stack 0, two of a stack that no pool has.
static void check_no_stack(struct jw *w)
{
    static const struct jw_hit some[] = {{.stack = 1, .state = 1},
                                         {.stack = 0, .state = 1},
                                         {.stack = 1, .state = 1},
                                         {.stack = 99, .state = 1},
                                         {.stack = 98, .state = 1, .context = 5}};
    jw_chunk(w, some, COUNT(some));
    recording_expect(w, &options,
                     "process_cpu cpu\n" WORK " = 2\n[unknown]:0 = 2\n[unknown]:0 = 1\n",
                     LOSS_UNKNOWN_STACK, 3);
}

static void samples_without_a_stack_are_unknown(void **state)
{
    (void)state;
    recording_in_both(check_no_stack);
}

// A stack of a method that is not there, one whose class is not there, one without a name, and one
// whose class has no name.
static void check_no_frames(struct jw *w)
{
    static const uint64_t methods[][2] = {{301, 201}, {300, 299}, {302, 201}};
    jw_begin(w);
    jw_sample(w, &(struct jw_hit){.stack = 5, .state = 1});
    jw_sample(w, &(struct jw_hit){.stack = 5, .state = 1});
    jw_sample(w, &(struct jw_hit){.stack = 1, .state = 1});
    size_t known = jw_app(w);
    size_t odd = jw_checkpoint(w, 3);
    jw_pool(w, JW_STACK, 1);
    jw_long(w, 5);
    jw_byte(w, 0);
    jw_int(w, 4);
    for (uint64_t i = 0; i < 4; i++) {
        jw_long(w, 600 + i);
        jw_int(w, 1);
    }
    jw_pool(w, JW_METHOD, COUNT(methods));
    for (uint64_t i = 0; i < COUNT(methods); i++) {
        jw_long(w, 601 + i);
        jw_long(w, methods[i][0]);
        jw_long(w, methods[i][1]);
    }
    jw_pool(w, JW_CLASS, 1);
    jw_long(w, 302);
    jw_long(w, 298);
    jw_close(w);
    jw_link(w, odd, known);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
    recording_expect(
        w, &options,
        "process_cpu cpu\n[unknown].work:1;App.[unknown]:1;[unknown]:1;[unknown]:0 = 2\n" WORK
        " = 1\n",
        LOSS_UNKNOWN_FRAME, 2);
}

static void frames_that_are_not_in_the_pools_are_unknown(void **state)
{
    (void)state;
    recording_in_both(check_no_frames);
}

// ---- the agent's labels

static void put_string(struct buf *b, uint64_t id, const char *z)
{
    size_t m = pb_begin(b, 2);
    pb_put_u64(b, 1, id);
    pb_put_bytes(b, 2, str_of(z));
    pb_end(b, m);
}

static void put_context(struct buf *b, uint64_t id, const uint64_t (*pairs)[2], size_t n)
{
    size_t m = pb_begin(b, 1);
    pb_put_u64(b, 1, id);
    size_t context = pb_begin(b, 2);
    for (size_t i = 0; i < n; i++) {
        size_t pair = pb_begin(b, 1);
        pb_put_u64(b, 1, pairs[i][0]);
        pb_put_u64(b, 2, pairs[i][1]);
        pb_end(b, pair);
    }
    pb_end(b, context);
    pb_end(b, m);
}

static void put_snapshot(struct buf *b)
{
    static const uint64_t pairs[][2] = {{1, 2}, {3, 4}, {3, 77}};  // no string has the number 77
    put_context(b, 5, pairs, COUNT(pairs));
    put_string(b, 1, "user");
    put_string(b, 2, "ann");
    put_string(b, 3, "region");
    put_string(b, 4, "north");
    put_string(b, 6, "GET /");
}

static const struct jw_hit labelled[] = {
    {.stack = 1, .state = 1, .context = 5},
    {.stack = 1, .state = 1, .context = 5, .span = 0xabc, .span_name = 6},
    {.stack = 1, .state = 1},
    {.stack = 1, .state = 1, .context = 99, .span_name = 99},  // neither is in the snapshot
    {.stack = 1, .state = 1, .context = 5},
};

static void check_labels(struct jw *w)
{
    struct buf labels;
    buf_init(&labels, NULL, 1 << 10);
    put_snapshot(&labels);
    jw_chunk(w, labelled, COUNT(labelled));
    expect_with(
        buf_view(&w->out), buf_view(&labels),
        "process_cpu cpu\n" WORK " {user=ann} {region=north} = 2\n" WORK
        " {user=ann} {region=north} {profile_id=0000000000000abc} {span_name=GET /} = 1\n" WORK
        " = 1\n" WORK " = 1\n",
        NULL);
    for (size_t n = 1; n < labels.n; n++) {  // what is cut between two entries is a snapshot too
        struct arena a;
        struct jfr_recording r = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        str cut = str_make(tail_guard(labels.p, n), n);
        if (!decode_jfr(&a, buf_view(&w->out), cut, &options, &r, NULL, &e))
            assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        arena_release(&a);
    }
    buf_clear(&labels);
    put_string(&labels, 1, "\xff");
    struct arena a;
    struct jfr_recording r = {0};
    arena_init(&a, NULL, 1 << 20);
    assert_ok(decode_jfr(&a, buf_view(&w->out), buf_view(&labels), &options, &r, NULL, e));
    assert_int_equal(r.profiles.profiles[0].losses.count[LOSS_BAD_TEXT], 1);
    arena_release(&a);
    buf_release(&labels);
}

static void samples_have_the_labels_of_their_context(void **state)
{
    (void)state;
    recording_in_both(check_labels);
}

// ---- circles

static void check_circle(struct jw *w)
{
    jw_begin(w);
    size_t first = jw_app(w);
    size_t second = jw_checkpoint(w, 0);
    jw_close(w);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
    jw_link(w, second, first);
    expect(w, "", NULL);
    jw_link(w, first, second);
    expect(w, NULL, "or a circle at byte ");
    jw_link(w, first, 67);  // within the header
    expect(w, NULL, "a checkpoint whose predecessor lies outside of its chunk");
    jw_link(w, first, w->out.n);
    expect(w, NULL, "a checkpoint whose predecessor lies outside of its chunk");
}

static void a_circle_of_checkpoints_ends(void **state)
{
    (void)state;
    recording_in_both(check_circle);
}

// Strings of the pool that name each other, in place of a state and of two symbols.
static void check_references(struct jw *w)
{
    jw_begin(w);
    jw_sample(w, &hits[0]);
    size_t known = jw_app(w);
    size_t circle = jw_checkpoint(w, 2);
    jw_pool(w, JW_STRING, 2);
    jw_long(w, 1);
    jw_text_pool(w, 2);
    jw_long(w, 2);
    jw_text_pool(w, 1);
    jw_pool(w, JW_SYMBOL, 2);
    jw_long(w, 200);
    jw_text_pool(w, 1);
    jw_long(w, 201);
    jw_text_pool(w, 2);
    jw_close(w);
    jw_link(w, circle, known);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
    expect(w, "process_cpu cpu\n.main:3;.:7 = 1\n", NULL);
}

static void a_circle_of_references_ends(void **state)
{
    (void)state;
    recording_in_both(check_references);
}

static void check_classes(struct jw *w)
{
    struct jw_class classes[JW_CLASSES];
    memcpy(classes, jw_classes, sizeof classes);
    for (size_t i = 0; i < JW_CLASSES; i++) {  // two classes that contain each other
        if (classes[i].id == JW_SETTING) classes[i].fields[0].class_id = JW_OTHER;
        if (classes[i].id == JW_OTHER) classes[i].fields[0].class_id = JW_SETTING;
    }
    jw_begin(w);
    jw_app(w);
    jw_event(w, JW_SETTING);
    jw_close(w);
    jw_metadata(w, classes, JW_CLASSES);
    jw_end(w);
    expect(w, NULL,
           "the class \"jdk.ActiveSetting\" has classes nested deeper than 16, or contains");
}

static void a_class_that_contains_itself_is_refused(void **state)
{
    (void)state;
    recording_in_both(check_classes);
}

// ---- faults

static void check_cuts(struct jw *w)
{
    jw_chunk(w, hits, COUNT(hits));
    str whole = buf_view(&w->out);
    expect_with((str){0}, (str){0}, NULL, "no bytes");
    for (size_t n = 1; n < whole.n; n++) {
        expect_with(str_slice(whole, 0, n), (str){0}, NULL, "malformed JFR: the chunk at byte 0");
    }
    // The header is made to fit, so that the cut is met by what reads the metadata.
    for (size_t n = 68; n < whole.n; n++) {
        jw_header(w, 0, JW_HEADER_SIZE, n);
        expect_with(str_slice(whole, 0, n), (str){0}, NULL, "malformed JFR: ");
    }
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    recording_in_both(check_cuts);
}

// The same with the metadata first, so that the cut is met by what reads events and pools.
static void check_pool_cuts(struct jw *w)
{
    jw_begin(w);
    jw_metadata(w, jw_classes, JW_CLASSES);
    for (size_t i = 0; i < COUNT(hits); i++) {
        jw_sample(w, &hits[i]);
    }
    jw_app(w);
    jw_end(w);
    str whole = buf_view(&w->out);
    expect_with(whole, (str){0}, "process_cpu cpu\n" CHUNK_SAMPLES, NULL);
    for (size_t n = 68; n < whole.n; n++) {
        jw_header(w, 0, JW_HEADER_SIZE, n);
        expect_with(str_slice(whole, 0, n), (str){0}, NULL, "malformed JFR: ");
    }
}

static void every_cut_of_a_pool_is_refused(void **state)
{
    (void)state;
    recording_in_both(check_pool_cuts);
}

// With whole pools at the front, what is cut between two events is a recording of fewer events.
static void check_event_cuts(struct jw *w)
{
    jw_begin(w);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_app(w);
    size_t before = w->out.n;
    jw_sample(w, &hits[0]);
    size_t one = w->out.n;
    jw_sample(w, &hits[1]);
    jw_end(w);
    str whole = buf_view(&w->out);
    for (size_t n = before; n < whole.n; n++) {
        const char *want = n == before ? "" : "process_cpu cpu\n" WORK " = 1\n";
        jw_header(w, 0, JW_HEADER_SIZE, n);
        expect_with(str_slice(whole, 0, n), (str){0}, n == before || n == one ? want : NULL,
                    "malformed JFR: ");
    }
}

// A second chunk that is cut, or was never ended, takes nothing from the first.
static void check_chunk_cuts(struct jw *w)
{
    jw_chunk(w, hits, COUNT(hits));
    size_t first = w->out.n;
    jw_chunk(w, hits, COUNT(hits));
    str whole = buf_view(&w->out);
    for (size_t n = first + 1; n < whole.n; n++) {
        struct arena a;
        struct jfr_recording r = {0};
        expect_with(str_slice(whole, 0, n), (str){0}, "process_cpu cpu\n" CHUNK_SAMPLES, NULL);
        arena_init(&a, NULL, 1 << 20);
        assert_ok(decode_jfr(&a, str_slice(whole, 0, n), (str){0}, &(struct decode_options){0}, &r,
                             NULL, e));
        assert_int_equal(r.profiles.profiles[0].losses.count[LOSS_CUT_CHUNK], 1);
        arena_release(&a);
    }
}

static void whole_chunks_before_a_cut_one_are_kept_and_told(void **state)
{
    (void)state;
    recording_in_both(check_chunk_cuts);
}

static void every_cut_of_an_event_is_refused(void **state)
{
    (void)state;
    recording_in_both(check_event_cuts);
}

static void check_header(struct jw *w)
{
    static const struct {
        size_t field;
        const char *fault;
    } fields[] = {{JW_HEADER_SIZE, "has a size that is not that of what is left"},
                  {JW_HEADER_POOLS, "has constant pools at a place outside of it"},
                  {JW_HEADER_TYPES, "has metadata at a place outside of it"}};
    static const uint64_t values[] = {0, 67, UINT64_C(1) << 31, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < COUNT(fields) * COUNT(values); i++) {
        size_t field = i / COUNT(values);
        buf_clear(&w->out);
        jw_chunk(w, hits, COUNT(hits));
        jw_header(w, 0, fields[field].field, values[i % COUNT(values)]);
        expect(w, NULL, fields[field].fault);
    }
}

static void headers_are_checked(void **state)
{
    (void)state;
    recording_in_both(check_header);
}

// A large number written over each place of a recording: refused or of no effect, never a crash.
static void check_numbers(struct jw *w)
{
    static const uint8_t numbers[][9] = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                                         {0x80, 0x80, 0x80, 0x80, 0x08}};
    static const size_t sizes[] = {9, 8, 4, 1};
    struct jw spoilt;
    jw_chunk(w, hits, COUNT(hits));
    str whole = buf_view(&w->out);
    jw_init(&spoilt, w->compressed);
    for (size_t i = 0; i < whole.n * COUNT(numbers) * COUNT(sizes); i++) {
        const uint8_t *number = numbers[i % COUNT(numbers)];
        size_t at = i / (COUNT(numbers) * COUNT(sizes));
        size_t n = MIN(sizes[i / COUNT(numbers) % COUNT(sizes)], whole.n - at);
        struct arena a;
        struct jfr_recording r = {0};
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        buf_clear(&spoilt.out);
        buf_str(&spoilt.out, whole);
        memcpy(spoilt.out.p + at, number, n);
        if (!decode_jfr(&a, buf_view(&spoilt.out), (str){0}, &options, &r, NULL, &e))
            assert_true(e.code == ERR_INVALID_ARGUMENT || e.code == ERR_RESOURCE_EXHAUSTED);
        arena_release(&a);
    }
    jw_release(&spoilt);
}

static void large_numbers_are_survived(void **state)
{
    (void)state;
    recording_in_both(check_numbers);
}

static void expect_exhausted(const struct jw *w)
{
    struct arena a;
    struct jfr_recording r = {0};
    err e = {0};
    arena_init(&a, NULL, 4 << 20);
    assert_false(decode_jfr(&a, buf_view(&w->out), (str){0}, &options, &r, NULL, &e));
    if (e.code != ERR_RESOURCE_EXHAUSTED) fail_msg("%s", e.msg);
    assert_true(a.used <= (size_t)4 << 20);
    arena_release(&a);
}

// Stacks without frames take four bytes in the recording and some hundred in memory.
static void check_pools(struct jw *w)
{
    enum {
        STACKS = 100000
    };
    jw_begin(w);
    size_t known = jw_app(w);
    size_t many = jw_checkpoint(w, 1);
    jw_pool(w, JW_STACK, STACKS);
    for (uint64_t i = 0; i < STACKS; i++) {
        jw_long(w, i);
        jw_byte(w, 0);
        jw_int(w, 0);
    }
    jw_close(w);
    jw_link(w, many, known);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
    expect_exhausted(w);
}

static void a_bomb_of_pools_ends_at_the_cap(void **state)
{
    (void)state;
    recording_in_both(check_pools);
}

// Samples of one deep stack with contexts that differ: frames times events.
static void check_contexts(struct jw *w)
{
    enum {
        FRAMES = 5000,
        EVENTS = 1000
    };
    jw_begin(w);
    for (uint64_t i = 0; i < EVENTS; i++) {
        jw_sample(w, &(struct jw_hit){.stack = 3, .state = 1, .context = i});
    }
    size_t known = jw_app(w);
    size_t deep = jw_checkpoint(w, 1);
    jw_pool(w, JW_STACK, 1);
    jw_long(w, 3);
    jw_byte(w, 0);
    jw_int(w, FRAMES);
    for (uint64_t i = 0; i < FRAMES; i++) {
        jw_long(w, 501);
        jw_int(w, 1);
    }
    jw_close(w);
    jw_link(w, deep, known);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
    expect_exhausted(w);
}

static void a_bomb_of_contexts_ends_at_the_cap(void **state)
{
    (void)state;
    recording_in_both(check_contexts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_encodings_say_the_same),
        cmocka_unit_test(chunks_follow_each_other),
        cmocka_unit_test(checkpoints_are_a_chain),
        cmocka_unit_test(references_go_forward),
        cmocka_unit_test(what_nobody_knows_is_skipped_unless_it_has_a_value),
        cmocka_unit_test(samples_without_a_stack_are_unknown),
        cmocka_unit_test(frames_that_are_not_in_the_pools_are_unknown),
        cmocka_unit_test(samples_have_the_labels_of_their_context),
        cmocka_unit_test(a_circle_of_checkpoints_ends),
        cmocka_unit_test(a_circle_of_references_ends),
        cmocka_unit_test(a_class_that_contains_itself_is_refused),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_cut_of_a_pool_is_refused),
        cmocka_unit_test(every_cut_of_an_event_is_refused),
        cmocka_unit_test(whole_chunks_before_a_cut_one_are_kept_and_told),
        cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(large_numbers_are_survived),
        cmocka_unit_test(a_bomb_of_pools_ends_at_the_cap),
        cmocka_unit_test(a_bomb_of_contexts_ends_at_the_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
