// SPDX-License-Identifier: Apache-2.0
//
// text.h - numbers, times and label sets as Pyroscope's messages print them.
#pragma once

#include "base/buf.h"
#include "model/label.h"

#define TEXT_MAX 64

// 4194304 -> "4.2 MB": powers of 1000, one decimal below 10.
const char *text_bytes(char text[TEXT_MAX], uint64_t n);

// 4194304 -> "4.0 MiB": powers of 1024.
const char *text_ibytes(char text[TEXT_MAX], uint64_t n);

// Unix seconds -> "2030-03-17T17:46:40Z".
const char *text_rfc3339(char text[TEXT_MAX], int64_t unix_s);

// Unix milliseconds -> "2023-02-17 13:13:14.5 +0000 UTC".
const char *text_time(char text[TEXT_MAX], int64_t unix_ms);

// A label set for a message, with long names and values cut; a string of the arena.
const char *text_labels(struct arena *a, labels ls);

// Bytes of a name or value that a message shows.
#define TEXT_SHOWN 200
static inline str text_shown(str s)
{
    return str_slice(s, 0, TEXT_SHOWN);
}
