// SPDX-License-Identifier: Apache-2.0
//
// otlp.c - a request as a whole: its tables, its layout, and the way through its profiles.
#include "decode/otlp.h"

#include "decode/otlp_int.h"

#include <stdio.h>
#include <stdlib.h>

#define DURATION_NS   INT64_C(10000000000)  // of profiles that do not say theirs, as in Pyroscope
#define LABELS_ADDED  4
#define SERVICE_NONE  "unknown_service"
#define KNOWN_LAYOUTS "1.10 and later, 1.8 and 1.9, 1.7"

const char *otlp_layout_name(enum otlp_layout layout)
{
    static const char *const names[OTLP_LAYOUTS] = {"1.10", "1.8", "1.7"};
    assert(layout < OTLP_LAYOUTS);
    return names[layout];
}

enum otlp_layout otlp_layout_of(const struct otlp *d)
{
    return d->layout;
}

size_t otlp_count(const struct otlp *d)
{
    return d->count;
}

// ---- tables

// Counts the rows, or notes their places. A dictionary that comes twice is one of both.
static bool scan_tables(struct otlp *d, bool note, err *e)
{
    const char *begin = d->all.p;
    struct pb_reader request = pb_reader(d->all);
    while (pb_next(&request)) {
        if (request.field != 2) continue;
        struct pb_reader r = pb_reader(request.bytes);
        const uint8_t *at = r.at;
        for (; pb_next(&r); at = r.at) {
            if (r.field >= OTLP_TABLES) continue;
            if (r.type != PB_BYTES) {
                return err_set(e, ERR_INVALID_ARGUMENT, "dictionary: field %u has wire type %d",
                               r.field, (int)r.type);
            }
            struct otlp_rows *rows = &d->tables[r.field];
            if (note) rows->at[rows->n] = (uint32_t)((const char *)at - begin);
            rows->n++;
        }
        if (!pb_done(&r, e)) return err_wrap(e, "dictionary");
    }
    return pb_done(&request, e);
}

static bool make_tables(struct otlp *d, err *e)
{
    if (!scan_tables(d, false, e)) return false;
    for (int i = 1; i < OTLP_TABLES; i++) {
        d->tables[i].at = ARENA_ARRAY(d->a, uint32_t, d->tables[i].n);
        if (!d->tables[i].at) return arena_fail(d->a, e);
        d->tables[i].n = 0;
    }
    if (!scan_tables(d, true, e)) return false;
    d->location_rows = ARENA_ARRAY(d->a, uint32_t, d->tables[OTLP_LOCATIONS].n);
    d->function_rows = ARENA_ARRAY(d->a, uint32_t, d->tables[OTLP_FUNCTIONS].n);
    d->mapping_rows = ARENA_ARRAY(d->a, uint32_t, d->tables[OTLP_MAPPINGS].n);
    d->attribute_rows = ARENA_ARRAY(d->a, uint32_t, d->tables[OTLP_ATTRIBUTES].n);
    return arena_ok(d->a, e);
}

static bool has_parts(str bytes, err *e)
{
    bool dictionary = false;
    bool resources = false;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field > 2) continue;
        if (r.type != PB_BYTES) {
            return err_set(e, ERR_INVALID_ARGUMENT, "field %u has wire type %d", r.field,
                           (int)r.type);
        }
        dictionary |= r.field == 2;
        resources |= r.field == 1;
    }
    if (!pb_done(&r, e)) return false;
    if (!dictionary) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "missing profile metadata dictionary, which all layouts that are known "
                       "have (" KNOWN_LAYOUTS ")");
    }
    return resources || err_set(e, ERR_INVALID_ARGUMENT, "missing resource profiles");
}

// ---- the way through the request

static void rewind_to_start(struct otlp *d)
{
    d->resources = pb_reader(d->all);
    d->scopes = d->profiles = pb_reader((str){0});
    d->base.has_resource = d->base.has_scope = false;
}

// The next field `number` of a message. False at the end, or at a fault that pb_done tells.
static bool next_message(struct pb_reader *r, uint32_t number)
{
    while (pb_next(r)) {
        if (r->field != number) continue;
        if (r->type == PB_BYTES) return true;
        r->fault = "a message is of another wire type";
    }
    return false;
}

