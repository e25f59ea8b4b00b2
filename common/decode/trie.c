// SPDX-License-Identifier: Apache-2.0
//
// trie.c - Pyroscope's binary trie and tree, whose nodes have the same form.
//
// The open nodes are a stack in the arena. A trie's key is one buffer that grows and shrinks with
// it; a tree keeps the rows of the frames that lead to a node. Both forms say in a few bytes what
// takes many once written out (a node below a long key), so what is written out is bounded: of a
// trie by TEXT_MAX, of a tree by the arena's cap.
#include "codec/varint.h"
#include "decode/stacks.h"

#define NODE_MIN    3                      // bytes: three numbers
#define FRAMES_MOST 16                     // a byte, of which there is room at once
#define TEXT_MAX    ((uint64_t)512 << 20)  // of all keys that have a value

struct open_node {
    uint64_t children;  // still to come
    size_t key;         // what the key or path was before this node's children
};

struct nodes {
    struct stacks s;
    const uint8_t *begin;
    const uint8_t *at;
    const uint8_t *end;
    struct open_node *open;
    size_t open_count;
    size_t open_cap;
    char *key;  // of a trie: bytes
    size_t key_n;
    size_t key_cap;
    uint32_t *path;  // of a tree: rows of frames, root first
    size_t path_n;
    size_t path_cap;
    uint64_t text;
};

struct node {
    str name;
    int64_t value;
    uint64_t children;
};

static bool fail(const struct nodes *t, const char *what, uint64_t value, uint64_t limit, err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: %s %llu exceeds maximum %llu",
                   (size_t)(t->at - t->begin), what, (unsigned long long)value,
                   (unsigned long long)limit);
}

static bool number(struct nodes *t, const char *what, uint64_t *v, err *e)
{
    if (varint_get(&t->at, t->end, v)) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: the %s of a node is cut off or too long",
                   (size_t)(t->at - t->begin), what);
}

static size_t left(const struct nodes *t)
{
    assert(t->at <= t->end);
    return (size_t)(t->end - t->at);
}

static bool read_node(struct nodes *t, const struct decode_options *limits, struct node *out,
                      err *e)
{
    uint64_t n = 0;
    uint64_t value = 0;
    if (!number(t, "name length", &n, e)) return false;
    if (limits->node_name_max && n > limits->node_name_max)
        return fail(t, "tree node name length", n, limits->node_name_max, e);
    if (n > left(t)) return fail(t, "tree node name length", n, left(t), e);
    out->name = str_make(t->at, n);
    t->at += n;
    if (!number(t, "value", &value, e)) return false;
    if (value > INT64_MAX) return fail(t, "tree node value", value, INT64_MAX, e);
    out->value = (int64_t)value;
    if (!number(t, "number of children", &out->children, e)) return false;
    if (limits->node_children_max && out->children > limits->node_children_max)
        return fail(t, "tree node children count", out->children, limits->node_children_max, e);
    // Each child has some bytes, so a number that is too large shows before they are looked for.
    if (out->children > left(t) / NODE_MIN)
        return fail(t, "tree node children count", out->children, left(t) / NODE_MIN, e);
    return true;
}

// The children of a node come next; `key` is what to go back to behind them.
static bool descend(struct nodes *t, uint64_t children, size_t key, err *e)
{
    if (!arena_grow(t->s.a, &t->open, &t->open_cap, t->open_count + 1, sizeof *t->open))
        return arena_fail(t->s.a, e);
    t->open[t->open_count++] = (struct open_node){children, key};
    return true;
}

// Where the next node's key or path begins: behind that of its parent. A parent is forgotten with
// its last child, so every open node has children that are due.
static size_t parent_key(struct nodes *t)
{
    if (t->open_count == 0) return 0;
    struct open_node *top = &t->open[t->open_count - 1];
    assert(top->children > 0);
    size_t key = top->key;
    if (--top->children == 0) t->open_count--;
    return key;
}

// ---- trie

static bool add_key(struct nodes *t, int64_t value, err *e)
{
    str key = {t->key, t->key_n};
    t->text += key.n;
    if (t->text > TEXT_MAX) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "stacks of more than %llu bytes in all",
                       (unsigned long long)TEXT_MAX);
    }
    return stacks_text(&t->s, key, true, value, e);
}

