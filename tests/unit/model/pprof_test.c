// SPDX-License-Identifier: Apache-2.0
//
// Exported profiles have a sample for each stack, all fields, and the total of their tree.
#include "codec/pb.h"
#include "model/pprof.h"
#include "model/vector.h"
#include "unit/model/random.h"
#include "unit/model/stacks.h"

// ---- a reader of google.v1.Profile that knows nothing of the writer

enum {
    MOST = 2000
};

struct reader {
    str strings[MOST];
    size_t string_count;
    str functions[MOST];  // messages by id
    str locations[MOST];
    str mappings[MOST];
    str samples[MOST];
    size_t sample_count;
    struct pb_reader last;
    int64_t numbers[16];  // of the profile's own fields
    str types[2];         // field 1 and 11
};

// The first value of a numeric field of a message; 0 if absent.
static uint64_t number_of(str message, uint32_t field)
{
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field == field && r.type == PB_VARINT) return r.number;
    }
    return 0;
}

static void keep(str *by_id, str message)
{
    uint64_t id = number_of(message, 1);
    assert_true(id > 0 && id < MOST);
    assert_null(by_id[id].p);
    by_id[id] = message;
}

static void read_profile(struct reader *x, str bytes)
{
    memset(x, 0, sizeof *x);
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1) x->types[0] = r.bytes;
        if (r.field == 2) x->samples[x->sample_count++] = r.bytes;
        if (r.field == 3) keep(x->mappings, r.bytes);
        if (r.field == 4) keep(x->locations, r.bytes);
        if (r.field == 5) keep(x->functions, r.bytes);
        if (r.field == 6) x->strings[x->string_count++] = r.bytes;
        if (r.field == 11) x->types[1] = r.bytes;
        if (r.type == PB_VARINT) x->numbers[r.field] = (int64_t)r.number;
        assert_true(x->string_count < MOST && x->sample_count < MOST);
    }
    assert_ok(pb_done(&r, e));
    assert_true(x->string_count > 0 && x->strings[0].n == 0);
}

static str string_of(const struct reader *x, str message, uint32_t field)
{
    uint64_t row = number_of(message, field);
    assert_true(row < x->string_count);
    return x->strings[row];
}

// The lines of a location from the outermost, joined by "+"; "0x40" if it has none.
static str text_of_location(struct arena *a, const struct reader *x, str location)
{
    str text = S("");
    struct pb_reader r = pb_reader(location);
    while (pb_next(&r)) {
        if (r.field != 4) continue;
        str function = x->functions[number_of(r.bytes, 1)];
        assert_non_null(function.p);
        str name = string_of(x, function, 2);
        long long line = (long long)number_of(r.bytes, 2);
        str one = line ? arena_printf(a, "%.*s@%lld", STR(name), line) : name;
        text = arena_printf(a, "%.*s%s%.*s", STR(one), text.n ? "+" : "", STR(text));
    }
    if (text.n) return text;
    return arena_printf(a, "0x%llx", (unsigned long long)number_of(location, 3));
}

// "main;a@1+b@2=5 ..." in the order of samples.
static str text_of_profile(struct arena *a, str bytes)
{
    static struct reader x;
    if (bytes.n == 0) return S("nothing");
    read_profile(&x, bytes);
    str all = S("");
    for (size_t i = 0; i < x.sample_count; i++) {
        str text = S("");
        int64_t value = 0;
        struct pb_reader r = pb_reader(x.samples[i]);
        while (pb_next(&r)) {
            const uint8_t *at = NULL;
            for (uint64_t v = 0; pb_packed_next(&r, &at, &v);) {
                if (r.field == 2) value = (int64_t)v;
                if (r.field != 1) continue;
                assert_true(v < MOST && x.locations[v].p);
                str one = text_of_location(a, &x, x.locations[v]);
                text = arena_printf(a, "%.*s%s%.*s", STR(one), text.n ? ";" : "", STR(text));
            }
        }
        all = arena_printf(a, "%.*s%s%.*s=%lld", STR(all), all.n ? " " : "", STR(text),
                           (long long)value);
    }
    return all;
}

// ---- what is exported

