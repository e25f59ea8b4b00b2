// SPDX-License-Identifier: Apache-2.0
//
// cli_draw.c - a flame graph level by level, a tree line by line, tables and small charts.
#include "deploy/cli/cli_draw.h"

#include "base/hash.h"
#include "model/demangle.h"

#include <math.h>
#include <stdio.h>

#define VALUE_COLUMNS   10u
#define PERCENT_COLUMNS 9u
#define BAR_COLUMNS     12u
#define NAME_LEAST      12u

// ---- names

str draw_readable(struct arena *a, str name)
{
    if (!demangle_maybe(name)) return name;
    struct buf text;
    buf_init(&text, NULL, DEMANGLE_TEXT_MAX + 1);
    str readable = demangle(name, &text) ? arena_str(a, buf_view(&text)) : (str){0};
    buf_release(&text);
    // The name as it is if it was not mangled after all, or memory is short: it is only for
    // reading.
    return readable.n ? readable : name;
}

str draw_short_name(str name)
{
    // "/" separates packages of Go and parts of paths; text in brackets or after a space may hold
    // "/" with another meaning.
    size_t stop = 0;
    while (stop < name.n && !strchr("([{<$ ", name.p[stop]))
        stop++;
    assert(stop <= name.n);
    size_t slash = str_rfind(str_slice(name, 0, stop), '/');
    return slash < stop && slash + 1 < name.n ? str_slice(name, slash + 1, name.n) : name;
}

// The part of a name that names its package or module; the name itself if there is none.
static str package_of(str name)
{
    size_t stop = 0;
    while (stop < name.n && !strchr("([{<$ ", name.p[stop]))
        stop++;
    str head = str_slice(name, 0, stop);
    size_t slash = str_rfind(head, '/');
    if (slash < head.n) {
        // Behind the last slash, as domains in front of it have dots too.
        size_t dot = slash + str_find(str_slice(head, slash, head.n), '.');
        return str_slice(head, 0, dot);
    }
    for (size_t i = 0; i + 1 < head.n; i++) {
        if (head.p[i] == ':' && head.p[i + 1] == ':') return str_slice(head, 0, i);
    }
    size_t dot = str_rfind(head, '.');
    return dot < head.n ? str_slice(head, 0, dot) : head;
}

unsigned draw_hue(str name)
{
    static const char *const runtime[] = {"runtime", "total",  "other",
                                          "libc",    "kernel", "[unknown]"};
    static const char *const library[] = {"std",  "core",    "alloc", "java", "sync",
                                          "os",   "net",     "io",    "fmt",  "bufio",
                                          "time", "strings", "sort",  "math", "bytes"};
    str package = package_of(name);
    size_t n = 0;
    while (n < name.n && !strchr("/.:", name.p[n]))
        n++;
    str first = str_slice(name, 0, n);
    for (size_t i = 0; i < COUNT(runtime); i++) {
        if (str_is(first, runtime[i]) || str_is(name, runtime[i])) return TEXT_HUE_RUNTIME;
    }
    for (size_t i = 0; i < COUNT(library); i++) {
        if (str_is(first, library[i])) return TEXT_HUE_LIBRARY;
    }
    // By the package and not by the name, so that what belongs together has one colour.
    return (unsigned)(hash_str(package) % TEXT_HUE_LIBRARY);
}

// ---- the flame graph

struct row {
    struct buf *b;
    const struct text_look *look;
    const struct flame *f;
    struct draw_unit unit;
    unsigned at;     // column
    unsigned width;  // columns of the root
    unsigned last_hue;
    unsigned last_shade;
    bool touches;  // the cell before ends here
};

static unsigned column_of(const struct row *r, int64_t edge)
{
    assert(r->f->total > 0 && edge >= 0 && edge <= r->f->total);  // flame_read saw to it
    return (unsigned)((unsigned __int128)edge * r->width / (unsigned __int128)r->f->total);
}

