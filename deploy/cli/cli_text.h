// SPDX-License-Identifier: Apache-2.0
//
// cli_text.h - text for terminals: widths, cuts, numbers with units, colours. Pure.
//
// Names come from profiles, and so from any client. Characters that control a terminal (control
// characters, escape sequences, marks that turn the direction of writing) and bytes that are not
// UTF-8 are shown as U+FFFD. All text of a server must pass through here on its way to a terminal.
#pragma once

#include "base/buf.h"

enum text_colors {
    TEXT_PLAIN,
    TEXT_16,
    TEXT_256,
    TEXT_TRUE
};

struct text_look {
    unsigned width;  // columns
    enum text_colors colors;
};

// ---- characters

// Takes the next character off s: its bytes, its width in columns (0 to 2), and whether it may be
// shown as it is. False at the end.
struct text_char {
    str bytes;
    unsigned columns;
    bool shown;
};
bool text_next(str *s, struct text_char *c);

// Puts s; or as much of it as fits `columns`, with "…" at the cut. Returns the columns used.
unsigned text_put(struct buf *b, str s);
unsigned text_put_cut(struct buf *b, str s, unsigned columns);
unsigned text_columns(str s);
void text_pad(struct buf *b, unsigned columns);  // spaces

// Text of several lines for a terminal: line ends and tabs stay.
void text_filter(struct buf *b, str s);

// ---- numbers: three significant digits and a unit chosen by size

enum text_unit {
    TEXT_COUNT,
    TEXT_NS,
    TEXT_BYTES,
    TEXT_RATIO  // a number with prefixes for small ones too: 5.60 µ
};
// The unit for a sample unit such as "nanoseconds", "ms" or "bytes", and the factor to convert
// values.
enum text_unit text_unit_of(str sample_unit, double *factor);

#define TEXT_NUMBER_MAX 32
const char *text_value(char out[TEXT_NUMBER_MAX], double v, enum text_unit unit);
const char *text_percent(char out[TEXT_NUMBER_MAX], double share);  // "34.1 %"

// Puts s right-aligned or left-aligned in so many columns.
void text_right(struct buf *b, const char *s, unsigned columns);
void text_left(struct buf *b, str s, unsigned columns);

// A bar of `share` (0 to 1) of so many columns, in eighths, padded.
void text_bar(struct buf *b, double share, unsigned columns);

// ---- colours

enum text_ink {
    INK_DIM,
    INK_STRONG,
    INK_BAR,   // of tables
    INK_LESS,  // of a diff
    INK_MORE,
    INK_FAULT,
    INK_COUNT
};
void text_ink(struct buf *b, enum text_colors colors, enum text_ink ink);
// Dark text on a ground: `hue` 0 .. TEXT_HUES - 1, the last two being library and runtime; shade 0
// .. 2.
#define TEXT_HUES        12u
#define TEXT_HUE_LIBRARY 10u
#define TEXT_HUE_RUNTIME 11u
void text_ground(struct buf *b, enum text_colors colors, unsigned hue, unsigned shade);
void text_reset(struct buf *b, enum text_colors colors);
