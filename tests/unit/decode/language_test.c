// SPDX-License-Identifier: Apache-2.0
//
// The language of a profile is told by names in it, by a table.
#include "decode/decode.h"
#include "lib/test.h"

static const struct {
    const char *symbol;
    const char *language;
} languages[] = {
    {"main.go", "go"},
    {"/usr/local/go/src/x", "go"},
    {"java/lang/Thread", "java"},
    {"sun/misc/Unsafe", "java"},
    {"app.rb", "ruby"},
    {"gems/rack", "ruby"},
    {"./node_modules/x", "nodejs"},
    {"index.js", "nodejs"},
    {"System.String", "dotnet"},
    {"Microsoft.Foo", "dotnet"},
    {"app.py", "python"},
    {"src/main.rs", "rust"},
    {"core.rs", "rust"},
    {"lib.rs", ""},
    {"main", ""},
    {"", ""},
    {".go", "go"},
    {"go", ""},
    {"x.gone", ""},
    {"/usr/lib/libc.so", ""},
};

static void language_is_told_by_beginnings_and_endings(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(languages); i++) {
        str got = decode_language(str_of(languages[i].symbol));
        if (!str_is(got, languages[i].language)) {
            fail_msg("%s: %.*s", languages[i].symbol, STR(got));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(language_is_told_by_beginnings_and_endings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
