// SPDX-License-Identifier: Apache-2.0
//
// head_int.h - the inside of the head, for head*.c only.
//
// Locks, outermost first: head.removing, head.drops (readers against removals), head.lock (the
// table of services), service.lock, head.noting. The table has one reference to each of its
// services; a service is freed with its last reference.
//
// Nothing keeps readers or pushes out for more than HEAD_RUN rows, or a fixed number of steps. A
// drop goes run by run (head_drop.c); memory is freed after the locks were given up; and a service
// whose tables are mostly unused is not compacted in place, but replaced by a copy
// (head_compact.c). The former service is then *retired*: it has a successor. Readers that are in
// it go on in it. Nobody else enters it, because every look-up takes the successor
// (service_current).
#pragma once

#include "ingester/head/head.h"
#include "ingester/head/head_log.h"
#include "ingester/head/ids.h"
#include "ingester/head/index.h"
#include "ingester/head/recent_ids.h"
#include "ingester/head/translation.h"

#include <pthread.h>

// The distinct stacks of an hour (head_stacks.h).
struct stack_hour {
    int64_t hour;
    uint64_t *bits;  // NULL: free
    size_t words;
    uint64_t count;
    uint64_t used;  // service.hour_clock when it was last used
};
#define STACK_HOURS 8

// Placings that have a number of their own, and one for all others.
#define HEAD_PLACINGS 4096

// Rows or series that are visited under one hold of a lock.
#define HEAD_RUN 1024

// The cut that a service got its newest rows of (head_cuts.c).
struct noted_cut {
    const struct cut *cut;
    id128 stream;
    uint64_t number;
    size_t at;  // in the list of the cut
    int64_t first_ns;
    int64_t last_ns;
};

// While a service is copied: which of its series got rows since.
struct renewal {
    uint32_t n;
    bool more;  // than these
    uint32_t series[HEAD_RUN];
};
static inline void renewal_note(struct renewal *r, uint32_t series)
{
    if (r->n > 0 && r->series[r->n - 1] == series) return;
    if (r->n == HEAD_RUN) {
        r->more = true;
    } else {
        r->series[r->n++] = series;
    }
}

// A tenant, with what all its services have in common (head_tenants.c).
struct tenant_head {
    struct head *head;
    str name;
    struct mem_budget budget;       // of all that its services have
    _Atomic uint64_t active;        // series of its current services that have rows, or will
    _Atomic uint32_t refs;          // one for each of its services
    struct service_head *services;  // one of the ring, or NULL; these two under head.lock
    uint32_t service_count;
    char text[];
};

struct service_head {
    struct head *head;
    struct tenant_head *owner;            // a reference
    str tenant;                           // the owner's name
    str service;                          // owned
    struct service_head *next_of_tenant;  // these two under head.lock
    struct service_head *last_of_tenant;
    _Atomic uint32_t refs;
    _Atomic uint32_t listed;  // of these, those of lists of cuts and of the service it replaced
    struct service_head *_Atomic successor;  // a reference; set once, with the lock
    struct service_head *next_retired;
    pthread_rwlock_t lock;  // of everything below
    struct symbols symbols;
    struct symbols_hints hints;
    uint64_t age;  // of symbols (translation.h): changes when rows change their numbers
    struct index index;
    struct rows *rows;  // by series number
    size_t rows_cap;
    struct ids ids;
    struct ids in_flight;    // of rows that are staged
    struct staged *staging;  // the batches that these are of
    uint64_t row_count;
    bool has_loose;          // a row with attempt > 0 has come at some time
    uint16_t placing;        // of all rows that have come and have one; 0: none came,
    bool mixed;              // or they have several
    uint32_t turn;           // publications so far
    uint32_t live_stacks;    // used stacks, when last counted,
    uint64_t live_rows;      // and how many rows used them
    uint32_t pass;           // copies that were begun so far
    _Atomic uint32_t shape;  // head_remove calls that removed rows, so far
    struct stack_hour hours[STACK_HOURS];
    uint64_t hour_clock;
    uint64_t table;      // id of its tables' numbering in the log; no other numbering has it
    struct marks marks;  // which rows of its tables the log has
    uint32_t readers;    // restores, which remember numbers of rows: the tables keep their numbers
    struct noted_cut noted;
    struct renewal *renewal;  // NULL: no copy is under way, and rows may change their places
};

