// SPDX-License-Identifier: Apache-2.0
#include "lib/memobjects.h"

#include <stdlib.h>
#include <string.h>

void *mem_or_abort(void *p)
{
    if (!p) abort();
    return p;
}

char *mem_copy(const char *p, size_t n)
{
    char *to = mem_or_abort(malloc(n + 1));
    if (n) memcpy(to, p, n);
    to[n] = '\0';
    return to;
}

struct memobjects *memobjects_new(void)
{
    struct memobjects *o = mem_or_abort(calloc(1, sizeof *o));
    if (pthread_mutex_init(&o->mutex, NULL)) abort();
    return o;
}

void memobjects_free(struct memobjects *o)
{
    for (size_t i = 0; i < o->n; i++) {
        free(o->v[i].name);
        free(o->v[i].bytes);
    }
    free(o->v);
    pthread_mutex_destroy(&o->mutex);
    free(o);
}

str memobject_name(const struct memobject *o)
{
    return str_make(o->name, o->name_n);
}

size_t memobjects_place(const struct memobjects *o, str name)
{
    size_t from = 0;
    size_t to = o->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (str_cmp(memobject_name(&o->v[middle]), name) < 0) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

struct memobject *memobjects_find(const struct memobjects *o, str name)
{
    size_t i = memobjects_place(o, name);
    return i < o->n && str_eq(memobject_name(&o->v[i]), name) ? &o->v[i] : NULL;
}

// NOLINTNEXTLINE(readability-non-const-parameter): it owns the bytes
bool memobjects_insert(struct memobjects *o, str name, char *bytes, size_t n)
{
    if (memobjects_find(o, name)) return false;
    if (o->n == o->cap) {
        o->cap = o->cap ? 2 * o->cap : 64;
        o->v = mem_or_abort(realloc(o->v, o->cap * sizeof *o->v));
    }
    size_t i = memobjects_place(o, name);
    memmove(o->v + i + 1, o->v + i, (o->n - i) * sizeof *o->v);
    o->v[i] = (struct memobject){mem_copy(name.p, name.n), name.n, bytes, n, o->now_ns};
    o->n += 1;
    return true;
}

void memobjects_take_out(struct memobjects *o, str name)
{
    struct memobject *found = memobjects_find(o, name);
    if (!found) return;
    free(found->name);
    free(found->bytes);
    size_t i = (size_t)(found - o->v);
    memmove(o->v + i, o->v + i + 1, (o->n - i - 1) * sizeof *o->v);
    o->n -= 1;
}
