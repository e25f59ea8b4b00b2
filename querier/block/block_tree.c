// SPDX-License-Identifier: Apache-2.0
//
// Trees. In each wave:
//
//     1. choose what is added: nodes where they fit into the piece, rows elsewhere (choose)
//     2. add the vectors of both to sums by the unit's own stack ids (add_node, add_row)
//     3. add these to sums by the rows of the service's table of names, or, without names, to the
//        answer's stacks (finish_unit); or, if the question is for sums by service, to those
//
// After all waves the sums by names are added to the answer (block_tree_finish): once for a
// service, not once for a block. A unit whose object failed adds nothing (finish_unit), so a fault
// of a wave leaves no half sums of it there.
#include "aggregate/span_filter.h"
#include "model/period.h"
#include "model/vector.h"
#include "querier/block/block_int.h"

// Sums of a unit by its own stack ids.
struct tree_unit {
    int64_t *sums;
    struct wide *wide;  // in place of sums, where they need not fit int64
    uint64_t profiles;
};

struct tree {
    struct block_tree *all;
    struct block_walk *w;
    struct block_nodes nodes;
    struct block_scans scans;
    struct span_filter filter;  // in order
    struct block_unit *unit;    // that nodes are being chosen of
};

// ---- what to add

static bool note_node(void *arg, const struct block_node_ref *node, err *e)
{
    struct tree *t = arg;
    return block_add_node(t->w, &t->nodes, (struct block_node_use){t->unit, node, 0}, e);
}

static bool scan_type(struct tree *t, uint32_t type, int64_t from_ns, int64_t to_ns, err *e)
{
    struct block_unit *u = t->unit;
    if (from_ns >= to_ns) return true;
    for (uint32_t i = 0; i < u->index->key_count; i++) {
        const struct block_key_ref *k = &u->index->keys[i];
        if (k->class != BLOCK_SERIES || k->type != type || k->sampled || k->row_count == 0)
            continue;
        struct block_scan scan = {.unit = u, .key = i, .from_ns = from_ns, .to_ns = to_ns};
        if (!block_add_scan(t->w, &t->scans, scan, e)) return false;
    }
    return true;
}

// Nodes of class ALL of a leaf, and rows of the type where a node is missing: five minutes with
// fewer than three profiles have none. If all profiles of the type are in nodes, and the piece cuts
// none of these, no row has to be read. (Leaves of days have nodes of hours, and pieces are of five
// minutes.)
static bool add_all_of_leaf(struct tree *t, uint32_t type, const struct block_key_ref *all,
                            const struct level_piece *p, err *e)
{
    const struct block_index *x = t->unit->index;
    uint64_t rows = 0;
    uint64_t in_nodes = 0;
    bool cut = false;
    for (uint32_t i = 0; i < x->key_count; i++) {
        const struct block_key_ref *k = &x->keys[i];
        if (k->class == BLOCK_SERIES && k->type == type && !k->sampled) rows += k->row_count;
    }
    int64_t done = p->from_ns;  // up to here nodes and rows are chosen; never goes back
    for (uint32_t i = 0; all && i < all->node_count; i++) {
        const struct block_node_ref *n = &x->nodes[all->first_node + i];
        int64_t start = slot_start(n->node.slot, n->node.width);
        int64_t end = slot_start(n->node.slot + 1, n->node.width);
        bool outside = end <= p->from_ns || start >= p->to_ns;
        in_nodes += n->node.profiles;
        cut |= !outside && (start < p->from_ns || end > p->to_ns);
    }
    bool whole = rows == in_nodes && !cut;
    for (uint32_t i = 0; all && i < all->node_count; i++) {
        const struct block_node_ref *n = &x->nodes[all->first_node + i];
        int64_t start = slot_start(n->node.slot, n->node.width);
        int64_t end = slot_start(n->node.slot + 1, n->node.width);
        if (start < done || end > p->to_ns) continue;
        if (!whole && !scan_type(t, type, done, start, e)) return false;
        if (!note_node(t, n, e)) return false;
        done = end;
    }
    return whole || scan_type(t, type, done, p->to_ns, e);
}

