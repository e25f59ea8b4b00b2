// SPDX-License-Identifier: Apache-2.0
#include "lib/jfr.h"

#include "base/base.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define HEADER_BYTES 68
#define SIZE_BYTES   4
#define WIDE_BYTES   9  // of the longest LEB128 number
#define NAMES_MAX    128

const struct jw_class jw_classes[JW_CLASSES] = {
    {JW_BOOLEAN, "boolean", {{0}}},
    {JW_SHORT, "short", {{0}}},
    {JW_INT, "int", {{0}}},
    {JW_LONG, "long", {{0}}},
    {JW_FLOAT, "float", {{0}}},
    {JW_DOUBLE, "double", {{0}}},
    {JW_STRING, "java.lang.String", {{0}}},
    {JW_CLASS, "java.lang.Class", {{"name", JW_SYMBOL, JW_POOL}}},
    {JW_SYMBOL, "jdk.types.Symbol", {{"string", JW_STRING, JW_PLAIN}}},
    {JW_METHOD, "jdk.types.Method", {{"type", JW_CLASS, JW_POOL}, {"name", JW_SYMBOL, JW_POOL}}},
    {JW_FRAME,
     "jdk.types.StackFrame",
     {{"method", JW_METHOD, JW_POOL}, {"lineNumber", JW_INT, JW_PLAIN}}},
    {JW_STACK,
     "jdk.types.StackTrace",
     {{"truncated", JW_BOOLEAN, JW_PLAIN}, {"frames", JW_FRAME, JW_ARRAY}}},
    {JW_STATE, "jdk.types.ThreadState", {{"name", JW_STRING, JW_PLAIN}}},
    {JW_SAMPLE,
     "jdk.ExecutionSample",
     {{"startTime", JW_LONG, JW_PLAIN},
      {"stackTrace", JW_STACK, JW_POOL},
      {"state", JW_STATE, JW_POOL},
      {"contextId", JW_LONG, JW_PLAIN},
      {"spanId", JW_LONG, JW_PLAIN},
      {"spanName", JW_LONG, JW_PLAIN}}},
    {JW_ENTER,
     "jdk.JavaMonitorEnter",
     {{"startTime", JW_LONG, JW_PLAIN},
      {"duration", JW_LONG, JW_PLAIN},
      {"stackTrace", JW_STACK, JW_POOL}}},
    {JW_SETTING,
     "jdk.ActiveSetting",
     {{"name", JW_STRING, JW_PLAIN},
      {"value", JW_STRING, JW_PLAIN},
      {"startTime", JW_LONG, JW_PLAIN},
      {"id", JW_LONG, JW_PLAIN}}},
    {JW_WALL,
     "profiler.WallClockSample",
     {{"startTime", JW_LONG, JW_PLAIN},
      {"stackTrace", JW_STACK, JW_POOL},
      {"state", JW_STATE, JW_POOL},
      {"samples", JW_INT, JW_PLAIN}}},
    {JW_ALLOC,
     "jdk.ObjectAllocationSample",
     {{"startTime", JW_LONG, JW_PLAIN},
      {"stackTrace", JW_STACK, JW_POOL},
      {"objectClass", JW_CLASS, JW_POOL},
      {"weight", JW_LONG, JW_PLAIN}}},
    {JW_RECORDING, "jdk.ActiveRecording", {{"startTime", JW_LONG, JW_PLAIN}}},
    {JW_LOAD, "jdk.CPULoad", {{"startTime", JW_LONG, JW_PLAIN}}},
    {JW_OTHER, "acme.Happening", {{"thing", JW_THING, JW_PLAIN}}},
    {JW_THING,
     "acme.Thing",
     {{"text", JW_STRING, JW_PLAIN},
      {"real", JW_FLOAT, JW_PLAIN},
      {"long", JW_DOUBLE, JW_PLAIN},
      {"shorts", JW_SHORT, JW_ARRAY},
      {"flag", JW_BOOLEAN, JW_PLAIN}}},
};

void jw_init(struct jw *w, bool compressed)
{
    *w = (struct jw){.compressed = compressed};
    buf_init(&w->out, NULL, (size_t)64 << 20);
}

void jw_release(struct jw *w)
{
    buf_release(&w->out);
}

// ---- numbers and texts

static void big_endian(char *to, size_t n, uint64_t v)
{
    while (n-- > 0) {
        to[n] = (char)(v & 0xff);
        v >>= 8;
    }
}

static void put_big_endian(struct jw *w, size_t n, uint64_t v)
{
    char bytes[8];
    big_endian(bytes, n, v);
    buf_put(&w->out, bytes, n);
}

