// SPDX-License-Identifier: Apache-2.0
//
// rand.h - random bytes from the kernel.
#pragma once

#include "base/hash.h"

void rand_bytes(void *p, size_t n);  // ends the process if the kernel gives none
uint64_t rand_u64(void);
struct hash_key rand_key(void);
