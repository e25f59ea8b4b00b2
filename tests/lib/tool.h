// SPDX-License-Identifier: Apache-2.0
//
// tool.h - what a decoder of decode/tools.def makes of a text, as a line:
//
//     samples/count,wall/nanoseconds: [pid=7] main;work=3,300 main=1,100 | unknown_stack=1
//
// Types; then each sample with its labels, root first; then losses. An expected line that begins
// with '!' is a part of the fault. Inputs end at an unreadable page, and every profile is written
// as pprof and read again.
#pragma once

#include "decode/tools.h"
#include "lib/test.h"

struct tool_case {
    const char *text;
    const char *expected;
};

void tool_check_cases(tool_decoder *decode, const struct tool_case *cases, size_t n);

// The line of one text with `n` bytes; true if it is as expected.
void tool_check(tool_decoder *decode, str text, const char *expected);
