// SPDX-License-Identifier: Apache-2.0
//
// The sources of a service: their symbols become one table, their keys one sorted list, and their
// rows one sequence without copies. Blocks come from the store, so everything in them that was not
// checked by its parse is checked here and is data_loss.
#include "base/hash.h"
#include "base/map.h"
#include "block/order.h"
#include "compactor/merge_int.h"
#include "model/period.h"

#include <stdlib.h>

#define SCRATCH_KEPT ((size_t)1 << 20)  // of scratch memory between two rows or nodes

// ---- symbols

// Adds the symbols of one source to the new table. Only the map of its stacks stays: the tables of
// many sources together would take most of the memory.
static bool take_symbols(struct service_merge *s, struct input *in,
                         const struct block_service_ref *ref, struct symbols *to,
                         struct symbols_hints *hints, err *e)
{
    struct arena tmp;
    str contents = {0};
    struct symbol_table t = {0};
    struct symbols_remap map;
    const struct block_source *src = &in->source->block;
    arena_init(&tmp, s->merge->memory, SIZE_MAX);
    bool ok =
        block_source_sections(&tmp, src, &ref->symbols, 1, &contents, e) &&
        (block_symbols_parse(&tmp, contents, &t, e) || err_wrap(e, "block %.*s", STR(src->name)));
    if (ok && t.stack_count != in->index.stack_count) {
        ok = err_set(e, ERR_DATA_LOSS, "block %.*s: index of %u stacks, symbols of %u",
                     STR(src->name), in->index.stack_count, t.stack_count);
    }
    const struct symbols_room room = {t.string_count, t.function_count, t.mapping_count,
                                      t.frame_count, t.stack_count};
    // The first table decides the room: those of the other sources are mostly the same rows again.
    ok = ok && (to->t.stack_count > 1 || symbols_reserve(to, &room, e)) &&
         symbols_remap_init(&map, &tmp, &t, to, e);
    if (ok) symbols_remap_hint(&map, hints);
    // Stack 0, the empty one, is number 0 in every table.
    uint32_t *stacks = ok ? ARENA_ARRAY(&s->arena, uint32_t, t.stack_count) : NULL;
    if (ok && !stacks) ok = arena_fail(&s->arena, e);
    for (uint32_t i = 1; stacks && ok && i < t.stack_count; i++) {
        if (in->used && !in->used[i]) continue;
        stacks[i] = symbols_remap_stack(&map, i, e);
        ok = stacks[i] != MAP_NONE;
    }
    in->stacks = stacks;
    arena_release(&tmp);  // with the source's texts: symbols_remap copied those that are new
    return ok;
}

// Writes the new table in depth-first order; the maps of the sources follow the new numbers.
static bool write_symbols(struct service_merge *s, str name, const struct symbols *all, err *e)
{
    struct arena tmp;
    struct symbol_table ordered;
    arena_init(&tmp, s->merge->memory, SIZE_MAX);
    uint32_t *map = ARENA_ARRAY(&tmp, uint32_t, all->t.stack_count);
    bool ok = arena_ok(&tmp, e) && block_order(&tmp, &all->t, NULL, &ordered, map, e);
    for (size_t i = 0; ok && i < s->input_count; i++) {
        struct input *in = &s->inputs[i];
        for (uint32_t k = 0; in->stacks && k < in->index.stack_count; k++)
            in->stacks[k] = map[in->stacks[k]];
    }
    if (ok) s->stack_count = ordered.stack_count;
    ok = ok && block_service(s->writer, name, &ordered, e);
    arena_release(&tmp);
    return ok;
}

// ---- opening

