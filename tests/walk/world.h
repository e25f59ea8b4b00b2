// SPDX-License-Identifier: Apache-2.0
//
// world.h - what a walk goes through: real ingesters, compactors and a querier over one store in
// memory, a clock that jumps, and a book of the rows that were pushed.
//
// Each row is a profile of one sample in a function of its own, r<number>, so that a flame graph
// says how often each row was counted. Whoever uses the store has a handle of his own on it
// (struct seat), through which the gate orders what he does, faults reach him and a crash ends him.
#pragma once

#include "lib/memstore.h"
#include "manifest/manifest.h"
#include "querier/answer/answer.h"
#include "querier/block/blocks.h"
#include "sys/clock.h"
#include "unit/ingester/whole.h"
#include "walk/compact.h"
#include "walk/copies.h"
#include "walk/gate.h"
#include "walk/home.h"
#include "walk/stall.h"

#define WALK_ROWS      4096
#define WALK_INGESTERS 2
#define WALK_ACTORS    10
#define WALK_TENANT    "walk"
#define WALK_TYPE      "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

// What is wrong on purpose: the walk must find it.
//
// Of two workers, or compactors, that share a tenant these are harmless by design, so that no walk
// can find them:
//
//     both do a job       Jobs that are taken, and shares, only save work. The second commit is
//                         refused, as the sources are absorbed or replaced (manifest_commit.c).
//     a lost commit       The next plan is made from the newest manifest, which has not what the
//     counts as done      commit had: the job is planned again.
//
// What is wrong with a refusal that is not obeyed is NAMED_AGAIN, with a job that nobody gives back
// STAYS_TAKEN.
//
// Of logs in the store some mistakes show in few orders of operations only. There all orders are
// gone through (unit/ingester/object_log_model_test.c):
//
//     a seal is believed without the LIST after it
//     an object in doubt is sent again with other bytes
//     a cut that is half deleted is read as whole
//     a later cut is deleted before an earlier one
//
// EARLY_ACK and NEWEST_GONE are there too.
enum mistake {
    NO_MISTAKE,
    MAN_FIRST,    // the querier's LIST and manifest are older than the heads' answers
    UNNAMED,      // heads do not say which cuts they contain
    LOST_PUT,     // the store forgets some segments that it said it had
    BLIND,        // a flush sees neither segments nor manifests, and writes beside what exists
    OLD_ROOT,     // the querier's manifest is older than its LIST of segments
    NO_LOOSE,     // heads are not told of rows that another one counts
    UNRAISED,     // whoever passes an ingester over does not tell the next one
    NO_NAME,      // an ingester that says nothing counts as one that has nothing
    READY_EARLY,  // cuts count as whole while their log is read again
    TOO_EARLY,    // a leaf expires though no parent has its sums
    DROPPED,      // parents go that alone have the sums of an expired leaf
    UNTOLD,       // answers that were rounded are taken as exact
    SILENT_LOSS,  // nobody hears how many rows of a damaged log are missing
    ULID_ALONE,   // orphans go by the age in their name alone, and no commit looks for its blocks
    HASTY,        // blocks of a commit that failed are deleted, whatever became of it
    NAMED_AGAIN,  // a leaf whose sources another worker absorbed first is named all the same
    STAYS_TAKEN,  // a job that fails or gives way stays taken, so that no worker does it
    ONE_LIST,     // distributors whose lists differ say that they have the same
    FORGETFUL,    // nobody minds that ids of flushed rows had no room
    HURRIED,      // leaves expire though ingesters may hold copies of their rows
    // Of logs in the store (home.h):
    EARLY_ACK,    // an object counts as landed that is still on its way
    NEWEST_GONE,  // the newest object of an open stream is deleted
    UNREAD,       // an adopted stream is served and flushed before it is read
    UNSETTLED,    // a stream acknowledges while queriers share a list without it
    SURE_HOME,    // a distributor whose list lacks the home takes the next one for it
    LIST_ALONE,   // a querier asks those of its list, and looks for no registered streams
    MISTAKES
};
#define FIRST_IN_STORE EARLY_ACK
extern const char *const mistake_names[MISTAKES];

struct world;

struct seat {
    struct world *w;
    struct store *inner;  // memstore_again
    struct store *store;  // what its owner gets: inner, or a wrong one around it
    _Atomic bool dead;    // all operations fail at once
    char root[256];       // cannot be read for so many times (clocks.h), of a seat of one thread
    unsigned hidden;
};

struct pushed {
    int64_t time_ns;
    int64_t pushed_ns;  // when, first
    unsigned service;
    unsigned pod;
    unsigned home;  // the ingester that gets it first
    _Atomic bool acked;
    _Atomic unsigned holders;  // bits of the ingesters that took it
};

