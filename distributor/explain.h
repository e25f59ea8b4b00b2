// SPDX-License-Identifier: Apache-2.0
//
// explain.h - GET /distributor/place: where this distributor sends the profiles of a label set, and
// why. It takes the way of a push (pipeline, send buffer, dispatch.h) with a profile of one sample,
// and sends nothing; no quota or rate is taken.
#pragma once

#include "rpc/route.h"

// ?labels={service_name="shop",pod="a"}: as a client sends them. &tenant=NAME; &type=TYPE, whose
// first part is the label __name__ if there is none; &id=true: a profile with a client's id. Fails
// with invalid_argument, also for labels that a push would be refused for, and with unavailable if
// no ingester is known.
bool explain_place(void *self, struct http_exchange *x, err *e);
