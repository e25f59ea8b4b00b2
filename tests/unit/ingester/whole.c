// SPDX-License-Identifier: Apache-2.0
#include "unit/ingester/whole.h"

void whole_start_as(struct whole *w, const char *dir, const char *flags, struct store *store,
                    const char *id)
{
    size_t section_count = 0;
    char *argv[24] = {NULL};
    int argc = 0;
    struct config_args args;
    *w = (struct whole){0};
    w->sections[section_count++] = &ingester_section;
    w->sections[section_count++] = &limits_section;
    for (size_t i = 0; i < settings_section_count; i++)
        w->sections[section_count++] = settings_sections[i];
    w->config = config_new(w->sections, section_count);
    mem_budget_init(&w->memory, "memory", NULL, 0);
    snprintf(w->flags, sizeof w->flags, "test --ingester.disk_reserve=0 %s", flags);
    for (char *at = w->flags; *at;) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at) *at++ = 0;
    }
    assert_ok(config_load(w->config, argc, argv, &args, e));
    w->process = (struct process){
        .config = w->config, .memory = &w->memory, .data_dir = dir, .store = store, .id = id};
    void *self = NULL;
    assert_ok(ingester.start(&w->process, &self, e));
    w->in = self;
}

void whole_start_with(struct whole *w, const char *dir, const char *flags, struct store *store)
{
    whole_start_as(w, dir, flags, store, "ingester-0");
}

void whole_start(struct whole *w, const char *dir, const char *flags)
{
    whole_start_with(w, dir, flags, NULL);
}

void whole_await(struct whole *w)
{
    struct buf why;
    buf_init(&why, NULL, 4096);
    AWAIT((buf_clear(&why), ingester.ready(w->in, &why)));
    buf_release(&why);
}

void whole_stop(struct whole *w)
{
    ingester.drain(w->in, 0);
    ingester.stop(w->in);
    assert_int_equal(atomic_load(&w->memory.used), 0);
    config_free(w->config);
}

MUST_CHECK bool whole_push(struct whole *w, const struct fact *f, size_t n, err *e)
{
    struct req r;
    struct buf message;
    struct buf answer;
    req_init(&r, RANK_INGESTER, &w->memory, SIZE_MAX, 0);
    r.tenant = str_of(fact_tenants[f->tenant]);
    buf_init(&message, NULL, 1 << 26);
    buf_init(&answer, NULL, 1 << 26);
    for (size_t i = 0; i < n; i++)
        pb_put_bytes(&message, 1, fact_batch(&r.arena, &f[i], 1));
    bool ok = append_run(w->in, &r, buf_view(&message), &answer, e);
    buf_release(&message);
    buf_release(&answer);
    req_release(&r);
    return ok;
}

uint64_t whole_holds(struct whole *w, const struct fact *f)
{
    struct req r;
    struct merge m;
    uint64_t count = 0;
    str tenant = str_of(fact_tenants[f->tenant]);
    struct head_query q = {.tenants = &tenant,
                           .tenant_count = 1,
                           .from_ns = INT64_MIN,
                           .to_ns = INT64_MAX};
    struct span_filter filter = {.profiles = &f->id, .profile_count = 1};
    req_init(&r, RANK_INGESTER, &w->memory, SIZE_MAX, 0);
    assert_ok(merge_init(&m, NULL, true, e));
    assert_ok(head_tree(w->in->head, &r, &q, &filter, &m, &count, e));
    merge_release(&m);
    req_release(&r);
    return count;
}
