// SPDX-License-Identifier: Apache-2.0
//
// storage.c - opens the store of a process: tries out whether it keeps its promises, then claims it
// for the cluster. What cannot be done at the start, because the store is away or slow, is done by
// storage_ask as soon as it answers; until then a notice says so. A store that is found wrong,
// sooner or later, ends the process.
#include "azure/azure.h"
#include "base/ulid.h"
#include "manifest/manifest.h"
#include "manifest/registry.h"
#include "s3/s3.h"
#include "service/process.h"
#include "service/program.h"
#include "store/check.h"
#include "store/local.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define UNASKED         "storage.unasked"
#define UNTRIED         "storage.untried"
#define LIMITED         "storage.limit"
#define STORE_PATH_MAX  (PATH_MAX + sizeof "/store")
#define CLAIM_BYTES     ((size_t)1 << 20)
#define CLAIM_LIMIT_NS  ((uint64_t)60 * NS_PER_S)
#define ACCESS_LIMIT_NS ((uint64_t)10 * NS_PER_S)
#define ASK_LIMIT_NS    ((uint64_t)5 * NS_PER_S)  // a process that ends waits for it
#define SIZE_LIMIT_NS   ((uint64_t)20 * NS_PER_S)
#define SIZE_AGAIN_NS   ((uint64_t)600 * NS_PER_S)

// A full object of the log has as many bytes (ingester/log/wal_object_int.h), and so has a part of
// a large block (common/s3/upload.c).
#define SIZE_TRIED ((size_t)8 << 20)

static bool is_one_of(const char *setting, const char *value, const char *const *v, err *e)
{
    char names[80] = "";
    for (size_t i = 0; v[i]; i++) {
        if (strcmp(v[i], value) == 0) return true;
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", v[i]);
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "%s: '%s' is none of %s", setting, value, names);
}

static bool check_azure(const struct azure_settings *s, bool used, err *e)
{
    const char *given = NULL;
    const struct {
        const char *name;
        const char *value;
    } proofs[] = {{"account_key", s->account_key},
                  {"sas_token", s->sas_token},
                  {"key_file", s->key_file}};
    for (size_t i = 0; i < COUNT(proofs); i++) {
        if (!proofs[i].value[0]) continue;
        if (given)
            return err_set(e, ERR_INVALID_ARGUMENT, "azure.%s: it is set, and %s is, too",
                           proofs[i].name, given);
        given = proofs[i].name;
    }
    return !used || s->container[0] ||
           err_set(e, ERR_INVALID_ARGUMENT,
                   "azure.container: storage.kind azure needs the name of a container");
}

