// SPDX-License-Identifier: Apache-2.0
//
// The querier as a program of its own.
#include "querier/querier.h"

int main(int argc, char **argv)
{
    const struct service *const services[] = {&querier};
    return service_main(services, COUNT(services), argc, argv);
}
