// SPDX-License-Identifier: Apache-2.0
//
// reader.c - the trailer, the footer, and the contents of a section.
#include "block/reader.h"

#include "base/hash.h"
#include "base/search.h"
#include "block/wire_int.h"
#include "codec/compress.h"
#include "codec/lz4.h"

// ---- the trailer, 32 bytes: at (8), stored, raw (0: not packed), CRC32C of the footer, version,
// CRC32C of these 24 bytes, magic (4 each)
static uint64_t fixed(const char *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)(uint8_t)p[i] << (8 * i);
    return v;
}

// The magic is compared before the CRC and the version after it: so another kind of file, a damaged
// block and a block of a newer program give different errors.
bool block_trailer(str bytes, uint64_t size, struct block_extent *footer, err *e)
{
    if (bytes.n < BLOCK_TRAILER || size < BLOCK_TRAILER) {
        return err_set(e, ERR_DATA_LOSS, "this is no block: it has %llu bytes",
                       (unsigned long long)MIN(size, bytes.n));
    }
    const char *p = bytes.p + bytes.n - BLOCK_TRAILER;
    if (memcmp(p + 28, BLOCK_MAGIC, 4) != 0) {
        return err_set(e, ERR_DATA_LOSS, "this is no block: it does not end with %s", BLOCK_MAGIC);
    }
    if (fixed(p + 24, 4) != crc32c(0, p, 24)) {
        return err_set(e, ERR_DATA_LOSS, "the trailer is damaged: its CRC32C is wrong");
    }
    uint64_t version = fixed(p + 20, 4);
    if (version < BLOCK_VERSION_MIN || version > BLOCK_VERSION) {
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "the block has format version %llu, this program reads versions %d to %d",
                       (unsigned long long)version, BLOCK_VERSION_MIN, BLOCK_VERSION);
    }
    *footer = (struct block_extent){.at = fixed(p, 8),
                                    .stored = (uint32_t)fixed(p + 8, 4),
                                    .raw = (uint32_t)fixed(p + 12, 4),
                                    .crc = (uint32_t)fixed(p + 16, 4)};
    footer->packed = footer->raw != 0;
    if (!footer->packed) footer->raw = footer->stored;
    // Subtractions only: `at` may be any number, so at + stored could wrap.
    if (footer->at > size - BLOCK_TRAILER || size - BLOCK_TRAILER - footer->at != footer->stored ||
        (footer->packed && !block_raw_is_sane(footer->stored, footer->raw))) {
        return err_set(e, ERR_DATA_LOSS, "the trailer is damaged: the footer is not before it");
    }
    return true;
}

