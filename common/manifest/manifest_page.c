// SPDX-License-Identifier: Apache-2.0
//
// Pages: bytes to checked values and back. Every rule of docs/formats/manifest.md is checked here:
// what page_parse returns can be relied upon without further checks.
//
// A manifest of a year is kept by each process that serves its tenant, so a page takes exactly the
// memory of its values: page_room adds up first, and the arena gets one piece of that size.
#include "base/hash.h"
#include "manifest/manifest_wire_int.h"

#include <inttypes.h>
#include <stdlib.h>

// ---- reading

// All blocks of a page are read with the same memory, prefix and streams.
struct reading {
    struct arena *arena;  // the page's
    struct arena *scratch;
    str prefix;  // name_of_tenant
    const struct page_ref *ref;
    uint32_t format;
    const id128 *streams;
    size_t stream_count;
    const uint32_t *like;  // for each cover of the page, the first cover with the same leaves
    const id128 **shared;  // leaves of those first covers, once they were read
    size_t cover;          // the next cover of the page
};

struct sources {
    const struct segment_run *v;
    size_t n;
};

// Sources of format 1: one by one, in order of their names.
static bool read_names(struct arena *a, Flametree__V1__SegmentRef **v, size_t n,
                       struct sources *out, err *e)
{
    if (n == 0) return true;
    struct segment_run *runs = ARENA_ARRAY(a, struct segment_run, n);
    struct segment_name last = {0};
    if (!runs) return arena_fail(a, e);
    for (size_t i = 0; i < n; i++) {
        struct segment_name s = {.hour = v[i]->hour, .cut = v[i]->cut, .part = v[i]->part};
        if (!message_id(v[i]->stream, "stream", &s.stream, e)) return err_wrap(e, "source %zu", i);
        runs[i] = segment_run_of(&s);
        if (!segment_run_ok(&runs[i]))
            return err_set(e, ERR_DATA_LOSS, "source %zu: cut is %" PRIu64, i, s.cut);
        if (i && segment_name_cmp(&last, &s) >= 0)
            return err_set(e, ERR_DATA_LOSS, "sources are not in order at %zu", i);
        last = s;
    }
    *out = (struct sources){runs, segment_runs_join(runs, n)};
    return true;
}

static bool read_sources(const struct reading *r, ProtobufCBinaryData runs, int64_t hour,
                         Flametree__V1__SegmentRef **v, size_t n, struct sources *out, err *e)
{
    bool is_old = r->format == 1;
    if (is_old ? runs.len > 0 : n > 0)
        return err_set(e, ERR_DATA_LOSS, "sources are not those of format %" PRIu32, r->format);
    if (is_old) return read_names(r->arena, v, n, out, e);
    str bytes = pb_blob(runs);
    if (bytes.n == 0) return true;
    struct segment_run *got = ARENA_ARRAY(r->arena, struct segment_run, segment_runs_most(bytes));
    if (!got) return arena_fail(r->arena, e);
    out->v = got;
    return segment_runs_get(bytes, hour, r->streams, r->stream_count, got, &out->n, e);
}

// The day blocks of a window and what is packed of it name the same leaves; they are kept once.
static const id128 *read_leaves(struct reading *r, str leaves)
{
    size_t row = r->cover++;
    const id128 **kept = &r->shared[r->like[row]];
    if (*kept) return *kept;
    id128 *ids = ARENA_ARRAY(r->arena, id128, leaves.n / sizeof(id128));
    if (ids && leaves.n) memcpy(ids, leaves.p, leaves.n);
    *kept = ids;
    return ids;
}

static bool read_covers(struct reading *r, Flametree__V1__Cover **v, size_t n,
                        struct manifest_block *b, err *e)
{
    struct manifest_cover *covers = n ? ARENA_ARRAY(r->arena, struct manifest_cover, n) : NULL;
    if (n && !covers) return arena_fail(r->arena, e);
    for (size_t i = 0; i < n; i++) {
        str leaves = pb_blob(v[i]->leaves);
        if (leaves.n % sizeof(id128))
            return err_set(e, ERR_DATA_LOSS, "cover %zu: leaves have %zu bytes, not times 16", i,
                           leaves.n);
        covers[i] = (struct manifest_cover){.hour = v[i]->hour,
                                            .hours = v[i]->hours,
                                            .leaf_count = (uint32_t)(leaves.n / sizeof(id128)),
                                            .leaves = read_leaves(r, leaves)};
        if (!covers[i].leaves) return arena_fail(r->arena, e);
    }
    b->covers = covers;
    b->cover_count = (uint32_t)n;
    return true;
}

