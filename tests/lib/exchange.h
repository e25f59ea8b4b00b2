// SPDX-License-Identifier: Apache-2.0
//
// exchange.h - a request to a server's application without a server: it does to an exchange what
// net does, in the same order.
//
//     struct ask ask = {.path = "/ready", .headers = "accept: */*\n"};
//     struct http_exchange *x = exchange_run(&app, &ask);  ...  exchange_free(x);
#pragma once

#include "net/server.h"

#include <stdlib.h>
#include <string.h>

struct ask {
    const char *method;  // NULL: POST
    const char *path;
    const char *query;    // NULL: none
    const char *headers;  // "name: value\n" each, names in lower case
    str body;
    unsigned version;  // 0: 11
    size_t memory;     // cap of the request's arena; 0: 64 MB
    struct mem_budget *budget;
};

struct http_exchange *exchange_ask(const struct ask *ask);
void exchange_refused(const struct server_app *app, struct http_exchange *x, unsigned status,
                      const err *e);

// The head, the body and the answer, each with what net checks in between.
void exchange_go(const struct server_app *app, struct http_exchange *x, str body);
struct http_exchange *exchange_run(const struct server_app *app, const struct ask *ask);
str exchange_reply(const struct http_exchange *x);
void exchange_free(struct http_exchange *x);
