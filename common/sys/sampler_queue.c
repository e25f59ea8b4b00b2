// SPDX-License-Identifier: Apache-2.0
//
// sampler_queue.c - a ring of samples that the handlers of all threads fill and the collector
// empties, without a lock.
#include "sys/sampler_int.h"

// When handlers of several threads want the same cell, one gets it and the others try the next. The
// limit is never reached in practice; but a signal handler must end in any case.
#define TRIES 64

struct cell *queue_claim(struct queue *q, uint64_t *at)
{
    assert(q->size > 0 && (q->size & (q->size - 1)) == 0);
    uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    for (int i = 0; i < TRIES; i++) {
        struct cell *c = &q->cells[tail & (q->size - 1)];
        uint64_t free = 2 * (tail / q->size);
        // Acquire: the reader's last reads of this cell came before its release in queue_pop.
        uint64_t turn = atomic_load_explicit(&c->turn, memory_order_acquire);
        if (turn < free) return NULL;  // filled a round ago and not yet read
        if (turn > free) {
            tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&q->tail, &tail, tail + 1,
                                                         memory_order_relaxed,
                                                         memory_order_relaxed)) {
            *at = tail;
            return c;
        }
    }
    return NULL;
}

void queue_publish(struct queue *q, uint64_t at)
{
    struct cell *c = &q->cells[at & (q->size - 1)];
    // Release: the sample is written before the reader sees the cell filled.
    atomic_store_explicit(&c->turn, 2 * (at / q->size) + 1, memory_order_release);
}

const struct cell *queue_peek(const struct queue *q)
{
    const struct cell *c = &q->cells[q->head & (q->size - 1)];
    uint64_t turn = atomic_load_explicit(&c->turn, memory_order_acquire);
    return turn == 2 * (q->head / q->size) + 1 ? c : NULL;
}

void queue_pop(struct queue *q)
{
    struct cell *c = &q->cells[q->head & (q->size - 1)];
    assert(atomic_load_explicit(&c->turn, memory_order_relaxed) == 2 * (q->head / q->size) + 1);
    atomic_store_explicit(&c->turn, 2 * (q->head / q->size) + 2, memory_order_release);
    q->head++;
}