// The next message Profile; empty with *end at the end.
static bool next_profile(struct otlp *d, str *out, bool *end, err *e)
{
    *end = false;
    for (;;) {
        if (next_message(&d->profiles, 2)) {
            *out = d->profiles.bytes;
            return true;
        }
        if (!pb_done(&d->profiles, e)) return err_wrap(e, "ScopeProfiles");
        if (next_message(&d->scopes, 2)) {
            d->profiles = pb_reader(d->scopes.bytes);
            d->base.scope = d->scopes.bytes;
            d->base.has_scope = false;
            continue;
        }
        if (!pb_done(&d->scopes, e)) return err_wrap(e, "ResourceProfiles");
        if (!next_message(&d->resources, 1)) break;
        d->scopes = pb_reader(d->resources.bytes);
        d->base.resource = d->resources.bytes;
        d->base.has_resource = false;
    }
    *end = true;
    return pb_done(&d->resources, e);
}

// Values without timestamps are a total, timestamps without values are counted. In 1.7 the eBPF
// profiler sent one value for all timestamps.
static bool contradicts(const struct otlp *d)
{
    const struct otlp_sample *s = &d->sample;
    if (s->value_count == 0 || s->stamps == 0 || s->value_count == s->stamps) return false;
    return d->layout != OTLP_1_7 || (s->value_count > 1 && d->head.type_count == 1);
}

static bool no_type(err *e)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "sample type is missing");
}

static bool check_profile(struct otlp *d, str message, err *e)
{
    if (!otlp_read_head(d, message, &d->head, e)) return false;
    if (d->head.samples == 0) return true;
    d->count++;
    d->faults += d->head.type_count == 0;
    if (d->head.type_count == 0 && !d->lenient) return no_type(e);
    struct pb_reader r = pb_reader(message);
    while (next_message(&r, 2)) {
        if (!otlp_read_sample(d, r.bytes, &d->head, e)) return false;
        d->contradicting += contradicts(d);
    }
    return pb_done(&r, e);
}

// Does the whole request fit d->layout? Layouts differ in their wire types, but rows that are not
// there tell them apart too, so a message may have such rows only if it fits none otherwise.
static bool fits(struct otlp *d, err *e)
{
    bool end = false;
    str message = {0};
    d->count = d->faults = d->valued = d->contradicting = 0;
    rewind_to_start(d);
    for (size_t i = 0; next_profile(d, &message, &end, e); i++) {
        if (end) return true;
        if (!check_profile(d, message, e)) return err_wrap(e, "profile %zu", i);
    }
    return false;
}

// The layout in which least is at fault, of equal ones the newest. Where no sample has a value the
// layout is the wrong one, or nothing would be stored.
static bool find_faulty_layout(struct otlp *d)
{
    size_t least = SIZE_MAX;
    enum otlp_layout best = OTLP_LAYOUTS;
    err ignored = {0};
    for (int i = 0; i < OTLP_LAYOUTS; i++) {
        d->layout = (enum otlp_layout)i;
        if (!fits(d, &ignored) || d->valued == 0) continue;
        if (d->faults + d->contradicting >= least) continue;
        least = d->faults + d->contradicting;
        best = d->layout;
    }
    d->layout = best;
    return best < OTLP_LAYOUTS && fits(d, &ignored);
}

static bool find_layout(struct otlp *d, err *e)
{
    err why[OTLP_LAYOUTS] = {0};
    int faulty = OTLP_LAYOUTS;
    for (int i = 0; i < OTLP_LAYOUTS; i++) {
        d->layout = (enum otlp_layout)i;
        bool fit = fits(d, &why[i]);
        if (fit && d->contradicting == 0) return true;
        if (fit) faulty = MIN(faulty, i);
        if (d->a->exhausted) return arena_fail(d->a, e);
    }
    d->lenient = !d->o.refuse_dangling;
    if (d->lenient && find_faulty_layout(d)) return true;
    if (d->a->exhausted) return arena_fail(d->a, e);
    d->layout = (enum otlp_layout)faulty;
    d->lenient = false;
    if (faulty < OTLP_LAYOUTS && fits(d, &why[faulty])) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the message fits no layout that is known: not 1.10 and later (%s), not 1.8 and "
                   "1.9 (%s), not 1.7 (%s)",
                   why[OTLP_1_10].msg, why[OTLP_1_8].msg, why[OTLP_1_7].msg);
}

// Do keys of the table include service.name? Most requests have it in resources only.
static bool find_services(struct otlp *d, err *e)
{
    for (uint32_t i = 0; i < d->tables[OTLP_ATTRIBUTES].n && !d->has_services; i++) {
        str key = {0};
        if (!otlp_attribute_key(d, i, &key, e)) return false;
        d->has_services = str_is(key, "service.name");
    }
    return true;
}

static void release(void *arg)
{
    struct otlp *d = arg;
    map_release(&d->service_rows);
    arena_release(&d->base.memory);
}

