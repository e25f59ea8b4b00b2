// SPDX-License-Identifier: Apache-2.0
//
// selfprofile_int.h - private to selfprofile*.c: sums of samples by stack, and their encoding as
// pprof.
#pragma once

#include "base/map.h"
#include "model/marks.h"
#include "service/selfprofile.h"
#include "sys/sampler_names.h"

// Pseudo frames, as they show in flame graphs.
#define MARK_LOST     "[no frame pointer]"
#define MARK_DEEP     "[too deep]"
#define MARK_OVERFLOW STACK_MANY_NAME

// Distinct stacks of one push; the push path takes 16,000 by default.
#define STACKS_MAX 8000

enum stack_end {  // how a stack ends at its root
    STACK_WHOLE,
    STACK_LOST,
    STACK_DEEP,
    STACK_OVERFLOW  // depth 0: samples whose own stacks had no room
};

struct stack_row {
    const char *component;  // equal names are equal pointers; static
    size_t first;           // of pcs
    uint32_t depth;
    enum stack_end end;
    uint64_t samples;
    uint64_t cpu_ns;
};

struct stack_sums {
    struct mem_budget *memory;
    struct map index;
    struct stack_row *rows;
    size_t row_count;
    size_t row_cap;
    uint64_t *pcs;  // innermost first; SAMPLE_GAP where callers are missing
    size_t pc_count;
    size_t pc_cap;
};

void stack_sums_init(struct stack_sums *s, struct mem_budget *memory);
void stack_sums_release(struct stack_sums *s);  // empty, and ready for use

// Adds to the sum of a stack. Beyond STACKS_MAX stacks it goes to the component's overflow. Fails
// with resource_exhausted; then nothing was added.
bool stack_sums_add(struct stack_sums *s, const struct stack_row *key, const uint64_t *pcs,
                    err *e) MUST_CHECK;

struct selfprofile_span {
    int64_t begin_wall_ns;
    int64_t duration_ns;
    int64_t period_ns;  // CPU time between two samples
};

// google.v1.Profile: samples/count and cpu/nanoseconds, label component. Names are looked up here.
// Fails with resource_exhausted; the caller should trim the names before another try.
bool selfprofile_encode(const struct stack_sums *s, struct sampler_names *names,
                        const struct selfprofile_span *span, struct buf *out, err *e) MUST_CHECK;
