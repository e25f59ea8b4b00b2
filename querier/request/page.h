// SPDX-License-Identifier: Apache-2.0
//
// page.h - the web page and its files, as they are compiled into the program (assets.h).
//
// GET and HEAD. A look-up by exact path in the table of assets; nothing is read from disk. Pages of
// the application are addresses of one index.html; an unknown path under /assets/ is 404 and never
// a page. Text leaves as stored gzip for whoever accepts it. index.html has an ETag and is asked
// for again each time (304 if it is the same); what has a hash in its name is cached for ever.
#pragma once

#include "rpc/route.h"

http_fn page_index;  // every address of the application: index.html
// An address that Pyroscope does not have, where its clients expect 404: index.html for a browser,
// which accepts text/html.
http_fn page_for_browsers;
http_fn page_asset;     // /assets/..., /licenses.txt
http_fn page_redirect;  // /ui...: where the page of Pyroscope used to be, to /
