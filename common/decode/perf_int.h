// SPDX-License-Identifier: Apache-2.0
//
// perf_int.h - private to perf*.c.
//
//     perf.c         samples to profiles
//     perf_lines.c   what a line is: the head of a sample, or a frame
#pragma once

#include "decode/perf.h"

#define PERF_UNKNOWN     "[unknown]"
#define PERF_IS_DIGIT(c) ((c) >= '0' && (c) <= '9')

struct perf_event {
    str command;  // or the pid, if there is no command
    str pid;      // "123" or "123/124"
    str name;     // empty: the line has none
    str period;   // empty: none
    str rest;     // a frame on the same line, or empty
};

struct perf_frame_text {
    str symbol;
    str file;
};

// Moves to the next line, which comes without its end.
bool perf_next_line(str *rest, str *line);
bool perf_is_empty(str line);

// Whether a line begins a sample: it has a pid, and an event or a time.
bool perf_head(str line, struct perf_event *v);
void perf_loose_head(str line, struct perf_event *v);

// "address symbol+0xoffset (file)"; within a sample also a part of it; without a sample an indented
// address.
bool perf_frame(str line, struct perf_frame_text *f);
bool perf_part_of_frame(str line, struct perf_frame_text *f);
bool perf_bare_frame(str line);

static inline bool perf_is_hex_digit(char c)
{
    return PERF_IS_DIGIT(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static inline size_t perf_digits(str s)
{
    size_t n = 0;
    while (n < s.n && PERF_IS_DIGIT(s.p[n]))
        n++;
    return n;
}
