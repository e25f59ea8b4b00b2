// SPDX-License-Identifier: Apache-2.0
//
// tls.h - private to net: TLS of server connections (OpenSSL with memory BIOs; RFC 8446, 7301).
//
// Bytes from the socket go in by tls_feed, which gives plain bytes to conn_plain; plain output is
// taken from the connection by tls_seal and becomes records, which wait here until sent. ALPN
// offers h2 and http/1.1.
#pragma once

#include "net/conn.h"

struct tls_context;

// Certificate chain and key from PEM files; client_ca_file: clients must show a certificate of
// these (NULL: none is asked for). Fails with invalid_argument naming the file.
struct tls_context *tls_context_new(const char *cert_file, const char *key_file,
                                    const char *client_ca_file, err *e) MUST_CHECK;
void tls_context_free(struct tls_context *t);

// Reads the files again, for new connections. If it fails, the files read before stay in use. Any
// thread.
bool tls_context_reload(struct tls_context *t, const char *cert_file, const char *key_file,
                        const char *client_ca_file, err *e) MUST_CHECK;

// The certificate that a client shows, its key, and the authorities that it trusts: the bytes of
// PEM files, empty where no file is given.
struct tls_pem {
    struct buf ca;
    struct buf cert;
    struct buf key;
};

// Any file may be NULL, but a certificate needs its key. Returns owned: tls_pem_release. Fails
// naming the file that cannot be read or used; then nothing is owned.
bool tls_pem_read(struct tls_pem *p, const char *ca_file, const char *cert_file,
                  const char *key_file, err *e) MUST_CHECK;
void tls_pem_release(struct tls_pem *p);

struct tls *tls_new(struct tls_context *t);  // NULL: no memory
void tls_free(struct tls *t);

// Takes bytes from the socket; gives plain bytes to conn_plain. False: the peer breaks the protocol
// or refuses us.
bool tls_feed(struct conn *c, const char *p, size_t n) MUST_CHECK;

// Encrypts up to a bounded amount of the connection's output. False: it is broken.
bool tls_seal(struct conn *c) MUST_CHECK;
void tls_say_goodbye(struct conn *c);  // close_notify, once

// May output still become records? Not after a failure or close_notify: then it is never sent.
bool tls_may_seal(const struct tls *t);
str tls_pending(const struct tls *t);  // records to send
void tls_sent(struct tls *t, size_t n);

bool tls_chose_h2(const struct tls *t);
