// SPDX-License-Identifier: Apache-2.0
#include "walk/crowd.h"

#include "compactor/compactor.h"
#include "compactor/config.h"
#include "compactor/work.h"
#include "lib/dir.h"
#include "sys/clock.h"

#define WORKERS "--compactor.workers=2"

struct crowd {
    char dir[DIR_MAX];
    char retention[64];
    char hours[64];
    char grace[64];
    struct config *config;
    struct members *members;
    struct process process;
};

static void set_up(struct crowd *c, struct store *s, struct mem_budget *memory, unsigned number,
                   int64_t retention_ns, int64_t grace_ns)
{
    static const struct config_section *const sections[] = {&compactor_section};
    static const char *const names[] = {"c0", "c1"};
    const char *const argv[] = {"walk",   WORKERS,  "--compactor.interval=1h",  c->retention,
                                c->hours, c->grace, "--compactor.leaf_delay=0s"};
    struct config_args args;
    int64_t keep = retention_ns / NS_PER_S;
    snprintf(c->retention, sizeof c->retention, "--compactor.raw_retention=%llds", (long long)keep);
    snprintf(c->hours, sizeof c->hours, "--compactor.hours_retention=%llds", (long long)(4 * keep));
    snprintf(c->grace, sizeof c->grace, "--compactor.delete_delay=%llds",
             (long long)(grace_ns / NS_PER_S));
    dir_new(c->dir);
    c->config = config_new(sections, COUNT(sections));
    assert_ok(config_load(c->config, COUNT(argv), (char **)(uintptr_t)argv, &args, e));
    assert_ok((c->members = members_new(e)) != NULL);
    for (size_t i = 0; i < COUNT(names); i++) {
        char entry[32];
        snprintf(entry, sizeof entry, "%s=127.0.0.1:%zu", names[i], i + 1);
        assert_ok(members_add(c->members, MEMBER_COMPACTOR, str_of(entry), e));
    }
    c->process = (struct process){.config = c->config,
                                  .memory = memory,
                                  .members = c->members,
                                  .data_dir = c->dir,
                                  .store = s,
                                  .id = names[number % COUNT(names)]};
}

uint64_t walk_crowd(struct store *s, struct mem_budget *memory, struct req *r, unsigned number,
                    int64_t retention_ns, int64_t grace_ns)
{
    struct crowd c = {0};
    struct work_done done = {0};
    err fault = {0};
    set_up(&c, s, memory, number, retention_ns, grace_ns);
    struct work *w = work_new(&c.process, &fault);
    assert_non_null(w);
    // What fails is tried again by whoever comes next; rows that are lost by it are found missing.
    (void)!work_run(w, r, false, &done, &fault);
    work_drain(w);
    work_free(w);
    members_free(c.members);
    config_free(c.config);
    dir_remove(c.dir);
    return done.jobs;
}
