// SPDX-License-Identifier: Apache-2.0
//
// sample.c - the report of macOS' `sample`, and call trees as Instruments copies them.
//
//     Analysis of sampling shop (pid 7) every 1 millisecond
//     Call graph:
//         9 Thread_12   DispatchQueue_1: com.apple.main-thread  (serial)
//         + 9 start  (in dyld) + 1  [0x1]
//         +   5 work  (in shop) + 8,20  [0x2,0x3]
//
//     Weight          Self Weight    (a tab)   Symbol Name       between them are tabs
//     9.00 ms 100.0%  4.00 ms                  start
//     5.00 ms  55.6%  5.00 ms                   work
//
// In both a line has its value with all lines below it that are further in. What is left is its
// own, or Instruments says it, with "-" for 0. A line without lines below it, which may have been
// folded up, has all of its value.
#include "decode/graft.h"
#include "decode/json_values.h"
#include "model/marks.h"

#define NS_PER_US 1e3
#define NS_PER_MS 1e6
#define NS_PER_S  1e9

#define SELF_UNKNOWN INT64_MIN

// A line that may get lines below it.
struct sm_open {
    size_t column;  // where it begins
    uint32_t node;
    int64_t value;
    int64_t below;  // of the lines below it
    int64_t self;   // or SELF_UNKNOWN
    bool inner;     // it has lines below it
};

struct sm {
    struct arena *a;
    struct graft g;
    struct sm_open *open;
    size_t depth;
    size_t open_cap;
    str pid;
    double interval_ns;
    bool lenient;  // values are rounded, so those below may be more
};

// ---- the tree

// `count` of the first type; the second is the time that it stands for.
static bool sm_add(struct sm *s, uint32_t node, int64_t count, err *e)
{
    int64_t ns = 0;
    if (!graft_add(&s->g, node, 0, count, e)) return false;
    if (s->g.s.type_count == 1) return true;
    if (!json_whole((double)count * s->interval_ns, &ns))
        return err_set(e, ERR_OUT_OF_RANGE, "%lld samples do not fit 64 bits of ns",
                       (long long)count);
    return graft_add(&s->g, node, 1, ns, e);
}

// Ends the lines that are as far in, or further.
static bool sm_close(struct sm *s, size_t column, err *e)
{
    while (s->depth && s->open[s->depth - 1].column >= column) {
        const struct sm_open *o = &s->open[--s->depth];
        bool stated = o->inner && o->self != SELF_UNKNOWN;
        int64_t own = stated ? o->self : o->value - o->below;
        if (own < 0 && !s->lenient)
            return err_set(e, ERR_INVALID_ARGUMENT, "a line of %lld has lines of %lld below it",
                           (long long)o->value, (long long)o->below);
        if (own > 0 && !sm_add(s, o->node, own, e)) return false;
    }
    return true;
}

static bool sm_open(struct sm *s, size_t column, uint32_t node, int64_t value, int64_t self, err *e)
{
    if (s->depth) {
        struct sm_open *above = &s->open[s->depth - 1];
        above->inner = true;
        if (__builtin_add_overflow(above->below, value, &above->below))
            return err_set(e, ERR_OUT_OF_RANGE, "values add up to more than 64 bits");
    }
    if (!arena_grow(s->a, &s->open, &s->open_cap, s->depth + 1, sizeof *s->open))
        return arena_fail(s->a, e);
    s->open[s->depth++] =
        (struct sm_open){.column = column, .node = node, .value = value, .self = self};
    return true;
}

static str sm_line(str *rest)
{
    str line = str_split(*rest, '\n', rest);
    return str_ends(line, S("\r")) ? str_slice(line, 0, line.n - 1) : line;
}

static str sm_between(str s, str before, str after)
{
    size_t from = str_find_part(s, before);
    if (from == s.n) return (str){0};
    str rest = str_slice(s, from + before.n, s.n);
    return str_trim(str_slice(rest, 0, str_find_part(rest, after)));
}

