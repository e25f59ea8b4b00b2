// SPDX-License-Identifier: Apache-2.0
//
// Times in names of files: the pattern is the first line, the name the rest. A pattern that is
// refused matches nothing, and a time is one that a name of a year from 1970 on can have.
#include "deploy/cli/cli_name_time.h"

#include <assert.h>

#define NAME_MOST 512  // a name of a file has 255 bytes at most

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t ns = -1;
    err e = {0};
    str name = {0};
    if (size > NAME_MOST) return 0;
    str pattern = str_split(str_make(data, size), '\n', &name);
    if (!name_time_check(pattern, &e)) return 0;
    if (name_time(pattern, name, &ns, &e))
        assert(ns >= 0);
    else
        assert(e.code != ERR_OK);
    return 0;
}
