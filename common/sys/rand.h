// SPDX-License-Identifier: Apache-2.0
//
// rand.h - random bytes from the kernel, fetched by each thread in larger pieces. Not for a process
// that forks and runs on: parent and child would get the same bytes.
#pragma once

#include "base/hash.h"

void rand_bytes(void *p, size_t n);  // ends the process if the kernel gives none
uint64_t rand_u64(void);
struct hash_key rand_key(void);
