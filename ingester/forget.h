// SPDX-License-Identifier: Apache-2.0
//
// forget.h - a person gives up streams: `flametree stream forget`. Their processes will not come
// back, and the rows that they had not flushed are lost. Each registration is deleted after a
// record of it is written (manifest/forgotten.h), by which a process that comes back after all
// finds that its stream was given up (aside.h). Nobody gives up a stream that a running process
// answers for.
#pragma once

#include "manifest/registry.h"
#include "service/service.h"

// Which registrations are meant: one stream, or those of a node, or of one directory of it.
struct forget {
    const id128 *stream;
    str node;
    const id128 *directory;
};

// Deletes registrations; *n says how many. Fails with failed_precondition if a running process
// answers for the stream or has the directory, with not_found if there is none to delete, and with
// unavailable if a registration that is meant cannot be read. May be called by any thread.
bool forget_streams(const struct process *p, struct registry *registry, struct req *r,
                    const struct forget *what, size_t *n, err *e) MUST_CHECK;
