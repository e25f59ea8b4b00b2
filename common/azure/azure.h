// SPDX-License-Identifier: Apache-2.0
//
// azure.h - a store in a container of Azure Blob Storage.
//
// Object v1/x of the store is block blob <prefix>v1/x of the container. Tries, second requests,
// what came of a creation and all else that is the same for every service is the engine's of
// common/s3 (s3/engine.h); this room has what Azure wants to be told and what its answers mean.
//
// A creation is Put Blob with `If-None-Match: *`, which Azure refuses with 409 BlobAlreadyExists. A
// large object goes up by Put Block, and Put Block List makes it visible, with that condition.
// Blocks of an upload that did not end cost what objects cost, and Azure drops them after a week.
// Each body has its MD5, which the service checks: signatures here do not cover bodies.
//
// Azure's lists begin at a prefix and nowhere else: a list after a name reads all before it, too.
#pragma once

#include "azure/creds.h"
#include "store/store.h"

struct azure_options {
    const char *account;   // empty: of the environment (AZURE_STORAGE_ACCOUNT, or the connection
                           // string)
    const char *endpoint;  // of blobs, "https://host:port", with "/account" behind where the
                           // service wants it there. Empty: of the environment (the connection
                           // string, AZURE_STORAGE_SERVICE_ENDPOINT), otherwise the account's of
                           // the public cloud
    const char *container;
    const char *prefix;   // of names, such as "flametree/"; may be empty
    const char *ca_file;  // PEM of the authorities to trust; empty: the system's
    struct azure_key_options keys;
    struct mem_budget *memory;  // of answers and of blocks that go up; may be NULL
    unsigned width;             // requests under way at once; 0: 32
};

// Options for "azure://container/prefix", as a command line gives it; the text lives in the arena.
// All else comes from the environment.
bool azure_options_of_url(str url, struct arena *a, struct azure_options *out, err *e) MUST_CHECK;

// Checks the options and begins nothing yet: requests fail with unavailable while the service
// cannot be reached. Returns owned. It is tried out as every bucket is: s3_check_races and
// s3_check_access (s3/s3.h).
struct store *store_open_azure(const struct azure_options *o, err *e) MUST_CHECK;