static bool read_block(struct reading *r, const Flametree__V1__BlockRef *m,
                       struct manifest_block *b, err *e)
{
    struct sources sources = {0};
    *b = (struct manifest_block){
        .kind = (enum block_kind)m->kind,
        .from_hour = m->from_hour,
        .hours = m->hours,
        .pack_lo = m->pack_lo,
        .pack_hi = m->pack_hi,
        .classes = m->classes,
        .bytes = m->bytes,
        .rows = m->rows,
        .first_ns = m->first_ns,
        .last_ns = m->last_ns,
        .made_ns = m->made_ns,
        .format = m->format,
        .part = m->part,
        .parts = m->parts,
        .spared = m->spared,
        .as_of = m->as_of,
    };
    if (!message_id(m->id, "id", &b->id, e)) return false;
    if (!read_covers(r, m->covers, m->n_covers, b, e)) return false;
    if (!read_sources(r, m->runs, m->from_hour, m->sources, m->n_sources, &sources, e))
        return false;
    b->sources = sources.v;
    b->source_count = (uint32_t)sources.n;
    if (!manifest_block_check(b, e)) return false;
    b->name = block_name_behind(r->arena, r->prefix, b);
    return arena_ok(r->arena, e);
}

static bool read_blocks(struct page *p, struct reading *r, const Flametree__V1__Page *m, err *e)
{
    if (m->n_blocks == 0) return true;
    p->block_count = m->n_blocks;
    p->blocks = ARENA_ARRAY(&p->arena, struct manifest_block, m->n_blocks);
    if (!p->blocks) return arena_fail(&p->arena, e);
    for (size_t i = 0; i < m->n_blocks; i++) {
        struct manifest_block *b = &p->blocks[i];
        if (!read_block(r, m->blocks[i], b, e)) return err_wrap(e, "block %zu", i);
        if (b->kind != r->ref->kind || manifest_window(b->kind, b->from_hour) != r->ref->window) {
            return err_set(e, ERR_DATA_LOSS,
                           "block %zu: kind %d and from_hour %" PRId64 " belong to another page", i,
                           (int)b->kind, b->from_hour);
        }
        if (i && manifest_block_cmp(b - 1, b) >= 0)
            return err_set(e, ERR_DATA_LOSS, "blocks are not in order at %zu", i);
    }
    return true;
}

// Is the id all that the page remembers of this leaf?
static bool has_expired_only(const Flametree__V1__PastBlock *b)
{
    return b->expired && b->n_sources == 0 && b->runs.len == 0;
}

// How many different times these leaves were removed at, counting runs of equal ones. Retention
// removes many leaves in one version, so there are few.
static size_t count_times(const Flametree__V1__Page *m)
{
    size_t n = 0;
    const Flametree__V1__PastBlock *last = NULL;
    for (size_t i = 0; i < m->n_past; i++) {
        if (!has_expired_only(m->past[i])) continue;
        n += !last || last->removed_ns != m->past[i]->removed_ns;
        last = m->past[i];
    }
    return n;
}

static void add_expired(struct page *p, id128 id, int64_t removed_ns)
{
    assert(p->expired && p->removed_ns);  // read_past counted them
    // removed_ns has each run of equal times once; expired_when is made only if there are several.
    size_t i = p->expired_count++;
    uint32_t last = i && p->expired_when ? p->expired_when[i - 1] : 0;
    p->expired[i] = id;
    if (i && p->removed_ns[last] != removed_ns) last++;
    if (p->expired_when) p->expired_when[i] = last;
    p->removed_ns[last] = removed_ns;
}

