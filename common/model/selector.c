// SPDX-License-Identifier: Apache-2.0
//
// selector.c - parses and matches selectors. Prometheus's grammar of a vector selector
// (promql/parser, entry point "metric selector") is
//
//     selector = name | [name] "{" [matcher {"," matcher} [","]] "}"
//     matcher  = (name | quoted) op quoted | quoted          the last is a metric name
//
// Blanks and comments (# to the end of the line) may stand between tokens.
#include "base/utf8.h"
#include "model/label.h"

struct parser {
    struct arena *arena;
    str text;
    size_t at;
    struct selector *sel;
    err *e;
};

static bool fault(struct parser *p, const char *reason)
{
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < p->at; i++) {
        bool end = p->text.p[i] == '\n';
        line += end;
        column = end ? 1 : column + (((unsigned char)p->text.p[i] & 0xc0) != 0x80);
    }
    return err_set(p->e, ERR_INVALID_ARGUMENT, "%zu:%zu: parse error: %s", line, column, reason);
}

// The byte at an offset from here; 0 past the end (a NUL in the text is no token either).
static char peek(const struct parser *p, size_t ahead)
{
    return ahead < p->text.n - p->at ? p->text.p[p->at + ahead] : 0;
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->text.n) {
        char c = p->text.p[p->at];
        if (c == '#') {
            p->at += str_find(str_slice(p->text, p->at, p->text.n), '\n');
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            p->at++;
        } else {
            return;
        }
    }
}

static bool is_word(char c, bool first, bool colon)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') return true;
    return (c >= '0' && c <= '9' && !first) || (c == ':' && colon);
}

// A name without quotes; empty if there is none. Only metric names may hold colons.
static str word(struct parser *p, bool colon)
{
    size_t from = p->at;
    while (p->at < p->text.n && is_word(p->text.p[p->at], p->at == from, colon))
        p->at++;
    return str_slice(p->text, from, p->at);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

// `count` digits of a base at p->at; false leaves *v undefined.
static bool number(struct parser *p, unsigned count, unsigned base, uint32_t *v)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        int d = digit(peek(p, i));
        if (d >= (int)base) return false;
        sum = sum * base + (unsigned)d;
    }
    p->at += count;
    *v = (uint32_t)sum;
    return sum <= UINT32_MAX;
}

// One escape after its backslash, as Go's strconv.UnquoteChar has it. Writes 1 to 4 bytes, never
// more than the escape has.
static bool escape(struct parser *p, char quote, char *to, size_t *n)
{
    static const char names[] = "abfnrtv\\";
    static const char values[] = "\a\b\f\n\r\t\v\\";
    char c = peek(p, 0);
    const char *simple = c ? memchr(names, c, sizeof names - 1) : NULL;
    if (simple || c == quote) {
        p->at++;
        *to = simple ? values[simple - names] : quote;
        *n = 1;
        return true;
    }
    uint32_t v = 0;
    if (c >= '0' && c <= '7') {
        if (!number(p, 3, 8, &v) || v > 255) return fault(p, "invalid octal escape sequence");
        *to = (char)v;
        *n = 1;
        return true;
    }
    unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) return fault(p, "unknown escape sequence");
    p->at++;
    if (!number(p, digits, 16, &v)) return fault(p, "invalid hexadecimal escape sequence");
    if (digits == 2) {
        *to = (char)v;
        *n = 1;
        return true;
    }
    if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) {
        return fault(p, "escape sequence is an invalid Unicode code point");
    }
    *n = utf8_put(to, v);
    return true;
}

// The number of bytes between the quote at p->at and the one that ends the string; false: none
// does.
static bool quoted_length(const struct parser *p, size_t *n)
{
    char quote = peek(p, 0);
    for (size_t at = p->at + 1; at < p->text.n; at++) {
        char c = p->text.p[at];
        *n = at - p->at - 1;
        if (c == quote) return true;
        if (c == '\n' && quote != '`') return false;
        if (c == '\\' && quote != '`') at++;
    }
    return false;
}

