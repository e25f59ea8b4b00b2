// SPDX-License-Identifier: Apache-2.0
//
// bound.c - a bound of time for each input of a fuzz target, in the size of the input: an input
// that takes more is a finding like one that crashes, whether the fuzzer made it or a seed is
// replayed.
//
// The linker puts this function before the target's own (--wrap). Time is that of the thread, so
// that a busy machine changes little, and the shortest of a few runs counts, so that what happens
// once (first use of a library, a page that is not in memory) is no finding. The bound is many
// times what honest inputs take under the sanitizers: what it is there for is work that grows with
// the square of the input.
#include "fuzz/bound.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RUNS        3
#define NS_PER_BYTE UINT64_C(1000)

// Targets with FUZZ_BOUND_MS have their own.
__attribute__((weak)) uint64_t fuzz_bound_ns(void)
{
    return 100 * UINT64_C(1000000);
}

int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);  // NOLINT: the linker's names
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);  // NOLINT

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)  // NOLINT
{
    uint64_t most = fuzz_bound_ns() + NS_PER_BYTE * size;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < RUNS; i++) {
        uint64_t begin = thread_ns();
        int answer = __real_LLVMFuzzerTestOneInput(data, size);
        uint64_t took = thread_ns() - begin;
        if (took < least) least = took;
        if (least <= most) return answer;
    }
    fprintf(stderr,
            "an input of %zu bytes takes %" PRIu64 " ms, more than %" PRIu64 " ms: time that does "
            "not grow with the input alone\n",
            size, least / 1000000, most / 1000000);
    abort();
}
