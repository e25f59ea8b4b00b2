// SPDX-License-Identifier: Apache-2.0
//
// cli_otlp.c - rewrites a request level by level; what it does not know stays as it is.
#include "deploy/cli/cli_otlp.h"

#include "codec/pb.h"
#include "decode/otlp.h"

#define BODY_MAX ((size_t)1 << 30)

struct rewriting {
    const struct upload_options *o;
    enum otlp_layout layout;
    struct buf *out;
};

bool cli_otlp_is(str bytes)
{
    bool has[3] = {false};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field > 2 || r.type != PB_BYTES) return false;
        has[r.field] = true;
    }
    return !r.fault && has[1] && has[2];
}

// Of two attributes with one name servers take the first, so these win over those of the file.
static void put_labels(struct rewriting *x)
{
    size_t resource = pb_begin(x->out, 1);
    for (size_t i = 0; i < x->o->label_count; i++) {
        label l = x->o->labels[i];
        if (str_is(l.name, LABEL_SERVICE)) l.name = S("service.name");
        size_t attribute = pb_begin(x->out, 1);
        pb_put_bytes(x->out, 1, l.name);
        size_t value = pb_begin(x->out, 2);
        pb_put_bytes(x->out, 1, l.value);
        pb_end(x->out, value);
        pb_end(x->out, attribute);
    }
    pb_end(x->out, resource);
}

// Of a field that comes twice the last one counts.
static void put_profile(struct rewriting *x, str message)
{
    size_t profile = pb_begin(x->out, 2);
    buf_str(x->out, message);
    if (x->layout == OTLP_1_7) {
        pb_put_u64(x->out, 4, (uint64_t)x->o->now_ns);
    } else {
        pb_put_fixed64_opt(x->out, 3, (uint64_t)x->o->now_ns);
    }
    pb_end(x->out, profile);
}

static void put_scope(struct rewriting *x, str message)
{
    size_t scope = pb_begin(x->out, 2);
    struct pb_reader r = pb_reader(message);
    for (const uint8_t *at = r.at; pb_next(&r); at = r.at) {
        if (r.field == 2 && x->o->time_is_now)
            put_profile(x, r.bytes);
        else
            buf_put(x->out, at, (size_t)(r.at - at));
    }
    pb_end(x->out, scope);
}

static void put_resource(struct rewriting *x, str message)
{
    size_t resource = pb_begin(x->out, 1);
    if (x->o->label_count) put_labels(x);
    struct pb_reader r = pb_reader(message);
    for (const uint8_t *at = r.at; pb_next(&r); at = r.at) {
        if (r.field == 2)
            put_scope(x, r.bytes);
        else
            buf_put(x->out, at, (size_t)(r.at - at));
    }
    pb_end(x->out, resource);
}

static bool check(struct arena *a, const struct upload_options *o, str bytes,
                  enum otlp_layout *layout, err *e)
{
    struct decode_options options = {0};
    struct otlp *d = NULL;
    if (o->name.n) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "--name %.*s: OTLP profiles have types of their own", STR(o->name));
    }
    if (!otlp_open(a, bytes, &options, &d, e)) return false;
    *layout = otlp_layout_of(d);
    return otlp_count(d) > 0 || err_set(e, ERR_INVALID_ARGUMENT, "it has no profiles with samples");
}

bool cli_otlp_make(struct arena *a, const struct upload_options *o, str bytes, struct upload *out,
                   err *e)
{
    struct rewriting x = {.o = o, .out = &out->body};
    struct arena scratch;
    arena_init(&scratch, NULL, BODY_MAX);
    str plain = bytes;
    bool ok = decode_plain(&scratch, bytes, &plain, e);
    bool json = ok && str_starts(str_trim(str_slice(plain, 0, 64)), S("{"));
    if (json) bytes = plain;
    ok = ok && (!json || otlp_from_json(&scratch, bytes, &bytes, e));
    ok = ok && check(&scratch, o, bytes, &x.layout, e);
    buf_init(&out->body, NULL, BODY_MAX);
    struct pb_reader r = pb_reader(ok ? bytes : (str){0});
    for (const uint8_t *at = r.at; pb_next(&r); at = r.at) {
        if (r.field == 1)
            put_resource(&x, r.bytes);
        else
            buf_put(x.out, at, (size_t)(r.at - at));
    }
    arena_release(&scratch);
    out->path = "/v1development/profiles";
    out->content_type = "application/x-protobuf";
    out->bytes = buf_view(&out->body);
    return ok && arena_ok(a, e) && buf_ok(&out->body, e);
}

bool cli_otlp_accepted(str answer, str *note, err *e)
{
    uint64_t refused = 0;
    str why = {0};
    struct pb_reader r = pb_reader(answer);
    while (pb_next(&r)) {
        if (r.field != 1 || r.type != PB_BYTES) continue;
        struct pb_reader partial = pb_reader(r.bytes);
        while (pb_next(&partial)) {
            if (partial.field == 1 && partial.type == PB_VARINT) refused = partial.number;
            if (partial.field == 2 && partial.type == PB_BYTES) why = partial.bytes;
        }
    }
    if (refused == 0) {
        *note = why;
        return pb_done(&r, e);
    }
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the others are stored, but %llu of its profiles were refused: %.*s",
                   (unsigned long long)refused, STR(why));
}
