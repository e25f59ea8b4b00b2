// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

void store_read_many(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    if (n) s->kind->read_many(s, r, v, n);
}

bool store_read(struct store *s, struct req *r, str name, uint64_t at, size_t n, char *to, err *e)
{
    struct store_read one = {.name = name, .at = at, .n = n, .to = to};
    s->kind->read_many(s, r, &one, 1);
    if (!one.ok) *e = one.fault;
    return one.ok;
}

bool store_list(struct store *s, struct req *r, str prefix, str after, store_visit *fn, void *arg,
                err *e)
{
    return s->kind->list(s, r, prefix, after, fn, arg, e);
}

struct store_upload *store_begin(struct store *s, struct req *r, str name, uint64_t about, err *e)
{
    return s->kind->begin(s, r, name, about, e);
}

bool store_write(struct store_upload *u, str bytes, err *e)
{
    return u->store->kind->write(u, bytes, e);
}

bool store_commit(struct store_upload *u, bool *existed, err *e)
{
    return u->store->kind->commit(u, existed, e);
}

void store_abandon(struct store_upload *u)
{
    u->store->kind->abandon(u);
}

bool store_delete(struct store *s, struct req *r, str name, err *e)
{
    return s->kind->remove(s, r, name, e);
}

void store_close(struct store *s)
{
    if (s) s->kind->close(s);
}
