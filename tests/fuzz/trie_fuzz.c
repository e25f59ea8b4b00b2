// SPDX-License-Identifier: Apache-2.0
//
// The first byte chooses trie or tree. What decodes has the sum of the values that a plain walk
// over the bytes finds, and stacks whose rows exist.
#include "codec/varint.h"
#include "decode/decode.h"

#include <stdlib.h>

static uint64_t sum_of(const uint8_t *at, const uint8_t *end)
{
    uint64_t sum = 0;
    while (at < end) {
        uint64_t n = 0;
        uint64_t value = 0;
        uint64_t children = 0;
        if (!varint_get(&at, end, &n) || n > (uint64_t)(end - at)) abort();
        at += n;
        if (!varint_get(&at, end, &value) || !varint_get(&at, end, &children)) abort();
        sum += value;
    }
    return sum;
}

static uint64_t sum_decoded(const struct profile *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        sum += (uint64_t)p->values[i];
        for (uint32_t k = 0; k < s->location_count; k++) {
            uint32_t row = p->stack_locations[s->first_location + k];
            if (row >= p->location_count || p->lines[row].function >= p->function_count) abort();
        }
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct decode_options any;
    if (size == 0) return 0;
    struct arena a;
    struct decoded d = {0};
    err e = {0};
    arena_init(&a, NULL, 64 << 20);
    str bytes = str_make(data + 1, size - 1);
    bool ok =
        data[0] & 1 ? decode_tree(&a, bytes, &any, &d, &e) : decode_trie(&a, bytes, &any, &d, &e);
    if (ok && sum_decoded(d.profiles) != sum_of(data + 1, data + size)) abort();
    if (!ok && e.code != ERR_INVALID_ARGUMENT && e.code != ERR_RESOURCE_EXHAUSTED) abort();
    arena_release(&a);
    return 0;
}
