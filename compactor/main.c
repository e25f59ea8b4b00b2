// SPDX-License-Identifier: Apache-2.0
#include "compactor/compactor.h"

int main(int argc, char **argv)
{
    const struct service *services[] = {&compactor};
    return service_main(services, COUNT(services), argc, argv);
}
