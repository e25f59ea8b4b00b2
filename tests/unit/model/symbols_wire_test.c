// SPDX-License-Identifier: Apache-2.0
//
// Symbols are read as they were written; every reference and every cut is checked.
#include "codec/pb.h"
#include "model/symbols.h"
#include "unit/model/random.h"
#include "unit/model/stacks.h"

static str encode(const struct symbol_table *t, const bool *used, struct arena *a, uint32_t *ids,
                  struct buf *out)
{
    buf_clear(out);
    assert_ok(symbols_encode(t, used, a, ids, out, e));
    return buf_view(out);
}

// Equal row by row.
static void assert_same(const struct symbol_table *x, const struct symbol_table *y)
{
    assert_int_equal(x->string_count, y->string_count);
    assert_int_equal(x->function_count, y->function_count);
    assert_int_equal(x->mapping_count, y->mapping_count);
    assert_int_equal(x->frame_count, y->frame_count);
    assert_int_equal(x->stack_count, y->stack_count);
    for (uint32_t i = 0; i < x->string_count; i++)
        assert_true(str_eq(x->strings[i], y->strings[i]));
    for (uint32_t i = 0; i < x->function_count; i++) {
        const struct symbol_function *f = &x->functions[i];
        const struct symbol_function *g = &y->functions[i];
        assert_true(f->name == g->name && f->system_name == g->system_name);
        assert_true(f->filename == g->filename && f->start_line == g->start_line);
    }
    for (uint32_t i = 0; i < x->mapping_count; i++) {
        const struct symbol_mapping *m = &x->mappings[i];
        const struct symbol_mapping *n = &y->mappings[i];
        assert_true(m->start == n->start && m->limit == n->limit && m->offset == n->offset);
        assert_true(m->filename == n->filename && m->build_id == n->build_id);
        assert_int_equal(m->flags, n->flags);
    }
    for (uint32_t i = 0; i < x->frame_count; i++) {
        const struct symbol_frame *f = &x->frames[i];
        const struct symbol_frame *g = &y->frames[i];
        assert_true(f->address == g->address && f->line == g->line && f->function == g->function);
        assert_true(f->mapping == g->mapping && f->inlined == g->inlined);
    }
    for (uint32_t i = 0; i < x->stack_count; i++) {
        assert_int_equal(x->stacks[i].parent, y->stacks[i].parent);
        assert_int_equal(x->stacks[i].frame, y->stacks[i].frame);
    }
}

static void what_is_written_is_read_and_written_again_equal(void **state)
{
    (void)state;
    struct arena a;
    struct buf one;
    struct buf two;
    struct random r = {1};
    arena_init(&a, NULL, 64 << 20);
    buf_init(&one, NULL, 1 << 20);
    buf_init(&two, NULL, 1 << 20);
    for (int round = 0; round < 50; round++) {
        struct symbols s;
        assert_ok(symbols_init(&s, NULL, e));
        random_symbols(&r, &s, round * 4);
        str bytes = encode(&s.t, NULL, &a, NULL, &one);
        bytes = str_make(tail_guard(bytes.p, bytes.n), bytes.n);
        struct symbol_table back;
        assert_ok(symbols_decode(&a, bytes, &back, e));
        assert_same(&s.t, &back);
        assert_true(str_eq(encode(&back, NULL, &a, NULL, &two), bytes));
        symbols_release(&s);
    }
    buf_release(&one);
    buf_release(&two);
    arena_release(&a);
}

static void an_empty_table_is_no_bytes(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    struct symbols s;
    struct symbol_table t;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 1000);
    assert_ok(symbols_init(&s, NULL, e));
    assert_int_equal(encode(&s.t, NULL, &a, NULL, &b).n, 0);
    assert_ok(symbols_decode(&a, (str){0}, &t, e));
    assert_same(&s.t, &t);
    symbols_release(&s);
    buf_release(&b);
    arena_release(&a);
}

