// SPDX-License-Identifier: Apache-2.0
//
// memobjects.h - the objects of memstore.h: named bytes in the order of names, which several stores
// share. All but new and free are called with the mutex. Memory is plain malloc, and there is
// always some.
#pragma once

#include "base/base.h"
#include "base/str.h"

#include <pthread.h>

struct memobject {
    char *name;
    size_t name_n;
    char *bytes;
    uint64_t n;
    int64_t made_ns;
};

struct memobjects {
    pthread_mutex_t mutex;
    int64_t now_ns;  // the clock that objects are made by
    unsigned stores;
    struct memobject *v;  // in the order of names
    size_t n;
    size_t cap;
};

struct memobjects *memobjects_new(void);
void memobjects_free(struct memobjects *o);

str memobject_name(const struct memobject *o);

// Position of the first object whose name is not less.
size_t memobjects_place(const struct memobjects *o, str name);
struct memobject *memobjects_find(const struct memobjects *o, str name);  // NULL: it is not there

// Takes the bytes, unless there is an object of that name: then false.
bool memobjects_insert(struct memobjects *o, str name, char *bytes, size_t n);
void memobjects_take_out(struct memobjects *o, str name);

void *mem_or_abort(void *p);
char *mem_copy(const char *p, size_t n);  // owned, ends with a NUL besides