// A string in quotes, unescaped into the arena.
static bool quoted(struct parser *p, str *out)
{
    char quote = peek(p, 0);
    size_t length = 0;
    if (!quoted_length(p, &length)) {
        return fault(p, quote == '`' ? "unterminated raw string" : "unterminated quoted string");
    }
    char *to = arena_new(p->arena, length);
    if (!to) return arena_fail(p->arena, p->e);
    size_t n = 0;
    for (p->at++; p->text.p[p->at] != quote;) {
        char c = p->text.p[p->at++];
        if (c == '\\' && quote != '`') {
            size_t bytes = 0;
            if (!escape(p, quote, to + n, &bytes)) return false;
            n += bytes;
        } else {
            to[n++] = c;
        }
    }
    p->at++;
    assert(n <= length);  // an escape is longer than its bytes
    *out = (str){to, n};
    return true;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'' || c == '`';
}

static bool operator(struct parser *p, enum matcher_op *op)
{
    char c = peek(p, 0);
    char next = peek(p, 1);
    bool regex = next == '~';
    if (c == '=') {
        *op = regex ? MATCH_RE : MATCH_EQ;
        p->at += regex ? 2 : 1;
        return true;
    }
    if (c == '!' && (next == '=' || regex)) {
        *op = regex ? MATCH_NRE : MATCH_NEQ;
        p->at += 2;
        return true;
    }
    return fault(p, "expected a label matching operator: =, !=, =~ or !~");
}

static bool matcher(struct parser *p)
{
    str name = {0};
    bool in_quotes = is_quote(peek(p, 0));
    if (in_quotes) {
        if (!quoted(p, &name)) return false;
    } else {
        name = word(p, false);
        if (name.n == 0) return fault(p, "expected a label name");
    }
    skip_blanks(p);
    char c = peek(p, 0);
    if (in_quotes && (c == ',' || c == '}')) {
        const struct matcher m = {.op = MATCH_EQ, .name = S(LABEL_NAME), .value = name};
        return selector_add_known(p->arena, p->sel, &m, p->e);
    }
    enum matcher_op op = MATCH_EQ;
    if (!operator(p, &op)) return false;
    skip_blanks(p);
    if (!is_quote(peek(p, 0))) return fault(p, "expected a label value in quotes");
    struct matcher m = {.op = op, .name = name, .at = p->at};
    return quoted(p, &m.value) && selector_add_known(p->arena, p->sel, &m, p->e);
}

static bool matchers(struct parser *p)
{
    p->at++;  // {
    skip_blanks(p);
    while (peek(p, 0) != '}') {
        if (!matcher(p)) return false;
        skip_blanks(p);
        char c = peek(p, 0);
        if (c != ',' && c != '}') return fault(p, "expected \",\" or \"}\"");
        if (c == ',') p->at++;
        skip_blanks(p);
    }
    p->at++;
    return true;
}

static bool parse(struct parser *p)
{
    if (!str_utf8(p->text)) return fault(p, "the selector is not valid UTF-8");
    skip_blanks(p);
    if (p->at == p->text.n) return fault(p, "no expression found in input");
    const struct matcher metric = {.op = MATCH_EQ, .name = S(LABEL_NAME), .value = word(p, true)};
    if (metric.value.n > 0 && !selector_add_known(p->arena, p->sel, &metric, p->e)) return false;
    skip_blanks(p);
    if (peek(p, 0) == '{') {
        if (!matchers(p)) return false;
    } else if (metric.value.n == 0) {
        return fault(p, "expected a metric name or \"{\"");
    }
    skip_blanks(p);
    if (p->at < p->text.n) return fault(p, "unexpected text after the selector");
    return true;
}

// ---- regexes

static bool is_regex(const struct matcher *m)
{
    return m->op == MATCH_RE || m->op == MATCH_NRE;
}

static bool at_most(size_t asked, int64_t most, const char *what, const char *setting, err *e)
{
    if (most <= 0 || asked <= (uint64_t)most) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the query asks for %zu %s, which exceeds the limit (%s, limit: %lld)", asked,
                   what, setting, (long long)most);
}

static bool check_counts(const struct selector *sel, err *e)
{
    const struct selector_most *most = sel->most;
    if (!most) return true;
    size_t regexes = 0;
    for (size_t i = 0; i < sel->n; i++)
        regexes += is_regex(&sel->v[i]);
    return at_most(sel->n, most->matchers, "matchers", most->matchers_setting, e) &&
           at_most(regexes, most->regexes, "regular expressions", most->regexes_setting, e);
}

