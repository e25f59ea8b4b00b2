// SPDX-License-Identifier: Apache-2.0
//
// config.h - the compactor's settings, one field a row of config.def.
#pragma once

#include "service/config.h"

struct compactor_config {
#define ROW(key, type, ...) CONFIG_##type key;
#include "compactor/config.def"
#undef ROW
};

extern const struct config_section compactor_section;