static bool read_past(struct page *p, const struct reading *r, const Flametree__V1__Page *m, err *e)
{
    const int64_t hour = r->ref->window * DAY_HOURS;
    if (m->n_past && r->ref->kind != BLOCK_RAW)
        return err_set(e, ERR_DATA_LOSS, "past: a page of parents has %zu", m->n_past);
    size_t expired = 0;
    for (size_t i = 0; i < m->n_past; i++)
        expired += has_expired_only(m->past[i]);
    const size_t times = count_times(m);
    if (expired) p->expired = ARENA_ARRAY(&p->arena, id128, expired);
    if (times > 1) p->expired_when = ARENA_ARRAY(&p->arena, uint32_t, expired);
    if (times) p->removed_ns = ARENA_ARRAY(&p->arena, int64_t, times);
    if (m->n_past > expired)
        p->past = ARENA_ARRAY(&p->arena, struct past_block, m->n_past - expired);
    if (!arena_ok(&p->arena, e)) return false;
    id128 last = {0};
    for (size_t i = 0; i < m->n_past; i++) {
        const Flametree__V1__PastBlock *from = m->past[i];
        struct sources sources = {0};
        struct past_block at = {.expired = from->expired,
                                .removed_ns = from->removed_ns,
                                .erased = from->erased};
        struct past_block *b = has_expired_only(from) ? &at : &p->past[p->past_count++];
        *b = at;
        if (!message_id(from->id, "id", &b->id, e) ||
            !read_sources(r, from->runs, hour, from->sources, from->n_sources, &sources, e))
            return err_wrap(e, "past %zu", i);
        b->sources = sources.v;
        b->source_count = sources.n;
        if (!sources_check(b->sources, b->source_count, hour, hour + DAY_HOURS, e))
            return err_wrap(e, "past %zu", i);
        if (i && memcmp(last.b, b->id.b, sizeof b->id.b) >= 0)
            return err_set(e, ERR_DATA_LOSS, "past is not in order at %zu", i);
        last = b->id;
        if (b == &at) add_expired(p, b->id, b->removed_ns);
    }
    assert(p->expired_count == expired && p->expired_count + p->past_count == m->n_past);
    return true;
}

static int by_run(const void *a, const void *b)
{
    const struct absorbed *x = a;
    const struct absorbed *y = b;
    int order = segment_run_cmp(x->run, y->run);
    return order ? order : x->by < y->by ? -1 : x->by > y->by;
}

// The index of absorbed segments: the runs of all leaves, living and past, in order. Runs of one
// leaf are apart, but those of two may overlap, so each entry notes how far the ones before it
// reach.
static bool index_sources(struct page *p, err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < p->block_count; i++)
        n += p->blocks[i].source_count;
    for (size_t i = 0; i < p->past_count; i++)
        n += p->past[i].source_count;
    if (n == 0) return true;
    p->absorbed = ARENA_ARRAY(&p->arena, struct absorbed, n);
    if (!p->absorbed) return arena_fail(&p->arena, e);
    for (size_t i = 0; i < p->block_count + p->past_count; i++) {
        bool live = i < p->block_count;
        const struct segment_run *v =
            live ? p->blocks[i].sources : p->past[i - p->block_count].sources;
        size_t count = live ? p->blocks[i].source_count : p->past[i - p->block_count].source_count;
        for (size_t k = 0; k < count; k++)
            p->absorbed[p->absorbed_count++] =
                (struct absorbed){&v[k], segment_run_last(&v[k]), (uint32_t)i};
    }
    assert(p->absorbed_count == n);
    qsort(p->absorbed, n, sizeof *p->absorbed, by_run);
    for (size_t i = 1; i < n; i++) {
        struct absorbed *at = &p->absorbed[i];
        if (segment_run_lane_cmp(at[-1].run, at->run) == 0)
            at->reach = MAX(at->reach, at[-1].reach);
    }
    return true;
}

static size_t room_of_runs(size_t old, ProtobufCBinaryData runs, size_t *absorbed)
{
    size_t n = old + segment_runs_most(pb_blob(runs));
    *absorbed += n;
    return n ? message_room(n * sizeof(struct segment_run)) : 0;
}

