// SPDX-License-Identifier: Apache-2.0
//
// version.h - version.v1.Version: which query API this server speaks.
#pragma once

#include "querier/answer/answer.h"

answer_fn version_run;
