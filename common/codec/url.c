// SPDX-License-Identifier: Apache-2.0
//
// url.c - percent-encoding both ways, and pairs of a query string.
#include "codec/url.h"

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

str url_decode(struct arena *a, str s, bool plus_is_space)
{
    if (str_find(s, '%') == s.n && (!plus_is_space || str_find(s, '+') == s.n)) return s;
    // Most need no copy. The result is never longer.
    char *out = arena_new(a, s.n);
    if (!out) return (str){0};
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        // A '%' without two digits stays as it is, as browsers do.
        int high = s.p[i] == '%' && i + 2 < s.n ? digit(s.p[i + 1]) : -1;
        int low = high >= 0 ? digit(s.p[i + 2]) : -1;
        if (low >= 0) {
            out[n++] = (char)(high << 4 | low);
            i += 2;
        } else {
            out[n++] = plus_is_space && s.p[i] == '+' ? ' ' : s.p[i];
        }
    }
    assert(n <= s.n);
    return str_make(out, n);
}

bool url_query_next(struct arena *a, str *query, str *key, str *value)
{
    while (query->n > 0) {
        str rest = {0};
        str pair = str_split(*query, '&', &rest);
        *query = rest;
        if (pair.n == 0) continue;
        str raw = {0};
        *key = url_decode(a, str_split(pair, '=', &raw), true);
        *value = url_decode(a, raw, true);
        return true;
    }
    return false;
}

bool url_query(struct arena *a, str query, const char *key, str *value)
{
    str name = {0};
    str found = {0};
    while (url_query_next(a, &query, &name, &found)) {
        if (!str_is(name, key)) continue;
        *value = found;
        return true;
    }
    return false;
}

void url_encode(struct buf *b, str s)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (plain) {
            buf_byte(b, c);
        } else {
            buf_byte(b, '%');
            buf_byte(b, (unsigned char)hex[c >> 4]);
            buf_byte(b, (unsigned char)hex[c & 15]);
        }
    }
}
