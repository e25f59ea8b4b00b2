// SPDX-License-Identifier: Apache-2.0
//
// config.h - the rows of config.def, section "distributor", as a struct.
#pragma once

#include "service/config.h"

struct distributor_config {
#define ROW(key, type, ...) CONFIG_##type key;
#include "distributor/config.def"
#undef ROW
};
