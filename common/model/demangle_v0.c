// SPDX-License-Identifier: Apache-2.0
//
// demangle_v0.c - Rust v0 names (https://doc.rust-lang.org/rustc/symbol-mangling/v0.html), printed
// as rustc-demangle prints them without hashes. A recursive descent with limits of depth and of
// steps: a back reference leads only backwards, so never to itself, but may stand for a long text.
#include "base/utf8.h"
#include "model/demangle_int.h"

#include <stdio.h>

#define DEPTH_MAX     100
#define STEPS_MAX     10000
#define LIFETIMES_MAX 100  // of one binder
#define UNICODE_MAX   100  // characters of an identifier that is not ASCII

struct v0 {
    str s;
    size_t at;
    struct demangle_text *out;
    uint64_t lifetimes;  // bound here
    unsigned depth;
    unsigned steps;
    bool quiet;  // reads only
    bool bad;
};

typedef void reader(struct v0 *x);

static void read_path(struct v0 *x, bool in_value);
static void read_type(struct v0 *x);
static void read_const(struct v0 *x);

static void put(struct v0 *x, str s)
{
    if (x->bad || x->quiet) return;
    if (!demangle_add(x->out, s)) x->bad = true;
}

static void put_number(struct v0 *x, uint64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    put(x, str_make(text, (size_t)n));
}

static char peek(const struct v0 *x)
{
    return x->bad || x->at >= x->s.n ? 0 : x->s.p[x->at];
}

static char take(struct v0 *x)
{
    char c = peek(x);
    if (c)
        x->at++;
    else
        x->bad = true;
    return c;
}

static bool eat(struct v0 *x, char c)
{
    if (peek(x) != c) return false;
    x->at++;
    return true;
}

static bool enter(struct v0 *x)
{
    if (x->steps++ > STEPS_MAX || x->depth++ > DEPTH_MAX) x->bad = true;
    return !x->bad;
}

static void leave(struct v0 *x)
{
    x->depth--;
}

// ---- numbers and identifiers

static bool digit_of(char c, unsigned *v)
{
    if (c >= '0' && c <= '9')
        *v = (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'z')
        *v = (unsigned)(c - 'a') + 10;
    else if (c >= 'A' && c <= 'Z')
        *v = (unsigned)(c - 'A') + 36;
    else
        return false;
    return true;
}

// "_" is 0, "0_" is 1.
static uint64_t base62(struct v0 *x)
{
    if (eat(x, '_')) return 0;
    uint64_t v = 0;
    while (!eat(x, '_')) {
        unsigned d = 0;
        if (!digit_of(take(x), &d) || __builtin_mul_overflow(v, 62, &v) ||
            __builtin_add_overflow(v, d, &v)) {
            x->bad = true;
            return 0;
        }
    }
    if (__builtin_add_overflow(v, 1, &v)) x->bad = true;
    return v;
}

// 0 without the tag.
static uint64_t optional(struct v0 *x, char tag)
{
    if (!eat(x, tag)) return 0;
    uint64_t v = base62(x);
    if (__builtin_add_overflow(v, 1, &v)) x->bad = true;
    return v;
}

struct ident {
    str text;
    bool punycode;
};

static struct ident read_ident(struct v0 *x)
{
    struct ident id = {.punycode = eat(x, 'u')};
    size_t n = 0;
    char first = take(x);
    if (first < '0' || first > '9') {
        x->bad = true;
        return id;
    }
    n = (size_t)(first - '0');
    while (n && peek(x) >= '0' && peek(x) <= '9' && n <= x->s.n)
        n = 10 * n + (size_t)(take(x) - '0');
    eat(x, '_');
    if (x->bad || n > x->s.n - x->at) {
        x->bad = true;
        return id;
    }
    id.text = str_slice(x->s, x->at, x->at + n);
    x->at += n;
    return id;
}

// ---- Punycode, RFC 3492, with "_" before the encoded part

struct unicode {
    uint32_t c[UNICODE_MAX];
    size_t n;
};

// RFC 3492 6.1
static uint32_t adapt(uint32_t delta, uint32_t points, bool first)
{
    uint32_t k = 0;
    delta = first ? delta / 700 : delta / 2;
    delta += delta / points;
    for (; delta > 455; k += 36)
        delta /= 35;
    return k + 36 * delta / (delta + 38);
}

