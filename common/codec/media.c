// SPDX-License-Identifier: Apache-2.0
//
// media.c - tokens and quoted strings of header fields.
#include "codec/media.h"

static bool is_token_byte(unsigned char c)
{
    if (c <= 0x20 || c >= 0x7f) return false;
    // RFC 2045: all printable ASCII but these.
    return strchr("()<>@,;:\\\"/[]?=", c) == NULL;
}

// Bytes of the token at the start of s.
static size_t token(str s)
{
    size_t n = 0;
    while (n < s.n && is_token_byte((unsigned char)s.p[n]))
        n++;
    return n;
}

static bool bad(err *e, const char *what)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "mime: %s", what);
}

bool media_type(str text, str *type, str *rest, err *e)
{
    size_t end = str_find(text, ';');
    str t = str_trim(str_slice(text, 0, end));
    size_t n = token(t);
    if (n == 0) return bad(e, "no media type");
    if (n < t.n) {
        if (t.p[n] != '/') return bad(e, "expected slash after first token");
        size_t sub = token(str_slice(t, n + 1, t.n));
        if (sub == 0) return bad(e, "expected token after slash");
        if (n + 1 + sub < t.n) return bad(e, "unexpected content after media subtype");
    }
    *type = t;
    *rest = str_slice(text, end, text.n);
    return true;
}

// The quoted string that *s begins with, its quotes and backslashes taken away.
static bool quoted(struct arena *a, str *s, str *value)
{
    assert(s->n > 0 && s->p[0] == '"');
    size_t at = 1;
    bool escaped = false;
    for (; at < s->n && s->p[at] != '"'; at++) {
        if (s->p[at] != '\\') continue;
        escaped = true;
        at++;
    }
    if (at >= s->n) return false;
    str raw = str_slice(*s, 1, at);
    *s = str_slice(*s, at + 1, s->n);
    *value = raw;
    if (!escaped) return true;
    char *out = arena_new(a, raw.n);
    size_t n = 0;
    for (size_t i = 0; out && i < raw.n; i++) {
        if (raw.p[i] == '\\') i++;
        out[n++] = raw.p[i];
    }
    // Without memory it is empty, and media_next asks the arena.
    *value = str_make(out, n);
    return true;
}

static bool parameter(struct arena *a, str *s, str *name, str *value)
{
    size_t n = token(*s);
    *name = str_slice(*s, 0, n);
    *s = str_trim(str_slice(*s, n, s->n));
    if (n == 0 || s->n == 0 || s->p[0] != '=') return false;
    *s = str_trim(str_slice(*s, 1, s->n));
    if (s->n > 0 && s->p[0] == '"') return quoted(a, s, value);
    n = token(*s);
    *value = str_slice(*s, 0, n);
    *s = str_slice(*s, n, s->n);
    return n > 0;
}

enum media_step media_next(struct arena *a, str *rest, str *name, str *value, err *e)
{
    *rest = str_trim(*rest);
    if (rest->n == 0) return MEDIA_END;
    bool semicolon = rest->p[0] == ';';
    *rest = str_trim(str_slice(*rest, 1, rest->n));
    if (semicolon && rest->n == 0) return MEDIA_END;  // one at the end is common
    if (semicolon && parameter(a, rest, name, value))
        return arena_ok(a, e) ? MEDIA_PARAM : MEDIA_FAULT;
    bad(e, "invalid media parameter");
    return MEDIA_FAULT;
}
