// SPDX-License-Identifier: Apache-2.0
//
// The example of docs/formats/block.md, byte for byte.
#include "unit/block/model_read.h"

#define HOUR INT64_C(472222)
#define FROM (HOUR * SLOT_HOUR)  // 2023-11-14 22:00 UTC

static const label pod[] = {{S_INIT("pod"), S_INIT("a")}};

static struct symbol_table table(void)
{
    static str strings[] = {S_INIT(""), S_INIT("main"), S_INIT("map")};
    static struct symbol_function functions[] = {{0}, {1, 1, 0, 0}, {2, 2, 0, 0}};
    static struct symbol_mapping mappings[1];
    static struct symbol_frame frames[] = {{0}, {.function = 1, .line = 7}, {.function = 2}};
    static struct symbol_stack stacks[] = {{0, 0}, {0, 1}, {1, 2}};
    return (struct symbol_table){strings, functions, mappings, frames, stacks, 3, 3, 1, 3, 3};
}

static bool write_example(struct block_writer *w, err *e)
{
    struct symbol_table t = table();
    struct block_node node = {.slot = HOUR * 12,
                              .width = SLOT_FIVE,
                              .profiles = 2,
                              .total = 70000000,
                              .first_ns = FROM + 15000000000,
                              .last_ns = FROM + 30000000000};
    struct block_row row = {.time_ns = FROM + 15000000000,
                            .total = 30000000,
                            .factor = 1,
                            .duration_ns = 15000000000,
                            .period = 10000000};
    uint64_t numbers[2] = {0};
    uint64_t ms = (uint64_t)(FROM / 1000000);
    row.id = uuid_profile(ms + 15000, 0x0102030405060708, 0);
    if (!block_service(w, S("demo"), &t, e) ||
        !block_vector(w, S("\x02\x80\xad\xe2\x04\x01\x01\x02\x04"), &numbers[0], e) ||
        !block_vector(w, S("\x01\x80\xb4\x89\x13\x02\x02"), &numbers[1], e) ||
        !block_key(w, BLOCK_ALL, S("cpu"), (labels){0}, e) ||
        !block_node(w, &node, S("\x02\x80\xad\xe2\x04\x01\x01\x02\x0c"), e) ||
        !block_key(w, BLOCK_SERIES, S("cpu"), (labels){pod, 1}, e) || !block_row(w, &row, e)) {
        return false;
    }
    row.time_ns = FROM + 30000000000;
    row.id = uuid_profile(ms + 30000, 0x1112131415161718, 0);
    row.total = 40000000;
    row.vector = numbers[1];
    return block_row(w, &row, e);
}

// Sections in the order of the object.
static const struct {
    const char *name;
    const char *hex;
} sections[] = {
    {"details", "02020001000101020180d88ee16f0180dac40900000100010002030405060708110012131415"
                "16171800"},
    {"vectors", "0010020101020180ade20480b48913000101020402"},
    {"heads", "020280d8a488ee91ce972f80acc7f037000102808ece1c80ade204000100"},
    {"index", "03bcd2390103637075000100010b0103706f640101610100010100000002000001040180f6e0"
              "420180d88ee16f0180d88ee16f0180dac409000201022a011555cee2c9000001010100010b65"
              "6b88fa0001023f011e3f84d16380d8a488ee91ce972f80acc7f03700012ac9dbb93c00000180dac409"},
    {"symbols", "0202000202070002040102020100010000000000000000000202010001020007010000000000"
                "0000006d61696e70"},
    {"vectors of ALL", "000602010102010001020c"},
    {"footer", "020102030000000000000000000000000009616e6f6e796d6f7573bcd2390100000000ffffff"
               "ff05010173010464656d6f0103637075020080d8a488ee91ce972f80acc7f0375d0001757"
               "57fb44d012e7393266e010b656b88fa"},
    {"trailer", "0b010000000000005a0000000000000061ae537805000000b1ed354b4654424c"},
};

// The same block as version 3 wrote it: the index ends without periods.
static const char version_3[] =
    "02020001000101020180d88ee16f0180dac409000001000100020304050607081100121314151617"
    "18000010020101020180ade20480b48913000101020402020280d8a488ee91ce972f80acc7f03700"
    "0102808ece1c80ade20400010003bcd2390103637075000100010b0103706f640101610100010100"
    "000002000001040180f6e0420180d88ee16f0180d88ee16f0180dac409000201022a011555cee2c9"
    "000001010100010b656b88fa0001023f011e3f84d16380d8a488ee91ce972f80acc7f03700012ac9"
    "dbb93c00000202000202070002040102020100010000000000000000000202010001020007010000"
    "0000000000006d61696e70000602010102010001020c020102030000000000000000000000000009"
    "616e6f6e796d6f7573bcd2390100000000ffffffff05010173010464656d6f0103637075020080d8"
    "a488ee91ce972f80acc7f0375d00017058446469012e7393266e010b656b88fa0601000000000000"
    "5a000000000000001562acbb030000009656ff614654424c";

