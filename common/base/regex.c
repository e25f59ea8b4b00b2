// SPDX-License-Identifier: Apache-2.0
//
// regex.c - bounds and short cuts in front of RE2: a pattern that is only a list of values is
// looked up instead of run.
#include "base/mem.h"
#include "base/regex_int.h"

#include <stdlib.h>

// A value of a list: bytes at..at + n of its text.
struct piece {
    const char *at;
    size_t n;
};

struct regex {
    struct mem_budget *memory;
    size_t taken;          // from the budget, this struct not included
    struct program *re2;   // NULL: a list
    struct piece *pieces;  // of a list, in the order of their bytes; their text lies behind them
    size_t piece_count;
    bool in_group;  // (a|b): the whole value is group 1
};

// Most programs fit the smaller size, so that a request may have many of them. The memory that RE2
// takes while it parses and compiles a pattern was measured: the limit of the program and less than
// half of it in addition, about 350 bytes for each byte of the worst pattern ([^a][^a]...), and 26
// KiB for each Unicode class. Of a parsed pattern it keeps 45 bytes for each byte, and packed
// classes.
#define SMALL_PROGRAM  ((size_t)128 << 10)
#define SMALL_PATTERN  ((size_t)4 << 10)
#define WORK_PER_BYTE  ((size_t)384)
#define WORK_PER_CLASS ((size_t)32 << 10)
#define KEPT_PER_BYTE  ((size_t)64)
#define KEPT_PER_CLASS ((size_t)6 << 10)

// ---- lists of plain values

// Bytes of one plain character at p, 0 if it is an operator; *c is the byte that it stands for.
static size_t plain(const char *p, const char *end, char *c)
{
    static const char special[] = "\\.+*?()|[]{}^$";
    *c = *p;
    if (!memchr(special, *p, sizeof special - 1)) return 1;
    if (*p != '\\' || end - p < 2) return 0;
    unsigned char next = (unsigned char)p[1];
    // A backslash before a letter or digit is a class or an anchor; before punctuation it stands
    // for the character itself.
    assert(p < end);
    bool named = (next >= '0' && next <= '9') || (next >= 'A' && next <= 'Z') ||
                 (next >= 'a' && next <= 'z') || next == '_';
    *c = p[1];
    return next > ' ' && next < 0x7f && !named ? 2 : 0;
}

static str without_group(str pattern, bool *captures)
{
    bool grouped = pattern.n >= 2 && pattern.p[0] == '(' && pattern.p[pattern.n - 1] == ')';
    bool silent = grouped && str_starts(pattern, S("(?:"));
    *captures = grouped && !silent;
    return grouped ? str_slice(pattern, silent ? 3 : 1, pattern.n - 1) : pattern;
}

// Is the pattern a list of plain values? *count is their number.
static bool is_list(str list, size_t *count)
{
    *count = 1;
    for (size_t i = 0; i < list.n;) {
        char c = 0;
        size_t n = list.p[i] == '|' ? 1 : plain(list.p + i, list.p + list.n, &c);
        *count += list.p[i] == '|';
        if (n == 0) return false;
        i += n;
    }
    // RE2 reads patterns as UTF-8, and refuses others with a message of its own.
    return str_utf8(list);
}

static int by_bytes(const void *a, const void *b)
{
    const struct piece *x = a;
    const struct piece *y = b;
    return str_cmp(str_make(x->at, x->n), str_make(y->at, y->n));
}

static void fill(struct regex *r, str list)
{
    char *text = (char *)(r->pieces + r->piece_count);
    struct piece *now = r->pieces;
    *now = (struct piece){text, 0};
    for (size_t i = 0; i < list.n;) {
        if (list.p[i] == '|') {
            *++now = (struct piece){text, 0};
            i++;
            continue;
        }
        i += plain(list.p + i, list.p + list.n, text++);
        now->n++;
    }
    assert(now == r->pieces + r->piece_count - 1);
    qsort(r->pieces, r->piece_count, sizeof *r->pieces, by_bytes);
}

static bool make_list(struct regex *r, str list, size_t count, err *e)
{
    // Pieces and their text in one allocation; unescaped text is no longer than the pattern.
    assert(count > 0);
    size_t bytes = count * sizeof *r->pieces + list.n;
    r->pieces = mem_alloc(r->memory, bytes, e);
    if (!r->pieces) return false;
    r->taken = bytes;
    r->piece_count = count;
    fill(r, list);
    return true;
}

