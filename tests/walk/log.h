// SPDX-License-Identifier: Apache-2.0
//
// log.h - logs of ingesters whose writes fail, and which take their time to open again.
//
// A push whose write failed is not acknowledged; its entry may be in the log all the same, and then
// it counts once, whatever is flushed while the log is read again.
#pragma once

#include "walk/world.h"

// Between these two writes fail now and then, as long as the world is not calm.
void walk_log_on(struct world *w);
void walk_log_off(void);
