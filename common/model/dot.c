// SPDX-License-Identifier: Apache-2.0
//
// dot.c - three passes over the tree: (1) the function of each node; (2) a walk that adds up
// functions, of which the largest are chosen; (3) a walk that adds up the edges between these.
#include "model/dot.h"

#include "base/hash.h"
#include "base/map.h"
#include "base/utf8.h"
#include "model/vector.h"

#include <stdio.h>
#include <stdlib.h>

#define NONE UINT32_MAX

// `open` counts how often a function or an edge is on the path from the root to the current node,
// so that recursion counts once.
struct function {
    str name;
    struct wide self;  // parts of a total that fits need not fit: shown as the nearest that does
    struct wide total;
    uint32_t open;
    uint32_t place;  // among those shown, from 1; 0 = left out
};

struct edge {
    uint32_t from;  // functions
    uint32_t to;
    struct wide weight;
    uint32_t open;
    bool direct;  // at least one call has no left-out function in between
};

struct graph {
    struct arena *arena;
    const struct tree *tree;
    const struct dot_options *options;

    struct function *functions;
    uint32_t function_count;
    uint32_t *function_of;  // of each node; NONE for the root

    struct function **shown;  // largest first
    uint32_t shown_count;

    uint32_t *near;     // of each node: function of it or of its nearest ancestor shown; NONE
    uint32_t *edge_of;  // of each node: edge + 1 that its call is; 0 = none
    struct edge *edges;
    uint32_t edge_count;
    uint32_t *slots;  // open addressing over (from, to): edge + 1; 0 = free
    uint32_t size;
};

static uint32_t table_size(uint32_t n)
{
    uint32_t size = 16;
    while (size / 2 < n && size < 1u << 31)
        size *= 2;
    return size;
}

// ---- 1: functions

static bool name_functions(struct graph *g)
{
    const struct tree *t = g->tree;
    uint32_t size = table_size(t->count);
    uint32_t *slots = ARENA_ARRAY(g->arena, uint32_t, size);
    g->functions = ARENA_ARRAY(g->arena, struct function, t->count);
    g->function_of = ARENA_ARRAY(g->arena, uint32_t, t->count);
    if (!slots || !g->functions || !g->function_of) return false;
    g->function_of[0] = NONE;
    for (uint32_t i = 1; i < t->count; i++) {
        str name = t->nodes[i].name;
        uint32_t at = (uint32_t)(hash_table_str(name) >> 32) & (size - 1);
        for (; slots[at] && !str_eq(g->functions[slots[at] - 1].name, name);
             at = (at + 1) & (size - 1))
            map_stepped();
        if (!slots[at]) {
            g->functions[g->function_count].name = name;
            slots[at] = ++g->function_count;
        }
        g->function_of[i] = slots[at] - 1;
    }
    return true;
}

// ---- the walk: every node but the root is entered before and left after its children

typedef void visit(struct graph *g, uint32_t node);

static void walk(struct graph *g, visit *enter, visit *leave)
{
    // By the links of the tree, without recursion and without a list: a tree may be a million deep.
    const struct tree_node *nodes = g->tree->nodes;
    uint32_t node = nodes[0].first_child;
    while (node) {
        enter(g, node);
        if (nodes[node].first_child) {
            node = nodes[node].first_child;
            continue;
        }
        leave(g, node);
        while (node && !nodes[node].next_sibling) {
            node = nodes[node].parent;
            if (node) leave(g, node);
        }
        if (node) node = nodes[node].next_sibling;
    }
}

// ---- 2: sums of functions

static void enter_function(struct graph *g, uint32_t node)
{
    const struct tree_node *n = &g->tree->nodes[node];
    struct function *f = &g->functions[g->function_of[node]];
    wide_add(&f->self, n->self);
    if (f->open++ == 0) wide_add(&f->total, n->total);
}

static void leave_function(struct graph *g, uint32_t node)
{
    assert(g->functions[g->function_of[node]].open > 0);
    g->functions[g->function_of[node]].open--;
}

static int largest_first(const void *a, const void *b)
{
    const struct function *x = *(struct function *const *)a;
    const struct function *y = *(struct function *const *)b;
    int order = wide_cmp(y->total, x->total);
    if (order == 0) order = wide_cmp(y->self, x->self);
    return order ? order : str_cmp(x->name, y->name);
}

static bool choose(struct graph *g)
{
    int64_t most = g->options->max_nodes;
    g->shown = ARENA_ARRAY(g->arena, struct function *, g->function_count);
    if (!g->shown) return false;
    for (uint32_t i = 0; i < g->function_count; i++)
        g->shown[i] = &g->functions[i];
    qsort(g->shown, g->function_count, sizeof(struct function *), largest_first);
    g->shown_count = g->function_count;
    if (most > 0 && most < g->function_count) g->shown_count = (uint32_t)most;
    assert(g->shown_count <= g->function_count);
    for (uint32_t i = 0; i < g->shown_count; i++)
        g->shown[i]->place = i + 1;
    return true;
}

