// SPDX-License-Identifier: Apache-2.0
//
// block.c - where a service and a series belong: these numbers are part of the format.
#include "block/block.h"

#include "base/hash.h"

uint32_t block_pack(str service)
{
    return (uint32_t)(hash_str(service) >> 32);
}

uint32_t block_part(labels series, uint32_t parts)
{
    static const str of_types[] = {S_INIT(LABEL_PROFILE_TYPE), S_INIT("__type__"),
                                   S_INIT("__unit__")};
    uint64_t sum = 0;
    if (parts < 2) return 0;
    assert(parts <= BLOCK_PARTS_MAX);
    for (size_t i = 0; i < series.n; i++) {
        const labels one = {&series.v[i], 1};
        if (!str_among(series.v[i].name, of_types, COUNT(of_types))) sum += labels_fingerprint(one);
    }
    return (uint32_t)((sum >> 32) * parts >> 32);
}
