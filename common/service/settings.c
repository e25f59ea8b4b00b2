// SPDX-License-Identifier: Apache-2.0
//
// settings.c - the rows of the common sections, and checks of what must fit together.
#include "service/settings.h"

#include "cluster/dns.h"
#include "cluster/member.h"
#include "net/server.h"
#include "rpc/auth.h"
#include "service/values.h"
#include "sys/log.h"

#define ID_MAX 200  // of a process; it also stands in names of objects and in logs

static const struct config_row server_rows[] = {
#define ROW(...) CONFIG_ROW(struct server_settings, __VA_ARGS__)
#include "service/server.def"
#undef ROW
};

static const struct config_row internal_rows[] = {
#define ROW(...) CONFIG_ROW(struct internal_settings, __VA_ARGS__)
#include "service/internal.def"
#undef ROW
};

static const struct config_row admin_rows[] = {
#define ROW(...) CONFIG_ROW(struct admin_settings, __VA_ARGS__)
#include "service/admin.def"
#undef ROW
};

static const struct config_row auth_rows[] = {
#define ROW(...) CONFIG_ROW(struct auth_settings, __VA_ARGS__)
#include "service/auth.def"
#undef ROW
};

static const struct config_row cluster_rows[] = {
#define ROW(...) CONFIG_ROW(struct cluster_settings, __VA_ARGS__)
#include "service/cluster.def"
#undef ROW
};

static const struct config_row log_rows[] = {
#define ROW(...) CONFIG_ROW(struct log_settings, __VA_ARGS__)
#include "service/log.def"
#undef ROW
};

static const struct config_row lanes_rows[] = {
#define ROW(...) CONFIG_ROW(struct lanes_settings, __VA_ARGS__)
#include "service/lanes.def"
#undef ROW
};

static const struct config_row runtime_config_rows[] = {
#define ROW(...) CONFIG_ROW(struct runtime_config_settings, __VA_ARGS__)
#include "service/runtime_config.def"
#undef ROW
};

static const struct config_row self_profile_rows[] = {
#define ROW(...) CONFIG_ROW(struct self_profile_settings, __VA_ARGS__)
#include "service/self_profile.def"
#undef ROW
};

static const struct config_row s3_rows[] = {
#define ROW(...) CONFIG_ROW(struct s3_settings, __VA_ARGS__)
#include "service/s3.def"
#undef ROW
};

static const struct config_row azure_rows[] = {
#define ROW(...) CONFIG_ROW(struct azure_settings, __VA_ARGS__)
#include "service/azure.def"
#undef ROW
};

static const struct config_row storage_rows[] = {
#define ROW(...) CONFIG_ROW(struct storage_settings, __VA_ARGS__)
#include "service/storage.def"
#undef ROW
};

#define X(name)                                         \
    static const struct config_section name##_section = \
        CONFIG_SECTION(#name, name##_rows, struct name##_settings);
SETTINGS(X)
#undef X

#define X(name) &name##_section,
const struct config_section *const settings_sections[] = {SETTINGS(X)};
#undef X
const size_t settings_section_count = COUNT(settings_sections);

static bool check_pair(const char *section, const char *cert, const char *key, err *e)
{
    if ((cert[0] != '\0') == (key[0] != '\0')) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "%s.tls_cert_file and %s.tls_key_file need each other",
                   section, section);
}

static bool check_list(struct members *m, enum member_kind kind, const char *key, CONFIG_LIST list,
                       err *e)
{
    for (size_t i = 0; i < list.n; i++) {
        str entry = str_of(list.v[i]);
        struct dns_name name;
        if (dns_is(entry)) {
            if (!dns_parse(entry, &name, e)) return err_wrap(e, "cluster.%s", key);
            continue;
        }
        size_t eq = str_find(entry, '=');
        str address = str_trim(str_slice(entry, eq < entry.n ? eq + 1 : 0, entry.n));
        if (!members_add(m, kind, entry, e) || !values_address(address, false, e))
            return err_wrap(e, "cluster.%s", key);
    }
    return true;
}

static bool check_cluster(const struct cluster_settings *c, err *e)
{
    if (!values_servers(str_of(c->dns_servers), e)) return err_wrap(e, "cluster.dns_servers");
    struct members *m = members_new(e);
    bool ok = m && check_list(m, MEMBER_INGESTER, "ingesters", c->ingesters, e) &&
              check_list(m, MEMBER_QUERIER, "queriers", c->queriers, e) &&
              check_list(m, MEMBER_COMPACTOR, "compactors", c->compactors, e);
    members_free(m);
    return ok;
}

