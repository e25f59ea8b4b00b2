// SPDX-License-Identifier: Apache-2.0
//
// member.h - the nodes that are known, and which of them seem alive.
//
// A member list is configured (ids and addresses of the internal listeners), or found by name
// (discover.h); liveness is what the last calls and probes (probe.h) showed. No answer's
// correctness depends on liveness: it only decides which members are asked first and which are not
// waited for. In the all-in-one the list has one ingester, itself. A new member counts as alive.
//
//     ALIVE -> DEAD   three failures in a row (no process listens, the connection broke, a probe
//                     was not answered in time), or a call that was given up (members_is_silent)
//     DEAD -> ALIVE   one answer: to a probe or to a call
//
// A call that ends at its own time limit shows nothing about the member: the limit may be short, or
// the work large. Silence does: while a call is under way nothing has come from the member for
// long, not even answers to probes, which are sent every few seconds. So callers wait for a slow
// answer of a living member, and detect a process that stops, before their call or during it,
// although its kernel still takes connections and bytes.
//
// Each change is a line in the log, "member.dead" and "member.alive", and shows in the metrics
// flametree_cluster_member_alive and flametree_cluster_members. Readers copy; all functions may be
// called from any thread.
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "cluster/node.h"

#define MEMBER_FAILURES_MAX 3                           // in a row, until a member is dead
#define MEMBER_SILENCE_NS   (UINT64_C(3) * 1000000000)  // silence until a member is dead
#define MEMBER_RETURN_NS    (UINT64_C(500) * 1000000)   // a call waits so long for a dead member

#define MEMBER_WEIGHT     100  // of a member that tells none
#define MEMBER_WEIGHT_MAX 1000

enum member_kind {
    MEMBER_DISTRIBUTOR,
    MEMBER_INGESTER,
    MEMBER_QUERIER,
    MEMBER_COMPACTOR,
    MEMBER_KINDS
};
extern const char *const member_kind_names[MEMBER_KINDS];

struct member {
    str id;
    str address;  // "host:port" or "unix:/path"
    enum member_kind kind;
    bool alive;
    bool unready;     // it answered its last probe, but it does not want traffic now
    uint32_t weight;  // its part of the series (place.h), from its last answer; 0: no answer yet
    id128 boot;       // of the process that gave it; zero: no answer yet
};

// 1 to MEMBER_WEIGHT_MAX.
static inline uint32_t member_weight(const struct member *m)
{
    return m->weight ? MIN(m->weight, (uint32_t)MEMBER_WEIGHT_MAX) : MEMBER_WEIGHT;
}

struct members;

// `list` holds "id=address" or "address" (then the address is the id) entries. Returns owned.
struct members *members_new(err *e) MUST_CHECK;
void members_free(struct members *m);

// Fails with invalid_argument for an empty id or address and for an id that the kind has already.
bool members_add(struct members *m, enum member_kind kind, str entry, err *e) MUST_CHECK;

// ---- lists that change while the process runs

// Makes the list of a kind be these entries, as for members_add. Members that stay keep what is
// known of them, unless their address is another one; those that were found by name are not
// touched. Fails as members_add does, or for lack of memory; then nothing has changed.
bool members_list(struct members *m, enum member_kind kind, const str *entries, size_t n,
                  err *e) MUST_CHECK;

// A node that was found by name gave this answer at this address. A member of the list with its id
// stays as it is; one that was found before gets the address, and nothing is held against it any
// more.
bool members_found(struct members *m, enum member_kind kind, const struct node_answer *answer,
                   str address, err *e) MUST_CHECK;

// The weight of the members with this address, which are the process itself: it does not probe
// itself.
void members_weigh(struct members *m, str address, uint32_t weight);

// Does a member have this address that was found by name?
bool members_has_found(struct members *m, enum member_kind kind, str address);

// Removes the members of a kind that were found by name and have none of these addresses.
void members_keep_found(struct members *m, enum member_kind kind, const str *addresses, size_t n);

// Another node answers at the address of a member that was found by name: it is removed, so that
// the address is asked anew. Of a member of the list nothing changes.
void members_moved(struct members *m, enum member_kind kind, str id);

// Copies of the members of a kind, in the arena, in order of id. NULL with *count 0 when there are
// none or the arena is exhausted.
struct member *members_of(struct members *m, struct arena *a, enum member_kind kind, size_t *count);

// The same of all kinds, in order of kind, then id.
struct member *members_all(struct members *m, struct arena *a, size_t *count);

// A member with its last answer and its last failure, for the page /cluster. Times are of
// clock_mono_ns; 0: never.
struct member_facts {
    struct member member;
    bool found;               // by name; else it is in the list
    unsigned failures;        // in a row
    uint64_t since_mono_ns;   // alive, unready or dead since then; a new member: since it is known
    uint64_t heard_mono_ns;   // its last answer of any kind
    uint64_t failed_mono_ns;  // the last failure, and
    str why;                  // its message
    uint64_t answered_mono_ns;  // its last answer to a probe, which said:
    id128 cluster;
    id128 boot;
    id128 directory;
    str version;
    str services;  // with blanks between them
    double load;
    uint64_t list;  // members_list_print of its own; 0: it does not tell
};

// As members_all.
struct member_facts *members_facts(struct members *m, struct arena *a, size_t *count);

// A hash of the ids, in the order of members_of: the same on every node with the same list. Never
// 0.
uint64_t members_print(const struct member *v, size_t n);

// A hash of the ingesters and their weights: whoever has another one places records differently. 0:
// no ingester is known, or there is no memory.
uint64_t members_list_print(struct members *m);

// How many such lists this node and the members that answer it have.
size_t members_lists(struct members *m);

// Is there any member of a kind, alive or not?
bool members_has(struct members *m, enum member_kind kind);

// ---- results of calls and probes; ids that the kind does not have are ignored

// It answered a call, maybe with a refusal. at_mono_ns: when the answer came. Callers may tell it
// later, because they waited for other members too; an answer that is older than a failure does not
// make a member alive.
void members_heard(struct members *m, enum member_kind kind, str id, uint64_t at_mono_ns);

// It answered a probe.
void members_seen(struct members *m, enum member_kind kind, str id, uint64_t at_mono_ns,
                  const struct node_answer *answer);

// No process was reached by a call or a probe, or a probe was not answered in time. `why` goes into
// the log.
void members_failed(struct members *m, enum member_kind kind, str id, str why);

// The same for a probe: only after failed probes may a member be called silent.
void members_probe_failed(struct members *m, enum member_kind kind, str id, str why);

// Should the caller give up a call that began at since_mono_ns? True if a probe failed since the
// member was last heard, and since then the call has waited for patience_ns (for a dead member
// MEMBER_RETURN_NS at most). A member that was silent for MEMBER_SILENCE_NS is dead from then on.
bool members_is_silent(struct members *m, enum member_kind kind, str id, uint64_t since_mono_ns,
                       uint64_t patience_ns);

// Did its last answer to a probe say that it wants no traffic? Its disk may hang, so a push that it
// has been storing for long should go to another member.
bool members_is_unready(struct members *m, enum member_kind kind, str id);
