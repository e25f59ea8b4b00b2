// SPDX-License-Identifier: Apache-2.0
//
// jfr_read.c - numbers, texts and whole values of a recording.
#include "base/utf8.h"
#include "decode/jfr_int.h"

#define NEST_MAX 8  // arrays in arrays; jfr_types.c makes no deeper program
#define LEB_MAX  9  // bytes of a number; the ninth has eight bits and no flag

bool jfr_broken(struct jfr_cursor *c, const uint8_t *at, const char *what)
{
    if (!c->fault) {
        c->fault = what;
        c->fault_at = at;
    }
    c->at = c->end;
    return false;
}

bool jfr_fail(const struct jfr *d, const struct jfr_cursor *c, err *e)
{
    assert(c->fault);
    return err_set(e, ERR_INVALID_ARGUMENT, "malformed JFR: %s at byte %zu", c->fault,
                   (size_t)(c->fault_at - d->start));
}

uint64_t jfr_number_long(struct jfr_cursor *c, unsigned fixed)
{
    const uint8_t *p = c->at;
    size_t left = (size_t)(c->end - p);
    uint64_t v = 0;
    if (!c->compressed) {
        if (left < fixed) return jfr_broken(c, p, "a number that is cut");
        for (unsigned i = 0; i < fixed; i++) {
            v = v << 8 | p[i];
        }
        c->at += fixed;
        return v;
    }
    for (unsigned i = 0; i < left && i < LEB_MAX; i++) {
        uint64_t byte = p[i];
        bool last = i == LEB_MAX - 1;
        v |= (last ? byte : byte & 0x7f) << (7 * i);
        if (last || byte < 0x80) {
            c->at += i + 1;
            return v;
        }
    }
    return jfr_broken(c, p, "a number that is cut");
}

static void skip(struct jfr_cursor *c, uint64_t n)
{
    if (n > (uint64_t)(c->end - c->at)) {
        jfr_broken(c, c->at, "a value past the end");
    } else {
        c->at += n;
    }
}

// Compressed numbers, which nobody looks at.
static void skip_numbers(struct jfr_cursor *c, uint64_t n)
{
    const uint8_t *p = c->at;
    for (; n > 0; n--) {
        const uint8_t *last = (size_t)(c->end - p) < LEB_MAX ? c->end : p + LEB_MAX - 1;
        while (p < last && *p >= 0x80)
            p++;
        if (p == c->end) {
            jfr_broken(c, p, "a number that is cut");
            return;
        }
        p++;
    }
    c->at = p;
}

uint8_t jfr_byte(struct jfr_cursor *c)
{
    if (c->at < c->end) return *c->at++;
    return jfr_broken(c, c->at, "a value past the end");
}

struct jfr_text jfr_text(struct jfr_cursor *c)
{
    const uint8_t *start = c->at;
    struct jfr_text t = {.kind = jfr_byte(c)};
    if (t.kind <= JFR_TEXT_EMPTY) return t;
    if (t.kind > JFR_TEXT_LATIN1) {
        jfr_broken(c, start, "a string of unknown encoding");
        return (struct jfr_text){0};
    }
    if (t.kind == JFR_TEXT_POOL) {
        t.n = jfr_long(c);
        return t;
    }
    uint64_t n = jfr_int(c);
    t.p = c->at;
    if (n > (uint64_t)(c->end - c->at)) {
        jfr_broken(c, start, "a string longer than what is left");
        return (struct jfr_text){0};
    }
    if (t.kind == JFR_TEXT_UTF16) {
        for (uint64_t i = 0; i < n && !c->fault; i++) {
            jfr_number(c, 2);
        }
    } else {
        skip(c, n);
    }
    t.n = (uint64_t)(c->at - t.p);
    return t;
}

// ---- texts as UTF-8

static bool is_ascii(const struct jfr_text *t)
{
    uint8_t any = 0;
    for (uint64_t i = 0; i < t->n; i++) {
        any |= t->p[i];
    }
    return any < 0x80;
}

static str from_latin1(struct arena *a, const struct jfr_text *t)
{
    if (is_ascii(t)) return str_make(t->p, t->n);
    char *out = arena_new(a, 2 * t->n);
    if (!out) return (str){0};
    size_t n = 0;
    for (uint64_t i = 0; i < t->n; i++) {
        char c[4];
        size_t k = utf8_put(c, t->p[i]);
        memcpy(out + n, c, k);
        n += k;
    }
    return str_make(out, n);
}

