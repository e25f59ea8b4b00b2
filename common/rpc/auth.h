// SPDX-License-Identifier: Apache-2.0
//
// auth.h - the tenant of a request, from its X-Scope-OrgID header.
//
// A tenant id is up to 150 bytes of A-Z a-z 0-9 ! - _ . * ' ( ), not "." or "..". Reads may name
// several, separated by '|'; they are sorted, and each counts once. A ':' in a part begins metadata
// of the client, which is dropped. Without multi-tenancy the tenant is always "anonymous".
#pragma once

#include "rpc/route.h"

// May a tenant be called so? Fails with unauthenticated and the same sentences.
bool auth_tenant_check(str id, err *e) MUST_CHECK;

// The tenant in the arena or static; empty for ROUTE_OPEN and ROUTE_ADMIN. ROUTE_INTERNAL: as the
// header has it, one or several that may be called so, or empty. Fails with unauthenticated and the
// sentence that Pyroscope has for it.
bool auth_tenant(struct arena *a, str header, enum route_auth auth, bool multitenancy, str *tenant,
                 err *e) MUST_CHECK;
