// SPDX-License-Identifier: Apache-2.0
//
// folded.c - collapsed text. Each distinct frame text becomes one function and one location with
// the same row. Each line becomes a sample; equal stacks stay apart until they become vectors.
#include "codec/json.h"
#include "decode/json_values.h"
#include "decode/plain.h"
#include "decode/rate.h"
#include "decode/stacks.h"

#include <math.h>

#define SHOWN 64  // bytes of a line, in a message

struct folded {
    struct stacks s;
    str rest;
    str returns;     // of a line, what may be several lines that end with carriage returns
    size_t number;   // of the line last read, from 1
    double carried;  // of fractions, which are not in a value yet
    bool begun;      // there was a line that is no comment
    const char *fault;
    str first_bad;
    size_t first_number;
};

static bool line_next(struct folded *f, str *line)
{
    if (f->rest.n == 0 && f->returns.n == 0) return false;
    // Some systems ended lines with a carriage return alone.
    if (f->returns.n == 0) f->returns = str_split(f->rest, '\n', &f->rest);
    *line = plain_line(str_split(f->returns, '\r', &f->returns));
    f->number++;
    while (line->n && str_find(S(" \t\r"), line->p[line->n - 1]) < 3)
        line->n--;
    return true;
}

static bool begin(struct folded *f, struct arena *a, str bytes, const struct decode_options *o,
                  err *e)
{
    static const struct profile_type type = {S_INIT("samples"), S_INIT("count")};
    *f = (struct folded){0};
    return stacks_begin(&f->s, a, bytes.n, o, &type, 1, e) && decode_plain(a, bytes, &f->rest, e);
}

static bool finish(struct folded *f, struct decoded *out, err *e)
{
    if (f->fault && f->s.p->sample_count == 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "line %zu: %s: \"%.*s\"", f->first_number, f->fault,
                       STR(str_slice(f->first_bad, 0, SHOWN)));
    if (!stacks_finish(&f->s, e)) return false;
    *out = (struct decoded){f->s.p, 1};
    return true;
}

// A frame may begin with a number sign: "#1;main 3".
static bool is_comment(str line)
{
    return str_starts(line, S("#")) && (line.n == 1 || str_find(S(" \t\r"), line.p[1]) < 3);
}

str decode_folded_body(str bytes)
{
    str rest = bytes;
    str after = {0};
    while (is_comment(str_split(rest, '\n', &after)))
        rest = after;
    return rest;
}

static void leave_out(struct folded *f, str line, const char *why)
{
    losses_add(&f->s.p->losses, LOSS_BAD_LINE, 1);
    if (f->fault) return;
    f->fault = why;
    f->first_bad = line;
    f->first_number = f->number;
}

// A whole number, or one with a fraction, of which the next values get what this one has too much.
static bool read_count(struct folded *f, str text, int64_t *value)
{
    double v = 0;
    if (str_i64(text, value)) return true;
    if (json_number_size(text) != text.n || !json_double(text, &v)) return false;
    double whole = nearbyint(v + f->carried);
    if (!json_whole(whole, value)) return false;
    f->carried += v - whole;
    return true;
}

static size_t rfind_space(str line)
{
    size_t n = line.n;
    while (n > 0 && line.p[n - 1] != ' ' && line.p[n - 1] != '\t')
        n--;
    return n == 0 ? line.n : n - 1;
}

static bool add_folded_line(struct folded *f, struct rate *rate, str line, err *e)
{
    if (line.n == 0) return true;
    if (is_comment(line)) {
        if (f->begun)
            leave_out(f, line, "a comment");
        else
            rate_read(rate, line);
        return true;
    }
    f->begun = true;
    // The last one: frames may have spaces.
    size_t space = rfind_space(line);
    int64_t value = 0;
    if (space == line.n) {
        leave_out(f, line, "no count behind a space");
        return true;
    }
    if (!read_count(f, str_slice(line, space + 1, line.n), &value)) {
        leave_out(f, line, "bad count");
        return true;
    }
    return stacks_text(&f->s, str_slice(line, 0, space), false, value, e);
}

bool decode_folded(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e)
{
    struct folded f;
    struct rate rate = {0};
    str line = {0};
    bool ok = begin(&f, a, bytes, o, e);
    while (ok && line_next(&f, &line))
        ok = add_folded_line(&f, &rate, line, e);
    if (ok && rate.period_ns) {
        f.s.p->period = rate.period_ns;
        f.s.p->period_type = (struct profile_type){S("cpu"), S("nanoseconds")};
    }
    ok = ok && finish(&f, out, e);
    stacks_release(&f.s);
    return ok;
}

bool decode_lines(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  err *e)
{
    struct folded f;
    str line = {0};
    bool ok = begin(&f, a, bytes, o, e);
    while (ok && line_next(&f, &line)) {
        if (line.n) ok = stacks_text(&f.s, line, false, 1, e);
    }
    ok = ok && finish(&f, out, e);
    stacks_release(&f.s);
    return ok;
}
