// SPDX-License-Identifier: Apache-2.0
//
// flush_inspect.c - compares a piece with the store: which of its rows are in parts and leaves
// already.
//
//     1. A snapshot of the tenant is taken (segments listed, then the newest manifest).
//     2. The keys (series, id) of the piece's rows in the head are collected: `ours`.
//     3. Rows of listed parts of the piece, of leaves that name such a part, and of parts whose
//     leaf
//        retention removed are read; those that are ours are `seen`.
//     4. All seen: the piece is covered. Some: these rows leave the head, and the next part gets a
//        number above all parts that were met. None: it is written under the next free number.
//
// Reading stops as soon as all of ours are seen.
#include "base/fault.h"
#include "ingester/flush/flush_int.h"
#include "model/slot.h"
#include "store/origin.h"
#include "sys/clock.h"

#include <inttypes.h>

// ---- snapshots

void inspection_forget(struct inspection *l)
{
    if (l->taken) snapshot_release(&l->snapshot);
    if (l->ready) arena_release(&l->arena);
    *l = (struct inspection){0};
}

void inspection_release(struct inspection *l)
{
    inspection_forget(l);
}

bool inspection_take(struct flush *f, struct req *r, struct inspection *l, str tenant, err *e)
{
    if (l->taken && str_eq(l->tenant, tenant)) return true;
    inspection_forget(l);
    arena_init(&l->arena, &f->budget, SIZE_MAX);
    l->ready = true;
    l->tenant = arena_str(&l->arena, tenant);
    if (!arena_ok(&l->arena, e)) return false;
    l->taken = snapshot_take(f->manifests, r, &l->arena, tenant, &l->snapshot, e);
    return l->taken;
}

static bool is_part(const struct segment_name *n, const struct closed_cut *c, const struct piece *p)
{
    return n->hour == p->is.hour && n->cut == c->number && id128_eq(n->stream, c->stream);
}

bool inspection_absorbed(const struct inspection *l, const struct closed_cut *c,
                         const struct piece *p, uint32_t part)
{
    struct segment_name name = {p->is.hour, c->stream, c->number, part};
    return manifest_absorbed(l->snapshot.manifest, &name);
}

// ---- comparing

struct comparison {
    struct flush *flush;
    struct req *req;
    const struct closed_cut *cut;
    const struct piece *piece;
    struct arena arena;
    struct loose_set ours;
    struct loose_set seen;
    uint32_t next;  // above all parts that were met
};

static void note_part(struct comparison *x, uint32_t part)
{
    if (part >= x->next) x->next = part + 1;
}

// The frame of details that was read last. Keys of a block follow each other in the order of their
// rows, so one frame at a time is enough.
struct frame_read {
    struct arena arena;
    const struct block_frame *frame;
    struct block_heads heads;
    struct block_details details;
};

static bool read_frame(const struct block_source *src, const struct block_index *index,
                       struct frame_read *f, uint64_t row, err *e)
{
    const struct block_frame *heads = block_frame_of(&index->heads, row);
    const struct block_frame *details = block_frame_of(&index->details, row);
    if (!heads || !details) return err_set(e, ERR_DATA_LOSS, "row %" PRIu64 " is in no frame", row);
    if (f->frame == details) return true;
    f->frame = NULL;
    arena_release(&f->arena);
    const struct block_extent extents[] = {heads->extent, details->extent};
    str contents[COUNT(extents)];
    if (!block_source_sections(&f->arena, src, extents, COUNT(extents), contents, e) ||
        !block_heads_parse(&f->arena, contents[0], heads->count, &f->heads, e) ||
        !block_details_parse(&f->arena, contents[1], &f->heads, &f->details, e)) {
        return false;
    }
    f->frame = details;
    return true;
}

static bool see_key(struct comparison *x, const struct block_source *src,
                    const struct block_index *index, struct frame_read *f,
                    const struct block_key_ref *key, err *e)
{
    uint64_t series = labels_fingerprint(key->ls);
    for (uint64_t row = key->first_row; row < key->first_row + key->row_count; row++) {
        if (!read_frame(src, index, f, row, e)) return false;
        struct loose_key at = {series, f->details.ids[row - f->frame->first]};
        if (loose_find(&x->ours, at) && !loose_add(&x->seen, at, 0, e)) return false;
    }
    return true;
}

