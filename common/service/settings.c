// SPDX-License-Identifier: Apache-2.0
#include "service/settings.h"

#include "sys/log.h"

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

bool settings_check(const struct config *c, err *e)
{
    const struct server_settings *s = config_section(c, "server");
    const struct internal_settings *i = config_section(c, "internal");
    const struct log_settings *l = config_section(c, "log");
    enum log_level level = LOG_INFO;
    if (!log_level_of(str_of(l->level), &level))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "log.level: '%s' is none of debug, info, warn, error", l->level);
    if (!selfprofile_check(config_section(c, "self_profile"), e)) return false;
    if (!storage_check(config_section(c, "storage"), e)) return false;
    if (!s->data_dir[0])
        return err_set(e, ERR_INVALID_ARGUMENT, "server.data_dir must not be empty");
    if (!check_pair("server", s->tls_cert_file, s->tls_key_file, e)) return false;
    if (!check_pair("internal", i->tls_cert_file, i->tls_key_file, e)) return false;
    if ((i->tls_ca_file[0] != '\0') != (i->tls_cert_file[0] != '\0'))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "internal.tls_ca_file and internal.tls_cert_file need each other");
    return true;
}