// The bytes that the page's values take in its arena: the same allocations as reading makes, runs
// counted at the most that their bytes can hold.
static size_t page_room(const struct reading *r, const Flametree__V1__Page *m)
{
    size_t absorbed = 0;
    size_t expired = 0;
    uint32_t cover = 0;
    size_t room = m->n_blocks ? message_room(m->n_blocks * sizeof(struct manifest_block)) : 0;
    for (size_t i = 0; i < m->n_blocks; i++) {
        const Flametree__V1__BlockRef *b = m->blocks[i];
        if (b->n_covers) room += message_room(b->n_covers * sizeof(struct manifest_cover));
        for (size_t k = 0; k < b->n_covers; k++, cover++)
            if (r->like[cover] == cover) room += message_room(b->covers[k]->leaves.len);
        room += room_of_runs(b->n_sources, b->runs, &absorbed);
        room += message_room(r->prefix.n + NAME_BLOCK_BYTES);
    }
    for (size_t i = 0; i < m->n_past; i++) {
        expired += has_expired_only(m->past[i]);
        room += room_of_runs(m->past[i]->n_sources, m->past[i]->runs, &absorbed);
    }
    if (absorbed) room += message_room(absorbed * sizeof(struct absorbed));
    const size_t times = count_times(m);
    if (times)
        room += message_room(expired * sizeof(id128)) + message_room(times * sizeof(int64_t));
    if (times > 1) room += message_room(expired * sizeof(uint32_t));
    if (m->n_past > expired)
        room += message_room((m->n_past - expired) * sizeof(struct past_block));
    return MAX(room, 1);
}

// Finds the covers that have the same leaves as an earlier one (r->like). Blocks of the same hours
// name the same leaves pack by pack, so most lists of a large page are there many times.
static bool compare_covers(struct reading *r, const Flametree__V1__Page *m, err *e)
{
    struct map lists;
    size_t n = 0;
    for (size_t i = 0; i < m->n_blocks; i++)
        n += m->blocks[i]->n_covers;
    str *leaves = ARENA_ARRAY(r->scratch, str, n);
    uint32_t *like = ARENA_ARRAY(r->scratch, uint32_t, n);
    r->shared = ARENA_ARRAY(r->scratch, const id128 *, n);
    r->like = like;
    if (!leaves || !like || !r->shared) return arena_fail(r->scratch, e);
    map_init(&lists, r->scratch->budget);
    bool ok = true;
    uint32_t row = 0;
    for (size_t i = 0; i < m->n_blocks && ok; i++) {
        for (size_t k = 0; k < m->blocks[i]->n_covers && ok; k++, row++) {
            leaves[row] = pb_blob(m->blocks[i]->covers[k]->leaves);
            uint64_t hash = hash_table_str(leaves[row]);
            uint32_t step = 0;
            uint32_t at = map_next(&lists, hash, &step);
            while (at != MAP_NONE && !str_eq(leaves[at], leaves[row]))
                at = map_next(&lists, hash, &step);
            like[row] = at == MAP_NONE ? row : at;
            ok = at != MAP_NONE || map_put(&lists, hash, row, e);
        }
    }
    map_release(&lists);
    return ok;
}

static bool read_streams(struct reading *r, const Flametree__V1__Page *m, err *e)
{
    str bytes = pb_blob(m->streams);
    size_t n = bytes.n / sizeof(id128);
    if (bytes.n % sizeof(id128))
        return err_set(e, ERR_DATA_LOSS, "streams have %zu bytes, not times 16", bytes.n);
    id128 *v = ARENA_ARRAY(r->scratch, id128, n);
    if (!v) return arena_fail(r->scratch, e);
    if (n) memcpy(v, bytes.p, bytes.n);
    for (size_t i = 1; i < n; i++)
        if (memcmp(v[i - 1].b, v[i].b, sizeof v[i].b) >= 0)
            return err_set(e, ERR_DATA_LOSS, "streams are not in order at %zu", i);
    r->streams = v;
    r->stream_count = n;
    return true;
}

