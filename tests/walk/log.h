// SPDX-License-Identifier: Apache-2.0
//
// log.h - logs of ingesters whose writes fail, and which take their time to open again.
//
// A push whose write failed is not acknowledged; its entry may be in the log all the same, and then
// it counts once, whatever is flushed while the log is read again.
//
// While an ingester is down, files of its log are damaged now and then. Acknowledged rows may then
// be missing from answers, but not more of them than the ingester says.
#pragma once

#include "walk/world.h"

// Between these two writes fail now and then, as long as the world is not calm.
void walk_log_on(struct world *w);
void walk_log_off(void);

// Around the start of an ingester whose log may have been damaged.
void walk_log_damage(struct world *w, struct node *n, struct dice *d);
void walk_log_told(struct world *w);

// May this acknowledged row be missing?
bool walk_log_forgives(struct world *w, unsigned number);

// May no damage have taken this row? Then, once acknowledged, it counts in every answer.
bool walk_log_spares(struct world *w, unsigned number);

// May this row count twice until it is compacted? With the damaged part of a log went the ids of
// what had been flushed, so that a push which is repeated is not recognised.
bool walk_log_may_double(struct world *w, unsigned number);

// Until the node's answers no longer say that its log lacks something: for an hour.
void walk_log_wait(struct node *n);
