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
// Fields may be missing (--fields of perf script), but a sample needs its pid, and event or time,
// and a frame two of three or the address. A pid without a command is the root.
//
// Names are as stackcollapse-perf.pl --all makes them, which people know from flamegraph.pl. The
// command is the root. Offsets and arguments are removed. A frame that perf prints as "[unknown]"
// gets the name of its file. "_[k]" follows kernel frames, "_[j]" frames of a JIT, "_[i]" inlined
// ones. Each sample counts 1, whatever its period. Samples of another event than the first one are
// left out and counted. A stack of more than 60,000 bytes loses its leaves and ends in "[truncated
// stack]".
//
// Each sample has the labels `comm`, the command as it is, and `pid`. Where perf prints one number
// it may be a thread's (the default of perf) or a process's (--fields pid), which the text does not
// tell: it is the pid. Of "pid/tid" it is the first.
#pragma once

#include "base/str.h"

// Whether the text begins like the output of `perf script`.
bool perf_is_script(str text);
