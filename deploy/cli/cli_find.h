// SPDX-License-Identifier: Apache-2.0
//
// cli_find.h - resolves a query to a selector and a profile type, and lists the existing ones if
// the query has no data.
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
    const char *other_range;  // how to ask for another one; NULL: "an earlier --from"
};

// Checks a selector ("" selects all) and adds --service. The result, in the arena, is in the API's
// form.
bool cli_selector(struct cli *c, str text, str *selector, err *e) MUST_CHECK;

// The profile types of series; sorted, each once.
bool cli_find_types(struct cli *c, const struct cli_found_in *where, str **types, size_t *n,
                    err *e) MUST_CHECK;

// Reads "TYPE{SELECTOR}", "TYPE", "{SELECTOR}" or NULL; q has the range already. An abbreviated
// type is looked up among the existing ones.
bool cli_query_read(struct cli *c, const char *text, struct cli_query *q, int *status,
                    err *e) MUST_CHECK;

// Fails with exit status 3: there are no data for q. The message lists existing types and services.
bool cli_query_is_empty(struct cli *c, const struct cli_query *q, int *status, err *e);

// If the service that --service or the selector names has no series: a hint with similar names.
// `selector` may be empty.
void cli_hint_service(struct cli *c, const struct cli_found_in *where, str selector);

// "from ... until ..." of the range of the command line, for messages.
struct cli_range_text {
    char text[120];
};
const char *cli_range_say(struct cli *c, struct cli_range_text *out);
