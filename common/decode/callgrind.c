// SPDX-License-Identifier: Apache-2.0
//
// callgrind.c - the text of Valgrind's callgrind and cachegrind, and of others that write it, such
// as Xdebug. It has no stacks: callgraph.h says what becomes of it.
//
//     # callgrind format
//     events: Ir Dr
//     ob=(1) /usr/bin/shop
//     fl=(1) shop.c              file, object and function of the lines below
//     fn=(1) main
//     16 20 4                    position, then a value for each event
//     cfn=(2) work               the next line is of a call of this function:
//     calls=3 50
//     17 4000 800                what it used, with all that it called
//     summary: 4020 804
//
// Names have numbers, "(1) main", and later only these, "(1)". Positions are not needed. fi= and
// fe= change the file of lines that were inlined from there, not the function.
#include "base/hash.h"
#include "decode/callgraph.h"
#include "model/marks.h"

#define EVENTS_MAX 64

struct cgr_name {
    uint64_t id;
    str text;
};

struct cgr_names {
    struct map rows;
    struct cgr_name *v;
    size_t n;
    size_t cap;
};

struct cgr_event {
    int64_t scale;
};

struct cgr {
    struct arena *a;
    size_t bytes;
    const struct decode_options *o;
    struct graft g;
    struct callgraph graph;
    struct cgr_event events[EVENTS_MAX];
    struct profile_type types[EVENTS_MAX];
    uint32_t event_count;  // 0: not read yet
    uint32_t positions;    // columns before the values
    struct cgr_names objects;
    struct cgr_names files;
    struct cgr_names functions;
    str object;
    str file;
    uint32_t function;
    bool has_function;
    // of the next call
    str callee;
    str callee_object;
    str callee_file;
    bool has_callee;
    bool has_callee_object;
    bool has_callee_file;
    bool call;  // the next line of values is of one
    int64_t totals[EVENTS_MAX];
    bool has_totals;
    bool no_totals;  // the lines of totals in this file mean something else
    str header;      // events: as it was
};

// ---- names

struct cgr_probe {
    const struct cgr_names *names;
    uint64_t id;
};

static bool cgr_same_id(const void *ctx, uint32_t row)
{
    const struct cgr_probe *want = ctx;
    return want->names->v[row].id == want->id;
}

// "(12) name", "(12)" or "name".
static bool cgr_name(struct cgr *c, struct cgr_names *names, str text, str *out, err *e)
{
    size_t close = str_find(text, ')');
    uint64_t id = 0;
    *out = text;
    if (!str_starts(text, S("(")) || close == text.n || !str_u64(str_slice(text, 1, close), &id))
        return true;
    str name = str_trim(str_slice(text, close + 1, text.n));
    const struct cgr_probe want = {names, id};
    uint64_t hash = hash_table_word(id);
    uint32_t row = map_find(&names->rows, hash, cgr_same_id, &want);
    if (name.n == 0) {
        *out = row == MAP_NONE ? (str){0} : names->v[row].text;
        if (row == MAP_NONE) graft_lose(&c->g, LOSS_UNKNOWN_FRAME, 1);
        return true;
    }
    *out = name;
    if (row != MAP_NONE) {
        names->v[row].text = *out;
        return true;
    }
    if (!arena_grow(c->a, &names->v, &names->cap, names->n + 1, sizeof *names->v))
        return arena_fail(c->a, e);
    row = (uint32_t)names->n;
    names->v[names->n++] = (struct cgr_name){id, *out};
    return map_put(&names->rows, hash, row, e);
}

static str cgr_base(str path)
{
    size_t slash = str_rfind(path, '/');
    return slash < path.n ? str_slice(path, slash + 1, path.n) : path;
}

