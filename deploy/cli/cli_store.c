// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_store.h"

#include "store/local.h"
#include "sys/file.h"

// The store is the directory itself, or that of a data directory; NULL: neither.
static const char *find(struct cli *c, const char *given, err *e)
{
    static const char *const below[] = {"", "/store"};
    for (size_t i = 0; i < COUNT(below); i++) {
        const char *dir = arena_printf(&c->arena, "%s%s", given, below[i]).p;
        const char *objects = arena_printf(&c->arena, "%s/o", dir).p;
        if (!arena_ok(&c->arena, e)) return NULL;
        if (file_exists(objects)) return dir;
    }
    return NULL;
}

struct store *cli_store_open(struct cli *c, const char *given, err *e)
{
    const char *dir = find(c, given, e);
    if (!dir) {
        if (!e->code)
            err_set(e, ERR_NOT_FOUND, "%s is no store: neither it nor %s/store has a folder o",
                    given, given);
        return NULL;
    }
    return store_open_local(&(struct store_local_options){.dir = dir, .read_only = true}, e);
}

struct store *cli_store_make(struct cli *c, const char *given, err *e)
{
    const char *dir = find(c, given, e);
    if (e->code) return NULL;
    return store_open_local(&(struct store_local_options){.dir = dir ? dir : given}, e);
}
