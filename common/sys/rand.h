// SPDX-License-Identifier: Apache-2.0
//
// rand.h - random bytes from the kernel.
#pragma once

#include "base/base.h"

void rand_bytes(void *p, size_t n);  // ends the process if the kernel gives none
uint64_t rand_u64(void);
