// SPDX-License-Identifier: Apache-2.0
//
// pprof is read field by field, in every order and encoding, and refused in Pyroscope's words.
#include "decode/decode.h"
#include "lib/arena.h"
#include "lib/pprof.h"
#include "model/symbols.h"

#include <stdio.h>

// Every profile here has strings 0..5, one type cpu/nanoseconds, mapping 1, functions 1 = a, 2 = b,
// locations 1 -> a, 2 -> b, and one sample a;b = 5, unless its recipe changes a piece.
enum piece {
    STRINGS,
    TYPES,
    MAPPINGS,
    FUNCTIONS,
    LOCATIONS,
    SAMPLES,
    REST,
    PIECES
};

static const enum piece usual[PIECES] = {STRINGS,   TYPES,   MAPPINGS, FUNCTIONS,
                                         LOCATIONS, SAMPLES, REST};
static const enum piece strings_last[PIECES] = {TYPES,     SAMPLES, MAPPINGS, LOCATIONS,
                                                FUNCTIONS, REST,    STRINGS};
static const enum piece samples_first[PIECES] = {SAMPLES, LOCATIONS, FUNCTIONS, MAPPINGS,
                                                 STRINGS, REST,      TYPES};

typedef void part_fn(struct buf *b);

static void part_strings(struct buf *b)
{
    const char *all[] = {"", "cpu", "nanoseconds", "a", "b", "main.go"};
    for (size_t i = 0; i < COUNT(all); i++) {
        pp_string(b, all[i]);
    }
}

static void part_types(struct buf *b)
{
    pp_type(b, 1, 2);
}

static void part_mappings(struct buf *b)
{
    pp_mapping(b, 1, 5, 0);
}

static void part_functions(struct buf *b)
{
    pp_function(b, 1, 3, 5);
    pp_function(b, 2, 4, 5);
}

static void part_locations(struct buf *b)
{
    pp_location(b, 1, 1, 0x10, &(struct pp_line){1, 7}, 1);
    pp_location(b, 2, 1, 0x20, &(struct pp_line){2, 8}, 1);
}

static void part_samples(struct buf *b)
{
    pp_sample(b, (uint64_t[]){2, 1}, 2, (int64_t[]){5}, 1);
}

static void part_rest(struct buf *b)
{
    pb_put_u64(b, 9, 1700000000000000000);
    pb_put_u64(b, 10, 10000000000);
    pp_type_field(b, 11, 1, 2);
    pb_put_u64(b, 12, 10000000);
}

static part_fn *const parts[PIECES] = {part_strings,   part_types,   part_mappings, part_functions,
                                       part_locations, part_samples, part_rest};

// The usual profile with `instead` in place of one piece.
static void build(struct buf *b, const enum piece *order, int piece, part_fn *instead)
{
    buf_init(b, NULL, SIZE_MAX / 2);
    for (int i = 0; i < PIECES; i++) {
        (order[i] == (enum piece)piece ? instead : parts[order[i]])(b);
    }
    assert_false(b->failed);
}

static const struct decode_options no_options;
static struct profile nothing;

static bool decode_into(str bytes, const struct decode_options *o, struct profile **p, err *e)
{
    struct decoded d = {0};
    if (!decode_pprof(&arena, bytes, o, &d, NULL, e)) return false;
    assert_int_equal(d.count, 1);
    *p = d.profiles;
    return true;
}

static struct profile *decoded(struct buf *b)
{
    struct profile *p = &nothing;
    assert_ok(decode_into(buf_view(b), &no_options, &p, e));
    return p;
}

// "a;b=5 " for each sample: root first, inlined frames apart, unnamed addresses as 0x..
static const char *stacks_of(const struct profile *p)
{
    static char text[4096];
    size_t n = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        const char *comma = "";
        for (uint32_t k = s->location_count; k-- > 0;) {
            assert_true(p->stack_locations[s->first_location + k] < p->location_count);
            const struct profile_location *l =
                &p->locations[p->stack_locations[s->first_location + k]];
            if (l->line_count == 0) {
                n += (size_t)snprintf(text + n, sizeof text - n, "%s0x%x", comma,
                                      (unsigned)l->address);
            }
            for (uint32_t j = l->line_count; j-- > 0;) {
                assert_true(p->lines[l->first_line + j].function < p->function_count);
                str name = p->functions[p->lines[l->first_line + j].function].name;
                n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s",
                                      j + 1 < l->line_count ? ";" : comma, STR(name));
            }
            comma = ";";
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "=%lld ",
                              (long long)p->values[(size_t)i * p->type_count]);
    }
    text[n] = '\0';
    return text;
}

