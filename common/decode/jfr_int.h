// SPDX-License-Identifier: Apache-2.0
//
// jfr_int.h - private to jfr*.c.
//
//     jfr.c         chunks: headers, the order of reading, events
//     jfr_read.c    numbers and texts; values by their type (jfr_run)
//     jfr_types.c   metadata: the classes of a chunk and their programs
//     jfr_pools.c   constant pools: from numbers to symbols, methods, stacks
//     jfr_names.c   names of generated classes and files that differ from run to run
//     jfr_rates.c   settings: what was sampled, and how much time a sample stands for
//     jfr_build.c   events to samples, samples to profiles
//     jfr_labels.c  the agent's labels
//
// A class of the metadata is made into a program: a flat row of steps, one for each number, text or
// array, with the fields of inlined classes in their place. So reading a value needs no recursion,
// takes at least a byte for each step, and ends. A class that contains itself, or is too large,
// is refused when its program is made.
#pragma once

#include "decode/idmap.h"
#include "decode/jfr.h"

#define JFR_HEADER_BYTES 68  // of a chunk

// Bytes that are read one after the other. The first fault moves `at` to the end, so that later
// reads give 0 and loops end; it is asked for once.
struct jfr_cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool compressed;  // numbers are LEB128; else of fixed size, big endian
    const char *fault;
    const uint8_t *fault_at;
};

enum jfr_text_kind {
    JFR_TEXT_NULL = 0,
    JFR_TEXT_EMPTY = 1,
    JFR_TEXT_POOL = 2,
    JFR_TEXT_UTF8 = 3,
    JFR_TEXT_UTF16 = 4,
    JFR_TEXT_LATIN1 = 5
};

// A text as it lies in the recording.
struct jfr_text {
    const uint8_t *p;
    uint64_t n;  // bytes; of JFR_TEXT_POOL the number in the pool of strings
    enum jfr_text_kind kind;
};

// The fields that are looked at. A value that is read goes to its slot.
enum jfr_slot {
    JFR_NOTHING,
    JFR_START,
    JFR_ID,
    JFR_OBJECT,  // the class of the allocated object
    JFR_STACK,
    JFR_STATE,
    JFR_CONTEXT,
    JFR_SPAN,
    JFR_SPAN_NAME,
    JFR_SAMPLES,
    JFR_VALUE,
    JFR_TYPE,
    JFR_NAME,
    JFR_FRAMES,  // the place of the array, from the start of the recording
    JFR_METHOD,
    JFR_LINE,
    JFR_SLOTS
};

struct jfr_values {
    uint64_t v[JFR_SLOTS];
    struct jfr_text name;   // of JFR_NAME, if that is a text
    struct jfr_text value;  // of JFR_VALUE, likewise
};

enum jfr_step_kind {
    JFR_BYTE,
    JFR_SHORT,
    JFR_INT,
    JFR_LONG,
    JFR_FLOAT,
    JFR_DOUBLE,
    JFR_TEXT,
    JFR_ARRAY
};

struct jfr_step {
    uint8_t kind;
    uint8_t slot;
    uint16_t body;  // of an array: how many of the next steps make an element
    bool numbers;   // of an array: its elements have numbers alone, of two bytes or more
};

// The classes that are looked at; the kinds of events come first.
enum jfr_class_kind {
    JFR_EXECUTION_SAMPLE,
    JFR_WALL_SAMPLE,
    JFR_IN_TLAB,
    JFR_OUTSIDE_TLAB,
    JFR_ALLOCATION_SAMPLE,
    JFR_MONITOR_ENTER,
    JFR_THREAD_PARK,
    JFR_LIVE_OBJECT,
    JFR_MALLOC,
    JFR_SETTING,
    JFR_EVENTS,
    JFR_SYMBOL = JFR_EVENTS,
    JFR_CLASS,
    JFR_METHOD_TYPE,
    JFR_STACK_TRACE,
    JFR_THREAD_STATE,
    JFR_STRING,
    JFR_OTHER
};

struct jfr_field {
    str name;
    uint64_t class_id;
    bool in_pool;
    bool is_array;
};

struct jfr_class {
    str name;
    uint32_t first_field;
    uint32_t field_count;
    enum jfr_class_kind kind;
    bool ready;                    // has its program
    const struct jfr_step *steps;  // an event's ends behind the last field that is looked at
    uint32_t step_count;
};

struct jfr_types {
    struct jfr_class *classes;
    uint64_t *ids;
    struct jfr_field *fields;
    uint32_t class_count;
    uint32_t field_count;
    size_t class_cap;
    size_t id_cap;
    size_t field_cap;
    struct idmap rows;
};

// One pool of a chunk. Of entries with the same number the first that is read counts: that is the
// one of the latest checkpoint.
struct jfr_pool {
    uint64_t *ids;
    union jfr_entry *entries;
    uint32_t count;
    size_t id_cap;
    size_t entry_cap;
    struct idmap rows;
};

struct jfr_call {
    uint64_t type;  // of a method: its class; of a class: nothing
    uint64_t name;  // a symbol
};

