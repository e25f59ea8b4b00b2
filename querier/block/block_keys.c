// SPDX-License-Identifier: Apache-2.0
//
// Which keys of a unit a question means, of which class, and which nodes of a key cover a range.
#include "querier/block/block_int.h"

bool block_asks_type(const struct query *q, str service, str type, bool *asked, err *e)
{
    *asked = true;
    for (size_t i = 0; i < q->selector.n && *asked; i++) {
        const struct matcher *m = &q->selector.v[i];
        bool of_service = str_is(m->name, LABEL_SERVICE);
        if (!of_service && !str_is(m->name, LABEL_PROFILE_TYPE)) continue;
        if (!matcher_test(&q->selector, m, of_service ? service : type, asked, e)) return false;
    }
    return true;
}

bool block_ask_types(const struct block_walk *w, struct block_unit *u, err *e)
{
    const struct block_index *x = u->index;
    const struct query *q = w->ask.q;
    assert(x && u->asked);
    for (uint32_t i = 0; i < x->type_count; i++) {
        if (!block_asks_type(q, u->service->name, x->types[i], &u->asked[i], e)) return false;
        const label of_all[] = {{S(LABEL_PROFILE_TYPE), x->types[i]},
                                {S(LABEL_SERVICE), u->service->name}};
        for (size_t k = 0; k < q->hide_count && u->asked[i]; k++) {
            bool hidden = false;
            if (!block_hides_types(&q->hides[k])) continue;
            if (!hide_is_of(&q->hides[k], (labels){of_all, COUNT(of_all)}, &hidden, e))
                return false;
            u->asked[i] = !hidden;
        }
    }
    return true;
}

bool block_projection_keeps(const struct block_walk *w, const struct block_dropped_labels *dropped)
{
    for (size_t i = 0; i < w->ask.needed_count; i++) {
        if (str_among(w->ask.needed[i], dropped->v, dropped->n)) return false;
    }
    return true;
}

bool block_class_for(const struct block_walk *w, const struct block_unit *u, uint32_t type,
                     enum block_class *class, err *e)
{
    assert(type < u->index->type_count);
    uint32_t classes = u->object->footer->about.classes;
    const struct block_dropped_labels *dropped = &u->index->dropped[type];
    if (w->ask.only_all) {
        *class = BLOCK_ALL;
    } else if (classes & 1u << BLOCK_PROJECTION && block_projection_keeps(w, dropped)) {
        *class = BLOCK_PROJECTION;
    } else {
        *class = BLOCK_SERIES;
    }
    if (classes & 1u << *class) return true;
    return err_set(e, ERR_FAILED_PRECONDITION, "it no longer has all labels of %.*s",
                   STR(u->index->types[type]));
}

// Keys are tested one by one: deletions are few, and they last for a day or two.
static bool leave_out_hidden(const struct query *q, struct block_unit *u, err *e)
{
    for (size_t i = 0; i < q->hide_count; i++) {
        for (uint32_t k = 0; k < u->index->key_count; k++) {
            bool hidden = false;
            if (!block_set_has(&u->keys, k)) continue;
            if (!hide_is_of(&q->hides[i], u->index->keys[k].ls, &hidden, e)) return false;
            if (hidden) u->keys.words[k / 64] &= ~(UINT64_C(1) << (k % 64));
        }
    }
    return true;
}

bool block_select_keys(struct block_walk *w, struct block_unit *u, err *e)
{
    if (u->selected) return true;  // several wants of a wave ask; the wave's memory keeps it
    if (!block_select(u->index->postings, &w->wave, &w->ask.q->selector, &u->keys, e)) return false;
    if (!leave_out_hidden(w->ask.q, u, e)) return false;
    u->selected = true;
    return true;
}

bool block_is_meant(const struct block_walk *w, const struct block_unit *u, uint32_t key,
                    enum block_class class)
{
    assert(key < u->index->key_count);
    const struct block_key_ref *k = &u->index->keys[key];
    if (k->class != class) return false;
    assert(class == BLOCK_ALL || u->selected);
    // Postings have keys of series and projections. A key of class ALL has no labels but service
    // and type, which are compared here. Excluded keys are of the right type and not in the
    // selection.
    if (class == BLOCK_ALL) return u->asked[k->type];
    return w->ask.excluded ? u->asked[k->type] && !block_set_has(&u->keys, key)
                           : block_set_has(&u->keys, key);
}

// Chosen nodes that may have narrower ones below them. More than a window's root and its weeks
// there cannot be in a range; if there were, their children would serve.
#define WIDER_MAX 8

bool block_nodes_within(const struct block_index *x, const struct block_key_ref *key,
                        const struct block_choice *c, err *e)
{
    const struct block_node_ref *v = x->nodes + key->first_node;
    const struct block_node_ref *wider[WIDER_MAX];
    size_t n = 0;
    assert(c->fn && c->from_ns <= c->to_ns);
    // Nodes are in order of width, narrowest first: from the back, the widest come first, and a
    // narrower one is left out if a chosen one contains its slot.
    int64_t narrowest = key->node_count ? v[0].node.width : 0;
    for (uint32_t i = key->node_count; i-- > 0;) {
        const struct block_node *node = &v[i].node;
        int64_t start = slot_start(node->slot, node->width);
        int64_t end = slot_start(node->slot + 1, node->width);
        bool out = start < c->from_ns || end > c->to_ns;
        for (size_t k = 0; k < n && !out; k++) {
            const struct block_node *over = &wider[k]->node;
            out = over->width > node->width && slot_of(end, over->width) == over->slot;
        }
        if (out) continue;
        if (node->width > narrowest) {
            // Its children serve as well.
            if (n == WIDER_MAX || (c->may && !c->may(c->arg, node))) continue;
            wider[n++] = &v[i];
        }
        if (!c->fn(c->arg, &v[i], e)) return false;
    }
    return true;
}