static bool add_trie_node(struct nodes *t, const struct node *n, err *e)
{
    t->key_n = parent_key(t);
    if (!arena_grow(t->s.a, &t->key, &t->key_cap, t->key_n + n->name.n, 1))
        return arena_fail(t->s.a, e);
    if (n->name.n) memcpy(t->key + t->key_n, n->name.p, n->name.n);
    t->key_n += n->name.n;
    if (n->value && !add_key(t, n->value, e)) return false;
    return !n->children || descend(t, n->children, t->key_n, e);
}

// ---- tree

static bool add_path(struct nodes *t, int64_t value, err *e)
{
    uint32_t *leaf = NULL;
    int64_t *values = NULL;
    if (!stacks_sample(&t->s, t->path_n, &leaf, &values, e)) return false;
    *values = value;
    for (size_t i = 0; i < t->path_n; i++)
        leaf[i] = t->path[t->path_n - 1 - i];
    return true;
}

static bool add_tree_node(struct nodes *t, const struct node *n, bool root, err *e)
{
    t->path_n = parent_key(t);
    str rest = n->name;
    bool more = !root;
    while (more) {
        more = str_find(rest, ';') < rest.n;
        str frame = str_split(rest, ';', &rest);
        if (!arena_grow(t->s.a, &t->path, &t->path_cap, t->path_n + 1, sizeof *t->path))
            return arena_fail(t->s.a, e);
        if (!stacks_frame(&t->s, frame, (str){0}, 0, &t->path[t->path_n++], e)) return false;
    }
    if (n->value && !add_path(t, n->value, e)) return false;
    return !n->children || descend(t, n->children, t->path_n, e);
}

// ---- both

// By how many frames a name makes the stack deeper: of a trie those that begin in it.
static size_t frames_of(str name, bool is_tree, bool root)
{
    size_t n = is_tree;
    if (is_tree && root) return 0;
    for (size_t i = 0; i < name.n; i++)
        n += name.p[i] == ';';
    return n;
}

// Counts what comes, so that there is room for it at once. What is wrong with the bytes is told
// when they are read; and if they say very much in little, memory is taken step by step, up to a
// limit.
static bool expect(struct nodes *t, bool is_tree, const struct decode_options *limits, err *e)
{
    struct node n = {0};
    err later = {0};
    size_t samples = 0;
    size_t frames = 0;
    for (bool root = true; left(t) && (root || !is_tree || t->open_count); root = false) {
        if (!read_node(t, limits, &n, &later)) break;
        size_t depth = parent_key(t) + frames_of(n.name, is_tree, root);
        if (n.value) {
            samples++;
            frames += is_tree ? depth : depth + 1;
        }
        if (n.children && !descend(t, n.children, depth, e)) return false;
    }
    size_t bytes = (size_t)(t->end - t->begin);
    t->at = t->begin;
    t->open_count = 0;
    return frames / FRAMES_MOST > bytes || stacks_expect(&t->s, samples, frames, e);
}

static bool read_all(struct nodes *t, bool is_tree, const struct decode_options *limits, err *e)
{
    struct node n = {0};
    for (bool root = true; left(t); root = false) {
        if (!read_node(t, limits, &n, e)) return false;
        if (!(is_tree ? add_tree_node(t, &n, root, e) : add_trie_node(t, &n, e))) return false;
        if (is_tree && left(t) && t->open_count == 0) {
            return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: %zu bytes follow the tree",
                           (size_t)(t->at - t->begin), left(t));
        }
    }
    if (t->open_count == 0) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "byte %zu: the children of a node are missing",
                   (size_t)(t->at - t->begin));
}

static bool decode(struct arena *a, str bytes, bool is_tree, const struct decode_options *o,
                   struct decoded *out, err *e)
{
    static const struct profile_type type = {S_INIT("samples"), S_INIT("count")};
    static const uint8_t none = 0;
    const uint8_t *at = bytes.n ? (const uint8_t *)bytes.p : &none;
    struct nodes t = {.begin = at, .at = at, .end = at + bytes.n};
    struct decode_options limits = {0};
    if (is_tree) limits = *o;
    bool ok = stacks_begin(&t.s, a, bytes.n, o, &type, 1, e) && expect(&t, is_tree, &limits, e) &&
              read_all(&t, is_tree, &limits, e) && stacks_finish(&t.s, e);
    if (ok) *out = (struct decoded){t.s.p, 1};
    stacks_release(&t.s);
    return ok;
}

bool decode_trie(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                 err *e)
{
    return decode(a, bytes, false, o, out, e);
}

bool decode_tree(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                 err *e)
{
    return decode(a, bytes, true, o, out, e);
}
