// SPDX-License-Identifier: Apache-2.0
//
// http.c - headers, a list in an arena, and the grammar of tokens, values and host names.
#include "net/http.h"

void http_headers_add(struct http_headers *h, struct arena *a, str name, str value)
{
    if (!arena_grow(a, (void *)&h->v, &h->cap, h->n + 1, sizeof *h->v)) return;
    assert(h->n < h->cap);
    h->v[h->n++] = (struct http_header){.name = name, .value = value};
}

static const struct http_header *find(const struct http_headers *h, const char *name)
{
    str wanted = str_of(name);
    for (size_t i = 0; i < h->n; i++)
        if (str_eq(h->v[i].name, wanted)) return &h->v[i];
    return NULL;
}

str http_headers_get(const struct http_headers *h, const char *name)
{
    const struct http_header *found = find(h, name);
    return found ? found->value : (str){0};
}

bool http_headers_has(const struct http_headers *h, const char *name)
{
    return find(h, name) != NULL;
}

// RFC 9110 section 5.6.2.
static bool is_token_byte(unsigned char c)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
    return c != 0 && strchr(others, c) != NULL;
}

bool http_is_token(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_token_byte((unsigned char)s.p[i])) return false;
    return s.n > 0;
}

bool http_is_value(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

// RFC 3986 section 3.2.2: the bytes of a registered name. Bytes of UTF-8 do not belong to them.
static bool is_host_byte(unsigned char c, bool in_brackets)
{
    if (in_brackets && c == ':') return true;
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
    return c != 0 && strchr("-._~%!$&'()*+;=", c) != NULL;
}

bool http_is_authority(str s)
{
    bool v6 = str_starts(s, S("["));
    size_t end = v6 ? str_find(s, ']') : str_find(s, ':');
    str host = str_slice(s, v6, end);
    for (size_t i = 0; i < host.n; i++)
        if (!is_host_byte((unsigned char)host.p[i], v6)) return false;
    if (v6 && (end == s.n || host.n == 0)) return false;
    str rest = str_slice(s, end + v6, s.n);
    if (rest.n == 0) return true;
    // A colon and at most five digits. Whether that is a port is the system's to say.
    if (host.n == 0 || rest.p[0] != ':' || rest.n > 6) return false;
    for (size_t i = 1; i < rest.n; i++)
        if (rest.p[i] < '0' || rest.p[i] > '9') return false;
    return true;
}

static str without_default_port(str s)
{
    if (str_ends(s, S(":80"))) return str_slice(s, 0, s.n - 3);
    if (str_ends(s, S(":443"))) return str_slice(s, 0, s.n - 4);
    return str_ends(s, S(":")) ? str_slice(s, 0, s.n - 1) : s;
}

bool http_same_authority(str a, str b)
{
    // Both default ports, because a proxy before us may speak TLS where we do not.
    return str_ieq(without_default_port(a), without_default_port(b));
}

void http_lower(char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] >= 'A' && p[i] <= 'Z') p[i] = (char)(p[i] + ('a' - 'A'));
}

bool http_may_answer(const struct http_header *h)
{
    static const char *const ours[] = {"content-length", "connection",       "transfer-encoding",
                                       "keep-alive",     "proxy-connection", "upgrade"};
    // These frame the message or belong to one connection: the server writes them itself.
    for (size_t i = 0; i < COUNT(ours); i++)
        if (str_ieq(h->name, str_of(ours[i]))) return false;
    return http_is_token(h->name) && http_is_value(h->value);
}
