// SPDX-License-Identifier: Apache-2.0
//
// cli_flame.c - checks and links the bars of an answer, and walks the tree without recursion.
#include "deploy/cli/cli_flame.h"

#include "codec/pb.h"

#include <stdlib.h>

#define FULL ((size_t)256 << 10)  // of a sink's buffer

// ---- reading

struct reading {
    struct flame *out;
    uint32_t parent;      // where the next bar may lie, in the level above
    uint32_t parent_end;  // end of that level
    uint32_t last;        // child of `parent` that came before, or FLAME_NONE
    int64_t room;         // of `parent`, beside its self and its children; once it has a child
    int64_t selves;       // of all bars, without their signs: no sum of selves is larger
    size_t narrow;        // 0, or the first level + 1 with more self than its bar is wide
};

static bool refuse(err *e, size_t level, const char *what)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "the flame graph is malformed: level %zu %s", level,
                   what);
}

static int64_t right_of(const struct flame_node *n)
{
    assert(n->left >= 0 && n->width >= 0);
    return n->left + n->width;  // cannot overflow: read_level has checked it
}

// Hangs a bar below the one above it; returns NULL, or what is wrong. Bars of both levels go from
// left to right, so one pass does.
static const char *hang(struct reading *r, uint32_t at)
{
    struct flame_node *nodes = r->out->nodes;
    struct flame_node *n = &nodes[at];
    assert(r->parent <= r->parent_end && r->parent_end <= at);
    while (r->parent < r->parent_end) {
        const struct flame_node *p = &nodes[r->parent];
        if (n->left >= p->left && right_of(n) <= right_of(p)) break;
        r->parent++;
        r->last = FLAME_NONE;
    }
    if (r->parent == r->parent_end) return "has a bar that lies below none";
    if (r->last == FLAME_NONE) {
        const struct flame_node *p = &nodes[r->parent];
        r->room = p->width - MIN(MAX(p->self, 0), p->width);
    }
    // Sums of functions rely on it: else the self of a recursive function could exceed its total,
    // and with large values 64 bits.
    if (n->width > r->room) return "has bars that leave no room for the self of the one above";
    r->room -= n->width;
    n->parent = r->parent;
    if (r->last == FLAME_NONE)
        nodes[r->parent].first_child = at;
    else
        nodes[r->last].next_sibling = at;
    r->last = at;
    return NULL;
}

static bool note_self(struct reading *r, const struct flame_node *n, size_t level)
{
    if (n->self == INT64_MIN ||
        __builtin_add_overflow(r->selves, n->self < 0 ? -n->self : n->self, &r->selves))
        return false;
    r->out->is_signed = r->out->is_signed || n->self < 0;
    if (n->self > n->width && r->narrow == 0) r->narrow = level + 1;
    return true;
}

static bool read_level(struct reading *r, const Querier__V1__Level *v, size_t level, err *e)
{
    struct flame *f = r->out;
    // Four numbers a bar: its distance from the end of the bar before, its total, its self, and the
    // index of its name. So `edge` moves from left to right.
    int64_t edge = 0;
    if (v->n_values % 4 != 0) return refuse(e, level, "is not made of groups of 4 numbers");
    for (size_t i = 0; i < v->n_values; i += 4) {
        const int64_t *bar = v->values + i;
        struct flame_node *n = &f->nodes[f->count];
        *n = (struct flame_node){.parent = FLAME_NONE,
                                 .first_child = FLAME_NONE,
                                 .next_sibling = FLAME_NONE,
                                 .width = bar[1],
                                 .self = bar[2],
                                 .total = bar[1]};
        if (bar[0] < 0 || bar[1] < 0) return refuse(e, level, "has a bar of a negative size");
        if (bar[3] < 0 || (uint64_t)bar[3] >= f->name_count)
            return refuse(e, level, "has a bar whose name does not exist");
        if (__builtin_add_overflow(edge, bar[0], &n->left) ||
            __builtin_add_overflow(n->left, n->width, &edge))
            return refuse(e, level, "is too wide");
        n->name = (uint32_t)bar[3];
        assert(n->left >= 0 && right_of(n) == edge);
        const char *fault = level > 0 ? hang(r, f->count) : NULL;
        if (fault) return refuse(e, level, fault);
        f->is_flat = f->is_flat || (level > 0 && n->width == 0);
        if (!note_self(r, n, level)) return refuse(e, level, "has selves that do not fit 64 bits");
        f->count++;
    }
    // Shares are of the root, and columns are counted from its left edge.
    if (level == 0 && f->count > 1) return refuse(e, level, "has more than one root");
    if (level == 0 && f->count == 1 && f->nodes[0].left != 0)
        return refuse(e, level, "has a root that does not begin at 0");
    return true;
}

