// SPDX-License-Identifier: Apache-2.0
//
// answer.h - what Azure says: lists and refusals of its Blob Storage in XML, tokens in JSON; and
// the texts that people give: connection strings and what a file with a key has.
//
// Elements and fields that are not known are passed over.
#pragma once

#include "s3/answer.h"

// One page of List Blobs. Text is the arena's. Folders of a hierarchical namespace are left out.
// Fails with data_loss where it is none.
bool azure_read_page(struct arena *a, str xml, struct s3_page *out, err *e) MUST_CHECK;

// <Error>; fields are empty where the answer has none. Of the message only the first line, since
// the next ones have the request's id and time, and never the detail, which may repeat what was
// signed. Text is the arena's.
void azure_read_refusal(struct arena *a, str xml, struct s3_refusal *out);

// A token of an identity. Fails with data_loss where it is no JSON, or has no token.
struct azure_token {
    str token;
    int64_t seconds;  // until it ends; 0: not told
};
bool azure_read_token(struct arena *a, str json, struct azure_token *out, err *e) MUST_CHECK;

// "AccountName=...;AccountKey=...;BlobEndpoint=...". Borrowed from the text; fields are empty where
// it has none.
struct azure_connection {
    str account;
    str key;       // base64
    str sas;       // without a '?'
    str endpoint;  // of blobs
    str suffix;    // "core.windows.net"
};
void azure_read_connection(str text, struct azure_connection *out);

// The key or the SAS token of a text: a connection string, "sv=...&sig=..." or a key in base64.
void azure_read_secret(str text, struct azure_connection *out);