// The text of a cell, " name            34.1 %  4.20 s ", as much of it as fits.
static void put_label(struct row *r, const struct flame_node *n, unsigned columns)
{
    assert(n->name < r->f->name_count);
    struct buf *b = r->b;
    char percent[TEXT_NUMBER_MAX];
    char value[TEXT_NUMBER_MAX];
    char facts[2 * TEXT_NUMBER_MAX + 4];
    str name = r->f->names[n->name];
    if (columns < 3) {
        text_pad(b, columns);
        return;
    }
    if (text_columns(name) + 2 > columns) name = draw_short_name(name);
    text_percent(percent, (double)n->total / (double)r->f->total);  // not 0: see column_of
    text_value(value, (double)n->total * r->unit.factor, r->unit.unit);
    snprintf(facts, sizeof facts, "%s  %s", percent, value);
    unsigned needs = text_columns(name) + 2;
    // The value goes first, then the share: the name is what people look for.
    if (needs + text_columns(str_of(facts)) + 2 > columns)
        snprintf(facts, sizeof facts, "%s", percent);
    if (needs + text_columns(str_of(facts)) + 2 > columns) facts[0] = '\0';
    unsigned behind = facts[0] ? text_columns(str_of(facts)) + 1 : 0;
    buf_byte(b, ' ');
    text_left(b, name, columns - 1 - behind);
    if (!facts[0]) return;
    buf_z(b, facts);
    buf_byte(b, ' ');
}

static void put_colored(struct row *r, const struct flame_node *n, unsigned columns)
{
    str name = r->f->names[n->name];
    unsigned hue = draw_hue(name);
    unsigned shade = (unsigned)(hash_str(name) >> 32) % 3;
    // Neighbours of one colour would look like one cell.
    if (r->touches && hue == r->last_hue && shade == r->last_shade) shade = (shade + 1) % 3;
    text_ground(r->b, r->look->colors, hue, shade);
    put_label(r, n, columns);
    text_reset(r->b, r->look->colors);
    assert(hue < TEXT_HUES && shade < 3);
    r->last_hue = hue;
    r->last_shade = shade;
}

// Without colours a bar at the left of each cell, and one behind the last of a run of them.
static void put_cell(struct row *r, const struct flame_node *n)
{
    unsigned from = column_of(r, n->left);
    unsigned to = column_of(r, n->left + n->width);
    assert(to >= from && to <= r->width);
    bool plain = r->look->colors == TEXT_PLAIN;
    // Too narrow for anything; its children are narrower, so nothing will hang in the air.
    if (to - from < (plain ? 2 : 1)) return;
    if (from > r->at || r->at == 0) {
        r->touches = false;
        if (plain && r->at > 0) {
            buf_z(r->b, "│");
            r->at++;
        }
        if (from > r->at) text_pad(r->b, from - r->at);
    }
    if (plain) {
        buf_z(r->b, "│");
        put_label(r, n, to - from - 1);
    } else {
        put_colored(r, n, to - from);
    }
    assert(r->at <= to);
    r->at = to;
    r->touches = true;
}

void draw_flame(struct buf *b, const struct flame *f, const struct text_look *look,
                struct draw_unit unit, uint32_t depth)
{
    if (f->count == 0 || f->total <= 0) return;  // of less than nothing there is no picture
    assert(look->width > 1 && f->level_count > 0);
    bool plain = look->colors == TEXT_PLAIN;
    for (uint32_t level = 0; level < f->level_count && (depth == 0 || level < depth); level++) {
        struct row r = {.b = b, .look = look, .f = f, .unit = unit, .width = look->width - plain};
        size_t begin = b->n;
        for (uint32_t i = level ? f->level_ends[level - 1] : 0; i < f->level_ends[level]; i++)
            put_cell(&r, &f->nodes[i]);
        if (r.at == 0) {
            // The line's padding is taken back. A buffer that has failed may be shorter than
            // that already.
            b->n = MIN(begin, b->n);
            return;  // its children are narrower still
        }
        if (plain) buf_z(b, "│");
        buf_byte(b, '\n');
    }
}

// ---- lines

