// SPDX-License-Identifier: Apache-2.0
//
// object_log_int.h - what object_log*.c share.
#pragma once

#include "ingester/log/object_log.h"
#include "manifest/names.h"

// ---- listing (object_log_list.c)

struct object_log_listed {
    uint64_t number;
    uint64_t size;
};

// The objects above `after` whose names are the prefix and a number, ascending, at most `most` of
// them. Names that have no number are passed over.
struct object_log_pager {
    str prefix;
    uint64_t after;
    struct object_log_listed *v;  // room for `most`
    size_t most;
    size_t n;   // how many there are
    bool more;  // there are others
};
bool object_log_page(struct store *s, struct req *r, struct object_log_pager *p, err *e) MUST_CHECK;

// Names in a page; memory of it is a few hundred kilobytes. Some kinds of store read a whole folder
// for each LIST. Tests make it smaller.
extern size_t object_log_page_max;

// Calls fn for each object of a stream from `first` to `last`, in order; as many LISTs as it takes.
struct object_log_span {
    id128 stream;
    uint64_t first;
    uint64_t last;  // 0: all
};
typedef bool object_log_see(void *arg, const struct object_log_listed *o, err *e);
bool object_log_each(struct store *s, struct req *r, const struct object_log_span *of,
                     object_log_see *see, void *arg, err *e) MUST_CHECK;

// Whether a LIST that begins now lacks the object. It gives the size of one that is there.
struct object_log_sought {
    uint64_t number;
    uint64_t size;
    bool there;
};
bool object_log_seek(struct store *s, struct req *r, id128 stream, struct object_log_sought *v,
                     size_t n, err *e) MUST_CHECK;  // v ascending, n > 0

// ---- asking again
//
// For how long a call asks again about objects of which a LIST and a read say different things. All
// objects of a call share it: a store that keeps on saying that is waited for once.
struct object_log_patience {
    unsigned asked;
};
#define OBJECT_LOG_ASKS 8

extern uint64_t object_log_pause_ns;  // the first pause; each is twice the one before

// Waits. False: it is over (*e stays as it is), or the request is.
bool object_log_ask_again(struct object_log_patience *p, struct req *r, err *e) MUST_CHECK;

// A call that goes through many objects has its request's time for each batch.
struct object_log_pace {
    struct req *r;
    uint64_t step_ns;
};
struct object_log_pace object_log_pace(struct req *r);
void object_log_go_on(const struct object_log_pace *p);

// ---- heads (object_log.c)

// The head of one object. `to` keeps what *h borrows. not_found, data_loss naming the object, or as
// the store says.
bool object_log_head(struct store *s, struct req *r, id128 stream, uint64_t number,
                     char to[LOG_OBJECT_HEAD_MAX], struct log_object_head *h, err *e) MUST_CHECK;

// ---- looking (object_log_look.c)

// What is known of a stream before all its objects are looked at.
struct object_log_extent {
    uint64_t lowest;  // number of an object; 0: there is none
    uint64_t top;
    bool unbound;                   // its objects have format 1
    struct log_object_bound bound;  // else; `below` 0: it cannot be read
};
bool object_log_extent(struct store *s, struct req *r, id128 stream, struct object_log_patience *p,
                       struct object_log_extent *out, err *e) MUST_CHECK;

// Whether an object that is not there was deleted, as all above knows; else it is lost.
bool object_log_was_covered(struct store *s, struct req *r, id128 stream, uint64_t number,
                            struct object_log_patience *p, bool *covered, err *e) MUST_CHECK;

// Sets *why: the object is lost.
void object_log_tell_lost(id128 stream, uint64_t number, err *why);

// ---- reading many at once (object_log_fetch.c)

#define OBJECT_LOG_WINDOW ((size_t)64)

// One object of a window. The caller sets the first three.
struct object_log_piece {
    uint64_t number;
    uint64_t size;
    bool listed;  // by a LIST, with this size
    enum object_log_piece_state {
        OBJECT_LOG_WAITS,
        OBJECT_LOG_READ,        // `bytes` has it, or the first of it
        OBJECT_LOG_UNREADABLE,  // it is there, and cannot be read; `why` is data_loss
        OBJECT_LOG_GONE,        // it is not there, as a read and a LIST after it say
    } state;
    bool denied;  // private: the store said that it is not there, or shorter
    struct buf bytes;
    err why;
};

struct object_log_window {
    struct object_log_piece *v;
    size_t n;
    size_t cap;
    size_t head;  // bytes of each object that are read; SIZE_MAX: all
    struct mem_budget *memory;
};

