// SPDX-License-Identifier: Apache-2.0
//
// rate.h - the rate that the head of a text states. Private to this room.
//
// Programs write it in many forms, so it is found by its words, wherever they are in a line:
//
//     # interval: 5ms      # interval=5000us      # async-profiler event=cpu,interval=5ms
//     # sample rate: 199   # sampling frequency 199 Hz     # command: py-spy record --rate 199
//     # austin: 3.6.0, # interval: 100, # mode: wall       whose counts are microseconds
#pragma once

#include "base/str.h"

struct rate {
    int64_t period_ns;  // of a sample; 0: not said
    bool is_austin;
};

// Reads one line of a head. The first rate that is said counts.
void rate_read(struct rate *r, str line);
