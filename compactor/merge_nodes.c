// SPDX-License-Identifier: Apache-2.0
//
// merge_nodes.c - nodes and totals of parents in, nodes and totals of the same or a greater width
// out.
//
// Key by key: a key of the new block sums the sources' keys with its labels, in the spans of the
// sources that count. Of projections these are the labels that no source leaves out.
#include "compactor/merge_int.h"

#include <stdlib.h>

#define CHILDREN_MIN   3                  // a week or window of fewer children is not written
#define TOTALS_AT_ONCE ((size_t)1 << 16)  // more than a day has minutes, and a window hours

struct nodes {
    struct service_merge *service;
    int64_t node_width;   // of what is made
    int64_t total_width;  // likewise
    struct merge_sums sums;
    struct block_dropped_labels *dropped;  // by type, in order of the writer's
    str *types;
    size_t type_count;
    int64_t period;    // of the type at hand
    struct arena key;  // what a key's children are
};

static int64_t width_of_nodes(const struct input *in)
{
    return in->source->block.footer.about.kind == BLOCK_HOURS ? SLOT_HOUR : SLOT_DAY;
}

static int64_t width_of_totals(const struct input *in)
{
    return in->source->block.footer.about.kind == BLOCK_HOURS ? SLOT_MINUTE : SLOT_HOUR;
}

// Does a slot of a source count for the service?
static bool counts(const struct service_merge *s, const struct input *in, int64_t slot,
                   int64_t width)
{
    const uint32_t pack = s->pack;
    const struct block_merge_source *src = in->source;
    int64_t hour = slot_after(slot_start(slot, width), SLOT_HOUR);  // the first hour of the slot
    if (src->span_count == 0) return true;
    for (size_t i = 0; i < src->span_count; i++) {
        const struct plan_span *x = &src->spans[i];
        if (hour >= x->from_hour && hour < x->from_hour + x->hours && pack >= x->pack_lo &&
            pack <= x->pack_hi) {
            return true;
        }
    }
    return false;
}

// ---- keys

// The labels that projections of a type leave out. They are found once for each type, and a
// service has few types.
static const struct block_dropped_labels *dropped_for(struct nodes *x, str type, err *e)
{
    for (size_t i = 0; i < x->type_count; i++) {
        if (str_eq(x->types[i], type)) return &x->dropped[i];
    }
    struct service_merge *s = x->service;
    str *types = ARENA_ARRAY(&s->arena, str, x->type_count + 1);
    struct block_dropped_labels *dropped =
        ARENA_ARRAY(&s->arena, struct block_dropped_labels, x->type_count + 1);
    if (!types || !dropped) {
        (void)arena_fail(&s->arena, e);
        return NULL;
    }
    if (x->type_count) {
        memcpy(types, x->types, x->type_count * sizeof *types);
        memcpy(dropped, x->dropped, x->type_count * sizeof *dropped);
    }
    types[x->type_count] = type;
    if (!dropped_of(s, type, &dropped[x->type_count], e)) return NULL;
    x->types = types;
    x->dropped = dropped;
    return &x->dropped[x->type_count++];
}

static bool wanted(struct service_merge *s, struct input *in, const struct block_key_ref *k,
                   labels *ls, bool *is, void *arg, err *e)
{
    assert(s->as < BLOCK_CLASSES);
    *is = s->merge->classes >> s->as & 1;
    *ls = s->as == BLOCK_ALL ? (labels){0} : k->ls;
    if (!*is || s->as != BLOCK_PROJECTION) return true;
    const struct block_dropped_labels *d = dropped_for(arg, in->index.types[k->type], e);
    return d && labels_without(s, k->ls, d, ls, e);
}

// ---- nodes of a key

struct child {
    int64_t slot;  // of the node that it is part of
    int64_t own;   // its own
    struct input *input;
    const struct block_node_ref *node;
};

