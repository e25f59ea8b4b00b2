// SPDX-License-Identifier: Apache-2.0
//
// Whatever a name is, its text is valid UTF-8 of limited length, the same each time, and there is
// one only for what begins as a mangled name.
#include "model/demangle.h"

#include <stdlib.h>

static bool read_back(str name, struct buf *out)
{
    buf_init(out, NULL, 1 << 16);
    return demangle(name, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf one;
    struct buf two;
    str name = str_make(data, size);
    bool ok = read_back(name, &one);
    if (read_back(name, &two) != ok || !str_eq(buf_view(&one), buf_view(&two))) abort();
    if (ok != (one.n > 0) || one.n > DEMANGLE_TEXT_MAX || !str_utf8(buf_view(&one))) abort();
    if (ok && !demangle_maybe(name)) abort();
    buf_release(&two);
    buf_release(&one);
    return 0;
}