// Stacks as text, so that numbers do not matter.
static str text_of_stack(struct arena *a, const struct symbol_table *t, uint32_t stack)
{
    str text = S("");
    for (; stack; stack = t->stacks[stack].parent) {
        const struct symbol_frame *f = &t->frames[t->stacks[stack].frame];
        str name = symbols_frame_name(t, t->stacks[stack].frame);
        str file = t->strings[t->mappings[f->mapping].filename];
        text = arena_printf(a, "%.*s@%d%s@%.*s;%.*s", STR(name), (int)f->line,
                            f->inlined ? "!" : "", STR(file), STR(text));
    }
    return text;
}

static void pruning_keeps_what_used_stacks_need(void **state)
{
    (void)state;
    struct random r = {2};
    for (int round = 0; round < 30; round++) {
        struct arena a;
        struct buf b;
        struct symbols s;
        arena_init(&a, NULL, 64 << 20);
        buf_init(&b, NULL, 1 << 20);
        assert_ok(symbols_init(&s, NULL, e));
        random_symbols(&r, &s, 100);
        bool *used = ARENA_ARRAY(&a, bool, s.t.stack_count);
        bool *closed = ARENA_ARRAY(&a, bool, s.t.stack_count);
        uint32_t *ids = ARENA_ARRAY(&a, uint32_t, s.t.stack_count);
        for (uint32_t i = 0; i < s.t.stack_count; i++)
            used[i] = closed[i] = random_below(&r, 10) == 0;
        str bytes = encode(&s.t, used, &a, ids, &b);
        struct symbol_table back;
        assert_ok(symbols_decode(&a, bytes, &back, e));
        symbols_mark_ancestors(&s.t, closed);
        uint32_t last = 0;
        assert_int_equal(ids[0], 0);
        for (uint32_t i = 1; i < s.t.stack_count; i++) {
            assert_int_equal(ids[i], closed[i] ? ++last : 0);
            if (!ids[i]) continue;
            assert_true(str_eq(text_of_stack(&a, &s.t, i), text_of_stack(&a, &back, ids[i])));
        }
        assert_int_equal(back.stack_count, last + 1);
        assert_true(back.frame_count <= s.t.frame_count);
        // Nothing is there that nobody needs: all of it is used, so it encodes to the same.
        struct buf again;
        buf_init(&again, NULL, 1 << 20);
        memset(used, true, back.stack_count);
        assert_true(str_eq(encode(&back, used, &a, NULL, &again), bytes));
        buf_release(&again);
        symbols_release(&s);
        buf_release(&b);
        arena_release(&a);
    }
}

static void identity_numbers_without_pruning(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    struct symbols s;
    err e0 = {0};
    uint32_t ids[3];
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 1000);
    assert_ok(symbols_init(&s, NULL, e));
    assert_int_equal(stack_of_text(&s, S("a;b"), &e0), 2);
    encode(&s.t, NULL, &a, ids, &b);
    assert_true(ids[0] == 0 && ids[1] == 1 && ids[2] == 2);
    symbols_release(&s);
    buf_release(&b);
    arena_release(&a);
}

// One column or string of a message.
struct part {
    uint32_t field;
    str bytes;
};

// Strings "a", function 1 named a, mapping 1, frame 1 of both, stacks 1 and 2 of it.
#define NAME           \
    {                  \
        1, S_INIT("a") \
    }
#define FUNCTION          \
    {                     \
        2, S_INIT("\x01") \
    }
#define MAPPING           \
    {                     \
        6, S_INIT("\x05") \
    }
#define FRAME              \
    {12, S_INIT("\x01")},  \
    {                      \
        14, S_INIT("\x01") \
    }
#define STACKS                 \
    {17, S_INIT("\x01\x01")},  \
    {                          \
        18, S_INIT("\x01\x01") \
    }

