// SPDX-License-Identifier: Apache-2.0
//
// origin.h - a store as the origin of blocks: what block/source.h reads from.
#pragma once

#include "block/source.h"
#include "store/store.h"

// Reads of `r` from `s`; borrows both. Its list of reads is counted against the memory of r.
struct block_origin store_origin(struct store *s, struct req *r);
