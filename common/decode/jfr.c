// SPDX-License-Identifier: Apache-2.0
//
// jfr.c - chunk after chunk: header, types, pools, events.
#include "decode/inflate.h"
#include "decode/jfr_int.h"

#define MAGIC S("FLR\0")
#define MAJOR 2

// Offsets in a chunk's header.
enum header {
    HEADER_MAJOR = 4,
    HEADER_SIZE = 8,
    HEADER_POOLS = 16,
    HEADER_TYPES = 24,
    HEADER_FEATURES = 64
};

#define FEATURE_COMPRESSED 1

bool jfr_is(str bytes)
{
    return str_starts(bytes, MAGIC);
}

static uint64_t big_endian(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        v = v << 8 | p[i];
    }
    return v;
}

static bool bad_header(const struct jfr *d, const uint8_t *at, const char *what, uint64_t value,
                       err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "malformed JFR: the chunk at byte %zu has %s %llu",
                   (size_t)(at - d->start), what, (unsigned long long)value);
}

static bool read_header(const struct jfr *d, const uint8_t *at, struct jfr_chunk *k, err *e)
{
    size_t left = (size_t)(d->end - at);
    if (left < JFR_HEADER_BYTES) {
        return bad_header(d, at, "a header of 68 bytes, but what is left is", left, e);
    }
    if (!jfr_is(str_make(at, left))) {
        return bad_header(d, at, "no magic FLR\\0 but", big_endian(at, 4), e);
    }
    uint64_t major = big_endian(at + HEADER_MAJOR, 2);
    if (major != MAJOR) return bad_header(d, at, "not version 2 but", major, e);
    uint64_t size = big_endian(at + HEADER_SIZE, 8);
    if (size < JFR_HEADER_BYTES || size > left) {
        return bad_header(d, at, "a size that is not that of what is left:", size, e);
    }
    k->start = at;
    k->end = at + size;
    k->pools_at = big_endian(at + HEADER_POOLS, 8);
    k->types_at = big_endian(at + HEADER_TYPES, 8);
    k->compressed = big_endian(at + HEADER_FEATURES, 4) & FEATURE_COMPRESSED;
    if (k->pools_at < JFR_HEADER_BYTES || k->pools_at >= size) {
        return bad_header(d, at, "constant pools at a place outside of it:", k->pools_at, e);
    }
    if (k->types_at < JFR_HEADER_BYTES || k->types_at >= size) {
        return bad_header(d, at, "metadata at a place outside of it:", k->types_at, e);
    }
    return true;
}

static bool read_event(struct jfr *d, struct jfr_chunk *k, struct jfr_cursor *c, uint64_t type,
                       bool settings, err *e)
{
    uint32_t row = idmap_row(&k->types.rows, type);
    if (row == MAP_NONE) return true;
    const struct jfr_class *class = &k->types.classes[row];
    if (class->kind >= JFR_EVENTS || settings != (class->kind == JFR_SETTING)) return true;
    if (!class->ready && !jfr_class_ready(k, row, e)) return false;
    struct jfr_values v = {0};
    jfr_run(c, d->start, class->steps, class->step_count, &v);
    if (c->fault) return jfr_fail(d, c, e);
    return settings ? jfr_rates_add(d, k, &v, e) : jfr_build_event(d, k, class->kind, &v, e);
}

// Reads the settings, or all other events: events are not in order of time, and a setting may come
// behind the samples that it is about.
static bool read_events(struct jfr *d, struct jfr_chunk *k, bool settings, err *e)
{
    const uint8_t *at = k->start + JFR_HEADER_BYTES;
    while (at < k->end) {
        struct jfr_cursor c = {at, k->end, k->compressed, NULL, NULL};
        uint64_t size = jfr_int(&c);
        if (!c.fault && (size > (uint64_t)(k->end - at) || size < (uint64_t)(c.at - at))) {
            jfr_broken(&c, at, "an event whose size is not that of a part of its chunk");
        }
        if (c.fault) return jfr_fail(d, &c, e);
        if (size == 0) return err_set(e, ERR_INVALID_ARGUMENT, "malformed JFR: an empty event");
        c.end = at + size;
        uint64_t type = jfr_long(&c);
        if (c.fault) return jfr_fail(d, &c, e);
        // 0 is metadata and 1 is a checkpoint.
        if (type > 1 && !read_event(d, k, &c, type, settings, e)) return false;
        at += size;
    }
    return true;
}

// The chunk has memory of its own until its end. What d->a may have meanwhile is less by that.
static bool read_chunk(struct jfr *d, struct jfr_chunk *k, err *e)
{
    struct arena own;
    size_t cap = d->a->cap;
    arena_init(&own, d->a->budget, cap - d->a->used);
    own.setting = d->a->setting;
    k->a = &own;
    bool ok = jfr_read_types(d, k, e) && jfr_read_pools(d, k, e);
    // Programs of events are still to be made in it, which are small.
    d->a->cap = MAX(cap - own.used, d->a->used);
    ok = ok && read_events(d, k, true, e) && jfr_rates_make(d, k, e) && read_events(d, k, false, e);
    d->a->cap = cap;
    arena_release(&own);
    return ok;
}

static bool has_samples(const struct jfr *d)
{
    uint32_t n = 0;
    for (int i = 0; i < JFR_PROFILES; i++) {
        n |= d->build.samples[i].count;
    }
    return n > 0;
}

static bool read_all(struct jfr *d, struct jfr_recording *out, err *e)
{
    uint64_t stacks = 0;
    const uint8_t *at = d->start;
    while (at < d->end) {
        struct jfr_chunk k = {.first_stack = stacks};
        err fault = {0};
        if (!read_header(d, at, &k, &fault)) {
            // A program that was killed leaves a chunk without its end. Those before it are whole.
            d->is_cut = has_samples(d);
            if (d->is_cut) break;
            *e = fault;
            return false;
        }
        if (!read_chunk(d, &k, e)) return false;
        stacks += (uint64_t)k.pools.stacks.count + 1;
        at = k.end;
    }
    return jfr_build_profiles(d, out, e);
}

bool decode_jfr(struct arena *a, str bytes, str labels, const struct decode_options *o,
                struct jfr_recording *out, bool *over_cap, err *e)
{
    str body = {0};
    str snapshot = {0};
    bool over[2] = {false, false};
    bool ok = inflate_bytes(a, bytes, o->inflated_max, &body, &over[0], e) &&
              inflate_bytes(a, labels, o->inflated_max, &snapshot, &over[1], e);
    if (over_cap) *over_cap = over[0] || over[1];
    if (!ok) return false;
    if (body.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "malformed JFR: no bytes");
    if (body.n > INT32_MAX) {  // so that no count of rows overflows
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "JFR of %zu bytes, limit 2 GiB", body.n);
    }
    struct jfr *d = ARENA_NEW(a, struct jfr);
    if (!d) return arena_fail(a, e);
    d->a = a;
    d->o = o;
    d->start = (const uint8_t *)body.p;
    d->end = d->start + body.n;
    d->settings = (struct jfr_settings){.interval = -1, .wall = -1, .period = -1};
    jfr_build_init(&d->build, a, o->symbol_max);
    ok = jfr_labels_read(&d->labels, a, snapshot, e) && read_all(d, out, e);
    jfr_build_release(&d->build);
    return ok;
}
