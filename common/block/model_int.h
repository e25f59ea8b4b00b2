// SPDX-License-Identifier: Apache-2.0
//
// model_int.h - the model of a frame of vectors in form BLOCK_MODELLED: which context
// (codec/rans.h) each number has, given the numbers before it. writer_vectors.c and
// reader_vectors.c must compute the same. docs/formats/block.md describes it in words.
#pragma once

#include "block/wire_int.h"
#include "codec/rans.h"

// Contexts, by the meaning of the number.
enum {
    MODEL_STACK = 0,   // stacks skipped before this one, by how many were skipped before the last
    MODEL_COUNT = 4,   // vectors that have this stack, by how many have the last one
    MODEL_GAP = 10,    // vectors skipped, by how many of the rest have the stack and have it not
    MODEL_FIRST = 34,  // the first value of a stack, by how many vectors have it
    MODEL_SMALL = 40,  // a later value, by the mean of the values before it: below 16
    MODEL_LARGE = 48,  // from 16 on; the number is the difference to the mean
    MODEL_BASE = 62,   // how far back a vector's base is; 0: as far as the last one
    MODEL_GUESS = 63,  // does the value differ from the guess, by whether the last one did
    MODEL_BASED = 66,  // the first value of a stack in a vector with a base, by its place
    MODEL_CONTEXTS = 70
};

// A vector may have a base: an earlier vector of the frame with the same stacks. Sample types of a
// profile (objects and bytes) have the same stacks, and a stack's values mostly have one ratio.
// Profiles of a service that always does the same have the same stacks, too. The vectors of one
// base are told apart by their place among them, up to this many places.
#define MODEL_KINDS_OF_BASED 4

static const uint8_t model_kinds[MODEL_CONTEXTS] = {
    0, 0, 0, 0,                                                              // MODEL_STACK
    1, 1, 1, 1, 1, 1,                                                        // MODEL_COUNT
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,  // MODEL_GAP
    3, 3, 3, 3, 3, 3,                                                        // MODEL_FIRST
    4, 4, 4, 4, 4, 4, 4, 4,                                                  // MODEL_SMALL
    5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,                                // MODEL_LARGE
    6,                                                                       // MODEL_BASE
    7, 7, 7,                                                                 // MODEL_GUESS
    8, 8, 8, 8,                                                              // MODEL_BASED
};

#define MODEL_SIGNED 1  // flag: values are zigzag; else they are positive

// Twice the logarithm, rounded down: half octaves. v is at least 1.
static inline unsigned model_log(uint64_t v)
{
    unsigned e = 63 - (unsigned)__builtin_clzll(v);
    return 2 * e + (e ? (unsigned)(v >> (e - 1) & 1) : 0);
}

static inline unsigned model_stack(uint64_t passed)
{
    return MODEL_STACK + MIN(3, model_log(passed + 1) / 2);
}

static inline unsigned model_count(uint64_t last)
{
    return MODEL_COUNT + MIN(5, model_log(last) / 2);
}

// Of the vectors that follow, `have` have the stack and `spare` do not; both at least 1.
static inline unsigned model_gap(uint64_t spare, uint64_t have)
{
    int q = (int)model_log(spare) - (int)model_log(have) + 9;
    return MODEL_GAP + (unsigned)MAX(0, MIN(q, MODEL_FIRST - MODEL_GAP - 1));
}

// The mean of a stack's values so far, in 16ths; the last values count most.
struct model_mean {
    uint64_t sixteenths;
    uint32_t n;
};

static inline unsigned model_value(const struct model_mean *m, uint64_t have, uint64_t vectors)
{
    if (m->n == 0) return MODEL_FIRST + MIN(5, (model_log(vectors) - model_log(have)) / 2);
    unsigned log = model_log(m->sixteenths | 1);
    if (log < 16) return MODEL_SMALL + (log > 8 ? log - 8 : 0);
    return MODEL_LARGE + MIN(13, (log - 16) / 2);
}

// Values are written as differences to this mean once it is 16 or more; 0: they are written as
// such.
static inline uint64_t model_expected(const struct model_mean *m)
{
    return m->n && m->sixteenths >= 256 ? m->sixteenths >> 4 : 0;
}

static inline void model_saw(struct model_mean *m, uint64_t v)
{
    int64_t now = (int64_t)(MIN(v, UINT64_C(1) << 40) << 4);
    int64_t was = (int64_t)m->sixteenths;
    unsigned shift = m->n == 0 ? 0 : m->n == 1 ? 1 : m->n < 4 ? 2 : 3;
    m->sixteenths = (uint64_t)(was + ((now - was) >> shift));
    m->n++;
}

// ---- vectors with a base

// State of one stack, for the vectors at one place among the vectors of their base.
struct model_based {
    struct model_mean mean;
    uint64_t value;  // the last one
    uint64_t base;   // the value of its base
    unsigned guess;  // 0: none so far; 1: the last was right, 2: wrong
};

// Guesses a value: its ratio to the base's value is as for the last value. False: no guess.
static inline bool model_guess(const struct model_based *b, uint64_t base, uint64_t *guess)
{
    uint64_t product = 0;
    if (b->mean.n == 0 || __builtin_mul_overflow(base, b->value, &product)) return false;
    *guess = b->base ? product / b->base : 0;
    return true;
}

static inline unsigned model_based_value(const struct model_based *b, unsigned kind)
{
    return b->mean.n ? model_value(&b->mean, 1, 1) : MODEL_BASED + kind;
}

static inline void model_saw_based(struct model_based *b, uint64_t base, uint64_t value)
{
    model_saw(&b->mean, value);
    b->value = value;
    b->base = base;
}

// All arrays are by vector. The writer and the reader both make them from the distances.
struct model_bases {
    uint32_t *base;         // its base; itself: it has none
    uint32_t *first_based;  // the first vector whose base it is; 0: none
    uint32_t *next_based;   // the next vector with the same base; 0: none
    uint32_t *free;         // the vectors without a base, ascending
    uint32_t *places;       // of a vector without a base: its place in `free`
    uint64_t count;
    uint64_t free_count;
};

// False: the arena has no room for them.
static inline bool model_bases_init(struct model_bases *b, struct arena *a, uint64_t count)
{
    *b = (struct model_bases){.base = ARENA_ARRAY(a, uint32_t, count),
                              .first_based = ARENA_ARRAY(a, uint32_t, count),
                              .next_based = ARENA_ARRAY(a, uint32_t, count),
                              .free = ARENA_ARRAY(a, uint32_t, count),
                              .places = ARENA_ARRAY(a, uint32_t, count),
                              .count = count};
    return !a->exhausted;
}

// Fills the other arrays from `base`.
static inline void model_bases_link(struct model_bases *b)
{
    b->free_count = 0;
    for (uint64_t i = b->count; i-- > 0;) {
        uint32_t base = b->base[i];
        if (base == i) continue;
        b->next_based[i] = b->first_based[base];
        b->first_based[base] = (uint32_t)i;
    }
    for (uint64_t i = 0; i < b->count; i++) {
        if (b->base[i] != i) continue;
        b->places[i] = (uint32_t)b->free_count;
        b->free[b->free_count++] = (uint32_t)i;
    }
}
