// SPDX-License-Identifier: Apache-2.0
//
// introduce.c - a list, of which the newest counts; the old ones go with the client.
#include "net/introduce.h"

#include "base/mem.h"

#define INTRODUCTIONS_MAX 64  // different ones that are kept; a further one is ignored

struct introduction {
    struct introduction *next;
    str node;
    str cluster;
    char text[];
};

static struct introduction *find(const struct introductions *v, str node, str cluster, size_t *n)
{
    *n = 0;
    for (struct introduction *i = v->all; i; i = i->next) {
        if (str_eq(i->node, node) && str_eq(i->cluster, cluster)) return i;
        ++*n;
    }
    return NULL;
}

void introductions_say(struct introductions *v, str node, str cluster)
{
    size_t n = 0;
    struct introduction *i = find(v, node, cluster, &n);
    if (!i && n == INTRODUCTIONS_MAX) return;
    if (!i) {
        // Never freed before the client: a call that was started with the former names still
        // borrows them.
        i = mem_must(sizeof *i + node.n + cluster.n);
        memcpy(i->text, node.p, node.n);
        memcpy(i->text + node.n, cluster.p, cluster.n);
        i->node = str_make(i->text, node.n);
        i->cluster = str_make(i->text + node.n, cluster.n);
        i->next = v->all;
        v->all = i;
    }
    // Release: a thread that sees the pointer sees the names.
    atomic_store_explicit(&v->now, i, memory_order_release);
}

bool introductions_get(const struct introductions *v, str *node, str *cluster)
{
    const struct introduction *i = atomic_load_explicit(&v->now, memory_order_acquire);
    if (!i) return false;
    *node = i->node;
    *cluster = i->cluster;
    return true;
}

void introductions_release(struct introductions *v)
{
    while (v->all) {
        struct introduction *i = v->all;
        v->all = i->next;
        mem_must_free(i);
    }
}
