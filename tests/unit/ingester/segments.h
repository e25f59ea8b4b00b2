// SPDX-License-Identifier: Apache-2.0
//
// segments.h - rows as lines of text, wherever they are: in a batch that was pushed, in the head,
// in objects of a store. Equal rows have equal lines; what a query would add up is a sorted list.
#pragma once

#include "block/verify.h"
#include "ingester/flush/flush_int.h"
#include "ingester/head/head_int.h"
#include "lib/memstore.h"
#include "model/slot.h"
#include "store/origin.h"
#include "whole.h"

#include <stdlib.h>

// By which all records with a client's id were placed (model/placings.h).
#define TEST_PLACING UINT64_C(7)

struct lines {
    struct arena arena;
    str *v;
    size_t n;
    size_t cap;
};

void lines_init(struct lines *l);
void lines_release(struct lines *l);
int lines_order(const void *a, const void *b);

// ---- one line

struct line {
    struct lines *to;
    struct buf text;
    const struct symbol_table *t;
};

// ---- from a batch

void lines_of_batch(struct lines *l, str tenant, const struct batch *b);

// ---- from the head

// All rows of a tenant; the head is held. Rows of a cut that is dropped may be in memory still.
void lines_of_head(struct lines *l, struct head *h, str tenant);

// ---- what a question would add up: the head, then segments that it does not name, then leaves

// False if the head names what leaves have: it must be asked to refresh.
bool lines_of_question(struct lines *l, struct whole *w, str tenant, struct req *r);
void lines_sort(struct lines *l);
void lines_same(struct lines *got, struct lines *want);