static const struct {
    const char *name;
    struct text_sum stacks[8];
    int64_t max_nodes;
    str site[2];
    size_t site_count;
    const char *profile;
} exports[] = {
    {"nothing", {{0}}, 0, {{0}}, 0, "nothing"},
    {"sums of zero", {{"a", 1}, {"a", -1}}, 0, {{0}}, 0, "nothing"},
    {"worked example", {{"a;b", 1}, {"a;c", 2}}, 0, {{0}}, 0, "a;b=1 a;c=2"},
    {"one sample for each stack",
     {{"a;b", 1}, {"a;b", 2}, {"c", 8}, {"a", 4}},
     0,
     {{0}},
     0,
     "a=4 a;b=3 c=8"},
    {"lines are told apart", {{"a@1;b", 1}, {"a@2;b", 2}}, 0, {{0}}, 0, "a@1;b=1 a@2;b=2"},
    {"inlined lines share a location", {{"x@1;y@2!;z@3", 7}}, 0, {{0}}, 0, "x@1+y@2;z@3=7"},
    {"a location inlined twice", {{"m;x@1;y@2!;z@3!", 7}}, 0, {{0}}, 0, "m;x@1+y@2+z@3=7"},
    {"a stack that ends within a location",
     {{"x;y!", 1}, {"x", 2}, {"x;z", 4}},
     0,
     {{0}},
     0,
     "x=2 x+y=1 x;z=4"},
    {"inlined without a caller", {{"x!;y", 1}}, 0, {{0}}, 0, "x;y=1"},
    {"addresses", {{"a;", 3}}, 0, {{0}}, 0, "a;0x40=3"},
    {"the empty stack", {{"", 5}, {"a", 1}}, 0, {{0}}, 0, "=5 a=1"},
    {"negative", {{"a", -5}}, 0, {{0}}, 0, "a=-5"},
    {"call site",
     {{"main;a;x", 1}, {"main;b", 4}, {"", 2}},
     0,
     {S_INIT("main"), S_INIT("b")},
     2,
     "main;b=4"},
    {"call site that nothing has", {{"main;a;x", 1}}, 0, {S_INIT("a")}, 1, "nothing"},
    {"enough nodes", {{"a;b", 10}, {"a;c;d;e", 1}}, 5, {{0}}, 0, "a;b=10 a;c;d;e=1"},
    {"truncated", {{"a;b", 10}, {"a;c;d;e", 1}, {"a;x;y", 2}}, 2, {{0}}, 0, "a;other=3 a;b=10"},
    {"truncated at the root", {{"a;b", 10}, {"c", 1}, {"d;e", 2}}, 2, {{0}}, 0, "other=3 a;b=10"},
    {"truncated below lines",
     {{"a@1;b", 10}, {"a@2;c", 1}, {"a@2;d", 2}, {"a@1;e", 3}},
     2,
     {{0}},
     0,
     "a@1;other=3 a@1;b=10 a@2;other=3"},
    {"truncated within a location",
     {{"a;b!", 10}, {"a;c!;d!", 1}, {"a;c!;e", 1}},
     2,
     {{0}},
     0,
     "a;other=2 a+b=10"},
    {"truncated with the empty stack", {{"", 7}, {"a", 2}, {"b", 1}}, 1, {{0}}, 0, "=7 other=3"},
    {"truncated below a call site",
     {{"m;a", 2}, {"m;b", 1}, {"n;c", 9}},
     2,
     {S_INIT("m")},
     1,
     "m;other=1 m;a=2"},
};

static void profiles_have_a_sample_for_each_stack(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(exports); i++) {
        struct arena a;
        struct merge m;
        struct buf b;
        arena_init(&a, NULL, 1 << 20);
        buf_init(&b, NULL, 10000);
        assert_ok(merge_init(&m, NULL, false, e));
        assert_ok(sum_stacks(&m, exports[i].stacks, COUNT(exports[i].stacks), e));
        const struct pprof_options o = {.header = {.sample_type = S("cpu")},
                                        .max_nodes = exports[i].max_nodes,
                                        .call_site = exports[i].site,
                                        .call_site_count = exports[i].site_count};
        assert_ok(pprof_encode(&a, &m.symbols.t, m.sums, &o, &b, e));
        str text = text_of_profile(&a, buf_view(&b));
        if (!str_is(text, exports[i].profile)) fail_msg("%s: %.*s", exports[i].name, STR(text));
        merge_release(&m);
        buf_release(&b);
        arena_release(&a);
    }
}

