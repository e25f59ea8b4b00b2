// SPDX-License-Identifier: Apache-2.0
//
// jfr_names.c - names with numbers that differ from run to run.
#include "decode/jfr_int.h"

static bool eat(str *s, str prefix)
{
    if (!str_starts(*s, prefix)) return false;
    *s = str_slice(*s, prefix.n, s->n);
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

static size_t eat_all(str *s, bool (*is)(char))
{
    size_t n = 0;
    while (n < s->n && is(s->p[n])) {
        n++;
    }
    *s = str_slice(*s, n, s->n);
    return n;
}

// The place behind the last `mark` that is not at the start; 0 if there is none.
static size_t behind(str s, str mark)
{
    for (size_t i = s.n; i > mark.n; i--) {
        if (str_ends(str_slice(s, 0, i), mark) && i > mark.n) return i;
    }
    return 0;
}

// $123/0x00ab, /12ab, .12ab, 123
static bool is_lambda_number(str s)
{
    str all = s;
    if (eat_all(&all, is_digit) && all.n == 0) return true;
    eat(&s, S("$"));
    eat_all(&s, is_digit);
    if (!eat(&s, S(".")) && !eat(&s, S("/"))) return false;
    eat(&s, S("0x"));
    return eat_all(&s, is_hex) > 0 && s.n == 0;
}

static void eat_tmp(str *s)
{
    str rest = *s;
    eat(&rest, S("."));
    if (eat(&rest, S("/tmp/"))) *s = rest;
}

static bool is_library_end(str s)
{
    if (!eat(&s, S(".so"))) return false;
    eat(&s, S(" (deleted)"));
    return s.n == 0;
}

static bool is_zstd(str s)
{
    eat_tmp(&s);
    if (!eat(&s, S("libzstd-jni-"))) return false;
    bool ok = eat_all(&s, is_digit) && eat(&s, S(".")) && eat_all(&s, is_digit) &&
              eat(&s, S(".")) && eat_all(&s, is_digit) && eat(&s, S("-")) && eat_all(&s, is_digit);
    return ok && is_library_end(s);
}

static bool is_corretto(str s)
{
    eat_tmp(&s);
    eat(&s, S("lib"));
    if (!eat(&s, S("amazonCorrettoCryptoProvider"))) return false;
    eat(&s, S("NativeLibraries."));
    if (eat_all(&s, is_hex) != 16) return false;
    if (!eat(&s, S("/libcrypto"))) eat(&s, S("/libamazonCorrettoCryptoProvider"));
    return is_library_end(s);
}

static bool is_profiler(str s)
{
    eat_tmp(&s);
    if (!eat(&s, S("libasyncProfiler-"))) return false;
    bool ok = eat(&s, S("linux-arm64")) || eat(&s, S("linux-musl-x64")) ||
              eat(&s, S("linux-x64")) || eat(&s, S("macos"));
    return ok && eat(&s, S("-17b9a1d8156277a98ccc871afa9a8f69215f92")) && is_library_end(s);
}

str jfr_name_merge(struct arena *a, str name)
{
    const str accessor = S("jdk/internal/reflect/GeneratedMethodAccessor");
    str number = name;
    if (eat(&number, accessor) && eat_all(&number, is_digit) && number.n == 0) {
        return S("jdk/internal/reflect/GeneratedMethodAccessor_");
    }
    if (is_zstd(name)) return S("libzstd-jni-_.so");
    if (is_corretto(name)) return S("libamazonCorrettoCryptoProvider_.so");
    if (is_profiler(name)) return S("libasyncProfiler-_.so");
    if (str_find(name, '$') == name.n) return name;
    size_t end = behind(name, S("$$Lambda"));
    if (!end || !is_lambda_number(str_slice(name, end, name.n))) end = 0;
    size_t proxy = behind(end ? str_slice(name, 0, end) : name, S("$$EnhancerBySpringCGLIB$$"));
    if (proxy) end = proxy;
    return end ? arena_printf(a, "%.*s_", STR(str_slice(name, 0, end))) : name;
}
