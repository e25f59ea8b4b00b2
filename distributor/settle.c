// SPDX-License-Identifier: Apache-2.0
//
// settle.c - a few lists with the times of their last use, the newest last; and their file:
//
//     flametree members 1
//     <wall clock in ms of the last use> <id> <id>*<weight> ...   a line for each, ids in hex; the
//                                                                 weight if it is not MEMBER_WEIGHT
#include "distributor/settle.h"

#include "base/hash.h"
#include "base/ulid.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/lock.h"
#include "sys/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD     "flametree members 1\n"
#define FILE_MAX ((size_t)4 << 20)

struct used {
    uint64_t hash;
    struct member *members;  // in the order of the list: ids and weights alone
    size_t n;
    char *text;  // memory of ids
    size_t bytes;
    uint64_t last_mono_ns;
};

struct settle {
    struct lock lock;
    char *path;
    size_t path_bytes;
    uint64_t settle_ns;
    struct used v[SETTLE_LISTS];
    size_t n;
    uint64_t unknown_until_ns;  // until then other lists may matter
};

// ---- lists

static uint64_t hash_of(const struct member *v, size_t n)
{
    uint64_t hash = hash_table_word(n);
    for (size_t i = 0; i < n; i++) {
        hash = hash_table_and(hash, hash_table_str(v[i].id));
        hash = hash_table_and(hash, member_weight(&v[i]));
    }
    return hash;
}

static bool is_same(const struct used *u, const struct member *v, size_t n, uint64_t hash)
{
    if (u->hash != hash || u->n != n) return false;
    for (size_t i = 0; i < n; i++) {
        const struct member *x = &u->members[i];
        if (!str_eq(x->id, v[i].id) || member_weight(x) != member_weight(&v[i])) return false;
    }
    return true;
}

static void drop(struct used *u)
{
    mem_free(NULL, u->members, u->n * sizeof *u->members);
    mem_free(NULL, u->text, u->bytes);
    *u = (struct used){0};
}

static bool copy(struct used *u, const struct member *v, size_t n, err *e)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += v[i].id.n;
    *u = (struct used){.hash = hash_of(v, n), .n = n, .bytes = bytes};
    u->members = mem_alloc(NULL, n * sizeof *u->members, e);
    u->text = u->members ? mem_alloc(NULL, bytes, e) : NULL;
    if (!u->text) {
        mem_free(NULL, u->members, n * sizeof *u->members);
        return false;
    }
    char *at = u->text;
    for (size_t i = 0; i < n; i++) {
        memcpy(at, v[i].id.p, v[i].id.n);
        u->members[i] = (struct member){.id = str_make(at, v[i].id.n),
                                        .kind = MEMBER_INGESTER,
                                        .alive = true,
                                        .weight = member_weight(&v[i])};
        at += v[i].id.n;
    }
    return true;
}

static void remove_at(struct settle *s, size_t i)
{
    assert(i < s->n);
    drop(&s->v[i]);
    memmove(&s->v[i], &s->v[i + 1], (s->n - i - 1) * sizeof s->v[0]);
    s->n--;
}

// ---- the file

static void put(const struct settle *s, uint64_t mono_ns, int64_t wall_ns, struct buf *out)
{
    buf_z(out, HEAD);
    for (size_t i = 0; i < s->n; i++) {
        const struct used *u = &s->v[i];
        uint64_t ago = mono_ns > u->last_mono_ns ? mono_ns - u->last_mono_ns : 0;
        buf_printf(out, "%" PRId64, (wall_ns - (int64_t)ago) / NS_PER_MS);
        for (size_t k = 0; k < u->n; k++) {
            const struct member *m = &u->members[k];
            buf_z(out, " ");
            for (size_t c = 0; c < m->id.n; c++)
                buf_printf(out, "%02x", (unsigned char)m->id.p[c]);
            if (m->weight != MEMBER_WEIGHT) buf_printf(out, "*%u", m->weight);
        }
        buf_z(out, "\n");
    }
}

static void save(const struct settle *s, uint64_t mono_ns)
{
    struct buf text;
    char quoted[LOG_QUOTE_MAX];
    err e = {0};
    assert(lock_is_mine(&s->lock));
    buf_init(&text, NULL, FILE_MAX);
    put(s, mono_ns, clock_wall_ns(), &text);
    if (!buf_ok(&text, &e) || !file_write(s->path, buf_view(&text), &e))
        log_warn(NULL, "members.not_saved", "path=%s why=%s", s->path,
                 log_quote(quoted, str_of(e.msg)));
    buf_release(&text);
}

static bool read_id(str hex, char *out)
{
    if (hex.n == 0 || hex.n % 2) return false;
    for (size_t i = 0; i < hex.n; i += 2) {
        unsigned v = 0;
        char pair[3] = {hex.p[i], hex.p[i + 1], '\0'};
        if (strspn(pair, "0123456789abcdef") != 2 || sscanf(pair, "%2x", &v) != 1) return false;
        out[i / 2] = (char)v;
    }
    return true;
}

static bool read_weight(str text, uint32_t *weight)
{
    uint64_t n = 0;
    bool ok = str_u64(text, &n) && n > 0 && n <= MEMBER_WEIGHT_MAX;
    if (ok) *weight = (uint32_t)n;
    return ok;
}

