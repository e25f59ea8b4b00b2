// SPDX-License-Identifier: Apache-2.0
//
// variables.c - walks the environment and names what nobody reads.
#include "service/variables.h"

#include <stdio.h>

#define PREFIX "FLAMETREE_"

static const char *const services[] = {"DISTRIBUTOR_", "INGESTER_", "QUERIER_", "COMPACTOR_"};

static const char *const others[] = {
    // the program and its client
    "URL", "TENANT", "USER", "BEARER", "CA_FILE", "TIMEOUT", "CLOCK", "FAULTS",
    // its tests
    "BENCH_RESTART", "BIN", "CORPUS", "CORPUS_FACTS", "CORPUS_PPROF", "FLUSH_URLS", "KEEP_BARE",
    "KUBE", "KUBE_FIGURES", "KUBE_LOGS", "KUBE_PROGRAMS", "KUBE_RATE", "LIMITS", "MULTITENANT",
    "NIGHTLY", "PUSH_URL", "QUERY_URL", "RULES", "SCREENSHOT", "SOAK_MINUTES", "SOAK_RATE",
    "STRICT", "TEST_AZURE", "TEST_DNS", "TEST_S3", "THREADS", "THREADS_ADD", "TIDY_CACHE",
    "TORTURE", "TORTURE_AT", "TORTURE_LEAKS", "TORTURE_SEED", "VISIBLE_SECONDS", "WALK_LOG",
    "WALK_SEED", "WALK_STORE"};

// ---- links of Kubernetes

static str skip_digits(str s)
{
    size_t n = 0;
    while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
        n++;
    return str_slice(s, n, s.n);
}

// After "..._PORT_": "4040_TCP", "4040_TCP_ADDR"
static bool is_port_link(str rest)
{
    static const char *const protocols[] = {"_TCP", "_UDP", "_SCTP"};
    static const char *const ends[] = {"", "_PROTO", "_PORT", "_ADDR"};
    str after = skip_digits(rest);
    if (after.n == rest.n) return false;
    for (size_t i = 0; i < COUNT(protocols); i++) {
        if (!str_starts(after, str_of(protocols[i]))) continue;
        str end = str_slice(after, strlen(protocols[i]), after.n);
        for (size_t k = 0; k < COUNT(ends); k++) {
            if (str_is(end, ends[k])) return true;
        }
    }
    return false;
}

// Where `part` begins in the name; its length if nowhere.
static size_t place_of(str name, str part)
{
    for (size_t i = 0; i + part.n <= name.n; i++) {
        if (str_starts(str_slice(name, i, name.n), part)) return i;
    }
    return name.n;
}

static bool is_link(str name, str value)
{
    if (str_ends(name, S("_SERVICE_HOST")) || str_ends(name, S("_SERVICE_PORT"))) return true;
    if (place_of(name, S("_SERVICE_PORT_")) < name.n) return true;
    if (str_ends(name, S("_PORT")) && place_of(value, S("://")) < value.n) return true;
    size_t port = place_of(name, S("_PORT_"));
    return port < name.n && is_port_link(str_slice(name, port + 6, name.n));
}

// ---- names

// The name of the i-th known variable; false at the end.
static bool name_of(const struct config *c, size_t i, char name[VARIABLE_NAME_MAX])
{
    if (config_variable(c, i, name, VARIABLE_NAME_MAX)) return true;
    assert(i >= config_variable_count(c));
    i -= config_variable_count(c);
    if (i >= COUNT(others)) return false;
    snprintf(name, VARIABLE_NAME_MAX, PREFIX "%s", others[i]);
    return true;
}

static bool has_service(const struct config *c, const char *service)
{
    char name[VARIABLE_NAME_MAX];
    for (size_t i = 0; config_variable(c, i, name, sizeof name); i++) {
        if (str_starts(str_slice(str_of(name), sizeof PREFIX - 1, SIZE_MAX), str_of(service)))
            return true;
    }
    return false;
}

static bool is_of_another_service(const struct config *c, str name)
{
    str rest = str_slice(name, sizeof PREFIX - 1, name.n);
    for (size_t i = 0; i < COUNT(services); i++) {
        if (str_starts(rest, str_of(services[i]))) return !has_service(c, services[i]);
    }
    return false;
}

static bool is_known(const struct config *c, str name)
{
    char known[VARIABLE_NAME_MAX];
    for (size_t i = 0; name_of(c, i, known); i++) {
        if (str_is(name, known)) return true;
    }
    // One environment may be shared by several services, so settings of the others are fine here.
    return is_of_another_service(c, name);
}

// ---- the nearest

static void find_nearest(const struct config *c, str name, char nearest[VARIABLE_NAME_MAX])
{
    nearest[0] = '\0';
    if (name.n >= VARIABLE_NAME_MAX) return;
    str rest = str_slice(name, sizeof PREFIX - 1, name.n);
    size_t best = rest.n / 2 + 2;  // a name that shares less than half is not the one meant
    char known[VARIABLE_NAME_MAX];
    for (size_t i = 0; name_of(c, i, known); i++) {
        str other = str_of(known);
        size_t d = str_distance(rest, str_slice(other, sizeof PREFIX - 1, other.n));
        if (d >= best) continue;
        best = d;
        memcpy(nearest, known, sizeof known);
    }
}

bool variables_next_unknown(const struct config *c, const char *const *environment, size_t *at,
                            struct variable_fault *fault)
{
    while (environment[*at]) {
        str value = {0};
        str name = str_split(str_of(environment[(*at)++]), '=', &value);
        if (!str_starts(name, S(PREFIX)) || is_known(c, name) || is_link(name, value)) continue;
        assert(name.n > 0);
        fault->name = str_slice(name, 0, MIN(name.n, (size_t)VARIABLE_NAME_MAX));
        find_nearest(c, name, fault->nearest);
        return true;
    }
    return false;
}
