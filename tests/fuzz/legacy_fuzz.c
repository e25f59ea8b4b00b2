// SPDX-License-Identifier: Apache-2.0
//
// What decodes, written as pprof, is read as a profile with the same stacks and values.
#include "decode/legacy.h"

#include <stdlib.h>

#define CHECK(c)           \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

static void compare_stacks(const struct profile *one, const struct profile *two, uint32_t i)
{
    const struct profile_sample *s = &one->samples[i];
    const struct profile_sample *t = &two->samples[i];
    CHECK(s->location_count == t->location_count);
    for (uint32_t k = 0; k < s->location_count; k++) {
        const struct profile_location *l =
            &one->locations[one->stack_locations[s->first_location + k]];
        const struct profile_location *m =
            &two->locations[two->stack_locations[t->first_location + k]];
        CHECK(l->address == m->address && l->line_count == m->line_count);
        CHECK(l->mapping == m->mapping);
        for (uint32_t n = 0; n < l->line_count; n++)
            CHECK(str_eq(one->functions[one->lines[l->first_line + n].function].name,
                         two->functions[two->lines[m->first_line + n].function].name));
    }
    for (uint32_t k = 0; k < one->type_count; k++)
        CHECK(one->values[i * one->type_count + k] == two->values[i * two->type_count + k]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct decode_options any;
    struct arena a;
    struct buf pprof;
    struct decoded d = {0};
    struct decoded again = {0};
    err e = {0};
    arena_init(&a, NULL, 64 << 20);
    buf_init(&pprof, NULL, 64 << 20);
    str bytes = str_make(data, size);
    bool ok = decode_legacy(&a, bytes, &any, &d, &e);
    if (ok) CHECK(legacy_is(bytes) || size > 4096);
    if (ok && decode_put_pprof(&a, d.profiles, &pprof, &e)) {
        const struct profile *p = d.profiles;
        if (decode_pprof(&a, buf_view(&pprof), &any, &again, NULL, &e)) {
            CHECK(p->sample_count == again.profiles->sample_count);
            CHECK(p->type_count == again.profiles->type_count);
            for (uint32_t i = 0; i < p->sample_count; i++)
                compare_stacks(p, again.profiles, i);
        } else {
            // Bytes that are not UTF-8 are refused when they are read.
            CHECK(e.code == ERR_RESOURCE_EXHAUSTED || !str_utf8(bytes));
        }
    }
    buf_release(&pprof);
    arena_release(&a);
    return 0;
}