// A batch whose rows are ready but not visible yet. Its memory is the request's arena.
struct staged_row {
    uint32_t series;
    uint32_t first;  // the row that had this vector first: itself, or that of another sample type
    struct row row;
};
struct staged {
    struct service_head *service;
    struct staged *next;  // of the service's
    struct arena *owner;  // the request's
    struct staged_row *rows;
    uint32_t n;
    uint32_t duplicates;
    // Rows of the tables that the log may lack, if it is still in this run (head_log.h).
    uint64_t run;
    uint32_t *unmarked;  // stacks of the vectors
    size_t unmarked_n;
    size_t unmarked_cap;
    bool unmarked_series;
    struct buf logged;  // its rows as the log gets them
};

struct head {
    struct mem_budget budget;
    struct head_filter *filter;  // NULL: all rows are staged
    pthread_rwlock_t removing;   // rows leave, and services are copied, by one thread at a time
    pthread_rwlock_t drops;
    pthread_rwlock_t lock;  // of the next nine
    struct map by_key;
    struct service_head **services;
    uint32_t service_count;
    size_t service_cap;
    struct map by_tenant;
    struct tenant_head **tenants;
    uint32_t tenant_count;
    size_t tenant_cap;
    _Atomic uint64_t tables;  // numbers given to tables so far
    uint32_t hand;            // of head_next_services
    struct lock noting;       // of the next four
    struct cut_services **cuts;
    size_t cut_count;
    size_t cut_cap;
    bool cuts_unknown;
    struct service_head *_Atomic retired;  // a list; a reference each
    // Rows that are being removed from the head; NULL: none. Set while no reader is in.
    const struct head_removal *_Atomic concealed;
    // Drops and removals under way: some rows may not count. Rises while no reader is in.
    _Atomic uint32_t dropping;
    _Atomic uint64_t visited_services;
    _Atomic uint64_t visited_rows;
    _Atomic uint64_t asked_services;
    _Atomic uint64_t longest_run;
    _Atomic uint64_t longest_hold;
    _Atomic uint64_t runs;
    _Atomic uint64_t series;
    _Atomic uint64_t active;  // of all tenants
    _Atomic uint64_t rows;
    _Atomic uint64_t duplicates;
    _Atomic uint64_t capped;
    struct lock turns;  // of the next two
    struct cond turned;
    uint64_t turn;   // how many were published or abandoned
    bool remembers;  // what is dropped stays known for a while; set at the start
    bool adopts;     // cuts of adopted streams may be there; with `drops` for writing
    struct recent_ids recent_ids;
    struct translations translations;
    struct lock placing;  // for adding to the next two; a reader has a number of what is there
    _Atomic uint32_t placing_count;
    uint64_t placings[HEAD_PLACINGS];
};

// The number of a placing (model/placings.h), from 1, and back. Numbers are never given to another
// one; when there are no more, all further ones have that of PLACING_MANY. 0 for 0.
uint16_t head_placing_number(struct head *h, uint64_t placing);
uint64_t head_placing(const struct head *h, uint16_t number);

// With the service's lock for writing.
static inline void service_note_row(struct service_head *s, const struct row *row)
{
    s->has_loose |= row->attempt > 0;
    s->mixed |= s->placing && row->placing && s->placing != row->placing;
    if (row->placing) s->placing = row->placing;
}

// The budget of all that the service has.
static inline struct mem_budget *service_budget(const struct service_head *s)
{
    return &s->owner->budget;
}

// Tells that the rows of the service's tables have new numbers from now on. With its lock.
void service_renumbered(struct service_head *s);

