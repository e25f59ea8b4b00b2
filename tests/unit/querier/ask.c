// SPDX-License-Identifier: Apache-2.0
#include "unit/querier/ask.h"

#include "querier/request/stacktraces.h"

char *ask_text(const char *text)
{
    union {
        const char *in;
        char *out;
    } u = {text};
    return u.out;
}

static void load(struct ask *k, const char *flag)
{
    static const struct config_section *sections[2];
    sections[0] = querier.config;
    sections[1] = &limits_section;
    k->config = config_new(sections, COUNT(sections));
    struct config_args args;
    char program[] = "test";
    char *argv[] = {program, ask_text(flag), NULL};
    assert_ok(config_load(k->config, flag ? 2 : 1, argv, &args, e));
    k->state.config = k->config;
}

void ask_open(struct ask *k, struct head *heads, size_t n)
{
    memset(k, 0, sizeof *k);
    load(k, NULL);
    k->heads = (struct heads){heads, n, &k->asked};
    k->state = (struct querier_state){.config = k->config,
                                      .ask = heads_ask,
                                      .transport = (const void *)&k->heads};
    buf_init(&k->out, NULL, 1 << 26);
    req_init(&k->x.req, RANK_PUBLIC, NULL, 1 << 26, 0);
    k->x.req.tenant = S("t");
}

void ask_set(struct ask *k, const char *flag)
{
    config_free(k->config);
    load(k, flag);
}

void ask_close(struct ask *k)
{
    req_release(&k->x.req);
    buf_release(&k->out);
    config_free(k->config);
}

void ask_again(struct ask *k)
{
    req_release(&k->x.req);
    memset(&k->x, 0, sizeof k->x);
    req_init(&k->x.req, RANK_PUBLIC, NULL, 1 << 26, 0);
    k->x.req.tenant = S("t");
    buf_clear(&k->out);
}

void ask_header(struct ask *k, const char *name, const char *value)
{
    http_headers_add(&k->x.headers, &k->x.req.arena, str_of(name), str_of(value));
}

bool ask_run(struct ask *k, answer_fn *fn, const ProtobufCMessage *request)
{
    struct buf in;
    buf_init(&in, NULL, 1 << 24);
    pb_pack(request, &in);
    buf_clear(&k->out);
    k->fault = (err){0};
    bool ok = answer_run(&k->state, &k->x, S("Test"), fn, buf_view(&in), &k->out, &k->fault);
    buf_release(&in);
    return ok;
}

// The answer as a message; lives until ask_again.
static const void *ask_answer(struct ask *k, const ProtobufCMessageDescriptor *type)
{
    err e = {0};
    const void *m = pb_unpack(&k->x.req.arena, type, buf_view(&k->out), &e);
    if (!m) fail_msg("the answer does not unpack: %s", e.msg);
    return m;
}

const void *ask_ok(struct ask *k, answer_fn *fn, const ProtobufCMessage *request,
                   const ProtobufCMessageDescriptor *type)
{
    if (!ask_run(k, fn, request)) fail_msg("%s: %s", err_name(k->fault.code), k->fault.msg);
    return ask_answer(k, type);
}

const char *ask_said(const struct ask *k, const char *header)
{
    str value = http_headers_get(&k->x.answer_headers, header);
    return value.p ? value.p : "";
}

merge_request ask_merge(const char *selector, int64_t at_ms)
{
    merge_request m = QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
    m.profile_typeid = ask_text(CPU);
    m.label_selector = ask_text(selector);
    m.start = at_ms - 1000;
    m.end = at_ms + 1000;
    return m;
}

const merge_response *ask_merge_ok(struct ask *k, const merge_request *m)
{
    return ask_ok(k, stacktraces_merge, &m->base,
                  &querier__v1__select_merge_stacktraces_response__descriptor);
}
