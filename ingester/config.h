// SPDX-License-Identifier: Apache-2.0
//
// config.h - the ingester's settings, one field a row of config.def.
#pragma once

#include "service/config.h"

struct ingester_config {
#define ROW(key, type, ...) CONFIG_##type key;
#include "ingester/config.def"
#undef ROW
};

extern const struct config_section ingester_section;
