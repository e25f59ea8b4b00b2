// SPDX-License-Identifier: Apache-2.0
//
// past.h - ids of profiles that went to the object store a short while ago.
//
// A client that did not see the answer to its push sends it again. What the head has it knows by
// its ids; what was flushed meanwhile would count twice until compaction finds it. So ids stay for
// PAST_NS after their rows went, in two generations: new ones go to the young one; when that is
// PAST_NS old, or has its share of the memory, it becomes the old one and what that had is
// forgotten. An end of the process forgets all.
//
// From any thread; a lock of its own, which is taken last.
#pragma once

#include "base/mem.h"
#include "model/loose.h"

#include <pthread.h>

#define PAST_NS ((uint64_t)1800 * 1000000000)

struct past_ids {
    struct past_slot *slots;  // a power of two of them
    size_t size;
    size_t n;
    uint64_t since_ns;  // monotonic
};

struct past {
    pthread_rwlock_t lock;
    struct mem_budget *budget;
    struct past_ids young;
    struct past_ids old;
};

void past_init(struct past *p, struct mem_budget *budget);
void past_release(struct past *p);

// Remembers a row; what there is no memory for is forgotten. most: bytes that one generation may
// take.
void past_add(struct past *p, str tenant, struct loose_key key, size_t most);
bool past_has(struct past *p, str tenant, struct loose_key key);
