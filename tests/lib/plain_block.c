// SPDX-License-Identifier: Apache-2.0
#include "lib/plain_block.h"

#include <stdlib.h>

struct plain_writer {
    const struct plain_block *of;
    struct arena *a;
    struct block_writer *w;
    const struct plain_service *service;
    const struct vector_entry **written;  // vectors by number, if rows share them
    uint64_t written_count;
};

// A row as one of a key; a key is a run of these.
struct plain_member {
    enum block_class class;
    labels ls;
    const struct plain_row *r;
};

static int order(const void *a, const void *b)
{
    const struct plain_member *x = a;
    const struct plain_member *y = b;
    int c = str_cmp(x->r->type, y->r->type);
    if (c == 0) c = (int)x->class - (int)y->class;
    if (c == 0) c = labels_cmp(x->ls, y->ls);
    if (c) return c;
    const struct block_row *p = &x->r->row;
    const struct block_row *q = &y->r->row;
    if (p->time_ns != q->time_ns) return p->time_ns < q->time_ns ? -1 : 1;
    return memcmp(p->id.b, q->id.b, sizeof p->id.b);
}

static bool is_same_key(const struct plain_member *x, const struct plain_member *y)
{
    return str_eq(x->r->type, y->r->type) && x->class == y->class && labels_eq(x->ls, y->ls);
}

str plain_columns(struct arena *a, const struct vector_entry *v, size_t n)
{
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX);
    columns_encode(v, n, &b);
    str out = arena_str(a, buf_view(&b));
    buf_release(&b);
    return out;
}

// ---- sums

static bool write_node(struct plain_writer *p, const struct plain_member *m, size_t n,
                       struct block_node *node, err *e)
{
    uint32_t stacks = p->service->symbols->stack_count;
    int64_t *sums = calloc(stacks, sizeof *sums);
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX);
    node->first_ns = m[0].r->row.time_ns;
    node->last_ns = m[n - 1].r->row.time_ns;
    node->profiles = n;
    for (size_t i = 0; i < n; i++) {
        const struct plain_row *r = m[i].r;
        node->total += r->row.total;
        for (size_t k = 0; k < r->n; k++)
            sums[r->v[k].stack] += r->v[k].value * r->row.factor;
    }
    const struct plain_spoil *spoil = &p->of->spoil;
    bool ok = true;
    if (!spoil->node || spoil->node(spoil->arg, m->class, node, sums)) {
        columns_encode_sums(sums, stacks, &b);
        ok = block_node(p->w, node, buf_view(&b), e);
    }
    free(sums);
    buf_release(&b);
    return ok;
}

static size_t same_slot(const struct plain_member *m, size_t n, int64_t slot, int64_t width)
{
    size_t i = 0;
    while (i < n && slot_of(m[i].r->row.time_ns, width) == slot)
        i++;
    return i;
}

static bool write_nodes(struct plain_writer *p, const struct plain_member *m, size_t n,
                        int64_t width, size_t least, err *e)
{
    for (size_t i = 0; i < n;) {
        struct block_node node = {.slot = slot_of(m[i].r->row.time_ns, width), .width = width};
        size_t count = same_slot(m + i, n - i, node.slot, width);
        if (count >= least && !write_node(p, m + i, count, &node, e)) return false;
        i += count;
    }
    return true;
}

static bool write_totals(struct plain_writer *p, const struct plain_member *m, size_t n,
                         int64_t width, err *e)
{
    const struct plain_spoil *spoil = &p->of->spoil;
    for (size_t i = 0; i < n;) {
        struct block_total t = {.slot = slot_of(m[i].r->row.time_ns, width)};
        size_t count = same_slot(m + i, n - i, t.slot, width);
        t.profiles = count;
        for (size_t k = i; k < i + count; k++)
            t.sum += m[k].r->row.total;
        i += count;
        if (spoil->total && !spoil->total(spoil->arg, &t)) continue;
        if (!block_total(p->w, &t, e)) return false;
    }
    return true;
}

// ---- rows

static bool write_vector(struct plain_writer *p, const struct plain_row *r, uint64_t *number,
                         err *e)
{
    const struct plain_spoil *spoil = &p->of->spoil;
    for (uint64_t i = 0; p->of->share && i < p->written_count; i++) {
        *number = i;
        if (p->written[i] == r->v) return true;
    }
    str columns = plain_columns(p->a, r->v, r->n);
    bool again = spoil->vector_again && spoil->vector_again(spoil->arg);
    if (again) {
        if (!block_vector(p->w, columns, number, e)) return false;
        p->written[p->written_count++] = NULL;
    }
    p->written[p->written_count++] = r->v;
    return block_vector(p->w, columns, number, e);
}

