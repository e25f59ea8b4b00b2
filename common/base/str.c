// SPDX-License-Identifier: Apache-2.0
//
// str.c - comparing, finding and cutting bytes; numbers that are whole texts; the check for UTF-8.
#include "base/str.h"

#define DISTANCE_MAX 64

int str_cmp(str a, str b)
{
    size_t n = MIN(a.n, b.n);
    int c = n ? memcmp(a.p, b.p, n) : 0;
    if (c != 0) return c;
    return a.n < b.n ? -1 : a.n > b.n;
}

bool str_starts(str s, str prefix)
{
    return s.n >= prefix.n && str_eq(str_slice(s, 0, prefix.n), prefix);
}

bool str_ends(str s, str suffix)
{
    return s.n >= suffix.n && str_eq(str_slice(s, s.n - suffix.n, s.n), suffix);
}

bool str_contains(str s, str part)
{
    return part.n == 0 || (s.n >= part.n && memmem(s.p, s.n, part.p, part.n) != NULL);
}

// Three rows of the table are enough: a swap of two neighbours looks back by two.
unsigned str_distance(str a, str b)
{
    unsigned rows[3][DISTANCE_MAX + 1];
    a = str_slice(a, 0, DISTANCE_MAX);
    b = str_slice(b, 0, DISTANCE_MAX);
    // Only the beginnings: the table has a fixed size, and names that a person mistypes are short.
    unsigned *before = rows[0];
    unsigned *last = rows[1];
    unsigned *now = rows[2];
    for (unsigned k = 0; k <= b.n; k++)
        last[k] = k;
    for (unsigned i = 1; i <= a.n; i++) {
        now[0] = i;
        for (unsigned k = 1; k <= b.n; k++) {
            unsigned change = last[k - 1] + (a.p[i - 1] != b.p[k - 1]);
            now[k] = MIN(change, MIN(last[k], now[k - 1]) + 1);
            bool swapped = i > 1 && k > 1 && a.p[i - 1] == b.p[k - 2] && a.p[i - 2] == b.p[k - 1];
            if (swapped) now[k] = MIN(now[k], before[k - 2] + 1);
        }
        unsigned *free = before;
        before = last;
        last = now;
        now = free;
    }
    return last[b.n];
}

bool str_among(str s, const str *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(s, v[i])) return true;
    }
    return false;
}

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

bool str_ieq(str a, str b)
{
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++) {
        if (lower(a.p[i]) != lower(b.p[i])) return false;
    }
    return true;
}

size_t str_find(str s, char c)
{
    const char *at = s.n ? memchr(s.p, c, s.n) : NULL;
    return at ? (size_t)(at - s.p) : s.n;
}

size_t str_rfind(str s, char c)
{
    assert(s.p || s.n == 0);
    const char *at = s.n ? memrchr(s.p, c, s.n) : NULL;
    return at ? (size_t)(at - s.p) : s.n;
}

size_t str_find_part(str s, str part)
{
    assert(part.n > 0);
    const char *at = s.n ? memmem(s.p, s.n, part.p, part.n) : NULL;
    return at ? (size_t)(at - s.p) : s.n;
}

str str_slice(str s, size_t from, size_t to)
{
    if (to > s.n) to = s.n;
    // Out of range is empty, not an error: parsers cut behind the end all the time.
    if (from >= to) return (str){s.p ? s.p + MIN(from, s.n) : NULL, 0};
    return (str){s.p + from, to - from};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

str str_trim(str s)
{
    while (s.n > 0 && is_space(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

str str_split(str s, char c, str *rest)
{
    size_t at = str_find(s, c);
    // p of *rest is NULL where there was no c: so "a," differs from "a".
    *rest = at < s.n ? str_slice(s, at + 1, s.n) : (str){0};
    return str_slice(s, 0, at);
}

bool str_u64(str s, uint64_t *v)
{
    if (s.n == 0) return false;
    uint64_t sum = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        if (__builtin_mul_overflow(sum, 10, &sum)) return false;
        if (__builtin_add_overflow(sum, (uint64_t)(s.p[i] - '0'), &sum)) return false;
    }
    *v = sum;
    return true;
}

bool str_i64(str s, int64_t *v)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    if (negative || (s.n > 0 && s.p[0] == '+')) s = str_slice(s, 1, s.n);
    uint64_t magnitude = 0;
    if (!str_u64(s, &magnitude)) return false;
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0)) return false;
    *v = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool str_hex(str s, uint64_t *v)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit > 15 || sum >> 60) return false;
        sum = sum << 4 | digit;
    }
    if (s.n) *v = sum;
    return s.n > 0;
}

// Bytes that follow a lead byte and the lowest second byte that is not overlong; table 3-7 of the
// Unicode standard.
static size_t utf8_rest(const unsigned char *p, size_t left)
{
    unsigned char c = p[0];
    size_t n = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    if (c < 0xc2 || c > 0xf4 || left < n) return 0;
    unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    unsigned char high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i <= n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    return n;
}

static uint64_t eight(const unsigned char *p)
{
    uint64_t word = 0;
    memcpy(&word, p, sizeof word);
    return word;
}

// Bytes below 0x80 only? The last words may overlap.
static bool is_ascii(const unsigned char *p, size_t n)
{
    uint64_t high = 0;
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        high |= (eight(p + i) | eight(p + i + 8)) | (eight(p + i + 16) | eight(p + i + 24));
    for (; i + 8 <= n; i += 8)
        high |= eight(p + i);
    // The last eight bytes once more, some of them for the second time: cheaper than one by one.
    if (n >= 8) {
        high |= eight(p + n - 8);
    } else {
        for (; i < n; i++)
            high |= p[i];
    }
    return (high & 0x8080808080808080u) == 0;
}

bool str_utf8(str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    const unsigned char *end = s.n ? p + s.n : p;
    if (is_ascii(p, s.n)) return true;  // nearly all
    while (p < end) {
        if (end - p >= 8) {
            uint64_t word = 0;
            memcpy(&word, p, 8);
            if ((word & 0x8080808080808080u) == 0) {
                p += 8;
                continue;
            }
        }
        if (*p < 0x80) {
            p++;
            continue;
        }
        size_t rest = utf8_rest(p, (size_t)(end - p) - 1);
        if (rest == 0) return false;
        p += rest + 1;
    }
    return true;
}