static void put(struct jw *w, size_t fixed, uint64_t v)
{
    if (!w->compressed) {
        put_big_endian(w, fixed, v);
        return;
    }
    for (int i = 0; i < WIDE_BYTES - 1 && v >= 0x80; i++, v >>= 7) {
        buf_byte(&w->out, (unsigned char)(v | 0x80));
    }
    buf_byte(&w->out, (unsigned char)v);
}

// LEB128 in a fixed number of bytes, so that it can be put later.
static void leb(char *to, size_t n, uint64_t v)
{
    for (size_t i = 0; i + 1 < n; i++, v >>= 7) {
        to[i] = (char)(v | 0x80);
    }
    to[n - 1] = (char)v;
}

void jw_byte(struct jw *w, unsigned char v)
{
    buf_byte(&w->out, v);
}

void jw_short(struct jw *w, uint64_t v)
{
    put(w, 2, v);
}

void jw_int(struct jw *w, uint64_t v)
{
    put(w, 4, v);
}

void jw_long(struct jw *w, uint64_t v)
{
    put(w, 8, v);
}

void jw_text(struct jw *w, const char *z)
{
    jw_byte(w, 3);
    jw_int(w, strlen(z));
    buf_z(&w->out, z);
}

void jw_text_pool(struct jw *w, uint64_t string)
{
    jw_byte(w, 2);
    jw_long(w, string);
}

// ---- chunks and events

void jw_header(struct jw *w, size_t chunk, size_t field, uint64_t v)
{
    big_endian(w->out.p + chunk + field, 8, v);
}

void jw_begin(struct jw *w)
{
    static const char zeros[HEADER_BYTES];
    w->chunk = w->out.n;
    buf_put(&w->out, zeros, sizeof zeros);
    memcpy(w->out.p + w->chunk, "FLR\0\0\2\0\1", 8);
    w->out.p[w->chunk + HEADER_BYTES - 1] = w->compressed;
}

void jw_end(struct jw *w)
{
    jw_header(w, w->chunk, JW_HEADER_SIZE, w->out.n - w->chunk);
    jw_header(w, w->chunk, JW_HEADER_POOLS, w->pools);
    jw_header(w, w->chunk, JW_HEADER_TYPES, w->types);
}

void jw_event(struct jw *w, uint64_t type)
{
    w->piece = w->out.n;
    put_big_endian(w, SIZE_BYTES, 0);
    jw_long(w, type);
}

void jw_close(struct jw *w)
{
    size_t size = w->out.n - w->piece;
    if (w->compressed) {
        leb(w->out.p + w->piece, SIZE_BYTES, size);
    } else {
        big_endian(w->out.p + w->piece, SIZE_BYTES, size);
    }
}

// ---- metadata

struct names {
    const char *v[NAMES_MAX];
    size_t n;
};

static uint64_t name(struct names *all, const char *z)
{
    size_t i = 0;
    while (i < all->n && strcmp(all->v[i], z) != 0) {
        i++;
    }
    assert(i < NAMES_MAX);
    if (i == all->n) all->v[all->n++] = z;
    return i;
}

static void attribute(struct jw *tree, struct names *all, const char *key, const char *value)
{
    jw_int(tree, name(all, key));
    jw_int(tree, name(all, value));
}

static void element(struct jw *tree, struct names *all, const char *kind, uint64_t attributes)
{
    jw_int(tree, name(all, kind));
    jw_int(tree, attributes);
}

// Names are kept until the table is written, so numbers as text need a place that lives as long.
static const char *digits(unsigned v)
{
    static char all[100][3];
    assert(v < COUNT(all));
    snprintf(all[v], sizeof all[v], "%u", v);
    return all[v];
}

static void field(struct jw *tree, struct names *all, const struct jw_field *f)
{
    element(tree, all, "field", f->kind == JW_PLAIN ? 2 : 3);
    attribute(tree, all, "name", f->name);
    attribute(tree, all, "class", digits(f->class_id));
    if (f->kind == JW_POOL) attribute(tree, all, "constantPool", "true");
    if (f->kind == JW_ARRAY) attribute(tree, all, "dimension", "1");
    jw_int(tree, 0);
}

static void class(struct jw *tree, struct names *all, const struct jw_class *c)
{
    uint64_t fields = 0;
    element(tree, all, "class", 2);
    attribute(tree, all, "name", c->name);
    attribute(tree, all, "id", digits(c->id));
    while (fields < JW_FIELDS_MAX && c->fields[fields].name) {
        fields++;
    }
    jw_int(tree, fields);
    for (uint64_t i = 0; i < fields; i++) {
        field(tree, all, &c->fields[i]);
    }
}

