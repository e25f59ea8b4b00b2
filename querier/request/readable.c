// SPDX-License-Identifier: Apache-2.0
//
// readable.c - reads the names back from the message that was just written, and appends their
// demangled forms to it. Demanglers recurse, so they run on a thread with a stack of the size that
// they need; without any mangled name there is no thread.
#include "querier/request/readable.h"

#include "codec/pb.h"
#include "model/demangle.h"
#include "sys/thread.h"

#define FIELD_READABLE 100

// So many names are demangled before the request is checked again: 20 ms if all are as slow as can
// be.
#define NAMES_AT_ONCE 200

static str first_field(str row)
{
    struct pb_reader r = pb_reader(row);
    return pb_next(&r) && r.field == 1 && r.type == PB_BYTES ? r.bytes : (str){0};
}

static void put_name(uint32_t index, str name, struct buf *text, struct buf *out)
{
    text->n = 0;
    if (!demangle(name, text) || text->failed) return;
    size_t mark = pb_begin(out, FIELD_READABLE);
    pb_put_u64_opt(out, 1, index);
    pb_put_bytes(out, 2, buf_view(text));
    pb_end(out, mark);
}

static bool put_names(struct answer *a, enum readable_place place, str message, struct buf *text,
                      struct buf *out, err *e)
{
    struct pb_reader r = pb_reader(message);
    for (uint32_t i = 0; pb_next(&r) && r.field == 1 && !out->failed; i++) {
        if (i % NAMES_AT_ONCE == 0 && !req_alive(&a->x->req, e)) return false;
        put_name(i, place == READABLE_ROWS ? first_field(r.bytes) : r.bytes, text, out);
    }
    return buf_ok(text, e) && buf_ok(out, e);
}

struct reading {
    struct answer *a;
    enum readable_place place;
    str message;
    struct buf text;
    struct buf names;  // apart, for the message moves while it grows
    bool ok;
    err e;
};

static void on_read(void *arg)
{
    struct reading *r = arg;
    r->ok = put_names(r->a, r->place, r->message, &r->text, &r->names, &r->e);
}

static bool any_mangled(enum readable_place place, str message)
{
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r) && r.field == 1) {
        if (demangle_maybe(place == READABLE_ROWS ? first_field(r.bytes) : r.bytes)) return true;
    }
    return false;
}

bool readable_put(struct answer *a, enum readable_place place, size_t mark, struct buf *out, err *e)
{
    if (!a->names_readable || out->failed) return true;
    assert(mark <= out->n);
    struct reading r = {.a = a, .place = place, .message = str_make(out->p + mark, out->n - mark)};
    if (!any_mangled(place, r.message)) return true;
    buf_init(&r.text, a->querier->memory, DEMANGLE_TEXT_MAX);
    buf_init(&r.names, a->querier->memory, out->cap);
    // This thread waits, so the request and its buffers are used by one thread at a time.
    bool ok = thread_call("demangle", DEMANGLE_STACK_BYTES, on_read, &r, e);
    if (ok && !r.ok) *e = r.e;
    ok = ok && r.ok;
    if (ok) buf_str(out, buf_view(&r.names));
    buf_release(&r.names);
    buf_release(&r.text);
    return ok;
}
