// SPDX-License-Identifier: Apache-2.0
//
// tls.c - OpenSSL between two memory BIOs: bytes of the socket on one side, of the protocol on the
// other.
#include "net/tls.h"

#include "sys/file.h"
#include "sys/lock.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#define SEAL_MAX ((size_t)64 << 10)  // records waiting to be sent
#define PIECE    ((size_t)16 << 10)  // plain bytes of one record
#define PEM_MAX  ((size_t)16 << 20)  // bytes of a file

struct tls_context {
    struct lock lock;  // for ssl
    SSL_CTX *ssl;      // connections hold it, too
};

struct tls {
    SSL *ssl;
    BIO *in;   // records that came; owned by ssl, as is `out`
    BIO *out;  // records to send
    enum tls_state {
        TLS_TALKS,
        TLS_GOODBYE,  // close_notify is in `out`: nothing may be encrypted after it
        TLS_BROKEN,   // the session failed: OpenSSL must not be called for it any more
    } state;
};

static const unsigned char protocols[] = "\x02h2\x08http/1.1";

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_bytes,
                   const unsigned char *in, unsigned in_bytes, void *arg)
{
    (void)ssl;
    (void)arg;
    unsigned char *chosen = NULL;
    int found =
        SSL_select_next_proto(&chosen, out_bytes, protocols, sizeof protocols - 1, in, in_bytes);
    // We choose in our own order: h2 first. A client that offers neither is not one of ours.
    *out = chosen;
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool fail(err *e, const char *what, const char *file)
{
    char text[256] = "no reason given";
    unsigned long code = ERR_peek_last_error();
    if (code) ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    return err_set(e, ERR_INVALID_ARGUMENT, "TLS %s %s: %s", what, file ? file : "(none)", text);
}

static bool fail_other_key(err *e, const char *key_file, const char *cert_file)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "TLS key %s is not that of certificate %s", key_file,
                   cert_file);
}

static bool fail_key(err *e, const char *key_file, const char *cert_file)
{
    int why = ERR_GET_REASON(ERR_peek_last_error());
    bool other = why == X509_R_KEY_VALUES_MISMATCH || why == X509_R_KEY_TYPE_MISMATCH;
    if (!other) return fail(e, "key", key_file);
    ERR_clear_error();
    return fail_other_key(e, key_file, cert_file);
}

// Without this OpenSSL would ask for the password of a locked key on the terminal. So such a key is
// refused. The parameters are OpenSSL's.
// NOLINTNEXTLINE(readability-non-const-parameter)
static int no_password(char *text, int size, int writing, void *arg)
{
    (void)text, (void)size, (void)writing, (void)arg;
    return -1;
}

