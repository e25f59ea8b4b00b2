// SPDX-License-Identifier: Apache-2.0
//
// All four services in one process. Those that others ask start first and drain last.
#include "compactor/compactor.h"
#include "distributor/distributor.h"
#include "ingester/ingester.h"
#include "querier/querier.h"

int main(int argc, char **argv)
{
    const struct service *services[] = {&ingester, &compactor, &distributor, &querier};
    return service_main(services, COUNT(services), argc, argv);
}
