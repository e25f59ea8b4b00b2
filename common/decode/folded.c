// SPDX-License-Identifier: Apache-2.0
//
// folded.c - collapsed text. Each distinct frame text becomes one function and one location with
// the same row. Each line becomes a sample; equal stacks stay apart until they become vectors.
#include "decode/stacks.h"

#define LINE_MAX_BYTES 65535  // without its end; Go's Scanner refuses a line that fills 64 KiB

struct line_reader {
    const char *at;
    const char *end;
    size_t number;  // of the line last read, from 1
    bool too_long;
};

static struct line_reader line_reader(str bytes)
{
    const char *p = bytes.n ? bytes.p : "";
    return (struct line_reader){.at = p, .end = p + bytes.n};
}

static bool line_next(struct line_reader *r, str *line)
{
    size_t left = (size_t)(r->end - r->at);
    if (left == 0) return false;
    // A byte more than allowed is looked at, so that a line that is too long shows without reading
    // on to its end.
    size_t n = str_find(str_make(r->at, MIN(left, (size_t)LINE_MAX_BYTES + 1)), '\n');
    r->number++;
    if (n > LINE_MAX_BYTES) {
        r->too_long = true;
        return false;
    }
    *line = str_make(r->at, n);
    assert(r->at <= r->end && n <= left);
    r->at += MIN(n + 1, left);
    if (n > 0 && line->p[n - 1] == '\r') line->n--;
    return true;
}

static bool add_sample(struct stacks *f, str stack, int64_t value, err *e)
{
    size_t frames = 1;
    for (size_t i = 0; i < stack.n; i++) {
        frames += stack.p[i] == ';';
    }
    uint32_t *leaf = NULL;
    int64_t *values = NULL;
    if (!stacks_sample(f, frames, &leaf, &values, e)) return false;
    *values = value;
    // The text begins at the root, stacks of a profile at the leaf: filled from the end.
    str rest = stack;
    for (size_t i = frames; i-- > 0;) {
        if (!stacks_frame(f, str_split(rest, ';', &rest), (str){0}, 0, &leaf[i], e)) return false;
    }
    return true;
}

static bool begin(struct stacks *f, struct arena *a, str bytes, const struct decode_options *o,
                  err *e)
{
    static const struct profile_type type = {S_INIT("samples"), S_INIT("count")};
    return stacks_begin(f, a, bytes.n, o, &type, 1, e);
}

static bool finish(struct stacks *f, struct decoded *out, err *e)
{
    if (!stacks_finish(f, e)) return false;
    *out = (struct decoded){f->p, 1};
    return true;
}

str decode_folded_body(str bytes)
{
    str rest = bytes;
    while (str_starts(rest, S("#"))) {
        str after = {0};
        str line = str_split(rest, '\n', &after);
        if (line.n > 1 && line.p[1] != ' ' && line.p[1] != '\r') break;  // a frame "#1"
        rest = after;
    }
    return rest;
}

static bool add_folded_line(struct stacks *f, str line, size_t number, err *e)
{
    // The last one: frames may have spaces.
    size_t space = str_rfind(line, ' ');
    // As in Pyroscope, a line without a count is skipped.
    if (space == line.n) return true;
    str count = str_slice(line, space + 1, line.n);
    int64_t value = 0;
    if (!str_i64(count, &value)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "line %zu: bad count \"%.*s\"", number,
                       STR(str_slice(count, 0, 64)));
    }
    return add_sample(f, str_slice(line, 0, space), value, e);
}

bool decode_folded(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   bool *cut, err *e)
{
    if (cut) *cut = false;
    struct stacks f;
    bool ok = begin(&f, a, bytes, o, e);
    str body = decode_folded_body(bytes);
    struct line_reader lines = line_reader(body);
    for (size_t i = 0; i < bytes.n - body.n; i++)
        lines.number += bytes.p[i] == '\n';
    str line = {0};
    while (ok && line_next(&lines, &line)) {
        ok = add_folded_line(&f, line, lines.number, e);
    }
    if (cut) *cut = lines.too_long;
    ok = ok && finish(&f, out, e);
    stacks_release(&f);
    return ok;
}

bool decode_lines(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  err *e)
{
    struct stacks f;
    bool ok = begin(&f, a, bytes, o, e);
    struct line_reader lines = line_reader(bytes);
    str line = {0};
    while (ok && line_next(&lines, &line)) {
        if (line.n) ok = add_sample(&f, line, 1, e);
    }
    if (ok && lines.too_long) {
        ok = err_set(e, ERR_INVALID_ARGUMENT, "line %zu is longer than %d bytes", lines.number,
                     LINE_MAX_BYTES);
    }
    ok = ok && finish(&f, out, e);
    stacks_release(&f);
    return ok;
}
