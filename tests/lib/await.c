// SPDX-License-Identifier: Apache-2.0
#include "lib/await.h"

void await_again(int n, int line, const char *condition)
{
    if (n == 60000) fail_msg("line %d waited a minute for %s", line, condition);
    usleep(1000);
}