static struct otlp *begin(struct arena *a, str bytes, const struct decode_options *o, err *e)
{
    if (bytes.n > INT32_MAX) {
        err_set(e, ERR_RESOURCE_EXHAUSTED, "OTLP: %zu bytes, the limit is 2 GiB", bytes.n);
        return NULL;
    }
    struct otlp *d = ARENA_NEW(a, struct otlp);
    if (!d) {
        arena_fail(a, e);
        return NULL;
    }
    d->a = a;
    d->o = *o;
    d->all = bytes;
    map_init(&d->service_rows, a->budget);
    arena_init(&d->base.memory, a->budget, a->cap);
    if (arena_defer(a, release, d)) return d;
    arena_fail(a, e);
    return NULL;
}

bool otlp_open(struct arena *a, str bytes, const struct decode_options *o, struct otlp **out,
               err *e)
{
    if (!has_parts(bytes, e)) return false;
    struct otlp *d = begin(a, bytes, o, e);
    if (!d || !make_tables(d, e) || !find_layout(d, e) || !find_services(d, e)) return false;
    rewind_to_start(d);
    *out = d;
    return true;
}

bool otlp_from_json(struct arena *a, str text, str *out, err *e)
{
    bool old = false;
    if (!decode_plain(a, text, &text, e)) return false;
    if (!otlp_json_read(a, text, OTLP_1_10, out, &old, e)) return false;
    return !old || otlp_json_read(a, text, OTLP_1_7, out, &old, e);
}

bool otlp_open_json(struct arena *a, str text, const struct decode_options *o, struct otlp **out,
                    err *e)
{
    str bytes = {0};
    return otlp_from_json(a, text, &bytes, e) && otlp_open(a, bytes, o, out, e);
}

// ---- labels

// Labels that are made here, so a sender cannot set them.
static bool is_ours(str name)
{
    static const str ours[] = {S_INIT("__delta__"), S_INIT("__otel__"), S_INIT(LABEL_NAME)};
    return str_among(name, ours, COUNT(ours));
}

static bool add_base(struct otlp *d, str message, err *e)
{
    struct otlp_base *b = &d->base;
    label one = {0};
    if (!otlp_key_value(d, &b->memory, message, &one, e)) return false;
    // Of several with one name the first counts, so that the resource's win.
    if (one.name.n == 0 || one.value.n == 0 || is_ours(one.name) ||
        labels_has((labels){b->v, b->n}, one.name)) {
        return true;
    }
    if (b->n == OTLP_LABELS_MAX) {
        b->surplus++;
        return true;
    }
    if (!arena_grow(&b->memory, &b->v, &b->cap, b->n + 1, sizeof *b->v)) {
        return arena_fail(&b->memory, e);
    }
    b->v[b->n++] = one;
    return true;
}

// Attributes of the messages in field 1 (Resource, InstrumentationScope), which are in their field
// `number`.
static bool add_bases(struct otlp *d, str message, uint32_t number, err *e)
{
    struct pb_reader outer = pb_reader(message);
    while (next_message(&outer, 1)) {
        struct pb_reader r = pb_reader(outer.bytes);
        while (next_message(&r, number)) {
            if (!add_base(d, r.bytes, e)) return false;
        }
        if (!pb_done(&r, e)) return false;
    }
    return pb_done(&outer, e);
}

static bool read_base(struct otlp *d, err *e)
{
    struct otlp_base *b = &d->base;
    if (!b->has_resource) {
        arena_release(&b->memory);
        b->v = NULL;
        b->n = b->cap = b->surplus = 0;
        if (!add_bases(d, b->resource, 1, e)) return err_wrap(e, "Resource");
        b->of_resource = b->n;
        b->has_resource = true;
        b->has_scope = false;
    }
    if (b->has_scope) return true;
    b->n = b->of_resource;
    if (!add_bases(d, b->scope, 3, e)) return err_wrap(e, "InstrumentationScope");
    b->has_scope = true;
    return true;
}

static str service_of(const struct otlp *d, struct arena *a)
{
    labels base = {d->base.v, d->base.n};
    if (d->service) return d->services[d->service - 1];
    str name = labels_get(base, S("service.name"));
    if (name.n == 0) name = labels_get(base, S(LABEL_SERVICE));
    if (name.n) return name;
    name = labels_get(base, S("process.executable.name"));
    return name.n ? arena_printf(a, SERVICE_NONE ":%.*s", STR(name)) : S(SERVICE_NONE);
}