static void pprof_reads_every_field(void **state)
{
    (void)state;
    struct buf b;
    build(&b, usual, -1, NULL);
    pb_put_u64(&b, 7, 3);
    pb_put_u64(&b, 8, 4);
    pb_put_u64(&b, 13, 5);
    pp_numbers(&b, 13, (uint64_t[]){3, 99}, 2);
    pb_put_u64(&b, 14, 1);
    struct profile *p = decoded(&b);
    assert_string_equal(stacks_of(p), "a;b=5 ");
    assert_true(str_is(p->types[0].type, "cpu") && str_is(p->types[0].unit, "nanoseconds"));
    assert_true(str_is(p->period_type.type, "cpu"));
    assert_true(str_is(p->period_type.unit, "nanoseconds"));
    assert_int_equal(p->period, 10000000);
    assert_int_equal(p->time_ns, 1700000000000000000);
    assert_int_equal(p->duration_ns, 10000000000);
    assert_true(str_is(p->drop_frames, "a") && str_is(p->keep_frames, "b"));
    assert_true(str_is(p->default_type, "cpu"));
    assert_int_equal(p->comment_count, 3);
    assert_true(str_is(p->comments[0], "main.go") && str_is(p->comments[1], "a"));
    assert_int_equal(p->comments[2].n, 0);  // an index out of range means absent
    assert_int_equal(p->string_count, 6);
    assert_true(str_is(p->language_hint, "main.go"));
    assert_int_equal(p->encoded_bytes, b.n);
    assert_int_equal(p->mappings[0].start, 0x1000);
    assert_int_equal(p->mappings[0].limit, 0x2000);
    assert_int_equal(p->mappings[0].flags, SYMBOL_HAS_FUNCTIONS);
    assert_true(str_is(p->mappings[0].filename, "main.go"));
    assert_int_equal(p->locations[1].address, 0x20);
    assert_int_equal(p->locations[1].mapping, 0);
    assert_int_equal(p->lines[1].line, 8);
    assert_true(str_is(p->functions[0].system_name, "a"));
    buf_release(&b);
}

// ---- order and encodings

static void part_unpacked_sample(struct buf *b)
{
    size_t m = pb_begin(b, 2);
    pb_put_u64(b, 2, 5);
    pb_put_u64(b, 1, 2);
    pb_put_u64(b, 1, 1);
    pb_end(b, m);
}

static void part_mixed_sample(struct buf *b)
{
    size_t m = pb_begin(b, 2);
    pb_put_u64(b, 1, 2);
    pp_numbers(b, 1, (uint64_t[]){1}, 1);
    pp_numbers(b, 2, NULL, 0);
    pb_put_u64(b, 2, 5);
    pb_end(b, m);
}

static void part_interleaved(struct buf *b)
{
    pp_function(b, 2, 4, 5);
    part_samples(b);
    part_locations(b);
    part_strings(b);
    pp_function(b, 1, 3, 5);
}

static void part_nothing(struct buf *b)
{
    (void)b;
}

static void part_long_varints(struct buf *b)
{
    // Location ids and a length in more bytes than they need, as JFR converters write them.
    const char raw[] = "\x12\x89\x80\x00\x0a\x05\x82\x80\x00\x81\x00\x10\x05";
    buf_put(b, raw, sizeof raw - 1);
}

// Field 9, which is not known, comes behind a line, which was read then.
static void part_odd_locations(struct buf *b)
{
    const char raw[] =
        "\x22\x08\x08\x01\x22\x02\x08\x01\x48\x05\x22\x08\x08\x02\x22\x02\x08\x02\x48\x05";
    buf_put(b, raw, sizeof raw - 1);
}

static const struct {
    const char *name;
    const enum piece *order;
    int piece;
    part_fn *instead;
} shapes[] = {
    {"usual", usual, -1, NULL},
    {"strings last", strings_last, -1, NULL},
    {"samples first", samples_first, -1, NULL},
    {"unpacked", usual, SAMPLES, part_unpacked_sample},
    {"packed and unpacked mixed", usual, SAMPLES, part_mixed_sample},
    {"numbers longer than they need be", usual, SAMPLES, part_long_varints},
    {"locations with a field that is not known", usual, LOCATIONS, part_odd_locations},
};