static const struct block_key_ref *key_of_all(const struct block_index *x, uint32_t type)
{
    for (uint32_t i = 0; i < x->key_count; i++) {
        if (x->keys[i].class == BLOCK_ALL && x->keys[i].type == type) return &x->keys[i];
    }
    return NULL;
}

static bool add_keys(struct tree *t, uint32_t type, enum block_class class,
                     const struct level_piece *p, err *e)
{
    struct block_unit *u = t->unit;
    const struct block_choice c = {.from_ns = p->from_ns,
                                   .to_ns = p->to_ns,
                                   .fn = note_node,
                                   .arg = t};
    for (uint32_t i = 0; i < u->index->key_count; i++) {
        const struct block_key_ref *k = &u->index->keys[i];
        if (k->type != type || k->sampled || !block_is_meant(t->w, u, i, class)) continue;
        if (!block_nodes_within(u->index, k, &c, e)) return false;
    }
    return true;
}

static bool add_type(struct tree *t, uint32_t type, const struct level_piece *p, err *e)
{
    struct block_unit *u = t->unit;
    enum block_class class = BLOCK_ALL;
    if (!u->asked[type]) return true;
    if (block_has_rows(u)) {
        return add_all_of_leaf(t, type, key_of_all(u->index, type), p, e);
    }
    if (!block_class_for(t->w, u, type, &class, e)) return false;
    if (class != BLOCK_ALL && !block_select_keys(t->w, u, e)) return false;
    return add_keys(t, type, class, p, e);
}

static bool add_piece(struct tree *t, const struct level_piece *p, err *e)
{
    struct block_walk *w = t->w;
    struct block_unit *u = t->unit;
    const struct query_tree *q = &w->ask.q->tree;
    bool filtered = q->span_count || q->trace_count || q->profile_count;
    // Leaves have nodes of class ALL only, and nodes contain the rows that must be skipped.
    bool by_rows = p->use == LEVEL_ROWS || filtered || !w->ask.only_all || u->object->may_skip;
    if (by_rows && block_has_rows(u)) return block_scan_unit(w, u, p, false, &t->scans, e);
    for (uint32_t i = 0; i < u->index->type_count; i++) {
        if (!add_type(t, i, p, e)) return false;
    }
    return true;
}

static bool add_unit(struct tree *t, struct block_unit *u, err *e)
{
    struct tree_unit *own = ARENA_NEW(&t->w->wave, struct tree_unit);
    if (!own) return block_no_room(t->w, e);
    assert(!u->of_want && u->index);
    u->of_want = own;
    t->unit = u;
    err why = {0};
    for (size_t i = 0; i < u->piece_count; i++) {
        if (!add_piece(t, u->pieces[i], &why)) return block_note(t->w, u->object, &why, e);
    }
    return true;
}

// ---- adding

static bool is_wide(const struct tree *t)
{
    return t->w->ask.q->tree.by_service;
}

static bool add_columns(struct tree *t, struct block_unit *u, str columns, int64_t factor, err *e)
{
    struct tree_unit *own = u->of_want;
    size_t n = u->index->stack_count;
    struct mem_budget *memory = &t->w->m->memory;
    assert(own);
    if (is_wide(t)) {
        if (!own->wide) own->wide = mem_alloc(memory, n * sizeof *own->wide, e);
        return own->wide && columns_add_wide(columns, factor, own->wide, n, e);
    }
    if (!own->sums) own->sums = mem_alloc(memory, n * sizeof *own->sums, e);
    return own->sums && columns_add(columns, factor, own->sums, n, e);
}

