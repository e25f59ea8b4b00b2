// SPDX-License-Identifier: Apache-2.0
//
// sampler_names.h - from program counters of this process to functions, files and lines.
//
// Reads the ELF files that /proc/self/maps names, through libdw: symbol tables, and where there is
// debug information, lines and inlined functions. If the program's own was split off, it is looked
// for by build id below /usr/lib/debug; never on the network, and not for libraries, because libdw
// keeps it in memory. C++ names are demangled. What was found is remembered, up to a cap, then
// forgotten as a whole. Owned by one thread at a time; not in a signal handler.
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

// One pc: its functions, innermost (inlined) first. Where no symbol covers it the function is the
// file in brackets, such as "[librocksdb.so.7.8]"; count 0: not in any file. Numbers stay valid
// until sampler_names_trim.
struct sampler_place {
    const struct sampler_line *lines;  // until the next look-up
    uint32_t count;
    uint32_t module;  // for sampler_names_module; UINT32_MAX: not in any ELF file
};

struct sampler_module {
    str file;
    str build_id;  // hexadecimal; empty: none
    uint64_t begin;
    uint64_t end;
};

// Memory counts against `memory` (what libdw itself allocates does not). `cap`: places that are
// remembered.
struct sampler_names *sampler_names_new(struct mem_budget *memory, size_t cap, err *e) MUST_CHECK;

// Reads symbols and debug information of all files now (some tens of ms), instead of when their
// first pc is looked up: later an upgrade may have replaced them.
void sampler_names_load(struct sampler_names *n);
void sampler_names_free(struct sampler_names *n);

// Looks a pc up. Fails with resource_exhausted; then trim and ask again.
bool sampler_names_find(struct sampler_names *n, uint64_t pc, struct sampler_place *place,
                        err *e) MUST_CHECK;
const struct sampler_function *sampler_names_function(const struct sampler_names *n,
                                                      uint32_t function);
const struct sampler_module *sampler_names_module(const struct sampler_names *n, uint32_t module);

// All numbers handed out are below these.
uint32_t sampler_names_function_count(const struct sampler_names *n);
uint32_t sampler_names_module_count(const struct sampler_names *n);

// Forgets all places and functions if there are more than the cap, or if `all`; their numbers and
// texts become invalid. Modules stay.
void sampler_names_trim(struct sampler_names *n, bool all);

// Puts the callers back that code without frame pointers hid from the handler: follows unwind
// tables from the innermost frame through the sample's copy of the stack until it meets a function
// that keeps a frame pointer, and goes on with the handler's chain there. Where callers are missing
// between frames that are known, a pc is SAMPLE_GAP. Return addresses outside of all code end the
// stack as SAMPLE_LOST. Writes at most SAMPLER_DEPTH_MAX pcs; returns their number and sets *end.
#define SAMPLE_GAP 0
uint32_t sampler_names_repair(struct sampler_names *n, const struct sample *s, uint64_t *pcs,
                              enum sample_end *end);
