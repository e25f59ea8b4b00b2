// SPDX-License-Identifier: Apache-2.0
//
// block_int.h - the inside of reading blocks, for blocks.c and block_*.c only.
//
//     block_read.c    the question: which services of which objects, in waves of bounded size
//       blocks.c      the cache: footers, indexes, symbols, names, vectors of nodes
//       block_fetch.c reads of the store; neighbouring sections become one read
//       block_names.c names of a service's stacks, united once for all blocks in the cache
//       block_keys.c  which keys and nodes a question means
//       block_nodes.c vectors of nodes
//       block_rows.c  rows: times, ids, spans, vectors
//     block_tree.c, block_totals.c, block_heat.c, block_labels.c, block_stats.c, block_loose.c
//                     one want of a question each; block_series.c is shared by some. They feed rows
//                     and nodes into common/aggregate
//
// A unit is one service of one object. A wave is a few units whose sections are in memory together;
// its arena is released after it. If an object fails, that is noted (block_note) and the object
// left out; functions return false only if the question itself cannot go on. A walk belongs to one
// thread; the cache is shared.
#pragma once

#include "block/keys.h"
#include "querier/block/block_names.h"
#include "querier/block/block_read.h"
#include "querier/disk/disk_cache.h"
#include "querier/merge/merged_int.h"
#include "sys/lock.h"

// ---- the cache (blocks.c)
enum block_part {
    BLOCK_PART_FOOTER,
    BLOCK_PART_INDEX,
    BLOCK_PART_SYMBOLS,
    BLOCK_PART_VECTORS,
    BLOCK_PART_NAMES  // what flame graphs need of symbols: a tenth of their memory
};

// A parsed section in the cache. Immutable once blocks_load gave it out with a reference.
struct block_kept {
    union {
        struct block_footer footer;
        struct block_index index;
        struct symbol_table symbols;
        struct block_vectors vectors;
        struct {
            uint32_t *to_names;  // by stack: row of names
            uint32_t stack_count;
            uint32_t name_rows;  // all rows of the map are below
        };
    };
    struct block_names *names;  // of BLOCK_PART_NAMES
    // private to blocks.c
    struct arena arena;
    struct mem_budget *budget;  // of the entry itself
    str object;
    uint64_t at;
    uint64_t hash;
    enum block_part part;
    uint32_t refs;
    bool ready;   // parsed; else it is a placeholder while somebody reads the section
    bool listed;  // in the table; else it serves one question, and goes with its last reference
    struct block_kept *next;   // of its bucket
    struct block_kept *newer;  // in order of use; ready ones only
    struct block_kept *older;
};

// A section that is wanted.

struct block_want {
    const struct level_object *object;
    enum block_part part;
    const struct block_service_ref *service;  // NULL for footers
    const struct block_extent *extent;        // NULL for footers
    uint64_t count;                           // of vectors in it
    struct block_kept *kept;                  // out: a reference, or NULL
    const err *why;                           // out: why kept is NULL
    bool no_room;                             // out: there is no memory for names
    bool mine;                                // private to blocks.c
};

struct block_walk;

// Finds the sections in the cache, or reads those that are missing, together. Afterwards each want
// has kept, why or no_room. False: the question cannot go on.
bool blocks_load(struct block_walk *w, struct block_want *v, size_t n, err *e) MUST_CHECK;
void blocks_unref(struct blocks *b, struct block_kept *kept);  // NULL is fine
struct store *blocks_store(const struct blocks *b);
struct disk_cache *blocks_disk(const struct blocks *b);  // NULL: none

// ---- reads (block_fetch.c)
struct block_get {
    const struct level_object *object;
    uint64_t at;
    uint64_t n;
    bool of_rows;    // of many that are read once: not all of them go to the disk
    str bytes;       // out; of the io
    const err *why;  // out; NULL: it was read
};

// Bytes that were read, until block_io_release; zero value to begin with.
struct block_io {
    struct block_bytes *v;
};
// Reads all gets. A get that fails has `why`; false only if the question cannot go on.
bool block_fetch(struct block_walk *w, struct block_io *io, struct block_get *v, size_t n,
                 err *e) MUST_CHECK;

