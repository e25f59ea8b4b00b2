// SPDX-License-Identifier: Apache-2.0
//
// querier.h - the service that answers questions and serves the page (README.md).
#pragma once

#include "service/service.h"

extern const struct service querier;
