// SPDX-License-Identifier: Apache-2.0
//
// ownerless.h - when a registered stream has no owner any more, and whose turn it is to adopt it.
// Pure: times are arguments.
//
//     a process answers                     it is not silent
//     it does not answer for 15 s           its streams are ownerless
//     30 s later, 60 s later, ...           another ingester's turn: the one that comes next in the
//                                           order of the stream (cluster/place.h)
//
// Silence is counted only while this process looks: one that was stopped itself, or had no
// processor, has seen nothing of what the others did meanwhile. And who reaches less than half of
// the ingesters is probably the one that is cut off, so it adopts nothing.
#pragma once

#include "base/err.h"
#include "base/ulid.h"
#include "cluster/member.h"

#define OWNERLESS_NS (INT64_C(15) * 1000000000)  // so long a process was silent
#define TURN_NS      (INT64_C(30) * 1000000000)  // then each ingester has its turn

// One look at a process.
struct sighting {
    id128 boot;
    int64_t age_ns;  // of its last answer; INT64_MAX: none is known
};

struct silence {
    id128 boot;
    int64_t ns;  // so long it has been silent
    bool met;    // and it has answered before
};

struct silences {
    struct silence *v;
    size_t n;
    size_t cap;
    uint64_t looked_mono_ns;  // 0: never
};

void silences_release(struct silences *s);  // idempotent

// Takes a look at these processes, each once. Others are forgotten. Fails for lack of memory; then
// nothing has changed.
bool silences_look(struct silences *s, const struct sighting *v, size_t n, uint64_t mono_ns,
                   err *e) MUST_CHECK;

// Whether it answered within OWNERLESS_NS, by the looks so far and the time since the last one.
bool silence_is_short(const struct silences *s, const struct silence *row, uint64_t mono_ns);

// How long a process has been silent; 0 for one that is not known.
int64_t silences_of(const struct silences *s, id128 boot);

// How many living ingesters come before `self` in the order of the stream. Members that are dead or
// unready are not counted. Returns MEMBERS' number if self is not among them.
size_t ownerless_rank(const struct member *members, size_t n, str self, id128 stream,
                      uint32_t *scratch);

// Whether it is the turn of who has this rank, after a silence of the owner.
bool ownerless_is_due(int64_t silent_ns, size_t rank);

// Whether who reaches so many ingesters, itself included, may adopt.
bool ownerless_may(size_t reached, size_t members);
