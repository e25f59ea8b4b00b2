// SPDX-License-Identifier: Apache-2.0
//
// symbols.h - names and stacks: the tables whose rows vectors refer to.
//
// Five tables, rows referring to earlier tables by number, row 0 always "none":
//
//     strings    bytes                                               0 = ""
//     functions  name, system name, file (strings), start line       0 = unknown
//     mappings   file, build id (strings), start, limit, offset      0 = no mapping
//     frames     function, line, mapping, address, inlined?          0 = none
//     stacks     parent stack, frame                                 0 = the empty stack
//
// A stack is a node of a prefix tree: its frame called by its parent's. Parents come before
// children (parent < row), so one forward pass goes from the root down and one reverse pass from
// leaves up. A pprof location with k lines is k frames, outermost first on the way down; all but
// the first carry `inlined`, so that the location can be rebuilt. A location without lines is one
// frame without function that keeps address and mapping.
//
// struct symbol_table is the bare columns, as a decoder, a batch or a partial answer has them.
// struct symbols owns such columns and makes their rows unique (hash-consing). Ids are local to one
// table.
//
// A frame without any content is frame 0, and a stack with frame 0 under a parent is that parent:
// no table has a row for either.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/map.h"

struct symbol_function {
    uint32_t name;
    uint32_t system_name;
    uint32_t filename;
    int64_t start_line;
};

struct symbol_mapping {
    uint64_t start;
    uint64_t limit;
    uint64_t offset;
    uint32_t filename;
    uint32_t build_id;
    uint32_t flags;  // SYMBOL_HAS_*
};

#define SYMBOL_HAS_FUNCTIONS     1u
#define SYMBOL_HAS_FILENAMES     2u
#define SYMBOL_HAS_LINE_NUMBERS  4u
#define SYMBOL_HAS_INLINE_FRAMES 8u

struct symbol_frame {
    uint64_t address;
    int64_t line;
    uint32_t function;
    uint32_t mapping;
    bool inlined;  // belongs to the location of its parent
};

struct symbol_stack {
    uint32_t parent;
    uint32_t frame;
};

struct symbol_table {
    str *strings;
    struct symbol_function *functions;
    struct symbol_mapping *mappings;
    struct symbol_frame *frames;
    struct symbol_stack *stacks;
    uint32_t string_count;
    uint32_t function_count;
    uint32_t mapping_count;
    uint32_t frame_count;
    uint32_t stack_count;
};

// Rows of each table, row 0 included.
struct symbol_counts {
    uint32_t strings;
    uint32_t functions;
    uint32_t mappings;
    uint32_t frames;
    uint32_t stacks;
};
static inline struct symbol_counts symbols_counts(const struct symbol_table *t)
{
    return (struct symbol_counts){t->string_count, t->function_count, t->mapping_count,
                                  t->frame_count, t->stack_count};
}

struct symbols {
    struct symbol_table
        t;  // read freely; written only by the functions below; adding moves columns
    struct mem_budget *budget;
    struct symbols_index *index;  // private: capacities, hash indexes, string bytes
};

// After a successful init every table has its row 0. Not thread-safe: several threads may read
// while none adds, because adding a row may move every column of t (the bytes of strings stay where
// they are). Otherwise readers and writers use a lock of the owner. Release is idempotent.
bool symbols_init(struct symbols *s, struct mem_budget *budget, err *e) MUST_CHECK;
void symbols_release(struct symbols *s);

// Sets the hash key of a new table; without this call it is the process's key for tables
// (base/hash.h). Tables that strangers fill need a secret key: names and stacks that collide under
// a known one make every addition slow.
void symbols_seed(struct symbols *s, struct hash_key key);

// Makes room for so many more rows, if their number is known beforehand, as from a decoded profile:
// adding a profile's rows to new tables costs half then.
struct symbols_room {
    uint32_t strings;
    uint32_t functions;
    uint32_t mappings;
    uint32_t frames;
    uint32_t stacks;
};
bool symbols_reserve(struct symbols *s, const struct symbols_room *more, err *e) MUST_CHECK;

