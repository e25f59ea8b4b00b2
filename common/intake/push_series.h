// SPDX-License-Identifier: Apache-2.0
//
// push_series.h - message RawProfileSeries of push.v1.PushRequest, read by hand: profiles are
// large, and are borrowed from the body where protobuf-c would copy them.
//
// For the distributor's pushes and the compactor's imports. Thread: the caller's. Fails with
// invalid_argument (malformed) or resource_exhausted (no memory).
#pragma once

#include "intake/pipeline.h"

// Labels of the series, which may stand before or behind its samples; the array is the arena's, its
// texts borrow from the message.
bool push_series_labels(struct arena *a, str series, struct pipeline_item *item, err *e) MUST_CHECK;

// Bytes and client's id of one message RawSample; both borrow from it, and are empty if they are
// not there.
bool push_series_sample(str sample, struct pipeline_item *item, err *e) MUST_CHECK;
