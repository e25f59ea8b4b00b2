// SPDX-License-Identifier: Apache-2.0
//
// sampler_names.h - from program counters of this process to functions, files and lines.
//
// Reads the ELF files that /proc/self/maps names, through libdw: symbol tables, and where there is
// debug information, lines and inlined functions. Separate debug files are looked for by build id
// below /usr/lib/debug and nowhere else, never on the network. C++ names are demangled. What was
// found is remembered, up to a cap, then forgotten as a whole. Owned by one thread at a time; not
// in a signal handler.
#pragma once

#include "base/mem.h"
#include "base/str.h"
#include "sys/sampler.h"

struct sampler_names;

struct sampler_function {
    str name;    // demangled
    str linked;  // as the linker knows it
    str file;    // empty: unknown
};

struct sampler_line {
    uint32_t function;  // for sampler_names_function
    uint32_t line;      // 0: unknown
};

// One pc: its functions, innermost (inlined) first. count 0: no symbol covers it. Numbers stay
// valid until sampler_names_trim.
struct sampler_place {
    const struct sampler_line *lines;
    uint32_t count;
    uint32_t module;  // for sampler_names_module; UINT32_MAX: not in any ELF file
};

struct sampler_module {
    str file;
    str build_id;  // hexadecimal; empty: none
    uint64_t begin;
    uint64_t end;
    uint64_t offset;  // of begin in the file
};

// Memory counts against `memory` (what libdw itself allocates does not); places up to `cap`.
struct sampler_names *sampler_names_new(struct mem_budget *memory, size_t cap, err *e) MUST_CHECK;
void sampler_names_free(struct sampler_names *n);

// Looks a pc up. Fails with resource_exhausted; then trim and ask again.
bool sampler_names_find(struct sampler_names *n, uint64_t pc, struct sampler_place *place,
                        err *e) MUST_CHECK;
const struct sampler_function *sampler_names_function(const struct sampler_names *n,
                                                      uint32_t function);
const struct sampler_module *sampler_names_module(const struct sampler_names *n, uint32_t module);

// The number of functions and modules that are remembered: all numbers handed out are below.
uint32_t sampler_names_function_count(const struct sampler_names *n);
uint32_t sampler_names_module_count(const struct sampler_names *n);

// Forgets everything if more than the cap is remembered; numbers and texts become invalid.
void sampler_names_trim(struct sampler_names *n);

// Puts the callers back that code without frame pointers hid from the handler: follows unwind
// tables from the innermost frame through the sample's copy of the stack until it meets a function
// that keeps a frame pointer, and goes on with the handler's chain there. Writes at most
// SAMPLER_DEPTH_MAX pcs; returns their number and sets *end. Return addresses outside of all code
// end the stack as SAMPLE_LOST.
uint32_t sampler_names_repair(struct sampler_names *n, const struct sample *s, uint64_t *pcs,
                              enum sample_end *end);
