// SPDX-License-Identifier: Apache-2.0
//
// check.c - two clients of one store test each promise with small objects of their own; and what a
// mount's options tell.
#include "store/check.h"

#include "base/ulid.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <stdio.h>
#include <stdlib.h>

#define MOUNTINFO_MAX ((size_t)4 << 20)

struct check {
    struct store *one;
    struct store *other;
    struct req *r;
    str name;
    str own;        // how names of this data directory begin
    size_t seen;    // of a list: our name
    str stale[64];  // of former checks of it
    size_t stale_count;
};

static bool broken(const char *what, err *e)
{
    return err_set(e, ERR_FAILED_PRECONDITION,
                   "%s; clients of a store must see each other's changes at once "
                   "(docs/operations.md, What the store must guarantee)",
                   what);
}

// ---- steps

static bool sees(struct check *c, struct store *s, bool want, const char *what, err *e)
{
    uint64_t size = 0;
    err why = {0};
    assert(s == c->one || s == c->other);
    // Not store_size, which asks a list before it says no: what caches on the way do would be
    // hidden.
    bool there = s->kind->size(s, c->r, c->name, &size, &why);
    if (!there && why.code != ERR_NOT_FOUND) {
        *e = why;
        return false;
    }
    return there == want || broken(what, e);
}

static bool note(void *arg, str name, uint64_t size, err *e)
{
    struct check *c = arg;
    (void)size;
    (void)e;
    // Left-over names of this directory only: other processes may be checking the store just now.
    bool now = str_eq(name, c->name);
    c->seen += now;
    if (!now && str_starts(name, c->own) && c->stale_count < COUNT(c->stale))
        c->stale[c->stale_count++] = arena_str(&c->r->arena, name);
    return true;
}

static bool lists(struct check *c, struct store *s, size_t want, const char *what, err *e)
{
    c->seen = 0;
    c->stale_count = 0;
    return store_list(s, c->r, S(STORE_CHECK_PREFIX), (str){0}, note, c, e) &&
           (c->seen == want || broken(what, e));
}

static bool creates(struct check *c, struct store *s, const char *bytes, bool first, err *e)
{
    bool existed = false;
    if (!store_put(s, c->r, c->name, str_of(bytes), &existed, e)) return false;
    assert(c->name.n > 0);
    if (existed && first) return broken("it has an object that nobody created", e);
    return existed || first || broken("it accepts two creations of one name", e);
}

static bool holds(struct check *c, struct store *s, const char *want, err *e)
{
    struct buf bytes;
    buf_init(&bytes, NULL, 4096);
    bool ok = store_get(s, c->r, c->name, &bytes, e) &&
              (str_is(buf_view(&bytes), want) ||
               broken("one client reads other bytes than another one wrote", e));
    buf_release(&bytes);
    return ok;
}

// Both uploads begin before either ends. The second commit must be told that the name is taken.
static bool race(struct check *c, err *e)
{
    bool second[2] = {false, false};
    struct store_upload *a = store_begin(c->one, c->r, c->name, 1, e);
    struct store_upload *b = a ? store_begin(c->other, c->r, c->name, 1, e) : NULL;
    // Commits follow each other here: two at once would prove no more, because the link decides.
    if (!b || !store_write(a, S("a"), e) || !store_write(b, S("b"), e)) {
        store_abandon(a);
        store_abandon(b);
        return false;
    }
    if (!store_commit(a, &second[0], e)) {
        // The commit has freed a, whatever its outcome.
        store_abandon(b);
        return false;
    }
    return store_commit(b, &second[1], e) &&
           ((!second[0] && second[1]) || broken("it accepts two creations of one name", e)) &&
           holds(c, c->other, "a", e);
}

static bool clean(struct check *c, err *e)
{
    for (size_t i = 0; i < c->stale_count; i++) {
        if (!store_delete(c->one, c->r, c->stale[i], e)) return false;
    }
    return true;
}

static bool run_check(struct check *c, err *e)
{
    // Each client looks before the other one acts: so a cache of "not there" or of a list, which
    // would hide the change, is filled first.
    return lists(c, c->one, 0, "it lists an object that nobody created", e) && clean(c, e) &&
           sees(c, c->one, false, "it has an object that nobody created", e) &&
           creates(c, c->other, "1", true, e) &&
           sees(c, c->one, true,
                "a client that once did not find a name goes on not to find it after another one "
                "created it",
                e) &&
           lists(c, c->one, 1, "a list lacks an object that another client created before", e) &&
           holds(c, c->one, "1", e) && creates(c, c->one, "2", false, e) &&
           holds(c, c->other, "1", e) && store_delete(c->one, c->r, c->name, e) &&
           sees(c, c->other, false, "an object stays after another client deleted it", e) &&
           lists(c, c->other, 0, "a list has an object that another client deleted before", e) &&
           race(c, e) && store_delete(c->other, c->r, c->name, e);
}

