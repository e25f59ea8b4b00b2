// SPDX-License-Identifier: Apache-2.0
//
// A program that perf records: four fifths of its time are spent in one function.
#include <time.h>

static volatile unsigned long sink;

static void burn(clock_t much)
{
    for (clock_t end = clock() + much; clock() < end;)
        for (unsigned long i = 0; i < 1000000; i++)
            sink ^= i;
}

__attribute__((noinline)) void burn_hot_loop(void)
{
    burn(CLOCKS_PER_SEC * 8 / 10);
}

__attribute__((noinline)) void burn_other(void)
{
    burn(CLOCKS_PER_SEC * 2 / 10);
}

int main(void)
{
    burn_hot_loop();
    burn_other();
    return 0;
}
