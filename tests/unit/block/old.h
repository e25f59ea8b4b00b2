// SPDX-License-Identifier: Apache-2.0
//
// old.h - blocks as version 2 of the format wrote them: random_block_make(7, kind), one service.
// They hold vectors stack by stack and vector by vector, ids, symbols and spans as that version had
// them.
#pragma once

extern const char old_raw[];
extern const char old_hours[];