// Makes totals the sums of selves. Nodes come after their parents, so one pass from the last does.
static void sum_selves(struct flame *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        f->nodes[i].total = f->nodes[i].self;
    // No overflow: read_level added up all selves without their signs.
    for (uint32_t i = f->count; i-- > 1;)
        f->nodes[f->nodes[i].parent].total += f->nodes[i].total;
}

bool flame_read(struct arena *a, const Querier__V1__FlameGraph *g, struct flame *out, err *e)
{
    *out = (struct flame){0};
    if (!g) return true;
    assert(a && e);
    size_t bars = 0;
    for (size_t i = 0; i < g->n_levels; i++)
        bars += g->levels[i]->n_values / 4;
    // Nodes and names have 32 bits, and the last number means none.
    if (bars >= FLAME_NONE || g->n_names >= FLAME_NONE)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "the flame graph has %zu nodes", bars);
    out->nodes = ARENA_ARRAY(a, struct flame_node, bars + 1);
    out->names = ARENA_ARRAY(a, str, g->n_names + 1);
    out->level_ends = ARENA_ARRAY(a, uint32_t, g->n_levels + 1);
    if (!arena_ok(a, e)) return false;
    out->name_count = (uint32_t)g->n_names;
    for (size_t i = 0; i < g->n_names; i++)
        out->names[i] = pb_text(g->names[i]);
    struct reading r = {.out = out, .last = FLAME_NONE};
    for (size_t i = 0; i < g->n_levels; i++) {
        // The level above begins where the one above that ended.
        r.parent = i > 1 ? out->level_ends[i - 2] : 0;
        r.parent_end = out->count;
        r.last = FLAME_NONE;
        if (!read_level(&r, g->levels[i], i, e)) return false;
        if (out->count == r.parent_end)
            break;  // an empty level: bars below it could have no parent
        out->level_ends[out->level_count++] = out->count;
    }
    if (out->count == 0) return true;
    assert(out->count <= bars && out->level_count > 0);
    if (r.narrow && !out->is_signed)
        return refuse(e, r.narrow - 1, "has a bar with more self than total");
    if (out->is_signed) sum_selves(out);
    out->total = out->nodes[0].total;
    if (out->is_signed && MAX(out->total, 0) != out->nodes[0].width)
        return refuse(e, 0, "has another size than its selves add up to");
    if (out->nodes[0].width == 0 && !out->is_signed) out->count = 0;  // no data
    return true;
}

// ---- walking

struct flame_walk flame_walk_begin(const struct flame *f)
{
    assert(f->count > 0);
    return (struct flame_walk){0};
}

bool flame_walk_next(const struct flame *f, struct flame_walk *w)
{
    assert(w->node < f->count);
    // Each node is seen twice: on the way down, and with `leaving` after all nodes below it. There
    // is no recursion, as the depth is the server's.
    const struct flame_node *n = &f->nodes[w->node];
    if (!w->leaving) {
        if (n->first_child == FLAME_NONE) {
            w->leaving = true;
            return true;
        }
        assert(n->first_child > w->node);
        w->node = n->first_child;
        w->depth++;
        return true;
    }
    if (n->next_sibling != FLAME_NONE) {
        w->node = n->next_sibling;
        w->leaving = false;
        return true;
    }
    if (n->parent == FLAME_NONE) return false;
    assert(w->depth > 0 && n->parent < w->node);
    w->node = n->parent;
    w->depth--;
    return true;
}

