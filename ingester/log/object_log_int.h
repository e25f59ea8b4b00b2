// SPDX-License-Identifier: Apache-2.0
//
// object_log_int.h - what object_log*.c share.
#pragma once

#include "ingester/log/object_log.h"
#include "manifest/names.h"

// Calls fn for each object of a stream that a LIST shows, in order. Other names are passed over.
typedef bool object_log_see(void *arg, uint64_t number, uint64_t size, err *e);
bool object_log_list(struct store *s, struct req *r, id128 stream, object_log_see *see, void *arg,
                     err *e) MUST_CHECK;

// The numbers of the objects whose names are the prefix and a number, ascending; the arena's.
struct numbers {
    struct arena *arena;
    uint64_t *v;
    size_t n;
    size_t cap;
};
bool object_log_numbers(struct store *s, struct req *r, str prefix, struct numbers *out,
                        err *e) MUST_CHECK;

// The head of one object. `to` keeps what *h borrows. not_found, data_loss naming the object, or as
// the store says.
bool object_log_head(struct store *s, struct req *r, id128 stream, uint64_t number,
                     char to[LOG_OBJECT_HEAD_MAX], struct log_object_head *h, err *e) MUST_CHECK;