static void headers_and_rows_come_with_all_their_fields(void **state)
{
    (void)state;
    static struct reader x;
    struct arena a;
    struct merge m;
    struct buf b;
    err fault = {0};
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 10000);
    assert_ok(merge_init(&m, NULL, false, e));
    struct symbols *s = &m.symbols;
    uint32_t unused = symbols_string(s, S("unused"), &fault);
    uint32_t name = symbols_string(s, S("main"), &fault);
    uint32_t system = symbols_string(s, S("_main"), &fault);
    uint32_t file = symbols_string(s, S("cpu"), &fault);  // also the sample type
    assert_int_equal(symbols_function(s, (struct symbol_function){.name = unused}, &fault), 1);
    uint32_t f = symbols_function(s, (struct symbol_function){name, system, file, 12}, &fault);
    assert_int_equal(symbols_mapping(s, (struct symbol_mapping){.start = 9}, &fault), 1);
    uint32_t map =
        symbols_mapping(s,
                        (struct symbol_mapping){4096, 8192, 512, file, system,
                                                SYMBOL_HAS_FUNCTIONS | SYMBOL_HAS_LINE_NUMBERS},
                        &fault);
    uint32_t outer = symbols_frame(
        s, (struct symbol_frame){.address = 5000, .line = -7, .function = f, .mapping = map},
        &fault);
    uint32_t inner = symbols_frame(
        s, (struct symbol_frame){.line = 8, .function = f, .mapping = map, .inlined = true},
        &fault);
    uint32_t stack = symbols_stack(s, symbols_stack(s, 0, outer, &fault), inner, &fault);
    assert_int_equal(stack, 2);
    assert_ok(mem_grow(NULL, &m.sums, &m.room, 3, sizeof *m.sums, e));
    m.sums[stack] = INT64_MIN;
    const struct pprof_options o = {.header = {.sample_type = S("cpu"),
                                               .sample_unit = S("nanoseconds"),
                                               .period_type = S("cpu"),
                                               .period_unit = S("ns"),
                                               .period = 1000000000,
                                               .time_ns = 1700000000000000000,
                                               .duration_ns = 10}};
    assert_ok(pprof_encode(&a, &s->t, m.sums, &o, &b, e));
    read_profile(&x, buf_view(&b));
    assert_true(str_is(string_of(&x, x.types[0], 1), "cpu"));
    assert_true(str_is(string_of(&x, x.types[0], 2), "nanoseconds"));
    assert_true(str_is(string_of(&x, x.types[1], 1), "cpu"));
    assert_true(str_is(string_of(&x, x.types[1], 2), "ns"));
    assert_true(x.numbers[9] == 1700000000000000000 && x.numbers[10] == 10);
    assert_true(x.numbers[12] == 1000000000);
    assert_true(str_is(x.strings[x.numbers[14]], "cpu"));
    assert_int_equal(x.string_count, 6);  // "", cpu, nanoseconds, ns, main, _main: none twice
    assert_null(x.functions[2].p);
    assert_true(str_is(string_of(&x, x.functions[1], 2), "main"));
    assert_true(str_is(string_of(&x, x.functions[1], 3), "_main"));
    assert_true(str_is(string_of(&x, x.functions[1], 4), "cpu"));
    assert_int_equal(number_of(x.functions[1], 5), 12);
    assert_null(x.mappings[2].p);
    const uint64_t mapping[] = {1, 4096, 8192, 512};
    for (uint32_t i = 0; i < COUNT(mapping); i++)
        assert_true(number_of(x.mappings[1], i + 1) == mapping[i]);
    assert_true(str_is(string_of(&x, x.mappings[1], 5), "cpu"));
    assert_true(str_is(string_of(&x, x.mappings[1], 6), "_main"));
    const uint64_t flags[] = {1, 0, 1, 0};
    for (uint32_t i = 0; i < COUNT(flags); i++)
        assert_true(number_of(x.mappings[1], i + 7) == flags[i]);
    assert_null(x.locations[2].p);
    assert_true(number_of(x.locations[1], 2) == 1 && number_of(x.locations[1], 3) == 5000);
    assert_true(str_is(text_of_profile(&a, buf_view(&b)), "main@-7+main@8=-9223372036854775808"));
    merge_release(&m);
    buf_release(&b);
    arena_release(&a);
}

