// SPDX-License-Identifier: Apache-2.0
//
// guard.h - is it a foreign page that asks? Against pages in somebody's browser, which reach what
// the browser reaches: a listener on loopback or in a private network that asks for no login.
//
// Two attacks, and what stands against each:
//
//     DNS rebinding   The page's own name is made to point to our address. To the browser it then
//                     is our page and may read the answers, and no header says that anything is
//                     amiss but Host (:authority), which has the page's name. So a request must
//                     name us: an address (a page cannot have one that is not ours), localhost, the
//                     host that the listener was given, or one of server.hosts.
//     Cross-site      The page's name is not ours, so it may send but not read. Browsers say so:
//                     Origin is another place than Host, or Sec-Fetch-Site is cross-site (same-site
//                     as well: other ports of localhost are other programs). A click on a link that
//                     leads here is none.
//
// Agents and nodes are no browsers, and come by names of which we know nothing, such as those of a
// service in Kubernetes. On an address that others reach as well, names are therefore checked only
// of requests that look like a browser's (Origin, Referer, or User-Agent with Mozilla/); a listener
// on loopback, which nobody reaches by such names, checks all. A page can leave out Referer, and in
// some browsers change User-Agent, so there the guard is good for as much as these are; a network
// in which strangers' pages are opened wants a login in front.
#pragma once

#include "net/server.h"

struct guard {
    const char *const *hosts;  // names, "*.name" for all below one, "*": nothing is checked
    size_t host_count;
    str listen;       // host of the listener's address; may be empty
    bool every_name;  // of all requests, not only of browsers
};

// listen: "host:port", as in settings. Both are borrowed.
void guard_init(struct guard *g, const char *listen, const char *const *hosts, size_t n);

// May the request be answered? Fails with permission_denied naming header, value and setting.
bool guard_check(const struct guard *g, const struct http_exchange *x, err *e) MUST_CHECK;
