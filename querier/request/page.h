// SPDX-License-Identifier: Apache-2.0
//
// page.h - the web page and its files, as they are compiled into the program (assets.h).
//
// GET and HEAD. The path is looked up in the table of assets; nothing is read from disk. All pages
// of the application are one index.html; an unknown path under /assets/ is 404, never a page.
// Clients that accept gzip get text as it is stored. index.html has an ETag and is revalidated each
// time (304 if it is the same); files with a hash in their names are cached for ever.
#pragma once

#include "rpc/route.h"

http_fn page_index;  // every address of the application: index.html
// An address that Pyroscope does not have, where its clients expect 404: index.html for a browser,
// which accepts text/html.
http_fn page_for_browsers;
http_fn page_asset;  // /assets/..., /licenses.txt
// What this process did not store (distributor/loss_page.h), where it has no distributor:
// {"losses":null,"note":"..."}. Queriers do not know distributors, and the page shows the note.
http_fn page_without_losses;
http_fn page_redirect;  // /ui...: where the page of Pyroscope used to be, to /
