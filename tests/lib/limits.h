// SPDX-License-Identifier: Apache-2.0
//
// limits.h - Pyroscope's own limits, for tests.
#pragma once

#include "service/tenant.h"

extern const struct limits stock_limits;
