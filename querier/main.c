// SPDX-License-Identifier: Apache-2.0
#include "querier/querier.h"

int main(int argc, char **argv)
{
    const struct service *const services[] = {&querier};
    return service_main(services, COUNT(services), argc, argv);
}
