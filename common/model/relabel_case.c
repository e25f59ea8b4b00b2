// SPDX-License-Identifier: Apache-2.0
//
// Letters in the other case. Unicode's simple mappings (one character to one, UnicodeData.txt) are
// rows of relabel_case.def, sorted, as ranges: each stride-th character from `first` to `last` maps
// to itself plus `delta`.
#include "model/relabel.h"

struct range {
    uint32_t first;
    uint32_t last;
    uint32_t stride;
    int32_t delta;
};

#define ROW(first, last, stride, delta) {first, last, stride, delta},
static const struct range lower[] = {
#define RELABEL_LOWER
#include "model/relabel_case.def"
#undef RELABEL_LOWER
};
static const struct range upper[] = {
#define RELABEL_UPPER
#include "model/relabel_case.def"
#undef RELABEL_UPPER
};
#undef ROW

static uint32_t mapped(const struct range *v, size_t n, uint32_t c)
{
    size_t low = 0;
    size_t high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (v[middle].last < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == n || c < v[low].first || (c - v[low].first) % v[low].stride != 0) return c;
    return (uint32_t)((int64_t)c + v[low].delta);
}

// The character at p of valid UTF-8; *p moves behind it.
static uint32_t read_character(const unsigned char **p)
{
    uint32_t c = *(*p)++;
    if (c < 0x80) return c;
    int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    c &= 0x3fu >> more;
    for (; more > 0; more--)
        c = c << 6 | (*(*p)++ & 0x3fu);
    return c;
}

static void write_character(char **p, uint32_t c)
{
    if (c < 0x80) {
        *(*p)++ = (char)c;
        return;
    }
    int more = c >= 0x10000 ? 3 : c >= 0x800 ? 2 : 1;
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
    *(*p)++ = (char)(leads[more] | c >> (6 * more));
    for (; more > 0; more--)
        *(*p)++ = (char)(0x80 | (c >> (6 * (more - 1)) & 0x3f));
}

// ASCII letters are one range of 26 from `first`.
static str in_case(struct arena *a, str s, const struct range *v, size_t n, char first, int delta)
{
    if (s.n == 0) return S("");
    bool text = str_utf8(s);
    char *out = arena_new(a, text ? s.n * 2 : s.n);  // 2 bytes become at most 3
    if (!out) return (str){0};
    char *at = out;
    const unsigned char *p = (const unsigned char *)s.p;
    const unsigned char *end = p + s.n;
    while (p < end) {
        if (*p >= 0x80 && text) {
            write_character(&at, mapped(v, n, read_character(&p)));
            continue;
        }
        char c = (char)*p++;
        bool letter = c >= first && c < first + 26;
        *at++ = (char)(letter ? c + delta : c);
    }
    return (str){out, (size_t)(at - out)};
}

str relabel_lower(struct arena *a, str s)
{
    return in_case(a, s, lower, COUNT(lower), 'A', 'a' - 'A');
}

str relabel_upper(struct arena *a, str s)
{
    return in_case(a, s, upper, COUNT(upper), 'a', 'A' - 'a');
}