static bool see_service(struct comparison *x, const struct block_source *src,
                        const struct block_service_ref *service, err *e)
{
    struct arena a;
    struct frame_read f = {0};
    struct symbol_table symbols;
    struct block_index index;
    arena_init(&a, &x->flush->budget, SIZE_MAX);
    arena_init(&f.arena, &x->flush->budget, SIZE_MAX);
    bool ok = block_source_service(&a, src, service, &symbols, &index, e);
    for (uint32_t i = 0; ok && i < index.key_count && x->seen.n < x->ours.n; i++) {
        if (index.keys[i].class == BLOCK_SERIES)
            ok = see_key(x, src, &index, &f, &index.keys[i], e);
    }
    arena_release(&f.arena);
    arena_release(&a);
    return ok || err_wrap(e, "service %.*s", STR(service->name));
}

static bool see_source(struct comparison *x, const struct block_source *src, err *e)
{
    bool ok = true;
    for (size_t i = 0; ok && i < x->piece->is.service_count && x->seen.n < x->ours.n; i++) {
        const struct block_service_ref *s =
            block_find_service(&src->footer, x->piece->is.services[i]);
        ok = !s || see_service(x, src, s, e);
    }
    return ok || err_wrap(e, "%.*s", STR(src->name));
}

static bool see_object(struct comparison *x, str name, uint64_t bytes, err *e)
{
    struct arena a;
    struct block_source src;
    if (x->seen.n == x->ours.n) return true;
    arena_init(&a, &x->flush->budget, SIZE_MAX);
    bool ok = block_source_open(&a, store_origin(x->flush->store, x->req), name, bytes, &src, e) &&
              see_source(x, &src, e);
    arena_release(&a);
    return ok;
}

// ---- leaves

static bool page_names(struct comparison *x, const struct manifest_block *b)
{
    bool named = false;
    for (size_t i = 0; i < b->source_count; i++) {
        const struct segment_run *s = &b->sources[i];
        const struct segment_run own = {x->piece->is.hour, x->cut->stream, x->cut->number, 1,
                                        s->part};
        if (!segment_runs_meet(s, &own)) continue;
        note_part(x, s->part);
        named = true;
    }
    return named;
}

static bool footer_names(struct comparison *x, const struct block_source *src)
{
    bool named = false;
    const struct block_about *about = &src->footer.about;
    for (size_t i = 0; i < about->source_count; i++) {
        struct segment_name name;
        if (!segment_name_parse(about->sources[i], &name) || !is_part(&name, x->cut, x->piece))
            continue;
        note_part(x, name.part);
        named = true;
    }
    return named;
}

static bool see_leaf(struct comparison *x, const struct manifest_block *b, bool *named, err *e)
{
    bool here = page_names(x, b);
    *named = *named || here;
    if (here) return see_object(x, b->name, b->bytes, e);
    // A page of now may name no segments of an older leaf; the leaf's footer always does.
    if (clock_wall_ns() - b->made_ns < PAGES_NAME_NS) return true;
    struct arena a;
    struct block_source src;
    arena_init(&a, &x->flush->budget, SIZE_MAX);
    bool ok =
        block_source_open(&a, store_origin(x->flush->store, x->req), b->name, b->bytes, &src, e);
    here = ok && footer_names(x, &src);
    *named = *named || here;
    if (here) ok = see_source(x, &src, e);
    arena_release(&a);
    return ok;
}

static bool is_leaf_of(const struct manifest_block *b, int64_t hour)
{
    return b->kind == BLOCK_RAW && b->from_hour <= hour && hour - b->from_hour < b->hours;
}

// Leaves of the hour that name one of our parts. The compactor leaves out rows that another leaf of
// the hour had already, so once a part is named all leaves of the hour are read.
static bool see_leaves(struct comparison *x, const struct inspection *l, err *e)
{
    size_t n = 0;
    bool named = false;
    const struct manifest_block *v = manifest_blocks(l->snapshot.manifest, &n);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        if (is_leaf_of(&v[i], x->piece->is.hour)) ok = see_leaf(x, &v[i], &named, e);
    }
    for (size_t i = 0; ok && named && i < n; i++) {
        if (is_leaf_of(&v[i], x->piece->is.hour)) ok = see_object(x, v[i].name, v[i].bytes, e);
    }
    return ok;
}