static const struct {
    const char *name;
    struct part parts[10];
    const char *message;  // NULL: accepted
} messages[] = {
    {"all", {NAME, FUNCTION, MAPPING, FRAME, STACKS}, NULL},
    {"in another order", {STACKS, FRAME, MAPPING, FUNCTION, NAME}, NULL},
    {"column in pieces",
     {NAME,
      FUNCTION,
      MAPPING,
      FRAME,
      {17, S_INIT("\x01")},
      {18, S_INIT("\x01")},
      {17, S_INIT("\x02")},
      {18, S_INIT("\x01")}},
     NULL},
    {"empty pieces", {NAME, {2, S_INIT("")}, FUNCTION, MAPPING, FRAME, STACKS}, NULL},
    {"long varints", {NAME, {2, S_INIT("\x81\x80\x00")}, MAPPING, FRAME, STACKS}, NULL},
    {"unknown fields", {NAME, FUNCTION, MAPPING, FRAME, STACKS, {19, S_INIT("\xff")}}, NULL},
    {"string not utf-8", {{1, S_INIT("a\xff")}}, "string 1 is not UTF-8"},
    {"function without its string", {FUNCTION}, "function_name of row 1 is 1"},
    {"system name out of range", {NAME, FUNCTION, {3, S_INIT("\x02")}}, "function_system_name of"},
    {"filename out of range", {NAME, FUNCTION, {4, S_INIT("\x02")}}, "function_filename of row 1"},
    {"mapping file out of range", {NAME, MAPPING, {9, S_INIT("\x02")}}, "mapping_filename of row"},
    {"build id out of range", {NAME, MAPPING, {10, S_INIT("\x02")}}, "mapping_build_id of row 1"},
    {"flags past 32 bits", {MAPPING, {11, S_INIT("\x80\x80\x80\x80\x10")}}, "mapping_flags of row"},
    {"frame's function out of range", {{12, S_INIT("\x01")}}, "frame_function of row 1 is 1"},
    {"frame's mapping out of range",
     {{12, S_INIT("\x00")}, {14, S_INIT("\x01")}},
     "frame_mapping of row 1 is 1"},
    {"reference past 32 bits", {{12, S_INIT("\x80\x80\x80\x80\x10")}}, "frame_function of row 1"},
    {"inlined is 2", {{12, S_INIT("\x00")}, {16, S_INIT("\x02")}}, "frame_inlined of row 1 is 2"},
    {"stack's frame out of range",
     {NAME, FUNCTION, MAPPING, FRAME, {17, S_INIT("\x01")}, {18, S_INIT("\x02")}},
     "stack_frame of row 1 is 2"},
    {"stack of frame 0",
     {NAME, FUNCTION, MAPPING, FRAME, {17, S_INIT("\x01")}, {18, S_INIT("\x00")}},
     "stack_frame of row 1 is 0"},
    {"stack is its parent",
     {NAME, FUNCTION, MAPPING, FRAME, {17, S_INIT("\x00")}, {18, S_INIT("\x01")}},
     "stack_parent_delta of row 1 is 0"},
    {"parent before the table",
     {NAME, FUNCTION, MAPPING, FRAME, {17, S_INIT("\x01\x03")}, {18, S_INIT("\x01\x01")}},
     "stack_parent_delta of row 2 is 3"},
    {"parent past 32 bits",
     {NAME, FUNCTION, MAPPING, FRAME, {17, S_INIT("\x80\x80\x80\x80\x10")}, {18, S_INIT("\x01")}},
     "stack_parent_delta of row 1"},
    {"columns differ in length",
     {NAME, {2, S_INIT("\x01\x01")}, {3, S_INIT("\x01")}},
     "function_system_name has 1 rows, its table 2"},
    {"stacks without parents",
     {NAME, FUNCTION, FRAME, MAPPING, {18, S_INIT("\x01")}},
     "stack_parent_delta has 0 rows, its table 1"},
    {"stacks without frames", {{17, S_INIT("\x01")}}, "stack_frame has 0 rows, its table 1"},
    {"cut varint", {NAME, {2, S_INIT("\x01\x80")}}, "function_name of row 2 is no varint"},
    {"cut varint alone", {NAME, {2, S_INIT("\x80")}}, "is no varint"},
    {"varint of eleven bytes",
     {NAME, {6, S_INIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")}},
     "mapping_start of row 1 is no varint"},
};

static void put(struct buf *b, const struct part *parts, size_t n)
{
    buf_clear(b);
    for (size_t i = 0; i < n && parts[i].field; i++)
        pb_put_bytes(b, parts[i].field, parts[i].bytes);
}

static void every_reference_is_checked(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 1000);
    for (size_t i = 0; i < COUNT(messages); i++) {
        put(&b, messages[i].parts, COUNT(messages[i].parts));
        struct symbol_table t;
        err e = {0};
        bool ok = symbols_decode(&a, str_make(tail_guard(b.p, b.n), b.n), &t, &e);
        if (ok != !messages[i].message) fail_msg("%s: %d %s", messages[i].name, ok, e.msg);
        if (ok) continue;
        if (e.code != ERR_INVALID_ARGUMENT || !strstr(e.msg, messages[i].message)) {
            fail_msg("%s: %s", messages[i].name, e.msg);
        }
    }
    buf_release(&b);
    arena_release(&a);
}

static void values_one_by_one_are_a_column_as_well(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    struct symbol_table t;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 1000);
    pb_put_u64(&b, 17, 1);
    pb_put_u64(&b, 18, 1);
    pb_put_bytes(&b, 17, S("\x02"));
    pb_put_u64(&b, 18, 2);
    pb_put_u64(&b, 15, 77);
    pb_put_u64(&b, 15, 78);
    assert_ok(symbols_decode(&a, buf_view(&b), &t, e));
    assert_int_equal(t.stack_count, 3);
    assert_true(t.stacks[2].parent == 0 && t.stacks[2].frame == 2);
    assert_true(t.frames[2].address == 78);
    buf_release(&b);
    arena_release(&a);
}