static void pprof_accepts_every_order_and_encoding(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct buf b;
        build(&b, shapes[i].order, shapes[i].piece, shapes[i].instead);
        struct profile *p = decoded(&b);
        if (strcmp(stacks_of(p), "a;b=5 ") != 0) fail_msg("%s: %s", shapes[i].name, stacks_of(p));
        buf_release(&b);
    }
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX / 2);
    part_interleaved(&b);
    part_types(&b);
    part_mappings(&b);
    struct profile *p = decoded(&b);
    assert_string_equal(stacks_of(p), "a;b=5 ");
    buf_release(&b);
}

// ---- ids and references

static void part_sparse_functions(struct buf *b)
{
    pp_function(b, UINT64_C(1) << 63, 3, 5);
    pp_function(b, 2, 4, 5);
    pp_location(b, UINT64_MAX, 1, 0x10, &(struct pp_line){UINT64_C(1) << 63, 7}, 1);
    pp_sample(b, (uint64_t[]){2, UINT64_MAX}, 2, (int64_t[]){6}, 1);
}

static void part_dangling_sample(struct buf *b)
{
    part_samples(b);
    pp_labelled(b, (uint64_t[]){2, 9, 1}, 3, 4, &(struct pp_label){3, 4, 0}, 1);
    pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){3}, 1);
}

static void part_unknown_function(struct buf *b)
{
    part_locations(b);
    pp_location(b, 9, 1, 0, (struct pp_line[]){{1, 0}, {77, 0}}, 2);
    pp_sample(b, (uint64_t[]){9}, 1, (int64_t[]){4}, 1);
}

static void part_line_without_function(struct buf *b)
{
    part_locations(b);
    pp_location(b, 9, 1, 0, &(struct pp_line){0, 3}, 1);
    pp_sample(b, (uint64_t[]){9}, 1, (int64_t[]){4}, 1);
}

static void part_unknown_mapping(struct buf *b)
{
    part_locations(b);
    pp_location(b, 9, 6, 0x30, NULL, 0);
    pp_sample(b, (uint64_t[]){9}, 1, (int64_t[]){4}, 1);
}

static void part_no_mapping(struct buf *b)
{
    part_locations(b);
    pp_location(b, 9, 0, 0x30, NULL, 0);
    pp_sample(b, (uint64_t[]){9, 1}, 2, (int64_t[]){4}, 1);
}

static void part_inlined(struct buf *b)
{
    part_locations(b);
    pp_location(b, 9, 1, 0x30, (struct pp_line[]){{2, 1}, {1, 2}}, 2);
    pp_sample(b, (uint64_t[]){9, 1}, 2, (int64_t[]){4}, 1);
}

static void part_twice_location(struct buf *b)
{
    part_locations(b);
    pp_location(b, 1, 1, 0x30, &(struct pp_line){2, 0}, 1);
}

static void part_twice_function(struct buf *b)
{
    part_functions(b);
    pp_function(b, 2, 1, 5);
}

static void part_extreme_values(struct buf *b)
{
    pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){INT64_MIN}, 1);
    pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){INT64_MAX}, 1);
    pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){0}, 1);
    pp_sample(b, NULL, 0, (int64_t[]){8}, 1);
}

static const struct {
    const char *name;
    int piece;
    part_fn *instead;
    const char *stacks;
    uint64_t lost;  // samples with a frame that is not there
} references[] = {
    {"ids 2^63 and 2^64-1", FUNCTIONS, part_sparse_functions, "a;b=6 ;b=5 ", 1},
    {"sample with unknown location", SAMPLES, part_dangling_sample, "a;b=5 a;0x0;b=4 a=3 ", 1},
    {"location with unknown function", LOCATIONS, part_unknown_function, ";a=4 a;b=5 ", 1},
    {"line with function 0", LOCATIONS, part_line_without_function, "=4 a;b=5 ", 0},
    {"location with unknown mapping", LOCATIONS, part_unknown_mapping, "0x30=4 a;b=5 ", 1},
    {"location without mapping and lines", LOCATIONS, part_no_mapping, "a;0x30=4 a;b=5 ", 0},
    {"inlined calls", LOCATIONS, part_inlined, "a;a;b=4 a;b=5 ", 0},
    {"location id twice: the last", LOCATIONS, part_twice_location, "b;b=5 ", 0},
    {"function id twice: the last", FUNCTIONS, part_twice_function, "a;cpu=5 ", 0},
    {"extreme values and empty stack", SAMPLES, part_extreme_values,
     "a=-9223372036854775808 a=9223372036854775807 a=0 =8 ", 0},
    {"no mappings", MAPPINGS, part_nothing, "a;b=5 ", 1},
    {"no samples", SAMPLES, part_nothing, "", 0},
};

