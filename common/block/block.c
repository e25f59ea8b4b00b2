// SPDX-License-Identifier: Apache-2.0
#include "block/block.h"

#include "base/hash.h"

uint32_t block_pack(str service)
{
    return (uint32_t)(hash_str(service) >> 32);
}
