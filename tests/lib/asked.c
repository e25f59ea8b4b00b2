// SPDX-License-Identifier: Apache-2.0
#include "lib/asked.h"

#include "lib/listener.h"

#include <stdio.h>

static enum head_verdict head(void *self, struct http_exchange *x)
{
    (void)self;
    x->body_max = sizeof((struct asked *)NULL)->body;
    return HEAD_READ_BODY;
}

static void run(void *self, struct http_exchange *x)
{
    struct asked *a = self;
    snprintf(a->path, sizeof a->path, "%.*s", STR(x->path));
    snprintf(a->body, sizeof a->body, "%.*s", STR(buf_view(&x->body)));
    x->status = 200;
    x->fixed = str_of(a->answer);
}

static void refuse(void *self, struct http_exchange *x, const err *e)
{
    (void)self, (void)e;
    if (x->status == 0) x->status = 503;
}

void asked_start(struct asked *a, const char *answer)
{
    *a = (struct asked){.answer = answer};
    mem_budget_init(&a->memory, "asked", NULL, (size_t)64 << 20);
    assert_ok((a->loop = loop_new("asked", e)));
    struct server_app app = {.self = a, .head = head, .run = run, .refuse = refuse};
    struct server_options o = listener_for("asked", "127.0.0.1:0", &a->memory, RANK_DISK);
    assert_ok((a->server = server_open(&o, app, &a->loop, 1, e)));
    snprintf(a->url, sizeof a->url, "http://127.0.0.1:%u", server_port(a->server));
    assert_ok((a->client = client_new(a->loop, &a->memory, 4, e)));
}

void asked_end(struct asked *a)
{
    client_free(a->client);
    server_close(a->server);
    loop_free(a->loop);
    assert_int_equal(atomic_load(&a->memory.used), 0);
}
