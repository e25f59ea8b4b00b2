// SPDX-License-Identifier: Apache-2.0
//
// tenant.h - what a tenant may do.
//
// Limits come from the section "limits" of the configuration; per-tenant overrides are laid over
// it. Snapshots are immutable.
#pragma once

#include "service/limits.h"

// The limits of a tenant; of several ("a|b") the smallest positive value of each.
const struct limits *tenant_limits(const struct config *c, str tenant);