// Parts that were in a leaf which retention removed. Their rows still count, in nodes of parents,
// but there they cannot be told apart. As long as the segment is there it is compared. If it is
// gone, all rows that no other part has count as seen. For a leaf expires only once all streams
// have gone that were registered when it was to expire (compactor/watch.h), and a registration goes
// when each row of its stream is covered. So by then somebody had covered the whole cut: its owner,
// or one that adopted the stream, in one part or in several. An adopter lacks two kinds of rows
// that the owner may have: those that it knew already, which are in a part of another cut; and
// those in damaged objects of the log, which it has told as lost.
static bool see_expired(struct comparison *x, const struct inspection *l, err *e)
{
    bool ok = true;
    bool lost = false;
    for (uint32_t part = 0; ok && inspection_absorbed(l, x->cut, x->piece, part); part++) {
        struct segment_name name = {x->piece->is.hour, x->cut->stream, x->cut->number, part};
        if (!manifest_absorbed_expired(l->snapshot.manifest, &name)) continue;
        note_part(x, part);
        err fault = {0};
        uint64_t bytes = 0;
        str object = name_segment(&x->arena, l->tenant, &name);
        ok = arena_ok(&x->arena, e);
        bool there = ok && store_size(x->flush->store, x->req, object, &bytes, &fault) &&
                     see_object(x, object, bytes, &fault);
        lost = lost || (ok && !there && fault.code == ERR_NOT_FOUND);
        if (ok && !there && fault.code != ERR_NOT_FOUND) {
            *e = fault;
            ok = false;
        }
    }
    for (uint32_t i = 0; ok && lost && i < x->ours.n; i++)
        ok = loose_add(&x->seen, x->ours.v[i].key, 0, e);
    return ok;
}

static bool see_parts(struct comparison *x, const struct inspection *l, err *e)
{
    bool ok = true;
    for (size_t i = 0; ok && i < l->snapshot.segment_count; i++) {
        const struct snapshot_segment *s = &l->snapshot.segments[i];
        if (!is_part(&s->name, x->cut, x->piece)) continue;
        note_part(x, s->name.part);
        str name = name_segment(&x->arena, l->tenant, &s->name);
        ok = arena_ok(&x->arena, e) && see_object(x, name, s->bytes, e);
    }
    return ok && see_leaves(x, l, e) && see_expired(x, l, e);
}

// ---- rows that are in the store leave the head

void piece_remove(struct flush *f, struct closed_cut *c, struct piece *p)
{
    struct head_removal all = {.cut = c->cut,
                               .tenant = p->is.tenant,
                               .hour = p->is.hour,
                               .services = p->is.services,
                               .service_count = p->is.service_count};
    assert(p->busy && p->state == PIECE_COVERED);
    // The state changes while no reader is inside: an answer that has the rows names the piece, and
    // one that passes them over does not.
    head_exclude(f->in->head, &all);
    lock_take(&f->lock);
    p->state = PIECE_GONE;
    p->is.rows = 0;
    lock_give(&f->lock);
    head_admit(f->in->head);
    (void)head_remove(f->in->head);
}

// Removes the rows that were seen. first_part changes while readers are kept out, as the state does
// in piece_remove.
static void remove_seen(struct comparison *x, struct piece *p)
{
    struct flush *f = x->flush;
    struct head_removal some = {.cut = x->cut->cut,
                                .tenant = p->is.tenant,
                                .hour = p->is.hour,
                                .services = p->is.services,
                                .service_count = p->is.service_count,
                                .keys = &x->seen};
    head_exclude(f->in->head, x->seen.n ? &some : NULL);
    lock_take(&f->lock);
    assert(x->next > p->first_part);
    p->first_part = x->next;
    lock_give(&f->lock);
    head_admit(f->in->head);
    size_t gone = head_remove(f->in->head);
    lock_take(&f->lock);
    assert(gone <= p->is.rows);
    p->is.rows -= gone;
    lock_give(&f->lock);
}

bool piece_inspect(struct flush *f, struct req *r, struct inspection *l, struct closed_cut *c,
                   struct piece *p, err *e)
{
    struct comparison x = {.flush = f, .req = r, .cut = c, .piece = p, .next = p->first_part};
    arena_init(&x.arena, &f->budget, SIZE_MAX);
    loose_init(&x.ours, &x.arena, &f->budget, SIZE_MAX);
    loose_init(&x.seen, &x.arena, &f->budget, SIZE_MAX);
    assert(p->busy && p->state == PIECE_WAITS);
    int64_t began = clock_wall_ns();  // before the snapshot: what comes later is not in it
    FAULT("flush.look");
    bool ok = inspection_take(f, r, l, p->is.tenant, e) &&
              head_piece_keys(f->in->head, c->cut, &p->is, &x.ours, e) && see_parts(&x, l, e);
    if (ok && x.seen.n) FAULT("flush.seen");
    // Also when no row was seen but a part was met: the next creation must not meet it again.
    if (ok && x.seen.n < x.ours.n && x.next > p->first_part) remove_seen(&x, p);
    if (ok) {
        lock_take(&f->lock);
        if (x.seen.n == x.ours.n) p->state = PIECE_COVERED;
        p->inspect = false;
        p->inspected = true;
        p->since_ns = began;
        lock_give(&f->lock);
    }
    loose_release(&x.seen);
    loose_release(&x.ours);
    arena_release(&x.arena);
    return ok;
}
