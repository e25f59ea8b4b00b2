// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "block/order.h"
#include "block/writer_int.h"
#include "codec/lz4.h"

#include <stdio.h>

// Segments live for hours: level 1 makes them 5 % larger in two thirds of the time.
#define LEVEL_SEGMENT 1
#define LEVEL_USUAL   3

// Symbols of a block of days are kept for months: 3 % less are worth two milliseconds for each
// 10 KB. Those of an hour are packed again within a day.
#define LEVEL_SYMBOLS_LONG 15
#define HOURS_LONG         24

// A small section of a segment is not packed. Even LZ4 would take a third of the time that a small
// service takes in all, and the bytes that it saves are gone in hours.
#define PACKED_LEAST_SEGMENT ((size_t)16 << 10)

// Larger ones of up to so many bytes become LZ4: a third larger than by zstd in a quarter of the
// time, of which most would go into tables of how frequent bytes are.
#define LZ4_MOST_SEGMENT ((size_t)64 << 10)

// A footer can only be packed by zstd, whose context takes as long to make as half a dozen small
// services take in all.
#define FOOTER_LEAST_SEGMENT ((size_t)64 << 10)

// A section is packed if that saves a twentieth and so many bytes.
#define WIN_LEAST ((size_t)16)

// Symbols of more bytes give their room back at once.
#define SYMBOLS_KEPT ((size_t)256 << 10)

// Contents shorter than that are packed as one piece: each piece costs a dozen bytes.
#define SPLIT_LEAST 1024

static bool wrong(struct block_writer *w, err *e, const char *what)
{
    w->failed = true;
    return err_set(e, ERR_INTERNAL, "block of service %.*s: %s", STR(w->s.name), what);
}

// Remembers that a step failed: the bytes written so far will not become a block.
static bool step(struct block_writer *w, bool ok)
{
    if (!ok) w->failed = true;
    return ok;
}

// ---- sections
bool writer_emit(struct block_writer *w, str bytes, err *e)
{
    if (bytes.n == 0) return true;
    if (!w->sink(w->arg, bytes, e)) return false;
    w->at += bytes.n;
    return true;
}

// The next piece of contents, up to a split or the end.
static size_t piece_end(const struct writer_contents *c, size_t from)
{
    size_t end = c->bytes.n;
    for (size_t i = 0; i < COUNT(c->splits); i++) {
        if (c->splits[i] > from) end = MIN(end, c->splits[i]);
    }
    return end;
}

static bool pack(struct block_writer *w, const struct writer_contents *c, err *e)
{
    buf_clear(&w->packed);
    if (c->bytes.n <= w->lz4_most) return lz4_pack(c->bytes, &w->packed, e);
    bool whole = c->bytes.n < SPLIT_LEAST;
    int level = w->level ? w->level : c->level ? c->level : LEVEL_USUAL;
    for (size_t from = 0; from < c->bytes.n;) {
        size_t to = whole ? c->bytes.n : piece_end(c, from);
        if (!compressor_zstd(&w->compressor, str_slice(c->bytes, from, to), level, &w->packed, e))
            return false;
        from = to;
    }
    return true;
}

bool writer_section(struct block_writer *w, const struct writer_contents *c, const char *what,
                    struct buf *keep, struct block_extent *x, err *e)
{
    if (c->bytes.n > BLOCK_SECTION_MAX) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "%s have %zu bytes, a section at most %zu", what,
                       c->bytes.n, BLOCK_SECTION_MAX);
    }
    bool may_pack = w->level >= 0 && !c->packed && c->bytes.n >= w->packed_least;
    if (may_pack && !pack(w, c, e)) return err_wrap(e, "%s", what);
    str stored = buf_view(&w->packed);
    size_t win = MAX(c->bytes.n / 20, WIN_LEAST);
    bool packed =
        may_pack && stored.n + win <= c->bytes.n && block_raw_is_sane(stored.n, c->bytes.n);
    if (!packed) stored = c->bytes;
    *x = (struct block_extent){.at = keep ? keep->n : w->at,
                               .stored = (uint32_t)stored.n,
                               .raw = (uint32_t)c->bytes.n,
                               .crc = crc32c(0, stored.p, stored.n),
                               .packed = packed,
                               .lz4 = packed && c->bytes.n <= w->lz4_most};
    w->has_lz4 |= x->lz4;
    if (!keep) return writer_emit(w, stored, e);
    buf_str(keep, stored);
    return buf_ok(keep, e);
}