struct node {
    char name[16];
    char dir[DIR_MAX];
    struct seat seat;
    struct whole whole;
    bool up;         // under the world's lock, as `users`
    unsigned users;  // requests inside
    struct stall stall;
    struct copies_node holding;
    struct home_node home;
};

enum actor_kind {
    ACT_FLUSH,
    ACT_COMPACT,
    ACT_SWEEP,
    ACT_QUERY,
    ACT_CRASH,
    ACT_STALL,
    ACT_CROWD,
    ACT_ROLL,
    ACT_PUSH,
    ACT_ADOPT,
    ACT_KINDS
};

struct bundle {  // rows of one service, which go to the same ingester in one batch
    unsigned numbers[2];
    unsigned n;
};

// A push on its way, as a distributor sends it.
struct push {
    struct bundle rows;
    unsigned home;
    bool lost;      // the first answer
    bool unlisted;  // the home is not in the distributor's list
    bool other;     // it comes through the distributor whose list differs for ever
};

// What the two distributors tell of their lists (model/placings.h).
#define WALK_PLACING       UINT64_C(3)
#define WALK_OTHER_PLACING UINT64_C(5)

struct actor {
    struct world *w;
    enum actor_kind kind;
    pthread_t thread;
    bool used;          // the driver's
    _Atomic bool done;  // it may be joined
    struct dice dice;
    unsigned node;     // of FLUSH, CRASH, STALL, ROLL, ADOPT
    struct push push;  // of PUSH, CRASH
    struct seat seat;  // of COMPACT, SWEEP, CROWD
    struct req req;
};

struct walk_counts {
    uint64_t pushed, repeated, flushes, crashes, jobs, aborted, sweeps, deleted;
    uint64_t queries, exact, rounded, partial, refused, expired, steps, crowds;
    uint64_t stalls, landed;
    uint64_t broken;  // writes of logs that failed
    uint64_t lost;    // rows of damaged logs, as their ingesters say
    uint64_t worlds, late, wiped, adopted, brief, cleared, met;  // of logs in the store
};

struct world {
    uint64_t seed;
    struct dice dice;
    enum mistake mistake;
    int64_t start_ns;
    bool in_store;  // the logs
    struct home *home;
    struct gate gate;
    _Atomic bool calm;     // no creation fails any more
    int64_t grace_ns;      // of sweeps
    int64_t retention_ns;  // of leaves; 0: for ever
    bool two_lists;        // there is a second distributor, with another list
    bool forgets_ids;      // ids of flushed rows have hardly any room
    int64_t clocks[3];     // by which those of compactors are off
    struct sweep_seen seen;
    struct copies *copies;
    struct taken_jobs taken;
    struct store *store;  // nobody's: never waits, never fails
    struct seat querier_seat;
    struct config *config;
    struct querier_state querier;
    struct mem_budget memory;
    struct node nodes[WALK_INGESTERS];
    unsigned node_count;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct pushed rows[WALK_ROWS];
    _Atomic unsigned row_count;
    struct actor actors[WALK_ACTORS];
    struct walk_counts counts;  // under the lock
    // Of damaged logs (log.h), under the lock but for the first one, which is the crash's.
    uint64_t told_before;
    struct dice log_dice;       // under the lock: which writes of logs fail
    bool damaged;               // a log; once in a world
    _Atomic unsigned doubtful;  // 1 + the row whose write failed last, and may be in the log
    uint64_t may_lack;          // rows that may be missing and have not been yet,
    unsigned lack_end;          // all with lower numbers than this
    bool lacks[WALK_ROWS];
    char fault[8000];  // the first that was found, under the lock
};

// ---- world.c
void world_open(struct world *w, uint64_t seed, enum mistake mistake);
void world_close(struct world *w);
void world_start(struct world *w, struct node *n);  // a process; until it is ready
void world_clock_open(void);  // once a process, before anything looks at the clock
void world_advance(int64_t ns);
void world_fault(struct world *w, const char *fmt, ...) PRINTF(2, 3);
bool world_failed(struct world *w);

void seat_open(struct seat *s, struct world *w, bool wrong);
void seat_close(struct seat *s);

// Names as they are now, for the calling thread's LISTs under MAN_FIRST and OLD_ROOT.
void seat_freeze(struct world *w);
void seat_thaw(void);

// ---- actors.c
void walk_push(struct world *w);

// Were they stored? A node that is down stores nothing.
bool walk_give(struct world *w, struct node *n, const struct bundle *rows, uint32_t attempt,
               uint64_t placing);
bool walk_start(struct world *w, enum actor_kind kind);  // false: there are enough
void walk_reap(struct world *w, bool all);

// Everything must be there, and nothing twice.
void walk_ask(struct world *w, struct dice *d, bool whole);
void walk_settle(struct world *w);  // flush, compact, ask, sweep, until nothing is left to do
