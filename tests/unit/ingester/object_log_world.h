// SPDX-License-Identifier: Apache-2.0
//
// object_log_world.h - worlds of object_log_model_test.c: the store that the actors see, and how an
// actor is taken one operation further.
//
// A world is what the store has, and for each actor the answers that it has got so far. An actor is
// a plain function. To take it one operation further it is run from its beginning: the store gives
// it the answers that it got before, does the next operation, and refuses all after that, so that
// the function returns. So a world is a value, which is copied and compared. An actor that has come
// to a place where it remembers nothing, or only what the world keeps of it (phase, shelf), forgets
// its answers.
#pragma once

#include "ingester/log/object_log.h"
#include "lib/test.h"

enum {
    NUMBERS = 8,  // objects of a stream, from 1
    STREAMS = 2,
    NAMES = NUMBERS * STREAMS,
    STEPS = 96,   // operations of one actor
    FLIGHTS = 2,  // creations that timed out and may still land
    CUTS = 3,
    CONTENTS = 256,
};

enum actor {
    WRITER,
    FLUSHER,
    ADOPTER,
    OTHER,  // a second adopter, which ends when it has read
    READER,
    ACTORS
};

enum op {
    LIST = 1,
    SIZE,
    READ,
    CREATE,
    DELETE,
    COVER,       // a cut: its segments are created
    WATCH,       // waits until the writer has come so far
    PASS,        // twenty minutes
    ASK,         // which cuts are covered
    REGISTERED,  // a LIST or a look: whether the first stream is registered
    UNREGISTER,
};

// Results of CREATE.
enum {
    MADE,
    EXISTS,
    TIMED_OUT
};

struct world {
    uint8_t objects[NAMES];       // 0: there is none; otherwise 1 + its content
    uint8_t flights[FLIGHTS][2];  // name, 1 + content; 0: none
    uint8_t faults;               // creations that may still time out,
    uint8_t lies;                 // reads to which something on the way may still say "not there",
    uint8_t swallows;             // creations to which it may still say "created"
    uint8_t swallowed;            // so many have been
    uint8_t unregistered;
    uint8_t covered;       // bits of cuts of the first stream
    uint8_t acknowledged;  // bits of entries in the first stream
    uint8_t written;       // objects of the first stream that the writer knows to be there,
    uint8_t twice;         // bits of those that it put twice
    uint8_t below;         // what the newest of them says is covered
    uint8_t concluded[ACTORS];
    uint8_t has[ACTORS];  // bits of entries
    uint8_t ended[ACTORS];
    uint8_t phase[ACTORS];
    struct kept {
        uint8_t cut, first, last, late, covered, begun;
    } shelf[ACTORS][CUTS];
    uint8_t steps[ACTORS];
    uint32_t told[ACTORS][STEPS];  // operation, name and result
};

// One actor's turn.
struct turn {
    struct store store;
    struct world *w;
    enum actor who;
    bool times_out;  // the operation of this turn does
    bool lies;       // or something on the way does
    bool done;       // it is done
    bool frozen;     // the actor wanted more
    bool blocked;    // it cannot go on yet
    size_t at;
    struct req r;
    uint32_t told;  // its operation, name and result
};

extern const struct store_kind world_store_kind;
extern const id128 world_streams[STREAMS];
extern size_t world_list_page;  // names in a page of a list

// Does the next operation of the actor, or gives the answer that it got before. False: the actor's
// turn is over.
bool turn_operate(struct turn *t, enum op op, unsigned name, unsigned argument, uint32_t *result);

// The actor needs none of its answers any more.
void turn_begin_phase(struct turn *t, uint8_t phase);

// What it remembers of objects, in the world.
void turn_keep_shelf(struct turn *t, const struct object_log_shelf *s);
void turn_load_shelf(const struct turn *t, struct object_log_shelf *s);

unsigned world_name_of(str name);
bool world_is_seal(uint32_t content);  // as in a world's objects
void world_forget_contents(void);
