// SPDX-License-Identifier: Apache-2.0
//
// crowd.h - texts and words that a sender would choose to crowd a table whose hash everybody knows,
// for tests that count slots (map_looked) instead of time.
//
// CROWD rows make a table of CROWD_SLOTS; all of them belong into its first CROWD_WINDOW slots if
// their hash is XXH64 or hash_mix, so that looking them up takes CROWD * CROWD / 2 steps. Where the
// hash is keyed they are rows like any other.
#pragma once

#include "base/hash.h"
#include "base/map.h"

#define CROWD        4096u
#define CROWD_SLOTS  8192u
#define CROWD_WINDOW 64u

// Steps for `rows` rows, each found a few times, in tables that are not crowded.
#define CROWD_MOST(rows) ((uint64_t)(rows)*24)

bool crowd_has(uint64_t hash);
