// SPDX-License-Identifier: Apache-2.0
//
// names.h - a DNS server of a test on loopback: it has the addresses of one name, of both families.
// (tests/lib/dns.py is one for processes.)
#pragma once

#include <pthread.h>

struct names {
    char server[32];         // "127.0.0.1:PORT"
    const char *name;        // as "x.test"
    const char *const *all;  // addresses of IPv4 and IPv6
    size_t n;
    int fd;
    pthread_t thread;
};

// The addresses are borrowed until the end.
void names_start(struct names *s, const char *name, const char *const *all, size_t n);
void names_end(struct names *s);