// The function of a name. An address is one of its object; others are told apart by their file.
static bool cgr_function(struct cgr *c, str object, str file, str name, uint32_t *out, err *e)
{
    uint32_t frame = 0;
    if (str_is(file, "???")) file = (str){0};
    if (name.n == 0 || str_is(name, "???")) name = S(STACK_UNKNOWN_NAME);
    bool address = str_starts(name, S("0x"));
    if (address && object.n && !str_is(object, "???")) {
        size_t from = 2;
        while (from + 1 < name.n && name.p[from] == '0')
            from++;
        name = arena_printf(c->a, "%.*s!0x%.*s", STR(cgr_base(object)),
                            STR(str_slice(name, from, name.n)));
        if (!arena_ok(c->a, e)) return false;
    }
    return stacks_frame(&c->g.s, name, file, 0, &frame, e) &&
           callgraph_function(&c->graph, frame, out, e);
}

// ---- types

static str cgr_type_name(struct cgr *c, str event, size_t number)
{
    char *name = arena_new(c->a, event.n + 24);
    size_t n = 0;
    if (!name) return (str){0};
    for (size_t i = 0; i < event.n && i < 64; i++) {
        char ch = event.p[i];
        if (ch >= 'A' && ch <= 'Z') ch = (char)(ch - 'A' + 'a');
        bool fine = (ch >= 'a' && ch <= 'z') || ch == '_' || (n && ch >= '0' && ch <= '9');
        if (fine) name[n++] = ch;
    }
    for (size_t i = 0; i < number; i++) {
        if (str_eq(c->types[i].type, str_make(name, n))) n = 0;
    }
    if (n == 0) return arena_printf(c->a, "event_%zu", number + 1);
    return str_make(name, n);
}

static str cgr_word(str *rest)
{
    *rest = str_trim(*rest);
    size_t n = 0;
    while (n < rest->n && rest->p[n] != ' ' && rest->p[n] != '\t')
        n++;
    str word = str_slice(*rest, 0, n);
    *rest = str_slice(*rest, n, rest->n);
    return word;
}

static bool cgr_events(struct cgr *c, str text, err *e)
{
    static const struct {
        str event;
        struct profile_type type;
        int64_t scale;
    } known[] = {
        {S_INIT("Ir"), {S_INIT("instructions"), S_INIT("count")}, 1},
        {S_INIT("Time_(10ns)"), {S_INIT("wall"), S_INIT("nanoseconds")}, 10},
        {S_INIT("Memory_(bytes)"), {S_INIT("space"), S_INIT("bytes")}, 1},
    };
    text = str_trim(text);
    if (c->event_count && str_eq(text, c->header)) return true;  // of another part
    if (c->event_count) return err_set(e, ERR_INVALID_ARGUMENT, "its parts have different events");
    c->header = text;
    str rest = text;
    for (str one = cgr_word(&rest); one.n; one = cgr_word(&rest)) {
        uint32_t n = c->event_count;
        if (n == EVENTS_MAX)
            return err_set(e, ERR_INVALID_ARGUMENT, "more than %d events", EVENTS_MAX);
        c->events[n].scale = 1;
        c->types[n] = (struct profile_type){cgr_type_name(c, one, n), S("count")};
        for (size_t i = 0; i < COUNT(known); i++) {
            if (!str_eq(known[i].event, one)) continue;
            c->types[n] = known[i].type;
            c->events[n].scale = known[i].scale;
        }
        c->event_count++;
    }
    if (c->event_count == 0) return err_set(e, ERR_INVALID_ARGUMENT, "it names no event");
    callgraph_init(&c->graph, c->a, c->event_count);
    return arena_ok(c->a, e) &&
           graft_begin(&c->g, c->a, c->bytes, c->o, c->types, c->event_count, e);
}

// ---- lines

static bool cgr_number(str s, int64_t *out)
{
    uint64_t v = 0;
    if (!str_starts(s, S("0x"))) return str_i64(s, out);
    if (!str_hex(str_slice(s, 2, s.n), &v) || v > INT64_MAX) return false;
    *out = (int64_t)v;
    return true;
}

static bool cgr_is_position(str s)
{
    int64_t v = 0;
    if (str_is(s, "*")) return true;
    if (str_starts(s, S("+")) || str_starts(s, S("-"))) s = str_slice(s, 1, s.n);
    return cgr_number(s, &v);
}

