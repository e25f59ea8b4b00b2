// SPDX-License-Identifier: Apache-2.0
//
// firefox_int.h - a profile of the Firefox Profiler as it was read, before it is a tree. Private to
// firefox.c and firefox_read.c.
//
// Two formats have the same tables. The processed one has a list for each column, and its frames
// name functions. Gecko's has a list for each row, whose order is its schema's, and its frames have
// one text, the location. Threads of newer processed profiles share their tables.
#pragma once

#include "decode/json_lists.h"

struct fx_tables {
    struct json_strings strings;
    struct json_ints stack_frame;
    struct json_ints stack_prefix;
    struct json_ints frame_func;
    struct json_ints frame_address;
    struct json_ints frame_location;  // Gecko
    struct json_ints func_name;
    struct json_ints func_file;
    struct json_ints func_source;
    struct json_ints func_line;
    struct json_ints func_resource;
    struct json_ints resource_lib;
    struct json_ints resource_name;
    struct json_ints source_file;
};

struct fx_lib {
    str name;
    uint64_t start;
    uint64_t end;
};

struct fx_libs {
    struct fx_lib *v;
    size_t n;
    size_t cap;
};

struct fx_thread {
    size_t process;
    str name;
    str pid;
    str weight_type;
    struct fx_tables tables;
    struct fx_libs libs;
    struct json_ints stacks;  // of samples
    struct json_doubles weights;
    struct json_doubles cpu;
};

// Gecko nests the profiles of other processes.
struct fx_process {
    size_t parent;
    double interval_ms;
    str cpu_unit;
    struct fx_libs libs;
    struct fx_tables shared;
    bool has_threads;
};

// A profile that is a string of another.
struct fx_text {
    str text;
    size_t parent;  // process
};

struct fx {
    struct arena *a;
    struct json_reader json;
    struct fx_process *processes;
    size_t process_count;
    size_t process_cap;
    struct fx_thread *threads;
    size_t thread_count;
    size_t thread_cap;
    struct fx_text *texts;
    size_t text_count;
    size_t text_cap;
};

bool fx_read(struct fx *f, str bytes, err *e) MUST_CHECK;
