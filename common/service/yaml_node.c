// SPDX-License-Identifier: Apache-2.0
//
// libyaml's events, not libcyaml's schema: libcyaml 1.3.1 reports the place of the event before the
// faulty one (an unknown key on line 3 is said to be on line 2), does not tell the line of a value
// at all, which our bounds need, and ignores further documents.
#include "service/yaml_node.h"

#include <stdarg.h>
#include <stdio.h>

#include <yaml.h>

#define PATH_SHOWN 256

struct reader {
    const char *file;
    struct arena *arena;
    struct yaml_node *root;
    struct yaml_node *at;  // the list or map that is open, NULL before the root
    size_t depth;
    str key;  // of the next member
    unsigned key_line;
    bool has_key;
    bool done;  // the root is complete
};

static unsigned line_of(const yaml_event_t *ev)
{
    return (unsigned)ev->start_mark.line + 1;
}

static bool fail(const struct reader *r, const yaml_event_t *ev, const char *what, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "%s:%u: %s", r->file, line_of(ev), what);
}

static void append(struct yaml_node *parent, struct yaml_node *t)
{
    assert(parent);
    assert(!t->next && parent->kind >= YAML_NODE_LIST);
    t->parent = parent;
    if (parent->last)
        parent->last->next = t;
    else
        parent->first = t;
    parent->last = t;
    parent->count++;
}

static struct yaml_node *add(struct reader *r, const yaml_event_t *ev, enum yaml_node_kind kind)
{
    struct yaml_node *t = ARENA_NEW(r->arena, struct yaml_node);
    if (!t) return NULL;
    *t = (struct yaml_node){.kind = kind, .file = r->file, .line = line_of(ev)};
    // The key's line, not the value's: that is where a person looks for it.
    if (r->has_key) {
        t->key = r->key;
        t->line = r->key_line;
        r->has_key = false;
    }
    assert(r->at || !r->root);  // one root: what follows it was refused
    if (r->at)
        append(r->at, t);
    else
        r->root = t;
    return t;
}

static bool on_key(struct reader *r, const yaml_event_t *ev, err *e)
{
    if (ev->type != YAML_SCALAR_EVENT) return fail(r, ev, "expected a key", e);
    assert(!r->has_key);
    r->key = arena_str(r->arena, str_make(ev->data.scalar.value, ev->data.scalar.length));
    r->key_line = line_of(ev);
    r->has_key = true;
    return r->key.n > 0 || r->arena->exhausted || fail(r, ev, "empty key", e);
}

// An empty plain scalar is YAML's null: the value was forgotten, or is meant to be a default that
// could be had by leaving the line out. "" says that it is meant to be empty.
static bool on_scalar(struct reader *r, const yaml_event_t *ev)
{
    bool quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    bool null = !quoted && ev->data.scalar.length == 0;
    struct yaml_node *t = add(r, ev, null ? YAML_NODE_NULL : YAML_NODE_SCALAR);
    if (!t) return false;
    t->quoted = quoted;
    t->text = arena_str(r->arena, str_make(ev->data.scalar.value, ev->data.scalar.length));
    r->done = !r->at;
    return true;
}

static bool on_event(struct reader *r, const yaml_event_t *ev, err *e)
{
    if (ev->type == YAML_ALIAS_EVENT) return fail(r, ev, "aliases are not allowed", e);
    if (r->done) return fail(r, ev, "nothing may follow the settings", e);
    if (ev->type == YAML_MAPPING_END_EVENT || ev->type == YAML_SEQUENCE_END_EVENT) {
        assert(r->at);  // libyaml ends only what has begun
        assert(r->depth > 0);
        r->at = r->at->parent;
        r->depth--;
        r->done = !r->at;
        return true;
    }
    if (r->at && r->at->kind == YAML_NODE_MAP && !r->has_key) return on_key(r, ev, e);
    if (ev->type == YAML_SCALAR_EVENT) return on_scalar(r, ev) || arena_fail(r->arena, e);
    // Few levels are needed, and walks upwards have room for no more (print_path).
    if (++r->depth > YAML_NODE_DEPTH_MAX)
        return fail(r, ev, "lists and maps are nested too deeply", e);
    struct yaml_node *t =
        add(r, ev, ev->type == YAML_MAPPING_START_EVENT ? YAML_NODE_MAP : YAML_NODE_LIST);
    if (!t) return arena_fail(r->arena, e);
    r->at = t;
    return true;
}

static bool is_framing(const yaml_event_t *ev, bool first_document)
{
    switch (ev->type) {
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return true;
    case YAML_DOCUMENT_START_EVENT:
        return first_document;
    default:
        return false;
    }
}

