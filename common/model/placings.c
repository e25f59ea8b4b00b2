// SPDX-License-Identifier: Apache-2.0
#include "model/placings.h"

static bool has_many(const struct placings *s)
{
    return s->n == 1 && s->v[0] == PLACING_MANY;
}

void placings_add(struct placings *s, uint64_t placing)
{
    uint32_t at = 0;
    assert(s->n <= PLACINGS_MAX);
    while (at < s->n && s->v[at] < placing)
        at++;
    if (placing == 0 || has_many(s) || (at < s->n && s->v[at] == placing)) return;
    if (placing == PLACING_MANY || s->n == PLACINGS_MAX) {
        *s = (struct placings){.v = {PLACING_MANY}, .n = 1};
        return;
    }
    memmove(&s->v[at + 1], &s->v[at], (s->n - at) * sizeof s->v[0]);
    s->v[at] = placing;
    s->n++;
}

void placings_join(struct placings *s, const struct placings *other)
{
    for (uint32_t i = 0; i < other->n; i++)
        placings_add(s, other->v[i]);
}

bool placings_differ(const struct placings *s)
{
    return s->n > 1 || has_many(s);
}

void placings_put(const struct placings *s, uint32_t field, struct buf *out)
{
    if (s->n == 0) return;
    size_t mark = pb_begin(out, field);
    for (uint32_t i = 0; i < s->n; i++) {
        for (unsigned k = 0; k < 8; k++)
            buf_byte(out, (unsigned char)(s->v[i] >> (8 * k)));
    }
    pb_end(out, mark);
}

bool placings_read(struct placings *s, str bytes, err *e)
{
    if (bytes.n % 8)
        return err_set(e, ERR_INVALID_ARGUMENT, "placings have %zu bytes, not a multiple of 8",
                       bytes.n);
    for (size_t at = 0; at < bytes.n; at += 8) {
        uint64_t placing = 0;
        for (unsigned k = 0; k < 8; k++)
            placing |= (uint64_t)(uint8_t)bytes.p[at + k] << (8 * k);
        placings_add(s, placing);
    }
    return true;
}