static void every_cut_is_refused_or_is_a_table(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    struct symbols s;
    struct random r = {3};
    arena_init(&a, NULL, 64 << 20);
    buf_init(&b, NULL, 1 << 20);
    assert_ok(symbols_init(&s, NULL, e));
    random_symbols(&r, &s, 20);
    str bytes = encode(&s.t, NULL, &a, NULL, &b);
    for (size_t n = 0; n < bytes.n; n++) {
        struct symbol_table t;
        err e = {0};
        bool ok = symbols_decode(&a, str_make(tail_guard(bytes.p, n), n), &t, &e);
        if (!ok) assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        if (ok) assert_int_equal(t.stack_count, 1);  // cut between fields, before the stacks
    }
    symbols_release(&s);
    buf_release(&b);
    arena_release(&a);
}

static bool round_trip(void *arg, err *e)
{
    const struct symbols *s = arg;
    struct arena a;
    struct buf b;
    struct symbol_table t;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 1 << 20);
    bool used[200];
    memset(used, true, sizeof used);
    bool ok =
        symbols_encode(&s->t, used, &a, NULL, &b, e) && symbols_decode(&a, buf_view(&b), &t, e);
    if (ok) assert_int_equal(t.stack_count, s->t.stack_count);
    buf_release(&b);
    arena_release(&a);
    return ok;
}

static void coding_survives_failing_allocations(void **state)
{
    (void)state;
    struct symbols s;
    struct random r = {4};
    assert_ok(symbols_init(&s, NULL, e));
    random_symbols(&r, &s, 20);
    assert_true(s.t.stack_count <= 200);
    assert_true(torture(round_trip, &s) > 3);
    symbols_release(&s);
}

static void a_small_arena_is_resource_exhausted(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    struct symbol_table t;
    err e = {0};
    arena_init(&a, NULL, 1000);
    buf_init(&b, NULL, 10000);
    char zeros[1000] = {0};
    pb_put_bytes(&b, 12, str_make(zeros, sizeof zeros));
    assert_false(symbols_decode(&a, buf_view(&b), &t, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    buf_release(&b);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_and_written_again_equal),
        cmocka_unit_test(an_empty_table_is_no_bytes),
        cmocka_unit_test(pruning_keeps_what_used_stacks_need),
        cmocka_unit_test(identity_numbers_without_pruning),
        cmocka_unit_test(every_reference_is_checked),
        cmocka_unit_test(values_one_by_one_are_a_column_as_well),
        cmocka_unit_test(every_cut_is_refused_or_is_a_table),
        cmocka_unit_test(coding_survives_failing_allocations),
        cmocka_unit_test(a_small_arena_is_resource_exhausted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