bool head_knows(struct service_head *s, uint32_t series, id128 id);  // with the service's lock

// The service, made if it is new, with a reference; NULL and *e set on failure.
struct service_head *head_service(struct head *h, str tenant, str service, err *e) MUST_CHECK;
void service_unref(struct service_head *s);

// The service that has its place now: itself, or its last successor.
static inline struct service_head *service_current(struct service_head *s)
{
    struct service_head *next = NULL;
    while ((next = atomic_load_explicit(&s->successor, memory_order_acquire)))
        s = next;
    return s;
}

// A new empty service with the same names, which is in no table and whose series do not count in
// the head's number yet. It is to replace the other, or goes to service_discard.
struct service_head *service_like(const struct service_head *s, err *e) MUST_CHECK;
void service_discard(struct service_head *s);

// Puts the successor of `from` in its place in the table. The caller has a reference to `from`.
void head_retire(struct head *h, struct service_head *from);

// Found, with a reference, or NULL.
struct service_head *head_find(struct head *h, str tenant, str service);

// The i-th service of the table, with a reference; NULL behind the last. A new service is the last
// one; when one leaves, the last one takes its place.
struct service_head *head_service_at(struct head *h, uint32_t i);

// Takes those services out of the table that have no rows and no references but the table's and the
// caller's.
void head_sweep(struct head *h, struct service_head *const *v, size_t n);

// The next `max` of the table, with references, round and round.
size_t head_next_services(struct head *h, struct service_head **v, size_t max);

// Bytes that one generation of recent ids may take.
size_t head_recent_ids_most(const struct head *h);

// After rows were dropped, with head.removing: replaces a service by a copy if a large part of its
// symbols or series has no rows any more. (head_compact.c)
void service_compact(struct service_head *s);

// Counts a hold of a service's lock: the rows or steps visited under it, and when it began
// (clock_thread_ns).
void head_note_run(struct head *h, uint64_t steps, uint64_t began);

// Takes the lock for writing, for a run of a removal or copy; lets readers go first for a while.
void service_lock_politely(struct service_head *s);

// As head_stage, for records that come from a log: series and stacks are numbers of the log. With
// the service's lock for writing. (head_stage.c)
bool head_stage_logged(struct service_head *s, struct arena *a, const struct batch *b,
                       const struct numbers *numbers, struct staged **out, err *e) MUST_CHECK;
// Is the row one of those?
bool row_is_meant(const struct head_removal *what, const struct service_head *s, uint32_t series,
                  const struct row *row);

// Whether a row counts for a query: it is of the streams that are asked for. Rows of a dropped cut
// do not count, nor do concealed ones, even if the drop or removal has not reached them; nor those
// of a cut that is hidden. With the head held (head_pin).
static inline bool row_is_there(const struct head_query *q, const struct service_head *s,
                                uint32_t series, const struct row *row)
{
    const struct cut *c = row->cut;
    if (c->adopted != q->adopted) return false;
    // Ordered by head.drops.
    if (atomic_load_explicit(&c->dropped, memory_order_relaxed)) return false;
    if (atomic_load_explicit(&c->hidden, memory_order_relaxed)) return false;
    const struct head_removal *what =
        atomic_load_explicit(&s->head->concealed, memory_order_relaxed);
    return !what || !row_is_meant(what, s, series, row);
}

// ---- tenants (head_tenants.c); these with the lock of the table of services

// The tenant, made if it is new, with a reference; NULL and *e set on failure. A new one is in the
// table once it has a service.
struct tenant_head *tenant_head_ref(struct head *h, str tenant, err *e) MUST_CHECK;
// One service of the tenant, from which next_of_tenant leads in a circle through all; NULL: none.
struct service_head *tenant_services(const struct head *h, str tenant);
bool tenant_add(struct head *h, struct service_head *s, err *e) MUST_CHECK;
void tenant_remove(struct head *h, struct service_head *s);
void tenant_replace(struct service_head *from, struct service_head *to);
void tenants_release(struct head *h);

