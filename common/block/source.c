// SPDX-License-Identifier: Apache-2.0
//
// source.c - opens blocks by their tails and reads sections, many with one call of the origin.
//
// Bytes may have been damaged on their way here, as behind a proxy that a network or its memory
// fails. So what is found damaged is read once more before it counts as damaged.
#include "block/source.h"

#include <inttypes.h>

// So much of an object's end is read at first. Footers of packs with thousands of services are
// longer; they take a second read.
#define TAIL ((uint64_t)64 << 10)

static bool named(str name, err *e)
{
    return err_wrap(e, "block %.*s", STR(name));
}

// The error of an origin names the object already. out_of_range means that the object ends before
// its listed size: it is damaged.
static bool origin_fault(err *e)
{
    if (e->code == ERR_OUT_OF_RANGE) e->code = ERR_DATA_LOSS;
    return false;
}

static bool read_at(const struct block_source *src, uint64_t at, size_t n, char *to, err *e)
{
    size_t failed = 0;
    struct block_piece one = {.name = src->name, .at = at, .n = n};
    one.to = to;
    return src->from.kind->read(&src->from, &one, 1, &failed, e) || origin_fault(e);
}

// The stored bytes of the footer; *x becomes its extent.
static bool read_footer(struct arena *a, const struct block_source *src, struct block_extent *x,
                        str *stored, err *e)
{
    size_t n = (size_t)MIN(src->size, TAIL);
    if (n < BLOCK_TRAILER) {
        err_set(e, ERR_DATA_LOSS, "%" PRIu64 " bytes are too few for a block", src->size);
        return named(src->name, e);
    }
    char *tail = arena_new(a, n);
    if (!tail) return arena_fail(a, e);
    uint64_t from = src->size - n;
    if (!read_at(src, from, n, tail, e)) return false;
    str trailer = str_make(tail + n - BLOCK_TRAILER, BLOCK_TRAILER);
    if (!block_trailer(trailer, src->size, x, e)) return named(src->name, e);
    if (x->at >= from) {
        *stored = str_make(tail + (x->at - from), x->stored);
        return true;
    }
    char *all = arena_new(a, x->stored);
    if (!all) return arena_fail(a, e);
    *stored = str_make(all, x->stored);
    return read_at(src, x->at, x->stored, all, e);
}

static bool open_once(struct arena *a, struct block_source *out, err *e)
{
    struct block_extent *x = &out->footer_at;
    str stored = {0};
    str contents = {0};
    return read_footer(a, out, x, &stored, e) &&
           ((block_section(a, x, stored, "footer", &contents, e) &&
             block_footer_parse(a, contents, out->size, &out->footer, e)) ||
            named(out->name, e));
}

// Is another read of use after this failure?
static bool may_be_the_way(err *e)
{
    if (e->code != ERR_DATA_LOSS) return false;
    *e = (err){0};
    return true;
}

bool block_source_open(struct arena *a, struct block_origin from, str name, uint64_t size,
                       struct block_source *out, err *e)
{
    *out = (struct block_source){.from = from, .name = arena_str(a, name), .size = size};
    if (!arena_ok(a, e)) return false;
    return open_once(a, out, e) || (may_be_the_way(e) && open_once(a, out, e));
}

// ---- many at once

#define BATCH       BLOCK_PIECES_MAX     // objects that are read together,
#define BATCH_BYTES ((uint64_t)8 << 20)  // and their bytes, unless a single one has more

struct opening {
    struct arena *a;
    struct arena tails;  // of a batch
    struct block_origin from;
    uint64_t keep;
    struct block_piece *pieces;
};

static uint64_t tail_of(const struct opening *o, uint64_t size)
{
    return size <= o->keep ? size : MIN(size, TAIL);
}

