// SPDX-License-Identifier: Apache-2.0
//
// speedscope's JSON: what decodes has rows that exist and no value of 0, and decodes to as many
// samples again.
#include "decode/decode.h"

#include <stdlib.h>

static uint64_t samples_of(const struct decoded *d)
{
    uint64_t n = 0;
    for (size_t i = 0; i < d->count; i++) {
        const struct profile *p = &d->profiles[i];
        n += p->sample_count;
        for (uint32_t k = 0; k < p->sample_count; k++)
            if (p->values[k] == 0) abort();
        for (uint32_t k = 0; k < p->stack_location_count; k++)
            if (p->stack_locations[k] >= p->location_count) abort();
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct decode_options any;
    struct arena a;
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, 64 << 20);
    if (decode_speedscope(&a, str_make(data, size), &any, &d, &e)) {
        uint64_t n = samples_of(&d);
        if (!decode_speedscope(&a, str_make(data, size), &any, &d, &e)) {
            if (e.code != ERR_RESOURCE_EXHAUSTED) abort();
        } else if (samples_of(&d) != n) {
            abort();
        }
    }
    arena_release(&a);
    return 0;
}
