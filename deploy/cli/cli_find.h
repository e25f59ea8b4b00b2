// SPDX-License-Identifier: Apache-2.0
//
// cli_find.h - what a query means: its selector and its profile type, and what there is instead
// where there are no data.
#pragma once

#include "deploy/cli/cli.h"
#include "querier/v1/querier.pb-c.h"

struct cli_found_in {
    int64_t start_ms;
    int64_t end_ms;
    char **matchers;  // selectors, any of which; none: all series
    size_t matcher_count;
};

struct cli_query {
    str type;      // a whole profile type
    str selector;  // "{...}"
    int64_t from_ns;
    int64_t until_ns;
};

// Checks a selector ("" is everything) and adds --service. In the arena, as the API takes it.
bool cli_selector(struct cli *c, str text, str *selector, err *e) MUST_CHECK;

// The profile types of series; sorted, each once.
bool cli_find_types(struct cli *c, const struct cli_found_in *where, str **types, size_t *n,
                    err *e) MUST_CHECK;

// "TYPE{SELECTOR}", "TYPE", "{SELECTOR}" or NULL, within a range that is already in q. A type that
// is not whole is looked for among those that exist.
bool cli_query_read(struct cli *c, const char *text, struct cli_query *q, int *status,
                    err *e) MUST_CHECK;

// False with exit status 3: no data for q, which types and services there are.
bool cli_query_is_empty(struct cli *c, const struct cli_query *q, int *status, err *e);

// Where no series of the service that --service or a selector names exists: a hint which are like
// it. `selector` may be empty.
void cli_hint_service(struct cli *c, const struct cli_found_in *where, str selector);

// "from ... until ..." of the range of the command line, for messages.
struct cli_range_text {
    char text[120];
};
const char *cli_range_say(struct cli *c, struct cli_range_text *out);
