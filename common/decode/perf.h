// SPDX-License-Identifier: Apache-2.0
//
// perf.h - the text that `perf script` prints, as collapsed stacks. Pure.
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
#pragma once

#include "base/arena.h"
#include "base/buf.h"

struct perf_facts {
    str event;  // of the first sample; borrows from the text
    uint64_t samples;
    uint64_t samples_of_others;
};

// Whether the text begins like the output of `perf script`.
bool perf_is_script(str text);

// Adds a line "stack count" for each stack, in the order in which they come first. Memory is the
// arena's until it is released. Fails with invalid_argument: no sample; resource_exhausted: the
// caps of arena or buf, or a text of more than 2 GiB.
bool perf_collapse(struct arena *a, str text, struct buf *out, struct perf_facts *facts,
                   err *e) MUST_CHECK;