bool storage_check(const struct storage_settings *s, const struct s3_settings *s3,
                   const struct azure_settings *azure, err *e)
{
    static const char *const kinds[] = {"local", "s3", "azure", "none", NULL};
    static const char *const ways[] = {"auto", "threads", NULL};
    static const char *const styles[] = {"auto", "path", "virtual", NULL};
    static const char *const dialects[] = {"auto", "amazon", "google", NULL};
    if (!is_one_of("storage.kind", s->kind, kinds, e) || !is_one_of("storage.io", s->io, ways, e) ||
        !is_one_of("s3.style", s3->style, styles, e) ||
        !is_one_of("s3.dialect", s3->dialect, dialects, e))
        return false;
    if (!check_azure(azure, strcmp(s->kind, "azure") == 0, e)) return false;
    bool key = s3->access_key[0];
    if (key != (s3->secret_key[0] != '\0'))
        return err_set(e, ERR_INVALID_ARGUMENT, "s3.%s: it is not set, and %s is",
                       key ? "secret_key" : "access_key", key ? "access_key" : "secret_key");
    return strcmp(s->kind, "s3") != 0 || s3->bucket[0] ||
           err_set(e, ERR_INVALID_ARGUMENT,
                   "s3.bucket: storage.kind s3 needs the name of a bucket");
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
    assert(p->process.store);
    err fault = {0};
    if (!datadir_read_cluster(&p->datadir, &mine, &known, e)) return err_wrap(e, "storage");
    req_init(&r, RANK_DUTY, &p->storage, CLAIM_BYTES, limit_ns);
    bool ok = cluster_claim(p->process.store, &r, known ? &mine : NULL, &cluster, &fault);
    req_release(&r);
    // Without the store the cluster of the last start is believed, so that nodes can talk
    // meanwhile.
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

// The store of the settings.
struct chosen {
    enum {
        CHOSEN_LOCAL,
        CHOSEN_S3,
        CHOSEN_AZURE,
    } kind;
    struct store_local_options local;
    struct s3_options s3;
    struct azure_options azure;
    char path[STORE_PATH_MAX];  // memory for the default
    char name[600];             // for messages: a directory, s3://bucket/prefix or azure://
};

static bool is_bucket(const struct chosen *c)
{
    return c->kind != CHOSEN_LOCAL;
}

static void choose_s3(struct program *p, struct chosen *c)
{
    const struct s3_settings *s = config_section(p->config, "s3");
    bool amazon = !s->endpoint[0];
    c->kind = CHOSEN_S3;
    c->s3 = (struct s3_options){
        .endpoint = s->endpoint,
        .region = s->region[0] ? s->region : s3_region_of_environment(),
        .bucket = s->bucket,
        .prefix = s->prefix,
        .dialect = strcmp(s->dialect, "google") == 0   ? S3_DIALECT_GOOGLE
                   : strcmp(s->dialect, "amazon") == 0 ? S3_DIALECT_AMAZON
                                                       : S3_DIALECT_AUTO,
        .path_style = strcmp(s->style, "path") == 0 || (strcmp(s->style, "auto") == 0 && !amazon),
        .ca_file = s->ca_file,
        .keys = {s->access_key, s->secret_key, s->session_token},
        .memory = &p->storage,
        .width = (unsigned)s->width,
    };
    snprintf(c->name, sizeof c->name, "s3://%s/%s", s->bucket, s->prefix);
}

static void choose_azure(struct program *p, struct chosen *c)
{
    const struct azure_settings *s = config_section(p->config, "azure");
    c->kind = CHOSEN_AZURE;
    c->azure = (struct azure_options){
        .account = s->account,
        .endpoint = s->endpoint,
        .container = s->container,
        .prefix = s->prefix,
        .ca_file = s->ca_file,
        .keys = {s->account_key, s->sas_token, s->key_file},
        .memory = &p->storage,
        .width = (unsigned)s->width,
    };
    snprintf(c->name, sizeof c->name, "azure://%s/%s", s->container, s->prefix);
}

bool storage_is_set(const struct config *config, bool all_in_one)
{
    const struct storage_settings *s = config_section(config, "storage");
    if (strcmp(s->kind, "s3") == 0 || strcmp(s->kind, "azure") == 0) return true;
    // A distributor of its own keeps nothing, and a querier must be told which store it reads.
    return strcmp(s->kind, "none") != 0 && (s->dir[0] || all_in_one);
}

// False: this process has none.
static bool choose(struct program *p, struct chosen *c)
{
    const struct storage_settings *s = config_section(p->config, "storage");
    *c = (struct chosen){.kind = CHOSEN_LOCAL};
    if (strcmp(s->kind, "s3") == 0) {
        choose_s3(p, c);
        return true;
    }
    if (strcmp(s->kind, "azure") == 0) {
        choose_azure(p, c);
        return true;
    }
    snprintf(c->path, sizeof c->path, "%s/store", p->datadir.path);
    c->local = (struct store_local_options){
        .dir = s->dir[0] ? s->dir : c->path,
        .memory = &p->storage,
        .width = (unsigned)s->width,
        .no_uring = strcmp(s->io, "threads") == 0,
    };
    snprintf(c->name, sizeof c->name, "%s", c->local.dir);
    return storage_is_set(p->config, p->process.all_in_one);
}

static struct store *open_client(const struct chosen *c, err *e)
{
    switch (c->kind) {
    case CHOSEN_S3:
        return store_open_s3(&c->s3, e);
    case CHOSEN_AZURE:
        return store_open_azure(&c->azure, e);
    case CHOSEN_LOCAL:
        break;
    }
    return store_open_local(&c->local, e);
}

// The client of a bucket checks its settings when it is opened, and asks nobody. That of a
// directory would make folders.
bool storage_check_client(struct program *p, err *e)
{
    struct chosen c;
    if (!choose(p, &c) || !is_bucket(&c)) return true;
    c.s3.memory = NULL;
    c.azure.memory = NULL;
    struct store *s = open_client(&c, e);
    if (!s) return false;
    store_close(s);
    return true;
}

static bool try_clients(struct program *p, struct chosen *c, uint64_t limit_ns, err *e)
{
    struct req r;
    c->local.again = true;  // a second client, as cheap as possible
    c->local.no_uring = true;
    c->local.width = 1;
    c->s3.width = 1;
    c->azure.width = 1;
    struct store *other = open_client(c, e);
    assert(other != p->process.store);
    if (!other) return false;
    req_init(&r, RANK_DUTY, &p->storage, CLAIM_BYTES, limit_ns);
    bool ok = store_check(p->process.store, other, p->identity.directory, &r, e) &&
              (!is_bucket(c) || s3_check_races(p->process.store, &r, e));
    req_release(&r);
    store_close(other);
    return ok;
}

// Does the file system keep the promises of store.h?
//
//     a trial shows that it does not           fails
//     it breaks them between machines, which   goes on with the notice storage.caches
//     only its kind and options tell
//     it cannot be tried now                   goes on with the notice storage.untried, and
//                                              storage_ask tries again
static bool try_store(struct program *p, uint64_t limit_ns, err *e)
{
    struct chosen c;
    char quoted[LOG_QUOTE_MAX];
    err fault = {0};
    bool has_one = choose(p, &c);
    assert(has_one && p->process.store);
    (void)has_one;
    const char *why = is_bucket(&c) ? NULL : store_check_mount(c.local.dir);
    if (why) notice_raise(p->notices, "storage.caches", str_of(c.name), NOTICE_FOREVER, "%s", why);
    bool ok = try_clients(p, &c, limit_ns, &fault);
    if (!ok && fault.code == ERR_FAILED_PRECONDITION) {
        *e = fault;
        return err_wrap(e, "storage %s", c.name);
    }
    atomic_store(&p->store_untried, !ok);
    if (ok) {
        notice_end(p->notices, UNTRIED, str_of(p->id));
        log_info(NULL, "storage.tried", "store=%s promises=\"%s\"",
                 log_quote(quoted, str_of(c.name)),
                 "two clients: new objects are seen and listed at once, a name is created only "
                 "once, bytes are read as they were written, deletions are seen");
        return true;
    }
    notice_raise(p->notices, UNTRIED, str_of(p->id), NOTICE_FOREVER,
                 "whether two clients see each other's changes could not be tried: %s; look at the "
                 "store, it is tried again",
                 fault.msg);
    return true;
}

static bool writes_objects(const struct program *p)
{
    for (size_t i = 0; i < p->unit_count; i++)
        if (p->units[i].service->writes_objects) return true;
    return false;
}

static void tell_size(struct program *p, const struct chosen *c, size_t taken, const err *why)
{
    notice_raise(p->notices, LIMITED, str_of(p->id), NOTICE_FOREVER,
                 "%s, or a proxy before it, takes objects of at most %zu bytes, and not of %zu: "
                 "larger pushes are refused, and segments and blocks, which go up in bodies of up "
                 "to 32 MiB, and never in parts below 5 MiB, cannot be stored; let it take larger "
                 "bodies (nginx: client_max_body_size), which is tried every ten minutes: %s",
                 c->name, taken, SIZE_TRIED, why->msg);
}

// How large an object the store takes, or a proxy before it. That is no reason not to start: the
// log writes smaller ones then. If it cannot be found out, the log finds out by itself.
static void try_sizes(struct program *p, uint64_t limit_ns)
{
    struct chosen c;
    struct req r;
    err why = {0};
    err fault = {0};
    size_t taken = 0;
    char quoted[LOG_QUOTE_MAX];
    if (!writes_objects(p) || !choose(p, &c) || !is_bucket(&c)) return;
    p->sizes_tried_ns = clock_mono_ns();
    req_init(&r, RANK_DUTY, &p->storage, CLAIM_BYTES, limit_ns);
    bool ok = store_check_size(p->process.store, p->identity.directory, &r, SIZE_TRIED, &taken,
                               &why, &fault);
    req_release(&r);
    p->size_taken = ok ? taken : p->size_taken;
    if (!ok) {
        log_warn(NULL, "storage.sizes_untried", "fault=%s", log_quote(quoted, str_of(fault.msg)));
    } else if (taken < SIZE_TRIED) {
        tell_size(p, &c, taken, &why);
    } else {
        notice_end(p->notices, LIMITED, str_of(p->id));
    }
}

// Once the store has been tried, and then from time to time while it does not take all.
static bool sizes_are_due(const struct program *p)
{
    if (atomic_load(&p->store_untried) || p->size_taken == SIZE_TRIED) return false;
    return !p->sizes_tried_ns || clock_mono_ns() - p->sizes_tried_ns >= SIZE_AGAIN_NS;
}

// A fault for which a start would fail ends the process even if it shows later. Without a drain:
// that would write the heads to the wrong store. Their data stays in the logs for the next start.
void storage_ask(struct program *p)
{
    err e = {0};
    char quoted[LOG_QUOTE_MAX];
    bool ok = !atomic_load(&p->store_untried) || try_store(p, ASK_LIMIT_NS, &e);
    ok = ok && (!atomic_load(&p->store_unasked) || claim(p, ASK_LIMIT_NS, &e));
    if (ok && sizes_are_due(p)) try_sizes(p, ASK_LIMIT_NS);
    if (ok) return;
    log_error(NULL, "storage.refused", "why=%s", log_quote(quoted, str_of(e.msg)));
    fprintf(stderr, "flametree: %s\n", e.msg);
    assert(e.code != ERR_OK);
    _exit(EXIT_FAILURE);
}

// Says at once why a bucket cannot be used, since trials and claim are repeated for a while. A data
// directory that was used with a store before goes on: its log takes pushes meanwhile. For a new
// one nothing works before keys or settings are right, so the start ends.
static bool ask_access(struct program *p, const struct chosen *c, err *e)
{
    struct req r;
    id128 mine;
    bool known = false;
    err fault = {0};
    char quoted[2][LOG_QUOTE_MAX];
    if (!datadir_read_cluster(&p->datadir, &mine, &known, e)) return err_wrap(e, "storage");
    req_init(&r, RANK_DUTY, &p->storage, CLAIM_BYTES, ACCESS_LIMIT_NS);
    bool ok = s3_check_access(p->process.store, &r, &fault);
    req_release(&r);
    if (!ok && fault.code == ERR_FAILED_PRECONDITION && !known) {
        *e = fault;
        return err_wrap(e, "storage %s", c->name);
    }
    if (!ok)
        log_warn(NULL, "storage.refuses", "store=%s why=%s", log_quote(quoted[0], str_of(c->name)),
                 log_quote(quoted[1], str_of(fault.msg)));
    return true;
}

bool storage_open(struct program *p, err *e)
{
    const struct storage_settings *s = config_section(p->config, "storage");
    struct chosen c;
    mem_budget_init(&p->storage, "storage", &p->memory, 0);
    process_watch_budget(&p->storage);
    if (!choose(p, &c)) {
        bool none = strcmp(s->kind, "none") == 0;
        log_info(NULL, "storage.none", "why=\"%s: this process keeps no objects and reads none\"",
                 none ? "storage.kind is none" : "storage.dir is not set");
        return true;
    }
    p->process.store = open_client(&c, e);
    if (!p->process.store || (is_bucket(&c) && !ask_access(p, &c, e))) return false;
    // Tried first: a claim in a store that breaks its promises could be one of two.
    bool ok = try_store(p, CLAIM_LIMIT_NS, e) && claim(p, CLAIM_LIMIT_NS, e);
    p->registry = registry_new(p->process.store, &p->memory, "page");
    (void)node_cluster(p, &p->identity.cluster);
    if (ok && sizes_are_due(p)) try_sizes(p, SIZE_LIMIT_NS);
    p->process.store_takes = p->size_taken < SIZE_TRIED ? p->size_taken : 0;
    return ok;
}

void storage_close(struct program *p)
{
    registry_free(p->registry);
    p->registry = NULL;
    store_close(p->process.store);
    p->process.store = NULL;
    process_unwatch_budget(&p->storage);
}