bool store_check(struct store *one, struct store *other, id128 owner, struct req *r, err *e)
{
    uint8_t random[10];
    char ulid[ULID_TEXT];
    char directory[ULID_TEXT];
    rand_bytes(random, sizeof random);
    ulid_print(ulid_make((uint64_t)(clock_wall_ns() / NS_PER_MS), random), ulid);
    ulid_print(owner, directory);
    struct check c = {.one = one, .other = other, .r = r};
    c.own = arena_printf(&r->arena, STORE_CHECK_PREFIX "%s.", directory);
    c.name = arena_printf(&r->arena, "%.*s%s", STR(c.own), ulid);
    if (!arena_ok(&r->arena, e)) return false;
    assert(one != other && c.own.n > 0);
    if (run_check(&c, e)) return true;
    err ignored = {0};
    (void)!store_delete(one, r, c.name, &ignored);  // if that fails, a later check removes it
    return false;
}

// ---- mounts

static bool has_option(str options, const char *wanted)
{
    while (options.p) {
        if (str_is(str_split(options, ',', &options), wanted)) return true;
    }
    return false;
}

const char *store_check_options(str type, str options)
{
    bool nfs = str_is(type, "nfs") || str_is(type, "nfs4");
    bool looks = has_option(options, "lookupcache=none") ||
                 has_option(options, "lookupcache=pos") ||
                 has_option(options, "lookupcache=positive");
    bool lists = has_option(options, "noac") || has_option(options, "actimeo=0") ||
                 (has_option(options, "acdirmin=0") && has_option(options, "acdirmax=0"));
    if (nfs && !looks)
        return "it is NFS that remembers which names are not there: mount it with "
               "lookupcache=positive,actimeo=0";
    if (nfs && !lists) return "it is NFS that remembers what folders hold: mount it with actimeo=0";
    if (str_is(type, "cifs") || str_is(type, "smb3")) {
        return has_option(options, "cache=none")
                   ? NULL
                   : "it is SMB that caches: mount it with cache=none,actimeo=0";
    }
    if (str_starts(type, S("fuse.")) || str_is(type, "fuse"))
        return "it is a FUSE file system: see that entry_timeout, negative_timeout and "
               "attr_timeout are 0 on every machine";
    return NULL;
}

// "36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/root rw,errors=continue"
static bool read_mount(str line, str *at, str *type, str *options)
{
    str rest = line;
    for (int i = 0; i < 4; i++)
        (void)str_split(rest, ' ', &rest);
    *at = str_split(rest, ' ', &rest);
    while (rest.p && !str_is(str_split(rest, ' ', &rest), "-"))
        ;
    *type = str_split(rest, ' ', &rest);
    (void)str_split(rest, ' ', &rest);
    *options = rest;
    return rest.p != NULL;
}

static bool is_below(str dir, str at)
{
    assert(at.p && dir.p);
    if (!str_starts(dir, at)) return false;
    return dir.n == at.n || str_is(at, "/") || dir.p[at.n] == '/';
}

const char *store_check_mount(const char *dir)
{
    struct buf text;
    char line[8192];
    buf_init(&text, NULL, MOUNTINFO_MAX);
    FILE *f = fopen("/proc/self/mountinfo", "re");
    while (f && fgets(line, sizeof line, f))
        buf_z(&text, line);
    if (f) (void)fclose(f);
    char *real = realpath(dir, NULL);
    const char *why = NULL;
    size_t best = 0;
    str rest = buf_view(&text);
    while (real && rest.p && rest.n) {
        str at;
        str type;
        str options;
        // A line that was cut by `line` or has another form says nothing.
        if (!read_mount(str_split(rest, '\n', &rest), &at, &type, &options)) continue;
        if (!is_below(str_of(real), at) || at.n < best) continue;
        best = at.n;  // of equal mount points the later one covers the earlier
        why = store_check_options(type, options);
    }
    free(real);
    buf_release(&text);
    return why;
}
