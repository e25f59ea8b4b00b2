// SPDX-License-Identifier: Apache-2.0
//
// loss_page.h - GET /distributor/losses: what this process did not store as the tenant sent it
// since it started, by reason, as JSON. The counts are those of the metrics discarded_samples,
// discarded_bytes, discarded_parts and mended_parts; the page of the querier shows them.
//
//     {"distributor":"d1","since":"2026-11-29T10:00:00Z","losses":[
//      {"reason":"rate_limited","kind":"refused","text":"...","profiles":3,"bytes":5120},
//      {"reason":"bad_line","kind":"left_out","text":"...","parts":1},
//      {"reason":"unknown_stack","kind":"mended","text":"...","parts":7}],"complete":true}
//
//     refused     whole profiles, or series of them, are not stored
//     left_out    samples and lines of profiles that are stored are not stored with them
//     mended      their values are stored, but not as they were sent
//
// A reason with nothing to tell is not listed. complete: false if some reason of this tenant may
// count as that of tenant "other", because there are more tenants than a metric has room for;
// then a field "note" says so to people, as the querier's page shows it.
#pragma once

#include "rpc/route.h"

bool loss_page_get(void *self, struct http_exchange *x, err *e);