// Renegotiation and compression are off: the first is a cheap way to make us work, the second tells
// secrets by sizes (CRIME). The modes let a write be retried with bytes that moved: `out` grows.
static bool configure(SSL_CTX *x, const char *cert_file, const char *key_file,
                      const char *client_ca_file, err *e)
{
    SSL_CTX_set_min_proto_version(x, TLS1_2_VERSION);
    SSL_CTX_set_options(x, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(x, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(x, on_alpn, NULL);
    SSL_CTX_set_default_passwd_cb(x, no_password);
    assert(cert_file);
    if (SSL_CTX_use_certificate_chain_file(x, cert_file) != 1)
        return fail(e, "certificate", cert_file);
    if (!key_file || SSL_CTX_use_PrivateKey_file(x, key_file, SSL_FILETYPE_PEM) != 1)
        return fail_key(e, key_file, cert_file);
    if (SSL_CTX_check_private_key(x) != 1) {  // a key of another kind
        ERR_clear_error();
        return fail_other_key(e, key_file, cert_file);
    }
    if (!client_ca_file) return true;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(client_ca_file);
    if (!names || SSL_CTX_load_verify_locations(x, client_ca_file, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return fail(e, "client CA", client_ca_file);
    }
    // The names are the context's from here on.
    SSL_CTX_set_client_CA_list(x, names);
    SSL_CTX_set_verify(x, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    static const unsigned char id[] = "flametree";
    SSL_CTX_set_session_id_context(x, id, sizeof id - 1);
    return true;
}

static SSL_CTX *open_context(const char *cert_file, const char *key_file,
                             const char *client_ca_file, err *e)
{
    SSL_CTX *x = SSL_CTX_new(TLS_server_method());
    if (x && configure(x, cert_file, key_file, client_ca_file, e)) return x;
    if (!x) fail(e, "context", NULL);
    SSL_CTX_free(x);
    return NULL;
}

struct tls_context *tls_context_new(const char *cert_file, const char *key_file,
                                    const char *client_ca_file, err *e)
{
    SSL_CTX *ssl = open_context(cert_file, key_file, client_ca_file, e);
    if (!ssl) return NULL;
    struct tls_context *t = mem_must(sizeof *t);
    lock_init(&t->lock, LOCK_TLS);
    t->ssl = ssl;
    return t;
}

bool tls_context_reload(struct tls_context *t, const char *cert_file, const char *key_file,
                        const char *client_ca_file, err *e)
{
    SSL_CTX *ssl = open_context(cert_file, key_file, client_ca_file, e);
    if (!ssl) return false;
    lock_take(&t->lock);
    SSL_CTX *before = t->ssl;
    t->ssl = ssl;
    lock_give(&t->lock);
    // Connections that began with it hold references: they go on with the old certificate.
    SSL_CTX_free(before);
    return true;
}

void tls_context_free(struct tls_context *t)
{
    if (!t) return;
    SSL_CTX_free(t->ssl);
    lock_release(&t->lock);
    mem_must_free(t);
}

// ---- files of clients

static bool read_pem(const char *file, struct buf *out, BIO **bytes, err *e)
{
    buf_init(out, NULL, PEM_MAX);
    *bytes = NULL;
    if (!file) return true;
    if (!file_read(file, out, e)) return false;
    assert(out->n <= PEM_MAX);
    *bytes = BIO_new_mem_buf(out->p, (int)out->n);
    return *bytes != NULL || fail(e, "file", file);
}

static bool check_authority(BIO *bytes, const char *file, err *e)
{
    X509 *x = PEM_read_bio_X509(bytes, NULL, no_password, NULL);
    bool ok = x != NULL;
    X509_free(x);
    return ok || fail(e, "CA", file);
}

static bool check_pair(BIO *cert, BIO *key, const char *cert_file, const char *key_file, err *e)
{
    X509 *x = PEM_read_bio_X509(cert, NULL, no_password, NULL);
    EVP_PKEY *k = key ? PEM_read_bio_PrivateKey(key, NULL, no_password, NULL) : NULL;
    bool ok = false;
    if (!x)
        fail(e, "certificate", cert_file);
    else if (!k)
        fail(e, "key", key_file);
    else
        ok = X509_check_private_key(x, k) == 1 || fail_key(e, key_file, cert_file);
    X509_free(x);
    EVP_PKEY_free(k);
    return ok;
}

bool tls_pem_read(struct tls_pem *p, const char *ca_file, const char *cert_file,
                  const char *key_file, err *e)
{
    BIO *ca = NULL;
    BIO *cert = NULL;
    BIO *key = NULL;
    *p = (struct tls_pem){0};
    bool ok = read_pem(ca_file, &p->ca, &ca, e) && read_pem(cert_file, &p->cert, &cert, e) &&
              read_pem(key_file, &p->key, &key, e) && (!ca || check_authority(ca, ca_file, e)) &&
              (!cert || check_pair(cert, key, cert_file, key_file, e));
    BIO_free(ca);
    BIO_free(cert);
    BIO_free(key);
    if (!ok) tls_pem_release(p);
    return ok;
}

void tls_pem_release(struct tls_pem *p)
{
    // The key must not stay in freed memory.
    OPENSSL_cleanse(p->key.p, p->key.n);
    buf_release(&p->ca);
    buf_release(&p->cert);
    buf_release(&p->key);
}

// ---- connections

struct tls *tls_new(struct tls_context *context)
{
    err e = {0};
    struct tls *t = mem_alloc(NULL, sizeof *t, &e);
    if (!t) return NULL;
    lock_take(&context->lock);  // another thread may exchange the context (tls_context_reload)
    t->ssl = SSL_new(context->ssl);
    lock_give(&context->lock);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (!t->ssl || !t->in || !t->out) {
        BIO_free(t->in);
        BIO_free(t->out);
        SSL_free(t->ssl);
        mem_free(NULL, t, sizeof *t);
        return NULL;
    }
    BIO_set_mem_eof_return(t->in, -1);   // an empty BIO means "wait for more", not end of input
    SSL_set_bio(t->ssl, t->in, t->out);  // takes both
    SSL_set_accept_state(t->ssl);
    return t;
}

void tls_free(struct tls *t)
{
    if (!t) return;
    SSL_free(t->ssl);
    mem_free(NULL, t, sizeof *t);
}

bool tls_feed(struct conn *c, const char *p, size_t n)
{
    struct tls *t = c->tls;
    assert(n <= CONN_CHUNK);  // BIO_write and SSL_read count in int
    if (t->state != TLS_TALKS) return true;
    ERR_clear_error();
    if (BIO_write(t->in, p, (int)n) != (int)n) return false;
    char plain[PIECE];
    for (;;) {
        int got = SSL_read(t->ssl, plain, sizeof plain);
        if (got <= 0) {
            int why = SSL_get_error(t->ssl, got);
            // The record is not whole, or the handshake has something to send first (tls_seal).
            if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return true;
            ERR_clear_error();
            if (why == SSL_ERROR_ZERO_RETURN) return true;  // close_notify: FIN follows it
            t->state = TLS_BROKEN;
            return false;
        }
        conn_plain(c, plain, (size_t)got);
        if (c->state != CONN_SNIFF && c->state != CONN_OPEN) return true;  // the rest is dropped
    }
}

static size_t pending(const struct tls *t)
{
    return tls_pending(t).n;
}

// Encrypts one piece; how much it took, or -1.
static int seal_piece(struct tls *t, const char *p, size_t n)
{
    ERR_clear_error();
    assert(n > 0 && t->state == TLS_TALKS);
    int took = SSL_write(t->ssl, p, (int)MIN(n, PIECE));
    if (took > 0) return took;
    // 0: OpenSSL needs bytes of the client first.
    int why = SSL_get_error(t->ssl, took);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

bool tls_seal(struct conn *c)
{
    struct tls *t = c->tls;
    if (t->state != TLS_TALKS || !SSL_is_init_finished(t->ssl)) return true;
    // Records are not made far ahead: they count against no budget, and a lent answer needs no copy
    // until then.
    while (pending(t) < SEAL_MAX && c->out.n > c->out_at) {
        int took = seal_piece(t, c->out.p + c->out_at, c->out.n - c->out_at);
        if (took < 0) return false;
        if (took == 0) return true;
        conn_take_written(c, (size_t)took);
    }
    while (pending(t) < SEAL_MAX && c->lent.n) {
        int took = seal_piece(t, c->lent.p, c->lent.n);
        if (took < 0) return false;
        if (took == 0) return true;
        conn_take_written(c, (size_t)took);
    }
    return true;
}

void tls_say_goodbye(struct conn *c)
{
    struct tls *t = c->tls;
    if (t->state != TLS_TALKS || !SSL_is_init_finished(t->ssl)) return;
    t->state = TLS_GOODBYE;
    ERR_clear_error();
    (void)SSL_shutdown(t->ssl);
}

bool tls_may_seal(const struct tls *t)
{
    return t->state == TLS_TALKS;
}

str tls_pending(const struct tls *t)
{
    char *p = NULL;
    long n = BIO_get_mem_data(t->out, &p);
    return str_make(p, n > 0 ? (size_t)n : 0);
}

void tls_sent(struct tls *t, size_t n)
{
    char skip[4096];
    while (n > 0) {
        assert(n <= tls_pending(t).n);
        int took = BIO_read(t->out, skip, (int)MIN(n, sizeof skip));
        if (took <= 0) return;
        n -= (size_t)took;
    }
}

bool tls_chose_h2(const struct tls *t)
{
    const unsigned char *name = NULL;
    unsigned n = 0;
    SSL_get0_alpn_selected(t->ssl, &name, &n);
    return str_eq(str_make(name, n), S("h2"));
}