static bool make_labels(const struct otlp *d, struct arena *a, str name, labels *out, err *e)
{
    label *v = ARENA_ARRAY(a, label, d->base.n + LABELS_ADDED);
    if (!v) return arena_fail(a, e);
    size_t n = 0;
    v[n++] = (label){S("__delta__"), S("false")};
    v[n++] = (label){S("__otel__"), S("true")};
    v[n++] = (label){S(LABEL_NAME), name};
    for (size_t i = 0; i < d->base.n; i++) {
        if (!str_is(d->base.v[i].name, LABEL_SERVICE)) v[n++] = d->base.v[i];
    }
    v[n++] = (label){S(LABEL_SERVICE), service_of(d, a)};
    *out = (labels){v, n};
    return arena_ok(a, e);
}

// ---- types

static bool read_type(const struct otlp *d, str message, struct profile_type *t, err *e)
{
    bool empty = d->tables[OTLP_STRINGS].n == 0;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.type != PB_VARINT || r.field > 2 || (empty && r.number == 0)) continue;
        if (!otlp_string(d, r.number, r.field == 1 ? &t->type : &t->unit, e)) return false;
    }
    return pb_done(&r, e);
}

static bool is_type(const struct profile_type *t, const char *type, const char *unit)
{
    return str_is(t->type, type) && str_is(t->unit, unit);
}

// The type as Pyroscope names it, and what its values are multiplied by.
static bool make_type(const struct otlp *d, struct profile *p, str *name, int64_t *scale, err *e)
{
    const struct otlp_head *h = &d->head;
    struct profile_type *t = p->types;
    struct profile_type period = {0};
    if (h->type_count == 0) return no_type(e);
    if (!read_type(d, h->types[d->type], t, e)) return err_wrap(e, "sample type");
    if (!read_type(d, h->period_type, &period, e)) return err_wrap(e, "period type");
    p->type_count = 1;
    *scale = 1;
    if (h->period > 0) {  // a negative one says nothing
        p->period = h->period;
        p->period_type = period;
    }
    // async-profiler and probes of the eBPF profiler name no period; Pyroscope refuses these for
    // want of a name.
    bool by_type = d->o.name_of_type && p->period_type.type.n == 0;
    *name = by_type ? t->type : p->period_type.type;
    if (is_type(t, "samples", "count") && is_type(&p->period_type, "cpu", "nanoseconds")) {
        *name = S("process_cpu");
        *t = p->period_type;
        *scale = h->period;
    } else if (is_type(t, "off_cpu", "nanoseconds") && p->period_type.type.n == 0 &&
               p->period_type.unit.n == 0) {
        *name = S("off_cpu");
    }
    return true;
}

// ---- samples of a service

// The service that the sample last read names itself; 0 if it names none.
static bool own_service(struct otlp *d, uint32_t *service, err *e)
{
    *service = 0;
    for (size_t i = 0; d->has_services && i < d->sample.attribute_count && *service == 0; i++) {
        const struct otlp_attribute *one = otlp_attribute(d, d->sample.attributes[i], e);
        if (!one) return false;
        *service = one->service;
    }
    return true;
}