static bool add_node(void *arg, const struct block_node_use *u, str columns, err *e)
{
    struct tree *t = arg;
    struct tree_unit *own = u->unit->of_want;
    assert(own);
    own->profiles += u->node->node.profiles;
    return add_columns(t, u->unit, columns, u->node->factor, e);
}

static bool add_row(void *arg, const struct block_hit *h, str columns, err *e)
{
    struct tree *t = arg;
    struct tree_unit *own = h->unit->of_want;
    if (!span_filter_is_of_spans(&t->filter)) {
        own->profiles++;
        return add_columns(t, h->unit, columns, h->factor, e);
    }
    // The row's profile counts once, however many of its spans are asked for.
    assert(h->spans);  // rows without any were left out (only_spans)
    bool found = false;
    for (uint32_t i = 0; i < h->spans->n; i++) {
        const struct block_span *span = &h->spans->v[i];
        if (!span_filter_has_span(&t->filter, span->span_id, span->has_trace, span->trace)) {
            continue;
        }
        if (!add_columns(t, h->unit, span->vector, 1, e)) return false;
        found = true;
    }
    own->profiles += found;
    return true;
}

// The sums of a table of names; found or made, with a reference of the table.
static struct block_sums *sums_by_name(struct tree *t, struct block_names *names, err *e)
{
    struct block_sums *s = t->all->sums;
    while (s && s->names != names)
        s = s->next;
    if (s) return s;
    s = ARENA_NEW(&t->w->arena, struct block_sums);
    if (!s) {
        (void)block_no_room(t->w, e);
        return NULL;
    }
    block_names_hold(names);
    s->names = names;
    s->next = t->all->sums;
    t->all->sums = s;
    return s;
}

// Sums of excluded keys are subtracted. INT64_MIN has no opposite.
static bool negate(int64_t *sums, size_t n, err *e)
{
    bool fits = true;
    for (size_t i = 0; i < n; i++)
        fits = !__builtin_sub_overflow((int64_t)0, sums[i], &sums[i]) && fits;
    return fits || err_set(e, ERR_OUT_OF_RANGE, "the sum of a stack does not fit 64 bits");
}

static bool add_by_name(struct tree *t, const struct block_unit *u, const int64_t *sums, err *e)
{
    const struct block_kept *k = u->names_kept;
    struct block_sums *to = sums_by_name(t, k->names, e);
    if (!to ||
        !mem_grow(&t->w->m->memory, &to->sums, &to->room, k->name_rows, sizeof *to->sums, e)) {
        return false;
    }
    // All are added, also after one that does not fit: the question ends then, and the loop needs
    // no way out.
    bool fits = true;
    for (uint32_t i = 0; i < k->stack_count; i++) {
        if (sums[i] != 0) fits = sum_add(&to->sums[k->to_names[i]], sums[i]) && fits;
    }
    return fits || err_set(e, ERR_OUT_OF_RANGE, "the sum of a stack does not fit 64 bits");
}

static void note_periods(struct merge *m, const struct block_unit *u)
{
    for (uint32_t i = 0; i < u->index->type_count; i++) {
        if (u->asked[i]) period_merge(&m->period, u->index->periods[i]);
    }
}

static bool add_to_service(struct tree *t, const struct block_unit *u, const struct tree_unit *own,
                           err *e)
{
    struct service_sums *to = NULL;
    assert(u->symbols && !t->w->ask.excluded);
    if (!req_alive(t->w->req, e) || !services_at(&t->w->m->services, u->service->name, &to, e) ||
        !merge_add_wide(&to->stacks, u->symbols, own->wide, e)) {
        return false;
    }
    note_periods(&to->stacks, u);
    to->profiles += own->profiles;
    return true;
}

