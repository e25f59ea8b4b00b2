// SPDX-License-Identifier: Apache-2.0
//
// Text of `perf script` that is collapsed is collapsed text that decodes, with as many samples as
// were counted.
#include "decode/decode.h"
#include "decode/perf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct decode_options no_options;
    struct arena a;
    struct buf text;
    struct perf_facts facts;
    struct decoded d = {0};
    err e = {0};
    bool cut = false;
    arena_init(&a, NULL, 256 << 20);
    buf_init(&text, NULL, 64 << 20);
    str bytes = str_make(data, size);
    (void)perf_is_script(bytes);
    if (perf_collapse(&a, bytes, &text, &facts, &e) && size < 60000) {
        if (!decode_folded(&a, buf_view(&text), &no_options, &d, &cut, &e) || cut) abort();
        uint64_t samples = 0;
        for (uint32_t i = 0; i < d.profiles->sample_count; i++)
            samples += (uint64_t)d.profiles->values[i];
        if (samples != facts.samples) abort();
    }
    buf_release(&text);
    arena_release(&a);
    return 0;
}
