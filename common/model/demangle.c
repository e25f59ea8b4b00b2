// SPDX-License-Identifier: Apache-2.0
//
// demangle.c - decides which scheme a name has, and calls libiberty within bounds.
#include "base/utf8.h"
#include "model/demangle_int.h"

#include <libiberty/demangle.h>
#include <setjmp.h>

// libiberty searches a type for parameter packs through all its substitutions and prints nothing
// meanwhile, so its callback cannot stop it. Each substitution can double that work.
#define PACK_SUBSTITUTIONS_MAX 12

// "17h", 16 hexadecimal digits, "E"
#define HASH_BYTES 20

struct printing {
    struct demangle_text *text;
    jmp_buf full;
};

// libiberty allocates nothing while it prints, so a jump out of it leaks nothing.
static void on_text(const char *p, size_t n, void *arg)
{
    struct printing *x = arg;
    if (!demangle_add(x->text, str_make(p, n))) longjmp(x->full, 1);
}

static bool print_with_libiberty(const char *name, bool rust, struct demangle_text *text)
{
    struct printing x = {.text = text};
    if (setjmp(x.full)) return false;
    if (rust) return rust_demangle_callback(name, DMGL_RUST | DMGL_ANSI, on_text, &x) != 0;
    return cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP, on_text, &x) !=
           0;
}

static bool is_hash(str s)
{
    str hex = str_slice(s, 3, HASH_BYTES - 1);
    for (size_t i = 0; i < hex.n; i++) {
        bool digit = (hex.p[i] >= '0' && hex.p[i] <= '9') || (hex.p[i] >= 'a' && hex.p[i] <= 'f');
        if (!digit) return false;
    }
    return str_is(str_slice(s, 0, 3), "17h") && s.p[HASH_BYTES - 1] == 'E';
}

// The end of a Rust legacy name, without the compiler's suffix; 0: it is none.
static size_t legacy_end(str name)
{
    if (!str_is(str_slice(name, 0, 3), "_ZN")) return 0;
    for (size_t end = name.n; end >= 3 + HASH_BYTES; end--) {
        bool last = end == name.n || name.p[end] == '.';
        if (last && is_hash(str_slice(name, end - HASH_BYTES, end))) return end;
    }
    return 0;
}

static bool searches_too_long(str name)
{
    size_t packs = 0;
    size_t substitutions = 0;
    for (size_t i = 0; i + 1 < name.n; i++) {
        char next = name.p[i + 1];
        packs += name.p[i] == 'D' && next == 'p';
        substitutions += name.p[i] == 'S' && (next == '_' || (next >= '0' && next <= '9') ||
                                              (next >= 'A' && next <= 'Z'));
    }
    return packs && substitutions > PACK_SUBSTITUTIONS_MAX;
}

static bool print(str name, struct demangle_text *text)
{
    char z[DEMANGLE_NAME_MAX + 1];
    size_t end = name.n;
    bool v0 = name.p[1] == 'R';
    size_t legacy = v0 ? 0 : legacy_end(name);
    if (v0) end = str_find(name, '.');
    if (legacy) end = legacy;
    if (!v0 && !legacy && searches_too_long(name)) return false;
    memcpy(z, name.p, end);
    z[end] = 0;
    if (!(v0 ? demangle_v0(str_slice(name, 2, end), text)
             : print_with_libiberty(z, legacy != 0, text))) {
        return false;
    }
    if (end == name.n) return true;
    return demangle_add(text, S(" [clone ")) && demangle_add(text, str_slice(name, end, name.n)) &&
           demangle_add(text, S("]"));
}

bool demangle(str name, struct buf *out)
{
    if (!demangle_maybe(name)) return false;
    if (name.p[1] == '_') name = str_slice(name, 1, name.n);
    if (name.n > DEMANGLE_NAME_MAX || str_find(name, 0) < name.n) return false;
    struct demangle_text text;
    text.n = 0;
    if (!print(name, &text) || text.n == 0) return false;
    str s = str_make(text.p, text.n);
    // A length within the name may end inside of a character.
    if (!str_utf8(s)) return false;
    buf_str(out, s);
    return true;
}
