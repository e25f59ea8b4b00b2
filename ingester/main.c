// SPDX-License-Identifier: Apache-2.0
#include "ingester/ingester.h"

int main(int argc, char **argv)
{
    const struct service *const services[] = {&ingester};
    return service_main(services, 1, argc, argv);
}
