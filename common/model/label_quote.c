// SPDX-License-Identifier: Apache-2.0
//
// label_quote.c - strings in quotes as Go prints them, for messages that equal Pyroscope's.
#include "base/utf8.h"
#include "model/label.h"

// Code points that Go's unicode.IsPrint refuses and that occur in real text: controls, spaces other
// than U+0020, format characters, surrogates, private use and non-characters. Unassigned code
// points are printed as they are: which they are changes with every Unicode version.
static const struct {
    uint32_t first;
    uint32_t last;
} unseen[] = {
    {0x80, 0xa0},        {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
    {0x6dd, 0x6dd},      {0x70f, 0x70f},     {0x1680, 0x1680},   {0x180e, 0x180e},
    {0x2000, 0x200f},    {0x2028, 0x202f},   {0x205f, 0x206f},   {0x3000, 0x3000},
    {0xd800, 0xf8ff},    {0xfeff, 0xfeff},   {0xfff0, 0xfffb},   {0xfffe, 0xffff},
    {0x110bd, 0x110bd},  {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0001, 0xe007f},
    {0xf0000, 0x10ffff},
};

static bool is_seen(uint32_t c)
{
    for (size_t i = 0; i < COUNT(unseen); i++) {
        if (c >= unseen[i].first && c <= unseen[i].last) return false;
    }
    return true;
}

static void quote_ascii(unsigned char c, struct buf *out)
{
    static const char letters[] = "abtnvfr";  // of 0x07 to 0x0d
    if (c == '"' || c == '\\') {
        buf_byte(out, '\\');
        buf_byte(out, c);
    } else if (c >= 0x07 && c <= 0x0d) {
        buf_byte(out, '\\');
        buf_byte(out, (unsigned char)letters[c - 0x07]);
    } else if (c < 0x20 || c == 0x7f) {
        buf_printf(out, "\\x%02x", c);
    } else {
        buf_byte(out, c);
    }
}

void label_quote(str s, struct buf *out)
{
    buf_byte(out, '"');
    while (s.n > 0) {
        uint32_t c = 0;
        size_t n = utf8_get(s, &c);
        if (n == 0) {
            buf_printf(out, "\\x%02x", (unsigned char)s.p[0]);
            n = 1;
        } else if (n == 1) {
            quote_ascii((unsigned char)c, out);
        } else if (is_seen(c)) {
            buf_put(out, s.p, n);
        } else {
            buf_printf(out, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        }
        s = str_slice(s, n, s.n);
    }
    buf_byte(out, '"');
}
