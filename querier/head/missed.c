// SPDX-License-Identifier: Apache-2.0
#include "querier/head/missed.h"

#include "base/mem.h"
#include "base/ulid.h"
#include "sys/clock.h"

#include <inttypes.h>

#define HEAD "flametree missed streams 1\n"

void missed_init(struct missed_table *t)
{
    *t = (struct missed_table){.v = mem_must(MISSED_MAX * sizeof *t->v)};
}

void missed_release(struct missed_table *t)
{
    mem_must_free(t->v);
    *t = (struct missed_table){0};
}

struct missed *missed_find(struct missed_table *t, id128 stream)
{
    for (size_t i = 0; i < t->n; i++) {
        if (id128_eq(t->v[i].stream, stream)) return &t->v[i];
    }
    return NULL;
}

// A ULID begins with the time at which it was made.
static int64_t made_ns(id128 ulid)
{
    int64_t ms = 0;
    for (size_t i = 0; i < 6; i++)
        ms = ms << 8 | ulid.b[i];
    return ms > INT64_MAX / NS_PER_MS ? INT64_MAX : ms * NS_PER_MS;
}

// When the node of the stream got another data directory that is newer than the stream: since then
// it cannot answer for it. INT64_MAX: it has the same one, or nothing of it is registered.
static int64_t replaced_ns(const struct registered *list, const struct registered_stream *o)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; o->node.n && i < list->n; i++) {
        const struct registered_stream *x = &list->v[i];
        if (!str_eq(x->node, o->node) || id128_eq(x->directory, o->directory)) continue;
        int64_t at = made_ns(x->directory);
        if (at > made_ns(o->stream)) first = MIN(first, at);
    }
    return first;
}

struct missed *missed_note(struct missed_table *t, const struct registered *list,
                           const struct registered_stream *o, int64_t now_wall_ns, int64_t *since)
{
    struct missed *m = missed_find(t, o->stream);
    *since = now_wall_ns;
    if (!m) {
        *since = MIN(now_wall_ns, replaced_ns(list, o));
        if (t->n == MISSED_MAX) return NULL;
        m = &t->v[t->n++];
        *m = (struct missed){.stream = o->stream, .since_wall_ns = *since};
        t->changed = true;
    }
    // The clock may have been set back since then.
    *since = MIN(now_wall_ns, m->since_wall_ns);
    return m;
}

void missed_forget(struct missed_table *t, id128 stream)
{
    struct missed *m = missed_find(t, stream);
    if (!m) return;
    *m = t->v[--t->n];
    t->changed = true;
}

void missed_prune(struct missed_table *t, const struct registered *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (registered_find(list, t->v[i].stream)) t->v[kept++] = t->v[i];
    }
    t->changed |= kept < t->n;
    t->n = kept;
}

size_t missed_lost(const struct missed_table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->v[i].lost;
    return n;
}

void missed_print(struct missed_table *t, struct buf *out)
{
    char ulid[ULID_TEXT];
    buf_z(out, HEAD);
    for (size_t i = 0; i < t->n; i++) {
        ulid_print(t->v[i].stream, ulid);
        buf_printf(out, "%s %" PRId64 "\n", ulid, t->v[i].since_wall_ns / NS_PER_MS);
    }
    t->changed = false;
}

// At most 15 digits, which are years of 5 digits.
static bool read_ms(str text, int64_t *ms)
{
    *ms = 0;
    if (text.n == 0 || text.n > 15) return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') return false;
        *ms = *ms * 10 + (text.p[i] - '0');
    }
    return *ms <= INT64_MAX / NS_PER_MS;
}

void missed_parse(struct missed_table *t, str text)
{
    str rest = text;
    if (!str_starts(text, S(HEAD))) return;
    (void)str_split(rest, '\n', &rest);
    while (rest.n && t->n < MISSED_MAX) {
        struct missed m = {0};
        int64_t ms = 0;
        str after;
        err ignored = {0};
        str line = str_split(rest, '\n', &rest);
        str stream = str_split(line, ' ', &after);
        if (!ulid_parse(stream, &m.stream, &ignored) || !read_ms(after, &ms)) continue;
        m.since_wall_ns = ms * NS_PER_MS;
        if (!missed_find(t, m.stream)) t->v[t->n++] = m;
    }
}
