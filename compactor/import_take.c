// SPDX-License-Identifier: Apache-2.0
//
// import_take.c - message PushRequest, profile by profile, to records of the send buffer. A profile
// that is refused is noted with its number, and does not affect the others.
#include "codec/pb.h"
#include "compactor/import_int.h"
#include "intake/push_series.h"
#include "sys/clock.h"

#include <inttypes.h>

static void note(struct importing *m, uint64_t number, const err *fault)
{
    m->refused++;
    if (m->fault_count == IMPORT_FAULTS_MAX) return;
    m->faults[m->fault_count++] = (struct import_fault){number, *fault};
}

// A push without a time has the present one; an import has none.
static bool check_time(const struct importing *m, const struct profile *p, err *e)
{
    int64_t now = clock_wall_ns();
    if (p->time_ns <= 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "the profile has no time, or one before 1970");
    if (p->time_ns > now + SLOT_HOUR) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "the profile's time, %" PRId64 " s, is in the future",
                       p->time_ns / NS_PER_S);
    }
    if (m->days_retention <= 0 || p->time_ns > now - m->days_retention) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "the profile's time, %" PRId64 " s, is before all that compactor.days_retention "
                   "keeps",
                   p->time_ns / NS_PER_S);
}

// As pipeline_pprof, with a check between decoding and the rest.
static bool take_profile(struct importing *m, struct arena *scratch, struct pipeline_item *item,
                         err *e)
{
    struct decode_options o = {
        .inflated_max = pipeline_size_max(&m->in),
        .symbol_max = (uint32_t)MIN(m->in.limits->max_profile_symbol_value_length, INT32_MAX),
    };
    struct decoded d = {0};
    bool over_cap = false;
    if (!decode_pprof(scratch, item->bytes, &o, &d, &over_cap, e)) {
        enum discard_reason why = DISCARD_MALFORMED_PROFILE;
        // The decoder names its cap; the answer names the limit.
        if (over_cap) (void)!validate_size(o.inflated_max + 1, m->in.limits, &why, e);
        return false;
    }
    m->bytes += d.profiles[0].encoded_bytes;
    if (!check_time(m, &d.profiles[0], e)) return false;
    // With a client's id the bytes are no part of a row's id: another server may answer the same
    // profile with other bytes.
    bool named = item->client_id.n > 0;
    item->client_id =
        named ? arena_printf(scratch, "import/%.*s", STR(item->client_id)) : S("import");
    if (named) item->bytes = (str){0};
    if (!arena_ok(scratch, e)) return false;
    uint64_t stored = m->in.stored;
    m->in.failed = false;
    pipeline_profile(&m->in, scratch, &d.profiles[0], false, item);
    if (!m->in.failed) return true;  // with stored == m->in.stored nothing was left of it
    assert(m->in.stored == stored);
    *e = m->in.first;
    return false;
}

static bool take_sample(struct importing *m, str bytes, struct pipeline_item item, err *e)
{
    struct arena scratch;
    err fault = {0};
    if (!push_series_sample(bytes, &item, e)) return false;
    arena_init(&scratch, m->memory, SIZE_MAX / 4);
    bool ok = take_profile(m, &scratch, &item, &fault);
    arena_release(&scratch);
    // A profile may be at fault, but not for a lack of memory here: then the request is made again.
    if (!ok && (m->in.exhausted || fault.code == ERR_RESOURCE_EXHAUSTED)) {
        *e = fault;
        return false;
    }
    if (!ok) note(m, m->profiles, &fault);
    m->profiles++;
    return req_alive(m->req, e);
}

static bool take_series(struct importing *m, str series, err *e)
{
    struct pipeline_item item = {0};
    if (!push_series_labels(&m->arena, series, &item, e)) return false;
    struct pb_reader r = pb_reader(series);
    while (pb_next(&r)) {
        if (r.field == 2 && r.type == PB_BYTES && !take_sample(m, r.bytes, item, e)) return false;
    }
    return pb_done(&r, e);
}

bool import_take(struct importing *m, str body, const struct limits *l, err *e)
{
    m->faults = ARENA_ARRAY(&m->arena, struct import_fault, IMPORT_FAULTS_MAX);
    if (!m->faults) return arena_fail(&m->arena, e);
    pipeline_init(&m->in, &m->arena, l, clock_wall_ns(), 0);
    struct pb_reader r = pb_reader(body);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES && !take_series(m, r.bytes, e)) return false;
    }
    if (!pb_done(&r, e)) return err_wrap(e, "unmarshal message");
    if (m->profiles == 0) return err_set(e, ERR_INVALID_ARGUMENT, "no profiles received");
    send_buffer_seal(&m->in.out);
    return true;
}
