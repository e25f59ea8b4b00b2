// SPDX-License-Identifier: Apache-2.0
//
// perf.h - the text that `perf script` prints. Pure. decode_perf is in decode.h.
//
//     # comments
//     command pid[/tid] [cpu] seconds.micros: [period] event:
//             address symbol+0xoffset (file)          leaf first
//             address symbol+0xoffset (file)
//     (empty line)
//
// Fields may be missing (--fields of perf script): a sample without event and time, or without its
// pid, is one that follows an empty line and has a frame in the next; a text of frames alone has a
// sample between two empty lines, or, of a recording without stacks, on each line. A frame needs
// two of three, or the address. A pid without a command is the root.
//
// Names are as stackcollapse-perf.pl --all makes them, which people know from flamegraph.pl. The
// command is the root. Offsets and arguments are removed. A frame that perf prints as "[unknown]"
// gets the name of its file. "_[k]" follows kernel frames, "_[j]" frames of a JIT, "_[i]" inlined
// ones. A stack of more than 60,000 bytes loses its leaves and ends in "[truncated stack]".
//
// Each event has its own profile, since counts of cycles and of page faults must not be added up:
//
//     cpu-clock, task-clock    samples/count and cpu/nanoseconds: the sum of the periods
//     cycles, or none          samples/count; profile.period is what the head (perf script
//     --header)
//                              says of the rate
//     another, page-faults     page_faults/count: the sum of the periods, or of the samples
//
// Each sample has the labels `comm`, the command as it is, and `pid`. Where perf prints one number
// it may be a thread's (the default of perf) or a process's (--fields pid), which the text does not
// tell: it is the pid. Of "pid/tid" it is the first.
#pragma once

#include "base/str.h"

// Whether the text begins like the output of `perf script`.
bool perf_is_script(str text);