void jw_metadata(struct jw *w, const struct jw_class *classes, size_t n)
{
    struct names all = {.n = 0};
    struct jw tree;
    jw_init(&tree, w->compressed);
    element(&tree, &all, "root", 0);
    jw_int(&tree, 2);
    element(&tree, &all, "metadata", 0);
    jw_int(&tree, n);
    for (size_t i = 0; i < n; i++) {
        class(&tree, &all, &classes[i]);
    }
    element(&tree, &all, "region", 0);
    jw_int(&tree, 0);

    w->types = w->out.n - w->chunk;
    jw_event(w, 0);
    jw_long(w, 0);  // when, how long, number of the metadata
    jw_long(w, 0);
    jw_long(w, 1);
    jw_int(w, all.n);
    for (size_t i = 0; i < all.n; i++) {
        jw_text(w, all.v[i]);
    }
    buf_str(&w->out, buf_view(&tree.out));
    jw_close(w);
    jw_release(&tree);
}

// ---- constant pools

static size_t delta_at(const struct jw *w)
{
    return SIZE_BYTES + (w->compressed ? 3 : 24);  // behind the type, when, how long
}

size_t jw_checkpoint(struct jw *w, uint64_t pools)
{
    w->pools = w->out.n - w->chunk;
    jw_event(w, 1);
    jw_long(w, 0);
    jw_long(w, 0);
    char delta[WIDE_BYTES] = {0};
    size_t n = w->compressed ? WIDE_BYTES : 8;
    if (w->compressed) leb(delta, n, 0);
    buf_put(&w->out, delta, n);
    jw_byte(w, 0);
    jw_int(w, pools);
    return w->pools;
}

void jw_link(struct jw *w, size_t from, size_t to)
{
    char *p = w->out.p + w->chunk + from + delta_at(w);
    if (w->compressed) {
        leb(p, WIDE_BYTES, to - from);
    } else {
        big_endian(p, 8, to - from);
    }
}

void jw_pool(struct jw *w, uint64_t class_id, uint64_t n)
{
    jw_long(w, class_id);
    jw_int(w, n);
}

void jw_sample(struct jw *w, const struct jw_hit *hit)
{
    jw_event(w, JW_SAMPLE);
    jw_long(w, hit->time ? hit->time : 1000);
    jw_long(w, hit->stack);
    jw_long(w, hit->state);
    jw_long(w, hit->context);
    jw_long(w, hit->span);
    jw_long(w, hit->span_name);
    jw_close(w);
}

void jw_setting(struct jw *w, uint64_t time, uint64_t id, const char *name, const char *value)
{
    jw_event(w, JW_SETTING);
    jw_text(w, name);
    jw_text(w, value);
    jw_long(w, time);
    jw_long(w, id);
    jw_close(w);
}

static void stack(struct jw *w, uint64_t id, const uint64_t (*frames)[2], size_t n)
{
    jw_long(w, id);
    jw_byte(w, 0);
    jw_int(w, n);
    for (size_t i = 0; i < n; i++) {
        jw_long(w, frames[i][0]);
        jw_int(w, frames[i][1]);
    }
}

size_t jw_app(struct jw *w)
{
    static const uint64_t frames[][2] = {{501, 7}, {502, 3}};
    static const char *const symbols[] = {"App", "work", "main"};
    size_t at = jw_checkpoint(w, 5);
    jw_pool(w, JW_STACK, 2);
    stack(w, 1, frames, 2);
    stack(w, 2, &frames[1], 1);
    jw_pool(w, JW_METHOD, 2);
    for (uint64_t i = 1; i <= 2; i++) {
        jw_long(w, 500 + i);
        jw_long(w, 300);
        jw_long(w, 200 + i);
    }
    jw_pool(w, JW_CLASS, 1);
    jw_long(w, 300);
    jw_long(w, 200);
    jw_pool(w, JW_SYMBOL, COUNT(symbols));
    for (uint64_t i = 0; i < COUNT(symbols); i++) {
        jw_long(w, 200 + i);
        jw_text(w, symbols[i]);
    }
    jw_pool(w, JW_STATE, 2);
    jw_long(w, 1);
    jw_text(w, "STATE_RUNNABLE");
    jw_long(w, 2);
    jw_text(w, "STATE_SLEEPING");
    jw_close(w);
    return at;
}

void jw_chunk(struct jw *w, const struct jw_hit *hits, size_t n)
{
    jw_begin(w);
    for (size_t i = 0; i < n; i++) {
        jw_sample(w, &hits[i]);
    }
    jw_app(w);
    jw_metadata(w, jw_classes, JW_CLASSES);
    jw_end(w);
}
