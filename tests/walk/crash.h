// SPDX-License-Identifier: Apache-2.0
//
// crash.h - an ingester that dies and starts again.
//
// Where logs are in the store it now and then comes back when another one has adopted all that it
// had, and lives just long enough to take one push. Questions that came before it know none of its
// streams, and those that come after it must not go by what these know.
#pragma once

struct actor;
struct world;

void crash_act(struct world *w, struct actor *a);
