// SPDX-License-Identifier: Apache-2.0
//
// Profile ids of siblings: what is told once, what stands in full, and that all come back.
#include "base/hash.h"
#include "block/writer_int.h"
#include "unit/block/model_read.h"

#define HOUR   INT64_C(472222)
#define FROM   (HOUR * SLOT_HOUR)
#define TYPES  3
#define SERIES 4
#define ROWS   50

// A way in which the ids of a profile's types are related, or rows are missing.
enum way {
    SIBLINGS,        // as the distributor makes them
    STRANGERS,       // ids have nothing in common
    SOME_MISSING,    // every ninth row of the second type is not there
    SERIES_MISSING,  // nor is its second series
    ONE_OTHER,       // one row of the second type has another id
    ANY_BITS,        // ids are no UUIDs of profiles
};

static uint64_t bits_of(uint64_t a, uint64_t b)
{
    uint64_t words[] = {a, b};
    return hash_bytes(words, sizeof words);
}

static id128 id_of(enum way way, uint32_t type, uint32_t series, uint32_t row, int64_t time_ns)
{
    uint64_t profile = bits_of(series, row);
    uint64_t of_type = bits_of(type, 77);
    if (way == STRANGERS || (way == ONE_OTHER && type == 1 && series == 2 && row == 7))
        profile = bits_of(profile, type);
    id128 id = uuid_profile((uint64_t)(time_ns / 1000000), profile ^ of_type,
                            bits_of(profile, 1) ^ bits_of(of_type, 1));
    if (way == ANY_BITS) id.b[6] = (uint8_t)row;
    return id;
}

static bool is_there(enum way way, uint32_t type, uint32_t series, uint32_t row)
{
    if (type != 1) return true;
    if (way == SOME_MISSING) return row % 9 != 4;
    return way != SERIES_MISSING || series != 1;
}

struct written {
    id128 ids[TYPES * SERIES * ROWS];
    uint32_t n;
    struct buf out;
};

static void write_block(enum way way, struct written *o)
{
    static struct symbol_function functions[1];
    static struct symbol_mapping mappings[1];
    static struct symbol_frame frames[1];
    static struct symbol_stack stacks[1];
    static str strings[] = {S_INIT("")};
    struct symbol_table t = {strings, functions, mappings, frames, stacks, 1, 1, 1, 1, 1};
    struct block_writer_options options = {
        .about = {.kind = BLOCK_RAW, .from_hour = HOUR, .hours = 1, .pack_hi = UINT32_MAX},
        .sink = model_sink,
        .arg = &o->out};
    uint64_t vector = 0;
    struct block_written written;
    o->n = 0;
    buf_init(&o->out, NULL, SIZE_MAX);
    struct block_writer *w = NULL;
    assert_ok((w = block_begin(&options, e)) != NULL);
    assert_ok(block_service(w, S("demo"), &t, e));
    assert_ok(block_vector(w, S("\x00\x01"), &vector, e));
    for (uint32_t type = 0; type < TYPES; type++) {
        for (uint32_t s = 0; s < SERIES; s++) {
            label ls[] = {{S("pod"), arena_printf(&arena, "p%u", s)}};
            str name = arena_printf(&arena, "t%u", type);
            assert_ok(block_key(w, BLOCK_SERIES, name, (labels){ls, 1}, e));
            for (uint32_t r = 0; r < ROWS; r++) {
                struct block_row row = {.time_ns = FROM + 1 + (int64_t)r * 60000000000,
                                        .vector = vector,
                                        .factor = 1};
                row.id = id_of(way, type, s, r, row.time_ns);
                if (!is_there(way, type, s, r)) continue;
                o->ids[o->n++] = row.id;
                assert_ok(block_row(w, &row, e));
            }
        }
    }
    assert_ok(block_finish(w, &written, e));
}

// Bytes of the details, which hold little but ids here.
static size_t read_block(struct written *o)
{
    struct model_block b = {0};
    struct block_index x = {0};
    struct model_run run;
    model_open(buf_view(&o->out), &b);
    const struct block_service_ref *s = &b.footer.services[0];
    assert_ok(block_index_parse(&arena, model_section(b.bytes, &s->index), s, &x, e));
    assert_int_equal(x.heads.n, 1);
    model_run(&b, &x, &x.heads.v[0], &run);
    assert_int_equal(run.details.n, o->n);
    for (uint32_t i = 0; i < o->n; i++) {
        if (!id128_eq(run.details.ids[i], o->ids[i])) fail_msg("id %u is another", i);
    }
    return x.details.v[0].extent.stored;
}

