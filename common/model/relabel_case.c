// SPDX-License-Identifier: Apache-2.0
//
// relabel_case.c - letters in the other case. Unicode's simple mappings (one character to one,
// UnicodeData.txt) are
// rows of relabel_case.def, sorted, as ranges: each stride-th character from `first` to `last` maps
// to itself plus `delta`.
#include "base/utf8.h"
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
#include "base/search.h"
#include "model/relabel_case.def"
#undef RELABEL_UPPER
};
#undef ROW

static uint32_t mapped(const struct range *v, size_t n, uint32_t c)
{
    size_t low = SEARCH(at, 0, n, v[at].last < c);
    if (low == n || c < v[low].first || (c - v[low].first) % v[low].stride != 0) return c;
    return (uint32_t)((int64_t)c + v[low].delta);
}

// ASCII letters are one range of 26 from `first`.
static str in_case(struct arena *a, str s, const struct range *v, size_t n, char first, int delta)
{
    if (s.n == 0) return S("");
    bool text = str_utf8(s);
    char *out = arena_new(a, text ? s.n * 2 : s.n);  // 2 bytes become at most 3
    if (!out) return (str){0};
    char *at = out;
    while (s.n > 0) {
        char c = s.p[0];
        size_t used = 1;
        if ((unsigned char)c >= 0x80 && text) {
            uint32_t point = 0;
            used = utf8_get(s, &point);
            at += utf8_put(at, mapped(v, n, point));
        } else {
            bool letter = c >= first && c < first + 26;
            *at++ = (char)(letter ? c + delta : c);
        }
        s = str_slice(s, used, s.n);
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