// A line of the file. False: it is none; then the file is of no use.
static bool take_line(struct settle *s, str line, int64_t wall_ns, uint64_t mono_ns,
                      struct arena *a)
{
    str rest = {0};
    uint64_t ms = 0;
    size_t n = 0;
    err e = {0};
    if (s->n == SETTLE_LISTS || !str_u64(str_split(line, ' ', &rest), &ms)) return false;
    struct member *v = ARENA_ARRAY(a, struct member, rest.n / 2 + 1);
    if (!v) return false;
    while (rest.n) {
        str weight = {0};
        str word = str_split(rest, ' ', &rest);
        str hex = str_split(word, '*', &weight);
        char *id = arena_new(a, hex.n / 2 + 1);
        if (!id || !read_id(hex, id)) return false;
        if (hex.n < word.n && !read_weight(weight, &v[n].weight)) return false;
        v[n++].id = str_make(id, hex.n / 2);
    }
    if (n == 0 || !copy(&s->v[s->n], v, n, &e)) return false;
    int64_t ago = wall_ns - (int64_t)ms * NS_PER_MS;
    // A clock that was set back makes it last longer, never shorter than it should.
    uint64_t passed = ago > 0 ? (uint64_t)ago : 0;
    s->v[s->n++].last_mono_ns = passed < mono_ns ? mono_ns - passed : 0;
    return true;
}

static bool load(struct settle *s, uint64_t mono_ns)
{
    struct buf text;
    struct arena a;
    err e = {0};
    buf_init(&text, NULL, FILE_MAX);
    arena_init(&a, NULL, 4 * FILE_MAX);
    bool ok = file_exists(s->path) && file_read(s->path, &text, &e) &&
              str_starts(buf_view(&text), S(HEAD));
    str rest = ok ? str_slice(buf_view(&text), sizeof HEAD - 1, text.n) : (str){0};
    while (ok && rest.n)
        ok = take_line(s, str_split(rest, '\n', &rest), clock_wall_ns(), mono_ns, &a);
    ok = ok && s->n > 0;
    while (!ok && s->n > 0)
        remove_at(s, s->n - 1);
    // The last one was in use until the former process ended, which nobody wrote down.
    if (ok) s->v[s->n - 1].last_mono_ns = mono_ns;
    arena_release(&a);
    buf_release(&text);
    return ok;
}

// ---- the present list, and those before

bool settle_open(const char *path, uint64_t settle_ns, uint64_t mono_ns, struct settle **out,
                 err *e)
{
    struct settle *s = mem_alloc(NULL, sizeof *s, e);
    size_t bytes = strlen(path) + 1;
    if (!s) return false;
    s->path = mem_alloc(NULL, bytes, e);
    if (!s->path) {
        mem_free(NULL, s, sizeof *s);
        return false;
    }
    memcpy(s->path, path, bytes);
    s->path_bytes = bytes;
    s->settle_ns = settle_ns;
    lock_init(&s->lock, LOCK_SETTLE);
    if (settle_ns && !load(s, mono_ns)) s->unknown_until_ns = mono_ns + settle_ns;
    *out = s;
    return true;
}

void settle_close(struct settle *s, uint64_t mono_ns)
{
    if (!s) return;
    lock_take(&s->lock);
    if (s->n) save(s, mono_ns);
    while (s->n > 0)
        remove_at(s, s->n - 1);
    lock_give(&s->lock);
    lock_release(&s->lock);
    mem_free(NULL, s->path, s->path_bytes);
    mem_free(NULL, s, sizeof *s);
}

static bool is_past(const struct settle *s, uint64_t at_mono_ns, uint64_t mono_ns)
{
    return mono_ns > at_mono_ns && mono_ns - at_mono_ns > s->settle_ns;
}

// Makes the list the last one.
static bool note(struct settle *s, const struct member *members, size_t n, uint64_t mono_ns, err *e)
{
    uint64_t hash = hash_of(members, n);
    if (s->n && is_same(&s->v[s->n - 1], members, n, hash)) {
        struct used *last = &s->v[s->n - 1];
        last->last_mono_ns = MAX(last->last_mono_ns, mono_ns);
        return true;
    }
    struct used fresh;
    if (!copy(&fresh, members, n, e)) return false;
    fresh.last_mono_ns = mono_ns;
    for (size_t i = s->n; i-- > 0;) {
        bool again = is_same(&s->v[i], members, n, hash);
        if (again || is_past(s, s->v[i].last_mono_ns, mono_ns)) remove_at(s, i);
    }
    if (s->n == SETTLE_LISTS) {
        s->unknown_until_ns = MAX(s->unknown_until_ns, s->v[0].last_mono_ns + s->settle_ns);
        remove_at(s, 0);
    }
    s->v[s->n++] = fresh;
    save(s, mono_ns);
    return true;
}

static bool add_past(const struct used *u, struct arena *a, struct settle_past *past)
{
    struct member *v = ARENA_ARRAY(a, struct member, u->n);
    for (size_t i = 0; v && i < u->n; i++) {
        v[i] = u->members[i];
        v[i].id = arena_str(a, u->members[i].id);
    }
    past->counts[past->n] = u->n;
    past->lists[past->n++] = v;
    past->most = MAX(past->most, u->n);
    return v != NULL;
}

bool settle_use(struct settle *s, const struct member *members, size_t n, uint64_t mono_ns,
                struct arena *a, struct settle_past *past, err *e)
{
    *past = (struct settle_past){0};
    if (s->settle_ns == 0) return true;
    assert(n > 0);
    lock_take(&s->lock);
    bool ok = note(s, members, n, mono_ns, e);
    past->unknown = mono_ns < s->unknown_until_ns;
    for (size_t i = 0; ok && !past->unknown && i + 1 < s->n; i++) {
        if (is_past(s, s->v[i].last_mono_ns, mono_ns)) continue;
        ok = add_past(&s->v[i], a, past) || arena_fail(a, e);
    }
    lock_give(&s->lock);
    return ok && arena_ok(a, e);
}
