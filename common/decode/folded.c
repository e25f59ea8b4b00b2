// SPDX-License-Identifier: Apache-2.0
//
// folded.c - collapsed text. Each distinct frame text becomes one function and one location with
// the same row. Each line becomes a sample; equal stacks stay apart until they become vectors.
#include "base/hash.h"
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
    str text;        // the whole
    size_t lines;    // with a count
    size_t pairs;    // of these, with a number before the count
    size_t none;     // number of the first line whose second count is 0 and the first one is not
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
    bool ok =
        stacks_begin(&f->s, a, bytes.n, o, &type, 1, e) && decode_plain(a, bytes, &f->rest, e);
    f->text = f->rest;
    return ok;
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

// The stack before a number at its end; empty if there is none.
static str without_number(str stack)
{
    size_t space = rfind_space(stack);
    str number = str_slice(stack, MIN(space + 1, stack.n), stack.n);
    for (size_t i = 0; i < number.n; i++) {
        if (number.p[i] < '0' || number.p[i] > '9') return (str){0};
    }
    return number.n ? str_trim(str_slice(stack, 0, space)) : (str){0};
}

static void note_pair(struct folded *f, str stack, int64_t value)
{
    str name = without_number(stack);
    f->lines++;
    f->pairs += name.n > 0;
    if (value || f->none || !name.n) return;
    str first = str_slice(stack, rfind_space(stack) + 1, stack.n);
    int64_t v = 0;
    if (str_i64(first, &v) && v) f->none = f->number;
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
    note_pair(f, str_slice(line, 0, space), value);
    return stacks_text(&f->s, str_slice(line, 0, space), false, value, e);
}

// ---- differences

struct pair_probe {
    const str *stacks;
    str want;
};

static bool pair_same(const void *ctx, uint32_t row)
{
    const struct pair_probe *probe = ctx;
    return str_eq(probe->stacks[row], probe->want);
}

static bool has_number_within(str stack)
{
    while (stack.n) {
        if (without_number(str_split(stack, ';', &stack)).n) return true;
    }
    return false;
}

// Every line of the text has two numbers. *are: both are counts. Otherwise the first number ends a
// name: such names stand on callers too, or two stacks differ by the number alone.
static bool are_pairs(struct folded *f, struct map *known, bool *are, err *e)
{
    str *stacks = ARENA_ARRAY(f->s.a, str, f->lines);
    uint32_t n = 0;
    str line = {0};
    *are = false;
    if (!stacks) return arena_fail(f->s.a, e);
    f->rest = f->text;
    f->returns = (str){0};
    while (line_next(f, &line)) {
        int64_t value = 0;
        size_t space = rfind_space(line);
        str stack = without_number(str_slice(line, 0, space));
        if (space == line.n || stack.n == 0 || is_comment(line)) continue;
        if (!str_i64(str_slice(line, space + 1, line.n), &value) || n == f->lines) continue;
        uint64_t hash = hash_table_str(stack);
        struct pair_probe probe = {stacks, stack};
        if (has_number_within(stack) || map_find(known, hash, pair_same, &probe) != MAP_NONE)
            return true;
        stacks[n] = stack;
        if (!map_put(known, hash, n++, e)) return false;
    }
    *are = n > 0;
    return true;
}

// A file of difffolded.pl has the counts of two profiles on each line. The decoder reads the second
// count as it reads any count, so the first one becomes a part of the name: the loss tells that. If
// a second count is 0 the file is certainly such a difference, since no profiler writes a stack
// that it did not see; then the file is refused.
static bool tell_pairs(struct folded *f, err *e)
{
    struct map known;
    bool are = false;
    if (f->pairs == 0 || f->pairs != f->lines) return true;
    map_init(&known, f->s.a->budget);
    bool ok = are_pairs(f, &known, &are, e);
    map_release(&known);
    if (!ok || !are) return ok;
    losses_add(&f->s.p->losses, LOSS_TWO_COUNTS, f->pairs);
    if (f->none == 0) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "line %zu has two counts: it is a difference of two profiles, which cannot be "
                   "stored; take the collapsed stacks of each",
                   f->none);
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
    ok = ok && tell_pairs(&f, e) && finish(&f, out, e);
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