static int order_children(const void *a, const void *b)
{
    const struct child *x = a;
    const struct child *y = b;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    if (x->own != y->own) return x->own < y->own ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static bool find_children(struct nodes *x, const struct key_group *g, struct child **out, size_t *n,
                          err *e)
{
    size_t most = 0;
    for (size_t i = 0; i < g->n; i++)
        most += g->v[i].key->node_count;
    *n = 0;
    *out = ARENA_ARRAY(&x->key, struct child, most + 1);
    if (!*out) return arena_fail(&x->key, e);
    for (size_t i = 0; i < g->n; i++) {
        struct input *in = g->v[i].input;
        int64_t width = width_of_nodes(in);
        for (uint32_t k = 0; k < g->v[i].key->node_count; k++) {
            const struct block_node_ref *node = &in->index.nodes[g->v[i].key->first_node + k];
            if (node->node.width != width) continue;  // weeks and roots are made anew
            if (!counts(x->service, in, node->node.slot, width)) continue;
            (*out)[(*n)++] = (struct child){.own = slot_start(node->node.slot, width),
                                            .input = in,
                                            .node = node};
        }
    }
    return true;
}

static bool write_node(struct nodes *x, const struct child *v, size_t n, int64_t width, err *e)
{
    struct service_merge *s = x->service;
    struct vector_entry *entries = NULL;
    size_t count = 0;
    assert(n > 0 && x->sums.profiles == 0);
    for (size_t i = 0; i < n; i++) {
        const struct block_node *from = &v[i].node->node;
        service_tidy(s);
        if (!input_node_vector(s, v[i].input, v[i].node, &entries, &count, e) ||
            !merge_sums_note(&x->sums, from->profiles, from->total, from->first_ns, from->last_ns,
                             e)) {
            return false;
        }
        // The vector of an only child is written as it is: it is not added up and taken apart.
        if (n > 1 && !merge_sums_add(&x->sums, entries, count, 1, e)) return false;
    }
    const struct block_node node = {.slot = v->slot,
                                    .width = width,
                                    .profiles = x->sums.profiles,
                                    .total = x->sums.total,
                                    .first_ns = x->sums.first_ns,
                                    .last_ns = x->sums.last_ns};
    struct vector_entry *sum = NULL;
    size_t sum_count = 0;
    // In any case, as it is what clears profiles and times for the next node.
    if (!merge_sums_take(&x->sums, &s->scratch, &sum, &sum_count, e)) return false;
    if (n > 1) {
        entries = sum;
        count = sum_count;
    }
    str columns = {0};
    return service_columns(s, entries, count, &columns, e) &&
           block_node(s->writer, &node, columns, e);
}

// A sum that did not fit left some stacks added: taking them is what clears them.
static bool forget_sums(struct nodes *x, err *e)
{
    struct vector_entry *v = NULL;
    size_t n = 0;
    service_tidy(x->service);
    return merge_sums_take(&x->sums, &x->service->scratch, &v, &n, e);
}

// How many slots of `width` the children are in.
static size_t slots_among(const struct child *v, size_t n, int64_t width)
{
    size_t slots = 0;
    for (size_t i = 0; i < n; i++)
        slots += i == 0 || slot_after(v[i].own, width) != slot_after(v[i - 1].own, width);
    return slots;
}

// The nodes of a width. Those above the block's own width only if they are complete and sum
// several slots of the width below.
static bool write_nodes(struct nodes *x, struct child *v, size_t n, int64_t width, int64_t below,
                        err *e)
{
    assert(width > 0 && width > below);
    for (size_t i = 0; i < n; i++)
        v[i].slot = slot_after(v[i].own, width);
    if (n) qsort(v, n, sizeof *v, order_children);
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && v[end].slot == v[i].slot)
            end++;
        int64_t until = slot_start(x->service->merge->until_hour, SLOT_HOUR);
        bool write = below == 0 || (slots_among(v + i, end - i, below) >= CHILDREN_MIN &&
                                    slot_start(v[i].slot + 1, width) <= until);
        err fault = {0};
        if (write && !write_node(x, v + i, end - i, width, &fault)) {
            // A week or window whose sum does not fit is left out: the nodes below it answer.
            if (below == 0 || fault.code != ERR_OUT_OF_RANGE || !forget_sums(x, &fault)) {
                *e = fault;
                return false;
            }
        }
        i = end;
    }
    return true;
}

// ---- totals of a key

