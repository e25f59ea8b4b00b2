// SPDX-License-Identifier: Apache-2.0
//
// heads.h - ingesters as the contract of HeadRead describes them, written as simply as possible:
// rows in an array, every question answered by looking at each row. The querier's tests ask these
// instead of a network.
#pragma once

#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "lib/test.h"
#include "model/label.h"
#include "model/symbols.h"
#include "model/vector.h"
#include "querier/head/fetch.h"

struct head_sample {
    const char *stack;  // "a;b", root first; "" = the empty stack
    int64_t value;
    uint64_t span;
};

struct head_row {
    const char *tenant;
    const char *labels;  // "service_name=demo,pod=a"
    int64_t time_ns;
    struct head_sample samples[4];
    uint8_t id;  // last byte of the profile's id
};

struct head {
    const char *member;
    const struct head_row *rows;
    size_t row_count;
    const err *fault;                // instead of an answer
    bool recovering;                 // answers, but not completely
    const char *garbage;             // these bytes instead of an answer
    uint8_t stream;                  // last byte of the stream's id
    const char *const *annotations;  // of each row, "key=value" or NULL; NULL: none
    uint8_t holds_stream;            // another stream that it only holds; 0 = none
};

struct heads {
    struct head *v;
    size_t n;
    unsigned *asked;  // counts questions if not NULL
};

// ---- rows

labels head_labels(struct arena *a, const char *text);
uint32_t head_stack(struct symbols *s, const char *text, err *e);

struct head_query {
    struct arena *arena;
    const Flametree__V1__HeadReadRequest *m;
    struct selector selector;
    str tenant;
};

// ---- answers

void head_put_tree(const struct head *h, const struct head_query *q, struct buf *out);
void head_put_totals(const struct head *h, const struct head_query *q, struct buf *out);
void head_put_sets(const struct head *h, const struct head_query *q, struct buf *out);
void head_put_stats(const struct head *h, const struct head_query *q, struct buf *out);
void head_put_stream(struct buf *out, uint32_t field, uint8_t id, const char *owner);

// The head_ask of tests; transport is a struct heads.
bool heads_ask(const void *transport, struct req *r, str tenant, str message,
               struct head_replies *out, err *e);

// All answer again.
void heads_heal(struct head *v, size_t n);
