// SPDX-License-Identifier: Apache-2.0
//
// sampler_names_int.h - what the files of sampler_names share.
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "sys/sampler_names.h"

#include <elfutils/libdwfl.h>

#define NO_MODULE UINT32_MAX

enum rule_kind {
    RULE_UNKNOWN,  // no unwind table, or more than a register and a distance
    RULE_FRAME,    // the frame pointer is this function's
    RULE_STACK     // the caller's frame begins `distance` words above the stack pointer
};

// How to find the caller of a frame that is at some pc. x86-64: the return address is the last word
// below the caller's frame.
struct unwind_rule {
    enum rule_kind kind;
    uint32_t distance;  // words
    uint32_t saved;  // words below the caller's frame: its frame pointer; 0: still in the register
};

struct pc_row {
    uint64_t pc;
    uint32_t module;
    uint32_t first;  // of lines
    uint32_t count;
    bool located;  // lines are known
    bool ruled;    // rule is known
    struct unwind_rule rule;
};

// Functions of one file by address; libdw's own look-up goes through all symbols each time.
struct symbol_span {
    uint64_t begin;
    uint64_t end;
    uint32_t preference;  // among those that begin at one address: the lowest
    int number;           // for dwfl_module_getsym
};

struct symbol_spans {
    struct symbol_span *v;  // sorted by begin
    size_t n;
    size_t cap;
    bool read;
};

struct sampler_names {
    struct mem_budget *memory;
    size_t cap;
    Dwfl *dwfl;
    uint64_t reported_mono_ns;
    struct map pcs;
    struct pc_row *rows;
    size_t row_count;
    size_t row_cap;
    struct sampler_line *lines;
    size_t line_count;
    size_t line_cap;
    struct map names;
    struct sampler_function *functions;
    size_t function_count;
    size_t function_cap;
    struct arena texts;
    struct sampler_module *modules;
    size_t module_count;
    size_t module_cap;
    struct symbol_spans *symbols;  // by module
    size_t symbols_cap;
    struct arena module_texts;
};

// The row of a pc, made if need be; NULL and *e set when it does not fit.
struct pc_row *names_row(struct sampler_names *n, uint64_t pc, err *e) MUST_CHECK;

// The module that holds a pc, or NULL.
Dwfl_Module *names_module(struct sampler_names *n, uint64_t pc);

// sampler_demangle.cc: a C++ name as in its source, malloc'd; NULL if `linked` is not one.
char *sampler_demangle(const char *linked);
