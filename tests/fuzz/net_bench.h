// SPDX-License-Identifier: Apache-2.0
//
// net_bench.h - a connection of net's server without a socket, for fuzz targets: bytes in, bytes
// out.
#pragma once

#include "net/conn.h"
#include "net/exchange.h"

#include <stdlib.h>

struct bench {
    struct server server;
    struct shard shard;
    struct mem_budget memory;
    struct conn *conn;
    struct buf out;  // all that the connection said
};

struct bench *bench_new(void);

// Lets the connection go on until it has nothing more to do, as a reader of all output would.
void bench_run_on(struct bench *b);
void bench_feed(struct bench *b, const uint8_t *p, size_t n);
void bench_free(struct bench *b);