// ---- these without it
void tenant_head_unref(struct tenant_head *t);

// Sets the share of the tenant (head.h), a part of the head's limit; 0: all of it.
void tenant_lend(struct tenant_head *t, double share);
void tenants_lend_all(struct head *h);  // all of it to each, until its next push

// If the tenant has more than its share, says so before e's message. Returns whether it has.
bool tenant_blame_share(struct head *h, str tenant, err *e);

// A series is active while it has rows, or a batch that is staged brings it some. The owner of the
// series counts: with the service's lock for writing. most: 0 is no limit.
uint64_t tenant_active(const struct tenant_head *t);
bool tenant_wake(struct tenant_head *t, uint64_t n, uint64_t most, err *e) MUST_CHECK;
void tenant_sleep(struct tenant_head *t, uint64_t n);
bool tenant_refuse_series(const struct tenant_head *t, uint64_t n, uint64_t most, err *e);

// ---- which services have rows of a cut (head_cuts.c)
struct cut_service {
    struct service_head *service;
    int64_t first_ns;  // its rows of the cut are within; both included
    int64_t last_ns;
};

// Notes that the service got rows of the cut with these times. With its lock for writing. Cannot
// fail.
void service_note_cut(struct service_head *s, const struct cut *cut, int64_t first_ns,
                      int64_t last_ns);

// The services with rows of a cut that gets no more rows, by tenant and name, each once and with a
// reference that cut_services_unref gives back. *out is the arena's. Without a list: all services.
bool cut_services_ref(struct head *h, const struct cut *cut, struct arena *a,
                      struct cut_service **out, size_t *n, err *e) MUST_CHECK;
void cut_services_unref(struct cut_service *v, size_t n);

// The same one by one, which needs no memory; a service may come twice. Each with a reference, NULL
// at the end.
struct cut_walk {
    struct head *head;
    const struct cut *cut;
    bool all;
    size_t left;
};
void cut_walk_begin(struct cut_walk *w, struct head *h, const struct cut *cut);
struct service_head *cut_walk_next(struct cut_walk *w);

// Forgets the list of a cut whose rows have left, and takes services without rows out of the table.
void cut_services_forget(struct head *h, const struct cut *cut);
void cut_services_release(struct head *h);

// ---- walking over the series that a query selects (head_walk.c)
struct head_walk {
    struct head *head;
    struct req *req;
    const struct head_query *query;
    struct service_head **services;  // referenced until the request's arena ends; in order
    size_t service_count;
    uint32_t turn;             // of the service that walk_series is in
    struct index_set *hidden;  // its series that each deletion is of
};
bool walk_begin(struct head_walk *w, struct head *h, struct req *r, const struct head_query *q,
                err *e) MUST_CHECK;

// Calls `visit` for each matching series of one service with its lock held for reading, taken anew
// for each, in order of their numbers. Looks at deadline and cancel in between.
typedef bool visit_fn(void *arg, struct service_head *s, uint32_t series, err *e);
bool walk_series(struct head_walk *w, struct service_head *s, bool with_sampled, visit_fn *visit,
                 void *arg, err *e) MUST_CHECK;

// Whether a row counts; a visitor that sums asks this for each row that it is about to add. A row
// that was published after the first series was visited does not count, or a sum would have only
// some series of its profile. For rows that another ingester may have too, model/loose.h decides.
bool walk_counts(const struct head_walk *w, const struct service_head *s, uint32_t series,
                 const struct row *row);

// Whether a deletion hides a row.
bool walk_hides(const struct head_walk *w, uint32_t series, const struct row *row);

// Label sets of series one after the other, in one place that grows to the largest.
struct label_room {
    struct arena *arena;
    label *v;
    size_t cap;
};

// The pairs of a series whose names are in `names`; all of them if names is NULL. Borrows the room
// until the next call, strings from the service.
bool walk_labels(struct label_room *room, const struct service_head *s, uint32_t series,
                 const str *names, size_t n, labels *out, err *e) MUST_CHECK;