static uint32_t puny_digit(char c)
{
    if (c >= 'a' && c <= 'z') return (uint32_t)(c - 'a');
    return c >= '0' && c <= '9' ? (uint32_t)(c - '0') + 26 : UINT32_MAX;
}

// One number of variable length; RFC 3492 3.3.
static bool puny_delta(str s, size_t *at, uint32_t bias, uint32_t *out)
{
    uint32_t weight = 1;
    for (uint32_t k = 36; *at < s.n; k += 36) {
        uint32_t digit = puny_digit(s.p[(*at)++]);
        uint32_t part = 0;
        if (digit == UINT32_MAX || __builtin_mul_overflow(digit, weight, &part) ||
            __builtin_add_overflow(*out, part, out)) {
            return false;
        }
        uint32_t threshold = k <= bias ? 1 : MIN(k - bias, 26);
        if (digit < threshold) return true;
        if (__builtin_mul_overflow(weight, 36 - threshold, &weight)) return false;
    }
    return false;
}

static bool insert(struct unicode *u, size_t at, uint32_t c)
{
    bool is_character = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
    if (u->n == UNICODE_MAX || !is_character) return false;
    memmove(&u->c[at + 1], &u->c[at], (u->n - at) * sizeof *u->c);
    u->c[at] = c;
    u->n++;
    return true;
}

static bool puny_read(str s, struct unicode *u)
{
    size_t at = s.n;
    while (at > 0 && s.p[at - 1] != '_')
        at--;
    for (size_t i = 0; i + 1 < at; i++) {
        if (!insert(u, i, (unsigned char)s.p[i])) return false;
    }
    uint32_t c = 128;
    uint32_t bias = 72;
    for (uint32_t i = 0; at < s.n; i++) {
        uint32_t from = i;
        bool first = from == 0;
        if (!puny_delta(s, &at, bias, &i)) return false;
        uint32_t points = (uint32_t)u->n + 1;
        bias = adapt(i - from, points, first);
        if (__builtin_add_overflow(c, i / points, &c)) return false;
        i %= points;
        if (!insert(u, i, c)) return false;
    }
    return true;
}

static void put_ident(struct v0 *x, struct ident id)
{
    struct unicode u = {.n = 0};
    if (!id.punycode) return put(x, id.text);
    if (!puny_read(id.text, &u)) {
        put(x, S("punycode{"));
        put(x, id.text);
        return put(x, S("}"));
    }
    for (size_t i = 0; i < u.n; i++) {
        char bytes[4];
        put(x, str_make(bytes, utf8_put(bytes, u.c[i])));
    }
}

static void put_lifetime(struct v0 *x, uint64_t number)
{
    if (number == 0) return put(x, S("'_"));
    if (number > x->lifetimes) {
        x->bad = true;
        return;
    }
    uint64_t depth = x->lifetimes - number;
    char letter = (char)('a' + depth % 26);
    put(x, S("'"));
    if (depth < 26) return put(x, str_make(&letter, 1));
    put(x, S("_"));
    put_number(x, depth);
}

// Follows a back reference, only backwards, so that none leads to itself. A skipped one is not
// followed: the part that it names was checked when it was read there.
static void follow(struct v0 *x, reader *read)
{
    size_t here = x->at - 1;
    uint64_t target = base62(x);
    if (x->bad || target >= here) {
        x->bad = true;
        return;
    }
    if (x->quiet) return;
    size_t back = x->at;
    x->at = (size_t)target;
    read(x);
    x->at = back;
}

// Up to "E", with commas; returns how many.
static size_t read_list(struct v0 *x, reader *read, str between)
{
    size_t n = 0;
    while (!x->bad && !eat(x, 'E')) {
        if (n++) put(x, between);
        read(x);
    }
    return n;
}

// ---- paths

static void read_generic(struct v0 *x)
{
    if (eat(x, 'L')) return put_lifetime(x, base62(x));
    if (eat(x, 'K')) return read_const(x);
    read_type(x);
}

static void path_of_type(struct v0 *x)
{
    read_path(x, false);
}