bool block_section(struct arena *a, const struct block_extent *x, str stored, const char *what,
                   str *out, err *e)
{
    if (stored.n != x->stored) {
        return err_set(e, ERR_DATA_LOSS, "%s at %llu: %zu bytes of %u", what,
                       (unsigned long long)x->at, stored.n, x->stored);
    }
    uint32_t crc = crc32c(0, stored.p, stored.n);
    if (x->stored != 0 && crc != x->crc) {
        return err_set(e, ERR_DATA_LOSS, "%s at %llu: CRC32C is %08x instead of %08x", what,
                       (unsigned long long)x->at, crc, x->crc);
    }
    *out = stored;  // borrows the caller's bytes; only what is unpacked is the arena's
    if (!x->packed) return true;
    char *raw = arena_new(a, x->raw);
    if (!raw) return arena_fail(a, e);
    *out = str_make(raw, x->raw);
    bool ok =
        x->lz4 ? lz4_unpack_to(stored, raw, x->raw, e) : compress_unzstd_to(stored, raw, x->raw, e);
    if (ok) return true;
    if (e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
    return err_wrap(e, "%s at %llu", what, (unsigned long long)x->at);
}

// ---- footer

static void read_placings(struct wire *w, struct placings *out)
{
    uint64_t n = wire_u64(w);
    if (n > PLACINGS_MAX) wire_fail(w, "it has too many placings");
    for (uint64_t i = 0; i < n && !w->fault; i++) {
        uint64_t low = wire_fixed32(w);
        uint64_t placing = (uint64_t)wire_fixed32(w) << 32 | low;
        if (i > 0 && placing <= out->v[i - 1]) wire_fail(w, "placings are not in order");
        if (placing == 0) wire_fail(w, "a placing is none");
        out->v[out->n++] = placing;
    }
}

// The classes of the footer have BLOCK_PLACED if *placed.
static void read_about(struct arena *a, struct wire *w, struct block_about *about, bool *placed)
{
    uint64_t kind = wire_u64(w);
    if (kind < BLOCK_SEGMENT || kind > BLOCK_DAYS) wire_fail(w, "its kind is none");
    about->kind = (enum block_kind)kind;
    about->id = wire_id(w);
    about->tenant = wire_text(w);
    about->from_hour = wire_i64(w);
    uint64_t hours = wire_u64(w);
    if (!block_hours_are_sane(about->from_hour, hours)) wire_fail(w, "its hours are no such hours");
    about->hours = (uint32_t)hours;
    about->pack_lo = wire_fixed32(w);
    about->pack_hi = wire_fixed32(w);
    uint64_t classes = wire_u64(w);
    if (classes & BLOCK_CUT) {
        uint64_t part = wire_u64(w);
        uint64_t parts = wire_u64(w);
        if (parts < 2 || parts > BLOCK_PARTS_MAX || part >= parts)
            wire_fail(w, "its part is no such part");
        about->part = (uint32_t)part;
        about->parts = (uint32_t)parts;
        classes &= ~(uint64_t)BLOCK_CUT;
    }
    *placed = classes & BLOCK_PLACED;
    classes &= ~(uint64_t)BLOCK_PLACED;
    if (*placed) read_placings(w, &about->placings);
    if (classes >= 1u << BLOCK_CLASSES) wire_fail(w, "a class of its keys is none");
    about->classes = (uint32_t)classes;
    about->source_count = (size_t)wire_count(w, 1);
    str *sources = ARENA_ARRAY(a, str, about->source_count);
    about->sources = sources;
    for (size_t i = 0; sources && i < about->source_count; i++)
        sources[i] = wire_text(w);
}

static void read_datasets(struct arena *a, struct wire *w, struct block_service_ref *s)
{
    s->dataset_count = (uint32_t)wire_count(w, 5);
    struct block_dataset *v = ARENA_ARRAY(a, struct block_dataset, s->dataset_count);
    s->datasets = v;
    if (!v) s->dataset_count = 0;  // block_footer_parse asks the arena at its end
    for (uint32_t i = 0; i < s->dataset_count; i++) {
        v[i].type = wire_text(w);
        v[i].profiles = wire_u64(w);
        v[i].loose = wire_u64(w);
        v[i].first_ns = wire_i64(w);
        uint64_t length = wire_u64(w);
        v[i].last_ns = (int64_t)((uint64_t)v[i].first_ns + length);
        if (length > (uint64_t)INT64_MAX - (uint64_t)v[i].first_ns) {
            wire_fail(w, "the time of a dataset does not fit 64 bits");
        }
        if (i > 0 && str_cmp(v[i - 1].type, v[i].type) >= 0) {
            wire_fail(w, "datasets are not in order");
        }
    }
}

static void read_service(struct arena *a, struct wire *w, struct block_service_ref *s, uint64_t *at)
{
    s->name = wire_text(w);
    read_datasets(a, w, s);
    uint64_t gap = wire_u64(w);
    if (gap > (uint64_t)INT64_MAX || __builtin_add_overflow(*at, gap, at)) {
        wire_fail(w, "a service lies outside of any object");
        return;
    }
    s->totals = wire_extent(w, *at, at, true);
    s->index = wire_extent(w, *at, at, false);
    s->symbols = wire_extent(w, *at, at, false);
    s->all = wire_extent(w, *at, at, true);
}

bool block_footer_parse(struct arena *a, str contents, uint64_t object_size,
                        struct block_footer *out, err *e)
{
    struct wire w = wire_of(contents);
    uint64_t at = 0;
    bool placed = false;
    *out = (struct block_footer){0};
    read_about(a, &w, &out->about, &placed);
    out->service_count = (uint32_t)wire_count(&w, 7);
    struct block_service_ref *v = ARENA_ARRAY(a, struct block_service_ref, out->service_count);
    out->services = v;
    for (uint32_t i = 0; v && i < out->service_count && !w.fault; i++) {
        read_service(a, &w, &v[i], &at);
        if (at > object_size) wire_fail(&w, "a service lies outside of the object");
        if (i > 0 && str_cmp(v[i - 1].name, v[i].name) >= 0) {
            wire_fail(&w, "services are not in order");
        }
    }
    for (uint32_t i = 0; placed && v && i < out->service_count && !w.fault; i++) {
        for (uint32_t k = 0; k < v[i].dataset_count && !w.fault; k++)
            v[i].datasets[k].placed = wire_u64(&w);
    }
    return arena_ok(a, e) && wire_done(&w, "footer", e);
}

const struct block_service_ref *block_find_service(const struct block_footer *f, str name)
{
    size_t i = SEARCH(at, 0, f->service_count, str_cmp(f->services[at].name, name) < 0);
    return i < f->service_count && str_eq(f->services[i].name, name) ? &f->services[i] : NULL;
}