static bool open_input(struct service_merge *s, struct input *in,
                       const struct block_service_ref *ref, err *e)
{
    str contents = {0};
    const struct block_source *src = &in->source->block;
    struct mem_budget *memory = s->merge->memory;
    arena_init(&in->rows.arena, memory, SIZE_MAX);
    arena_init(&in->row_vectors.arena, memory, SIZE_MAX);
    arena_init(&in->node_vectors.arena, memory, SIZE_MAX);
    arena_init(&in->totals.arena, memory, SIZE_MAX);
    return block_source_sections(&s->arena, src, &ref->index, 1, &contents, e) &&
           (block_index_parse(&s->arena, contents, ref, &in->index, e) ||
            err_wrap(e, "block %.*s", STR(src->name)));
}

static bool open_vectors(struct service_merge *s, struct input *in, err *e)
{
    const struct block_frames *f = &in->index.vectors;
    uint64_t n = f->n ? f->v[f->n - 1].first + f->v[f->n - 1].count : 0;
    if (!merge_writes_rows(s->merge) || n == 0 || in->source->mask) return true;
    // in->vectors has new numbers + 1 in 32 bits, so that 0 says that a vector has none yet.
    if (n >= UINT32_MAX) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "block %.*s has too many vectors",
                       STR(in->source->block.name));
    }
    in->vectors = ARENA_ARRAY(&s->arena, uint32_t, (size_t)n);
    in->vector_count = n;
    return arena_ok(&s->arena, e);
}

// Is the source another part of the same cut, so that it has nothing of the part that is made?
static bool is_apart(const struct block_merge *m, const struct block_about *about)
{
    return m->parts > 1 && about->parts == m->parts && about->part != m->part;
}

bool service_open(struct service_merge *s, str name, err *e)
{
    struct block_merge *m = s->merge;
    struct symbols all;
    struct symbols_hints hints;
    assert(!s->inputs && s->writer && m->part < MAX(m->parts, 1u));
    arena_init(&s->arena, m->memory, SIZE_MAX);
    arena_init(&s->group, m->memory, SIZE_MAX);
    arena_init(&s->scratch, m->memory, SIZE_MAX);
    buf_init(&s->columns, m->memory, SIZE_MAX);
    s->inputs = ARENA_ARRAY(&s->arena, struct input, m->source_count);
    if (!s->inputs) return arena_fail(&s->arena, e);
    if (!symbols_init(&all, m->memory, e)) return false;
    symbols_hints_init(&hints, m->memory);
    bool ok = true;
    uint64_t kept = 0;
    for (size_t i = 0; ok && i < m->source_count; i++) {
        const struct block_service_ref *ref = block_find_service(&m->sources[i].block.footer, name);
        if (!ref || is_apart(m, &m->sources[i].block.footer.about)) continue;
        struct input *in = &s->inputs[s->input_count++];
        in->source = &m->sources[i];
        ok = req_alive(m->req, e) && open_input(s, in, ref, e) && open_vectors(s, in, e) &&
             (in->source->mask ||
              (hidden_inspect(s, in, &kept, e) && take_symbols(s, in, ref, &all, &hints, e)));
    }
    s->empty = s->hidden && kept == 0;
    ok = ok && (s->empty || write_symbols(s, name, &all, e));
    symbols_hints_release(&hints);
    symbols_release(&all);
    return ok;
}

void service_close(struct service_merge *s)
{
    for (size_t i = 0; i < s->input_count; i++) {
        arena_release(&s->inputs[i].rows.arena);
        arena_release(&s->inputs[i].row_vectors.arena);
        arena_release(&s->inputs[i].node_vectors.arena);
        arena_release(&s->inputs[i].totals.arena);
    }
    buf_release(&s->columns);
    arena_release(&s->scratch);
    arena_release(&s->group);
    arena_release(&s->arena);
}

void service_tidy(struct service_merge *s)
{
    if (s->scratch.used > SCRATCH_KEPT) arena_release(&s->scratch);
}

// ---- keys

