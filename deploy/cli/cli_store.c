// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_store.h"

#include "azure/azure.h"
#include "s3/s3.h"
#include "store/local.h"
#include "sys/file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

// ---- a directory

// The store is the directory itself, or that of a data directory; NULL: neither.
static const char *find(struct cli *c, const char *given, err *e)
{
    static const char *const below[] = {"", "/store"};
    for (size_t i = 0; i < COUNT(below); i++) {
        const char *dir = arena_printf(&c->arena, "%s%s", given, below[i]).p;
        const char *objects = arena_printf(&c->arena, "%s/o", dir).p;
        if (!arena_ok(&c->arena, e)) return NULL;
        if (file_exists(objects)) return dir;
        // "No store" would be misleading if it only cannot be read.
        if (errno == EACCES) {
            err_set(e, ERR_PERMISSION_DENIED, "%s: %s", objects, strerror(errno));
            return NULL;
        }
    }
    return NULL;
}

static struct store *open_directory(struct cli *c, const char *given, err *e)
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

static struct store *make_directory(struct cli *c, const char *given, err *e)
{
    const char *dir = find(c, given, e);
    if (e->code) return NULL;
    return store_open_local(&(struct store_local_options){.dir = dir ? dir : given}, e);
}

// ---- a bucket

static bool is_bucket(const char *given)
{
    return str_starts(str_of(given), S("s3://")) || str_starts(str_of(given), S("azure://"));
}

static struct store *open_container(struct cli *c, const char *given, err *e)
{
    struct azure_options container;
    if (!azure_options_of_url(str_of(given), &c->arena, &container, e)) return NULL;
    return store_open_azure(&container, e);
}

static struct store *open_bucket(struct cli *c, const char *given, err *e)
{
    struct s3_options bucket;
    if (str_starts(str_of(given), S("azure://"))) return open_container(c, given, e);
    if (!s3_options_of_url(str_of(given), &c->arena, &bucket, e)) return NULL;
    return store_open_s3(&bucket, e);
}

// ---- either

struct store *cli_store_open(struct cli *c, const char *given, err *e)
{
    return is_bucket(given) ? open_bucket(c, given, e) : open_directory(c, given, e);
}

struct store *cli_store_make(struct cli *c, const char *given, err *e)
{
    return is_bucket(given) ? open_bucket(c, given, e) : make_directory(c, given, e);
}

// Slashes at the end do not tell parts of a bucket apart.
static bool same_part(const char *a, const char *b)
{
    size_t n = strlen(a);
    size_t m = strlen(b);
    while (n > 0 && a[n - 1] == '/')
        n--;
    while (m > 0 && b[m - 1] == '/')
        m--;
    return n == m && memcmp(a, b, n) == 0;
}

static bool same_directory(struct cli *c, const char *a, const char *b, bool *same, err *e)
{
    char real[2][PATH_MAX];
    const char *dirs[2] = {find(c, a, e), NULL};
    if (!e->code) dirs[1] = find(c, b, e);
    *same = dirs[0] && dirs[1] && realpath(dirs[0], real[0]) && realpath(dirs[1], real[1]) &&
            strcmp(real[0], real[1]) == 0;
    return !e->code;
}

bool cli_store_differs(struct cli *c, const char *a, const char *b, err *e)
{
    bool same = false;
    if (is_bucket(a) && is_bucket(b)) {
        same = same_part(a, b);
    } else if (!is_bucket(a) && !is_bucket(b) && !same_directory(c, a, b, &same, e)) {
        return false;
    }
    return !same || err_set(e, ERR_INVALID_ARGUMENT, "%s and %s are the same store", a, b);
}
