// SPDX-License-Identifier: Apache-2.0
//
// overrides.c - YAML files of overrides, parsed and laid one over the other into a new table.
#include "service/overrides.h"

#include "base/hash.h"
#include "rpc/auth.h"
#include "sys/file.h"

#include <stdlib.h>

#define FILE_MAX_BYTES     ((size_t)16 << 20)
#define SNAPSHOT_MAX_BYTES ((size_t)512 << 20)

bool overrides_load(struct arena *a, CONFIG_LIST files, str **texts, uint64_t *hash, err *e)
{
    *texts = ARENA_ARRAY(a, str, files.n);
    *hash = files.n;
    if (!*texts) return files.n == 0 || arena_fail(a, e);
    for (size_t i = 0; i < files.n; i++) {
        struct buf text;
        buf_init(&text, NULL, FILE_MAX_BYTES);
        bool ok = file_read(files.v[i], &text, e);
        if (ok) (*texts)[i] = arena_str(a, buf_view(&text));
        buf_release(&text);
        if (!ok) return err_wrap(e, "runtime_config.file");
        // Names and contents: a file that is renamed is another one in error messages.
        *hash = hash_table_and(hash_table_and(*hash, hash_table_str(str_of(files.v[i]))),
                               hash_table_str((*texts)[i]));
    }
    return arena_ok(a, e);
}

// ---- members of maps, in order of their names

struct entry {
    const struct yaml_node *node;
    size_t file;
};

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    int order = str_cmp(x->node->key, y->node->key);
    if (order) return order;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->node->line > y->node->line) - (x->node->line < y->node->line);
}

// Maps of one file must not name a member twice: the merging of files would hide it.
static bool check_unique(struct arena *a, const struct yaml_node *map, err *e)
{
    struct entry *v = ARENA_ARRAY(a, struct entry, map->count);
    size_t n = 0;
    for (const struct yaml_node *t = map->first; v && t; t = t->next)
        v[n++] = (struct entry){t, 0};
    if (n > 1) qsort(v, n, sizeof *v, by_name);
    for (size_t i = 1; i < n; i++) {
        if (str_eq(v[i - 1].node->key, v[i].node->key))
            return yaml_node_fail(v[i].node, e, "given twice, first in line %u",
                                  v[i - 1].node->line);
    }
    return arena_ok(a, e);
}

// Checks a file and adds its tenants to *v.
static bool read_file(struct arena *a, const struct yaml_node *root, size_t file, struct entry **v,
                      size_t *cap, size_t *n, err *e)
{
    if (root->kind == YAML_NODE_NULL) return true;
    for (const struct yaml_node *d = root; d; d = yaml_node_after(root, d, NULL)) {
        if (d->kind == YAML_NODE_MAP && !check_unique(a, d, e)) return false;
    }
    if (root->kind != YAML_NODE_MAP) return yaml_node_fail(root, e, "expected the key overrides");
    for (const struct yaml_node *d = root->first; d; d = d->next) {
        if (!str_is(d->key, "overrides"))
            return yaml_node_fail(d, e, "unknown key, only overrides is known");
        // A write that was cut short after its first line leaves this.
        if (d->kind == YAML_NODE_NULL)
            return yaml_node_fail(
                d, e, "no value; if no tenant has limits of its own, write overrides: {}");
        if (d->kind != YAML_NODE_MAP)
            return yaml_node_fail(d, e, "expected tenants with their limits");
        for (const struct yaml_node *t = d->first; t; t = t->next) {
            err why = {0};
            if (!auth_tenant_check(t->key, &why)) return yaml_node_fail(t, e, "%s", why.msg);
            if (t->kind != YAML_NODE_MAP && t->kind != YAML_NODE_NULL)
                return yaml_node_fail(t, e, "expected limits as key: value lines");
            if (!arena_grow(a, (void *)v, cap, *n + 1, sizeof **v)) return arena_fail(a, e);
            (*v)[(*n)++] = (struct entry){t, file};
        }
    }
    return true;
}

// Merges the nodes that several files have for one tenant, as if one file had them. Errors show the
// path of the first one.
static const struct yaml_node *join(struct arena *a, const struct entry *v, size_t n, err *e)
{
    assert(n > 0);
    const struct yaml_node *all = v[0].node;
    for (size_t i = 1; i < n; i++) {
        if (v[i].node->kind == YAML_NODE_NULL) continue;
        struct yaml_node *merged = yaml_node_merge(a, all, v[i].node);
        if (!merged) {
            (void)!arena_fail(a, e);
            return NULL;
        }
        merged->parent = v[0].node->parent;
        all = merged;
    }
    return all;
}

static bool read_tenant(struct overrides *o, const struct yaml_node *d,
                        const struct limits *defaults, struct override *to, err *e)
{
    struct limits *l = ARENA_NEW(&o->arena, struct limits);
    if (!l) return arena_fail(&o->arena, e);
    // A limit that the file does not name stays as it is for all tenants.
    *l = *defaults;
    *to = (struct override){.tenant = d->key, .limits = l};
    return config_read(&limits_section, d, l, &o->arena, e);
}

bool overrides_read(struct overrides *o, CONFIG_LIST files, const str *texts,
                    const struct limits *defaults, err *e)
{
    struct arena *a = &o->arena;
    assert(defaults && o->count == 0);
    arena_init(a, NULL, SNAPSHOT_MAX_BYTES);
    struct entry *v = NULL;
    size_t cap = 0;
    size_t n = 0;
    for (size_t i = 0; i < files.n; i++) {
        struct yaml_node *root = NULL;
        const char *name = arena_str(a, str_of(files.v[i])).p;
        if (!arena_ok(a, e) || !yaml_node_parse_file(texts[i], name, a, &root, e)) return false;
        if (!read_file(a, root, i, &v, &cap, &n, e)) return false;
    }
    // By name and then by file: nodes of one tenant are neighbours, and later files come last.
    if (n > 1) qsort(v, n, sizeof *v, by_name);
    struct override *table = ARENA_ARRAY(a, struct override, n);
    for (size_t i = 0, same = 0; table && i < n; i += same) {
        for (same = 1; i + same < n && str_eq(v[i].node->key, v[i + same].node->key);)
            same++;
        assert(same > 0);
        const struct yaml_node *d = join(a, &v[i], same, e);
        if (!d || !read_tenant(o, d, defaults, &table[o->count++], e)) return false;
    }
    assert(o->count <= n);
    o->v = table;
    return arena_ok(a, e);
}

void overrides_release(struct overrides *o)
{
    arena_release(&o->arena);
    *o = (struct overrides){0};
}

static int by_tenant(const void *key, const void *item)
{
    return str_cmp(*(const str *)key, ((const struct override *)item)->tenant);
}

const struct limits *overrides_find(const struct overrides *o, str tenant)
{
    if (o->count == 0) return NULL;
    const struct override *found = bsearch(&tenant, o->v, o->count, sizeof *o->v, by_tenant);
    return found ? found->limits : NULL;
}