static bool write_rows(struct plain_writer *p, const struct plain_member *m, size_t n, err *e)
{
    const struct plain_spoil *spoil = &p->of->spoil;
    struct block_row before;
    for (size_t i = 0; i < n; i++) {
        struct block_row row = m[i].r->row;
        if (!write_vector(p, m[i].r, &row.vector, e)) return false;
        if (spoil->row && !spoil->row(spoil->arg, i ? &before : NULL, &row)) continue;
        if (!block_row(p->w, &row, e)) return false;
        before = row;
    }
    return true;
}

// ---- keys

static bool write_key(struct plain_writer *p, const struct plain_member *m, size_t n, err *e)
{
    bool all = m->class == BLOCK_ALL;
    if (!block_key(p->w, m->class, m->r->type, m->ls, e)) return false;
    switch (p->of->about.kind) {
    case BLOCK_SEGMENT:
        if (all) return write_nodes(p, m, n, SLOT_HOUR, 1, e);
        break;
    case BLOCK_RAW:
        if (all) return write_nodes(p, m, n, SLOT_FIVE, 3, e);
        break;
    case BLOCK_HOURS:
        return write_nodes(p, m, n, SLOT_HOUR, 1, e) && write_totals(p, m, n, SLOT_MINUTE, e);
    case BLOCK_DAYS:
        return write_nodes(p, m, n, SLOT_DAY, 1, e) && write_nodes(p, m, n, SLOT_WEEK, 3, e) &&
               write_nodes(p, m, n, SLOT_WINDOW, 3, e) && write_totals(p, m, n, SLOT_HOUR, e);
    }
    return m->class != BLOCK_SERIES || write_rows(p, m, n, e);
}

// The labels that a key of a class has of a row's.
static labels labels_of(struct plain_writer *p, labels all, enum block_class class)
{
    if (class == BLOCK_SERIES) return all;
    label *v = ARENA_ARRAY(p->a, label, all.n);
    size_t n = 0;
    for (size_t i = 0; class == BLOCK_PROJECTION && i < all.n; i++) {
        if (!str_among(all.v[i].name, p->of->churn, p->of->churn_count)) v[n++] = all.v[i];
    }
    return (labels){v, n};
}

static bool write_service(struct plain_writer *p, err *e)
{
    const struct plain_block *b = p->of;
    const struct plain_service *s = p->service;
    struct plain_member *m = ARENA_ARRAY(p->a, struct plain_member, BLOCK_CLASSES * s->n);
    size_t n = 0;
    p->written = ARENA_ARRAY(p->a, const struct vector_entry *, s->n + 1);
    p->written_count = 0;
    for (int c = 0; c < BLOCK_CLASSES; c++) {
        enum block_class class = (enum block_class)c;
        for (size_t i = 0; b->classes >> c & 1 && i < s->n; i++) {
            const struct plain_row *r = &s->rows[i];
            if (r->sampled && class != BLOCK_SERIES) continue;
            m[n++] = (struct plain_member){class, labels_of(p, r->ls, class), r};
        }
    }
    if (n == 0) return true;
    qsort(m, n, sizeof *m, order);
    if (!block_service(p->w, s->name, s->symbols, e)) return false;
    str type = {0};
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && is_same_key(&m[i], &m[end]))
            end++;
        bool first = !str_eq(type, m[i].r->type);
        type = m[i].r->type;
        if (first && b->classes >> BLOCK_PROJECTION & 1 &&
            !block_dropped(p->w, type, b->churn, b->churn_count, e)) {
            return false;
        }
        if (!write_key(p, m + i, end - i, e)) return false;
        i = end;
    }
    return true;
}

static bool sink(void *arg, str bytes, err *e)
{
    buf_str(arg, bytes);
    return buf_ok(arg, e);
}

bool plain_block_write(struct arena *a, const struct plain_block *b, struct buf *out, err *e)
{
    struct block_written written = {0};
    const struct block_writer_options o = {.about = b->about,
                                           .sink = sink,
                                           .arg = out,
                                           .memory = b->memory,
                                           .zstd_level = b->zstd_level};
    struct plain_writer p = {.of = b, .a = a, .w = block_begin(&o, e)};
    bool ok = p.w != NULL;
    for (size_t i = 0; ok && i < b->n; i++) {
        p.service = &b->services[i];
        ok = write_service(&p, e);
    }
    if (ok) return block_finish(p.w, &written, e);
    if (p.w) block_abandon(p.w);
    return false;
}
