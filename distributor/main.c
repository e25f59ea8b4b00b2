// SPDX-License-Identifier: Apache-2.0
//
// main.c - the distributor as a process of its own.
#include "distributor/distributor.h"

int main(int argc, char **argv)
{
    return service_main((const struct service *const[]){&distributor}, 1, argc, argv);
}
