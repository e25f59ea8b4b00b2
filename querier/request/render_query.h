// SPDX-License-Identifier: Apache-2.0
//
// render_query.h - the parameters of the older GET routes, from the query of a URL to
// what a question needs.
#pragma once

#include "querier/answer/answer.h"

// The value of a parameter, decoded; empty if absent.
str render_parameter(struct answer *a, str url_query, const char *name);

// "metric{...}": the metric name is a profile type id and becomes *type and its matcher, the other
// matchers are added as they are. name: of the parameter, for messages. Fails with
// invalid_argument, also for the empty text.
bool render_selector(struct answer *a, str text, const char *name, struct query *q,
                     struct ptype *type, err *e) MUST_CHECK;

// The same, but a profile type may be missing; the empty text means everything.
bool render_any_selector(struct answer *a, str text, const char *name, struct query *q,
                         err *e) MUST_CHECK;

// A time as codec/attime.h reads it, in ms; absent or empty is now. Fails with invalid_argument,
// which names the parameter.
bool render_time(struct answer *a, str url_query, const char *name, int64_t *ms, err *e) MUST_CHECK;

// maxNodes or else max-nodes: a number, 0 for anything else. Numbers beyond int64 are its edges.
int64_t render_max_nodes(struct answer *a, str url_query);
