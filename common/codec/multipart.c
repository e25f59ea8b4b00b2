// SPDX-License-Identifier: Apache-2.0
#include "codec/multipart.h"

#define BOUNDARY_MAX 70  // RFC 2046 section 5.1.1
#define HEADS_MAX    16384

static bool bad(err *e, const char *what)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "multipart body: %s", what);
}

// The quoted string that *s begins with, its quotes and backslashes taken away.
static bool quoted(struct arena *a, str *s, str *value)
{
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
    *value = str_make(out, n);
    return true;
}

// The next "; name=value" of a header; *rest begins after the value before. False at the end, and
// with *fault set where it is malformed.
static bool parameter(struct arena *a, str *rest, str *name, str *value, bool *fault)
{
    *rest = str_trim(*rest);
    if (rest->n == 0) return false;
    *fault = true;
    if (rest->p[0] != ';') return false;
    str s = str_trim(str_slice(*rest, 1, rest->n));
    *fault = false;
    if (s.n == 0) return false;  // a semicolon at the end is common
    size_t equals = str_find(s, '=');
    *fault = true;
    if (equals == s.n) return false;
    *name = str_trim(str_slice(s, 0, equals));
    s = str_trim(str_slice(s, equals + 1, s.n));
    if (s.n > 0 && s.p[0] == '"') {
        if (!quoted(a, &s, value)) return false;
    } else {
        *value = str_trim(str_slice(s, 0, str_find(s, ';')));
        s = str_slice(s, str_find(s, ';'), s.n);
    }
    *rest = s;
    *fault = false;
    return true;
}

static bool boundary_of(struct arena *a, str content_type, str *boundary, err *e)
{
    size_t at = str_find(content_type, ';');
    if (!str_ieq(str_trim(str_slice(content_type, 0, at)), S("multipart/form-data"))) {
        return bad(e, "the content type is not multipart/form-data");
    }
    str rest = str_slice(content_type, at, content_type.n);
    str name = {0};
    str value = {0};
    bool fault = false;
    while (parameter(a, &rest, &name, &value, &fault)) {
        if (!str_ieq(name, S("boundary"))) continue;
        if (value.n == 0 || value.n > BOUNDARY_MAX) return bad(e, "the boundary has a bad length");
        *boundary = value;
        return true;
    }
    return bad(e, fault ? "the content type is malformed" : "no multipart boundary param");
}

static bool disposition(struct arena *a, str value, struct multipart_part *part, err *e)
{
    size_t at = str_find(value, ';');
    str rest = str_slice(value, at, value.n);
    str name = {0};
    str v = {0};
    bool fault = false;
    while (parameter(a, &rest, &name, &v, &fault)) {
        if (str_ieq(name, S("name"))) part->name = v;
        if (!str_ieq(name, S("filename"))) continue;
        part->filename = v;
        part->is_file = true;
    }
    return fault ? bad(e, "a Content-Disposition is malformed") : true;
}

static bool heads(struct arena *a, str text, struct multipart_part *part, err *e)
{
    while (text.n > 0) {
        size_t at = str_find(text, '\n');
        str line = str_trim(str_slice(text, 0, at));
        text = str_slice(text, at + 1, text.n);
        size_t colon = str_find(line, ':');
        if (colon == line.n || colon == 0) return bad(e, "a part has a malformed header line");
        str name = str_slice(line, 0, colon);
        str value = str_trim(str_slice(line, colon + 1, line.n));
        if (str_ieq(name, S("content-type"))) part->content_type = value;
        if (str_ieq(name, S("content-disposition")) && !disposition(a, value, part, e)) {
            return false;
        }
    }
    return true;
}

static size_t find(str s, str what)
{
    const char *at = s.n ? memmem(s.p, s.n, what.p, what.n) : NULL;
    return at ? (size_t)(at - s.p) : s.n;
}

enum delimiter {
    NONE,
    BETWEEN,
    CLOSING
};

// What follows "--boundary": spaces and a line end, or "--". *rest becomes what comes then.
static enum delimiter delimiter_tail(str s, str *rest)
{
    if (str_starts(s, S("--"))) return CLOSING;
    size_t at = 0;
    while (at < s.n && (s.p[at] == ' ' || s.p[at] == '\t'))
        at++;
    if (!str_starts(str_slice(s, at, s.n), S("\r\n"))) return NONE;
    *rest = str_slice(s, at + 2, s.n);
    return BETWEEN;
}

// Cuts the bytes before the next delimiter line off *rest. `needle` is CRLF "--" boundary; at the
// start of the body and of a part, the CRLF may be the one before.
static enum delimiter next_delimiter(str *rest, str needle, str *before)
{
    str dashes = str_slice(needle, 2, needle.n);
    if (str_starts(*rest, dashes)) {
        str tail = str_slice(*rest, dashes.n, rest->n);
        enum delimiter d = delimiter_tail(tail, &tail);
        if (d != NONE) {
            *before = str_slice(*rest, 0, 0);
            *rest = tail;
            return d;
        }
    }
    size_t from = 0;
    for (;;) {
        size_t at = from + find(str_slice(*rest, from, rest->n), needle);
        if (at >= rest->n) return NONE;
        str tail = str_slice(*rest, at + needle.n, rest->n);
        enum delimiter d = delimiter_tail(tail, &tail);
        if (d != NONE) {
            *before = str_slice(*rest, 0, at);
            *rest = tail;
            return d;
        }
        from = at + needle.n;
    }
}

static bool one_part(struct arena *a, str *rest, struct multipart_part *part, err *e)
{
    size_t end = str_starts(*rest, S("\r\n")) ? 0 : find(*rest, S("\r\n\r\n")) + 2;
    if (end >= rest->n || end > HEADS_MAX) return bad(e, "a part's header does not end");
    if (!heads(a, str_slice(*rest, 0, end), part, e)) return false;
    *rest = str_slice(*rest, end + 2, rest->n);
    return true;
}

bool multipart_parse(struct arena *a, str content_type, str body, struct multipart_part **parts,
                     size_t *count, err *e)
{
    str boundary = {0};
    if (!boundary_of(a, content_type, &boundary, e)) return false;
    str needle = arena_printf(a, "\r\n--%.*s", STR(boundary));
    struct multipart_part *out = NULL;
    size_t room = 0;
    size_t n = 0;
    if (!arena_ok(a, e)) return false;

    str skipped = {0};
    enum delimiter d = next_delimiter(&body, needle, &skipped);
    if (d == NONE) return bad(e, "the boundary does not occur");
    while (d == BETWEEN) {
        if (n == MULTIPART_PARTS_MAX) return bad(e, "too many parts");
        if (!arena_grow(a, &out, &room, n + 1, sizeof *out)) return arena_ok(a, e);
        struct multipart_part *part = &out[n++];
        *part = (struct multipart_part){0};
        if (!one_part(a, &body, part, e)) return false;
        d = next_delimiter(&body, needle, &part->bytes);
    }
    if (d != CLOSING) return bad(e, "the closing boundary is missing");
    if (!arena_ok(a, e)) return false;
    *parts = out;
    *count = n;
    return true;
}