static bool finish_unit(struct tree *t, struct block_unit *u, bool wanted, err *e)
{
    struct merged *m = t->w->m;
    struct tree_unit *own = u->of_want;
    assert(own && u->index);
    bool ok = wanted;  // else the sums are only freed
    if (ok && own->wide && !u->object->faulty) ok = add_to_service(t, u, own, e);
    if (ok && own->sums && !u->object->faulty) {
        ok = req_alive(t->w->req, e) &&
             (!t->w->ask.excluded || negate(own->sums, u->index->stack_count, e)) &&
             (u->names_kept ? add_by_name(t, u, own->sums, e)
                            : merge_add_sums(&m->stacks, u->symbols, own->sums, e));
        if (!t->w->ask.excluded) note_periods(&m->stacks, u);
        // Unsigned, so that subtracting before or after adding is the same in the end.
        m->profiles += t->w->ask.excluded ? 0 - own->profiles : own->profiles;
    }
    mem_free(&m->memory, own->sums, u->index->stack_count * sizeof *own->sums);
    mem_free(&m->memory, own->wide, u->index->stack_count * sizeof *own->wide);
    own->sums = NULL;
    own->wide = NULL;
    return ok;
}

bool block_tree_finish(struct block_tree *t, struct block_walk *w, err *e)
{
    bool ok = true;
    for (struct block_sums *s = t->sums; ok && s; s = s->next) {
        ok =
            req_alive(w->req, e) && block_names_add(s->names, &w->m->stacks, &s->sums, &s->room, e);
    }
    return ok;
}

void block_tree_release(struct block_tree *t, struct block_walk *w)
{
    for (struct block_sums *s = t->sums; s; s = s->next) {
        mem_free(&w->m->memory, s->sums, s->room * sizeof *s->sums);
        block_names_unref(s->names);
    }
    t->sums = NULL;
}

// ---- waves

static bool choose(struct tree *t, struct block_unit *v, size_t n, err *e)
{
    const struct query_tree *q = &t->w->ask.q->tree;
    const struct span_filter filter = {.profiles = q->profiles,
                                       .profile_count = q->profile_count,
                                       .spans = q->spans,
                                       .span_count = q->span_count,
                                       .traces = q->traces,
                                       .trace_count = q->trace_count};
    bool ok = span_filter_sort(&t->w->wave, &filter, &t->filter, e);
    // Wants come one after the other, and each leaves its own here.
    for (size_t i = 0; i < n; i++)
        v[i].of_want = NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = req_alive(t->w->req, e) && add_unit(t, &v[i], e);
    return ok;
}

bool block_read_tree(struct block_tree *all, struct block_walk *w, struct block_unit *v, size_t n,
                     err *e)
{
    struct tree t = {.all = all, .w = w};
    bool ok = choose(&t, v, n, e);
    bool of_spans = span_filter_is_of_spans(&t.filter);
    struct block_rows rows = {.details = t.filter.profile_count > 0,
                              .vectors = !of_spans,
                              .spans = of_spans,
                              .only_spans = of_spans,
                              .ids = t.filter.profiles,
                              .id_count = t.filter.profile_count,
                              .fn = add_row,
                              .arg = &t};
    ok = ok && block_read_nodes(w, &t.nodes, add_node, &t, e) &&
         block_scan_rows(w, t.scans.v, t.scans.n, &rows, e);
    for (size_t i = 0; i < n; i++) {
        // Also after a failure: sums are not of an arena, so they are freed one by one.
        if (!v[i].of_want) continue;
        ok = finish_unit(&t, &v[i], ok, e);
    }
    return ok;
}

bool block_tree_into_cache(struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    struct tree t = {.w = w};
    return choose(&t, v, n, e) && block_read_nodes(w, &t.nodes, NULL, NULL, e);
}

bool block_tree_weigh(struct block_walk *w, struct block_unit *v, size_t n, uint64_t *bytes, err *e)
{
    struct tree t = {.w = w};
    const struct block_rows rows = {.vectors = true};
    if (!choose(&t, v, n, e)) return false;
    *bytes += block_weigh_nodes(&t.nodes) + block_weigh_rows(t.scans.v, t.scans.n, &rows);
    return true;
}