static void pprof_resolves_ids_and_keeps_what_dangles(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(references); i++) {
        struct buf b;
        build(&b, usual, references[i].piece, references[i].instead);
        struct profile *p = decoded(&b);
        if (strcmp(stacks_of(p), references[i].stacks) != 0) {
            fail_msg("%s: %s", references[i].name, stacks_of(p));
        }
        assert_int_equal(p->losses.count[LOSS_UNKNOWN_FRAME], references[i].lost);
        buf_release(&b);
    }
}

static void pprof_keeps_labels_of_samples_with_unknown_frames(void **state)
{
    (void)state;
    struct buf b;
    build(&b, usual, SAMPLES, part_dangling_sample);
    pp_labelled(&b, (uint64_t[]){1}, 1, 1, (struct pp_label[]){{3, 4, 0}, {5, 0, -8}}, 2);
    struct profile *p = decoded(&b);
    assert_int_equal(p->sample_count, 4);
    assert_int_equal(p->label_count, 3);
    assert_int_equal(p->samples[1].label_count, 1);
    assert_int_equal(p->samples[3].first_label, 1);
    assert_int_equal(p->samples[3].label_count, 2);
    assert_true(str_is(p->labels[1].key, "a") && str_is(p->labels[1].text, "b"));
    assert_true(p->labels[2].text.n == 0 && p->labels[2].number == -8);
    buf_release(&b);
}

// Ids that a plain hash of 32 bits or a masked one would put into one slot.
static void pprof_resolves_ids_that_differ_in_few_bits(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < 53; shift += 4) {
        struct buf b;
        buf_init(&b, NULL, SIZE_MAX / 2);
        part_strings(&b);
        part_types(&b);
        for (uint64_t i = 1; i <= 2000; i++) {
            pp_function(&b, i << shift, 3 + i % 2, 0);
        }
        for (uint64_t i = 1; i <= 2000; i++) {
            pp_place(&b, i << shift, i << shift);
        }
        pp_sample(&b, (uint64_t[]){UINT64_C(2000) << shift, UINT64_C(1) << shift}, 2,
                  (int64_t[]){1}, 1);
        assert_string_equal(stacks_of(decoded(&b)), "b;a=1 ");
        buf_release(&b);
        arena_release(&arena);
    }
}

// ---- refusals

static void part_no_strings(struct buf *b)
{
    (void)b;
}

static void part_string_0(struct buf *b)
{
    pp_string(b, "x");
    part_strings(b);
}

static void part_bad_utf8(struct buf *b)
{
    part_strings(b);
    pp_string(b, "a\xff z");
}

static void pprof_mends_text_that_is_not_utf8(void **state)
{
    (void)state;
    struct buf b;
    build(&b, usual, STRINGS, part_bad_utf8);
    pp_function(&b, 1, 6, 5);
    struct profile *p = decoded(&b);
    assert_string_equal(stacks_of(p), "a\xef\xbf\xbd z;b=5 ");
    assert_int_equal(p->losses.count[LOSS_BAD_TEXT], 1);
    assert_int_equal(p->losses.count[LOSS_UNKNOWN_FRAME], 0);
    buf_release(&b);
}

static void part_location_0(struct buf *b)
{
    part_locations(b);
    pp_place(b, 0, 1);
}

static void part_function_0(struct buf *b)
{
    part_functions(b);
    pp_function(b, 0, 3, 0);
}

static void part_no_value(struct buf *b)
{
    part_samples(b);
    pp_sample(b, (uint64_t[]){1}, 1, NULL, 0);
}

static void part_two_values(struct buf *b)
{
    pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){1, 2}, 2);
}