static void an_empty_period_type_is_left_out(void **state)
{
    (void)state;
    static struct reader x;
    struct arena a;
    struct merge m;
    struct buf b;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 10000);
    assert_ok(merge_init(&m, NULL, false, e));
    assert_ok(sum_stacks(&m, &(struct text_sum){"a", 1}, 1, e));
    assert_ok(pprof_encode(&a, &m.symbols.t, m.sums, &(struct pprof_options){0}, &b, e));
    read_profile(&x, buf_view(&b));
    assert_null(x.types[1].p);
    assert_non_null(x.types[0].p);
    merge_release(&m);
    buf_release(&b);
    arena_release(&a);
}

// Truncated or not, the values of all samples are the sums; stacks not truncated keep their frames.
static void truncation_keeps_the_total(void **state)
{
    (void)state;
    static struct reader x;
    struct random r = {31};
    for (int round = 0; round < 40; round++) {
        struct arena a;
        struct merge m;
        struct buf b;
        int64_t total = 0;
        arena_init(&a, NULL, 1 << 24);
        buf_init(&b, NULL, 1 << 20);
        assert_ok(merge_init(&m, NULL, false, e));
        random_symbols(&r, &m.symbols, 300);
        uint32_t count = m.symbols.t.stack_count;
        assert_ok(mem_grow(NULL, &m.sums, &m.room, count, sizeof *m.sums, e));
        for (uint32_t i = 0; i < count; i++)
            total += m.sums[i] = random_below(&r, 2) ? random_below(&r, 1000) : 0;
        for (int64_t max_nodes = 0; max_nodes < 100; max_nodes = max_nodes * 2 + 1) {
            buf_clear(&b);
            const struct pprof_options o = {.max_nodes = max_nodes};
            assert_ok(pprof_encode(&a, &m.symbols.t, m.sums, &o, &b, e));
            read_profile(&x, buf_view(&b));
            int64_t got = 0;
            for (size_t i = 0; i < x.sample_count; i++) {
                struct pb_reader s = pb_reader(x.samples[i]);
                while (pb_next(&s)) {
                    const uint8_t *at = NULL;
                    for (uint64_t v = 0; pb_packed_next(&s, &at, &v);)
                        got += s.field == 2 ? (int64_t)v : 0;
                }
            }
            assert_true(got == total);
        }
        merge_release(&m);
        buf_release(&b);
        arena_release(&a);
    }
}

static bool export_some(void *arg, err *e)
{
    const struct merge *m = arg;
    struct arena a;
    struct buf b;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 10000);
    const struct pprof_options o = {.max_nodes = 2};
    bool ok = pprof_encode(&a, &m->symbols.t, m->sums, &o, &b, e);
    buf_release(&b);
    arena_release(&a);
    return ok;
}

static void exports_survive_failing_allocations_and_small_caps(void **state)
{
    (void)state;
    struct merge m;
    const struct text_sum some[] = {{"a;b", 10}, {"a;c!;d;e", 1}, {"a;x;y", 2}};
    assert_ok(merge_init(&m, NULL, false, e));
    assert_ok(sum_stacks(&m, some, COUNT(some), e));
    assert_true(torture(export_some, &m) > 1);
    bool ok = false;
    for (size_t cap = 16; !ok; cap += 16) {
        struct arena small;
        struct buf b;
        err fault = {0};
        arena_init(&small, NULL, cap);
        buf_init(&b, NULL, cap);
        const struct pprof_options o = {.max_nodes = 2};
        ok = pprof_encode(&small, &m.symbols.t, m.sums, &o, &b, &fault);
        if (!ok) assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
        buf_release(&b);
        arena_release(&small);
    }
    merge_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_have_a_sample_for_each_stack),
        cmocka_unit_test(headers_and_rows_come_with_all_their_fields),
        cmocka_unit_test(an_empty_period_type_is_left_out),
        cmocka_unit_test(truncation_keeps_the_total),
        cmocka_unit_test(exports_survive_failing_allocations_and_small_caps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
