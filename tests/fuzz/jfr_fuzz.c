// SPDX-License-Identifier: Apache-2.0
//
// Recordings: what is read keeps the guarantees of model/profile.h, and each further copy of a
// recording behind itself adds the same to every profile, because ids are those of one chunk.
#include "codec/compress.h"
#include "decode/jfr.h"

#include <stdlib.h>

#define CHECK(c)           \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

#define INPUT_MAX (64 << 10)

static void check_profile(const struct profile *p)
{
    CHECK(p->type_count >= 1 && p->type_count <= 2 && p->sample_count > 0);
    uint64_t next = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        CHECK(s->first_location == next);
        next += s->location_count;
        CHECK((uint64_t)s->first_label + s->label_count <= p->label_count);
    }
    CHECK(next == p->stack_location_count);
    for (uint32_t i = 0; i < p->stack_location_count; i++) {
        CHECK(p->stack_locations[i] < p->location_count);
    }
    for (uint32_t i = 0; i < p->location_count; i++) {
        CHECK(p->locations[i].line_count == 1 && p->locations[i].first_line < p->line_count);
        CHECK(p->lines[p->locations[i].first_line].function < p->function_count);
    }
    for (uint32_t i = 0; i < p->function_count; i++) {
        CHECK(str_utf8(p->functions[i].name));
    }
}

// Samples of the profile with this first type; a column of values, or with type_count their number.
static uint64_t sum(const struct jfr_recording *r, str type, uint32_t column)
{
    uint64_t all = 0;
    for (size_t i = 0; i < r->profiles.count; i++) {
        const struct profile *p = &r->profiles.profiles[i];
        if (!str_eq(p->types[0].type, type)) continue;
        if (column == p->type_count) return p->sample_count;
        for (uint32_t k = 0; k < p->sample_count; k++) {
            all += (uint64_t)p->values[(size_t)k * p->type_count + column];
        }
    }
    return all;
}

static bool decode_times(struct arena *a, str bytes, size_t times, const struct decode_options *o,
                         struct jfr_recording *r)
{
    err e = {0};
    char *all = arena_new(a, times * bytes.n);
    CHECK(all);
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * bytes.n, bytes.p, bytes.n);
    return decode_jfr(a, str_make(all, times * bytes.n), (str){0}, o, r, NULL, &e);
}

// Settings of a chunk hold for the next ones, so the first copy may differ from the others.
static void check_copies(str bytes, const struct decode_options *o)
{
    struct arena a;
    struct jfr_recording r[3] = {{{0}, 0, {0}}};
    bool ok = true;
    arena_init(&a, NULL, 256 << 20);
    for (size_t i = 0; ok && i < 3; i++)
        ok = decode_times(&a, bytes, 2 + i, o, &r[i]);
    for (size_t i = 0; ok && i < r[2].profiles.count; i++) {
        const struct profile *p = &r[2].profiles.profiles[i];
        str type = p->types[0].type;
        CHECK(r[0].profiles.count == r[2].profiles.count);
        for (uint32_t t = 0; t <= p->type_count; t++) {
            CHECK(sum(&r[2], type, t) - sum(&r[1], type, t) ==
                  sum(&r[1], type, t) - sum(&r[0], type, t));
        }
    }
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct decode_options o = {.inflated_max = 1 << 20, .allocation_class = size % 2};
    struct jfr_recording r = {0};
    err e = {0};
    str bytes = str_make(data, size);
    arena_init(&a, NULL, 64 << 20);
    bool ok = decode_jfr(&a, bytes, bytes, &o, &r, NULL, &e);  // no recording is a labels part
    if (!ok) ok = decode_jfr(&a, bytes, (str){0}, &o, &r, NULL, &e);
    if (ok) {
        for (size_t i = 0; i < r.profiles.count; i++) {
            check_profile(&r.profiles.profiles[i]);
        }
        if (!compress_is_gzip(bytes) && size <= INPUT_MAX) check_copies(bytes, &o);
    }
    arena_release(&a);
    return 0;
}
