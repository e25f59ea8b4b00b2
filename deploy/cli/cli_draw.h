// SPDX-License-Identifier: Apache-2.0
//
// cli_draw.h - flame graphs and tables as lines of a terminal. Pure.
#pragma once

#include "deploy/cli/cli_flame.h"
#include "deploy/cli/cli_text.h"

struct draw_unit {
    enum text_unit unit;
    double factor;  // multiplies a value to give it in that unit
};

// Bars under each other, the root on top: as wide as its share, with name, share and value where
// they fit. At most `depth` levels (0: all); bars narrower than a column are left out.
void draw_flame(struct buf *b, const struct flame *f, const struct text_look *look,
                struct draw_unit unit, uint32_t depth);

// The same as indented lines; nodes below `min` (a share) are left out.
void draw_tree(struct buf *b, const struct flame *f, const struct text_look *look,
               struct draw_unit unit, double min, uint32_t depth);

// Self and total of functions.
void draw_functions(struct buf *b, const struct flame_function *v, size_t n, int64_t total,
                    const struct text_look *look, struct draw_unit unit);

// Values as a line of blocks ("▁▃▇"), scaled to the greatest; NaN is a gap.
void draw_spark(struct buf *b, const double *v, size_t n, double greatest,
                const struct text_look *look);

// A readable name: demangled, if a compiler of C++ or Rust mangled it. In the arena, or the name
// itself. Only for people: output for other programs keeps names as they were pushed.
str draw_readable(struct arena *a, str name);

// The origin of a function's code (its package) as a hue of text_ground.
unsigned draw_hue(str name);

// "github.com/x/y.f" as "y.f".
str draw_short_name(str name);
