// SPDX-License-Identifier: Apache-2.0
//
// churn.c - which labels come and go with processes, so that projections leave them out.
#include "compactor/merge_int.h"

#include <stdlib.h>

// More values of a label than this in an hour are not names of deployments.
#define VALUES_MAX 64

// So many values that all look like ids are enough.
#define IDS_MIN 8

static bool named_so(str name)
{
    static const str names[] = {S_INIT("address"),
                                S_INIT("container.id"),
                                S_INIT("container_id"),
                                S_INIT("host"),
                                S_INIT("host.name"),
                                S_INIT("host_ip"),
                                S_INIT("hostname"),
                                S_INIT("instance"),
                                S_INIT("instance_id"),
                                S_INIT("ip"),
                                S_INIT("k8s.pod.name"),
                                S_INIT("k8s.pod.uid"),
                                S_INIT("k8s_pod_name"),
                                S_INIT("k8s_pod_uid"),
                                S_INIT("pid"),
                                S_INIT("pod"),
                                S_INIT("pod_ip"),
                                S_INIT("pod_name"),
                                S_INIT("pod_uid"),
                                S_INIT("process.pid"),
                                S_INIT("process_id"),
                                S_INIT("process_pid"),
                                S_INIT("request_id"),
                                S_INIT("service.instance.id"),
                                S_INIT("service_instance_id"),
                                S_INIT("session_id"),
                                S_INIT("__session_id__"),
                                S_INIT("span_id"),
                                S_INIT("thread_id"),
                                S_INIT("trace_id")};
    return str_among(name, names, COUNT(names));
}

static bool kept_always(str name)
{
    return str_is(name, LABEL_PROFILE_TYPE) || str_is(name, LABEL_SERVICE) ||
           str_is(name, LABEL_SAMPLED) || str_is(name, LABEL_NAME);
}

// Hex digits and hyphens, with a digit among at least twelve of them: UUIDs, hashes, container ids.
static bool looks_like_id(str value)
{
    size_t digits = 0;
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        bool digit = c >= '0' && c <= '9';
        bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (!digit && !letter && c != '-') return false;
        digits += digit;
    }
    return value.n >= 12 && digits > 0;
}

// Do values of a label, in order, come and go? They are too many, or all look like ids.
static bool churns(const label *v, size_t n)
{
    size_t values = 0;
    size_t ids = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && str_eq(v[i].value, v[i - 1].value)) continue;
        values++;
        ids += looks_like_id(v[i].value);
    }
    return values > VALUES_MAX || (values >= IDS_MIN && ids == values);
}

bool churn_find(struct arena *a, const struct input_key *v, size_t n,
                struct block_dropped_labels *out, err *e)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most += v[i].ls.n;
    label *all = ARENA_ARRAY(a, label, most + 1);
    str *names = ARENA_ARRAY(a, str, most + 1);
    if (!all || !names) return arena_fail(a, e);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        // Keys are in order of labels: the same series in several sources counts once.
        if (i && labels_eq(v[i].ls, v[i - 1].ls)) continue;
        for (size_t k = 0; k < v[i].ls.n; k++)
            all[count++] = v[i].ls.v[k];
    }
    if (count) qsort(all, count, sizeof *all, label_order);
    *out = (struct block_dropped_labels){names, 0};
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && str_eq(all[end].name, all[i].name))
            end++;
        str name = all[i].name;
        if (!kept_always(name) && (named_so(name) || churns(all + i, end - i)))
            names[out->n++] = name;
        i = end;
    }
    assert(out->n <= count);
    return true;
}