int64_t service_period(const struct service_merge *s, str type)
{
    int64_t period = 0;
    for (size_t i = 0; i < s->input_count; i++) {
        const struct block_index *x = &s->inputs[i].index;
        for (uint32_t t = 0; t < x->type_count; t++) {
            if (str_eq(x->types[t], type)) period_merge(&period, x->periods[t]);
        }
    }
    return period;
}

str key_type(const struct input_key *k)
{
    return k->input->index.types[k->key->type];
}

// Rows of a block are in order of type, class and labels. Equal keys are ordered by their places in
// memory, which are those of the sources: the order is total, so every merge of the same sources
// writes the same bytes.
static int order_keys(const void *a, const void *b)
{
    const struct input_key *x = a;
    const struct input_key *y = b;
    int c = str_cmp(key_type(x), key_type(y));
    if (c == 0) c = (int)x->class - (int)y->class;
    if (c == 0) c = labels_cmp(x->ls, y->ls);
    if (c == 0) c = x->input < y->input ? -1 : x->input > y->input;
    return c ? c : x->key < y->key ? -1 : x->key > y->key;
}

static bool is_part(const struct block_merge *m, const struct block_about *about)
{
    return m->parts < 2 || (about->parts == m->parts && about->part == m->part);
}

static bool add_key(struct service_merge *s, struct input *in, const struct block_key_ref *k,
                    enum block_class as, key_labels *fn, void *arg, err *e)
{
    bool wanted = false;
    assert(as < BLOCK_CLASSES);
    struct input_key *to = &s->keys[s->key_count];
    // Written where the next key goes, and kept only if it is wanted: service_keys made one row
    // more than there can be keys.
    *to = (struct input_key){.input = in, .key = k, .class = as};
    s->as = as;
    if (!fn(s, in, k, &to->ls, &wanted, arg, e)) return false;
    s->key_count += wanted;
    return true;
}

// Of a source that is cut otherwise: sums over more series than those of the part cannot be taken
// apart, but the sums of each series of the part can be added up, for all three classes.
static bool add_series(struct service_merge *s, struct input *in, const struct block_key_ref *k,
                       key_labels *fn, void *arg, err *e)
{
    const struct block_merge *m = s->merge;
    const bool mine = is_part(m, &in->source->block.footer.about);
    bool hidden = false;
    if (k->class != BLOCK_SERIES || (!mine && block_part(k->ls, m->parts) != m->part)) return true;
    if (!merge_writes_rows(m) && !hidden_series(s, k->ls, &hidden, e)) return false;
    if (hidden) return true;
    return (k->sampled || k->row_count || add_key(s, in, k, BLOCK_ALL, fn, arg, e)) &&
           (k->row_count || add_key(s, in, k, BLOCK_PROJECTION, fn, arg, e)) &&
           add_key(s, in, k, BLOCK_SERIES, fn, arg, e);
}

bool service_keys(struct service_merge *s, key_labels *fn, void *arg, err *e)
{
    size_t most = 0;
    // Sums over series of which a deletion hides some are made of those that stay.
    const bool erases = s->hidden && !merge_writes_rows(s->merge);
    const size_t each = s->merge->parts > 1 || erases ? BLOCK_CLASSES : 1;
    for (size_t i = 0; i < s->input_count; i++)
        most += each * s->inputs[i].index.key_count;
    s->keys = ARENA_ARRAY(&s->arena, struct input_key, most + 1);
    if (!s->keys) return arena_fail(&s->arena, e);
    for (size_t i = 0; i < s->input_count; i++) {
        struct input *in = &s->inputs[i];
        bool whole = !erases && is_part(s->merge, &in->source->block.footer.about);
        for (uint32_t k = 0; k < in->index.key_count; k++) {
            const struct block_key_ref *key = &in->index.keys[k];
            if (!(whole ? add_key(s, in, key, key->class, fn, arg, e)
                        : add_series(s, in, key, fn, arg, e))) {
                return false;
            }
        }
    }
    assert(s->key_count <= most);
    if (s->key_count) qsort(s->keys, s->key_count, sizeof *s->keys, order_keys);
    return true;
}

