// SPDX-License-Identifier: Apache-2.0
#include "service/tenant.h"

// Every tenant has the limits of the process, so the smallest of several tenants are these as well.
const struct limits *tenant_limits(const struct config *c, str tenant)
{
    (void)tenant;
    return config_section(c, "limits");
}
