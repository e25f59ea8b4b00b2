// SPDX-License-Identifier: Apache-2.0
//
// Recordings: what is read keeps the guarantees of model/profile.h, and the same recording twice in
// a row has the same profiles with every value doubled, because ids are those of one chunk.
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

static uint64_t sum(const struct profile *p, uint32_t type)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        all += (uint64_t)p->values[(size_t)i * p->type_count + type];
    }
    return all;
}

static void check_twice(str bytes, const struct jfr_recording *once, const struct decode_options *o)
{
    struct arena a;
    struct jfr_recording twice = {0};
    err e = {0};
    arena_init(&a, NULL, 64 << 20);
    char *both = arena_new(&a, 2 * bytes.n);
    CHECK(both);
    memcpy(both, bytes.p, bytes.n);
    memcpy(both + bytes.n, bytes.p, bytes.n);
    if (decode_jfr(&a, str_make(both, 2 * bytes.n), (str){0}, o, &twice, NULL, &e)) {
        // A setting that comes late holds for the second copy from its start, so there may be more.
        bool same = str_is(once->event, "wall") == 0;
        for (size_t i = 0; same && i < once->profiles.count; i++) {
            const struct profile *p = &once->profiles.profiles[i];
            CHECK(twice.profiles.count == once->profiles.count);
            CHECK(twice.profiles.profiles[i].sample_count == 2 * p->sample_count);
            for (uint32_t t = 0; t < p->type_count; t++) {
                CHECK(sum(&twice.profiles.profiles[i], t) == 2 * sum(p, t));
            }
        }
    }
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct decode_options o = {.inflated_max = 1 << 20, .sample_rate = 100};
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
        if (!compress_is_gzip(bytes) && size <= INPUT_MAX) check_twice(bytes, &r, &o);
    }
    arena_release(&a);
    return 0;
}