// The values of a line; those that it lacks are 0. False if it is not such a line.
static bool cgr_values(const struct cgr *c, str line, int64_t *values)
{
    str rest = line;
    for (uint32_t i = 0; i < c->positions; i++) {
        if (!cgr_is_position(cgr_word(&rest))) return false;
    }
    for (uint32_t i = 0; i < c->event_count; i++) {
        str word = cgr_word(&rest);
        values[i] = 0;
        if (word.n == 0) continue;
        if (!cgr_number(word, &values[i]) ||
            __builtin_mul_overflow(values[i], c->events[i].scale, &values[i]))
            return false;
    }
    return str_trim(rest).n == 0;
}

static bool cgr_call(struct cgr *c, const int64_t *values, err *e)
{
    uint32_t callee = 0;
    uint32_t edge = 0;
    c->call = false;
    if (!cgr_function(c, c->has_callee_object ? c->callee_object : c->object,
                      c->has_callee_file ? c->callee_file : c->file, c->callee, &callee, e) ||
        !callgraph_call(&c->graph, c->function, callee, &edge, e))
        return false;
    c->has_callee = c->has_callee_object = c->has_callee_file = false;
    for (uint32_t i = 0; i < c->event_count; i++)
        callgraph_weight(&c->graph, edge, i, values[i]);
    return true;
}

static bool cgr_cost(struct cgr *c, str line, err *e)
{
    int64_t values[EVENTS_MAX] = {0};
    if (c->event_count == 0) return err_set(e, ERR_INVALID_ARGUMENT, "values before `events:`");
    if (!cgr_values(c, line, values)) {
        graft_lose(&c->g, LOSS_BAD_LINE, 1);
        c->call = false;
        return true;
    }
    if (!c->has_function) {
        graft_lose(&c->g, LOSS_UNKNOWN_FRAME, 1);
        if (!cgr_function(c, c->object, c->file, (str){0}, &c->function, e)) return false;
        c->has_function = true;
    }
    if (c->call) return cgr_call(c, values, e);
    for (uint32_t i = 0; i < c->event_count; i++) {
        if (values[i] && !callgraph_self(&c->graph, c->function, i, values[i], e)) return false;
    }
    return true;
}

// name=value. Those that are not listed do not matter, such as jumps.
static bool cgr_spec(struct cgr *c, str key, str value, err *e)
{
    if (c->event_count == 0) return err_set(e, ERR_INVALID_ARGUMENT, "names before `events:`");
    str name = {0};
    if (str_is(key, "ob")) return cgr_name(c, &c->objects, value, &c->object, e);
    if (str_is(key, "fl") || str_is(key, "fi") || str_is(key, "fe"))
        return cgr_name(c, &c->files, value, &c->file, e);
    if (str_is(key, "cob")) {
        c->has_callee_object = true;
        return cgr_name(c, &c->objects, value, &c->callee_object, e);
    }
    if (str_is(key, "cfi") || str_is(key, "cfl")) {
        c->has_callee_file = true;
        return cgr_name(c, &c->files, value, &c->callee_file, e);
    }
    if (str_is(key, "cfn")) {
        c->has_callee = true;
        return cgr_name(c, &c->functions, value, &c->callee, e);
    }
    if (str_is(key, "calls")) {
        // The next line has what the callee used, even if nothing says which function that is.
        if (!c->has_callee) c->callee = (str){0};
        graft_lose(&c->g, LOSS_UNKNOWN_FRAME, !c->has_callee);
        c->call = true;
        return true;
    }
    if (!str_is(key, "fn")) return true;
    c->has_function = true;
    c->call = false;
    return cgr_name(c, &c->functions, value, &name, e) &&
           cgr_function(c, c->object, c->file, name, &c->function, e);
}

// The sums of a part; `totals` are those of the file.
static void cgr_sums(struct cgr *c, str value, bool all)
{
    str rest = value;
    if (c->no_totals) return;
    for (uint32_t i = 0; i < c->event_count; i++) {
        int64_t v = 0;
        if (!cgr_number(cgr_word(&rest), &v) || __builtin_mul_overflow(v, c->events[i].scale, &v))
            v = 0;
        if (all || __builtin_add_overflow(c->totals[i], v, &c->totals[i])) c->totals[i] = v;
    }
    c->has_totals = true;
    c->no_totals = all;  // nothing may be added to them
}