static void path_of_value(struct v0 *x)
{
    read_path(x, true);
}

static void read_nested(struct v0 *x, bool in_value)
{
    char space = take(x);
    read_path(x, in_value);
    uint64_t number = optional(x, 's');
    struct ident id = read_ident(x);
    if (space < 'A' || space > 'Z') {
        if (id.text.n) put(x, S("::"));
        return put_ident(x, id);
    }
    put(x, S("::{"));
    if (space == 'C')
        put(x, S("closure"));
    else if (space == 'S')
        put(x, S("shim"));
    else
        put(x, str_make(&space, 1));
    if (id.text.n) put(x, S(":"));
    put_ident(x, id);
    put(x, S("#"));
    put_number(x, number);
    put(x, S("}"));
}

static void read_impl(struct v0 *x, char tag)
{
    if (tag != 'Y') {
        bool quiet = x->quiet;
        optional(x, 's');
        x->quiet = true;
        read_path(x, false);
        x->quiet = quiet;
    }
    put(x, S("<"));
    read_type(x);
    if (tag != 'M') {
        put(x, S(" as "));
        read_path(x, false);
    }
    put(x, S(">"));
}

static void read_path(struct v0 *x, bool in_value)
{
    if (!enter(x)) return;
    char tag = take(x);
    switch (tag) {
    case 'C':
        optional(x, 's');
        put_ident(x, read_ident(x));
        break;
    case 'N':
        read_nested(x, in_value);
        break;
    case 'M':
    case 'X':
    case 'Y':
        read_impl(x, tag);
        break;
    case 'I':
        read_path(x, in_value);
        put(x, in_value ? S("::<") : S("<"));
        read_list(x, read_generic, S(", "));
        put(x, S(">"));
        break;
    case 'B':
        follow(x, in_value ? path_of_value : path_of_type);
        break;
    default:
        x->bad = true;
    }
    leave(x);
}

// ---- types

static str basic_type(char tag)
{
    static const char *const names[26] = {"i8",   "bool",  "char",  "f64", "str", "f32", NULL,
                                          "u8",   "isize", "usize", NULL,  "i32", "u32", "i128",
                                          "u128", "_",     NULL,    NULL,  "i16", "u16", "()",
                                          "...",  NULL,    "i64",   "u64", "!"};
    const char *name = tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : NULL;
    return name ? str_of(name) : (str){0};
}

// How many lifetimes are bound until unbind.
static uint64_t bind(struct v0 *x)
{
    uint64_t n = optional(x, 'G');
    if (n > LIFETIMES_MAX) x->bad = true;
    if (n == 0 || x->bad) return 0;
    put(x, S("for<"));
    for (uint64_t i = 0; i < n; i++) {
        if (i) put(x, S(", "));
        x->lifetimes++;
        put_lifetime(x, 1);
    }
    put(x, S("> "));
    return n;
}

static void read_abi(struct v0 *x)
{
    if (eat(x, 'U')) put(x, S("unsafe "));
    if (!eat(x, 'K')) return;
    put(x, S("extern \""));
    if (eat(x, 'C')) {
        put(x, S("C"));
    } else {
        str name = read_ident(x).text;
        for (size_t i = 0; i < name.n; i++)
            put(x, name.p[i] == '_' ? S("-") : str_slice(name, i, i + 1));
    }
    put(x, S("\" "));
}

static void read_fn(struct v0 *x)
{
    uint64_t bound = bind(x);
    read_abi(x);
    put(x, S("fn("));
    read_list(x, read_type, S(", "));
    put(x, S(")"));
    if (!eat(x, 'u')) {
        put(x, S(" -> "));
        read_type(x);
    }
    x->lifetimes -= bound;
}

static void read_bindings(struct v0 *x, bool open)
{
    while (eat(x, 'p')) {
        put(x, open ? S(", ") : S("<"));
        open = true;
        put_ident(x, read_ident(x));
        put(x, S(" = "));
        read_type(x);
    }
    if (open) put(x, S(">"));
}