// ---- the report of sample

// "every 1 millisecond"
static void sm_head(struct sm *s, str line)
{
    static const struct {
        str unit;
        double ns;
    } units[] = {{S_INIT("nanosecond"), 1},
                 {S_INIT("microsecond"), NS_PER_US},
                 {S_INIT("millisecond"), NS_PER_MS},
                 {S_INIT("second"), NS_PER_S}};
    str pid = sm_between(line, S("(pid "), S(")"));
    str every = sm_between(line, S(" every "), S("\n"));
    str unit = {0};
    double n = 0;
    int64_t number = 0;
    if (!str_starts(line, S("Analysis of sampling "))) return;
    if (str_i64(pid, &number)) s->pid = pid;
    str text = str_split(every, ' ', &unit);
    if (json_number_size(text) != text.n || !json_double(text, &n) || n <= 0) return;
    for (size_t i = 0; i < COUNT(units); i++) {
        if (str_starts(unit, units[i].unit)) s->interval_ns = n * units[i].ns;
    }
}

// "Thread_12   DispatchQueue_1: com.apple.main-thread  (serial)" or "Thread_12: name"
static str sm_thread_name(str text)
{
    size_t colon = str_find_part(text, S(": "));
    str name = colon < text.n ? str_slice(text, colon + 2, text.n) : text;
    return str_trim(str_slice(name, 0, str_find_part(name, S("  "))));
}

// "name  (in library) + 8,20  [0x2,0x3]", or "???  (in library)  load address 0x1 + 0x8  [0x9]".
static bool sm_frame_name(struct sm *s, str text, str *out, err *e)
{
    size_t in = str_find_part(text, S("  (in "));
    str name = str_trim(str_slice(text, 0, MIN(in, str_find_part(text, S("  [0x")))));
    str lib = sm_between(text, S("  (in "), S(")"));
    str offset = sm_between(text, S(" + 0x"), S("  "));
    if (offset.n == 0) offset = sm_between(text, S("[0x"), S("]"));
    offset = str_slice(offset, 0, MIN(str_find(offset, ','), str_find(offset, '.')));
    *out = name;
    if (name.n && !str_is(name, "???")) return true;
    if (lib.n == 0 && offset.n == 0)
        *out = S(STACK_UNKNOWN_NAME);
    else if (lib.n == 0)
        *out = arena_printf(s->a, "0x%.*s", STR(offset));
    else
        *out = arena_printf(s->a, "%.*s!0x%.*s", STR(lib), STR(offset));
    return arena_ok(s->a, e);
}

static bool sm_call(struct sm *s, str line, err *e)
{
    static const char marks[] = " +!:|";
    size_t column = 0;
    size_t end = 0;
    int64_t count = 0;
    uint32_t node = 0;
    str name = {0};
    while (column < line.n && memchr(marks, line.p[column], sizeof marks - 1))
        column++;
    for (end = column; end < line.n && line.p[end] >= '0' && line.p[end] <= '9';)
        end++;
    str text = str_trim(str_slice(line, end, line.n));
    if (end == line.n || line.p[end] != ' ' || text.n == 0 ||
        !str_i64(str_slice(line, column, end), &count)) {
        graft_lose(&s->g, LOSS_BAD_LINE, 1);
        return true;
    }
    if (!sm_close(s, column, e)) return false;
    bool thread = str_starts(text, S("Thread_")) || str_starts(text, S("Thread "));
    if (s->depth == 0) {
        str label = thread ? sm_thread_name(text) : (str){0};
        const struct profile_label labels[] = {{.key = S("thread"), .text = label},
                                               {.key = S("pid"), .text = s->pid}};
        if (!graft_root(&s->g, labels, COUNT(labels), &node, e)) return false;
        if (thread) return sm_open(s, column, node, count, SELF_UNKNOWN, e);
    } else {
        node = s->open[s->depth - 1].node;
    }
    return sm_frame_name(s, text, &name, e) && graft_named(&s->g, node, name, &node, e) &&
           sm_open(s, column, node, count, SELF_UNKNOWN, e);
}

