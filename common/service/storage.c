// SPDX-License-Identifier: Apache-2.0
#include "service/process.h"
#include "service/program.h"
#include "store/local.h"

#include <stdio.h>

bool storage_check(const struct storage_settings *s, err *e)
{
    if (strcmp(s->kind, "local") != 0 && strcmp(s->kind, "none") != 0)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "storage.kind: '%s' is not known; there are local and none", s->kind);
    if (strcmp(s->io, "auto") != 0 && strcmp(s->io, "threads") != 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "storage.io: '%s' is none of auto, threads", s->io);
    return true;
}

bool storage_open(struct program *p, err *e)
{
    const struct storage_settings *s = config_section(p->config, "storage");
    char path[PATH_MAX + sizeof "/store"];
    snprintf(path, sizeof path, "%s/store", p->datadir.path);
    mem_budget_init(&p->storage, "storage", &p->memory, 0);
    process_watch_budget(&p->storage);
    bool none = strcmp(s->kind, "none") == 0;
    if (none || (!s->dir[0] && !p->process.all_in_one)) {
        log_info(NULL, "storage.none", "why=\"%s: this process keeps no objects and reads none\"",
                 none ? "storage.kind is none" : "storage.dir is not set");
        return true;
    }
    struct store_local_options o = {
        .dir = s->dir[0] ? s->dir : path,
        .memory = &p->storage,
        .width = (unsigned)s->width,
        .no_uring = strcmp(s->io, "threads") == 0,
    };
    p->process.store = store_open_local(&o, e);
    return p->process.store != NULL;
}

void storage_close(struct program *p)
{
    store_close(p->process.store);
    p->process.store = NULL;
    process_unwatch_budget(&p->storage);
}