bool writer_section_of(struct block_writer *w, const struct buf *contents, const char *what,
                       struct buf *keep, struct block_extent *x, err *e)
{
    struct writer_contents c = {.bytes = buf_view(contents)};
    return buf_ok(contents, e) && writer_section(w, &c, what, keep, x, e);
}

bool writer_column(struct block_writer *w, size_t n, err *e)
{
    return mem_grow_bare(w->memory, &w->column, &w->column_cap, n, sizeof *w->column, e);
}

// ---- begin
void block_abandon(struct block_writer *w)
{
    if (!w) return;
    struct mem_budget *memory = w->memory;
    writer_service_release(w);
    block_spans_release(&w->spans);
    compressor_release(&w->compressor);
    arena_release(&w->row_arena);
    arena_release(&w->arena);
    buf_release(&w->services);
    buf_release(&w->placed);
    buf_release(&w->contents);
    buf_release(&w->packed);
    buf_release(&w->last_name);
    mem_free(memory, w->rows, w->row_cap * sizeof *w->rows);
    mem_free(memory, w->totals, w->total_cap * sizeof *w->totals);
    mem_free(memory, w->column, w->column_cap * sizeof *w->column);
    mem_free(memory, w, sizeof *w);
}

static bool copy_about(struct block_writer *w, const struct block_about *about, err *e)
{
    w->about = *about;
    if (about->kind < BLOCK_SEGMENT || about->kind > BLOCK_DAYS) {
        return err_set(e, ERR_INTERNAL, "block: kind %d is none", (int)about->kind);
    }
    if (!block_hours_are_sane(about->from_hour, about->hours)) {
        return err_set(e, ERR_INTERNAL, "block: hours %lld and %u more are no such hours",
                       (long long)about->from_hour, about->hours);
    }
    str *sources = ARENA_ARRAY(&w->arena, str, about->source_count);
    w->about.tenant = arena_str(&w->arena, about->tenant);
    w->about.sources = sources;
    for (size_t i = 0; sources && i < about->source_count; i++)
        sources[i] = arena_str(&w->arena, about->sources[i]);
    return arena_ok(&w->arena, e);
}

struct block_writer *block_begin(const struct block_writer_options *o, err *e)
{
    struct block_writer *w = mem_alloc(o->memory, sizeof *w, e);
    if (!w) return NULL;
    w->sink = o->sink;
    w->arg = o->arg;
    w->memory = o->memory;
    w->level = o->zstd_level;
    if (w->level == 0 && o->about.kind == BLOCK_SEGMENT) {
        w->level = LEVEL_SEGMENT;
        w->packed_least = PACKED_LEAST_SEGMENT;
        w->lz4_most = LZ4_MOST_SEGMENT;
    }
    w->written = (struct block_written){.first_ns = INT64_MAX, .last_ns = INT64_MIN};
    arena_init(&w->arena, o->memory, SIZE_MAX);
    arena_init(&w->row_arena, o->memory, SIZE_MAX);
    buf_init(&w->services, o->memory, BLOCK_SECTION_MAX);
    buf_init(&w->placed, o->memory, BLOCK_SECTION_MAX);
    buf_init(&w->contents, o->memory, SIZE_MAX);
    buf_init(&w->packed, o->memory, SIZE_MAX);
    buf_init(&w->last_name, o->memory, SIZE_MAX);
    writer_service_init(w);
    block_spans_init(&w->spans, o->memory);
    if (copy_about(w, &o->about, e)) return w;
    block_abandon(w);
    return NULL;
}