// Sections that are read together with an index, because they lie beside it and will be wanted
// next. Later gets are served from here first, until the wave ends.
struct block_prefetch {
    struct block_get *v;
    size_t n;
    size_t cap;
    size_t from;  // the first that is not read yet
    struct block_io io;
};
bool block_read_prefetched(struct block_walk *w, const struct level_object *o,
                           const struct block_extent *x, err *e) MUST_CHECK;  // for the next read
void block_io_release(struct block_walk *w, struct block_io *io);

// Bytes may have been damaged on their way: what is found damaged is read once more before it
// counts as damaged. This one replaces the bytes of a get that was read.
bool block_fetch_again(struct block_walk *w, struct block_io *io, struct block_get *got,
                       err *e) MUST_CHECK;

// The contents of a section whose bytes were read; borrows them or is the arena's. Damaged bytes
// are read again.
bool block_contents(struct block_walk *w, struct arena *a, const struct block_extent *x,
                    const struct block_get *got, const char *what, str *out, err *e) MUST_CHECK;

// Notes a failure: the object becomes faulty and is left out from here on. False, with *e, if the
// failure is one of the question: its memory, its time, a sum that does not fit.
struct block_object;
bool block_note(struct block_walk *w, struct block_object *o, const err *why, err *e) MUST_CHECK;

// ---- the question (block_read.c)
struct block_object {
    const struct level_object *object;
    const struct level_piece **pieces;
    size_t piece_count;
    struct block_kept *kept;
    const struct block_footer *footer;
    bool faulty;
    bool may_skip;  // rows that must not count may be in it
};

struct block_unit {
    struct block_object *object;
    const struct block_service_ref *service;
    const struct level_piece **pieces;
    size_t piece_count;
    // while its wave lasts
    struct block_kept *index_kept;
    struct block_kept *symbols_kept;
    struct block_kept *names_kept;  // instead of symbols
    const struct block_index *index;
    bool *asked;  // by type of the index: whether matchers of service and type hold
    const struct symbol_table *symbols;
    struct block_set keys;  // keys that the selector means; not for class ALL
    bool selected;          // keys are set
    void *of_want;          // belongs to the want that reads the wave
};

// Sums by the rows of a service's table of names, of all its blocks.
struct block_sums {
    struct block_names *names;  // a reference
    int64_t *sums;
    size_t room;
    struct block_sums *next;
};

// Which sections of a unit are read, beside its index: bits.
enum block_sections {
    BLOCK_WITH_SYMBOLS = 1,
    BLOCK_WITH_NAMES = 2,  // of symbols only the names, which stay in memory; instead of them
    BLOCK_WITH_ALL = 4,    // vectors of ALL nodes, as they lie beside the index
    BLOCK_WITH_TOTALS = 8  // totals, likewise
};

// The question, and what follows from it for blocks.
struct block_question {
    const struct query *q;
    const struct loose_set *skip;  // rows that do not count; NULL: none
    bool excluded;                 // of its services and types the keys that other matchers exclude
    unsigned sections;             // enum block_sections
    const str *needed;             // labels, beside service and type, that keys must still have
    size_t needed_count;
    bool only_all;     // no such label: keys of class ALL will do
    int64_t *skip_ms;  // times of skip, in order
    size_t skip_count;
};

// The reader: walks over the units of a plan, wave by wave. What a want adds up while it does is
// the want's own and comes to it with each wave.
struct block_walk {
    struct blocks *blocks;  // the cache
    struct req *req;
    struct merged *m;  // the sums so far, and the memory of the query
    struct block_reads *out;
    struct block_question ask;
    struct arena arena;  // until the end
    struct arena wave;   // until the end of the wave
    struct block_prefetch prefetch;
    uint64_t rows_put;  // bytes of rows that went to the cache on disk
    struct block_object *objects;
    size_t object_count;
    struct block_unit *units;
    size_t unit_count;
    size_t unit_cap;
};

