// SPDX-License-Identifier: Apache-2.0
//
// sampler_int.h - private to sampler*.c: the walk and the queue, both for use in a signal handler.
#pragma once

#include "sys/sampler.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

struct walk {
    uint64_t pc;
    uint64_t fp;
    uint64_t sp;
    uint64_t high;       // end of the stack; 0: unknown, read through the kernel
    uint64_t outermost;  // frame address whose frame ends the chain; 0: unknown
    pid_t process;
};

// The memory of a sample in the queue; the fields are those of struct sample.
struct trace {
    uint64_t sp;
    uint64_t fp;
    uint32_t depth;
    uint32_t second;
    enum sample_end end;
    bool rooted;
    uint32_t top_words;
    uint64_t pcs[SAMPLER_DEPTH_MAX];
    uint32_t frames[SAMPLER_DEPTH_MAX];
    uint64_t top[SAMPLER_TOP_WORDS];
};

void sampler_walk(const struct walk *w, struct trace *t);

// Takes pc, fp and sp out of the context of a signal handler. False on an unknown processor.
bool sampler_registers(const void *context, struct walk *w);

// ---- the queue: any number of handlers put, one reader takes; a full queue refuses

struct cell {
    // 2 * round: free for this round; 2 * round + 1: filled. Zeroed memory is an empty queue.
    _Atomic uint64_t turn;
    uint32_t component;
    uint32_t weight;
    struct trace trace;
};

struct queue {
    struct cell *cells;
    uint64_t size;  // a power of two
    _Atomic uint64_t tail;
    uint64_t head;  // the reader's
};

// A cell that is the caller's until queue_publish; NULL when the queue is full. *at is for publish.
struct cell *queue_claim(struct queue *q, uint64_t *at);
void queue_publish(struct queue *q, uint64_t at);

// The oldest filled cell, the reader's until queue_pop; NULL when there is none.
const struct cell *queue_peek(const struct queue *q);
void queue_pop(struct queue *q);
