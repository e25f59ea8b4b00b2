// SPDX-License-Identifier: Apache-2.0
//
// ownerless.c - see ownerless.h.
#include "ingester/ownerless.h"

#include "cluster/place.h"
#include "sys/clock.h"

// Members are probed every 2 s. An older answer shows that a probe in between was not answered.
#define FRESH_NS (3 * NS_PER_S)

// Looks come twice a second. If the next one comes much later, this process stood still.
#define LOOK_MOST_NS (2 * NS_PER_S)

void silences_release(struct silences *s)
{
    mem_free(NULL, s->v, s->cap * sizeof *s->v);
    *s = (struct silences){0};
}

static struct silence find(const struct silences *s, id128 boot)
{
    for (size_t i = 0; i < s->n; i++)
        if (id128_eq(s->v[i].boot, boot)) return s->v[i];
    return (struct silence){.boot = boot};
}

int64_t silences_of(const struct silences *s, id128 boot)
{
    return find(s, boot).ns;
}

static int64_t looked_ago(const struct silences *s, uint64_t mono_ns)
{
    assert(mono_ns >= s->looked_mono_ns);
    uint64_t since = s->looked_mono_ns ? mono_ns - s->looked_mono_ns : 0;
    return (int64_t)MIN(since, (uint64_t)LOOK_MOST_NS);
}

bool silence_is_short(const struct silences *s, const struct silence *row, uint64_t mono_ns)
{
    return row->met && row->ns + looked_ago(s, mono_ns) < OWNERLESS_NS;
}

bool silences_look(struct silences *s, const struct sighting *v, size_t n, uint64_t mono_ns, err *e)
{
    struct silences next = {.looked_mono_ns = mono_ns};
    int64_t passed = looked_ago(s, mono_ns);
    if (n && !mem_grow(NULL, &next.v, &next.cap, n, sizeof *next.v, e)) return false;
    for (size_t i = 0; i < n; i++) {
        struct silence row = find(s, v[i].boot);
        bool fresh = v[i].age_ns < FRESH_NS;
        row.ns = fresh ? v[i].age_ns : row.ns + passed;
        row.met = row.met || fresh;
        next.v[next.n++] = row;
    }
    silences_release(s);
    *s = next;
    return true;
}

size_t ownerless_rank(const struct member *members, size_t n, str self, id128 stream,
                      uint32_t *scratch)
{
    char name[ULID_TEXT];
    size_t rank = 0;
    const struct place_options all = {0};
    if (n == 0) return 0;
    ulid_print(stream, name);
    place_order(members, n, &all, str_of(name), S(""), 0, scratch);
    for (size_t i = 0; i < n; i++) {
        const struct member *m = &members[scratch[i]];
        if (str_eq(m->id, self)) return rank;
        rank += m->alive && !m->unready;
    }
    return n;
}

bool ownerless_is_due(int64_t silent_ns, size_t rank)
{
    assert(rank < 1000000);
    return silent_ns >= OWNERLESS_NS + (int64_t)rank * TURN_NS;
}

bool ownerless_may(size_t reached, size_t members)
{
    return 2 * reached >= members;
}
