// SPDX-License-Identifier: Apache-2.0
//
// settings.h - the sections of settings that every process has.
#pragma once

#include "service/selfprofile.h"
#include "service/tenant.h"

// name of the section = name of the struct = name of the .def file
#define SETTINGS(X) \
    X(server)       \
    X(internal)     \
    X(admin)        \
    X(auth) X(azure) X(cluster) X(lanes) X(log) X(runtime_config) X(s3) X(self_profile) X(storage)

struct server_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/server.def"
#undef ROW
};

struct internal_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/internal.def"
#undef ROW
};

struct admin_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/admin.def"
#undef ROW
};

#define ADMIN_PUBLIC "public"  // admin.listen: the public listener

struct auth_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/auth.def"
#undef ROW
};

struct azure_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/azure.def"
#undef ROW
};

struct cluster_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/cluster.def"
#undef ROW
};

struct log_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/log.def"
#undef ROW
};

struct lanes_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/lanes.def"
#undef ROW
};

struct s3_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/s3.def"
#undef ROW
};

struct storage_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/storage.def"
#undef ROW
};

#define SETTINGS_MAX 16
extern const struct config_section *const settings_sections[];
extern const size_t settings_section_count;

// Checks that bounds of single rows cannot express: addresses, names of levels, pairs that belong
// together, files of certificates that can be used.
bool settings_check(const struct config *c, err *e) MUST_CHECK;
// Whether the settings give a process a store of objects.
bool storage_is_set(const struct config *c, bool all_in_one);
bool storage_check(const struct storage_settings *s, const struct s3_settings *s3,
                   const struct azure_settings *azure, err *e) MUST_CHECK;