// ---- 3: edges

static uint32_t edge(struct graph *g, uint32_t from, uint32_t to)
{
    uint64_t hash = hash_table_word((uint64_t)from << 32 | to);
    uint32_t at = (uint32_t)(hash >> 32) & (g->size - 1);
    for (; g->slots[at]; at = (at + 1) & (g->size - 1)) {
        const struct edge *x = &g->edges[g->slots[at] - 1];
        map_stepped();
        if (x->from == from && x->to == to) return g->slots[at] - 1;
    }
    assert(g->edge_count < g->tree->count);  // a node has one call, so it adds one edge at most
    g->edges[g->edge_count] = (struct edge){.from = from, .to = to};
    g->slots[at] = ++g->edge_count;
    return g->edge_count - 1;
}

static void enter_edge(struct graph *g, uint32_t node)
{
    const struct tree_node *n = &g->tree->nodes[node];
    uint32_t to = g->function_of[node];
    uint32_t from = g->near[n->parent];
    // Calls of functions that are left out are drawn from the nearest caller that is shown.
    bool shown = g->functions[to].place != 0;
    g->near[node] = shown ? to : from;
    if (!shown || from == NONE || from == to) return;
    uint32_t at = edge(g, from, to);
    struct edge *x = &g->edges[at];
    g->edge_of[node] = at + 1;
    x->direct = x->direct || g->function_of[n->parent] == from;
    if (x->open++ == 0) wide_add(&x->weight, n->total);
}

static void leave_edge(struct graph *g, uint32_t node)
{
    assert(!g->edge_of[node] || g->edges[g->edge_of[node] - 1].open > 0);
    if (g->edge_of[node]) g->edges[g->edge_of[node] - 1].open--;
}

static int heaviest_first(const void *a, const void *b)
{
    const struct edge *x = a;
    const struct edge *y = b;
    int order = wide_cmp(y->weight, x->weight);
    if (order) return order;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static bool connect(struct graph *g, err *e)
{
    uint32_t count = g->tree->count;
    g->size = table_size(count);
    g->slots = ARENA_ARRAY(g->arena, uint32_t, g->size);
    g->near = ARENA_ARRAY(g->arena, uint32_t, count);
    g->edge_of = ARENA_ARRAY(g->arena, uint32_t, count);
    g->edges = ARENA_ARRAY(g->arena, struct edge, count);
    if (!g->slots || !g->near || !g->edge_of || !g->edges) return arena_fail(g->arena, e);
    g->near[0] = NONE;
    walk(g, enter_edge, leave_edge);
    if (g->edge_count) qsort(g->edges, g->edge_count, sizeof *g->edges, heaviest_first);
    return true;
}

// ---- text

// Whether s begins with an entity such as &lt; or &#38;, which Graphviz would print as its
// character.
static bool is_entity(str s)
{
    size_t n = 1;
    while (n < s.n && n < 34) {
        char c = s.p[n];
        bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!word && c != '#') return c == ';' && n > 1;
        n++;
    }
    return false;
}

// For the inside of a quoted label. Graphviz reads \ as the beginning of an escape, too.
static void put_text(struct buf *out, str s)
{
    bool utf8 = str_utf8(s);
    bool cut = s.n > DOT_NAME_MAX;
    s = utf8_head(s, DOT_NAME_MAX);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '"' || c == '\\') buf_byte(out, '\\');
        if (c < 0x20 || c == 0x7f) c = ' ';
        if (c >= 0x80 && !utf8) c = '?';
        buf_byte(out, c);
        if (c == '&' && is_entity(str_slice(s, i, s.n))) buf_z(out, "amp;");
    }
    if (cut) buf_z(out, "\xe2\x80\xa6");
}

struct scale {
    double unit;
    const char *name;
};

static const struct scale times[] = {{1, "ns"},      {1e3, "us"},     {1e6, "ms"},      {1e9, "s"},
                                     {6e10, "mins"}, {3.6e12, "hrs"}, {8.64e13, "days"}};
static const struct scale sizes[] = {
    {1, "B"}, {1024, "kB"}, {1048576, "MB"}, {1073741824, "GB"}, {1099511627776, "TB"}};

static void put_value(const struct graph *g, int64_t v, struct buf *out)
{
    const struct scale *rows = NULL;
    size_t n = 0;
    if (str_is(g->options->sample_unit, "nanoseconds")) {
        rows = times;
        n = COUNT(times);
    } else if (str_is(g->options->sample_unit, "bytes")) {
        rows = sizes;
        n = COUNT(sizes);
    }
    double size = v < 0 ? -(double)v : (double)v;
    while (n > 1 && size < rows[n - 1].unit)
        n--;
    if (n <= 1 || v == 0) {
        buf_i64(out, v);
        if (n && v) buf_z(out, rows[0].name);
        return;
    }
    buf_printf(out, "%.2f%s", (double)v / rows[n - 1].unit, rows[n - 1].name);
}