// The row of a value, which is added if it is new; the zero value is row 0. Rows that the value
// refers to must exist. Strings are copied; decoders have checked that they are UTF-8. On failure
// MAP_NONE, with *e set (resource_exhausted) and the table as before.
uint32_t symbols_string(struct symbols *s, str text, err *e) MUST_CHECK;
uint32_t symbols_function_at(struct symbols *s, const struct symbol_function *f, err *e) MUST_CHECK;
uint32_t symbols_mapping_at(struct symbols *s, const struct symbol_mapping *m, err *e) MUST_CHECK;
uint32_t symbols_frame_at(struct symbols *s, const struct symbol_frame *f, err *e) MUST_CHECK;
uint32_t symbols_stack(struct symbols *s, uint32_t parent, uint32_t frame, err *e) MUST_CHECK;

// symbols_stack, with a look first at the row behind the parent's: a first child is mostly there,
// and the look costs next to nothing.
static inline MUST_CHECK uint32_t symbols_child(struct symbols *s, uint32_t parent, uint32_t frame,
                                                err *e)
{
    const struct symbol_table *t = &s->t;
    uint32_t guess = parent + 1;
    if (frame != 0 && guess < t->stack_count && t->stacks[guess].parent == parent &&
        t->stacks[guess].frame == frame) {
        return guess;
    }
    return symbols_stack(s, parent, frame, e);
}

// The same by value. In line, because copying a row that was just put together field by field costs
// more than finding it.
static inline MUST_CHECK uint32_t symbols_function(struct symbols *s, struct symbol_function f,
                                                   err *e)
{
    return symbols_function_at(s, &f, e);
}
static inline MUST_CHECK uint32_t symbols_mapping(struct symbols *s, struct symbol_mapping m,
                                                  err *e)
{
    return symbols_mapping_at(s, &m, e);
}
static inline MUST_CHECK uint32_t symbols_frame(struct symbols *s, struct symbol_frame f, err *e)
{
    return symbols_frame_at(s, &f, e);
}

// Looking up many strings at once. Each step is done for all strings before the next step is done
// for one, so that their waits for memory overlap: (1) the hash, (2) fetch the place in the index,
// (3) the row that may have this string, or MAP_NONE; the caller compares.
uint64_t symbols_string_hash(const struct symbols *s, str text);
void symbols_string_fetch(const struct symbols *s, uint64_t hash);
uint32_t symbols_string_maybe(const struct symbols *s, uint64_t hash);

// The same for frames: (1) the hash, and fetch its place; (2) the row that may be the frame, which
// is fetched, or MAP_NONE; (3) whether it is.
uint64_t symbols_frame_fetch(const struct symbols *s, const struct symbol_frame *f);
uint32_t symbols_frame_maybe(const struct symbols *s, uint64_t hash);
bool symbols_is_frame(const struct symbols *s, uint32_t row, const struct symbol_frame *f);

// The same for stacks.
uint64_t symbols_stack_fetch(const struct symbols *s, uint32_t parent, uint32_t frame);
uint32_t symbols_stack_maybe(const struct symbols *s, uint64_t hash);
static inline bool symbols_is_stack(const struct symbol_table *t, uint32_t row, uint32_t parent,
                                    uint32_t frame)
{
    return row < t->stack_count && t->stacks[row].parent == parent && t->stacks[row].frame == frame;
}

// The row of a mapping or stack if it is there; MAP_NONE otherwise.
uint32_t symbols_find_mapping(const struct symbols *s, const struct symbol_mapping *m);
uint32_t symbols_find_stack(const struct symbols *s, uint32_t parent, uint32_t frame);

// The function name of a frame; empty if it has none. What flame graphs show is frame_name
// (model/frame_name.h).
str symbols_frame_name(const struct symbol_table *t, uint32_t frame);

// ---- from one table into another. Rows are copied when they are first asked for.

