// SPDX-License-Identifier: Apache-2.0
#include "manifest/names.h"

int segment_name_cmp(const struct segment_name *a, const struct segment_name *b)
{
    if (a->hour != b->hour) return a->hour < b->hour ? -1 : 1;
    int order = memcmp(a->stream.b, b->stream.b, sizeof a->stream.b);
    if (order) return order;
    if (a->cut != b->cut) return a->cut < b->cut ? -1 : 1;
    return a->part < b->part ? -1 : a->part > b->part;
}
