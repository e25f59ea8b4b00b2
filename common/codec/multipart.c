// SPDX-License-Identifier: Apache-2.0
//
// multipart.c - cuts a body at its delimiter lines, then each part into its header and its bytes.
#include "codec/multipart.h"

#include "codec/media.h"

#define BOUNDARY_MAX 70  // RFC 2046 section 5.1.1
#define HEADS_MAX    16384

static bool bad(err *e, const char *what)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "multipart body: %s", what);
}

static bool boundary_of(struct arena *a, str content_type, str *boundary, err *e)
{
    str type = {0};
    str rest = {0};
    if (!media_type(content_type, &type, &rest, e) || !str_ieq(type, S("multipart/form-data"))) {
        return bad(e, "the content type is not multipart/form-data");
    }
    str name = {0};
    str value = {0};
    enum media_step step = MEDIA_END;
    while ((step = media_next(a, &rest, &name, &value, e)) == MEDIA_PARAM) {
        if (!str_ieq(name, S("boundary"))) continue;
        if (!arena_ok(a, e)) return false;  // then the value is empty
        if (value.n == 0 || value.n > BOUNDARY_MAX) return bad(e, "the boundary has a bad length");
        *boundary = value;
        return true;
    }
    if (!arena_ok(a, e)) return false;
    return bad(e, step == MEDIA_FAULT ? "the content type is malformed"
                                      : "no multipart boundary param");
}

static bool disposition(struct arena *a, str text, struct multipart_part *part, err *e)
{
    str type = {0};
    str rest = {0};
    str name = {0};
    str value = {0};
    enum media_step step = MEDIA_FAULT;
    if (media_type(text, &type, &rest, e)) {
        while ((step = media_next(a, &rest, &name, &value, e)) == MEDIA_PARAM) {
            if (str_ieq(name, S("name"))) part->name = value;
            if (!str_ieq(name, S("filename"))) continue;
            part->filename = value;
            part->is_file = true;
        }
    }
    // Asked before the step: without memory a value is empty, which is no fault of the client.
    if (!arena_ok(a, e)) return false;
    return step == MEDIA_FAULT ? bad(e, "a Content-Disposition is malformed") : true;
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

enum delimiter {
    NONE,
    BETWEEN,
    CLOSING
};

// Classifies the bytes after "--boundary": spaces and a line end, or "--". *rest becomes the bytes
// after these.
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
    assert(needle.n > 4 && str_starts(needle, S("\r\n--")));
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
        assert(from <= rest->n);
        size_t at = from + str_find_part(str_slice(*rest, from, rest->n), needle);
        if (at >= rest->n) return NONE;
        str tail = str_slice(*rest, at + needle.n, rest->n);
        enum delimiter d = delimiter_tail(tail, &tail);
        if (d != NONE) {
            *before = str_slice(*rest, 0, at);
            *rest = tail;
            return d;
        }
        // The boundary stands in the bytes of a part: on behind it.
        from = at + needle.n;
    }
}

static bool one_part(struct arena *a, str *rest, struct multipart_part *part, err *e)
{
    size_t end = str_starts(*rest, S("\r\n")) ? 0 : str_find_part(*rest, S("\r\n\r\n")) + 2;
    if (end >= rest->n || end > HEADS_MAX) return bad(e, "a part's header does not end");
    if (!heads(a, str_slice(*rest, 0, end), part, e)) return false;
    *rest = str_slice(*rest, end + 2, rest->n);
    return true;
}

// CRLF "--" boundary. Empty if the arena is exhausted. Not printed: a boundary may have a NUL.
static str needle_of(struct arena *a, str boundary)
{
    const str before = S("\r\n--");
    char *p = arena_new(a, before.n + boundary.n);
    if (!p) return (str){0};
    memcpy(p, before.p, before.n);
    if (boundary.n) memcpy(p + before.n, boundary.p, boundary.n);
    return str_make(p, before.n + boundary.n);
}

bool multipart_parse(struct arena *a, str content_type, str body, struct multipart_part **parts,
                     size_t *count, err *e)
{
    str boundary = {0};
    if (!boundary_of(a, content_type, &boundary, e)) return false;
    str needle = needle_of(a, boundary);
    struct multipart_part *out = NULL;
    size_t room = 0;
    size_t n = 0;
    if (!arena_ok(a, e)) return false;

    str skipped = {0};
    enum delimiter d = next_delimiter(&body, needle, &skipped);
    if (d == NONE) return bad(e, "the boundary does not occur");
    while (d == BETWEEN) {
        if (n == MULTIPART_PARTS_MAX) return bad(e, "too many parts");
        if (!arena_grow(a, &out, &room, n + 1, sizeof *out)) return arena_fail(a, e);
        struct multipart_part *part = &out[n++];
        *part = (struct multipart_part){0};
        if (!one_part(a, &body, part, e)) return false;
        assert(n <= MULTIPART_PARTS_MAX);
        d = next_delimiter(&body, needle, &part->bytes);
    }
    if (d != CLOSING) return bad(e, "the closing boundary is missing");
    if (!arena_ok(a, e)) return false;
    *parts = out;
    *count = n;
    return true;
}