bool yaml_node_parse(str yaml, const char *file, struct arena *a, struct yaml_node **root, err *e)
{
    struct reader r = {.file = file, .arena = a};
    yaml_parser_t p;
    if (!yaml_parser_initialize(&p)) return err_set(e, ERR_RESOURCE_EXHAUSTED, "out of memory");
    yaml_parser_set_input_string(&p, (const unsigned char *)(yaml.p ? yaml.p : ""), yaml.n);
    bool ok = true;
    bool end = false;
    while (ok && !end) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&p, &ev)) {
            ok = false;
            if (p.error == YAML_MEMORY_ERROR)
                err_set(e, ERR_RESOURCE_EXHAUSTED, "%s: out of memory", file);
            else
                err_set(e, ERR_INVALID_ARGUMENT, "%s:%u: %s", file,
                        (unsigned)p.problem_mark.line + 1, p.problem ? p.problem : "not YAML");
            break;
        }
        end = ev.type == YAML_STREAM_END_EVENT;
        if (!is_framing(&ev, !r.root)) ok = on_event(&r, &ev, e);
        yaml_event_delete(&ev);
    }
    yaml_parser_delete(&p);
    // A file of comments has no event for a value: it means "nothing is set".
    if (!r.root) {
        r.root = ARENA_NEW(a, struct yaml_node);
        if (r.root) *r.root = (struct yaml_node){.file = file, .line = 1};
    }
    *root = r.root;
    return ok && arena_ok(a, e);
}

bool yaml_node_parse_file(str yaml, const char *file, struct arena *a, struct yaml_node **root,
                          err *e)
{
    if (str_trim(yaml).n == 0) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "%s:1: the file is empty (%zu bytes); to set nothing, write {} or a comment",
                       file, yaml.n);
    }
    if (!yaml_node_parse(yaml, file, a, root, e)) return false;
    // Without a value, # can only begin a comment.
    if ((*root)->kind != YAML_NODE_NULL || str_contains(yaml, S("#"))) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "%s:1: the file holds no value; to set nothing, write {} or a comment", file);
}

// ---- faults

static size_t position(const struct yaml_node *t)
{
    size_t n = 0;
    for (const struct yaml_node *s = t->parent->first; s != t; s = s->next)
        n++;
    return n;
}

static void print_path(const struct yaml_node *t, char path[PATH_SHOWN])
{
    const struct yaml_node *way[YAML_NODE_DEPTH_MAX + 1];
    size_t n = 0;
    for (; t->parent; t = t->parent) {
        assert(n < COUNT(way));
        way[n++] = t;
    }
    // The steps were met from the inside out, and are printed from the outside in.
    size_t at = 0;
    path[0] = '\0';
    while (n > 0 && at < PATH_SHOWN - 1) {
        const struct yaml_node *step = way[--n];
        int len = step->key.n ? snprintf(path + at, PATH_SHOWN - at, "%s%.*s", at ? "." : "",
                                         (int)MIN(step->key.n, (size_t)PATH_SHOWN), step->key.p)
                              : snprintf(path + at, PATH_SHOWN - at, "[%zu]", position(step));
        at += (size_t)len;
    }
}

bool yaml_node_fail(const struct yaml_node *t, err *e, const char *fmt, ...)
{
    char path[PATH_SHOWN];
    char what[sizeof e->msg];
    assert(t->file);
    print_path(t, path);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(e, ERR_INVALID_ARGUMENT, "%s:%u: %s%s%s", t->file, t->line, path,
                   path[0] ? ": " : "", what);
}

// ---- whole trees

const struct yaml_node *yaml_node_after(const struct yaml_node *root, const struct yaml_node *t,
                                        int *levels)
{
    int none = 0;
    int *l = levels ? levels : &none;
    *l = 1;
    if (t->first) return t->first;
    *l = 0;
    // Upwards until there is a next one; the root has none, whatever stands beside it.
    for (; t != root; t = t->parent, --*l) {
        if (t->next) return t->next;
    }
    return NULL;
}

bool yaml_node_eq(const struct yaml_node *a, const struct yaml_node *b)
{
    const struct yaml_node *x = a;
    const struct yaml_node *y = b;
    while (x && y) {
        if (x->kind != y->kind || x->count != y->count || !str_eq(x->text, y->text)) return false;
        if ((x != a || y != b) && !str_eq(x->key, y->key)) return false;
        x = yaml_node_after(a, x, NULL);
        y = yaml_node_after(b, y, NULL);
    }
    return !x && !y;
}

static struct yaml_node *copy_node(struct arena *a, const struct yaml_node *t)
{
    struct yaml_node *c = ARENA_NEW(a, struct yaml_node);
    if (!c) return NULL;
    *c = (struct yaml_node){
        .kind = t->kind,
        .quoted = t->quoted,
        .line = t->line,
        .file = t->file,
        .key = arena_str(a, t->key),
        .text = arena_str(a, t->text),
    };
    return c;
}