static void part_two_types(struct buf *b)
{
    pp_type(b, 1, 2);
    pp_type(b, 3, 2);
}

static void part_bad_type(struct buf *b)
{
    pp_type(b, 99, 2);
}

static void part_negative_type(struct buf *b)
{
    pp_type(b, UINT64_MAX, 2);
}

static void part_bad_label_key(struct buf *b)
{
    pp_labelled(b, (uint64_t[]){1}, 1, 1, &(struct pp_label){99, 3, 0}, 1);
}

static void part_bad_label_text(struct buf *b)
{
    pp_labelled(b, (uint64_t[]){1}, 1, 1, &(struct pp_label){3, 6, 0}, 1);
}

static void part_bad_name(struct buf *b)
{
    part_functions(b);
    pp_function(b, 3, 6, 0);
}

static void part_bad_system_name(struct buf *b)
{
    part_functions(b);
    size_t m = pb_begin(b, 5);
    pb_put_u64(b, 1, 3);
    pb_put_u64(b, 3, 6);
    pb_end(b, m);
}

static void part_bad_file(struct buf *b)
{
    part_functions(b);
    pp_function(b, 3, 3, 6);
}

static void part_bad_mapping_file(struct buf *b)
{
    pp_mapping(b, 1, 6, 0);
}

static void part_bad_build_id(struct buf *b)
{
    pp_mapping(b, 1, 0, 6);
}

static const struct {
    const char *name;
    int piece;
    part_fn *instead;
    const char *message;
} refused[] = {
    {"no sample types", TYPES, part_nothing, "empty profile"},
    {"location id 0", LOCATIONS, part_location_0, "location id is 0"},
    {"function id 0", FUNCTIONS, part_function_0, "function id is 0"},
    {"too few values", SAMPLES, part_no_value, "sample value length mismatch"},
    {"too many values", SAMPLES, part_two_values, "sample value length mismatch"},
    {"more types than values", TYPES, part_two_types, "sample value length mismatch"},
    {"no string table", STRINGS, part_no_strings, "string 0 should be empty string"},
    {"string 0", STRINGS, part_string_0, "string 0 should be empty string"},
    {"type", TYPES, part_bad_type, "sample type type string index out of range"},
    {"negative index", TYPES, part_negative_type, "sample type type string index out of range"},
    {"label key", SAMPLES, part_bad_label_key, "sample label string index out of range"},
    {"label text", SAMPLES, part_bad_label_text, "sample label string index out of range"},
    {"name", FUNCTIONS, part_bad_name, "function name string index out of range"},
    {"system name", FUNCTIONS, part_bad_system_name,
     "function system name index string out of range"},
    {"file", FUNCTIONS, part_bad_file, "function file name string index out of range"},
    {"mapping file", MAPPINGS, part_bad_mapping_file,
     "mapping file name string index out of range"},
    {"build id", MAPPINGS, part_bad_build_id, "mapping build id string index out of range"},
};

static void refuses(const enum piece *order, size_t i)
{
    struct buf b;
    build(&b, order, refused[i].piece, refused[i].instead);
    struct profile *p = &nothing;
    err e = {0};
    bool ok = decode_into(buf_view(&b), &no_options, &p, &e);
    if (ok || e.code != ERR_INVALID_ARGUMENT || strcmp(e.msg, refused[i].message) != 0) {
        fail_msg("%s: %s", refused[i].name, e.msg);
    }
    buf_release(&b);
}

static void pprof_refuses_in_pyroscopes_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        refuses(usual, i);
        refuses(strings_last, i);
    }
}

static void pprof_tells_the_fault_that_pyroscope_checks_first(void **state)
{
    (void)state;
    struct buf b;
    build(&b, usual, STRINGS, part_bad_utf8);
    pp_type(&b, 99, 0);
    pp_function(&b, 0, 99, 0);
    struct profile *p = &nothing;
    err e = {0};
    assert_false(decode_into(buf_view(&b), &no_options, &p, &e));
    assert_string_equal(e.msg, "function id is 0");
    buf_release(&b);
}