// Where rows were found lately: for each name the last function with it. A hint is a guess, which
// is compared before it is used; it saves two thirds of the look-ups of strings. For a table into
// which others are remapped again and again; under the table's lock.
struct symbols_hints {
    struct mem_budget *budget;
    uint32_t *function_of;  // by string
    size_t function_cap;
};
void symbols_hints_init(struct symbols_hints *h, struct mem_budget *budget);
void symbols_hints_release(struct symbols_hints *h);  // to be called when rows get new numbers

// The function that had this name last, 0: not known. symbols_hint notes one, which may take
// memory.
static inline uint32_t symbols_hinted(const struct symbols_hints *h, uint32_t name)
{
    return name < h->function_cap ? h->function_of[name] : 0;
}
static inline void symbols_hint_fetch(const struct symbols_hints *h, uint32_t name)
{
    if (name < h->function_cap) __builtin_prefetch(&h->function_of[name]);
}
bool symbols_hint(struct symbols_hints *h, uint32_t name, uint32_t function, err *e) MUST_CHECK;

struct symbols_remap {
    const struct symbol_table *from;
    struct symbols *to;
    struct symbols_hints *hints;  // symbols_remap_hint, else NULL
    bool names_only;    // may be set after init: of a frame only its name is kept, as a function's
                        // name; names that have to be made (frame_name.h) are made
    uint32_t *strings;  // 0 = not yet mapped, else row + 1
    uint32_t *functions;
    uint32_t *mappings;
    uint32_t *frames;
    uint32_t *stacks;
};
// The arrays are the arena's. *from and its columns must stay as they are while the remap is used.
bool symbols_remap_init(struct symbols_remap *m, struct arena *a, const struct symbol_table *from,
                        struct symbols *to, err *e) MUST_CHECK;

// To be called after init, if all rows of `from` will be asked for. The hints are those of *to.
// Finds the functions and frames that *to has, many at once; adds none.
void symbols_remap_hint(struct symbols_remap *m, struct symbols_hints *hints);
uint32_t symbols_remap_stack(struct symbols_remap *m, uint32_t stack, err *e) MUST_CHECK;
uint32_t symbols_remap_frame(struct symbols_remap *m, uint32_t row, err *e) MUST_CHECK;

// Marks the ancestors of every marked stack (used: one flag for each stack row), row 0 among them.
void symbols_mark_ancestors(const struct symbol_table *t, bool *used);

// ---- wire form: message Symbols of proto/flametree/v1/internal.proto
//
// Encodes only what the named stacks need, their ancestors included (used[i] for each stack row),
// and renumbers; used == NULL encodes every row of every table under its own number. Order is kept,
// so new numbers ascend with the old. stack_ids, if not NULL, receives for each row its new number
// (0 for rows left out). Memory for the renumbering is the arena's.
bool symbols_encode(const struct symbol_table *t, const bool *used, struct arena *a,
                    uint32_t *stack_ids, struct buf *out, err *e) MUST_CHECK;

// Tables that continue others, which have `had` rows: row k of *t, from 1 on, has the number had +
// k - 1, also in references. symbols_rest makes such tables of the rows behind the first `had` of a
// whole table; they have no valid row 0. symbols_encode_rest writes them.
struct symbol_table symbols_rest(const struct symbol_table *t, const struct symbol_counts *had);
bool symbols_encode_rest(const struct symbol_table *t, const struct symbol_counts *had,
                         struct buf *out, err *e) MUST_CHECK;

// Columns in the arena, strings borrowing from bytes. Every reference is checked: in range, parents
// first, row 0 none, strings UTF-8. Fails with invalid_argument naming column and row.
bool symbols_decode(struct arena *a, str bytes, struct symbol_table *t, err *e) MUST_CHECK;

// Reads what symbols_encode_rest wrote, with a row 0. References to rows before `had` are in range;
// what these rows contain is not known here.
bool symbols_decode_rest(struct arena *a, str bytes, const struct symbol_counts *had,
                         struct symbol_table *t, err *e) MUST_CHECK;
