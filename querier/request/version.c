// SPDX-License-Identifier: Apache-2.0
#include "querier/request/version.h"

#include "codec/pb.h"

#define QUERIER_API 1

bool version_run(struct answer *a, str in, struct buf *out, err *e)
{
    (void)a;
    (void)in;
    (void)e;
    pb_put_u64(out, 1, QUERIER_API);
    return true;
}