static bool go_on(const struct selector *sel, err *e)
{
    return !sel->most || !sel->most->alive || sel->most->alive(sel->most->arg, e);
}

static void free_regex(void *re)
{
    regex_free(re);
}

static const struct regex *known_regex(const struct selector *sel, str pattern)
{
    for (size_t i = 0; i < sel->n; i++) {
        if (sel->v[i].re && str_eq(sel->v[i].value, pattern)) return sel->v[i].re;
    }
    return NULL;
}

static bool compile(struct arena *a, struct selector *sel, struct matcher *m, err *e)
{
    if (!is_regex(m) || m->re) return true;
    // The same pattern twice is compiled once; the arena of the first frees it.
    m->re = known_regex(sel, m->value);
    if (m->re) return true;
    if (!go_on(sel, e)) return false;
    struct regex *re = regex_new(m->value, a->budget, e);
    if (!re) return false;
    if (!arena_defer(a, free_regex, re)) {
        regex_free(re);
        return arena_fail(a, e);
    }
    m->re = re;
    return true;
}

bool selector_parse(struct arena *a, str text, struct selector *sel, err *e)
{
    struct parser p = {.arena = a, .text = text, .sel = sel, .e = e};
    size_t from = sel->n;
    assert(from == 0 || sel->v);
    bool ok = parse(&p) && check_counts(sel, e);
    // Only after the counts were checked: compiling a regex is what makes a hostile query
    // expensive.
    for (size_t i = from; ok && i < sel->n; i++) {
        ok = compile(a, sel, &sel->v[i], e);
        if (ok || e->code != ERR_INVALID_ARGUMENT) continue;
        err reason = *e;
        p.at = sel->v[i].at;
        fault(&p, reason.msg);
    }
    if (!ok) sel->n = from;
    return ok;
}

bool selector_add_known(struct arena *a, struct selector *sel, const struct matcher *m, err *e)
{
    if (!arena_grow(a, &sel->v, &sel->cap, sel->n + 1, sizeof *sel->v)) return arena_fail(a, e);
    sel->v[sel->n++] = *m;
    return true;
}

bool selector_add(struct arena *a, struct selector *sel, enum matcher_op op, str name, str value,
                  err *e)
{
    const struct matcher m = {.op = op, .name = name, .value = value};
    if (!selector_add_known(a, sel, &m, e)) return false;
    if (check_counts(sel, e) && compile(a, sel, &sel->v[sel->n - 1], e)) return true;
    sel->n--;
    return false;
}

// ---- matching

// So many steps of regexes, some hundred microseconds, between two questions whether to go on.
#define STEPS_UNASKED ((size_t)1 << 16)
// A step is one byte of a value at one instruction; beginning costs about so many.
#define STEPS_BEGIN 64

static enum regex_answer matches(const struct matcher *m, str value)
{
    switch (m->op) {
    case MATCH_EQ:
        return str_eq(m->value, value) ? REGEX_YES : REGEX_NO;
    case MATCH_NEQ:
        return str_eq(m->value, value) ? REGEX_NO : REGEX_YES;
    case MATCH_RE:
        return regex_match(m->re, value);
    case MATCH_NRE: {
        enum regex_answer is = regex_match(m->re, value);
        return is == REGEX_YES ? REGEX_NO : is == REGEX_NO ? REGEX_YES : is;
    }
    }
    assert(!"matcher_op");
    return REGEX_NO;
}

bool matcher_test(const struct selector *sel, const struct matcher *m, str value, bool *yes, err *e)
{
    // One count for each thread, whatever selectors it works for: it only decides how often to ask.
    static _Thread_local size_t unasked;
    unasked += STEPS_BEGIN + (m->re ? value.n * regex_steps(m->re) : 0);
    if (unasked >= STEPS_UNASKED) {
        unasked = 0;
        if (!go_on(sel, e)) return false;
    }
    assert(!is_regex(m) || m->re);  // selectors are compiled before they are used
    enum regex_answer is = matches(m, value);
    if (is == REGEX_NO_MEMORY)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory to match a regular expression");
    *yes = is == REGEX_YES;
    return true;
}
