// SPDX-License-Identifier: Apache-2.0
//
// relief.h - closes the open cut early when the head fills up, so that a flush makes room.
//
// A cut closes by its bytes in the log, or by its age. Neither says what its rows take of the head:
// profiles with thousands of small series take twenty times of it what they take of the log. A head
// that is full of an open cut would refuse pushes until that is old enough.
//
//     of head_memory    0 -------------- 3/4 --------- 7/8 --------- 1
//                       a cut closes by  the open cut  a tenant      nothing
//                       size and age     closes        beyond its    fits
//                                                      share gets
//                                                      no more (head.h)
//
// At three quarters a drop makes readers wait (flush.c), for the same reason, and what comes while
// the cut is on its way has a quarter of the head. The same holds for the memory of the process,
// where that is short of what the head would need for this, once the head has a quarter of its own:
// flushing less would make no room worth its segments.
//
// Tiny cuts would make many segments. So none closes early while closed cuts wait for the store,
// since either these make the room, or the store fails and nothing does. Nor does one within
// RELIEF_REST_NS of the last one: then what fills the head is not what is in the open cut.
//
// Pushes look and wake the duty thread, which does the rest.
#pragma once

#include "base/base.h"

#include <stdatomic.h>

#define RELIEF_REST_NS (UINT64_C(10) * 1000000000)

struct ingester;

struct relief {
    _Atomic uint64_t not_before_mono_ns;
};

// Is a head of so many bytes short of room? limit: its own; room: what it may still take, as all
// limits allow.
bool relief_is_short(size_t used, size_t limit, size_t room);

// After a push, whatever became of it. Any thread.
void relief_look(struct ingester *in);

// Closes the open cut if that is due. The duty thread, while the log is open.
void relief_tick(struct ingester *in);
