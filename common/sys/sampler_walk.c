// SPDX-License-Identifier: Apache-2.0
//
// sampler_walk.c - walks a stack inside a signal's handler. A frame pointer may be anything, so
// memory is read by a system call, which fails where a plain read would crash.
#include "sys/sampler_int.h"

#include <sys/uio.h>
#include <ucontext.h>

// A frame record is two words on x86-64 and on aarch64: the caller's frame pointer, then the
// return address.
#define RECORD_WORDS 2

// Bounds of the search for a second chain: distance from the stack pointer, and words read. It
// takes some microseconds at most.
#define SEARCH_BYTES 16384
#define SEARCH_LOADS 6000

bool sampler_registers(const void *context, struct walk *w)
{
    const ucontext_t *u = context;
#if defined(__x86_64__)
    w->pc = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
    w->fp = (uint64_t)u->uc_mcontext.gregs[REG_RBP];
    w->sp = (uint64_t)u->uc_mcontext.gregs[REG_RSP];
    return true;
#elif defined(__aarch64__)
    w->pc = u->uc_mcontext.pc;
    w->fp = u->uc_mcontext.regs[29];
    w->sp = u->uc_mcontext.sp;
    return true;
#else
    (void)u;
    (void)w;
    return false;
#endif
}

// Copies words of the stack from `at`; returns how many could be read. Sanitizers are off: red
// zones and words that another handler left behind are read as they are. Volatile, because the
// compiler must not turn the loop into a call of memcpy, which sanitizers replace by one of theirs.
__attribute__((no_sanitize("address"))) __attribute__((no_sanitize("thread"))) static uint32_t load(
    const struct walk *w, uint64_t at, uint64_t *words, uint32_t n)
{
    if (w->high) {
        if (at < w->sp || at >= w->high || at % sizeof *words) return 0;
        uint32_t have = (uint32_t)MIN((w->high - at) / sizeof *words, n);
        const volatile uint64_t *from = (const volatile uint64_t *)at;  // NOLINT: an address
        volatile uint64_t *to = words;
        for (uint32_t i = 0; i < have; i++)
            to[i] = from[i];
        return have;
    }
    if (at < w->sp || at % sizeof *words) return 0;
    struct iovec to = {.iov_base = words, .iov_len = n * sizeof *words};
    struct iovec from = {.iov_base = (void *)at, .iov_len = to.iov_len};  // NOLINT: an address
    ssize_t got = process_vm_readv(w->process, &to, 1, &from, 1, 0);
    return got > 0 ? (uint32_t)((size_t)got / sizeof *words) : 0;
}

static void put(struct trace *t, uint64_t fp, uint64_t return_address)
{
    assert(t->depth < SAMPLER_DEPTH_MAX);
    t->pcs[t->depth] = return_address - 1;
    t->frames[t->depth] = (uint32_t)(fp - t->sp);
    t->depth++;
}

// Adds the callers of the frame at fp, until the chain ends.
static enum sample_end follow(const struct walk *w, uint64_t fp, struct trace *t)
{
    for (;;) {
        uint64_t record[RECORD_WORDS];
        if (w->outermost && fp == w->outermost) return SAMPLE_WHOLE;
        if (load(w, fp, record, RECORD_WORDS) < RECORD_WORDS || record[1] == 0) return SAMPLE_LOST;
        if (t->depth == SAMPLER_DEPTH_MAX) return SAMPLE_DEEP;
        put(t, fp, record[1]);
        if (record[0] == 0) return SAMPLE_WHOLE;  // how the ABI marks the first frame
        if (record[0] <= fp) return SAMPLE_LOST;  // stacks grow downward: callers lie above
        fp = record[0];
    }
}

// Does the chain from fp reach the outermost frame? Counts the words that it reads down in *budget.
static bool leads_out(const struct walk *w, uint64_t fp, uint32_t *budget)
{
    assert(w->outermost);
    while (fp != w->outermost) {
        uint64_t next = 0;
        if (*budget == 0) return false;
        *budget -= 1;
        if (load(w, fp, &next, 1) == 0 || next <= fp) return false;
        fp = next;
    }
    return true;
}

// A function that uses the frame pointer's register for something else has saved it on the stack.
// Returns the innermost frame that such a word names; 0 if there is none.
static uint64_t search(const struct walk *w)
{
    uint32_t budget = SEARCH_LOADS;
    assert(w->high && w->outermost);
    uint64_t best = MIN(w->outermost, w->sp + SEARCH_BYTES);
    uint64_t found = 0;
    for (uint64_t at = w->sp; at < best && budget > 0; at += sizeof at) {
        uint64_t fp = 0;
        budget--;
        if (load(w, at, &fp, 1) == 0) break;
        if (fp <= at || fp >= (found ? found : w->high)) continue;
        if (!leads_out(w, fp, &budget)) continue;
        found = fp;
        best = MIN(best, found);
    }
    return found;
}

void sampler_walk(const struct walk *w, struct trace *t)
{
    t->sp = w->sp;
    t->fp = w->fp;
    t->rooted = w->outermost != 0;
    t->top_words = load(w, w->sp, t->top, SAMPLER_TOP_WORDS);
    t->pcs[0] = w->pc;
    t->frames[0] = 0;
    t->depth = 1;
    t->end = follow(w, w->fp, t);
    t->second = t->depth;
    if (t->end != SAMPLE_LOST || !w->high || !w->outermost) return;
    uint64_t fp = search(w);
    if (fp && follow(w, fp, t) == SAMPLE_LOST) t->depth = t->second;
}
