// SPDX-License-Identifier: Apache-2.0
//
// await.h - waiting for what another thread or process does: AWAIT(condition) asks every
// millisecond until it holds and fails the test if it does not within a minute.
#pragma once

#include "lib/test.h"

#define AWAIT(condition)                           \
    do {                                           \
        for (int n_ = 0; !(condition); n_++)       \
            await_again(n_, __LINE__, #condition); \
    } while (0)

void await_again(int n, int line, const char *condition);