static bool cgr_header(struct cgr *c, str key, str value, err *e)
{
    if (str_is(key, "events")) return cgr_events(c, value, e);
    if (str_is(key, "positions")) {
        c->positions = 0;
        for (str rest = value; cgr_word(&rest).n;)
            c->positions++;
        return c->positions <= 2 || err_set(e, ERR_INVALID_ARGUMENT, "more than 2 positions");
    }
    // Xdebug's are not the sums of its functions.
    if (str_is(key, "creator")) c->no_totals = str_starts(str_trim(value), S("xdebug"));
    if (str_is(key, "summary")) cgr_sums(c, value, false);
    if (str_is(key, "totals")) cgr_sums(c, value, true);
    return true;
}

static bool cgr_line(struct cgr *c, str line, err *e)
{
    static const char marks[] = "0123456789+-*";
    line = str_trim(line);
    if (line.n == 0 || line.p[0] == '#') return true;
    if (memchr(marks, line.p[0], sizeof marks - 1)) return cgr_cost(c, line, e);
    size_t n = 0;
    while (n < line.n && ((line.p[n] >= 'a' && line.p[n] <= 'z') || line.p[n] == '_'))
        n++;
    str key = str_slice(line, 0, n);
    str value = str_trim(str_slice(line, n + 1, line.n));
    if (n && n < line.n && line.p[n] == '=') return cgr_spec(c, key, value, e);
    if (n && n < line.n && line.p[n] == ':') return cgr_header(c, key, value, e);
    if (c->event_count) graft_lose(&c->g, LOSS_BAD_LINE, 1);
    return c->event_count || err_set(e, ERR_INVALID_ARGUMENT, "it is no text of callgrind");
}

static bool cgr_lines(struct cgr *c, str text, err *e)
{
    size_t number = 1;
    for (str rest = text; rest.n; number++) {
        if (!cgr_line(c, str_split(rest, '\n', &rest), e)) return err_wrap(e, "line %zu", number);
    }
    return c->event_count || err_set(e, ERR_INVALID_ARGUMENT, "it has no line `events:`");
}

// The part of the file's sums that no function has belongs to an unknown stack.
static bool cgr_rest(struct cgr *c, uint32_t root, err *e)
{
    bool more = false;
    for (uint32_t i = 0; c->has_totals && i < c->event_count; i++) {
        int64_t sum = 0;
        bool fits = true;
        for (size_t k = 0; k < c->graph.count; k++)
            fits &= !__builtin_add_overflow(sum, c->graph.self[k * c->event_count + i], &sum);
        if (!fits || sum >= c->totals[i]) continue;
        more = true;
        if (!graft_add(&c->g, root, i, c->totals[i] - MAX(sum, 0), e)) return false;
    }
    if (more) graft_lose(&c->g, LOSS_UNKNOWN_STACK, 1);
    return true;
}

bool decode_callgrind(struct arena *a, str bytes, const struct decode_options *o,
                      struct decoded *out, err *e)
{
    struct cgr *c = ARENA_NEW(a, struct cgr);
    struct profile *p = NULL;
    uint32_t root = 0;
    if (!c) return arena_fail(a, e);
    c->a = a;
    c->o = o;
    c->bytes = bytes.n;
    c->positions = 1;
    map_init(&c->objects.rows, a->budget);
    map_init(&c->files.rows, a->budget);
    map_init(&c->functions.rows, a->budget);
    bool ok = cgr_lines(c, bytes, e) && graft_root(&c->g, NULL, 0, &root, e) &&
              callgraph_put(&c->graph, &c->g, root, bytes.n, e) && cgr_rest(c, root, e) &&
              graft_finish(&c->g, &p, e);
    graft_release(&c->g);
    callgraph_release(&c->graph);
    map_release(&c->objects.rows);
    map_release(&c->files.rows);
    map_release(&c->functions.rows);
    if (!ok) return false;
    p->default_type = p->types[0].type;
    *out = (struct decoded){p, 1};
    return true;
}