struct key_group service_group(const struct service_merge *s, size_t *at)
{
    assert(*at < s->key_count);
    const struct input_key *first = &s->keys[*at];
    size_t n = 1;
    while (*at + n < s->key_count) {
        const struct input_key *k = first + n;
        if (k->class != first->class || !labels_eq(k->ls, first->ls) ||
            !str_eq(key_type(k), key_type(first))) {
            break;
        }
        n++;
    }
    *at += n;
    return (struct key_group){first, n};
}

size_t service_type_end(const struct service_merge *s, size_t at)
{
    assert(at < s->key_count);
    str type = key_type(&s->keys[at]);
    while (at < s->key_count && str_eq(key_type(&s->keys[at]), type))
        at++;
    return at;
}

// ---- frames

static bool damaged(const struct input *in, const char *what, err *e)
{
    return err_set(e, ERR_DATA_LOSS, "block %.*s: %s", STR(in->source->block.name), what);
}

static bool wrap(const struct input *in, err *e)
{
    return err_wrap(e, "block %.*s", STR(in->source->block.name));
}

static bool load_rows(struct input *in, uint64_t row, err *e)
{
    struct rows_frame *f = &in->rows;
    const struct block_index *x = &in->index;
    if (f->frame && row - f->frame->first < f->frame->count) return true;
    arena_release(&f->arena);
    f->frame = NULL;  // until all of it is parsed: a frame that failed is not taken for loaded
    const struct block_frame *heads = block_frame_of(&x->heads, row);
    const struct block_frame *details = block_frame_of(&x->details, row);
    const struct block_frame *spans = block_frame_of(&x->spans, row);
    if (!heads || !details || details->first != heads->first || details->count != heads->count)
        return damaged(in, "rows without details", e);
    const struct block_extent extents[] = {heads->extent, details->extent,
                                           spans ? spans->extent : (struct block_extent){0}};
    str contents[COUNT(extents)];
    struct block_row_spans *by_row = NULL;
    if (!block_source_sections(&f->arena, &in->source->block, extents, COUNT(extents), contents,
                               e)) {
        return false;
    }
    if (!block_heads_parse(&f->arena, contents[0], heads->count, &f->heads, e) ||
        !block_details_parse(&f->arena, contents[1], &f->heads, &f->details, e) ||
        (spans && !block_spans_parse(&f->arena, contents[2], spans->count, &by_row, e))) {
        return wrap(in, e);
    }
    if (spans && (spans->first != heads->first || spans->count != heads->count))
        return damaged(in, "spans that are not of their rows", e);
    f->spans = by_row;
    f->frame = heads;
    return true;
}

static bool load_vectors(struct input *in, struct vectors_frame *f, const struct block_frame *frame,
                         err *e)
{
    str contents = {0};
    if (f->frame == frame) return true;
    arena_release(&f->arena);
    f->frame = NULL;
    if (!block_source_sections(&f->arena, &in->source->block, &frame->extent, 1, &contents, e)) {
        return false;
    }
    if (!block_vectors_parse(&f->arena, contents, frame->count, &f->v, e)) return wrap(in, e);
    f->frame = frame;
    return true;
}

bool input_row(struct input *in, uint64_t row, size_t *place, err *e)
{
    if (!load_rows(in, row, e)) return false;
    *place = (size_t)(row - in->rows.frame->first);
    return true;
}

// ---- vectors