// ---- the end of a service
static bool keep_heads(struct block_writer *w, err *e)
{
    struct writer_service *s = &w->s;
    for (uint32_t i = 0; i < s->heads.n; i++)
        s->heads.v[i].extent.at += w->at;
    return writer_emit(w, buf_view(&s->kept_heads), e);
}

static bool put_blooms(struct block_writer *w, err *e)
{
    if (w->s.spans.n == 0) return true;
    buf_clear(&w->contents);
    return block_spans_blooms(&w->spans, &w->contents, e) &&
           writer_section_of(w, &w->contents, "filters of spans", NULL, &w->s.blooms, e);
}

// Profiles that are not sampled: the rows if there are any, else the profiles of the first class
// that has nodes.
static uint64_t profiles_of(const struct writer_type *t)
{
    if (t->rows) return t->rows;
    for (int c = 0; c < BLOCK_CLASSES; c++) {
        if (t->by_nodes[c].profiles) return t->by_nodes[c].profiles;
    }
    return 0;
}

static void put_datasets(struct block_writer *w)
{
    struct writer_service *s = &w->s;
    struct buf *out = &w->services;
    uint32_t n = 0;
    for (uint32_t t = 0; t < s->type_count; t++)
        n += s->types[t].timed;
    wire_put_u64(out, n);
    for (uint32_t t = 0; t < s->type_count; t++) {
        const struct writer_type *type = &s->types[t];
        if (!type->timed) continue;
        wire_put_str(out, type->name);
        wire_put_u64(out, profiles_of(type));
        wire_put_u64(out, type->loose);
        wire_put_u64(&w->placed, type->placed);
        wire_put_i64(out, type->first_ns);
        wire_put_u64(out, (uint64_t)type->last_ns - (uint64_t)type->first_ns);
        w->written.profiles += profiles_of(type);
        w->written.first_ns = MIN(w->written.first_ns, type->first_ns);
        w->written.last_ns = MAX(w->written.last_ns, type->last_ns);
    }
}

// The extent of kept frames: a single one is named as a section; of several only the size is
// written.
static void put_kept(struct buf *out, const struct writer_frames *f, const struct buf *kept)
{
    static const struct block_extent none;
    if (f->n <= 1) {
        wire_put_extent(out, f->n ? &f->v[0].extent : &none);
        return;
    }
    buf_byte(out, WIRE_SEVERAL);
    wire_put_u64(out, kept->n);
}

static bool end_frames(struct block_writer *w, err *e)
{
    struct writer_service *s = &w->s;
    return writer_cut_rows(w, e) && writer_cut_totals(w, e) &&
           writer_cut_vectors(w, &s->row_vectors, e) &&
           writer_cut_vectors(w, &s->node_vectors, e) &&
           writer_cut_vectors(w, &s->all_vectors, e) && put_blooms(w, e) && keep_heads(w, e);
}

static bool end_service(struct block_writer *w, err *e)
{
    struct writer_service *s = &w->s;
    struct block_extent index = {0};
    if (!s->open) return true;
    if (!end_frames(w, e)) return false;
    wire_put_str(&w->services, s->name);
    put_datasets(w);
    wire_put_u64(&w->services, w->at - w->tail);
    put_kept(&w->services, &s->totals, &s->kept_totals);
    if (!writer_emit(w, buf_view(&s->kept_totals), e)) return false;
    buf_clear(&w->contents);
    if (!writer_index(w, &w->contents, e) ||
        !writer_section_of(w, &w->contents, "index", NULL, &index, e)) {
        return false;
    }
    wire_put_extent(&w->services, &index);
    wire_put_extent(&w->services, &s->symbols);
    put_kept(&w->services, &s->all_vectors.frames, &s->kept_all);
    if (!writer_emit(w, buf_view(&s->kept_symbols), e) ||
        !writer_emit(w, buf_view(&s->kept_all), e)) {
        return false;
    }
    w->tail = w->at;
    w->written.services++;
    buf_clear(&w->last_name);
    buf_str(&w->last_name, s->name);
    bool ok = buf_ok(&w->services, e) && buf_ok(&w->placed, e) && buf_ok(&w->last_name, e);
    writer_service_next(w);
    return ok;
}