static int foreign_order(const void *a, const void *b)
{
    const struct otlp_foreign *x = a;
    const struct otlp_foreign *y = b;
    if (x->service != y->service) return x->service < y->service ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static bool find_foreign(struct otlp *d, err *e)
{
    d->foreign_count = d->foreign_at = 0;
    if (!d->has_services) return true;
    struct pb_reader r = pb_reader(d->message);
    const uint8_t *at = r.at;
    for (; pb_next(&r); at = r.at) {
        uint32_t service = 0;
        if (r.field != 2) continue;
        if (!otlp_read_sample(d, r.bytes, &d->head, e) || !own_service(d, &service, e)) {
            return false;
        }
        if (service == 0) continue;
        if (!arena_grow(d->a, &d->foreign, &d->foreign_cap, d->foreign_count + 1,
                        sizeof *d->foreign)) {
            return arena_fail(d->a, e);
        }
        d->foreign[d->foreign_count++] =
            (struct otlp_foreign){.service = service,
                                  .at = (uint32_t)((const char *)at - d->all.p)};
    }
    if (d->foreign_count) qsort(d->foreign, d->foreign_count, sizeof *d->foreign, foreign_order);
    return pb_done(&r, e);
}

// Reads the next sample of the service at hand to d->sample; *end if there is none.
static bool any_sample(struct otlp *d, bool *end, err *e)
{
    uint32_t service = 0;
    *end = false;
    while (d->service == 0 && next_message(&d->samples, 2)) {
        if (!otlp_read_sample(d, d->samples.bytes, &d->head, e) || !own_service(d, &service, e)) {
            return false;
        }
        if (service == 0) return true;
    }
    bool more = d->service && d->foreign_at < d->foreign_count &&
                d->foreign[d->foreign_at].service == d->service;
    *end = !more;
    if (!more) return pb_done(&d->samples, e);
    struct pb_reader r = pb_reader(str_slice(d->all, d->foreign[d->foreign_at++].at, d->all.n));
    return pb_next(&r) && otlp_read_sample(d, r.bytes, &d->head, e);
}

// As any_sample, without samples that have no value, or contradict themselves.
static bool next_sample(struct otlp *d, bool *end, err *e)
{
    for (;;) {
        if (!any_sample(d, end, e)) return false;
        bool empty = d->sample.value_count == 0 && d->sample.stamps == 0;
        if (*end || (!empty && !contradicts(d))) return true;
        if (d->bad_samples++) continue;
        if (empty) {
            err_set(&d->bad, ERR_INVALID_ARGUMENT,
                    "sample value is required: profile %zu has a sample of stack %llu with "
                    "neither values nor timestamps",
                    d->number, (unsigned long long)d->sample.stack);
            continue;
        }
        err_set(&d->bad, ERR_INVALID_ARGUMENT,
                "profile %zu has a sample of stack %llu with %llu values and %llu timestamps, "
                "which contradict each other",
                d->number, (unsigned long long)d->sample.stack,
                (unsigned long long)d->sample.value_count, (unsigned long long)d->sample.stamps);
    }
}

static void first_service(struct otlp *d)
{
    d->service = 0;
    d->foreign_at = 0;
    d->samples = pb_reader(d->message);
}

// After the samples of a service come those of the next one, then those of the next type.
static void go_on(struct otlp *d)
{
    if (d->foreign_at < d->foreign_count) {
        d->service = d->foreign[d->foreign_at].service;
        return;
    }
    d->type++;
    first_service(d);
    if (d->type == d->head.type_count) d->message = (str){0};
}

// ---- parts

static bool fill(struct otlp_part *x, bool *end, err *e)
{
    struct otlp *d = x->d;
    do {
        if (!next_sample(d, end, e)) return false;
        if (*end) return true;
        if (!otlp_part_add(x, e)) return false;
    } while (x->a->used < OTLP_PART_BYTES_MAX);
    return true;
}

static bool make_part(struct otlp *d, struct arena *scratch, struct otlp_profile *out, err *e)
{
    struct profile *p = &out->profile;
    struct otlp_part x = {.d = d, .a = scratch, .p = p};
    str name = {0};
    bool end = false;
    p->types = ARENA_NEW(scratch, struct profile_type);
    if (!p->types) return arena_fail(scratch, e);
    if (!read_base(d, e) || !make_type(d, p, &name, &x.scale, e) ||
        !make_labels(d, scratch, name, &out->labels, e)) {
        return false;
    }
    bool ok = fill(&x, &end, e);
    otlp_part_end(&x);
    if (!ok) return false;
    if (end) go_on(d);
    losses_add(&p->losses, LOSS_LABELS_LIMIT, d->base.surplus);
    losses_add(&p->losses, LOSS_BAD_SAMPLE, p->sample_count ? d->bad_samples : 0);
    if (p->sample_count) {
        out->bad = d->bad;
        d->bad_samples = 0;
        d->bad = (err){0};
    }
    p->time_ns = d->head.time_ns;
    p->duration_ns = d->head.duration_ns ? d->head.duration_ns : DURATION_NS;
    p->string_count = d->tables[OTLP_STRINGS].n;
    p->encoded_bytes = decode_pprof_size(p);
    return true;
}

static bool next_with_samples(struct otlp *d, bool *end, err *e)
{
    do {
        if (!next_profile(d, &d->message, end, e)) return false;
        if (*end) return true;
        if (!otlp_read_head(d, d->message, &d->head, e)) return false;
    } while (d->head.samples == 0);
    d->number = d->number_next++;
    d->bad_samples = 0;
    d->bad = (err){0};
    d->type = 0;
    first_service(d);
    return find_foreign(d, e);
}

enum otlp_step otlp_next(struct otlp *d, struct arena *scratch, struct otlp_profile *out, err *e)
{
    for (;;) {
        bool end = false;
        bool ok = d->message.n || next_with_samples(d, &end, e);
        if (end) return OTLP_END;
        *out = (struct otlp_profile){.message = d->message, .number = d->number};
        if (ok && make_part(d, scratch, out, e)) {
            if (out->profile.sample_count) return OTLP_PROFILE;
            // All samples of the resource's service are those of others, or contradict themselves.
            if (d->message.n || d->bad_samples == 0) continue;
            *e = d->bad;
        }
        d->message = (str){0};
        return OTLP_REFUSED;
    }
}
