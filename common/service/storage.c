// SPDX-License-Identifier: Apache-2.0
#include "base/ulid.h"
#include "manifest/manifest.h"
#include "service/process.h"
#include "service/program.h"
#include "store/check.h"
#include "store/local.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define UNASKED        "storage.unasked"
#define CLAIM_BYTES    ((size_t)1 << 20)
#define CLAIM_LIMIT_NS ((uint64_t)60 * NS_PER_S)
#define ASK_LIMIT_NS   ((uint64_t)5 * NS_PER_S)  // a process that ends waits for it

bool storage_check(const struct storage_settings *s, err *e)
{
    if (strcmp(s->kind, "local") != 0 && strcmp(s->kind, "none") != 0)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "storage.kind: '%s' is not known; there are local and none", s->kind);
    if (strcmp(s->io, "auto") != 0 && strcmp(s->io, "threads") != 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "storage.io: '%s' is none of auto, threads", s->io);
    return true;
}

// Reads the cluster that the store belongs to, and checks that this program knows its format.
//
//     the store is empty, but was not the last time    fails: it is probably not mounted, and to
//                                                      begin anew would answer as if nothing had
//                                                      ever been stored
//     another cluster, an unknown format, damage       fails
//     the store cannot be read now                     goes on: heads and logs work without it, and
//                                                      storage_ask tries again
static bool claim(struct program *p, uint64_t limit_ns, err *e)
{
    struct req r;
    id128 cluster = {0};
    id128 mine = {0};
    bool known = false;
    char text[ULID_TEXT];
    err fault = {0};
    if (!datadir_read_cluster(&p->datadir, &mine, &known, e)) return err_wrap(e, "storage");
    req_init(&r, RANK_DUTY, &p->storage, CLAIM_BYTES, limit_ns);
    bool ok = cluster_claim(p->process.store, &r, known ? &mine : NULL, &cluster, &fault);
    req_release(&r);
    if (ok || known) node_joins(p, ok ? cluster : mine);
    if (ok) {
        ulid_print(cluster, text);
        log_info(NULL, "storage.opened", "cluster=%s", text);
        atomic_store(&p->store_unasked, false);
        notice_end(p->notices, UNASKED, str_of(p->id));
        return known || datadir_write_cluster(&p->datadir, cluster, e);
    }
    if (known && fault.code == ERR_NOT_FOUND) {
        *e = fault;
        return err_wrap(e,
                        "storage: this is not the store that %s was used with (is it mounted? "
                        "remove %s/cluster to take it all the same)",
                        p->datadir.path, p->datadir.path);
    }
    if (fault.code == ERR_FAILED_PRECONDITION || fault.code == ERR_DATA_LOSS) {
        *e = fault;
        return err_wrap(e, "storage");
    }
    atomic_store(&p->store_unasked, true);
    notice_raise(p->notices, UNASKED, str_of(p->id), NOTICE_FOREVER,
                 "the store did not say whose it is: %s; look at the store, it is asked again",
                 fault.msg);
    return true;
}

// A fault for which a start would fail ends the process even if it shows later. Without a drain:
// that would write the heads to the wrong store. Their data stays in the logs for the next start.
void storage_ask(struct program *p)
{
    err e = {0};
    char quoted[LOG_QUOTE_MAX];
    if (!atomic_load(&p->store_unasked) || claim(p, ASK_LIMIT_NS, &e)) return;
    log_error(NULL, "storage.refused", "why=%s", log_quote(quoted, str_of(e.msg)));
    fprintf(stderr, "flametree: %s\n", e.msg);
    _exit(EXIT_FAILURE);
}

// Does the file system keep the promises of store.h? If a test shows that it does not, the start
// fails. If it is only known of its kind that it breaks them between machines, which no test here
// can see, a notice is raised.
static bool check_store(struct program *p, struct store_local_options o, err *e)
{
    struct req r;
    err fault = {0};
    char quoted[LOG_QUOTE_MAX];
    const char *why = store_check_mount(o.dir);
    if (why) notice_raise(p->notices, "storage.caches", str_of(o.dir), NOTICE_FOREVER, "%s", why);
    o.again = true;  // a second client, as cheap as possible
    o.no_uring = true;
    o.width = 1;
    struct store *other = store_open_local(&o, e);
    if (!other) return false;
    req_init(&r, RANK_DUTY, &p->storage, CLAIM_BYTES, CLAIM_LIMIT_NS);
    bool ok = store_check(p->process.store, other, p->identity.directory, &r, &fault);
    req_release(&r);
    store_close(other);
    if (ok) return true;
    if (fault.code == ERR_FAILED_PRECONDITION) {
        *e = fault;
        return err_wrap(e, "storage %s", o.dir);
    }
    log_warn(NULL, "storage.unchecked", "fault=%s action=\"%s\"",
             log_quote(quoted, str_of(fault.msg)),
             "look at the store; whether two clients see each other's changes was not tried");
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
    bool ok = p->process.store && check_store(p, o, e) && claim(p, CLAIM_LIMIT_NS, e);
    (void)node_cluster(p, &p->identity.cluster);
    return ok;
}

void storage_close(struct program *p)
{
    store_close(p->process.store);
    p->process.store = NULL;
    process_unwatch_budget(&p->storage);
}