static bool sm_report(struct sm *s, str bytes, const struct decode_options *o, err *e)
{
    static const struct profile_type types[] = {{S_INIT("samples"), S_INIT("count")},
                                                {S_INIT("wall"), S_INIT("nanoseconds")}};
    str rest = bytes;
    bool found = false;
    while (rest.n && !found) {
        str line = sm_line(&rest);
        found = str_starts(line, S("Call graph:"));
        sm_head(s, line);
    }
    if (!found) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "it is neither a report of `sample`, which has a line `Call graph:`, nor a "
                       "call tree copied from Instruments");
    }
    if (!graft_begin(&s->g, s->a, bytes.n, o, types, s->interval_ns > 0 ? 2 : 1, e)) return false;
    size_t number = 1;
    for (bool any = false; rest.n; number++) {
        str line = sm_line(&rest);
        bool empty = str_trim(line).n == 0;
        // The tables behind it say the same again.
        if ((empty && any) || str_starts(line, S("Total number in stack"))) break;
        any |= !empty;
        if (!empty && !sm_call(s, line, e))
            return err_wrap(e, "line %zu of the call graph", number);
    }
    return sm_close(s, 0, e);
}

// ---- what Instruments copies

enum sm_kind {
    SM_TIME,
    SM_BYTES,
    SM_CYCLES,
    SM_NONE
};

// "9.00 ms  100.0%", "9.0ms", or a number in milliseconds. False if it is none.
static bool sm_value(str text, enum sm_kind *kind, int64_t *out)
{
    static const struct {
        str unit;
        enum sm_kind kind;
        double scale;
    } units[] = {
        {S_INIT("ns"), SM_TIME, 1},
        {S_INIT("us"), SM_TIME, NS_PER_US},
        {S_INIT("\xc2\xb5s"), SM_TIME, NS_PER_US},
        {S_INIT("\xce\xbcs"), SM_TIME, NS_PER_US},
        {S_INIT("ms"), SM_TIME, NS_PER_MS},
        {S_INIT(""), SM_TIME, NS_PER_MS},
        {S_INIT("s"), SM_TIME, NS_PER_S},
        {S_INIT("min"), SM_TIME, 60 * NS_PER_S},
        {S_INIT("h"), SM_TIME, 3600 * NS_PER_S},
        {S_INIT("Bytes"), SM_BYTES, 1},
        {S_INIT("KB"), SM_BYTES, 1024},
        {S_INIT("MB"), SM_BYTES, 1024.0 * 1024},
        {S_INIT("GB"), SM_BYTES, 1024.0 * 1024 * 1024},
        {S_INIT("cycles"), SM_CYCLES, 1},
        {S_INIT("Kc"), SM_CYCLES, 1e3},
        {S_INIT("Mc"), SM_CYCLES, 1e6},
        {S_INIT("Gc"), SM_CYCLES, 1e9},
    };
    double v = 0;
    text = str_trim(text);
    size_t n = json_number_size(text);
    str unit = str_trim(str_slice(text, n, text.n));
    unit = str_slice(unit, 0, MIN(str_find(unit, ' '), str_find(unit, '\t')));
    if (str_ends(unit, S("%"))) unit = (str){0};
    if (n == 0 || !json_double(str_slice(text, 0, n), &v)) return false;
    for (size_t i = 0; i < COUNT(units); i++) {
        if (!str_eq(units[i].unit, unit)) continue;
        *kind = units[i].kind;
        return v >= 0 && json_whole(v * units[i].scale, out);
    }
    return false;
}

static str sm_cell(str line, size_t column)
{
    str rest = line;
    str cell = {0};
    for (size_t i = 0; i <= column; i++)
        cell = str_split(rest, '\t', &rest);
    return cell;
}

