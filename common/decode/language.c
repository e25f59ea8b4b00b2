// SPDX-License-Identifier: Apache-2.0
//
// language.c - Pyroscope's list of endings and beginnings that suggest a language; the first wins.
#include "decode/decode.h"

static const struct {
    str language;
    str mark;
    bool ending;
} marks[] = {
    {S_INIT("go"), S_INIT(".go"), true},
    {S_INIT("go"), S_INIT("/usr/local/go/"), false},
    {S_INIT("java"), S_INIT("java/"), false},
    {S_INIT("java"), S_INIT("sun/"), false},
    {S_INIT("ruby"), S_INIT(".rb"), true},
    {S_INIT("ruby"), S_INIT("gems/"), false},
    {S_INIT("nodejs"), S_INIT("./node_modules/"), false},
    {S_INIT("nodejs"), S_INIT(".js"), true},
    {S_INIT("dotnet"), S_INIT("System."), false},
    {S_INIT("dotnet"), S_INIT("Microsoft."), false},
    {S_INIT("python"), S_INIT(".py"), true},
    {S_INIT("rust"), S_INIT("main.rs"), true},
    {S_INIT("rust"), S_INIT("core.rs"), true},
};

// Every string of a profile comes here until one suggests a language, so a look at two or three
// bytes comes before the comparison with thirteen marks.
static bool may_tell(str s)
{
    if (s.n < 3) return false;
    switch (s.p[s.n - 1]) {
    case 'o':
    case 'b':
    case 's':
    case 'y':
        if (s.p[s.n - 3] == '.') return true;
        break;
    default:
        break;
    }
    switch (s.p[0]) {
    case '/':
    case 'j':
    case 's':
    case 'g':
    case '.':
    case 'S':
    case 'M':
        return true;
    default:
        return false;
    }
}

str decode_language(str symbol)
{
    if (!may_tell(symbol)) return (str){0};
    for (size_t i = 0; i < COUNT(marks); i++) {
        bool hit =
            marks[i].ending ? str_ends(symbol, marks[i].mark) : str_starts(symbol, marks[i].mark);
        if (hit) return marks[i].language;
    }
    return (str){0};
}