static bool fill_page(struct page *p, struct arena *scratch, str tenant, const struct page_ref *ref,
                      str bytes, err *e)
{
    const Flametree__V1__Page *m =
        (const Flametree__V1__Page *)message_unpack(scratch, &flametree__v1__page__descriptor,
                                                    bytes, e);
    if (!m || !message_format(m->format, PAGE_FORMAT, e)) return false;
    if (m->kind != ref->kind || m->window != ref->window) {
        return err_set(e, ERR_DATA_LOSS,
                       "kind %" PRIu32 " and window %" PRId64 ", the root says %d and %" PRId64,
                       m->kind, m->window, (int)ref->kind, ref->window);
    }
    if (ref->window < 0 || ref->window > manifest_window(ref->kind, MANIFEST_HOUR_MAX))
        return err_set(e, ERR_DATA_LOSS, "window is %" PRId64, ref->window);
    struct reading r = {.arena = &p->arena,
                        .scratch = scratch,
                        .prefix = name_of_tenant(scratch, tenant),
                        .ref = ref,
                        .format = m->format};
    if (!arena_ok(scratch, e) || !compare_covers(&r, m, e)) return false;
    if (!arena_spare(&p->arena, page_room(&r, m))) return arena_fail(&p->arena, e);
    // One piece of just this size: pages are kept for long, and chunks that are half empty would be
    // most of their memory.
    arena_use_spare(&p->arena);
    return read_streams(&r, m, e) && read_blocks(p, &r, m, e) && read_past(p, &r, m, e) &&
           index_sources(p, e) && arena_ok(&p->arena, e);
}

struct page *page_parse(struct mem_budget *memory, str tenant, const struct page_ref *ref,
                        str bytes, err *e)
{
    struct page *p = mem_alloc(memory, sizeof *p, e);
    if (!p) return NULL;
    struct arena scratch;
    arena_init(&scratch, memory, message_scratch(bytes));
    arena_init(&p->arena, memory, SIZE_MAX / 4);
    atomic_init(&p->refs, 1);
    bool ok = fill_page(p, &scratch, tenant, ref, bytes, e);
    arena_release(&scratch);
    if (ok) return p;
    page_unref(p);
    char id[ULID_TEXT];
    ulid_print(ref->id, id);
    err_wrap(e, "manifest page %s of tenant %.*s", id, STR(tenant));
    return NULL;
}

struct page *page_hold(struct page *p)
{
    unsigned before = atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    assert(before > 0);
    return p;
}

void page_unref(struct page *p)
{
    if (!p) return;
    unsigned before = atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before > 1) return;
    struct mem_budget *memory = p->arena.budget;
    arena_release(&p->arena);
    mem_free(memory, p, sizeof *p);
}

// ---- writing

// The streams of all runs of a page. A run names its stream by the row here: 16 bytes are written
// once, not with each run.
struct streams {
    struct arena arena;
    id128 *v;  // in order, each once
    size_t n;
};

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static void add_streams(struct streams *s, const struct segment_run *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (i == 0 || !id128_eq(v[i - 1].stream, v[i].stream)) s->v[s->n++] = v[i].stream;
}

static bool gather_streams(struct streams *s, const struct page_draft *d)
{
    size_t most = 0;
    for (size_t i = 0; i < d->block_count; i++)
        most += d->blocks[i]->source_count;
    for (size_t i = 0; i < d->past_count; i++)
        most += d->past[i]->source_count;
    s->v = ARENA_ARRAY(&s->arena, id128, most);
    if (!s->v) return false;
    for (size_t i = 0; i < d->block_count; i++)
        add_streams(s, d->blocks[i]->sources, d->blocks[i]->source_count);
    for (size_t i = 0; i < d->past_count; i++)
        add_streams(s, d->past[i]->sources, d->past[i]->source_count);
    if (s->n) qsort(s->v, s->n, sizeof *s->v, by_id);
    assert(s->n <= most);
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if (i == 0 || !id128_eq(s->v[kept - 1], s->v[i])) s->v[kept++] = s->v[i];
    s->n = kept;
    return true;
}

static void put_sources(struct buf *out, uint32_t field, const struct streams *s,
                        const struct segment_run *v, size_t n, int64_t hour)
{
    if (n == 0) return;
    size_t mark = pb_begin(out, field);
    segment_runs_put(out, v, n, hour, s->v, s->n);
    pb_end(out, mark);
}

