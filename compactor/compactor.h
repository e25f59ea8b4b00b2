// SPDX-License-Identifier: Apache-2.0
//
// compactor.h - the service that turns segments into levels, retires what is too old, and deletes
// what was asked to be deleted. See README.md for what of that exists.
#pragma once

#include "service/service.h"

extern const struct service compactor;
