// SPDX-License-Identifier: Apache-2.0
//
// utf8.c - one character at a time; the check of whole texts is in str.c.
#include "base/utf8.h"

size_t utf8_get(str s, uint32_t *c)
{
    if (s.n == 0) return 0;
    unsigned char lead = (unsigned char)s.p[0];
    size_t n = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (n > s.n || !str_utf8(str_slice(s, 0, n))) return 0;
    // The lead byte of n bytes has 7 - n bits of the character, each further byte six.
    *c = n == 1 ? lead : lead & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        *c = *c << 6 | ((unsigned char)s.p[i] & 0x3f);
    return n;
}

size_t utf8_put(char out[4], uint32_t c)
{
    assert(c <= 0x10ffff);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00u >> n & 0xff) | c);
    return n;
}

bool utf8_is_text(str s)
{
    return (s.n == 0 || !memchr(s.p, 0, s.n)) && str_utf8(s);
}

str utf8_head(str s, size_t most)
{
    if (s.n <= most) return s;
    // Back to where a character begins.
    while (most > 0 && ((unsigned char)s.p[most] & 0xc0) == 0x80)
        most--;
    return str_slice(s, 0, most);
}

str utf8_mended(struct arena *a, str s)
{
    if (utf8_is_text(s)) return s;
    char *out = arena_new(a, 3 * s.n);  // U+FFFD has three bytes
    if (!out) return (str){0};
    size_t n = 0;
    while (s.n) {
        uint32_t c = 0;
        size_t k = utf8_get(s, &c);
        char bytes[4];
        size_t put = utf8_put(bytes, k && c ? c : 0xfffd);
        memcpy(out + n, bytes, put);
        n += put;
        s = str_slice(s, k ? k : 1, s.n);
    }
    return str_make(out, n);
}