static void put_block(struct buf *out, const struct streams *s, const struct manifest_block *b)
{
    pb_put_bytes(out, 1, id_bytes(&b->id));
    pb_put_u64_opt(out, 2, b->kind);
    pb_put_i64_opt(out, 3, b->from_hour);
    pb_put_u64_opt(out, 4, b->hours);
    pb_put_u64_opt(out, 5, b->pack_lo);
    pb_put_u64_opt(out, 6, b->pack_hi);
    pb_put_u64_opt(out, 7, b->classes);
    pb_put_u64_opt(out, 8, b->bytes);
    pb_put_u64_opt(out, 9, b->rows);
    pb_put_fixed64_opt(out, 10, (uint64_t)b->first_ns);
    pb_put_fixed64_opt(out, 11, (uint64_t)b->last_ns);
    pb_put_fixed64_opt(out, 12, (uint64_t)b->made_ns);
    for (size_t i = 0; i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        size_t mark = pb_begin(out, 13);
        pb_put_i64_opt(out, 1, c->hour);
        pb_put_u64_opt(out, 2, c->hours);
        pb_put_bytes_opt(out, 3, str_make(c->leaves, c->leaf_count * sizeof *c->leaves));
        pb_end(out, mark);
    }
    pb_put_u64_opt(out, 15, b->format);
    pb_put_u64_opt(out, 16, b->part);
    pb_put_u64_opt(out, 17, b->parts);
    put_sources(out, 18, s, b->sources, b->source_count, b->from_hour);
    pb_put_u64_opt(out, 19, b->spared);
    pb_put_u64_opt(out, 20, b->as_of);
}

int past_cmp(const void *a, const void *b)
{
    const struct past_block *x = *(const struct past_block *const *)a;
    const struct past_block *y = *(const struct past_block *const *)b;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

const struct past_block **page_past(struct arena *a, const struct page *p, size_t *n)
{
    const struct past_block **v =
        ARENA_ARRAY(a, const struct past_block *, p->expired_count + p->past_count);
    struct past_block *made = ARENA_ARRAY(a, struct past_block, p->expired_count);
    *n = 0;
    if (!v || !made) return NULL;
    for (size_t i = 0; i < p->expired_count; i++) {
        made[i] = (struct past_block){.id = p->expired[i],
                                      .expired = true,
                                      .removed_ns = page_expired_ns(p, i)};
        v[(*n)++] = &made[i];
    }
    for (size_t i = 0; i < p->past_count; i++)
        v[(*n)++] = &p->past[i];
    if (*n) qsort(v, *n, sizeof *v, past_cmp);
    return v;
}

static void print_page(const struct page_draft *d, const struct streams *s, struct buf *out)
{
    pb_put_u64_opt(out, 1, PAGE_FORMAT);
    pb_put_u64_opt(out, 2, d->kind);
    pb_put_i64_opt(out, 3, d->window);
    for (size_t i = 0; i < d->block_count; i++) {
        size_t mark = pb_begin(out, 4);
        put_block(out, s, d->blocks[i]);
        pb_end(out, mark);
    }
    for (size_t i = 0; i < d->past_count; i++) {
        const struct past_block *p = d->past[i];
        size_t mark = pb_begin(out, 5);
        pb_put_bytes(out, 1, id_bytes(&p->id));
        pb_put_u64_opt(out, 2, p->expired);
        pb_put_fixed64_opt(out, 3, (uint64_t)p->removed_ns);
        put_sources(out, 5, s, p->sources, p->source_count, d->window * DAY_HOURS);
        pb_put_u64_opt(out, 6, p->erased);
        pb_end(out, mark);
    }
    pb_put_bytes_opt(out, 6, str_make(s->v, s->n * sizeof *s->v));
}

void page_print(const struct page_draft *d, struct buf *out)
{
    struct streams s = {0};
    arena_init(&s.arena, out->budget, SIZE_MAX / 4);
    // Without memory the buf is failed, so that its owner sees it where it asks for that anyway.
    if (gather_streams(&s, d))
        print_page(d, &s, out);
    else
        buf_starve(out);
    arena_release(&s.arena);
}

void page_print_again(struct arena *a, const struct page *p, const struct page_ref *ref,
                      struct buf *out)
{
    struct page_draft d = {.kind = ref->kind, .window = ref->window};
    d.blocks = ARENA_ARRAY(a, const struct manifest_block *, p->block_count);
    d.past = page_past(a, p, &d.past_count);
    if (!d.blocks || !d.past) {
        buf_starve(out);
        return;
    }
    for (size_t k = 0; k < p->block_count; k++)
        d.blocks[d.block_count++] = &p->blocks[k];
    page_print(&d, out);
}