// ---- what the caller says
static bool keep_symbols(struct block_writer *w, const struct symbol_table *t, err *e)
{
    struct arena scratch;
    struct writer_contents c = {0};
    arena_init(&scratch, w->memory, SIZE_MAX);
    buf_clear(&w->contents);
    bool ok = writer_symbols(t, w->about.kind != BLOCK_SEGMENT, &scratch, &w->contents, &c, e);
    if (c.level && w->about.hours >= HOURS_LONG) c.level = LEVEL_SYMBOLS_LONG;
    arena_release(&scratch);
    ok = ok && writer_section(w, &c, "symbols", &w->s.kept_symbols, &w->s.symbols, e);
    if (w->contents.room > SYMBOLS_KEPT) {  // much larger than frames are
        buf_release(&w->contents);
        buf_release(&w->packed);
    }
    return ok;
}

bool block_service(struct block_writer *w, str name, const struct symbol_table *t, err *e)
{
    assert(!w->failed);
    if (!step(w, end_service(w, e))) return false;
    w->s.name = arena_str(&w->s.arena, name);
    if (!arena_ok(&w->s.arena, e)) return step(w, false);
    if (w->written.services > 0 && str_cmp(buf_view(&w->last_name), name) >= 0) {
        return wrong(w, e, "it does not come in order");
    }
    uint32_t pack_number = block_pack(name);
    if (pack_number < w->about.pack_lo || pack_number > w->about.pack_hi) {
        return wrong(w, e, "it belongs to another pack");
    }
    if (!block_is_ordered(t)) return wrong(w, e, "its stacks are not in depth-first order");
    for (uint32_t i = 1; i < t->stack_count; i++) {
        if (t->stacks[i].frame == 0) return wrong(w, e, "one of its stacks has no frame");
    }
    struct writer_service *s = &w->s;
    s->open = true;
    s->stack_count = t->stack_count;
    s->used = ARENA_ARRAY(&s->arena, uint64_t, t->stack_count / 64 + 1);
    s->ranks = ARENA_ARRAY(&s->arena, uint32_t, t->stack_count / 64 + 1);
    return step(w, arena_ok(&s->arena, e) && keep_symbols(w, t, e));
}

bool block_service_end(struct block_writer *w, err *e)
{
    assert(!w->failed);
    return step(w, end_service(w, e));
}

static bool total_of(const struct block_writer *w, str columns, int64_t *total, err *e)
{
    if (columns_check(columns, w->s.stack_count, total, e)) return true;
    e->code = ERR_INTERNAL;
    return err_wrap(e, "block of service %.*s", STR(w->s.name));
}

// Columns that were checked, in two pieces. A frame ends before a vector that would make it too
// large.
static bool add_vector(struct block_writer *w, struct writer_vectors *v, str head, str entries,
                       err *e)
{
    if (v->bytes.n + head.n + entries.n > BLOCK_FRAME && !writer_cut_vectors(w, v, e)) return false;
    buf_str(&v->bytes, head);
    buf_str(&v->bytes, entries);
    v->count++;
    v->total++;
    return buf_ok(&v->bytes, e);
}

bool block_vector(struct block_writer *w, str columns, uint64_t *number, err *e)
{
    struct writer_service *s = &w->s;
    assert(!w->failed && s->open);
    int64_t total = 0;
    if (!total_of(w, columns, &total, e) || !add_vector(w, &s->row_vectors, (str){0}, columns, e) ||
        !mem_grow(w->memory, &s->vector_totals, &s->vector_cap, s->vector_count + 1,
                  sizeof *s->vector_totals, e)) {
        return step(w, false);
    }
    s->vector_totals[s->vector_count] = total;
    *number = s->vector_count++;
    return true;
}

