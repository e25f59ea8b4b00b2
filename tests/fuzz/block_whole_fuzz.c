// SPDX-License-Identifier: Apache-2.0
//
// A whole block as somebody would write it who knows how checksums are made: those of the sections
// that are not packed, of the footer and of the trailer are put right first, so that what is wrong
// in the contents, and what two sections say differently, gets past them. Then the block is
// verified, and merged as a compactor would. Properties: nothing crashes or asserts; a block
// without faults is merged, and what is merged has none.
#include "base/hash.h"
#include "block/verify.h"
#include "compactor/block_merge.h"

#include <stdlib.h>

enum {
    MEMORY = 256 << 20
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
}

// ---- a block in memory

struct object {
    uint8_t *bytes;
    size_t n;
};

static bool read_memory(const struct block_origin *from, const struct block_piece *v, size_t n,
                        size_t *failed, err *e)
{
    const struct object *o = from->store;
    for (size_t i = 0; i < n; i++) {
        *failed = i;
        if (v[i].at > o->n || v[i].n > o->n - v[i].at) return err_set(e, ERR_OUT_OF_RANGE, "short");
        memcpy(v[i].to, o->bytes + v[i].at, v[i].n);
    }
    return true;
}

static bool is_alive(const struct block_origin *from, err *e)
{
    (void)from;
    (void)e;
    return true;
}

static const struct block_origin_kind memory_kind = {read_memory, is_alive};

// ---- checksums put right

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static bool is_inside(const struct object *o, const struct block_extent *x)
{
    return x->at <= o->n && x->stored <= o->n - x->at;
}

// What says the section's checksum in another one now says the right one.
static void repair(struct object *o, const struct block_extent *x, const struct block_extent *in)
{
    uint8_t old[4];
    if (x->stored == 0 || !is_inside(o, x)) return;
    uint32_t crc = crc32c(0, o->bytes + x->at, x->stored);
    if (crc == x->crc) return;
    put32(old, x->crc);
    for (uint32_t i = 0; i + 4 <= in->stored; i++) {
        if (memcmp(o->bytes + in->at + i, old, 4) == 0) put32(o->bytes + in->at + i, crc);
    }
}

static void repair_frames(struct object *o, const struct block_frames *f,
                          const struct block_extent *in)
{
    for (uint32_t i = 0; i < f->n; i++)
        repair(o, &f->v[i].extent, in);
}

static void repair_service(struct object *o, const struct block_extent *footer,
                           const struct block_service_ref *s)
{
    struct arena a;
    struct block_index x;
    err e = {0};
    arena_init(&a, NULL, MEMORY);
    if (is_inside(o, &s->index) && !s->index.packed) {
        // A copy: what is parsed borrows, and is put right below.
        str copy = arena_str(&a, str_make(o->bytes + s->index.at, s->index.stored));
        if (block_index_parse(&a, copy, s, &x, &e)) {
            const struct block_frames *all[] = {&x.nodes_at, &x.vectors, &x.totals,
                                                &x.heads,    &x.details, &x.spans};
            for (size_t i = 0; i < COUNT(all); i++)
                repair_frames(o, all[i], &s->index);
            repair(o, &x.blooms, &s->index);
        }
    }
    const struct block_extent *told[] = {&s->totals, &s->index, &s->symbols, &s->all};
    for (size_t i = 0; i < COUNT(told); i++)
        repair(o, told[i], footer);
    arena_release(&a);
}

static void repair_trailer(struct object *o)
{
    uint8_t *trailer = o->bytes + o->n - BLOCK_TRAILER;
    memcpy(trailer + 28, "FTBL", 4);
    put32(trailer + 24, crc32c(0, trailer, 24));
}

// The trailer says where the footer is; the footer and indexes where the rest is.
static void repair_all(struct object *o)
{
    struct block_extent x;
    struct block_footer f;
    struct arena a;
    err e = {0};
    uint8_t *trailer = o->bytes + o->n - BLOCK_TRAILER;
    repair_trailer(o);
    if (!block_trailer(str_make(o->bytes, o->n), o->n, &x, &e) || x.packed) return;
    arena_init(&a, NULL, MEMORY);
    str copy = arena_str(&a, str_make(o->bytes + x.at, x.stored));
    if (block_footer_parse(&a, copy, o->n, &f, &e)) {
        for (uint32_t i = 0; i < f.service_count; i++)
            repair_service(o, &x, &f.services[i]);
    }
    put32(trailer + 16, crc32c(0, o->bytes + x.at, x.stored));
    repair_trailer(o);
    arena_release(&a);
}

