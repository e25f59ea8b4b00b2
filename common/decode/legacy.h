// SPDX-License-Identifier: Apache-2.0
//
// legacy.h - the profiles that pprof read before it had a protobuf: those of gperftools and of
// jemalloc, and the text that Go's /debug/pprof writes with debug=1 and debug=2. Pure.
//
//     CPU         binary words of 32 or 64 bits in either order, of C++ or Java
//     heap        "heap profile: 1: 8 [2: 16] @ heap/524288", then "1: 8 [2: 16] @ 0x1 0x2";
//     growthz;
//                 "--- heapz 1 ---" of Java; "heap_v2/524288" of jemalloc
//     contention  "--- contentionz 1 ---", "--- mutex:", "--- contention:": "delay count @ 0x1"
//     Go counts   "goroutine profile: total 9", then "9 @ 0x1 0x2"
//     goroutines  "goroutine 1 [running]:" and a stack with names
//     threads     "--- threadz 1 ---", "--- Thread 7f79 (name: main/14748) stack: ---"
//
// Types, values and addresses are those that google/pprof makes of the same file: heaps and
// contentions are scaled up from what was sampled, and an address that was a return address becomes
// the one of its call, one less. Memory maps become mappings. Where a file has names ("#" lines of
// Go, tables of Java, a "--- symbol" section), locations have lines; the
// others are addresses. Of stacks that Go printed with names only the named frames stay, as in Go's
// own pprof.
#pragma once

#include "decode/decode.h"

// Whether the bytes begin like one of these.
bool legacy_is(str bytes);

// One profile; fails as decode.h says. As in pprof, what follows a stack's row and is not known is
// skipped only if it is a comment; any other line is a fault.
bool decode_legacy(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   err *e) MUST_CHECK;