// ---- collapsed text

static void put_name(struct buf *b, str name)
{
    // At the begin of a line a number sign and a space are a comment.
    bool comment = b->n == 0 && (str_is(name, "#") || str_starts(name, S("# ")));
    for (size_t i = 0; i < name.n; i++) {
        uint8_t c = (uint8_t)name.p[i];
        // A newline in a name would end the line of its stack, and a semicolon the frame: it
        // becomes a colon, as in stackcollapse-perf.pl.
        bool odd = c < ' ' || c == 0x7f || (i == 0 && comment);
        buf_byte(b, odd ? '?' : c == ';' ? ':' : c);
    }
}

bool flame_folded(const struct flame *f, struct arena *a, struct buf *b,
                  const struct flame_sink *sink, err *e)
{
    if (f->count == 0) return true;
    struct buf path;
    buf_init(&path, a->budget, SIZE_MAX / 2);
    size_t *ends = ARENA_ARRAY(a, size_t, f->level_count + 1);  // of the path, by depth
    bool ok = arena_ok(a, e);
    struct flame_walk w = flame_walk_begin(f);
    while (ok && flame_walk_next(f, &w)) {
        // The root is the total, which is no frame.
        if (w.leaving || w.depth == 0) continue;
        const struct flame_node *n = &f->nodes[w.node];
        assert(w.depth < f->level_count);
        assert(n->name < f->name_count);
        path.n = ends[w.depth - 1];  // cuts the path back to the parent's
        if (w.depth > 1) buf_byte(&path, ';');
        put_name(&path, f->names[n->name]);
        ends[w.depth] = path.n;
        if (n->self == 0) continue;
        buf_str(b, buf_view(&path));
        buf_byte(b, ' ');
        buf_i64(b, n->self);
        buf_byte(b, '\n');
        ok = buf_ok(&path, e) && buf_ok(b, e) && (b->n < FULL || sink->put(sink->arg, b, e));
    }
    buf_release(&path);
    return ok && sink->put(sink->arg, b, e);
}

// ---- functions

bool flame_functions(const struct flame *f, struct arena *a, struct flame_function **out, size_t *n,
                     err *e)
{
    *n = 0;
    *out = ARENA_ARRAY(a, struct flame_function, f->name_count + 1);
    uint32_t *inside = ARENA_ARRAY(a, uint32_t, f->name_count + 1);  // nodes of the name above us
    if (!arena_ok(a, e)) return false;
    if (f->count == 0) return true;
    struct flame_function *all = *out;
    struct flame_walk w = flame_walk_begin(f);
    while (flame_walk_next(f, &w)) {
        const struct flame_node *node = &f->nodes[w.node];
        if (node->parent == FLAME_NONE) continue;
        // A recursive function is below itself: its total counts where it is met first on a path
        // only.
        struct flame_function *fn = &all[node->name];
        if (w.leaving) {
            assert(inside[node->name] > 0);
            inside[node->name]--;
            continue;
        }
        // No overflow: a self lies beside the bars below, and the totals that are added lie side by
        // side, so both sums are at most the root's total. Sums of selves were checked when they
        // were read.
        fn->name = f->names[node->name];
        fn->self += node->self;
        if (inside[node->name]++ == 0) fn->total += node->total;
        assert(f->is_signed || (fn->self <= fn->total && fn->total <= f->total));
    }
    // Moved to the front in place: *n never gets past i. Names without a bar are left out.
    for (uint32_t i = 0; i < f->name_count; i++) {
        if (all[i].total != 0 || all[i].self != 0) all[(*n)++] = all[i];
    }
    return true;
}

static int by_self(const void *a, const void *b)
{
    const struct flame_function *x = a;
    const struct flame_function *y = b;
    if (x->self != y->self) return x->self > y->self ? -1 : 1;
    if (x->total != y->total) return x->total > y->total ? -1 : 1;
    return str_cmp(x->name, y->name);
}

void flame_functions_by_self(struct flame_function *v, size_t n)
{
    if (n > 0) qsort(v, n, sizeof *v, by_self);
}