// Opens a block whose end was read. The bytes of small objects stay, those of others are the
// batch's scratch, so the footer is copied out of them. A footer that begins before the end is read
// anew.
static bool open_read(struct opening *o, const struct block_piece *tail, struct block_source *src,
                      err *e)
{
    struct block_extent *x = &src->footer_at;
    str end = str_make(tail->to, tail->n);
    src->whole = (str){0};
    str stored = {0};
    str contents = {0};
    assert(end.n >= BLOCK_TRAILER);  // begin_batch saw to it
    str trailer = str_slice(end, end.n - BLOCK_TRAILER, end.n);
    if (!block_trailer(trailer, src->size, x, e)) return named(src->name, e);
    if (end.n == src->size && src->size <= o->keep) src->whole = end;
    if (x->at >= tail->at) {
        stored = str_slice(end, (size_t)(x->at - tail->at), (size_t)(x->at - tail->at) + x->stored);
        if (!src->whole.n) stored = arena_str(o->a, stored);
    } else {
        char *all = arena_new(o->a, x->stored);
        if (!all) return arena_fail(o->a, e);
        stored = str_make(all, x->stored);
        if (!read_at(src, x->at, x->stored, all, e)) return false;
    }
    if (!arena_ok(o->a, e)) return false;
    return (block_section(o->a, x, stored, "footer", &contents, e) &&
            block_footer_parse(o->a, contents, src->size, &src->footer, e)) ||
           named(src->name, e);
}

// Prepares the reads of a batch; returns how many objects are in it. 0 and *e: there is no memory,
// or the first is too short for a block. A later one that is too short begins the next batch, so
// that its error comes after those before it are open.
static size_t begin_batch(struct opening *o, const struct block_object *v, size_t n,
                          struct block_source *out, err *e)
{
    uint64_t bytes = 0;
    size_t count = 0;
    while (count < n && count < BATCH && (count == 0 || bytes < BATCH_BYTES)) {
        const struct block_object *b = &v[count];
        uint64_t tail = tail_of(o, b->size);
        if (b->size < BLOCK_TRAILER) {
            if (count) break;
            err_set(e, ERR_DATA_LOSS, "%" PRIu64 " bytes are too few for a block", b->size);
            (void)named(b->name, e);
            return 0;
        }
        out[count] = (struct block_source){.from = o->from,
                                           .name = arena_str(o->a, b->name),
                                           .size = b->size};
        char *to = arena_new(b->size <= o->keep ? o->a : &o->tails, tail);
        if (!to || !arena_ok(o->a, e)) {
            (void)(arena_ok(o->a, e) && arena_fail(&o->tails, e));
            return 0;
        }
        o->pieces[count++] =
            (struct block_piece){.name = b->name, .at = b->size - tail, .n = tail, .to = to};
        bytes += tail;
    }
    return count;
}

// Opens the blocks of a batch, in their order, up to the first that fails; *done counts those that
// are open.
static bool open_batch(struct opening *o, size_t count, struct block_source *out, size_t *done,
                       err *e)
{
    err fault = {0};
    size_t readable = count;
    bool ok = o->from.kind->read(&o->from, o->pieces, count, &readable, &fault);
    assert(ok || readable < count);
    for (size_t i = 0; i < (ok ? count : readable); i++) {
        const struct block_piece *tail = &o->pieces[i];
        if (!open_read(o, tail, &out[i], e) &&
            !(may_be_the_way(e) && read_at(&out[i], tail->at, tail->n, tail->to, e) &&
              open_read(o, tail, &out[i], e)))
            return false;
        ++*done;
    }
    if (ok) return true;
    *e = fault;
    return origin_fault(e);
}

bool block_source_open_many(struct arena *a, struct block_origin from, struct block_objects *many,
                            err *e)
{
    struct opening o = {.a = a, .from = from, .keep = many->keep};
    size_t done = 0;
    struct arena kept;
    arena_init(&kept, a->budget, SIZE_MAX);
    arena_init(&o.tails, a->budget, SIZE_MAX);
    o.pieces = ARENA_ARRAY(&kept, struct block_piece, BATCH);
    bool ok = o.pieces || arena_fail(&kept, e);
    while (ok && done < many->n) {
        size_t count = begin_batch(&o, many->v + done, many->n - done, many->out + done, e);
        ok = count > 0 && open_batch(&o, count, many->out + done, &done, e);
        arena_release(&o.tails);  // footers that are kept were copied (open_read)
    }
    assert(done <= many->n && (!ok || done == many->n));
    arena_release(&kept);
    many->failed = done;
    return ok;
}