// Bindings of associated types go into the brackets of the path's own arguments.
static void read_trait(struct v0 *x)
{
    if (!enter(x)) return;
    bool open = eat(x, 'I');
    read_path(x, false);
    if (open) {
        put(x, S("<"));
        read_list(x, read_generic, S(", "));
    }
    read_bindings(x, open);
    leave(x);
}

static void read_dyn(struct v0 *x)
{
    put(x, S("dyn "));
    uint64_t bound = bind(x);
    read_list(x, read_trait, S(" + "));
    x->lifetimes -= bound;
    if (!eat(x, 'L')) {
        x->bad = true;
        return;
    }
    uint64_t lifetime = base62(x);
    if (lifetime == 0) return;
    put(x, S(" + "));
    put_lifetime(x, lifetime);
}

static void read_reference(struct v0 *x, bool may_write)
{
    put(x, S("&"));
    uint64_t lifetime = eat(x, 'L') ? base62(x) : 0;
    if (lifetime) {
        put_lifetime(x, lifetime);
        put(x, S(" "));
    }
    if (may_write) put(x, S("mut "));
    read_type(x);
}

static void read_array(struct v0 *x, bool sized)
{
    put(x, S("["));
    read_type(x);
    if (sized) {
        put(x, S("; "));
        read_const(x);
    }
    put(x, S("]"));
}

static void read_tuple(struct v0 *x)
{
    put(x, S("("));
    if (read_list(x, read_type, S(", ")) == 1) put(x, S(","));
    put(x, S(")"));
}

static void read_pointer(struct v0 *x, str before)
{
    put(x, before);
    read_type(x);
}

static void read_type(struct v0 *x)
{
    if (!enter(x)) return;
    char tag = take(x);
    str basic = basic_type(tag);
    switch (tag) {
    case 'R':
    case 'Q':
        read_reference(x, tag == 'Q');
        break;
    case 'P':
        read_pointer(x, S("*const "));
        break;
    case 'O':
        read_pointer(x, S("*mut "));
        break;
    case 'A':
    case 'S':
        read_array(x, tag == 'A');
        break;
    case 'T':
        read_tuple(x);
        break;
    case 'F':
        read_fn(x);
        break;
    case 'D':
        read_dyn(x);
        break;
    case 'B':
        follow(x, read_type);
        break;
    default:
        if (basic.n) {
            put(x, basic);
        } else if (!x->bad) {
            x->at--;
            read_path(x, false);
        }
    }
    leave(x);
}

// ---- constants

static str read_hex(struct v0 *x, uint64_t *v)
{
    size_t from = x->at;
    *v = 0;
    while (!x->bad && !eat(x, '_')) {
        unsigned d = 0;
        if (!digit_of(take(x), &d) || d > 15) x->bad = true;
        *v = *v << 4 | d;
    }
    return x->bad ? (str){0} : str_slice(x->s, from, x->at - 1);
}

static void put_char(struct v0 *x, uint64_t v)
{
    char text[24];
    int n = v >= ' ' && v < 127 ? snprintf(text, sizeof text, "'%c'", (char)v)
                                : snprintf(text, sizeof text, "'\\u{%llx}'", (unsigned long long)v);
    put(x, str_make(text, (size_t)n));
}

static void read_const(struct v0 *x)
{
    if (!enter(x)) return;
    char tag = take(x);
    uint64_t v = 0;
    if (tag == 'B') {
        follow(x, read_const);
    } else if (tag == 'p') {
        put(x, S("_"));
    } else if (tag && strchr("aslxnihtmyojbc", tag)) {
        if (strchr("aslxni", tag) && eat(x, 'n')) put(x, S("-"));
        str hex = read_hex(x, &v);
        if (tag == 'b') {
            put(x, v ? S("true") : S("false"));
        } else if (tag == 'c') {
            put_char(x, v);
        } else if (hex.n > 16) {
            put(x, S("0x"));
            put(x, hex);
        } else {
            put_number(x, v);
        }
    } else {
        x->bad = true;
    }
    leave(x);
}

bool demangle_v0(str name, struct demangle_text *out)
{
    struct v0 x = {.s = name, .out = out};
    read_path(&x, true);
    if (peek(&x)) {  // the crate that it was made for
        x.quiet = true;
        read_path(&x, false);
    }
    return !x.bad && x.at == name.n;
}
