// SPDX-License-Identifier: Apache-2.0
//
// ingester.h - the durable head of the newest profiles; README.md describes the room.
#pragma once

#include "service/service.h"

extern const struct service ingester;
