// SPDX-License-Identifier: Apache-2.0
//
// closings.h - the tenants whose pushes are refused because they are being deleted
// (docs/decisions/0020-deletion-of-tenants.md).
//
// The store has an object for each (v1/closed/<tenant>). It is listed with each inspection of
// streams.c, after each registration of a stream (roll.h), and at once when a compactor asks
// (IngesterService/Closed): a deletion begins when the processes of all streams that are registered
// have answered it (compactor/confirm.h). An append asks twice, before it stores anything and
// before it acknowledges. So what was acknowledged was stored before that answer, and a deletion
// that begins after it has all of it. A process that cannot list them acknowledges in the streams
// that it has, and the deletion waits for those.
//
// Any thread may call these functions.
#pragma once

#include "base/err.h"
#include "base/str.h"

struct closings;
struct ingester;
struct manifests;
struct req;

// manifests: outlives it.
struct closings *closings_new(struct manifests *ms);
void closings_free(struct closings *c);  // NULL is fine

// Lists them anew; blocks on the store. What was known holds if that fails.
bool closings_refresh(struct closings *c, struct req *r, err *e) MUST_CHECK;

// When the newest list that succeeded began, by clock_boot_ns; 0: there is none. INT64_MAX if c is
// NULL.
int64_t closings_asked_ns(struct closings *c);

// False if c is NULL (no store).
bool closings_refuses(struct closings *c, str tenant);

// permission_denied if the tenant is being deleted, which no other ingester would answer otherwise.
bool closings_admits(struct closings *c, str tenant, err *e) MUST_CHECK;
