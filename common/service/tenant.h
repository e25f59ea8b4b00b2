// SPDX-License-Identifier: Apache-2.0
//
// tenant.h - what a tenant may do: the section "limits", and overrides of single tenants over it.
//
//     overrides:                     a file of runtime_config.file; later files go over earlier
//       acme:                        ones, key by key and, in maps, member by member
//         ingestion_rate_mb: 8
//         reject_older_than: 2h
//
// The files are read at the start, where a fault ends the process, then every reload_period and on
// SIGHUP, where a fault keeps what was in force before and is logged once, with file, line, key and
// value. What they make is an immutable snapshot under a reference count: whoever asked for limits
// keeps its snapshot until its arena is released; old ones go with their last user.
//
//     tenants_open  ->  tenants_start (a thread that reads again)  ->  tenants_close
//
// Threads: all functions but open, start and close may be called by any.
#pragma once

#include "service/limits.h"

struct runtime_config_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/runtime_config.def"
#undef ROW
};

struct tenants;

// Reads the files and makes the result that of the config (config_tenants); both sections must be
// in it. Returns owned, or NULL with the fault.
struct tenants *tenants_open(struct config *c, err *e) MUST_CHECK;
bool tenants_start(struct tenants *t, err *e) MUST_CHECK;
void tenants_close(struct tenants *t);  // NULL is fine

// Reads settings and files again. Does nothing if they are as they were; on a fault the old limits
// stay.
bool tenants_reload(struct tenants *t, err *e) MUST_CHECK;

// The limits of a tenant, until the arena is released. Of several ("a|b"), which only reads have,
// the smallest positive value of each numeric limit; switches are on if they are for all; of other
// values the first tenant's. Without overrides (or memory for them: the arena is then exhausted)
// those of the section "limits".
const struct limits *tenant_limits(const struct config *c, struct arena *a, str tenant);

// Are there any files?
bool tenants_configured(const struct tenants *t);

// The page /runtime_config: the limits of every tenant that has overrides; with `diff` only those
// that differ from the defaults.
void tenants_print(struct tenants *t, bool diff, struct buf *out);
