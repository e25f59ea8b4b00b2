// SPDX-License-Identifier: Apache-2.0
//
// merge_hidden.c - what deletions hide is left out of a merge: rows, or sums of series, and the
// symbols that no others have. A service of which all is hidden is not in the new block at all.
//
// Symbols are written before rows and nodes. So where there are deletions the rows of each source
// are looked at first: which vectors have those that stay, and which stacks have these vectors; or
// the nodes of the series that stay.
#include "compactor/merge_int.h"

bool hidden_of(const struct service_merge *s, struct arena *a, labels ls, const struct hide ***out,
               size_t *n, err *e)
{
    const struct block_merge *m = s->merge;
    *n = 0;
    *out = NULL;
    if (m->hide_count == 0) return true;
    const struct hide **v = arena_array(a, sizeof(const struct hide *), m->hide_count);
    if (!v) return arena_fail(a, e);
    for (size_t i = 0; i < m->hide_count; i++) {
        bool is = false;
        if (!hide_is_of(&m->hides[i], ls, &is, e)) return false;
        if (is) v[(*n)++] = &m->hides[i];
    }
    *out = v;
    return true;
}

struct inspection {
    struct service_merge *service;
    struct input *input;
    struct arena arena;  // of this input
    bool *used;          // by stack
    bool *vectors;       // by number: a row that stays has it
    uint64_t kept;
};

static bool mark_entries(struct inspection *x, const struct vector_entry *v, size_t n, err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i].stack >= x->input->index.stack_count)
            return err_set(e, ERR_DATA_LOSS, "block %.*s: a vector with a stack that is not there",
                           STR(x->input->source->block.name));
        x->used[v[i].stack] = true;
    }
    return true;
}

static bool mark_spans(struct inspection *x, size_t place, err *e)
{
    const struct rows_frame *f = &x->input->rows;
    for (uint32_t i = 0; f->spans && i < f->spans[place].n; i++) {
        struct vector_entry *v = NULL;
        size_t n = 0;
        service_tidy(x->service);
        if (!columns_entries(&x->service->scratch, f->spans[place].v[i].vector,
                             x->input->index.stack_count, &v, &n, e)) {
            if (e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
            return err_wrap(e, "block %.*s", STR(x->input->source->block.name));
        }
        if (!mark_entries(x, v, n, e)) return false;
    }
    return true;
}

static bool mark_row(struct inspection *x, uint64_t row, const struct hide *const *hides,
                     size_t hide_count, err *e)
{
    size_t place = 0;
    struct input *in = x->input;
    if (!input_row(in, row, &place, e)) return false;
    if (hidden_at(hides, hide_count, in->rows.heads.times[place])) return true;
    x->kept++;
    uint64_t vector = in->rows.details.vectors[place];
    if (vector >= in->vector_count)
        return err_set(e, ERR_DATA_LOSS, "block %.*s: a row whose vector is not there",
                       STR(in->source->block.name));
    x->vectors[vector] = true;
    return mark_spans(x, place, e);
}

// Series of other parts of the service are not of this merge.
static bool is_mine(const struct inspection *x, const struct block_key_ref *k)
{
    const struct block_merge *m = x->service->merge;
    const struct block_about *about = &x->input->source->block.footer.about;
    bool whole = m->parts < 2 || (about->parts == m->parts && about->part == m->part);
    return k->class == BLOCK_SERIES && (whole || block_part(k->ls, m->parts) == m->part);
}

static bool mark_keys(struct inspection *x, err *e)
{
    const struct block_index *index = &x->input->index;
    for (uint32_t i = 0; i < index->key_count; i++) {
        const struct block_key_ref *k = &index->keys[i];
        const struct hide **hides = NULL;
        size_t n = 0;
        uint64_t before = x->kept;
        if (!is_mine(x, k)) continue;
        if (!hidden_of(x->service, &x->arena, k->ls, &hides, &n, e)) return false;
        for (uint64_t row = 0; row < k->row_count; row++) {
            if (!mark_row(x, k->first_row + row, hides, n, e)) return false;
        }
        uint64_t hidden = k->row_count - (x->kept - before);
        x->service->hidden += hidden;
        if (k->sampled) x->service->sampled_hidden += hidden;
    }
    return true;
}

static bool mark_vectors(struct inspection *x, err *e)
{
    for (uint64_t i = 0; i < x->input->vector_count; i++) {
        struct vector_entry *v = NULL;
        size_t n = 0;
        if (!x->vectors[i]) continue;
        service_tidy(x->service);
        if (!input_own_vector(x->service, x->input, i, &v, &n, e) || !mark_entries(x, v, n, e))
            return false;
    }
    return true;
}

// ---- sums of series

bool hidden_series(const struct service_merge *s, labels ls, bool *is, err *e)
{
    const struct block_merge *m = s->merge;
    *is = false;
    for (size_t i = 0; i < m->hide_count && !*is; i++) {
        if (!hide_is_of(&m->hides[i], ls, is, e)) return false;
    }
    return true;
}

static bool mark_nodes(struct inspection *x, const struct block_key_ref *k, err *e)
{
    struct input *in = x->input;
    for (uint32_t i = 0; i < k->node_count; i++) {
        struct vector_entry *v = NULL;
        size_t n = 0;
        service_tidy(x->service);
        if (!input_own_node(x->service, in, &in->index.nodes[k->first_node + i], &v, &n, e) ||
            !mark_entries(x, v, n, e))
            return false;
    }
    return true;
}

static bool mark_series(struct inspection *x, err *e)
{
    const struct block_index *index = &x->input->index;
    for (uint32_t i = 0; i < index->key_count; i++) {
        const struct block_key_ref *k = &index->keys[i];
        bool hidden = false;
        if (!is_mine(x, k)) continue;
        if (!hidden_series(x->service, k->ls, &hidden, e)) return false;
        x->service->hidden += hidden;
        if (hidden) continue;
        x->kept++;
        if (!mark_nodes(x, k, e)) return false;
    }
    return true;
}

bool hidden_inspect(struct service_merge *s, struct input *in, uint64_t *kept, err *e)
{
    struct inspection x = {.service = s, .input = in};
    assert(!in->source->mask);
    if (s->merge->hide_count == 0) return true;
    x.used = ARENA_ARRAY(&s->arena, bool, in->index.stack_count);
    if (!x.used) return arena_fail(&s->arena, e);
    arena_init(&x.arena, s->merge->memory, SIZE_MAX);
    x.vectors = ARENA_ARRAY(&x.arena, bool, (size_t)in->vector_count + 1);
    bool ok = x.vectors || arena_fail(&x.arena, e);
    if (merge_writes_rows(s->merge))
        ok = ok && mark_keys(&x, e) && mark_vectors(&x, e);
    else
        ok = ok && mark_series(&x, e);
    arena_release(&x.arena);
    // Where nothing of a service is hidden, sums stay as they are, with all symbols.
    in->used = merge_writes_rows(s->merge) || s->hidden ? x.used : NULL;
    *kept += x.kept;
    return ok;
}