union jfr_entry {
    struct jfr_text text;  // symbols, strings, thread states
    struct jfr_call call;  // methods, classes
    uint64_t frames;       // stacks: the place of their array of frames
};

struct jfr_pools {
    struct jfr_pool symbols;
    struct jfr_pool classes;
    struct jfr_pool methods;
    struct jfr_pool stacks;
    struct jfr_pool states;
    struct jfr_pool strings;
};

// What a state of a thread means for a sample of it.
enum jfr_state {
    JFR_STATE_UNKNOWN,
    JFR_STATE_SLEEPING,
    JFR_STATE_RUNNABLE,
    JFR_STATE_OTHER
};

struct jfr_stack {
    uint32_t first;  // into jfr_builder.stacks
    uint32_t count;
    bool ready;
    bool unknown;  // a frame of it is not in the pools
};

// The time that a sample stands for, from a time of the chunk on.
struct jfr_rate {
    uint64_t from;           // ticks
    int64_t execution;       // ns of an ExecutionSample
    int64_t wall;            // ns of a sample of the wall clock
    bool execution_assumed;  // nothing says it
    bool wall_assumed;
    bool is_wall;   // all execution samples are of the wall clock
    bool has_wall;  // some are, beside those of another event
};

enum jfr_setting_kind {
    JFR_SET_EVENT,
    JFR_SET_INTERVAL,
    JFR_SET_WALL,
    JFR_SET_PERIOD
};

struct jfr_setting {
    uint64_t at;  // ticks
    uint32_t number;
    enum jfr_setting_kind kind;
    int64_t ns;
    str event;
};

// All settings up to a time; -1 = not said.
struct jfr_settings {
    str event;
    int64_t interval;
    int64_t wall;
    int64_t period;
    bool of_jdk;  // the period was said after the interval
};

struct jfr_last {
    int32_t line;
    uint32_t location;  // + 1, 0 = none
};

struct jfr_chunk {
    struct arena *a;  // of this chunk
    const uint8_t *start;
    const uint8_t *end;
    uint64_t pools_at;
    uint64_t types_at;
    bool compressed;
    struct jfr_types types;
    struct jfr_pools pools;
    uint8_t *states;           // enum jfr_state of the rows of pools.states
    uint32_t *functions;       // of the rows of pools.methods: function + 1, 0 = not asked for yet;
                               // with a bit if a part of its name is not known
    struct jfr_last *lasts;    // of the same rows: the location last asked for
    struct jfr_stack *stacks;  // of the rows of pools.stacks; behind them one for all others
    uint32_t *samples;         // of each kind of profile and these: the sample last used, + 1
    uint32_t *leaves;          // of the rows of pools.classes: location + 1 of the class as a frame
    uint64_t first_stack;      // stacks of the chunks before
    struct jfr_setting *settings;
    uint32_t setting_count;
    size_t setting_cap;
    struct jfr_rate *rates;  // in order of time, one at least
    uint32_t rate_count;
    const struct jfr_step *frame_steps;
    uint32_t frame_step_count;
    bool frame_numbers;  // frames have numbers alone
};

enum jfr_profile_kind {
    JFR_CPU,
    JFR_WALL,
    JFR_ALLOC_IN_TLAB,
    JFR_ALLOC_OUTSIDE_TLAB,
    JFR_ALLOC_SAMPLE,
    JFR_MUTEX,
    JFR_BLOCK,
    JFR_LIVE,
    JFR_NATIVE,
    JFR_PROFILES
};

#define JFR_VALUES 2

struct jfr_sample {
    uint64_t stack;  // its number among the stacks of all chunks
    uint64_t context;
    uint64_t span;
    uint64_t span_name;
    uint32_t leaf;   // location + 1 of the class that was allocated; 0 = none
    uint32_t first;  // into jfr_builder.stacks
    uint32_t count;
    int64_t values[JFR_VALUES];
};

struct jfr_samples {
    struct jfr_sample *v;
    uint32_t count;
    size_t cap;
    struct map rows;
    int64_t period;
    struct losses losses;
};

struct jfr_location {
    uint32_t function;
    int64_t line;
};

// What grows over all chunks.
struct jfr_builder {
    struct arena *a;
    uint32_t symbol_max;
    uint64_t long_names;  // than that
    struct jfr_samples samples[JFR_PROFILES];
    str *functions;
    struct jfr_location *locations;
    uint32_t *stacks;  // rows of locations, leaf first
    uint32_t function_count;
    uint32_t location_count;
    uint32_t stack_count;
    size_t function_cap;
    size_t location_cap;
    size_t stack_cap;
    struct map function_rows;
    struct map location_rows;
};

struct jfr_label_pair {
    uint64_t key;  // numbers of strings
    uint64_t text;
};

struct jfr_labels {
    uint64_t *context_ids;
    uint32_t *context_first;  // into pairs; one more than there are contexts
    uint64_t *string_ids;
    str *strings;
    struct jfr_label_pair *pairs;
    uint32_t context_count;
    uint32_t string_count;
    uint32_t pair_count;
    uint64_t bad_texts;
    struct idmap contexts;
    struct idmap string_rows;
};

