// SPDX-License-Identifier: Apache-2.0
//
// bound.h - what any input of a target may take, beside its share for each byte (bound.c); for
// targets whose inputs say in few bytes that much is to be done, such as patterns to be compiled.
#pragma once

#include <assert.h>
#include <stdint.h>

uint64_t fuzz_bound_ns(void);
#define FUZZ_BOUND_MS(ms)              \
    uint64_t fuzz_bound_ns(void)       \
    {                                  \
        return (ms)*UINT64_C(1000000); \
    }                                  \
    static_assert((ms) > 0, "a bound")