// Room for `cap` objects, at most OBJECT_LOG_WINDOW.
bool object_log_window_init(struct object_log_window *w, struct mem_budget *memory, size_t cap,
                            size_t head, err *e) MUST_CHECK;
void object_log_window_release(struct object_log_window *w);  // idempotent; zero is empty
void object_log_window_add(struct object_log_window *w, uint64_t number,
                           const struct object_log_listed *listed);  // NULL: no LIST shows it
void object_log_window_clear(struct object_log_window *w);

// Reads all of them, at once where the store can, until none waits. Numbers ascend. Fails as the
// store does.
bool object_log_fetch(struct object_log_window *w, struct store *s, struct req *r, id128 stream,
                      struct object_log_patience *p, err *e) MUST_CHECK;

// What the first bytes of an object say, which was read; it borrows from the piece. data_loss
// naming the object. (object_log_look.c)
bool object_log_decode_piece(const struct object_log_piece *x, id128 stream,
                             struct log_object_head *h, err *e) MUST_CHECK;

// ---- skimming (object_log_skim.c)

extern size_t object_log_stretch;  // objects in a stretch; tests make it smaller

// An object whose head was looked at.
struct object_log_skimmed {
    uint64_t number;
    uint64_t size;
    enum object_log_piece_state state;
    bool readable;
    struct log_object_head head;  // if it is readable; without its node
    err *why;                     // if not; data_loss
    // So many right below it were passed over: a LIST shows them, and they are of its cut, as is
    // the one below them.
    uint64_t passed;
    uint64_t passed_bytes;
};

struct object_log_skim {
    // The caller's; he begins with zeros.
    struct store *store;
    struct req *r;
    id128 stream;
    struct object_log_patience *patience;
    bool all;                                                            // pass over none
    bool (*see)(void *arg, const struct object_log_skimmed *o, err *e);  // they come in order
    void *arg;
    // Private.
    struct mem_budget *memory;
    struct object_log_window w;
    uint64_t first;  // number of the first in the stretch
    struct object_log_spot {
        uint64_t size;
        uint32_t known;  // its place in `known`, from 1; 0: it was not read
        bool listed;
        bool wanted;
    } * spots;
    size_t n;
    size_t cap;
    struct object_log_skimmed *known;
    size_t known_n;
    size_t known_cap;
};

// `most`: how many objects are expected. More may come.
bool object_log_skim_init(struct object_log_skim *x, uint64_t most, err *e) MUST_CHECK;
void object_log_skim_release(struct object_log_skim *x);  // idempotent

// The next object: its number follows the last one's, or nothing came since object_log_skim_end.
bool object_log_skim_add(struct object_log_skim *x, uint64_t number,
                         const struct object_log_listed *listed, err *e) MUST_CHECK;
// Those that came have been given when it returns. Fails as the store does, or with data_loss if
// one is of a later format.
bool object_log_skim_end(struct object_log_skim *x, err *e) MUST_CHECK;

// ---- deleting (object_log_sweep.c)

// The name of an object of the log, or of its copy: name_log_object, name_damaged_object.
typedef str object_log_naming(struct arena *a, id128 stream, uint64_t number);

// Deletes an object, and fails with unavailable if it is there all the same: the answer to a
// deletion may come from something on the way.
bool object_log_remove_first(struct store *s, struct req *r, id128 stream, uint64_t number,
                             err *e) MUST_CHECK;

// Deletes the objects from *first to `last`, batch by batch. *first is left at what is not deleted.
bool object_log_remove(struct store *s, struct req *r, id128 stream, uint64_t *first, uint64_t last,
                       err *e) MUST_CHECK;

// Deletes so many, at once where the store can.
#define OBJECT_LOG_REMOVE ((size_t)128)
bool object_log_remove_batch(struct store *s, struct req *r, object_log_naming *name, id128 stream,
                             const uint64_t *numbers, size_t n, err *e) MUST_CHECK;

// Streams that have objects, or copies of them, in order; the arena's.
bool object_log_folders(struct store *s, struct req *r, struct arena *a, bool copies,
                        id128 **streams, size_t *n, err *e) MUST_CHECK;

id128 object_log_next_stream(id128 stream);  // the next one that there could be

// (object_log_kept.c) Goes on with the sweep of copies from x->next on.
bool object_log_sweep_kept(struct object_log_sweep *x, struct store *s, struct req *r,
                           uint64_t until_mono_ns, err *e) MUST_CHECK;