struct jfr {
    struct arena *a;
    const struct decode_options *o;
    const uint8_t *start;
    const uint8_t *end;
    struct jfr_settings settings;  // of the chunks so far: not every chunk repeats them
    uint64_t bad_texts;
    bool is_cut;  // what follows the last whole chunk is none
    struct jfr_builder build;
    struct jfr_labels labels;
};

// ---- jfr_read.c

bool jfr_broken(struct jfr_cursor *c, const uint8_t *at, const char *what);

// Numbers of more than two bytes, and those at the end of the bytes.
uint64_t jfr_number_long(struct jfr_cursor *c, unsigned fixed);

static inline uint64_t jfr_number(struct jfr_cursor *c, unsigned fixed)
{
    if (c->compressed && c->end - c->at >= 2) {
        const uint8_t *p = c->at;
        if (p[0] < 0x80) {
            c->at = p + 1;
            return p[0];
        }
        if (p[1] < 0x80) {
            c->at = p + 2;
            return (p[0] & 0x7fu) | (uint64_t)p[1] << 7;
        }
    }
    return jfr_number_long(c, fixed);
}

static inline uint64_t jfr_int(struct jfr_cursor *c)
{
    return jfr_number(c, 4);
}

static inline uint64_t jfr_long(struct jfr_cursor *c)
{
    return jfr_number(c, 8);
}

uint8_t jfr_byte(struct jfr_cursor *c);
struct jfr_text jfr_text(struct jfr_cursor *c);

// As UTF-8; what is no text becomes U+FFFD. Borrows from the recording where it can. Empty for
// texts that lie in a pool, and if the arena is exhausted.
str jfr_text_str(struct arena *a, const struct jfr_text *t, bool compressed);

// Reads a value: its steps one after the other, what has a slot into `out`.
void jfr_run(struct jfr_cursor *c, const uint8_t *start, const struct jfr_step *steps, uint32_t n,
             struct jfr_values *out);

// Fails with the cursor's fault.
bool jfr_fail(const struct jfr *d, const struct jfr_cursor *c, err *e);

// ---- jfr_types.c

// Reads the metadata event of the chunk. Fails as decode_jfr does.
bool jfr_read_types(struct jfr *d, struct jfr_chunk *k, err *e) MUST_CHECK;

// Makes the program of a class unless it is there. Fails with invalid_argument.
bool jfr_class_ready(struct jfr_chunk *k, uint32_t row, err *e) MUST_CHECK;

// ---- jfr_pools.c

bool jfr_read_pools(struct jfr *d, struct jfr_chunk *k, err *e) MUST_CHECK;

// A text of the chunk, also one that lies in the pool of strings; lives as long as `a`.
str jfr_resolve(struct jfr_chunk *k, struct arena *a, const struct jfr_text *t);

// Puts the frames of the stack in this row into d->build, once.
bool jfr_stack_ready(struct jfr *d, struct jfr_chunk *k, uint32_t row, err *e) MUST_CHECK;

// The location of a class as a frame + 1; 0 if the class is not there, or with *ok = false.
uint32_t jfr_leaf_of(struct jfr *d, struct jfr_chunk *k, uint64_t class_id, bool *ok, err *e);

// ---- jfr_rates.c

// Keeps a setting, if it says what was sampled or how often.
bool jfr_rates_add(struct jfr *d, struct jfr_chunk *k, const struct jfr_values *v,
                   err *e) MUST_CHECK;

// Makes k->rates of the settings of this chunk and those before.
bool jfr_rates_make(struct jfr *d, struct jfr_chunk *k, err *e) MUST_CHECK;

const struct jfr_rate *jfr_rate_at(const struct jfr_chunk *k, uint64_t ticks);

// ---- jfr_names.c

// Names that are made while the program runs and have numbers in them, with "_" in place of the
// numbers, so that runs can be compared. Pyroscope's list.
str jfr_name_merge(struct arena *a, str name);

// ---- jfr_build.c

void jfr_build_init(struct jfr_builder *b, struct arena *a, uint32_t symbol_max);
void jfr_build_release(struct jfr_builder *b);

// The row of a function or of a location; MAP_NONE with *e if there is no memory.
uint32_t jfr_build_function(struct jfr_builder *b, str name, err *e);
uint32_t jfr_build_location(struct jfr_builder *b, uint32_t function, int64_t line, err *e);

// Adds one event whose fields are in v.
bool jfr_build_event(struct jfr *d, struct jfr_chunk *k, enum jfr_class_kind kind,
                     const struct jfr_values *v, err *e) MUST_CHECK;
bool jfr_build_profiles(struct jfr *d, struct jfr_recording *out, err *e) MUST_CHECK;

// ---- jfr_labels.c

bool jfr_labels_read(struct jfr_labels *l, struct arena *a, str bytes, err *e) MUST_CHECK;