bool block_vectors_apart(struct block_writer *w, err *e)
{
    struct writer_vectors *v = &w->s.row_vectors;
    assert(!w->failed && w->s.open);
    return step(w, v->bytes.n < BLOCK_FRAME_APART || writer_cut_vectors(w, v, e));
}

// The current type, or a new one behind it.
static struct writer_type *type_of(struct block_writer *w, str name, err *e)
{
    struct writer_service *s = &w->s;
    struct writer_type *last = s->type_count ? &s->types[s->type_count - 1] : NULL;
    int order = last ? str_cmp(last->name, name) : -1;
    if (order == 0) return last;
    if (order > 0) {
        wrong(w, e, "types do not come in order");
        return NULL;
    }
    if (!mem_grow(w->memory, &s->types, &s->type_cap, (size_t)s->type_count + 1, sizeof *s->types,
                  e)) {
        return NULL;
    }
    struct writer_type *t = &s->types[s->type_count];
    *t = (struct writer_type){.name = arena_str(&s->arena, name)};
    if (!arena_ok(&s->arena, e)) return NULL;
    s->type_count++;
    writer_part(&w->row_parts, w->row_count);
    writer_part(&w->total_parts, w->total_count);
    return t;
}

bool block_dropped(struct block_writer *w, str type, const str *names, size_t n, err *e)
{
    struct writer_service *s = &w->s;
    assert(!w->failed && s->open);
    struct writer_type *t = type_of(w, type, e);
    if (!t) return step(w, false);
    if (t->keys[BLOCK_PROJECTION] || t->keys[BLOCK_SERIES] || t->dropped_count) {
        return wrong(w, e, "what projections leave out comes before them, once");
    }
    str *copy = ARENA_ARRAY(&s->arena, str, n);
    for (size_t i = 0; copy && i < n; i++) {
        if (i > 0 && str_cmp(names[i - 1], names[i]) >= 0) {
            return wrong(w, e, "labels that projections leave out are not in order");
        }
        copy[i] = arena_str(&s->arena, names[i]);
    }
    t->dropped = copy;
    t->dropped_count = (uint32_t)n;
    return step(w, arena_ok(&s->arena, e));
}

bool block_key(struct block_writer *w, enum block_class class, str type, labels ls, err *e)
{
    struct writer_service *s = &w->s;
    assert(!w->failed && s->open && class < BLOCK_CLASSES);
    uint32_t types = s->type_count;
    struct writer_type *t = type_of(w, type, e);
    if (!t) return step(w, false);
    const struct writer_key *last =
        s->key_count && types == s->type_count ? &s->keys[s->key_count - 1] : NULL;
    if (last && t->keys[BLOCK_ALL] + t->keys[BLOCK_PROJECTION] + t->keys[BLOCK_SERIES] > 0 &&
        (last->class > class || (last->class == class && labels_cmp(last->ls, ls) >= 0))) {
        return wrong(w, e, "keys do not come in order");
    }
    if (s->key_count == UINT32_MAX ||
        !mem_grow(w->memory, &s->keys, &s->key_cap, (size_t)s->key_count + 1, sizeof *s->keys, e)) {
        return step(w, false);
    }
    s->keys[s->key_count++] = (struct writer_key){.class = class, .ls = labels_copy(&s->arena, ls)};
    t->keys[class]++;
    s->sampled = block_is_sampled(ls);
    s->last_width = 0;
    s->last_total_slot = INT64_MIN;
    s->last_time_ns = INT64_MIN;
    memset(&s->last_id, 0, sizeof s->last_id);
    w->written.classes |= 1u << class;
    return step(w, arena_ok(&s->arena, e));
}

static bool is_within(const struct block_writer *w, int64_t slot, int64_t width)
{
    int64_t from = slot_start(w->about.from_hour, SLOT_HOUR);
    int64_t to = slot_start(w->about.from_hour + w->about.hours, SLOT_HOUR);
    return slot_start(slot, width) >= from && slot < INT64_MAX && slot_start(slot + 1, width) <= to;
}

