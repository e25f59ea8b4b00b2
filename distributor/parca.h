// SPDX-License-Identifier: Apache-2.0
//
// parca.h - agents of Parca: parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw, series of
// pprof profiles, and the question of DebuginfoService whether symbols are to be sent.
//
// Parca has no label service_name. Where it is missing, the service is the value of `job`, which
// its scraper sets, or else of `comm`, the name of a process, which its agent sets.
#pragma once

#include "rpc/route.h"

// As push_run and push_refused.
bool parca_write_run(void *self, struct http_exchange *x, str in, struct buf *out, err *e);
void parca_refused(void *self, const struct http_exchange *x, const err *e);

// "No": there is nothing here that would use them.
bool parca_upload_run(void *self, struct http_exchange *x, str in, struct buf *out, err *e);
