// SPDX-License-Identifier: Apache-2.0
//
// creds.h - what proves to Azure Blob Storage who asks, and where that comes from. The first source
// that is there is used:
//
//     settings            azure.account_key or azure.sas_token
//     file                azure.key_file: a key, a SAS token or a connection string; read again
//                         every ten minutes, and at once when the service refuses what it had
//     environment         AZURE_STORAGE_CONNECTION_STRING; AZURE_STORAGE_KEY;
//                         AZURE_STORAGE_SAS_TOKEN
//     workload identity   AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID and AZURE_TENANT_ID, as AKS
//                         sets them: a token of Kubernetes is exchanged for one of Microsoft Entra
//                         at AZURE_AUTHORITY_HOST
//     managed identity    the metadata service of the machine; AZURE_CLIENT_ID chooses among
//     several
//
// Tokens are renewed before they end (s3/renew.h).
#pragma once

#include "azure/answer.h"
#include "net/client.h"

struct azure_key_options {
    const char *account_key;
    const char *sas_token;
    const char *key_file;
};

// One of the three; borrowed.
struct azure_keys {
    str key;     // of the account, decoded
    str sas;     // a query
    str bearer;  // a token of an identity
};

struct azure_creds;

// Finds the source. The client is borrowed until the end. Fails where the settings have a key that
// is none, or a file that cannot be read or has none.
struct azure_creds *azure_creds_open(const struct azure_key_options *o, struct client *client,
                                     err *e) MUST_CHECK;
void azure_creds_close(struct azure_creds *c);  // NULL is fine

// The key or token that is valid now, copied into the arena. Fails with unavailable if there is
// none.
bool azure_creds_get(struct azure_creds *c, struct req *r, struct arena *a, struct azure_keys *out,
                     err *e) MUST_CHECK;

// Where it comes from, in words that name the setting or the variable. Static.
const char *azure_creds_origin(const struct azure_creds *c);

// The service says that it is over: the next get asks the source again.
void azure_creds_over(struct azure_creds *c);
