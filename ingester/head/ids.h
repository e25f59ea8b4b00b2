// SPDX-License-Identifier: Apache-2.0
//
// ids.h - which profiles a service already has: a set of (series, profile id).
//
// The series is part of the key because all sample types of a profile carry its id. Open
// addressing, at most 3/4 full. As with rows.h, room is promised first, so that putting cannot
// fail. The owner's lock covers it.
#pragma once

#include "base/mem.h"
#include "base/ulid.h"

struct id_slot {
    id128 id;
    uint32_t series;  // + 1; 0 = free
};

struct ids {
    struct id_slot *slots;
    size_t size;  // a power of two, or 0
    size_t n;
    size_t promised;
};

bool ids_promise(struct ids *s, struct mem_budget *b, size_t n, err *e) MUST_CHECK;
void ids_forgive(struct ids *s, size_t n);

bool ids_has(const struct ids *s, uint32_t series, id128 id);

// Uses one promise. False if the key was there.
bool ids_put(struct ids *s, uint32_t series, id128 id);

void ids_remove(struct ids *s, uint32_t series, id128 id);  // if it is there

void ids_release(struct ids *s, struct mem_budget *b);
