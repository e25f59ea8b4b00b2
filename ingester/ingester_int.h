// SPDX-License-Identifier: Apache-2.0
//
// ingester_int.h - the running ingester, for the files of its requests and duties.
//
//     REPLAYING --all cuts read--> READY --write failed--> REOPENING --reopened, rest read--> READY
//         |
//         +--a cut cannot be read--> FAILED     (answers nothing; /ready and the log say why)
//
// READY and REOPENING --a stream of it was forgotten--> FAILED.
//
// The duty thread makes all of these moves (set_phase). Reads are answered in READY and REOPENING,
// because memory has all that was acknowledged. Appends are taken in READY.
#pragma once

#include "ingester/closings.h"
#include "ingester/config.h"
#include "ingester/head/head.h"
#include "ingester/known_ids.h"
#include "ingester/log/wal.h"
#include "ingester/relief.h"
#include "ingester/stuck.h"
#include "rpc/route.h"
#include "service/service.h"
#include "sys/thread.h"

enum ingester_phase {
    INGESTER_REPLAYING,
    INGESTER_READY,
    INGESTER_REOPENING,
    INGESTER_FAILED
};

struct ingester {
    const struct process *process;
    struct head *head;
    struct wal *wal;
    struct flush *flush;        // NULL: no store; cuts are dropped by age
    struct streams *streams;    // NULL: no store
    struct adopt *adopt;        // NULL: no log in the store
    struct roll *roll;          // of the streams; NULL: none is registered
    struct closings *closings;  // NULL: no store
    struct missed *missed;      // of a log that is recovered: deletions (aside.c); else NULL
    char *dir;
    bool set_aside;          // some were: only the duty thread uses it
    atomic_bool sorted;      // the log has no stream any more that was forgotten (aside.h)
    atomic_bool forgotten;   // a stream of this process was forgotten while it ran
    atomic_bool recovering;  // a request works on a log that is set aside
    pthread_t duty;
    struct lock lock;  // of phase, fault, stopping
    struct cond wake;  // of the duty thread
    enum ingester_phase phase;
    err fault;  // of FAILED and REOPENING
    bool stopping;
    uint64_t reopen_told_ns;  // of the duty thread
    struct known_ids known_ids;
    struct stuck appends;  // those that wait for the log
    struct relief relief;
    _Atomic uint64_t entries_read;  // by the replay
    _Atomic uint64_t entries_found;
    _Atomic uint64_t cuts_found;
    struct req adopting;            // the parent of all requests of adoptions; the drain cancels it
    _Atomic size_t adoption_bytes;  // of the head, promised to cuts that adoptions are reading
};

const struct ingester_config *ingester_settings(const struct ingester *in);

// Whether reads can be answered; if not, e says why. Any thread.
bool ingester_answers(struct ingester *in, err *e) MUST_CHECK;

// ---- requests
rpc_fn ingester_append;     // append.c
rpc_fn ingester_head_read;  // read.c
rpc_fn ingester_streams;
rpc_fn ingester_closed;       // closings.c
http_fn ingester_post_flush;  // flush_http.c
http_fn ingester_get_cuts;
http_fn ingester_get_tenants;  // tenants_http.c
http_fn ingester_get_streams;  // stream_http.c
http_fn ingester_post_forget;
http_fn ingester_get_forgotten;
http_fn ingester_post_recover;
http_fn ingester_post_remove;

// An append without its HTTP exchange, for tests: bytes of AppendRequest in, of AppendResponse out.
// read_run is the same for HeadRead.
bool append_run(struct ingester *in, struct req *r, str message, struct buf *out,
                err *e) MUST_CHECK;
bool read_run(struct ingester *in, struct req *r, str message, struct buf *out, err *e) MUST_CHECK;

// ---- duties
// Applies the unread entries of all cuts. (replay.c)
bool replay_run(struct ingester *in, err *e) MUST_CHECK;

// The same for one cut of a stream that is being adopted. The head's limit holds, and the calling
// thread does it alone. Who has to see to room is asked before each entry, and again if there was
// none for it: `more` makes some and clears *e, or leaves it. After a failure the head may have
// some of its rows.
struct replay_room {
    bool (*before)(void *arg, err *e);
    bool (*more)(void *arg, err *e);
    void *arg;
};
bool replay_adopted(struct ingester *in, struct cut *c, const struct replay_room *room,
                    err *e) MUST_CHECK;

// Before rows of the tenant are read back: which of them deletions hide. (aside.c)
bool missed_learn(struct missed *m, str tenant, err *e) MUST_CHECK;

// The duty thread. (duty.c)
void *duty_main(void *arg);
void duty_wake(struct ingester *in);
bool duty_is_over(struct ingester *in);  // the duty thread is asked to end

// head_drop; then the freed memory goes back to the system.
bool duty_drop(struct ingester *in, struct cut *c, bool insist, size_t *rows);
