// SPDX-License-Identifier: Apache-2.0
//
// cli_speedscope.c - profiles in speedscope's file format
// (https://www.speedscope.app/file-format-schema.json): frames are shared, each sample is the list
// of its frames from the root.
#include "codec/json.h"
#include "deploy/cli/cli_profiles.h"
#include "model/frame_name.h"

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

static const char *unit_of(str unit)
{
    static const char *const known[] = {"nanoseconds", "microseconds", "milliseconds", "seconds",
                                        "bytes"};
    for (size_t i = 0; i < COUNT(known); i++)
        if (str_is(unit, known[i])) return known[i];
    return "none";
}

// Frames of speedscope are a profile's functions, and behind them its locations whose functions are
// not named, or that have none.
struct shared {
    uint32_t *functions;   // of each profile the number of its first function,
    uint32_t **addresses;  // and the numbers of such locations
};

static str speedscope_name_of(const struct profile_function *f)
{
    return f->name.n ? f->name : f->system_name;
}

static bool speedscope_is_named(const struct profile *p, const struct profile_location *l)
{
    for (uint32_t i = 0; i < l->line_count; i++) {
        if (speedscope_name_of(&p->functions[p->lines[l->first_line + i].function]).n == 0)
            return false;
    }
    return l->line_count > 0;
}

static void put_frame(struct buf *out, str name, str file, int64_t line)
{
    buf_z(out, "{\"name\":");
    json_put_string(out, name);
    if (file.n) {
        buf_z(out, ",\"file\":");
        json_put_string(out, file);
    }
    if (line > 0) buf_printf(out, ",\"line\":%lld", (long long)line);
    buf_byte(out, '}');
}

static bool put_shared(struct arena *a, const struct decoded *d, struct shared *s, struct buf *out,
                       err *e)
{
    uint32_t n = 0;
    s->functions = ARENA_ARRAY(a, uint32_t, d->count + 1);
    s->addresses = ARENA_ARRAY(a, uint32_t *, d->count + 1);
    if (!s->functions || !s->addresses) return arena_fail(a, e);
    for (size_t i = 0; i < d->count; i++) {
        const struct profile *p = &d->profiles[i];
        s->functions[i] = n;
        for (uint32_t k = 0; k < p->function_count; k++, n++) {
            const struct profile_function *f = &p->functions[k];
            if (n) buf_z(out, ",\n");
            put_frame(out, speedscope_name_of(f), f->filename, f->start_line);
        }
        s->addresses[i] = ARENA_ARRAY(a, uint32_t, (size_t)p->location_count + 1);
        if (!s->addresses[i]) return arena_fail(a, e);
        for (uint32_t k = 0; k < p->location_count; k++) {
            char text[FRAME_NAME_MAX];
            const struct profile_location *l = &p->locations[k];
            if (speedscope_is_named(p, l)) continue;
            s->addresses[i][k] = n;
            str file = l->mapping == PROFILE_NONE ? (str){0} : p->mappings[l->mapping].filename;
            if (n++) buf_z(out, ",\n");
            put_frame(out, frame_name_made(file, l->address, text), (str){0}, 0);
        }
    }
    return true;
}

static void put_stack(struct buf *out, const struct profile *p, const struct profile_sample *sample,
                      uint32_t functions, const uint32_t *addresses)
{
    const char *between = "";
    buf_byte(out, '[');
    for (uint32_t k = sample->location_count; k-- > 0;) {
        uint32_t at = p->stack_locations[sample->first_location + k];
        const struct profile_location *l = &p->locations[at];
        for (uint32_t i = l->line_count; i-- > 0; between = ",") {
            uint32_t function = p->lines[l->first_line + i].function;
            bool named = speedscope_name_of(&p->functions[function]).n > 0;
            buf_z(out, between);
            buf_u64(out, named ? (uint64_t)functions + function : addresses[at]);
        }
        if (l->line_count) continue;
        buf_z(out, between);
        buf_u64(out, addresses[at]);
        between = ",";
    }
    buf_byte(out, ']');
}

static bool put_profile(const struct profiles *p, const struct profiles_type *t,
                        const struct shared *s, struct buf *out, err *e)
{
    const struct profile *one = &p->decoded.profiles[t->profile];
    int64_t total = 0;
    struct buf name;
    buf_init(&name, NULL, 4096);
    profiles_put_type(&name, t);
    buf_z(out, "{\"type\":\"sampled\",\"name\":");
    json_put_string(out, buf_view(&name));
    buf_release(&name);
    buf_printf(out, ",\"unit\":\"%s\",\"startValue\":0,\"samples\":[", unit_of(t->unit));
    bool any = false;
    for (uint32_t i = 0; i < one->sample_count; i++) {
        int64_t value = one->values[(size_t)i * one->type_count + t->column];
        if (value == 0) continue;
        // speedscope has no samples that take something away.
        if (value < 0) {
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "%.*s: speedscope cannot hold the negative value %lld", STR(t->type),
                           (long long)value);
        }
        if (__builtin_add_overflow(total, value, &total))
            return err_set(e, ERR_OUT_OF_RANGE, "%.*s: the sum does not fit 64 bits", STR(t->type));
        buf_z(out, any ? ",\n" : "");
        put_stack(out, one, &one->samples[i], s->functions[t->profile], s->addresses[t->profile]);
        any = true;
    }
    buf_z(out, "],\"weights\":[");
    any = false;
    for (uint32_t i = 0; i < one->sample_count; i++) {
        int64_t value = one->values[(size_t)i * one->type_count + t->column];
        if (value == 0) continue;
        if (any) buf_byte(out, ',');
        buf_i64(out, value);
        any = true;
    }
    buf_printf(out, "],\"endValue\":%lld}", (long long)total);
    return true;
}

bool profiles_put_speedscope(struct arena *a, const struct profiles *p, const size_t *rows,
                             size_t n, str name, struct buf *out, err *e)
{
    struct shared shared;
    assert(n > 0 && rows[n - 1] < p->count);
    buf_z(out, "{\"$schema\":\"" SCHEMA "\",\"exporter\":\"flametree\",\"name\":");
    json_put_string(out, name);
    buf_z(out, ",\"activeProfileIndex\":0,\"shared\":{\"frames\":[");
    if (!put_shared(a, &p->decoded, &shared, out, e)) return false;
    buf_z(out, "]},\n\"profiles\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) buf_z(out, ",\n");
        if (!put_profile(p, &p->types[rows[i]], &shared, out, e)) return false;
    }
    buf_z(out, "]}\n");
    return buf_ok(out, e);
}