static bool is_high(uint32_t unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(uint32_t unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

static str from_utf16(struct arena *a, const struct jfr_text *t, bool compressed)
{
    struct jfr_cursor c = {.at = t->p, .end = t->p + t->n, .compressed = compressed};
    // A unit takes a byte at least and gives three at most.
    char *out = arena_new(a, 3 * t->n + 4);
    if (!out) return (str){0};
    size_t n = 0;
    while (c.at < c.end) {
        uint32_t unit = jfr_number(&c, 2) & 0xffff;
        if (is_high(unit) && c.at < c.end) {
            struct jfr_cursor ahead = c;
            uint32_t low = jfr_number(&ahead, 2) & 0xffff;
            if (is_low(low)) {
                unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                c = ahead;
            }
        }
        char bytes[4];
        size_t k = utf8_put(bytes, is_high(unit) || is_low(unit) ? 0xfffd : unit);
        memcpy(out + n, bytes, k);
        n += k;
    }
    return str_make(out, n);
}

static str from_utf8(struct arena *a, const struct jfr_text *t)
{
    str s = str_make(t->p, t->n);
    return utf8_mended(a, s);
}

str jfr_text_str(struct arena *a, const struct jfr_text *t, bool compressed)
{
    switch (t->kind) {
    case JFR_TEXT_UTF8:
        return from_utf8(a, t);
    case JFR_TEXT_UTF16:
        return from_utf16(a, t, compressed);
    case JFR_TEXT_LATIN1:
        return from_latin1(a, t);
    default:
        return (str){0};
    }
}

// ---- values

struct nest {
    uint32_t from;
    uint32_t to;
    uint32_t outer;  // the end of the steps around the array
    uint64_t left;   // elements, with the one that is being read
};

// Whether the array has elements with steps, which are then to be read.
static bool begin_array(struct jfr_cursor *c, const struct jfr_step *s, struct nest *x)
{
    const uint8_t *at = c->at;
    uint64_t n = jfr_int(c);
    x->left = n;
    if (s->body == 0) return false;
    // An element takes a byte for each of its steps at least.
    if (n > (uint64_t)(c->end - c->at) / s->body) {
        return jfr_broken(c, at, "an array longer than what is left");
    }
    return n > 0;
}

static void run_step(struct jfr_cursor *c, const struct jfr_step *s, struct jfr_values *out)
{
    struct jfr_text t;
    switch (s->kind) {
    case JFR_BYTE:
        out->v[s->slot] = jfr_byte(c);
        break;
    case JFR_SHORT:
        out->v[s->slot] = jfr_number(c, 2);
        break;
    case JFR_INT:
        out->v[s->slot] = jfr_int(c);
        break;
    case JFR_LONG:
        out->v[s->slot] = jfr_long(c);
        break;
    case JFR_FLOAT:
        skip(c, 4);
        break;
    case JFR_DOUBLE:
        skip(c, 8);
        break;
    default:
        assert(s->kind == JFR_TEXT);
        t = jfr_text(c);
        if (s->slot == JFR_NAME) out->name = t;
        if (s->slot == JFR_VALUE) out->value = t;
    }
}

void jfr_run(struct jfr_cursor *c, const uint8_t *start, const struct jfr_step *steps, uint32_t n,
             struct jfr_values *out)
{
    struct nest nests[NEST_MAX];
    uint32_t depth = 0;
    uint32_t i = 0;
    uint32_t end = n;
    while (!c->fault) {
        if (i == end) {
            if (depth == 0) return;
            struct nest *x = &nests[depth - 1];
            if (--x->left) {
                i = x->from;
            } else {
                i = x->to;
                end = x->outer;
                depth--;
            }
            continue;
        }
        const struct jfr_step *s = &steps[i++];
        if (s->kind != JFR_ARRAY) {
            run_step(c, s, out);
            continue;
        }
        if (s->slot == JFR_FRAMES) out->v[JFR_FRAMES] = (uint64_t)(c->at - start);
        assert(depth < NEST_MAX);
        struct nest *x = &nests[depth];
        uint32_t behind = i + s->body;
        if (!begin_array(c, s, x)) {
            i = behind;
            continue;
        }
        // Of such elements only the place is looked at.
        if (s->numbers && c->compressed) {
            skip_numbers(c, x->left * s->body);
            i = behind;
            continue;
        }
        *x = (struct nest){.from = i, .to = behind, .outer = end, .left = x->left};
        end = behind;
        depth++;
    }
}
