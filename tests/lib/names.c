// SPDX-License-Identifier: Apache-2.0
#include "lib/names.h"

#include "base/buf.h"
#include "lib/test.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD 12  // bytes before the question

static void put16(struct buf *out, unsigned v)
{
    buf_byte(out, (uint8_t)(v >> 8));
    buf_byte(out, (uint8_t)v);
}

static void put_address(struct buf *out, int kind, const void *bytes, size_t n)
{
    put16(out, 0xc000 | HEAD);  // the name of the question
    put16(out, (unsigned)kind);
    put16(out, ns_c_in);
    put16(out, 0);
    put16(out, 0);  // it is good for no time
    put16(out, (unsigned)n);
    buf_str(out, str_make(bytes, n));
}

// The name of a question in dots, and where its kind is; 0: it is none.
static size_t read_name(const uint8_t *q, size_t n, char *name, size_t room)
{
    size_t at = HEAD;
    size_t to = 0;
    while (at < n && q[at]) {
        if (at + q[at] >= n || to + q[at] + 2 > room) return 0;
        if (to) name[to++] = '.';
        memcpy(name + to, q + at + 1, q[at]);
        to += q[at];
        at += 1 + (size_t)q[at];
    }
    name[to] = '\0';
    return at + 5 <= n ? at + 1 : 0;
}

static void answer(const struct names *s, const uint8_t *q, size_t n, struct buf *out)
{
    struct buf records;
    char name[256];
    unsigned count = 0;
    size_t at = read_name(q, n, name, sizeof name);
    bool known = at && strcasecmp(name, s->name) == 0;
    if (!at) return;
    int kind = q[at] << 8 | q[at + 1];
    buf_init(&records, NULL, 4096);
    for (size_t i = 0; i < s->n && known; i++) {
        uint8_t bytes[sizeof(struct in6_addr)];
        bool v6 = strchr(s->all[i], ':') != NULL;
        if (kind != (v6 ? ns_t_aaaa : ns_t_a)) continue;
        assert_int_equal(inet_pton(v6 ? AF_INET6 : AF_INET, s->all[i], bytes), 1);
        put_address(&records, kind, bytes, v6 ? sizeof bytes : sizeof(struct in_addr));
        count++;
    }
    buf_str(out, str_make((const char *)q, 2));
    put16(out, 0x8180 | (known ? ns_r_noerror : ns_r_nxdomain));
    put16(out, 1);
    put16(out, count);
    put16(out, 0);
    put16(out, 0);
    buf_str(out, str_make((const char *)q + HEAD, at + 4 - HEAD));
    buf_str(out, buf_view(&records));
    buf_release(&records);
}

static void *serve(void *arg)
{
    struct names *s = arg;
    for (;;) {
        uint8_t q[512];
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        struct buf out;
        ssize_t n = recvfrom(s->fd, q, sizeof q, 0, (struct sockaddr *)&from, &size);
        if (n <= 0) return NULL;  // an empty one is names_end's
        buf_init(&out, NULL, 8192);
        if (n > HEAD) answer(s, q, (size_t)n, &out);
        if (out.n) (void)!sendto(s->fd, out.p, out.n, 0, (struct sockaddr *)&from, size);
        buf_release(&out);
    }
}

void names_start(struct names *s, const char *name, const char *const *all, size_t n)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    *s = (struct names){.name = name, .all = all, .n = n};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(s->fd >= 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &size), 0);
    snprintf(s->server, sizeof s->server, "127.0.0.1:%u", ntohs(at.sin_port));
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

void names_end(struct names *s)
{
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(sendto(s->fd, "", 0, 0, (struct sockaddr *)&at, size), 0);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    (void)close(s->fd);
}