static struct yaml_node *copy(struct arena *a, const struct yaml_node *t)
{
    struct yaml_node *root = copy_node(a, t);
    struct yaml_node *parent = root;
    const struct yaml_node *from = t;
    struct yaml_node *last = root;
    int levels = 0;
    while (last && (from = yaml_node_after(t, from, &levels))) {
        if (levels == 1) parent = last;
        for (; levels < 0; levels++) {
            assert(parent);  // from stays below t
            parent = parent->parent;
        }
        last = copy_node(a, from);
        if (last) append(parent, last);
    }
    return last ? root : NULL;
}

static struct yaml_node *member(const struct yaml_node *map, str key)
{
    for (struct yaml_node *t = map->first; t; t = t->next) {
        if (str_eq(t->key, key)) return t;
    }
    return NULL;
}

static void replace(struct yaml_node *old, struct yaml_node *by)
{
    struct yaml_node *parent = old->parent;
    assert(parent && by != old);
    struct yaml_node **link = &parent->first;
    while (*link != old)
        link = &(*link)->next;
    *link = by;
    by->next = old->next;
    by->parent = parent;
    if (parent->last == old) parent->last = by;
}

// A copy of t in the map, in the place of a member or as a new one.
static bool put_copy(struct arena *a, struct yaml_node *map, struct yaml_node *there,
                     const struct yaml_node *t)
{
    struct yaml_node *new = copy(a, t);
    if (!new) return false;
    assert(map->kind == YAML_NODE_MAP);
    if (there)
        replace(there, new);
    else
        append(map, new);
    return true;
}

// `over` is walked in order; where a map meets a map the walk goes on inside both, any other node
// of it is copied whole. `to` is the map of the result that the walk stands in.
struct yaml_node *yaml_node_merge(struct arena *a, const struct yaml_node *base,
                                  const struct yaml_node *over)
{
    if (!base || !over) return base || over ? copy(a, base ? base : over) : NULL;
    if (base->kind != YAML_NODE_MAP || over->kind != YAML_NODE_MAP) return copy(a, over);
    struct yaml_node *root = copy(a, base);
    struct yaml_node *to = root;
    const struct yaml_node *from = over->first;
    const struct yaml_node *in = over;
    while (root && in) {
        assert(to);   // as deep in the result as `in` is in `over`
        if (!from) {  // the map is done: on behind it
            from = in == over ? NULL : in->next;
            in = in == over ? NULL : in->parent;
            to = to->parent;
            continue;
        }
        struct yaml_node *there = member(to, from->key);
        if (there && there->kind == YAML_NODE_MAP && from->kind == YAML_NODE_MAP) {
            to = there;
            in = from;
            from = from->first;
            continue;
        }
        if (!put_copy(a, to, there, from)) return NULL;
        from = from->next;
    }
    return root;
}

// ---- printing

void yaml_node_print_text(str text, struct buf *out)
{
    buf_byte(out, '"');
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else
            buf_byte(out, c);
    }
    buf_byte(out, '"');
}

static bool is_plain_byte(char c, bool first)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
    return c == '_' || c == '/' || (!first && (c == '.' || c == '-' || c == '+'));
}

static void print_scalar(str text, bool quoted, struct buf *out)
{
    bool plain = !quoted && text.n > 0;
    // Without quotes only what no reader takes for a number with a meaning, a flag or a comment.
    for (size_t i = 0; plain && i < text.n; i++)
        plain = is_plain_byte(text.p[i], i == 0);
    if (plain)
        buf_str(out, text);
    else
        yaml_node_print_text(text, out);
}

static void print_end(const struct yaml_node *t, struct buf *out)
{
    buf_byte(out, t->kind == YAML_NODE_LIST ? ']' : '}');
}

static void print_begin(const struct yaml_node *t, bool with_key, struct buf *out)
{
    if (with_key && t->key.n) {
        print_scalar(t->key, false, out);
        buf_z(out, ": ");
    }
    if (t->kind == YAML_NODE_LIST)
        buf_byte(out, '[');
    else if (t->kind == YAML_NODE_MAP)
        buf_byte(out, '{');
    else
        print_scalar(t->text, t->quoted, out);
    if (t->kind >= YAML_NODE_LIST && !t->first) print_end(t, out);
}

void yaml_node_print(const struct yaml_node *t, struct buf *out)
{
    int levels = 0;
    print_begin(t, false, out);
    const struct yaml_node *at = t;
    for (const struct yaml_node *n; (n = yaml_node_after(t, at, &levels)); at = n) {
        for (const struct yaml_node *up = at->parent; levels < 0; up = up->parent, levels++)
            print_end(up, out);
        if (levels == 0 && n != n->parent->first) buf_z(out, ", ");
        print_begin(n, true, out);
    }
    for (const struct yaml_node *up = at; up != t;) {
        up = up->parent;
        print_end(up, out);
    }
}
