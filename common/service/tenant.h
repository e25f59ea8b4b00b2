// SPDX-License-Identifier: Apache-2.0
//
// tenant.h - the limits of tenants: the section "limits", and overrides for single tenants.
//
//     overrides:                     a file of runtime_config.file; later files go over earlier
//       acme:                        ones, key by key and, in maps, member by member
//         ingestion_rate_mb: 8
//         reject_older_than: 2h
//
// The files are read at the start, where a fault ends the process. They are read again every
// reload_period and on SIGHUP; a fault then keeps the old limits and is logged once, with file,
// line, key and value. The result is an immutable snapshot with a reference count. A caller of
// tenant_limits holds a reference until its arena is released; the last one frees the snapshot.
//
//     tenants_open  ->  tenants_start (a thread that reads again)  ->  tenants_close
//
// Threads: all functions except open, start and close may be called by any thread.
#pragma once

#include "service/limits.h"

struct runtime_config_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/runtime_config.def"
#undef ROW
};

struct tenants;

// Reads the files and sets the result in the config (config_tenants), which must have both
// sections. Returns owned, or NULL with the fault.
struct tenants *tenants_open(struct config *c, err *e) MUST_CHECK;
bool tenants_start(struct tenants *t, err *e) MUST_CHECK;
void tenants_close(struct tenants *t);  // NULL is fine

// Reads settings and files again. Does nothing if they have not changed; on a fault the old limits
// stay.
bool tenants_reload(struct tenants *t, err *e) MUST_CHECK;

// The limits of a tenant; valid until the arena is released. For several tenants ("a|b", reads
// only): the smallest positive value of each numeric limit; a switch is on if it is on for all;
// other values are the first tenant's. Without overrides, or without memory (the arena is then
// exhausted), the limits of the section "limits".
const struct limits *tenant_limits(const struct config *c, struct arena *a, str tenant);

// Are there any files?
bool tenants_configured(const struct tenants *t);

// The page /runtime_config: the limits of every tenant that has overrides; with `diff` only those
// that differ from the defaults.
void tenants_print(struct tenants *t, bool diff, struct buf *out);
