// SPDX-License-Identifier: Apache-2.0
//
// The first byte chooses a CPU profile, a heap profile or a trace. What decodes, written as pprof,
// is read as a profile with the same stacks and values.
#include "decode/decode.h"
#include "lib/same.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct decode_options any;
    if (size == 0) return 0;
    struct arena a;
    struct buf pprof;
    struct decoded d = {0};
    struct decoded again = {0};
    err e = {0};
    arena_init(&a, NULL, 64 << 20);
    buf_init(&pprof, NULL, 64 << 20);
    str bytes = str_make(data + 1, size - 1);
    bool ok = data[0] == 'H'   ? decode_heapprofile(&a, bytes, &any, &d, &e)
              : data[0] == 'T' ? decode_chrome(&a, bytes, &any, &d, &e)
                               : decode_cpuprofile(&a, bytes, &any, &d, &e);
    if (ok && d.count == 0) abort();
    for (size_t i = 0; ok && i < d.count; i++) {
        buf_clear(&pprof);
        ok = decode_put_pprof(&a, &d.profiles[i], &pprof, &e);
        if (!ok) break;
        if (decode_pprof(&a, buf_view(&pprof), &any, &again, NULL, &e))
            same_profile(&d.profiles[i], again.profiles);
        else if (e.code != ERR_RESOURCE_EXHAUSTED)
            abort();
    }
    buf_release(&pprof);
    arena_release(&a);
    return 0;
}