static void saw(struct writer_type *t, int64_t first_ns, int64_t last_ns)
{
    t->first_ns = t->timed ? MIN(t->first_ns, first_ns) : first_ns;
    t->last_ns = t->timed ? MAX(t->last_ns, last_ns) : last_ns;
    t->timed = true;
}

static const char *fault_of_node(const struct block_writer *w, const struct block_node *n)
{
    const struct writer_service *s = &w->s;
    uint8_t code = 0;
    while (block_width_of(code) != n->width && block_width_of(code) != 0)
        code++;
    if (block_width_of(code) == 0) return "the width of a node is none";
    if (!is_within(w, n->slot, n->width)) return "a node lies outside of the block";
    if (n->width < s->last_width || (n->width == s->last_width && n->slot <= s->last_slot)) {
        return "nodes do not come in order";
    }
    if (n->profiles == 0 || n->profiles > INT64_MAX) return "a node has no profiles";
    if (slot_of(n->first_ns, n->width) != n->slot || slot_of(n->last_ns, n->width) != n->slot ||
        n->first_ns > n->last_ns) {
        return "times of a node are not in its slot";
    }
    return NULL;
}

// Writes the node's vector without its divisor, which becomes the node's factor. If an equal vector
// was written before, the node names that one.
static bool node_vector(struct block_writer *w, bool all, str columns, struct writer_node *n,
                        err *e)
{
    struct writer_service *s = &w->s;
    struct writer_vectors *to = all ? &s->all_vectors : &s->node_vectors;
    const uint8_t *at = (const uint8_t *)columns.p;
    const uint8_t *end = at + columns.n;
    uint64_t count = 0;
    uint64_t divisor = 0;
    uint8_t head[2 * VARINT_MAX];
    bool ok = varint_get(&at, end, &count) && varint_get(&at, end, &divisor);
    assert(ok);
    str entries = str_make(at, (size_t)(end - at));
    n->factor = count ? (int64_t)divisor : 1;
    n->of_all = all;
    if (count && writer_share_find(&s->share, entries, all, &n->vector, &n->of_all)) return true;
    n->vector = to->total;
    size_t used = varint_put(head, count);
    used += varint_put(head + used, 1);
    return add_vector(w, to, str_make(head, used), entries, e) &&
           (count == 0 || writer_share_keep(&s->share, entries, all, n->vector, e));
}

bool block_node(struct block_writer *w, const struct block_node *n, str columns, err *e)
{
    struct writer_service *s = &w->s;
    assert(!w->failed && s->open && s->key_count > 0);
    const char *fault = fault_of_node(w, n);
    if (fault) return wrong(w, e, fault);
    struct writer_key *key = &s->keys[s->key_count - 1];
    struct writer_type *t = &s->types[s->type_count - 1];
    struct writer_node one = {.node = *n};
    int64_t total = 0;
    if (!total_of(w, columns, &total, e)) return step(w, false);
    if (total != n->total) return wrong(w, e, "the total of a node is not that of its vector");
    if (s->node_count == UINT32_MAX || !mem_grow(w->memory, &s->nodes, &s->node_cap,
                                                 (size_t)s->node_count + 1, sizeof *s->nodes, e)) {
        return step(w, false);
    }
    if (!node_vector(w, key->class == BLOCK_ALL, columns, &one, e)) return step(w, false);
    s->nodes[s->node_count++] = one;
    key->nodes++;
    s->last_width = n->width;
    s->last_slot = n->slot;
    saw(t, n->first_ns, n->last_ns);
    struct writer_profiles *p = &t->by_nodes[key->class];
    if (s->sampled || (p->width && p->width < n->width)) return true;
    if (p->width != n->width) *p = (struct writer_profiles){.width = n->width};
    p->profiles += n->profiles;
    return true;
}