static bool check_hosts(CONFIG_LIST hosts, err *e)
{
    for (size_t i = 0; i < hosts.n; i++) {
        if (!values_host_pattern(str_of(hosts.v[i]), e)) return err_wrap(e, "server.hosts");
    }
    return true;
}

static bool check_admin(const struct admin_settings *a, err *e)
{
    bool address = a->listen[0] && strcmp(a->listen, ADMIN_PUBLIC) != 0;
    return !address || values_address(str_of(a->listen), true, e) || err_wrap(e, "admin.listen");
}

// Two listeners of one address. Without this check the start would fail with "address in use",
// which does not name the other listener.
static bool check_listeners(const struct config *c, err *e)
{
    const struct server_settings *s = config_section(c, "server");
    const struct admin_settings *a = config_section(c, "admin");
    const struct internal_settings *i = config_section(c, "internal");
    bool own_admin = a->listen[0] && strcmp(a->listen, ADMIN_PUBLIC) != 0;
    const struct {
        const char *key;
        const char *address;
    } all[] = {{"server.listen", s->listen},
               {"admin.listen", own_admin ? a->listen : ""},
               {"internal.listen", i->listen}};
    for (size_t k = 1; k < COUNT(all); k++) {
        for (size_t n = 0; n < k; n++) {
            if (!all[k].address[0] || !all[n].address[0]) continue;
            if (!values_collide(str_of(all[k].address), str_of(all[n].address))) continue;
            return err_set(
                e, ERR_INVALID_ARGUMENT,
                "%s: '%s' is taken by %s ('%s'); each listener has an address of its own",
                all[k].key, all[k].address, all[n].key, all[n].address);
        }
    }
    return true;
}

static bool check_server(const struct server_settings *s, err *e)
{
    if (!s->data_dir[0])
        return err_set(e, ERR_INVALID_ARGUMENT, "server.data_dir must not be empty");
    if (!values_address(str_of(s->listen), true, e)) return err_wrap(e, "server.listen");
    if (!check_hosts(s->hosts, e)) return false;
    if (!values_path_prefix(str_of(s->path_prefix), e)) return err_wrap(e, "server.path_prefix");
    if (!values_id(str_of(s->id), ID_MAX, e)) return err_wrap(e, "server.id");
    if (!values_directory(s->data_dir, e)) return err_wrap(e, "server.data_dir");
    if (!check_pair("server", s->tls_cert_file, s->tls_key_file, e)) return false;
    bool tls = s->tls_cert_file[0] != '\0';
    return !tls || server_check_tls(s->tls_cert_file, s->tls_key_file, NULL, e) ||
           err_wrap(e, "server");
}

static bool check_internal(const struct internal_settings *i, err *e)
{
    if (i->listen[0] && !values_address(str_of(i->listen), true, e))
        return err_wrap(e, "internal.listen");
    if (!check_pair("internal", i->tls_cert_file, i->tls_key_file, e)) return false;
    if ((i->tls_ca_file[0] != '\0') != (i->tls_cert_file[0] != '\0'))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "internal.tls_ca_file and internal.tls_cert_file need each other");
    bool tls = i->tls_cert_file[0] != '\0';
    return !tls || server_check_tls(i->tls_cert_file, i->tls_key_file, i->tls_ca_file, e) ||
           err_wrap(e, "internal");
}

static bool check_self_profile(const struct self_profile_settings *s, err *e)
{
    if (s->url[0] && !values_url(str_of(s->url), e)) return err_wrap(e, "self_profile.url");
    if (!s->tenant[0])
        return err_set(e, ERR_INVALID_ARGUMENT, "self_profile.tenant must not be empty");
    if (auth_tenant_check(str_of(s->tenant), e)) return true;
    e->code = ERR_INVALID_ARGUMENT;
    return err_wrap(e, "self_profile.tenant");
}

bool settings_check(const struct config *c, err *e)
{
    const struct storage_settings *storage = config_section(c, "storage");
    const struct log_settings *l = config_section(c, "log");
    enum log_level level = LOG_INFO;
    if (!log_level_of(str_of(l->level), &level))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "log.level: '%s' is none of debug, info, warn, error", l->level);
    if (!storage_check(storage, config_section(c, "s3"), config_section(c, "azure"), e))
        return false;
    if (!values_directory(storage->dir, e)) return err_wrap(e, "storage.dir");
    return check_server(config_section(c, "server"), e) &&
           check_internal(config_section(c, "internal"), e) &&
           check_admin(config_section(c, "admin"), e) && check_listeners(c, e) &&
           check_self_profile(config_section(c, "self_profile"), e) &&
           check_cluster(config_section(c, "cluster"), e);
}