// Loads the footers and lists the units that concern the question. block_walk_end in any case.
bool block_walk_begin(struct block_walk *w, const struct level_plan *p, err *e) MUST_CHECK;
void block_walk_end(struct block_walk *w);

// Calls fn for the units of one wave after the other, their indexes, and symbols if wanted, loaded.
typedef bool block_wave_fn(void *arg, struct block_walk *w, struct block_unit *v, size_t n, err *e);
bool block_walk_waves(struct block_walk *w, block_wave_fn *fn, void *arg, err *e) MUST_CHECK;

static inline enum block_kind block_kind_of(const struct block_unit *u)
{
    return u->object->object->kind;
}
static inline bool block_has_rows(const struct block_unit *u)
{
    return block_kind_of(u) == BLOCK_SEGMENT || block_kind_of(u) == BLOCK_RAW;
}
// Whether a time range (from, to] touches a piece.
static inline bool block_touches(const struct level_piece *p, int64_t first_ns, int64_t last_ns)
{
    return first_ns <= p->to_ns && last_ns > p->from_ns;
}
static inline bool block_within(const struct level_piece *p, int64_t time_ns)
{
    return time_ns > p->from_ns && time_ns <= p->to_ns;
}

// Scratch of the walk failed.
bool block_no_room(const struct block_walk *w, err *e);

// ---- keys (block_keys.c)
// Whether matchers of service and type hold; the others are the keys'. False: the question cannot
// go on. For the types of a unit's index the wave has the answers in u->asked (block_ask_types).
bool block_asks_type(const struct query *q, str service, str type, bool *asked, err *e) MUST_CHECK;
bool block_ask_types(const struct block_walk *w, struct block_unit *u, err *e) MUST_CHECK;

// Whether keys without these labels still have all that the question needs.
bool block_projection_keeps(const struct block_walk *w, const struct block_dropped_labels *dropped);

// The class to read for a type of this unit. Fails (failed_precondition) if the block has none that
// keeps what is needed.
bool block_class_for(const struct block_walk *w, const struct block_unit *u, uint32_t type,
                     enum block_class *class, err *e) MUST_CHECK;

// Does a deletion hide whole types of a service, whatever other labels their series have?
bool block_hides_types(const struct hide *h);

// Whether a key of this class is meant. block_select_keys first.
bool block_select_keys(struct block_walk *w, struct block_unit *u, err *e) MUST_CHECK;
bool block_is_meant(const struct block_walk *w, const struct block_unit *u, uint32_t key,
                    enum block_class class);

// The widest nodes of a key within (from, to], none twice: calls fn for each. `may`, if not NULL,
// says which will do; it holds for what lies below a node for which it holds.
typedef bool block_node_fn(void *arg, const struct block_node_ref *n, err *e);
struct block_choice {
    int64_t from_ns;
    int64_t to_ns;
    bool (*may)(const void *arg, const struct block_node *n);
    block_node_fn *fn;
    void *arg;
};
bool block_nodes_within(const struct block_index *x, const struct block_key_ref *key,
                        const struct block_choice *c, err *e) MUST_CHECK;

// ---- vectors of nodes (block_nodes.c)
struct block_node_use {
    struct block_unit *unit;
    const struct block_node_ref *node;
    uint32_t tag;  // the want's
};
struct block_nodes {
    struct block_node_use *v;  // the wave's
    size_t n;
    size_t cap;
};
bool block_add_node(struct block_walk *w, struct block_nodes *s, struct block_node_use use,
                    err *e) MUST_CHECK;

// Calls fn for each node's vector, unit by unit. Frames of class ALL come to the cache, for the
// next question; with fn NULL that is all.
typedef bool block_use_fn(void *arg, const struct block_node_use *u, str columns, err *e);
bool block_read_nodes(struct block_walk *w, struct block_nodes *s, block_use_fn *fn, void *arg,
                      err *e) MUST_CHECK;
uint64_t block_weigh_nodes(struct block_nodes *s);  // bytes stored and inflated

// ---- rows (block_rows.c)
struct block_scan {
    struct block_unit *unit;
    uint32_t key;
    int64_t from_ns;
    int64_t to_ns;
    bool loose_only;  // rows with attempt > 0,
    bool identified;  // and those with a placing
};