// ---- verified and merged

static void count(void *arg, str service, const char *text)
{
    (void)service;
    (void)text;
    ++*(uint64_t *)arg;
}

// False: it could not be looked at. Then too much memory was asked for, or it is no block at all.
static bool verify(struct object *o, struct arena *a, struct block_source *src, uint64_t *faults)
{
    struct block_verified got;
    const struct block_origin from = {.kind = &memory_kind, .store = o};
    const struct block_verify_options options = {.report = count, .arg = faults, .cap = MEMORY};
    err e = {0};
    *faults = 0;
    if (block_source_open(a, from, S("block"), o->n, src, &e) &&
        block_verify(src, &options, &got, &e)) {
        must(got.faults == *faults);
        return true;
    }
    must(e.code == ERR_DATA_LOSS || e.code == ERR_RESOURCE_EXHAUSTED ||
         e.code == ERR_FAILED_PRECONDITION);
    return false;
}

static bool begin(void *arg, err *e)
{
    (void)e;
    buf_clear(arg);
    return true;
}

static bool sink(void *arg, str bytes, err *e)
{
    buf_str(arg, bytes);
    return buf_ok(arg, e);
}

static void abandon(void *arg)
{
    buf_clear(arg);
}

static void merge(struct req *r, const struct block_source *src, bool is_right)
{
    static const enum merge_what whats[] = {[BLOCK_SEGMENT] = MERGE_LEAF,
                                            [BLOCK_RAW] = MERGE_HOUR,
                                            [BLOCK_HOURS] = MERGE_DAY,
                                            [BLOCK_DAYS] = MERGE_WINDOW};
    static const enum block_kind kinds[] = {[BLOCK_SEGMENT] = BLOCK_RAW,
                                            [BLOCK_RAW] = BLOCK_HOURS,
                                            [BLOCK_HOURS] = BLOCK_DAYS,
                                            [BLOCK_DAYS] = BLOCK_DAYS};
    struct buf out;
    struct mem_budget memory;
    struct block_written written = {0};
    const struct block_about *from = &src->footer.about;
    struct block_about about = *from;
    struct plan_span all = {.from_hour = from->from_hour,
                            .hours = from->hours,
                            .pack_hi = UINT32_MAX};
    struct block_merge_source source = {.block = *src, .spans = &all, .span_count = 1};
    err e = {0};
    buf_init(&out, NULL, MEMORY);
    mem_budget_init(&memory, "merge", NULL, MEMORY);
    about.kind = kinds[from->kind];
    about.source_count = 0;
    about.classes = 7;
    struct block_merge m = {.what = whats[from->kind],
                            .req = r,
                            .memory = &memory,
                            .scratch = "/tmp",
                            .sources = &source,
                            .source_count = 1,
                            .pack_hi = UINT32_MAX,
                            .classes = 7,
                            .until_hour = from->from_hour + from->hours};
    const struct block_merge_target target = {.begin = begin,
                                              .sink = sink,
                                              .abandon = abandon,
                                              .arg = &out};
    bool ok = block_merge_run(&m, &about, &target, &written, &e);
    must(ok || !is_right || e.code == ERR_RESOURCE_EXHAUSTED);
    must(memory.used == 0);
    if (ok && is_right) {
        struct object o = {(uint8_t *)out.p, out.n};
        struct block_source made;
        uint64_t faults = 0;
        must(verify(&o, &r->arena, &made, &faults) && faults == 0);
    }
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct req r;
    struct block_source src;
    uint64_t faults = 0;
    if (size < BLOCK_TRAILER) return 0;
    struct object o = {malloc(size), size};
    must(o.bytes != NULL);
    memcpy(o.bytes, data, size);
    repair_all(&o);
    req_init(&r, RANK_DUTY, NULL, MEMORY, 0);
    if (verify(&o, &r.arena, &src, &faults)) merge(&r, &src, faults == 0);
    req_release(&r);
    free(o.bytes);
    return 0;
}
