// SPDX-License-Identifier: Apache-2.0
//
// The first byte chooses a row of decode/tools.def: 'a' is the first. What decodes has a sample,
// and written as pprof it is read as a profile with the same stacks, labels and values.
#include "decode/tools.h"
#include "lib/same.h"

#include <stdlib.h>

#define CHECK(c)           \
    do {                   \
        if (!(c)) abort(); \
    } while (0)

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
    (void)tool_of(bytes);
    if (tool_decode((enum tool)((size_t)(data[0] - 'a') % TOOL_COUNT), &a, bytes, &any, &d, &e)) {
        CHECK(d.count == 1 && d.profiles->sample_count > 0);
        if (!decode_put_pprof(&a, d.profiles, &pprof, &e) ||
            !decode_pprof(&a, buf_view(&pprof), &any, &again, NULL, &e))
            CHECK(e.code == ERR_RESOURCE_EXHAUSTED);
        else
            same_profile(d.profiles, again.profiles);
    }
    buf_release(&pprof);
    arena_release(&a);
    return 0;
}
