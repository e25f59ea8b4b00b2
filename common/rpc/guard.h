// SPDX-License-Identifier: Apache-2.0
//
// guard.h - refuses requests that a foreign web page makes in a user's browser. Such a page reaches
// all that the browser reaches: also a listener on loopback or in a private network without login.
//
// Two attacks, and the defence against each:
//
//     DNS rebinding   The attacker lets the name of his page point to our address. Then it is our
//                     page to the browser, and may read the answers. The only trace is Host
//                     (:authority), which has the name of his page. So a request must name us: by
//                     an address (a page cannot have one that is not ours), localhost, the host
//                     that the listener was given, or one of server.hosts.
//     Cross-site      The page has another name than we, so it may send requests but not read the
//                     answers. Browsers tell us: Origin is not Host, or Sec-Fetch-Site is
//                     cross-site (or same-site: other ports of localhost are other programs). A
//                     click on a link that leads here is allowed. A proxy that changes Host makes
//                     our own page look so, too: then Sec-Fetch-Site same-origin of a page with TLS
//                     counts, or X-Forwarded-Host.
//
// Agents and nodes are no browsers, and may use names that we do not know, such as that of a
// service in Kubernetes. On an address that other machines reach, names are therefore checked only
// of requests that look like a browser's (Origin, Referer, or User-Agent with Mozilla/). A listener
// on loopback is never reached by such names and checks all requests. A page can leave out Referer,
// and in some browsers change User-Agent, so on other addresses the guard may be evaded: a network
// whose users open foreign pages needs a login in front.
#pragma once

#include "net/server.h"

struct guard {
    const char *const *hosts;  // names; "*.name" for all names below one; "*": check nothing
    size_t host_count;
    str listen;       // host of the listener's address; may be empty
    bool every_name;  // check names of all requests, not only those of browsers
};

// listen: "host:port", as in settings. Both are borrowed.
void guard_init(struct guard *g, const char *listen, const char *const *hosts, size_t n);

// May the request be answered? Fails with permission_denied naming header, value and setting.
bool guard_check(const struct guard *g, const struct http_exchange *x, err *e) MUST_CHECK;
