// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_losses.h"

void cli_losses_say(struct cli *c, const char *file, const struct losses *l)
{
    for (int i = 0; i < LOSS_COUNT; i++) {
        enum loss why = (enum loss)i;
        if (l->count[i] == 0) continue;
        cli_say(c, "%s: %s: %llu %s%s", file, loss_name(why), (unsigned long long)l->count[i],
                loss_text(why), loss_is_stored(why) ? "" : "; they are left out");
    }
}
