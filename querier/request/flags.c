// SPDX-License-Identifier: Apache-2.0
#include "querier/request/flags.h"

#include "codec/pb.h"

bool flags_run(struct answer *a, str in, struct buf *out, err *e)
{
    // Sorted by name. utf8LabelNames is what the reference says too, whatever names labels have.
    static const struct {
        str name;
        bool enabled;
        str description;
    } flags[] = {
        {S_INIT("functionProjections"), true, S_INIT("Function tables: PROFILE_FORMAT_FUNCTIONS.")},
        {S_INIT("pyroscopeRuler"), false, S_INIT("Recording rules.")},
        {S_INIT("pyroscopeRulerFunctions"), false, S_INIT("Recording rules for functions.")},
        {S_INIT("utf8LabelNames"), false, S_INIT("All label names are shown to every client.")},
        {S_INIT("v2StorageLayer"), true, S_INIT("Queries have the semantics of the v2 storage.")},
    };
    (void)a;
    (void)in;
    (void)e;
    for (size_t i = 0; i < COUNT(flags); i++) {
        size_t mark = pb_begin(out, 1);
        pb_put_bytes(out, 1, flags[i].name);
        pb_put_u64_opt(out, 2, flags[i].enabled);
        pb_put_bytes(out, 3, flags[i].description);
        pb_end(out, mark);
    }
    return true;
}
