// SPDX-License-Identifier: Apache-2.0
//
// sampler.h - profiles this process: each thread takes samples of its own stack.
//
// Each thread has a timer on its own CPU clock, which sends it SIGPROF every 1/hz seconds of CPU
// time that it uses; an idle thread is never interrupted. The handler walks frame pointers and puts
// one sample into a queue that all threads share; a collector takes them out:
//
//     thread, in the handler                         collector
//     claim a cell, fill it, publish it   -> queue ->   sampler_read(): add up by stack
//     no free cell: count it as dropped                 sampler_names: pc -> functions (libdw)
//
// The handler allocates nothing, takes no lock and reads only its own thread's stack between the
// interrupted stack pointer and the stack's upper end, upward and aligned, at most
// SAMPLER_DEPTH_MAX frames. So any value that a library left in the frame pointer is harmless.
// Threads of thread.h are known from birth, with name and stack. sampler_scan finds those that
// libraries started; their bounds are unknown, so their stacks are read through the kernel
// (process_vm_readv), which refuses bad addresses.
//
// Code without frame pointers (libc, most libraries) breaks the chain or hides callers. Only its
// unwind tables have the truth, and no handler can read them. So a sample carries the data to
// repair it outside the handler (sampler_names.h): the top of the stack, and, if the chain broke, a
// second chain, found by searching for saved frame pointers that lead to the thread's first
// function. Stacks that cannot be repaired end as SAMPLE_LOST.
//
// Life of a process: sampler_start and sampler_stop may alternate; the handler and the queue stay
// for good once they exist, because a signal may still be on its way. SIGPROF belongs to this file.
// Calls that SA_RESTART does not restart (poll, epoll_wait) may return EINTR more often than
// without.
#pragma once

#include "base/err.h"

#define SAMPLER_DEPTH_MAX 128
#define SAMPLER_TOP_WORDS 256  // of the stack, from the interrupted stack pointer upward
#define SAMPLER_HZ_MAX    1000

enum sample_end {
    SAMPLE_WHOLE,  // the outermost pc is in the thread's first function
    SAMPLE_LOST,   // the chain of frame pointers broke before that
    SAMPLE_DEEP    // more than SAMPLER_DEPTH_MAX frames; the outer ones are missing
};

struct sample {
    const char *component;  // name of the thread without trailing digits; never freed
    uint32_t weight;        // periods of CPU time that it stands for, at least 1
    uint32_t depth;
    // Innermost first. The first is the interrupted pc, the others are return addresses - 1. The
    // chain from the interrupted frame pointer is [0, second), and ends as `end` says; [second,
    // depth) is another chain that is whole but may begin in a frame that is no longer alive.
    const uint64_t *pcs;
    const uint32_t *frames;  // where each return address was: frame pointer - sp; the first is 0
    uint32_t second;
    enum sample_end end;
    bool rooted;  // a whole chain ends in the function that called the thread's own one
    uint64_t sp;
    uint64_t fp;
    const uint64_t *top;  // words of the stack from sp upward
    uint32_t top_words;
};

struct sampler_stats {
    uint64_t taken;      // samples put into the queue since the process began
    uint64_t dropped;    // found it full
    uint64_t refused;    // threads that got no timer (a limit of the system), counted once each
    uint32_t threads;    // that have a timer now
    uint32_t libraries;  // of these, found by sampler_scan
};

// Starts timers of all known threads, and of those to come. hz in [1, SAMPLER_HZ_MAX]; the first
// one decides how large the queue is for good. Fails with unavailable when the system refuses the
// handler or every timer, failed_precondition when running.
bool sampler_start(unsigned hz, err *e) MUST_CHECK;

// Ends all timers; afterwards no sample is added. Harmless when not running.
void sampler_stop(void);

// Calls fn for every waiting sample, oldest first; its pointers are valid during the call. Returns
// the number of samples. One thread at a time.
size_t sampler_read(void (*fn)(void *ctx, const struct sample *s), void *ctx);

// Looks for threads that libraries started or that ended. Reads /proc/self/task; call it every few
// seconds while running. Not in the handler; any one thread.
void sampler_scan(void);

void sampler_stats(struct sampler_stats *s);  // any thread

// ---- for thread.c: the calling thread begins and ends. `outermost` is the frame address of the
// function that calls the thread's own one; a chain that reaches it is whole.
void sampler_thread_begin(const char *name, const void *outermost);
void sampler_thread_end(void);