static double share(const struct graph *g, int64_t v)
{
    int64_t total = g->tree->nodes[0].total;
    return total ? (double)v / (double)total : 0;
}

static void put_part(const struct graph *g, int64_t v, struct buf *out)
{
    put_value(g, v, out);
    if (v == 0) return;
    if (v == g->tree->nodes[0].total) {
        buf_z(out, " (100%)");
    } else {
        buf_printf(out, " (%.2f%%)", 100 * share(g, v));
    }
}

static void put_legend(const struct graph *g, struct buf *out)
{
    struct wide self = {0};
    for (uint32_t i = 0; i < g->shown_count; i++)
        wide_unite(&self, g->shown[i]->self);
    buf_z(out, "subgraph cluster_L { \"legend\" [shape=box fontsize=16 label=\"Type: ");
    put_text(out, g->options->sample_type);
    buf_z(out, "\\lUnit: ");
    put_text(out, g->options->sample_unit);
    buf_z(out, "\\lShowing nodes accounting for ");
    put_part(g, wide_clip(self), out);
    buf_z(out, " of ");
    put_value(g, g->tree->nodes[0].total, out);
    buf_z(out, " total\\l");
    if (g->shown_count < g->function_count) {
        buf_printf(out, "Showing top %u nodes out of %u\\l", g->shown_count, g->function_count);
    }
    buf_z(out, "\"] }\n");
}

static void put_node(const struct graph *g, const struct function *f, int64_t max_self,
                     struct buf *out)
{
    buf_printf(out, "N%u [label=\"", f->place);
    put_text(out, f->name);
    buf_z(out, "\\n");
    int64_t self = wide_clip(f->self);
    put_part(g, self, out);
    if (wide_cmp(f->self, f->total) != 0) {
        buf_z(out, self ? "\\nof " : " of ");
        put_part(g, wide_clip(f->total), out);
    }
    double large = max_self > 0 && self > 0 ? (double)self / (double)max_self : 0;
    buf_printf(out, "\" id=\"node%u\" fontsize=%d shape=box]\n", f->place, 8 + (int)(16 * large));
}

static void put_edge(const struct graph *g, const struct edge *x, struct buf *out)
{
    double part = MAX(0.0, MIN(1.0, share(g, wide_clip(x->weight))));
    buf_printf(out, "N%u -> N%u [label=\" ", g->functions[x->from].place,
               g->functions[x->to].place);
    put_value(g, wide_clip(x->weight), out);
    buf_printf(out, "\" weight=%d penwidth=%d%s]\n", 1 + (int)(99 * part), 1 + (int)(5 * part),
               x->direct ? "" : " style=\"dotted\"");
}

static bool put_graph(const struct graph *g, struct buf *out, err *e)
{
    int64_t max_self = 0;
    buf_z(out, "digraph \"unnamed\" {\nnode [style=filled fillcolor=\"#f8f8f8\"]\n");
    put_legend(g, out);
    for (uint32_t i = 0; i < g->shown_count; i++)
        max_self = MAX(max_self, wide_clip(g->shown[i]->self));
    for (uint32_t i = 0; i < g->shown_count && !out->failed; i++)
        put_node(g, g->shown[i], max_self, out);
    for (uint32_t i = 0; i < g->edge_count && !out->failed; i++)
        put_edge(g, &g->edges[i], out);
    buf_z(out, "}\n");
    return buf_ok(out, e);
}

static bool dot_fits(const struct graph *g)
{
    bool fit = true;
    for (uint32_t i = 0; i < g->shown_count; i++)
        fit = fit && wide_fits(g->shown[i]->self) && wide_fits(g->shown[i]->total);
    for (uint32_t i = 0; i < g->edge_count; i++)
        fit = fit && wide_fits(g->edges[i].weight);
    return fit;
}

// No node has the value of a function that is not shown, so the total less the selves is hidden.
static void dot_tell(const struct graph *g, struct tree_shown *shown)
{
    struct wide self = {0};
    for (uint32_t i = 0; i < g->shown_count; i++)
        wide_unite(&self, g->shown[i]->self);
    double total = (double)g->tree->nodes[0].total;
    *shown = (struct tree_shown){.sent = g->shown_count,
                                 .all = g->function_count,
                                 .total = total,
                                 .hidden = total - (double)wide_clip(self),
                                 .clipped = !dot_fits(g) || !wide_fits(self)};
}

bool dot_print(struct arena *a, const struct tree *t, const struct dot_options *o, struct buf *out,
               err *e)
{
    if (t->count <= 1) return buf_ok(out, e);
    struct graph g = {.arena = a, .tree = t, .options = o};
    if (!name_functions(&g)) return arena_fail(a, e);
    walk(&g, enter_function, leave_function);
    if (!choose(&g)) return arena_fail(a, e);
    if (!connect(&g, e) || !put_graph(&g, out, e)) return false;
    if (o->shown) dot_tell(&g, o->shown);
    return true;
}
