// SPDX-License-Identifier: Apache-2.0
//
// cli_otlp.h - a file of OTLP profiles as the request that sends it: protobuf, with the labels of
// the command line as attributes of each resource. Pure.
#pragma once

#include "deploy/cli/cli_upload.h"

// Is it an ExportProfilesServiceRequest as protobuf? It has two fields, and a profile of pprof that
// anyone could read has more.
bool cli_otlp_is(str bytes);

// Does the answer to the request, ExportProfilesServiceResponse, say that all was stored? Otherwise
// fails with invalid_argument, how many profiles were refused, and why. *note borrows from the
// answer: what was left out or mended of what is stored; or empty.
bool cli_otlp_accepted(str answer, str *note, err *e) MUST_CHECK;

// Fails as upload_make does; `bytes` may be JSON. out->body becomes the request.
bool cli_otlp_make(struct arena *a, const struct upload_options *o, str bytes, struct upload *out,
                   err *e) MUST_CHECK;