static int order_totals(const void *a, const void *b)
{
    const struct block_total *x = a;
    const struct block_total *y = b;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

// Totals of the same slot become one.
static bool join_totals(struct block_total *v, size_t *n, err *e)
{
    size_t count = *n;
    *n = 0;
    if (count) qsort(v, count, sizeof *v, order_totals);
    for (size_t i = 0; i < count; i++) {
        struct block_total *to = *n ? &v[*n - 1] : NULL;
        if (!to || to->slot != v[i].slot) {
            v[(*n)++] = v[i];
            continue;
        }
        to->profiles += v[i].profiles;
        if (!sum_add(&to->sum, v[i].sum))
            return err_set(e, ERR_OUT_OF_RANGE, "a sum of totals does not fit 64 bits");
    }
    return true;
}

// The totals of a key. A projection may have those of many series, but of few slots: they are
// joined whenever the room is full.
static bool find_totals(struct nodes *x, const struct key_group *g, struct block_total **out,
                        size_t *n, err *e)
{
    size_t most = 0;
    for (size_t i = 0; i < g->n; i++)
        most += g->v[i].key->total_count;
    most = MIN(most, TOTALS_AT_ONCE);  // and one more, which makes it full
    *n = 0;
    *out = ARENA_ARRAY(&x->key, struct block_total, most + 1);
    if (!*out) return arena_fail(&x->key, e);
    for (size_t i = 0; i < g->n; i++) {
        struct input *in = g->v[i].input;
        int64_t width = width_of_totals(in);
        for (uint32_t k = 0; k < g->v[i].key->total_count; k++) {
            struct block_total *t = &(*out)[*n];
            if (!input_total(in, g->v[i].key->first_total + k, t, e)) return false;
            if (!counts(x->service, in, t->slot, width)) continue;
            t->slot = slot_after(slot_start(t->slot, width), x->total_width);
            if (++*n <= most) continue;
            if (!join_totals(*out, n, e)) return false;
            if (*n > most) return err_set(e, ERR_DATA_LOSS, "a key has totals of too many slots");
        }
    }
    return join_totals(*out, n, e);
}

static bool write_totals(struct nodes *x, const struct block_total *v, size_t n, err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!block_total(x->service->writer, &v[i], e)) return false;
    }
    return true;
}

// ---- the way through

static bool write_key(struct nodes *x, const struct key_group *g, bool *first, err *e)
{
    struct service_merge *s = x->service;
    struct child *v = NULL;
    struct block_total *totals = NULL;
    size_t n = 0;
    size_t total_count = 0;
    str type = key_type(&g->v[0]);
    enum block_class class = g->v[0].class;
    arena_release(&x->key);
    if (!find_children(x, g, &v, &n, e) || !find_totals(x, g, &totals, &total_count, e))
        return false;
    // No node counts here: the key is of other hours or packs, and totals alone answer nothing.
    if (n == 0) return true;
    if (class == BLOCK_PROJECTION && *first) {
        const struct block_dropped_labels *d = dropped_for(x, type, e);
        if (!d || !block_dropped(s->writer, type, d->v, d->n, e)) return false;
        *first = false;
    }
    if (!block_key(s->writer, class, type, g->v[0].ls, e) ||
        !write_nodes(x, v, n, x->node_width, 0, e)) {
        return false;
    }
    block_period(s->writer, x->period);
    if (s->merge->what == MERGE_WINDOW && (!write_nodes(x, v, n, SLOT_WEEK, SLOT_DAY, e) ||
                                           !write_nodes(x, v, n, SLOT_WINDOW, SLOT_WEEK, e))) {
        return false;
    }
    return write_totals(x, totals, total_count, e);
}

bool merge_nodes(struct service_merge *s, err *e)
{
    bool hours = s->merge->what == MERGE_PACK;
    assert(hours || s->merge->what == MERGE_DAY || s->merge->what == MERGE_WINDOW);
    struct nodes x = {.service = s,
                      .node_width = hours ? SLOT_HOUR : SLOT_DAY,
                      .total_width = hours ? SLOT_MINUTE : SLOT_HOUR};
    arena_init(&x.key, s->merge->memory, SIZE_MAX);
    bool ok = service_keys(s, wanted, &x, e) &&
              merge_sums_init(&x.sums, s->merge->memory, s->stack_count, e);
    for (size_t at = 0; ok && at < s->key_count;) {
        size_t end = service_type_end(s, at);
        bool first = true;
        x.period = service_period(s, key_type(&s->keys[at]));
        while (ok && at < end) {
            struct key_group g = service_group(s, &at);
            ok = write_key(&x, &g, &first, e);
        }
    }
    merge_sums_release(&x.sums);
    arena_release(&x.key);
    return ok;
}