// A row that counts, borrowed for the call. Fields that were not asked for are zero.
struct block_hit {
    struct block_unit *unit;
    uint32_t key;
    uint32_t attempt;
    bool identified;  // it has a placing
    int64_t time_ns;
    int64_t duration_ns;
    int64_t total;
    id128 id;
    uint64_t vector;
    int64_t factor;
    labels annotations;
    const struct block_row_spans *spans;  // or NULL
};
typedef bool block_hit_fn(void *arg, const struct block_hit *h, str columns, err *e);

struct block_rows {
    bool details;
    bool spans;
    bool vectors;      // implies details
    bool only_spans;   // rows without spans that may be meant (blooms) are not wanted
    const id128 *ids;  // sorted; only these profiles (with details), unless there are none
    size_t id_count;
    block_hit_fn *fn;
    void *arg;
};

// Scans in any order, of units of this wave.
bool block_scan_rows(struct block_walk *w, struct block_scan *v, size_t n,
                     const struct block_rows *want, err *e) MUST_CHECK;

// Bytes of what is wanted of the rows, by their share of the frames; of times and totals only with
// `details`.
uint64_t block_weigh_rows(const struct block_scan *v, size_t n, const struct block_rows *want);

// Scans of all rows of the keys that are meant within the unit's pieces, appended to *v (the
// wave's).
struct block_scans {
    struct block_scan *v;
    size_t n;
    size_t cap;
};
bool block_add_scan(struct block_walk *w, struct block_scans *s, struct block_scan scan,
                    err *e) MUST_CHECK;
bool block_scan_unit(struct block_walk *w, struct block_unit *u, const struct level_piece *p,
                     bool with_sampled, struct block_scans *s, err *e) MUST_CHECK;

// ---- wants; each reads the n units of a wave

// Trees: sums of services by names, of all waves. The zero value to begin with.
struct block_tree {
    struct block_sums *sums;
};
bool block_read_tree(struct block_tree *t, struct block_walk *w, struct block_unit *v, size_t n,
                     err *e) MUST_CHECK;
bool block_tree_finish(struct block_tree *t, struct block_walk *w, err *e) MUST_CHECK;
void block_tree_release(struct block_tree *t, struct block_walk *w);

// Only reads nodes into the cache; the functions that weigh only add up the bytes of what would be
// read.
bool block_tree_into_cache(struct block_walk *w, struct block_unit *v, size_t n, err *e) MUST_CHECK;
bool block_tree_weigh(struct block_walk *w, struct block_unit *v, size_t n, uint64_t *bytes,
                      err *e) MUST_CHECK;

bool block_read_totals(struct block_walk *w, struct block_unit *v, size_t n, err *e) MUST_CHECK;
bool block_totals_weigh(struct block_walk *w, struct block_unit *v, size_t n, uint64_t *bytes,
                        err *e) MUST_CHECK;
bool block_read_heat(struct block_walk *w, struct block_unit *v, size_t n, err *e) MUST_CHECK;
bool block_heat_weigh(struct block_walk *w, struct block_unit *v, size_t n, uint64_t *bytes,
                      err *e) MUST_CHECK;
bool block_read_labels(struct block_walk *w, struct block_unit *v, size_t n, err *e) MUST_CHECK;

// The series that were counted, by fingerprint. Init before, release after the walk.
struct block_stats {
    struct map series;
    uint64_t *prints;
    size_t cap;
    uint32_t n;
};
void block_stats_init(struct block_stats *s, struct block_walk *w);
void block_stats_release(struct block_stats *s);
bool block_read_stats(struct block_stats *s, struct block_walk *w, struct block_unit *v, size_t n,
                      err *e) MUST_CHECK;

// For questions about labels, or of what there is, alone: where the footer says all, the index is
// not read.
bool block_labels_by_footer(struct block_walk *w, const struct block_unit *u, bool *done,
                            err *e) MUST_CHECK;
bool block_stats_by_footer(struct block_walk *w, const struct block_unit *u, bool *done,
                           err *e) MUST_CHECK;