bool block_total(struct block_writer *w, const struct block_total *t, err *e)
{
    struct writer_service *s = &w->s;
    assert(!w->failed && s->open && s->key_count > 0);
    int64_t width = w->about.kind == BLOCK_DAYS ? SLOT_HOUR : SLOT_MINUTE;
    struct writer_key *key = &s->keys[s->key_count - 1];
    if (!is_within(w, t->slot, width)) return wrong(w, e, "a total lies outside of the block");
    if (key->totals > 0 && t->slot <= s->last_total_slot) {
        return wrong(w, e, "totals do not come in order");
    }
    if (t->profiles > INT64_MAX) return wrong(w, e, "a total has too many profiles");
    if (key->totals == UINT32_MAX) return wrong(w, e, "a key has too many totals");
    if (w->total_count == WRITER_TOTALS && !step(w, writer_cut_totals(w, e))) return false;
    if (!mem_grow_bare(w->memory, &w->totals, &w->total_cap, (size_t)w->total_count + 1,
                       sizeof *w->totals, e) ||
        !writer_column(w, (size_t)w->total_count + 1, e)) {
        return step(w, false);
    }
    w->totals[w->total_count++] = *t;
    key->totals++;
    s->last_total_slot = t->slot;
    return true;
}

static const char *fault_of_row(const struct block_writer *w, const struct block_row *row)
{
    const struct writer_service *s = &w->s;
    const struct writer_key *key = &s->keys[s->key_count - 1];
    int64_t total = 0;
    if (key->class != BLOCK_SERIES) return "a row is of no series";
    if (row->time_ns < s->last_time_ns || (key->rows > 0 && row->time_ns == s->last_time_ns &&
                                           memcmp(row->id.b, s->last_id.b, sizeof row->id.b) < 0)) {
        return "rows do not come in order";
    }
    if (!is_within(w, slot_of(row->time_ns, SLOT_HOUR), SLOT_HOUR)) {
        return "a row lies outside of the block";
    }
    if (row->vector >= s->vector_count) return "a row has a vector that was not written";
    if (row->factor == 0) return "a row has factor 0";
    if (__builtin_mul_overflow(s->vector_totals[row->vector], row->factor, &total) ||
        total != row->total) {
        return "the total of a row is not that of its vector";
    }
    return NULL;
}

static bool check_spans(struct block_writer *w, const struct block_row *row, err *e)
{
    int64_t total = 0;
    for (size_t i = 0; i < row->span_count; i++) {
        if (columns_check(row->spans[i].vector, w->s.stack_count, &total, e)) continue;
        e->code = ERR_INTERNAL;
        return err_wrap(e, "block of service %.*s: a span", STR(w->s.name));
    }
    return true;
}

bool block_row(struct block_writer *w, const struct block_row *row, err *e)
{
    struct writer_service *s = &w->s;
    assert(!w->failed && s->open && s->key_count > 0);
    const char *fault = fault_of_row(w, row);
    if (fault) return wrong(w, e, fault);
    bool full = w->row_count == WRITER_ROWS || w->row_arena.used > BLOCK_FRAME ||
                block_spans_bytes(&w->spans) > BLOCK_FRAME;
    if (!check_spans(w, row, e) || (full && !writer_cut_rows(w, e)) ||
        !mem_grow(w->memory, &w->rows, &w->row_cap, (size_t)w->row_count + 1, sizeof *w->rows, e) ||
        !writer_column(w, (size_t)w->row_count + 1, e) ||
        !block_spans_row(&w->spans, row->spans, row->span_count, e)) {
        return step(w, false);
    }
    struct block_row *copy = &w->rows[w->row_count];
    *copy = *row;
    copy->spans = NULL;
    copy->annotations = labels_copy(&w->row_arena, row->annotations);
    if (!arena_ok(&w->row_arena, e)) return step(w, false);
    w->row_count++;
    w->written.rows++;
    struct writer_type *t = &s->types[s->type_count - 1];
    s->keys[s->key_count - 1].rows++;
    s->last_time_ns = row->time_ns;
    s->last_id = row->id;
    if (!s->sampled) t->rows++;
    bool placed = row->attempt & BLOCK_IDENTIFIED;
    t->loose += block_attempt(row->attempt) > 0;
    t->placed += placed;
    w->has_placed = w->has_placed || placed;
    period_merge(&t->period, MAX(row->period, 0));
    saw(t, row->time_ns, row->time_ns);
    return true;
}

