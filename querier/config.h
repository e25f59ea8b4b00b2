// SPDX-License-Identifier: Apache-2.0
//
// config.h - the rows of config.def, section "querier", as a struct.
#pragma once

#include "service/config.h"

struct querier_config {
#define ROW(key, type, ...) CONFIG_##type key;
#include "querier/config.def"
#undef ROW
};
