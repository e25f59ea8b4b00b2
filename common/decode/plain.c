// SPDX-License-Identifier: Apache-2.0
//
// plain.c - editors and shells of Windows write texts in UTF-16, or with a byte order mark, which
// would be a part of the first name.
#include "decode/plain.h"

#include "base/utf8.h"
#include "decode/decode.h"

#define UTF8_MARK    S("\xef\xbb\xbf")
#define LITTLE_MARK  S("\xff\xfe")
#define BIG_MARK     S("\xfe\xff")
#define LITTLE_WIDER S("\xff\xfe\0\0")
#define BIG_WIDER    S("\0\0\xfe\xff")
#define WIDE_BYTES   8
#define UNIT_MOST    3  // bytes of UTF-8 that a unit of UTF-16 becomes, at most
#define REPLACEMENT  0xfffdu

static uint32_t unit_at(str s, size_t at, bool big)
{
    uint32_t one = (unsigned char)s.p[at];
    uint32_t two = (unsigned char)s.p[at + 1];
    return big ? one << 8 | two : two << 8 | one;
}

// A half of a pair without the other, and half a unit at the end, become U+FFFD.
static bool of_utf16(struct arena *a, str s, bool big, str *out, err *e)
{
    char *to = arena_new(a, (s.n / 2 + 1) * UNIT_MOST);
    if (!to) return arena_fail(a, e);
    size_t n = 0;
    size_t at = 0;
    for (; at + 2 <= s.n; at += 2) {
        uint32_t c = unit_at(s, at, big);
        char bytes[4];
        if (c >= 0xd800 && c < 0xdc00 && at + 4 <= s.n) {
            uint32_t low = unit_at(s, at + 2, big);
            if (low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                at += 2;
            }
        }
        if (c >= 0xd800 && c < 0xe000) c = REPLACEMENT;
        size_t put = utf8_put(bytes, c);
        memcpy(to + n, bytes, put);
        n += put;
    }
    if (at < s.n) n += utf8_put(to + n, REPLACEMENT);
    assert(n <= (s.n / 2 + 1) * UNIT_MOST);
    *out = str_make(to, n);
    return true;
}

// UTF-16 without a mark: every other byte of Latin letters is zero, and no text in UTF-8 has zeros.
static bool is_wide(str s, size_t zero)
{
    bool wide = s.n >= WIDE_BYTES;
    for (size_t i = 0; wide && i < WIDE_BYTES; i++)
        wide = (s.p[i] == 0) == (i % 2 == zero);
    return wide;
}

str plain_line(str line)
{
    return str_starts(line, UTF8_MARK) ? str_slice(line, UTF8_MARK.n, line.n) : line;
}

bool decode_plain(struct arena *a, str bytes, str *out, err *e)
{
    *out = bytes;
    if (str_starts(bytes, LITTLE_WIDER) || str_starts(bytes, BIG_WIDER))
        return err_set(e, ERR_INVALID_ARGUMENT, "text in UTF-32; UTF-8 and UTF-16 can be read");
    bool big = str_starts(bytes, BIG_MARK);
    if (big || str_starts(bytes, LITTLE_MARK))
        return of_utf16(a, str_slice(bytes, LITTLE_MARK.n, bytes.n), big, out, e);
    if (is_wide(bytes, 0) || is_wide(bytes, 1))
        return of_utf16(a, bytes, is_wide(bytes, 0), out, e);
    *out = plain_line(bytes);
    return true;
}

bool plain_json(struct arena *a, str bytes, struct losses *l, str *out, err *e)
{
    if (!decode_plain(a, bytes, out, e)) return false;
    if (str_utf8(*out)) return true;
    // Quotes end strings; one within a string, behind a backslash, makes two of it here.
    for (str rest = *out; rest.n;) {
        if (!str_utf8(str_split(rest, '"', &rest))) losses_add(l, LOSS_BAD_TEXT, 1);
    }
    *out = utf8_mended(a, *out);
    return arena_ok(a, e);
}