static bool list_has(const struct regex *r, str s)
{
    const struct piece key = {s.p, s.n};
    return bsearch(&key, r->pieces, r->piece_count, sizeof key, by_bytes) != NULL;
}

// ---- programs

// Unicode classes in a pattern: \p and \P.
static size_t count_classes(str pattern)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < pattern.n; i++) {
        if (pattern.p[i] != '\\') continue;
        i++;
        n += pattern.p[i] == 'p' || pattern.p[i] == 'P';
    }
    return n;
}

static bool check(str pattern, size_t classes, err *e)
{
    if (pattern.n > REGEX_PATTERN_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "error parsing regexp: it has %zu bytes, limit %zu for anything but a list "
                       "of plain values",
                       pattern.n, REGEX_PATTERN_MAX);
    }
    if (classes > REGEX_CLASSES_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "error parsing regexp: it has %zu Unicode classes (\\p), limit %d", classes,
                       REGEX_CLASSES_MAX);
    }
    return true;
}

static bool compile_within(struct regex *r, str pattern, size_t size, bool *too_large, err *e)
{
    size_t classes = count_classes(pattern);
    size_t work = size / 2 * 3 + pattern.n * WORK_PER_BYTE + classes * WORK_PER_CLASS;
    size_t kept = size + pattern.n * KEPT_PER_BYTE + classes * KEPT_PER_CLASS;
    *too_large = false;
    // Reserved as a whole for the time of compiling, because RE2's memory cannot be counted piece
    // by piece.
    if (!mem_reserve(r->memory, work, e)) return false;
    r->re2 = program_new(pattern, size, too_large, e);
    assert(kept <= work);
    r->taken = r->re2 ? kept : 0;
    mem_unreserve(r->memory, work - r->taken);
    return r->re2 != NULL;
}

static bool compile(struct regex *r, str pattern, err *e)
{
    bool too_large = false;
    if (!check(pattern, count_classes(pattern), e)) return false;
    if (pattern.n <= SMALL_PATTERN) {
        if (compile_within(r, pattern, SMALL_PROGRAM, &too_large, e)) return true;
        // A syntax error is one at any size.
        if (!too_large) return false;
    }
    return compile_within(r, pattern, REGEX_PROGRAM_MAX, &too_large, e);
}

// ---- life

struct regex *regex_new(str pattern, struct mem_budget *memory, err *e)
{
    struct regex *r = mem_alloc(memory, sizeof *r, e);
    if (!r) return NULL;
    r->memory = memory;
    size_t count = 0;
    str list = without_group(pattern, &r->in_group);
    if (is_list(list, &count) ? make_list(r, list, count, e) : compile(r, pattern, e)) return r;
    regex_free(r);
    return NULL;
}

void regex_free(struct regex *r)
{
    if (!r) return;
    program_free(r->re2);
    if (r->pieces) {
        mem_free(r->memory, r->pieces, r->taken);
    } else if (r->taken) {
        mem_unreserve(r->memory, r->taken);
    }
    mem_free(r->memory, r, sizeof *r);
}

// ---- matching

enum regex_answer regex_match(const struct regex *r, str s)
{
    if (r->re2) return program_match(r->re2, s, NULL, 0);
    return list_has(r, s) ? REGEX_YES : REGEX_NO;
}

enum regex_answer regex_groups(const struct regex *r, str s, str *groups, size_t n)
{
    if (r->re2) return program_match(r->re2, s, groups, n);
    if (!list_has(r, s)) return REGEX_NO;
    for (size_t i = 0; i < n; i++)
        groups[i] = i == 0 && r->in_group ? s : (str){0};
    return REGEX_YES;
}

size_t regex_steps(const struct regex *r)
{
    return r->re2 ? program_size(r->re2) : 1;
}

int regex_group_count(const struct regex *r)
{
    return r->re2 ? program_group_count(r->re2) : r->in_group;
}

int regex_group_number(const struct regex *r, str name)
{
    return r->re2 ? program_group_number(r->re2, name) : -1;
}