static const struct {
    const char *name;
    str bytes;
    const char *part;  // NULL: accepted
} wires[] = {
    {"unknown varint", S_INIT("\x80\x7d\x05"), NULL},
    {"unknown fixed64",
     S_INIT("\x81\x7d"
            "12345678"),
     NULL},
    {"unknown bytes",
     S_INIT("\x82\x7d\x03"
            "abc"),
     NULL},
    {"unknown fixed32",
     S_INIT("\x85\x7d"
            "1234"),
     NULL},
    {"doc_url", S_INIT("\x78\x03"), NULL},
    {"largest number", S_INIT("\x80\x7d\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), NULL},
    {"group", S_INIT("\x83\x7d\x84\x7d"), "wire type"},
    {"end of group", S_INIT("\x84\x7d"), "wire type"},
    {"wire type 6", S_INIT("\x86\x7d"), "wire type"},
    {"wire type 7", S_INIT("\x87\x7d"), "wire type"},
    {"field 0", S_INIT("\x02\x00"), "field number"},
    {"huge field number", S_INIT("\x80\x80\x80\x80\x80\x01\x00"), "field number"},
    {"cut tag", S_INIT("\x80"), "number"},
    {"cut number", S_INIT("\x48\x80"), "number"},
    {"number of 11 bytes", S_INIT("\x48\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), "number"},
    {"number over 64 bits", S_INIT("\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), "number"},
    {"no length", S_INIT("\x32"), "length"},
    {"length past the end",
     S_INIT("\x32\x05"
            "abcd"),
     "length past the end"},
    {"length of 2^64-1", S_INIT("\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "past the end"},
    {"cut fixed64",
     S_INIT("\x81\x7d"
            "1234567"),
     "past the end"},
    {"cut fixed32",
     S_INIT("\x85\x7d"
            "123"),
     "past the end"},
    {"sample type as number", S_INIT("\x08\x07"), "wrong wire type"},
    {"string as number", S_INIT("\x30\x07"), "wrong wire type"},
    {"time as bytes", S_INIT("\x4a\x01x"), "wrong wire type"},
    {"time as fixed64",
     S_INIT("\x49"
            "12345678"),
     "wrong wire type"},
    {"type with bytes inside", S_INIT("\x0a\x03\x0a\x01x"), "wrong wire type"},
    {"label as number", S_INIT("\x12\x02\x18\x01"), "wrong wire type"},
    {"location id as fixed32",
     S_INIT("\x12\x05\x0d"
            "1234"),
     "wrong wire type"},
    {"line as number", S_INIT("\x22\x02\x20\x01"), "wrong wire type"},
    {"location's id as bytes", S_INIT("\x22\x02\x0a\x00"), "wrong wire type"},
    {"cut packed ids", S_INIT("\x12\x03\x0a\x01\x80"), "location id"},
    {"cut packed values", S_INIT("\x12\x03\x12\x01\x80"), "value"},
    {"cut packed comments", S_INIT("\x6a\x01\x80"), "number"},
};

static void pprof_keeps_the_wire_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(wires); i++) {
        struct buf b;
        build(&b, usual, -1, NULL);
        buf_str(&b, wires[i].bytes);
        const char *bytes = (const char *)tail_guard(b.p, b.n);
        struct profile *p = &nothing;
        err e = {0};
        bool ok = decode_into(str_make(bytes, b.n), &no_options, &p, &e);
        if (ok != !wires[i].part) fail_msg("%s: %s", wires[i].name, e.msg);
        const char *part = wires[i].part ? wires[i].part : "";
        if (!ok && (e.code != ERR_INVALID_ARGUMENT || !strstr(e.msg, part))) {
            fail_msg("%s: %s", wires[i].name, e.msg);
        }
        if (ok) assert_string_equal(stacks_of(p), "a;b=5 ");
        buf_release(&b);
    }
}

static void pprof_survives_every_cut_and_every_flipped_bit(void **state)
{
    (void)state;
    struct buf b;
    build(&b, usual, LOCATIONS, part_inlined);
    assert(b.p);
    for (size_t n = 1; n < b.n; n++) {
        const char *bytes = (const char *)tail_guard(b.p, n);
        struct profile *p = &nothing;
        err e = {0};
        if (decode_into(str_make(bytes, n), &no_options, &p, &e) && p) stacks_of(p);
    }
    for (size_t bit = 0; bit < b.n * 8; bit++) {
        b.p[bit / 8] = (char)(b.p[bit / 8] ^ 1 << bit % 8);
        struct profile *p = &nothing;
        err e = {0};
        if (decode_into(buf_view(&b), &no_options, &p, &e) && p) stacks_of(p);
        b.p[bit / 8] = (char)(b.p[bit / 8] ^ 1 << bit % 8);
    }
    buf_release(&b);
}

static void pprof_takes_the_last_of_repeated_numbers(void **state)
{
    (void)state;
    struct buf b;
    build(&b, usual, -1, NULL);
    pb_put_u64(&b, 9, 77);
    size_t m = pb_begin(&b, 11);
    pb_put_u64(&b, 1, 3);
    pb_end(&b, m);
    struct profile *p = decoded(&b);
    assert_int_equal(p->time_ns, 77);
    assert_true(str_is(p->period_type.type, "a"));
    assert_true(str_is(p->period_type.unit, "nanoseconds"));
    buf_release(&b);
}

static void pprof_refuses_no_bytes(void **state)
{
    (void)state;
    struct profile *p = &nothing;
    err e = {0};
    assert_false(decode_into((str){0}, &no_options, &p, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
}

// ---- options

static void part_long_strings(struct buf *b)
{
    const char *all[] = {"", "cpu", "nanoseconds", "/foo/bar", "xx\xc3\xa9y", "ok"};
    for (size_t i = 0; i < COUNT(all); i++) {
        pp_string(b, all[i]);
    }
}

static void pprof_keeps_the_end_of_long_strings(void **state)
{
    (void)state;
    struct buf b;
    build(&b, usual, STRINGS, part_long_strings);
    struct decode_options o = {.symbol_max = 3};
    struct profile *p = &nothing;
    assert_ok(decode_into(buf_view(&b), &o, &p, e));
    assert_true(str_is(p->functions[0].name, "bar"));
    assert_true(str_is(p->functions[1].name, "\xc3\xa9y"));
    o.symbol_max = 2;  // would begin inside a character
    assert_ok(decode_into(buf_view(&b), &o, &p, e));
    assert_true(str_is(p->functions[1].name, "y"));
    assert_true(str_is(p->types[0].type, "pu"));
    buf_release(&b);
}

static void part_dotnet_functions(struct buf *b)
{
    pp_function(b, 0, 3, 0);
    pp_function(b, 0, 4, 0);
}

static void part_dotnet_locations(struct buf *b)
{
    pp_location(b, 40, 0, 0x10, &(struct pp_line){40, 0}, 1);
    pp_location(b, 41, 0, 0x10, &(struct pp_line){41, 0}, 1);
    pp_sample(b, (uint64_t[]){41, 40}, 2, (int64_t[]){5}, 1);
}

static void pprof_repairs_zero_function_ids_if_asked(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX / 2);
    part_strings(&b);
    part_types(&b);
    part_dotnet_functions(&b);
    part_dotnet_locations(&b);
    struct decode_options o = {.repair_zero_function_ids = true};
    struct profile *p = &nothing;
    assert_ok(decode_into(buf_view(&b), &o, &p, e));
    assert_string_equal(stacks_of(p), "a;b=5 ");
    err e = {0};
    assert_false(decode_into(buf_view(&b), &no_options, &p, &e));
    assert_string_equal(e.msg, "function id is 0");
    pp_function(&b, 0, 3, 0);  // no longer as many as locations
    assert_false(decode_into(buf_view(&b), &o, &p, &e));
    assert_string_equal(e.msg, "function id is 0");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(pprof_reads_every_field),
        ARENA_TEST(pprof_accepts_every_order_and_encoding),
        ARENA_TEST(pprof_resolves_ids_and_keeps_what_dangles),
        ARENA_TEST(pprof_keeps_labels_of_samples_with_unknown_frames),
        ARENA_TEST(pprof_mends_text_that_is_not_utf8),
        ARENA_TEST(pprof_resolves_ids_that_differ_in_few_bits),
        ARENA_TEST(pprof_refuses_in_pyroscopes_words),
        ARENA_TEST(pprof_tells_the_fault_that_pyroscope_checks_first),
        ARENA_TEST(pprof_keeps_the_wire_rules),
        ARENA_TEST(pprof_survives_every_cut_and_every_flipped_bit),
        ARENA_TEST(pprof_takes_the_last_of_repeated_numbers),
        ARENA_TEST(pprof_refuses_no_bytes),
        ARENA_TEST(pprof_keeps_the_end_of_long_strings),
        ARENA_TEST(pprof_repairs_zero_function_ids_if_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
