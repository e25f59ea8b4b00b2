// SPDX-License-Identifier: Apache-2.0
//
// jfr.h - recordings of the Java Flight Recorder under construction, for tests that need
// well-formed and spoilt ones.
//
// A chunk is begun, filled and ended; its parts may come in any order. Numbers of classes differ
// from the JDK's, because they are found by name. Nothing is checked: what a test writes stands.
#pragma once

#include "base/buf.h"

#define JW_FIELDS_MAX 6

struct jw_field {
    const char *name;
    unsigned class_id;
    enum {
        JW_PLAIN,
        JW_POOL,
        JW_ARRAY
    } kind;
};

struct jw_class {
    unsigned id;
    const char *name;
    struct jw_field fields[JW_FIELDS_MAX];  // up to the first without a name
};

// The numbers of the classes in jw_classes.
enum jw_id {
    JW_BOOLEAN = 10,
    JW_SHORT,
    JW_INT,
    JW_LONG,
    JW_FLOAT,
    JW_DOUBLE,
    JW_STRING,
    JW_CLASS = 30,   // name: symbol
    JW_SYMBOL,       // string
    JW_METHOD,       // type: class, name: symbol
    JW_FRAME,        // method, lineNumber: int
    JW_STACK,        // truncated: boolean, frames
    JW_STATE,        // name: string
    JW_SAMPLE = 50,  // startTime: long, stackTrace, state, contextId, spanId, spanName: long
    JW_ENTER,        // startTime: long, duration: long, stackTrace
    JW_SETTING,      // name: string, value: string, startTime: long, id: long
    JW_WALL,         // startTime: long, stackTrace, state, samples: int
    JW_ALLOC,        // startTime: long, stackTrace, objectClass: class, weight: long
    JW_RECORDING,    // startTime: long
    JW_LOAD,         // likewise
    JW_OTHER = 70,   // an event nobody knows; thing
    JW_THING         // a class nobody knows; text: string, float, double, shorts, flag: boolean
};

#define JW_CLASSES 22
extern const struct jw_class jw_classes[JW_CLASSES];

struct jw {
    struct buf out;
    bool compressed;  // numbers are LEB128; else big endian
    size_t chunk;     // where it begins in out; places below are from there
    size_t piece;     // the event that is open
    size_t pools;     // the checkpoint that was begun last
    size_t types;
};

void jw_init(struct jw *w, bool compressed);
void jw_release(struct jw *w);

void jw_begin(struct jw *w);
void jw_end(struct jw *w);

// Puts a number into a header of a chunk that begins at byte `chunk`.
#define JW_HEADER_SIZE  8
#define JW_HEADER_POOLS 16
#define JW_HEADER_TYPES 24
void jw_header(struct jw *w, size_t chunk, size_t field, uint64_t v);

void jw_byte(struct jw *w, unsigned char v);
void jw_short(struct jw *w, uint64_t v);
void jw_int(struct jw *w, uint64_t v);
void jw_long(struct jw *w, uint64_t v);
void jw_text(struct jw *w, const char *z);         // as UTF-8
void jw_text_pool(struct jw *w, uint64_t string);  // a number in the pool of strings

// An event: its fields are put between these. Sizes take four bytes in both encodings.
void jw_event(struct jw *w, uint64_t type);
void jw_close(struct jw *w);

void jw_metadata(struct jw *w, const struct jw_class *classes, size_t n);

// A checkpoint with this many pools, to be closed as an event; returns its place in the chunk.
size_t jw_checkpoint(struct jw *w, uint64_t pools);
// The checkpoint read after `from` is the one at `to`. Without this, `from` is the last one read.
void jw_link(struct jw *w, size_t from, size_t to);
// A pool of n entries, to be put after it: the number of each, then its fields.
void jw_pool(struct jw *w, uint64_t class_id, uint64_t n);

// What an event of JW_SAMPLE says.
struct jw_hit {
    uint64_t stack;
    uint64_t state;
    uint64_t context;
    uint64_t span;
    uint64_t span_name;
    uint64_t time;  // 0: 1000
};
void jw_sample(struct jw *w, const struct jw_hit *hit);

// A setting of the class with this number.
void jw_setting(struct jw *w, uint64_t time, uint64_t id, const char *name, const char *value);

// A checkpoint whose every entry names what comes after it: the stacks 1 = App.work at line 7,
// called by App.main at line 3, and 2 = App.main; the states 1 = runnable, 2 = sleeping.
size_t jw_app(struct jw *w);

// A chunk of the samples, jw_app and the metadata, in this order.
void jw_chunk(struct jw *w, const struct jw_hit *hits, size_t n);
