// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "model/frame_name.h"

#define LONG_NAME                                                                              \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567" \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567" \
    "012345678901234567890123456789012345678901234567890123456789012345678901234567"

static const struct {
    const char *file;
    uint64_t address;
    const char *name;
} names[] = {
    {"/usr/lib/libc.so.6", 0x1234, "libc.so.6!0x1234"},
    {"libc.so.6", 1, "libc.so.6!0x1"},
    {"/usr/lib/x/", 5, "0x5"},
    {"C:\\x\\y.dll", 5, "y.dll!0x5"},
    {"/a\\b", 5, "a\\b!0x5"},
    {"", UINT64_MAX, "0xffffffffffffffff"},
    {"/usr/lib/libc.so.6", 0, "[libc.so.6]"},
    {"[vdso]", 0, "[vdso]"},
    {"[vdso]", 16, "[vdso]!0x10"},
    {"/usr/lib/", 0, "[unknown]"},
    {"", 0, "[unknown]"},
    {"/" LONG_NAME "é", UINT64_MAX, LONG_NAME "!0xffffffffffffffff"},
};

static void a_name_is_made_of_what_is_known(void **state)
{
    (void)state;
    assert_int_equal(strlen(LONG_NAME), FRAME_NAME_FILE_MAX - 1);
    for (size_t i = 0; i < COUNT(names); i++) {
        char room[FRAME_NAME_MAX];
        str name = frame_name_made(str_of(names[i].file), names[i].address, room);
        if (!str_is(name, names[i].name)) fail_msg("%s: %.*s", names[i].name, STR(name));
    }
}

static void a_function_is_named_before_its_address(void **state)
{
    (void)state;
    str strings[] = {S(""), S("f"), S("_Zf"), S(""), S("/bin/x")};
    struct symbol_function functions[] = {{0},
                                          {.name = 1, .system_name = 2},
                                          {.system_name = 2},
                                          {.name = 3, .filename = 4}};
    struct symbol_mapping mappings[] = {{0}, {.filename = 4}};
    struct symbol_frame frames[] = {{0},
                                    {.function = 1, .address = 9},
                                    {.function = 2},
                                    {.function = 3},
                                    {.mapping = 1},
                                    {.function = 3, .mapping = 1, .address = 9}};
    struct symbol_table t = {.strings = strings,
                             .functions = functions,
                             .mappings = mappings,
                             .frames = frames,
                             .string_count = COUNT(strings),
                             .function_count = COUNT(functions),
                             .mapping_count = COUNT(mappings),
                             .frame_count = COUNT(frames)};
    static const char *const want[] = {"[unknown]", "f", "_Zf", "[unknown]", "[x]", "x!0x9"};
    for (uint32_t i = 0; i < COUNT(frames); i++) {
        char room[FRAME_NAME_MAX];
        str name = frame_name(&t, i, room);
        if (!str_is(name, want[i])) fail_msg("%u: %.*s", i, STR(name));
        assert_true(frame_name_is(&t, i, str_of(want[i])));
        assert_false(frame_name_is(&t, i, S("other")));
        assert_int_equal(frame_name_row(&t, i), i == 1 ? 1 : i == 2 ? 2 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_made_of_what_is_known),
        cmocka_unit_test(a_function_is_named_before_its_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