static void ids_of_siblings_cost_a_third(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum way way;
        uint32_t standing;  // rows whose ids stand in full, about
        uint32_t each;      // bytes of one
    } cases[] = {
        {"siblings", SIBLINGS, SERIES * ROWS, 10},
        {"strangers", STRANGERS, TYPES * SERIES * ROWS, 10},
        {"rows are missing", SOME_MISSING, SERIES * ROWS, 10},
        {"a series is missing", SERIES_MISSING, SERIES * ROWS, 10},
        {"one id is another", ONE_OTHER, SERIES * ROWS + 1, 10},
        {"any bits", ANY_BITS, TYPES * SERIES * ROWS, 17},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct written o;
        write_block(cases[i].way, &o);
        size_t n = read_block(&o);
        size_t most = (size_t)cases[i].standing * cases[i].each + 150;
        if (n > most) fail_msg("%s: %zu bytes, at most %zu", cases[i].name, n, most);
        if (cases[i].standing < o.n && n < (size_t)cases[i].standing * 9)
            fail_msg("%s: %zu bytes cannot hold them", cases[i].name, n);
        buf_release(&o.out);
    }
}

// Two rows: columns of nothing, then ids.
static void what_is_wrong_is_told(void **state)
{
    (void)state;
    static const char head[] = "02"
                               "00"
                               "0102"
                               "00"
                               "00"
                               "00"
                               "00";
    static const char nine[] = "010203040506070809"
                               "00";
    static const struct {
        const char *name;
        const char *runs;
        bool standing;
        const char *fault;
    } cases[] = {
        {"as it is",
         "02"
         "00"
         "01"
         "0a0b000000000000000c"
         "02"
         "0100"
         "010100",
         true, NULL},
        {"form 3",
         "03"
         "00"
         "01"
         "0a0b000000000000000c"
         "02"
         "0100"
         "010100",
         true, "ids have a form that is none"},
        {"version",
         "02"
         "00"
         "01"
         "1a0b000000000000000c"
         "02"
         "0100"
         "010100",
         true, "ids of siblings differ in what all ids have"},
        {"variant",
         "02"
         "00"
         "01"
         "0a0b400000000000000c"
         "02"
         "0100"
         "010100",
         true, "ids of siblings differ in what all ids have"},
        {"before the first",
         "02"
         "00"
         "01"
         "0a0b000000000000000c"
         "02"
         "0100"
         "010200",
         true, "a run of ids has no rows, or siblings that are none"},
        {"no such bits",
         "02"
         "00"
         "01"
         "0a0b000000000000000c"
         "02"
         "0100"
         "010101",
         true, "a run of ids has no rows, or siblings that are none"},
        {"a run of none",
         "02"
         "00"
         "01"
         "0a0b000000000000000c"
         "02"
         "0000"
         "010100",
         true, "a run of ids has no rows, or siblings that are none"},
        {"too many rows",
         "02"
         "00"
         "01"
         "0a0b000000000000000c"
         "02"
         "0100"
         "020100",
         true, "a run of ids has no rows, or siblings that are none"},
        {"too few rows",
         "02"
         "00"
         "01"
         "0a0b000000000000000c"
         "01"
         "0100",
         true, "runs of ids have other rows than the frame"},
        {"too many runs",
         "02"
         "00"
         "01"
         "0a0b000000000000000c"
         "30"
         "0100"
         "010100",
         true, "there are fewer bytes than a number asks for"},
        {"nothing stands",
         "02"
         "00"
         "01"
         "0a0b000000000000000c"
         "02"
         "0100"
         "010100",
         false, "it ends too early"},
    };
    int64_t times[2] = {FROM + 1, FROM + 2};
    int64_t totals[2] = {0};
    struct block_heads heads = {times, totals, NULL, 2};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char hex[300];
        uint8_t bytes[150];
        struct block_details d = {0};
        err fault = {0};
        snprintf(hex, sizeof hex, "%s%s%s", head, cases[i].runs, cases[i].standing ? nine : "");
        size_t n = strlen(hex) / 2;
        assert_true(hex_parse(str_of(hex), bytes, n));
        str contents = str_make(tail_guard(bytes, n), n);
        bool ok = block_details_parse(&arena, contents, &heads, &d, &fault);
        if (ok == (cases[i].fault != NULL) || (!ok && !strstr(fault.msg, cases[i].fault)))
            fail_msg("%s: %s", cases[i].name, fault.msg);
        if (ok) assert_true((d.ids[0].b[15] ^ d.ids[1].b[15]) == 0x0c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(ids_of_siblings_cost_a_third),
        ARENA_TEST(what_is_wrong_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
