// SPDX-License-Identifier: Apache-2.0
//
// read_all.h - every section of a block, read until one fails.
#pragma once

#include "block/reader.h"
#include "model/columns.h"

// Every section of a block.
bool read_block(struct arena *a, str bytes, err *e);