struct sm_columns {
    size_t self;  // 0: there is none
    size_t symbol;
};

static bool sm_is_tree(str first, struct sm_columns *columns)
{
    static const str starts[] = {S_INIT("Running Time"), S_INIT("Weight"), S_INIT("Bytes Used")};
    str name = str_trim(sm_cell(first, 0));
    *columns = (struct sm_columns){0};
    if (!str_among(name, starts, COUNT(starts))) return false;
    size_t i = 0;
    for (str rest = first; rest.n; i++) {
        str cell = str_trim(str_split(rest, '\t', &rest));
        if (i && str_starts(cell, S("Self"))) columns->self = i;
        if (i && str_starts(cell, S("Symbol Name"))) columns->symbol = i;
    }
    return columns->symbol > 0;
}

static bool sm_row(struct sm *s, str line, const struct sm_columns *columns, enum sm_kind kind,
                   uint32_t root, err *e)
{
    int64_t value = 0;
    int64_t self = 0;
    enum sm_kind its = SM_NONE;
    str symbol = sm_cell(line, columns->symbol);
    str name = str_trim(symbol);
    size_t column = 0;
    while (column < symbol.n && symbol.p[column] == ' ')
        column++;
    if (name.n == 0 || !sm_value(sm_cell(line, 0), &its, &value) || its != kind) {
        graft_lose(&s->g, LOSS_BAD_LINE, 1);
        return true;
    }
    // A self of 0 may be written without a unit, or as "-".
    str own = columns->self ? str_trim(sm_cell(line, columns->self)) : (str){0};
    bool stated = sm_value(own, &its, &self) && (its == kind || self == 0);
    if (!stated && !str_is(own, "-")) self = SELF_UNKNOWN;
    if (!sm_close(s, column, e)) return false;
    uint32_t node = s->depth ? s->open[s->depth - 1].node : root;
    return graft_named(&s->g, node, name, &node, e) && sm_open(s, column, node, value, self, e);
}

static bool sm_tree(struct sm *s, str rows, const struct sm_columns *columns, size_t bytes,
                    const struct decode_options *o, err *e)
{
    static const struct profile_type types[] = {[SM_TIME] = {S_INIT("cpu"), S_INIT("nanoseconds")},
                                                [SM_BYTES] = {S_INIT("space"), S_INIT("bytes")},
                                                [SM_CYCLES] = {S_INIT("cycles"), S_INIT("count")}};
    enum sm_kind kind = SM_NONE;
    uint32_t root = 0;
    int64_t value = 0;
    for (str rest = rows; rest.n && kind == SM_NONE;)
        (void)sm_value(sm_cell(sm_line(&rest), 0), &kind, &value);
    if (kind == SM_NONE) return err_set(e, ERR_INVALID_ARGUMENT, "there is no value in this tree");
    s->lenient = true;
    if (!graft_begin(&s->g, s->a, bytes, o, &types[kind], 1, e) ||
        !graft_root(&s->g, NULL, 0, &root, e))
        return false;
    for (str rest = rows; rest.n;) {
        str line = sm_line(&rest);
        if (str_trim(line).n && !sm_row(s, line, columns, kind, root, e)) return false;
    }
    return sm_close(s, 0, e);
}

bool decode_sample(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e)
{
    struct sm s = {.a = a};
    struct sm_columns columns;
    struct profile *p = NULL;
    str rest = bytes;
    str first = sm_line(&rest);
    bool ok = (sm_is_tree(first, &columns) ? sm_tree(&s, rest, &columns, bytes.n, o, e)
                                           : sm_report(&s, bytes, o, e)) &&
              graft_finish(&s.g, &p, e);
    graft_release(&s.g);
    if (!ok) return false;
    if (p->type_count == 2 && json_whole(s.interval_ns, &p->period)) p->period_type = p->types[1];
    *out = (struct decoded){p, 1};
    return true;
}
