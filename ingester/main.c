// SPDX-License-Identifier: Apache-2.0
//
// main.c - the ingester as a process of its own.
#include "ingester/ingester.h"

int main(int argc, char **argv)
{
    const struct service *const services[] = {&ingester};
    return service_main(services, 1, argc, argv);
}