static void check_parsed(str bytes, int64_t period)
{
    struct model_block b = {0};
    struct block_index x = {0};
    struct symbol_table t = {0};
    struct block_vectors v = {0};
    model_open(bytes, &b);
    const struct block_service_ref *s = block_find_service(&b.footer, S("demo"));
    assert_ok(block_index_parse(&arena, model_section(bytes, &s->index), s, &x, e));
    assert_ok(block_symbols_parse(&arena, model_section(bytes, &s->symbols), &t, e));
    assert_int_equal(x.key_count, 2);
    assert_int_equal(x.periods[0], period);
    assert_true(str_is(symbols_frame_name(&t, t.stacks[2].frame), "map"));
    assert_memory_equal(&x.nodes_at.v[0].extent, &s->all, sizeof s->all);
    assert_ok(block_vectors_parse(&arena, model_section(bytes, &x.vectors.v[0].extent), 2, &v, e));
    assert_true(str_eq(block_vector_at(&v, 1), S("\x01\x80\xb4\x89\x13\x02\x02")));
}

static void bytes_are_those_of_the_format(void **state)
{
    (void)state;
    struct buf out;
    struct block_written written = {0};
    static const str source = S_INIT("s");
    struct block_writer_options o = {.about = {.kind = BLOCK_RAW,
                                               .id = {{1, 2, 3}},
                                               .tenant = S("anonymous"),
                                               .from_hour = HOUR,
                                               .hours = 1,
                                               .pack_hi = UINT32_MAX,
                                               .sources = &source,
                                               .source_count = 1},
                                     .sink = model_sink,
                                     .arg = &out};
    buf_init(&out, NULL, SIZE_MAX);
    err fault = {0};
    struct block_writer *w = block_begin(&o, &fault);
    assert_non_null(w);
    if (!write_example(w, &fault)) fail_msg("%s", fault.msg);
    assert_true(block_finish(w, &written, &fault));
    assert_int_equal(written.bytes, out.n);
    size_t at = 0;
    for (size_t i = 0; i < COUNT(sections); i++) {
        uint8_t bytes[200];
        size_t n = strlen(sections[i].hex) / 2;
        assert_true(hex_parse(str_of(sections[i].hex), bytes, n));
        if (at + n > out.n || memcmp(bytes, out.p + at, n) != 0) {
            fail_msg("%s has other bytes", sections[i].name);
        }
        at += n;
    }
    assert_int_equal(at, out.n);
    check_parsed(buf_view(&out), 10000000);
    buf_release(&out);
}

static void version_3_is_read(void **state)
{
    (void)state;
    uint8_t bytes[COUNT(version_3) / 2];
    assert_true(hex_parse(str_make(version_3, sizeof version_3 - 1), bytes, sizeof bytes));
    check_parsed(str_make(bytes, sizeof bytes), 0);
}

// The node's factor and vector in the index, and what is said of others.
static void a_node_needs_a_factor_and_a_vector(void **state)
{
    (void)state;
    static const char *is = "0180dac40900"
                            "0201022a011555cee2c9"
                            "00000101010001";
    static const struct {
        const char *name;
        const char *hex;
        const char *fault;
    } cases[] = {
        {"as it is", "0180dac409000201022a011555cee2c900000101010001", NULL},
        {"factor 0", "00000201022a011555cee2c900000101010001",
         "the factor of a node is less than 1"},
        {"factor -1", "0101000201022a011555cee2c900000101010001",
         "the factor of a node is less than 1"},
        {"vector 1", "0180dac40901020201022a011555cee2c900000101010001",
         "the vector of a node is not there"},
        {"vector -1", "0180dac40901010201022a011555cee2c900000101010001",
         "the vector of a node is not there"},
        {"two vectors", "0180dac409000201022a011555cee2c900000201010001",
         "there are more vectors than nodes"},
    };
    const struct block_service_ref s = {.all = {.at = 251}};
    const char *index = sections[3].hex;
    const char *at = strstr(index, is);
    assert_non_null(at);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char hex[400];
        uint8_t bytes[200];
        struct block_index x = {0};
        err fault = {0};
        snprintf(hex, sizeof hex, "%.*s%s%s", (int)(at - index), index, cases[i].hex,
                 at + strlen(is));
        assert_true(hex_parse(str_of(hex), bytes, strlen(hex) / 2));
        bool ok = block_index_parse(&arena, str_make(bytes, strlen(hex) / 2), &s, &x, &fault);
        if (ok == (cases[i].fault != NULL) || (!ok && !strstr(fault.msg, cases[i].fault))) {
            fail_msg("%s: %s", cases[i].name, fault.msg);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(bytes_are_those_of_the_format),
        ARENA_TEST(version_3_is_read),
        ARENA_TEST(a_node_needs_a_factor_and_a_vector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
