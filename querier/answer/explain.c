// SPDX-License-Identifier: Apache-2.0
#include "querier/answer/explain.h"

#include "codec/json.h"
#include "sys/clock.h"

#include <time.h>

#define PIECES_SHOWN 40                  // a header has to stay small: clients take 64 KB
#define MISSING_MAX  ((size_t)40 << 10)  // bytes of the names of missing objects

static const char *const phases[] = {[WORK_HEADS] = "heads",
                                     [WORK_SNAPSHOT] = "snapshot",
                                     [WORK_PLAN] = "plan",
                                     [WORK_READ] = "read",
                                     [WORK_MERGE] = "merge"};

void explain_plan(struct answer *a, str tenant, const char *sign, const struct level_plan *p)
{
    struct answer_work *w = &a->work;
    if (!w->explain) return;
    assert(w->explained <= PIECES_SHOWN);
    bool several = str_find(a->x->req.tenant, '|') < a->x->req.tenant.n;
    struct buf line;
    buf_init(&line, a->querier->memory, EXPLAIN_MAX);
    for (size_t i = 0; i < p->n; i++) {
        if (w->explained == PIECES_SHOWN) {
            w->left_out += p->n - i;
            break;
        }
        buf_clear(&line);
        if (several) buf_printf(&line, "%.*s: ", STR(tenant));
        buf_z(&line, sign);
        level_print_piece(&p->pieces[i], &line);
        if (w->explained++) buf_byte(w->explain, ',');
        json_put_string(w->explain, buf_view(&line));
    }
    buf_release(&line);
}

str explain_time(struct arena *a, int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000 - (ns % 1000000000 < 0));
    struct tm t;
    char text[64];
    if (!gmtime_r(&seconds, &t) || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t) == 0) {
        return arena_printf(a, "%lld", (long long)ns);
    }
    return arena_str(a, str_of(text));
}

str explain_timing(struct answer *a, uint64_t took_ns)
{
    str out = arena_printf(a->arena, "query;dur=%.1f", (double)took_ns / 1e6);
    for (size_t i = 0; i < COUNT(phases); i++) {
        if (a->work.ns[i] == 0) continue;
        out = arena_printf(a->arena, "%.*s, %s;dur=%.1f", STR(out), phases[i],
                           (double)a->work.ns[i] / 1e6);
    }
    return out;
}

static void put_number(struct buf *b, const char *name, uint64_t v)
{
    buf_printf(b, "\"%s\":", name);
    buf_u64(b, v);
    buf_byte(b, ',');
}

static void put_missing(struct answer *a, struct buf *b)
{
    size_t n = 0;
    size_t most = b->n + MISSING_MAX;
    buf_z(b, "\"missing\":[");
    for (; n < a->fetched.missing_count && b->n < most; n++) {
        if (n) buf_byte(b, ',');
        json_put_string(b, a->fetched.missing[n]);
    }
    buf_z(b, "],");
    put_number(b, "missing_more", a->fetched.missing_count - n);
    if (a->fetched.since_wall_ns)
        buf_printf(b, "\"missing_since\":\"%.*s\",",
                   STR(explain_time(a->arena, a->fetched.since_wall_ns)));
}

str explain_text(struct answer *a, uint64_t took_ns)
{
    const struct answer_work *w = &a->work;
    struct buf b;
    assert(w->explain && w->rounded_ns >= 0);
    buf_init(&b, a->querier->memory, 2 * EXPLAIN_MAX);
    buf_byte(&b, '{');
    put_number(&b, "profiles", a->profiles);
    put_number(&b, "streams", a->fetched.partial_count);
    put_number(&b, "rounds", w->rounds);
    put_number(&b, "plans", w->plans);
    put_number(&b, "objects", w->objects);
    put_number(&b, "nodes", w->nodes);
    put_number(&b, "rows", w->rows);
    put_number(&b, "reads", w->reads);
    put_number(&b, "bytes", w->bytes);
    put_number(&b, "rounded_ns", (uint64_t)w->rounded_ns);
    put_missing(a, &b);
    buf_z(&b, "\"ms\":{");
    for (size_t i = 0; i < COUNT(phases); i++)
        buf_printf(&b, "\"%s\":%.3f,", phases[i], (double)w->ns[i] / 1e6);
    buf_printf(&b, "\"query\":%.3f},\"plan\":[", (double)took_ns / 1e6);
    buf_str(&b, buf_view(w->explain));
    buf_z(&b, "],\"more\":");
    buf_u64(&b, w->left_out);
    buf_byte(&b, '}');
    str text = b.failed ? S("{}") : arena_str(a->arena, buf_view(&b));
    buf_release(&b);
    return text;
}
