// SPDX-License-Identifier: Apache-2.0
//
// frame_name.h - the name by which a frame is shown, for frames of every kind.
//
//     function with a name               its name
//     function with only a system name   that name
//     address, and mapping with a file   libc.so.6!0x1234     the last part of the file's path
//     address alone                      0x1234
//     mapping with a file alone          [libc.so.6]          [vdso] keeps its own brackets
//     nothing of these                   [unknown]            so is the empty stack
//
// So every frame is a node, and no value disappears from a tree. Names are made when a question is
// answered: tables and blocks keep address and mapping, so that real names can come later. Frames
// of one name are one node, whatever made the name. Pure.
#pragma once

#include "model/symbols.h"

// Of a longer last part the first bytes are shown, whole characters.
#define FRAME_NAME_FILE_MAX 255
#define FRAME_NAME_MAX      (FRAME_NAME_FILE_MAX + 20)  // and "!0x", 16 digits

// A name without a function: it is written into `room`, or is a constant.
str frame_name_made(str mapping_file, uint64_t address, char room[static FRAME_NAME_MAX]);

// The name of a frame: a string of the table, or as frame_name_made has it. `room` is written only
// for frames that have no name in the table (frame_name_row is 0).
str frame_name(const struct symbol_table *t, uint32_t frame, char room[static FRAME_NAME_MAX]);

// The row of the string that names the frame; 0 if its name must be made. (A table that came over
// the wire may have an empty string in another row than 0.)
static inline uint32_t frame_name_row(const struct symbol_table *t, uint32_t frame)
{
    const struct symbol_function *f = &t->functions[t->frames[frame].function];
    if (t->strings[f->name].n > 0) return f->name;
    return t->strings[f->system_name].n > 0 ? f->system_name : 0;
}

bool frame_name_is(const struct symbol_table *t, uint32_t frame, str name);
