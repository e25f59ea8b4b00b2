// SPDX-License-Identifier: Apache-2.0
//
// wal_object_int.h - what wal_object*.c share: the state of a log in the object store.
#pragma once

#include "ingester/log/object_log.h"
#include "ingester/log/wal_int.h"

// Memory of one piece of work on the store, besides the bytes of objects.
#define OBJECTS_WORK    ((size_t)16 << 20)
#define OBJECTS_READ_NS ((uint64_t)60 * 1000000000)
#define OBJECT_WHY_MAX  400  // bytes of a refusal that are kept

// Objects of one stream that has ended are deleted for so long before others have their turn.
#define OBJECTS_CLEAR_NS ((uint64_t)2 * 1000000000)

// A stream of this node that has objects in the store. It is in the file of streams.
struct owned {
    id128 id;
    struct object_log_told told;  // if this process wrote it: its newest object
    bool ended;                   // it is not the open one
    bool sealed;                  // a seal holds
    bool old;                     // of an earlier process
    bool found;                   // and its cuts are in the tables
    bool unread;                  // or it is damaged, and stays as it is
    bool covered;                 // all its cuts are, and the file says so
    uint32_t adopted;             // not 0: another process wrote it (wal_object_adopt.c)
    bool reading;                 // and it is not read yet
};

// A cut that the head has dropped, and whose objects are still there.
struct gone {
    id128 stream;
    struct object_log_place place;
};

// The group whose object was put, and may have landed or not.
struct doubt {
    struct cut *cut;  // NULL: there is none
    uint64_t first_seq;
    uint64_t last_seq;
    uint64_t rows;  // of the cut with it
    bool landed;
    bool refused;              // for good (OBJECT_LOG_REFUSED): it is not put again,
    char why[OBJECT_WHY_MAX];  // for this reason
    bool unsure;               // and no seal was taken at first: its size tells nothing
};

// How large objects may be (wal_object_size.c).
struct object_size {
    size_t full;     // one that has so many bytes gets no further push
    size_t most;     // no larger one is put; SIZE_MAX: none was refused
    size_t refused;  // of the last one that was refused; 0: none was
    bool tried;      // a trial has shown the limit, or may show that it is over
    size_t shy;      // pushes of so many bytes are put off until then; 0: none are
    int64_t shy_until_boot_ns;
    unsigned failed;        // pushes that failed alone, one after the other, while seals were taken
    int64_t since_boot_ns;  // when the limit was set or tried last
    char why[OBJECT_WHY_MAX];
};

struct wal_objects {
    struct object_log_writer writer;  // of the open stream; with the lead
    struct object_log_sealer sealer;
    struct doubt doubt;
    struct object_size size;  // changed with the lead and w->lock
    bool taken_over;          // another node sealed a stream that objects_find found
    bool lost;                // the name of the object in doubt has other bytes
    int64_t used_boot_ns;     // when the stream was last written, or began
    int64_t used_wall_ns;
    // With w->lock:
    struct owned *streams;
    size_t stream_count;
    size_t stream_cap;
    bool unnoted;             // the file of streams lacks the last change
    uint32_t adoptions;       // so far
    const struct req *asker;  // of all of them (wal_terms)
    struct gone *gone;        // by stream, then cut
    size_t gone_count;
    size_t gone_cap;
};

// ---- wal_object.c
void objects_req(struct wal *w, struct req *r, uint64_t limit_ns);
id128 objects_nonce(void);
bool objects_begin(struct wal *w, const struct wal_stream *own, err *e) MUST_CHECK;
enum object_log_put objects_put(struct wal *w, err *e) MUST_CHECK;
void objects_note_end(struct wal *w, id128 id, bool sealed);
void objects_note_landed(struct wal *w, struct cut *c);

// ---- wal_object_size.c
// Bytes of entries in an object. A store takes about as long for one byte as for a megabyte.
#define OBJECT_BYTES ((size_t)8 << 20)

void objects_init_size(struct wal *w);
// Whether rows of so many bytes may fit an object; otherwise out_of_range, or aborted if they are
// put off. With w->lock.
bool objects_admit(const struct wal *w, size_t rows_bytes, err *e) MUST_CHECK;
// An object of n bytes was refused for good, is not in the log, and its stream is over. With the
// lead, without w->lock.
void objects_note_refused(struct wal *w, size_t n, const char *why);
// One of n bytes failed, though the store took the seal in its place.
void objects_note_slow(struct wal *w, size_t n);
// An object of n bytes that had one push alone has failed, and is not in the log: the store took a
// seal in its place. With the lead.
void objects_note_failed(struct wal *w, size_t n);
void objects_note_taken(struct wal *w, size_t n);  // an object landed; with the lead
// Whether an object of n bytes is worth a try; otherwise aborted: it is put off.
bool objects_try(const struct wal *w, size_t n, err *e) MUST_CHECK;
// Sets *e for a push that needs an object of n bytes and cannot have it.
bool objects_refuse(const struct wal *w, size_t n, err *e);
// From time to time, if there is a limit, tries whether it still holds. Without the lead.
void objects_try_larger(struct wal *w);

// ---- wal_object_streams.c
bool objects_open(struct wal *w, err *e) MUST_CHECK;  // at the first open
bool objects_find(struct wal *w, err *e) MUST_CHECK;
// Seals the stream *s and brings its cuts into the tables; if it is adopted they are hidden. *s is
// a copy.
bool objects_find_stream(struct wal *w, struct owned *s, bool damaged, struct req *r,
                         err *e) MUST_CHECK;
// Takes the cuts of a stream out of the tables again. The head has no rows of them.
void objects_forget_half(struct wal *w, id128 stream);
void objects_free(struct wal *w);  // idempotent
// Writes the file of streams, or tells that it cannot: objects_tidy tries again. With the lead, or
// before appends begin.
void objects_note_streams(struct wal *w);
void objects_tidy(struct wal *w);
bool objects_unfinished(const struct wal *w, size_t i, struct wal_served *out);
bool objects_drop_cut(struct wal *w, struct cut *c, err *e) MUST_CHECK;
void objects_dropped(struct wal *w, id128 stream, uint64_t number, bool stream_too);
