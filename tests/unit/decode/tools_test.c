// SPDX-License-Identifier: Apache-2.0
//
// What all files of other tools share: their text may be marked, of UTF-16, or have bytes that are
// no UTF-8.
#include "base/buf.h"
#include "decode/stacks.h"
#include "decode/tools.h"
#include "lib/test.h"
#include "model/marks.h"

static const struct {
    enum tool tool;
    const char *text;  // of one sample, of the frame "zq"
} files[] = {
    {TOOL_FLAMEBEARER, "{\"flamebearer\":{\"names\":[\"total\",\"zq\"],\"levels\":[[0,1,0,0],[0,1,"
                       "1,1]],\"numTicks\":1}}"},
    {TOOL_FIREFOX, "{\"threads\":[{\"samples\":{\"stack\":[0]},\"stackTable\":{\"frame\":[0],"
                   "\"prefix\":[null]},\"frameTable\":{\"func\":[0]},\"funcTable\":{\"name\":[0]},"
                   "\"stringArray\":[\"zq\"]}]}"},
    {TOOL_TRACE, "[{\"ph\":\"X\",\"name\":\"zq\",\"ts\":1,\"dur\":2}]"},
    {TOOL_CALLGRIND, "events: Ir\nfn=zq\n1 1\n"},
    {TOOL_STACKPROF, "{\"samples\":1,\"frames\":{\"7\":{\"name\":\"zq\",\"total_samples\":1,"
                     "\"samples\":1}},\"raw\":[1,7,1]}"},
    {TOOL_SAMPLE, "Analysis of sampling x (pid 7) every 1 millisecond\nCall graph:\n    1 zq  (in "
                  "x)\n"},
};

// The name of the one frame.
static void check(enum tool tool, const char *bytes, size_t n, const char *name, uint64_t bad)
{
    static const struct decode_options any;
    struct arena a;
    struct decoded d = {0};
    arena_init(&a, NULL, 1 << 20);
    assert_ok(tool_decode(tool, &a, str_make(tail_guard(bytes, n), n), &any, &d, e));
    assert_int_equal(d.profiles->sample_count, 1);
    assert_int_equal(d.profiles->function_count, 1);
    if (!str_is(d.profiles->functions[0].name, name))
        fail_msg("%s: %.*s", tool_rows[tool].name.p, STR(d.profiles->functions[0].name));
    assert_int_equal(d.profiles->losses.count[LOSS_BAD_TEXT], bad);
    arena_release(&a);
}

static void a_byte_order_mark_is_no_part_of_a_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(files); i++) {
        char marked[1000];
        int n = snprintf(marked, sizeof marked, "\xef\xbb\xbf%s", files[i].text);
        check(files[i].tool, files[i].text, strlen(files[i].text), "zq", 0);
        check(files[i].tool, marked, (size_t)n, "zq", 0);
    }
}

static void files_in_utf16_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(files); i++) {
        char wide[2000] = "\xff\xfe";
        size_t n = 2;
        for (const char *c = files[i].text; *c; c++) {
            wide[n++] = *c;
            wide[n++] = 0;
        }
        check(files[i].tool, wide, n, "zq", 0);
    }
}

static void bytes_that_are_no_utf8_are_replaced_and_counted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(files); i++) {
        char bad[1000];
        size_t n = strlen(files[i].text);
        memcpy(bad, files[i].text, n);
        *(char *)memmem(bad, n, "zq", 2) = (char)0xff;
        check(files[i].tool, bad, n,
              "\xef\xbf\xbd"
              "q",
              1);
    }
}

#define NESTED 8000

// Frames that are each in the one before, each for a microsecond.
static void put_nested(struct buf *b, int format)
{
    static const char *const heads[] = {
        "[", "{\"nodes\":[",
        "{\"$schema\":\"https://www.speedscope.app/"
        "file-format-schema.json\",\"shared\":{\"frames\":[{\"name\":\"f\"}]},\"profiles\":[{"
        "\"type\":\"evented\",\"name\":"
        "\"x\",\"unit\":\"microseconds\",\"startValue\":1,\"endValue\":8001,\"events\":["};
    buf_z(b, heads[format]);
    for (int i = 1; i <= NESTED; i++) {
        const char *comma = i < NESTED ? "," : "";
        if (format == 0) {
            buf_printf(b, "{\"ph\":\"B\",\"name\":\"f\",\"ts\":%d},", i);
        } else if (format == 1) {
            buf_printf(b, "{\"id\":%d,\"callFrame\":{\"functionName\":\"f\"},\"parent\":%d}%s", i,
                       i - 1, comma);
        } else {
            buf_printf(b, "{\"type\":\"O\",\"frame\":0,\"at\":%d}%s", i, comma);
        }
    }
    if (format == 0)
        buf_printf(b, "{\"ph\":\"X\",\"name\":\"e\",\"ts\":%d,\"dur\":0}]", NESTED + 1);
    if (format == 2) buf_z(b, "]}]}");
    if (format != 1) return;
    buf_z(b, "],\"startTime\":0,\"endTime\":8001,\"samples\":[1");
    for (int i = 2; i <= NESTED; i++)
        buf_printf(b, ",%d", i);
    buf_z(b, "],\"timeDeltas\":[1");
    for (int i = 2; i <= NESTED; i++)
        buf_z(b, ",1");
    buf_z(b, "]}");
}

static void deep_trees_are_cut_and_keep_their_value(void **state)
{
    (void)state;
    static tool_decoder *const decoders[] = {decode_trace, decode_cpuprofile, decode_speedscope};
    static const struct decode_options any;
    for (int format = 0; format < 3; format++) {
        struct arena a;
        struct buf text;
        struct decoded d = {0};
        int64_t sum = 0;
        uint32_t cut = 0;
        arena_init(&a, NULL, 1 << 30);
        buf_init(&text, NULL, 8 << 20);
        put_nested(&text, format);
        assert_ok(decoders[format](&a, buf_view(&text), &any, &d, e));
        const struct profile *p = d.profiles;
        for (uint32_t i = 0; i < p->sample_count; i++) {
            const struct profile_sample *s = &p->samples[i];
            uint32_t leaf = p->stack_locations[s->first_location];
            sum += p->values[(i + 1) * p->type_count - 1];
            cut += str_is(p->functions[leaf].name, STACK_CUT_NAME);
        }
        assert_int_equal(sum, NESTED * 1000);
        assert_true(cut > 0);
        assert_true(p->stack_location_count < 16 * text.n + (5 << 20));
        buf_release(&text);
        arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_order_mark_is_no_part_of_a_file),
        cmocka_unit_test(files_in_utf16_are_read),
        cmocka_unit_test(bytes_that_are_no_utf8_are_replaced_and_counted),
        cmocka_unit_test(deep_trees_are_cut_and_keep_their_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