static void put_facts(struct buf *b, int64_t value, int64_t total, struct draw_unit unit)
{
    char text[TEXT_NUMBER_MAX];
    // Of less than nothing there are no shares.
    double share = total > 0 ? (double)value / (double)total : 0;
    text_right(b, text_value(text, (double)value * unit.factor, unit.unit), VALUE_COLUMNS);
    text_right(b, text_percent(text, share), PERCENT_COLUMNS);
}

void draw_tree(struct buf *b, const struct flame *f, const struct text_look *look,
               struct draw_unit unit, double min, uint32_t depth)
{
    if (f->count == 0) return;
    unsigned used = VALUE_COLUMNS + PERCENT_COLUMNS + 2;
    unsigned room = look->width > used + NAME_LEAST ? look->width - used : NAME_LEAST;
    assert(room >= NAME_LEAST);
    struct flame_walk w = flame_walk_begin(f);
    bool more = true;
    while (more) {
        const struct flame_node *n = &f->nodes[w.node];
        bool small = fabs((double)n->total) < min * (double)f->total && f->total > 0;
        bool deep = depth > 0 && w.depth >= depth;
        if (!w.leaving && (small || deep)) {
            w.leaving = true;  // and so are those below
        } else if (!w.leaving) {
            put_facts(b, n->total, f->total, unit);
            // Deep stacks stop to move to the right, so that names stay legible.
            unsigned indent = MIN(2 * w.depth, room - NAME_LEAST);
            text_pad(b, 2);
            text_ink(b, look->colors, INK_DIM);
            for (unsigned i = 0; i < indent; i++)
                buf_z(b, i % 2 ? " " : "│");
            text_reset(b, look->colors);
            text_put_cut(b, f->names[n->name], room - indent);
            buf_byte(b, '\n');
        }
        more = flame_walk_next(f, &w);
    }
}

void draw_functions(struct buf *b, const struct flame_function *v, size_t n, int64_t total,
                    const struct text_look *look, struct draw_unit unit)
{
    unsigned numbers = 2 * (VALUE_COLUMNS + PERCENT_COLUMNS);
    bool bars = look->width >= numbers + BAR_COLUMNS + 40;
    unsigned used = numbers + 2 + (bars ? BAR_COLUMNS + 2 : 0);
    unsigned room = look->width > used + NAME_LEAST ? look->width - used : NAME_LEAST;
    text_ink(b, look->colors, INK_DIM);
    text_right(b, "self", VALUE_COLUMNS + PERCENT_COLUMNS);
    if (bars) text_pad(b, BAR_COLUMNS + 2);
    text_right(b, "total", VALUE_COLUMNS + PERCENT_COLUMNS);
    buf_z(b, "  function");
    text_reset(b, look->colors);
    buf_byte(b, '\n');
    // Sorted by self: the first bar is the longest. 1 avoids a division by 0.
    double longest = n > 0 && v[0].self > 0 ? (double)v[0].self : 1;
    for (size_t i = 0; i < n; i++) {
        put_facts(b, v[i].self, total, unit);
        if (bars) {
            text_pad(b, 2);
            text_ink(b, look->colors, INK_BAR);
            text_bar(b, (double)MAX(v[i].self, 0) / longest, BAR_COLUMNS);
            text_reset(b, look->colors);
        }
        put_facts(b, v[i].total, total, unit);
        text_pad(b, 2);
        str name = v[i].name;
        text_put_cut(b, text_columns(name) > room ? draw_short_name(name) : name, room);
        buf_byte(b, '\n');
    }
}

void draw_spark(struct buf *b, const double *v, size_t n, double greatest,
                const struct text_look *look)
{
    assert(v || n == 0);
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    text_ink(b, look->colors, INK_BAR);
    for (size_t i = 0; i < n; i++) {
        double share = greatest > 0 ? v[i] / greatest : 0;
        if (isnan(v[i])) buf_byte(b, ' ');
        // MIN: a share of 1 would be index 8.
        else
            buf_z(b, blocks[share > 0 ? (size_t)MIN(share * 8, 7) : 0]);
    }
    text_reset(b, look->colors);
}
