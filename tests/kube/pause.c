// SPDX-License-Identifier: Apache-2.0
// The program of the container that holds a pod's namespaces: it waits to be ended.
#include <signal.h>
#include <unistd.h>

static void end(int number)
{
    (void)number;
    _exit(0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    for (;;)
        pause();
}
