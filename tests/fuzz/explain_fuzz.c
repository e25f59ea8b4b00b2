// SPDX-License-Identifier: Apache-2.0
//
// What a server tells of its answer (Flametree-Explain), shown on a terminal. Property: whatever it
// is, the text has no control characters but line ends.
#include "deploy/cli/cli_explain.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct buf out;
    str all = str_make(data, size);
    size_t half = str_find(all, '\n');
    arena_init(&a, NULL, (size_t)64 << 20);
    buf_init(&out, NULL, (size_t)64 << 20);
    if (cli_explain_put(&a, str_slice(all, 0, half), str_slice(all, half, size), size % 2, &out)) {
        for (size_t i = 0; i < out.n; i++) {
            unsigned char c = (unsigned char)out.p[i];
            if ((c < 0x20 && c != '\n') || c == 0x7f) abort();
        }
    }
    buf_release(&out);
    arena_release(&a);
    return 0;
}