void block_period(struct block_writer *w, int64_t period)
{
    struct writer_service *s = &w->s;
    assert(s->open && s->type_count > 0);
    period_merge(&s->types[s->type_count - 1].period, period);
}

void block_placing(struct block_writer *w, uint64_t placing)
{
    placings_add(&w->about.placings, placing);
}

// ---- the end of a block

static bool is_placed(const struct block_writer *w)
{
    return w->has_placed || w->about.placings.n > 0;
}

static void put_about(const struct block_writer *w, struct buf *out)
{
    const struct block_about *about = &w->about;
    wire_put_u64(out, about->kind);
    buf_put(out, about->id.b, sizeof about->id.b);
    wire_put_str(out, about->tenant);
    wire_put_i64(out, about->from_hour);
    wire_put_u64(out, about->hours);
    wire_put_fixed32(out, about->pack_lo);
    wire_put_fixed32(out, about->pack_hi);
    uint32_t cut = about->parts > 1 ? BLOCK_CUT : 0;
    uint32_t placed = is_placed(w) ? BLOCK_PLACED : 0;
    wire_put_u64(out, about->classes | w->written.classes | cut | placed);
    if (cut) {
        wire_put_u64(out, about->part);
        wire_put_u64(out, about->parts);
    }
    if (placed) wire_put_u64(out, about->placings.n);
    for (uint32_t i = 0; i < about->placings.n; i++) {
        wire_put_fixed32(out, (uint32_t)about->placings.v[i]);
        wire_put_fixed32(out, (uint32_t)(about->placings.v[i] >> 32));
    }
    wire_put_u64(out, about->source_count);
    for (size_t i = 0; i < about->source_count; i++)
        wire_put_str(out, about->sources[i]);
    wire_put_u64(out, w->written.services);
}

// The oldest version that has the forms which the block uses.
static uint32_t version_of(const struct block_writer *w)
{
    if (is_placed(w)) return BLOCK_VERSION;
    if (w->has_periods) return BLOCK_VERSION_PERIODS;
    return w->has_lz4 ? BLOCK_VERSION_LZ4 : BLOCK_VERSION_PLAIN;
}

static bool put_footer(struct block_writer *w, err *e)
{
    struct buf *out = &w->contents;
    struct block_extent x = {0};
    w->lz4_most = 0;  // the trailer could not tell it
    if (w->packed_least > 0) w->packed_least = FOOTER_LEAST_SEGMENT;
    buf_clear(out);
    put_about(w, out);
    buf_str(out, buf_view(&w->services));
    if (is_placed(w)) buf_str(out, buf_view(&w->placed));
    if (!writer_section_of(w, out, "footer", NULL, &x, e)) return false;
    buf_clear(out);
    wire_put_fixed32(out, (uint32_t)x.at);
    wire_put_fixed32(out, (uint32_t)(x.at >> 32));
    wire_put_fixed32(out, x.stored);
    wire_put_fixed32(out, x.packed ? x.raw : 0);
    wire_put_fixed32(out, x.crc);
    wire_put_fixed32(out, version_of(w));
    wire_put_fixed32(out, out->failed ? 0 : crc32c(0, out->p, out->n));
    buf_z(out, BLOCK_MAGIC);
    return buf_ok(out, e) && writer_emit(w, buf_view(out), e);
}

bool block_finish(struct block_writer *w, struct block_written *out, err *e)
{
    assert(!w->failed);
    bool ok = end_service(w, e) && put_footer(w, e);
    w->written.bytes = w->at;
    if (!w->written.rows && w->written.first_ns > w->written.last_ns) {
        w->written.first_ns = 0;
        w->written.last_ns = 0;
    }
    w->written.classes |= w->about.classes;
    *out = w->written;
    block_abandon(w);
    return ok;
}
