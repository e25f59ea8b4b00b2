// SPDX-License-Identifier: Apache-2.0
//
// whole.h - an ingester without its listeners, in a directory of its own.
#pragma once

#include "codec/pb.h"
#include "facts.h"
#include "ingester/ingester.h"
#include "ingester/ingester_int.h"
#include "lib/await.h"
#include "lib/dir.h"
#include "service/settings.h"

struct whole {
    const struct config_section *sections[SETTINGS_MAX + 2];
    struct config *config;
    char flags[400];
    struct mem_budget memory;
    struct process process;
    struct ingester *in;
};

// Starts on a directory, with a store or without (NULL); does not wait for the replay. flags:
// further settings, parted by spaces.
void whole_start_with(struct whole *w, const char *dir, const char *flags, struct store *store);
void whole_start(struct whole *w, const char *dir, const char *flags);
void whole_start_as(struct whole *w, const char *dir, const char *flags, struct store *store,
                    const char *id);
void whole_await(struct whole *w);
void whole_stop(struct whole *w);

// One request with one batch a fact; all of one tenant.
MUST_CHECK bool whole_push(struct whole *w, const struct fact *f, size_t n, err *e);

// How often a profile is there: by its id, over all types and times.
uint64_t whole_holds(struct whole *w, const struct fact *f);