static bool own_entries(struct service_merge *s, const struct input *in, str columns,
                        struct vector_entry **v, size_t *n, err *e)
{
    if (columns_entries(&s->scratch, columns, in->index.stack_count, v, n, e)) return true;
    if (e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
    return wrap(in, e);
}

bool input_own_vector(struct service_merge *s, struct input *in, uint64_t number,
                      struct vector_entry **v, size_t *n, err *e)
{
    const struct block_frame *f = block_frame_of(&in->index.vectors, number);
    if (!f) return damaged(in, "a row whose vector is not there", e);
    if (!load_vectors(in, &in->row_vectors, f, e)) return false;
    return own_entries(s, in, block_vector_at(&in->row_vectors.v, (uint32_t)(number - f->first)), v,
                       n, e);
}

bool input_own_node(struct service_merge *s, struct input *in, const struct block_node_ref *node,
                    struct vector_entry **v, size_t *n, err *e)
{
    return load_vectors(in, &in->node_vectors, &in->index.nodes_at.v[node->frame], e) &&
           own_entries(s, in, block_vector_at(&in->node_vectors.v, node->place), v, n, e);
}

bool input_map(struct service_merge *s, const struct input *in, str columns,
               struct vector_entry **v, size_t *n, err *e)
{
    const uint32_t count = in->index.stack_count;
    assert(in->stacks);  // masks have no map, and none of their vectors is read
    if (!columns_entries(&s->scratch, columns, count, v, n, e)) {
        if (e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
        return wrap(in, e);
    }
    // Siblings in the new table are in the order in which they were first seen. So the map keeps
    // the order of the first source's stacks, and mostly that of the others: then nothing is
    // sorted.
    bool ordered = true;
    uint32_t last = 0;
    for (size_t i = 0; i < *n; i++) {
        uint32_t stack = (*v)[i].stack;
        if (stack >= count) return damaged(in, "a vector with a stack that is not there", e);
        stack = in->stacks[stack];
        ordered = ordered && (i == 0 || stack > last);
        last = (*v)[i].stack = stack;
    }
    return ordered || vector_normalise(*v, n, e);
}

bool input_row_vector(struct service_merge *s, struct input *in, uint64_t number,
                      struct vector_entry **v, size_t *n, err *e)
{
    const struct block_frame *f = block_frame_of(&in->index.vectors, number);
    if (!f) return damaged(in, "a row whose vector is not there", e);
    return load_vectors(in, &in->row_vectors, f, e) &&
           input_map(s, in, block_vector_at(&in->row_vectors.v, (uint32_t)(number - f->first)), v,
                     n, e);
}

static bool multiply(const struct input *in, struct vector_entry *v, size_t n, int64_t factor,
                     err *e)
{
    for (size_t i = 0; factor != 1 && i < n; i++) {
        if (__builtin_mul_overflow(v[i].value, factor, &v[i].value)) {
            return damaged(in, "a vector with a value that does not fit 64 bits", e);
        }
    }
    return true;
}

bool input_node_vector(struct service_merge *s, struct input *in, const struct block_node_ref *node,
                       struct vector_entry **v, size_t *n, err *e)
{
    return load_vectors(in, &in->node_vectors, &in->index.nodes_at.v[node->frame], e) &&
           input_map(s, in, block_vector_at(&in->node_vectors.v, node->place), v, n, e) &&
           multiply(in, *v, *n, node->factor, e);
}

bool input_total(struct input *in, uint64_t number, struct block_total *out, err *e)
{
    struct totals_frame *t = &in->totals;
    str contents = {0};
    const struct block_frame *f = block_frame_of(&in->index.totals, number);
    if (!f) return damaged(in, "a key whose totals are not there", e);
    if (t->frame != f) {
        arena_release(&t->arena);
        t->frame = NULL;
        if (!block_source_sections(&t->arena, &in->source->block, &f->extent, 1, &contents, e)) {
            return false;
        }
        if (!block_totals_parse(&t->arena, contents, f->count, &t->v, e)) return wrap(in, e);
        t->frame = f;
    }
    *out = t->v[number - f->first];
    return true;
}

bool service_columns(struct service_merge *s, const struct vector_entry *v, size_t n, str *out,
                     err *e)
{
    buf_clear(&s->columns);
    columns_encode(v, n, &s->columns);
    *out = buf_view(&s->columns);
    return buf_ok(&s->columns, e);
}

// ---- rows

// Of equal rows those of masks come first, which are in leaves already: the others are copies. Then
// the one with the lower attempt stays.
static bool before(const struct row_feed *x, const struct row_feed *y)
{
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns;
    int c = memcmp(x->id.b, y->id.b, sizeof x->id.b);
    if (c) return c < 0;
    if (x->mask != y->mask) return x->mask;
    uint32_t first = block_attempt(x->attempt);
    uint32_t second = block_attempt(y->attempt);
    if (first != second) return first < second;
    return x->input < y->input;
}

static void sift(struct row_merge *m, size_t at)
{
    assert(at < m->n);
    struct row_feed f = m->feeds[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= m->n) break;
        if (child + 1 < m->n && before(&m->feeds[child + 1], &m->feeds[child])) child++;
        if (!before(&m->feeds[child], &f)) break;
        m->feeds[at] = m->feeds[child];
        at = child;
    }
    m->feeds[at] = f;
}

static bool load_feed(struct row_feed *f, err *e)
{
    assert(f->row < f->end);
    if (!load_rows(f->input, f->row, e)) return false;
    const struct rows_frame *rows = &f->input->rows;
    assert(rows->frame);
    size_t place = (size_t)(f->row - rows->frame->first);
    f->time_ns = rows->heads.times[place];
    f->attempt = rows->heads.attempts ? rows->heads.attempts[place] : 0;
    f->id = rows->details.ids[place];
    return true;
}

// The first row of a key that is in a later hour than this one. Rows of a key are in order of time,
// so a binary search over frames finds it. SEARCH (base/search.h) does not serve: each comparison
// may have to read a frame, and may fail.
static bool seek_hour(struct row_feed *f, uint64_t *row, int64_t hour, err *e)
{
    uint64_t lo = f->row;
    uint64_t hi = f->end;
    struct row_feed at = *f;
    while (lo < hi) {
        at.row = lo + (hi - lo) / 2;
        if (!load_feed(&at, e)) return false;
        if (slot_of(at.time_ns, SLOT_HOUR) <= hour)
            lo = at.row + 1;
        else
            hi = at.row;
    }
    *row = lo;
    return true;
}

// Leaves out rows of hours that are not merged, of a leaf that covers more hours.
static bool narrow_feed(struct row_merge *m, struct row_feed *f, err *e)
{
    const struct block_merge *of = m->service->merge;
    const struct block_about *about = &f->input->source->block.footer.about;
    int64_t end = of->from_hour + (int64_t)of->hours;
    int64_t last = about->from_hour + (int64_t)about->hours;
    if (about->from_hour >= of->from_hour && last <= end) return true;
    if (about->from_hour >= end || last <= of->from_hour) {
        f->end = f->row;
        return true;
    }
    return seek_hour(f, &f->row, of->from_hour - 1, e) && seek_hour(f, &f->end, end - 1, e);
}

bool row_merge_begin(struct row_merge *m, struct service_merge *s, const struct key_group *g,
                     err *e)
{
    *m = (struct row_merge){.service = s};
    map_init(&m->seen_map, s->merge->memory);
    m->feeds = ARENA_ARRAY(&s->group, struct row_feed, g->n);
    if (!m->feeds) return arena_fail(&s->group, e);
    if (!hidden_of(s, &s->group, g->v[0].ls, &m->hides, &m->hide_count, e)) return false;
    for (size_t i = 0; i < g->n; i++) {
        const struct block_key_ref *k = g->v[i].key;
        if (k->row_count == 0) continue;
        struct row_feed *f = &m->feeds[m->n];
        *f = (struct row_feed){.input = g->v[i].input,
                               .row = k->first_row,
                               .end = k->first_row + k->row_count,
                               .mask = g->v[i].input->source->mask};
        if (!narrow_feed(m, f, e)) return false;
        if (f->row == f->end) continue;
        if (!load_feed(f, e)) return false;
        m->n++;
    }
    for (size_t i = m->n / 2; i-- > 0;)
        sift(m, i);
    return true;
}

// Up to so many ids of one millisecond are compared one by one; more go into a map.
#define SEEN_FEW 64

static bool same_id(const void *ctx, uint32_t row)
{
    const struct row_merge *m = ctx;
    return id128_eq(m->seen[row], m->seen[m->seen_count]);
}

static uint64_t hash_id(id128 id)
{
    return hash_table_bytes(id.b, sizeof id.b);
}

// Is the id behind the last one, seen[seen_count], among those before it?
static bool find_seen(struct row_merge *m)
{
    if (m->seen_map.count)
        return map_find(&m->seen_map, hash_id(m->seen[m->seen_count]), same_id, m) != MAP_NONE;
    // The newest first: copies have mostly the same time to the nanosecond.
    for (size_t i = m->seen_count; i-- > 0;) {
        if (same_id(m, (uint32_t)i)) return true;
    }
    return false;
}

// Was a row with this id given already? An id contains the time of its profile in ms, so equal ids
// are in the same ms, and those of earlier ones can be forgotten.
static bool was_seen(struct row_merge *m, const struct row_feed *f, bool *seen, err *e)
{
    int64_t ms = slot_after(f->time_ns, 1000000);
    if (ms != m->seen_ms) {
        m->seen_count = 0;
        map_release(&m->seen_map);
    }
    m->seen_ms = ms;
    if (!arena_grow(&m->service->group, &m->seen, &m->seen_cap, m->seen_count + 1,
                    sizeof *m->seen)) {
        return arena_fail(&m->service->group, e);
    }
    m->seen[m->seen_count] = f->id;
    *seen = find_seen(m);
    if (*seen) return true;
    size_t n = ++m->seen_count;
    if (n < SEEN_FEW) return true;
    // The map begins when the ids become too many to compare, with those that there are already.
    for (size_t i = n == SEEN_FEW ? 0 : n - 1; i < n; i++) {
        if (!map_put(&m->seen_map, hash_id(m->seen[i]), (uint32_t)i, e)) return false;
    }
    return true;
}

void row_merge_end(struct row_merge *m)
{
    map_release(&m->seen_map);
    arena_release(&m->service->group);
}

bool row_merge_next(struct row_merge *m, struct merged_row *row, bool *more, err *e)
{
    for (;;) {
        // The feed of the row given last is advanced only now: its frame had to stay for the
        // caller.
        if (m->has_last) {
            assert(m->n > 0);
            struct row_feed *top = &m->feeds[0];
            m->has_last = false;
            if (++top->row == top->end)
                m->feeds[0] = m->feeds[--m->n];
            else if (!load_feed(top, e))
                return false;
            if (m->n) sift(m, 0);
        }
        *more = m->n > 0;
        if (!*more) return true;
        bool seen = false;
        const struct row_feed *f = &m->feeds[0];
        if (hidden_at(m->hides, m->hide_count, f->time_ns)) {
            m->has_last = true;
            m->hidden += !f->mask;
            continue;
        }
        if (!was_seen(m, f, &seen, e)) return false;
        m->has_last = true;
        // A mask's row is in a leaf already: it is not given, but its copies are known by it.
        m->duplicates += seen && !f->mask;
        if (seen || f->mask) continue;
        const struct rows_frame *rows = &f->input->rows;
        size_t place = (size_t)(f->row - rows->frame->first);
        *row =
            (struct merged_row){.input = f->input,
                                .place = place,
                                .time_ns = f->time_ns,
                                .total = rows->heads.totals[place],
                                .vector = rows->details.vectors[place],
                                .factor = rows->details.factors ? rows->details.factors[place] : 1};
        return true;
    }
}
