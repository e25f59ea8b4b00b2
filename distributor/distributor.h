// SPDX-License-Identifier: Apache-2.0
//
// distributor.h - the write path's front: takes what agents push, makes records of it, and brings
// them to ingesters. README.md says what it owns and what it may lose.
#pragma once

#include "service/service.h"

extern const struct service distributor;
