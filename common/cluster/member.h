// SPDX-License-Identifier: Apache-2.0
//
// member.h - the nodes that are known, and which of them seem alive.
//
// A member list is configured (ids and addresses of the internal listeners); liveness is what the
// last calls and probes said. Nothing that must be right depends on liveness: it only says whom to
// ask first. In the all-in-one the list has one ingester, itself. A new member counts as
// alive. Readers copy; all functions may be called from any thread.
#pragma once

#include "base/arena.h"
#include "base/str.h"

enum member_kind {
    MEMBER_DISTRIBUTOR,
    MEMBER_INGESTER,
    MEMBER_QUERIER,
    MEMBER_COMPACTOR
};

struct member {
    str id;
    str address;  // "host:port" or "unix:/path"
    enum member_kind kind;
    bool alive;
};

struct members;

// `list` holds "id=address" or "address" (then the address is the id) entries. Returns owned.
struct members *members_new(err *e) MUST_CHECK;
void members_free(struct members *m);

// Fails with invalid_argument for an empty id or address and for an id that the kind has already.
bool members_add(struct members *m, enum member_kind kind, str entry, err *e) MUST_CHECK;

// Copies of the members of a kind, in the arena, in order of id. NULL with *count 0 when there are
// none or the arena is exhausted.
struct member *members_of(struct members *m, struct arena *a, enum member_kind kind, size_t *count);

// Whether there is any of a kind, alive or not.
bool members_has(struct members *m, enum member_kind kind);

// What a call to a member said; any thread. A member counts as dead after 3 failures in a row and
// as alive after one success.
void members_report(struct members *m, str id, bool answered);