// ---- sections

// The contents of a section whose bytes were read to `stored`.
static bool open_section(struct arena *a, const struct block_source *src,
                         const struct block_extent *x, char *stored, str *out, err *e)
{
    str bytes = str_make(stored, x->stored);
    if (block_section(a, x, bytes, "section", out, e)) return true;
    if (may_be_the_way(e)) {
        if (!read_at(src, x->at, x->stored, stored, e)) return false;
        if (block_section(a, x, bytes, "section", out, e)) return true;
    }
    return named(src->name, e);
}

// Sections of an object that is in memory as a whole. Extents come from the object's own footer, so
// they are checked against its bytes here; an origin does that for the others.
static bool sections_of_whole(struct arena *a, const struct block_source *src,
                              const struct block_extent *x, size_t n, str *contents, err *e)
{
    for (size_t i = 0; i < n; i++) {
        contents[i] = (str){0};
        if (x[i].stored == 0) continue;
        if (x[i].at > src->whole.n || x[i].stored > src->whole.n - x[i].at) {
            err_set(e, ERR_DATA_LOSS, "a section ends at byte %" PRIu64 " + %u of %zu", x[i].at,
                    x[i].stored, src->whole.n);
            return named(src->name, e);
        }
        str stored = str_make(src->whole.p + x[i].at, x[i].stored);
        if (block_section(a, &x[i], stored, "section", &contents[i], e)) continue;
        if (!may_be_the_way(e)) return named(src->name, e);
        char *again = arena_new(a, x[i].stored);
        if (!again) return arena_fail(a, e);
        if (!read_at(src, x[i].at, x[i].stored, again, e) ||
            !open_section(a, src, &x[i], again, &contents[i], e))
            return false;
    }
    return true;
}

bool block_source_sections(struct arena *a, const struct block_source *src,
                           const struct block_extent *x, size_t n, str *contents, err *e)
{
    struct block_piece pieces[BLOCK_PIECES_MAX];
    err fault = {0};
    size_t count = 0;
    size_t readable = 0;
    assert(n <= BLOCK_PIECES_MAX);
    if (src->whole.n) return sections_of_whole(a, src, x, n, contents, e);
    for (size_t i = 0; i < n; i++) {
        contents[i] = (str){0};
        if (x[i].stored == 0) continue;
        char *to = arena_new(a, x[i].stored);
        if (!to) return arena_fail(a, e);
        pieces[count++] =
            (struct block_piece){.name = src->name, .at = x[i].at, .n = x[i].stored, .to = to};
    }
    bool ok = count == 0 || src->from.kind->read(&src->from, pieces, count, &readable, &fault);
    if (ok) readable = count;
    assert(readable <= count);
    // Also after a failure: if a section before the one that cannot be read is damaged, that is the
    // fault to report, as it would be if sections were read one by one.
    count = 0;
    for (size_t i = 0; i < n; i++) {
        if (x[i].stored == 0) continue;
        if (count == readable) break;
        if (!open_section(a, src, &x[i], pieces[count++].to, &contents[i], e)) return false;
    }
    if (ok) return true;
    *e = fault;
    return origin_fault(e);
}

bool block_source_service(struct arena *a, const struct block_source *src,
                          const struct block_service_ref *service, struct symbol_table *symbols,
                          struct block_index *index, err *e)
{
    const struct block_extent x[] = {service->index, service->symbols};
    str contents[COUNT(x)] = {{0}};
    if (!block_source_sections(a, src, x, COUNT(x), contents, e)) return false;
    bool ok = block_index_parse(a, contents[0], service, index, e) &&
              block_symbols_parse(a, contents[1], symbols, e);
    if (ok && index->stack_count != symbols->stack_count) {
        ok = err_set(e, ERR_DATA_LOSS, "the index is of %u stacks, the symbols have %u",
                     index->stack_count, symbols->stack_count);
    }
    if (ok) return true;
    err_wrap(e, "service %.*s", STR(service->name));
    return named(src->name, e);
}

bool block_source_alive(const struct block_source *src, err *e)
{
    return src->from.kind->alive(&src->from, e);
}
