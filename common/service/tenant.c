// SPDX-License-Identifier: Apache-2.0
#include "service/tenant.h"

static const struct config_row rows[] = {
#define ROW(...) CONFIG_ROW(struct limits, __VA_ARGS__)
#include "service/limits.def"
#undef ROW
};

const struct config_section limits_section = CONFIG_SECTION("limits", rows, struct limits);

// Every tenant has the limits of the process, so the smallest of several tenants are these as well.
const struct limits *tenant_limits(const struct config *c, str tenant)
{
    (void)tenant;
    return config_section(c, "limits");
}
