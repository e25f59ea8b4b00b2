// SPDX-License-Identifier: Apache-2.0
//
// node.c - the two messages of a probe, written and read.
#include "cluster/node.h"

#include "codec/pb.h"

bool node_knows(id128 id)
{
    static const id128 none;
    return !id128_eq(id, none);
}

// ---- writing

static void put_id(struct buf *out, uint32_t field, const id128 *id)
{
    // A node without a store has no cluster yet, and says nothing of it.
    if (node_knows(*id)) pb_put_bytes(out, field, str_make(id->b, sizeof id->b));
}

static void put_identity(struct buf *out, uint32_t field, const struct node_identity *n)
{
    assert(n->service_count <= NODE_SERVICES_MAX);
    size_t mark = pb_begin(out, field);
    put_id(out, 1, &n->cluster);
    pb_put_bytes_opt(out, 2, n->node);
    put_id(out, 3, &n->boot);
    put_id(out, 4, &n->directory);
    for (size_t i = 0; i < n->service_count; i++)
        pb_put_bytes(out, 5, n->services[i]);
    pb_put_bytes_opt(out, 6, n->address);
    pb_end(out, mark);
}

void node_put_probe(const struct node_identity *from, struct buf *out)
{
    put_identity(out, 1, from);
}

void node_put_answer(const struct node_answer *answer, struct buf *out)
{
    assert(answer->load >= 0 && answer->load <= 1);
    put_identity(out, 1, &answer->node);
    pb_put_u64_opt(out, 2, answer->ready);
    pb_put_double_opt(out, 3, answer->load);
    pb_put_bytes_opt(out, 4, answer->version);
    pb_put_u64_opt(out, 5, answer->weight);
    pb_put_u64_opt(out, 6, (uint64_t)answer->wall_ms);
    pb_put_fixed64_opt(out, 7, answer->list);
}

// ---- reading

static bool read_id(const char *name, str bytes, id128 *id, err *e)
{
    if (bytes.n == 0) return true;
    if (bytes.n != sizeof id->b)
        return err_set(e, ERR_INVALID_ARGUMENT, "%s of a node has %zu bytes, not 16", name,
                       bytes.n);
    memcpy(id->b, bytes.p, sizeof id->b);
    return true;
}

static bool add_service(struct node_identity *n, str name, err *e)
{
    if (n->service_count == NODE_SERVICES_MAX)
        return err_set(e, ERR_OUT_OF_RANGE, "a node names more than %d services",
                       NODE_SERVICES_MAX);
    n->services[n->service_count++] = name;
    return true;
}

static bool read_identity(str bytes, struct node_identity *n, err *e)
{
    *n = (struct node_identity){0};
    // Unknown fields are passed over: nodes of several versions probe each other during an upgrade.
    struct pb_reader r = pb_reader(bytes);
    bool ok = true;
    while (ok && pb_next(&r)) {
        if (r.type != PB_BYTES) continue;
        switch (r.field) {
        case 1:
            ok = read_id("cluster", r.bytes, &n->cluster, e);
            break;
        case 2:
            n->node = r.bytes;
            break;
        case 3:
            ok = read_id("boot", r.bytes, &n->boot, e);
            break;
        case 4:
            ok = read_id("directory", r.bytes, &n->directory, e);
            break;
        case 5:
            ok = add_service(n, r.bytes, e);
            break;
        case 6:
            n->address = r.bytes;
            break;
        default:
            break;
        }
    }
    return ok && pb_done(&r, e);
}

bool node_read_probe(str message, struct node_identity *from, err *e)
{
    *from = (struct node_identity){0};
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES && !read_identity(r.bytes, from, e)) return false;
    }
    return pb_done(&r, e);
}

bool node_read_answer(str message, struct node_answer *answer, err *e)
{
    *answer = (struct node_answer){0};
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES && !read_identity(r.bytes, &answer->node, e))
            return false;
        if (r.field == 2 && r.type == PB_VARINT) answer->ready = r.number != 0;
        if (r.field == 3 && r.type == PB_FIXED64)
            memcpy(&answer->load, &r.number, sizeof answer->load);
        if (r.field == 4 && r.type == PB_BYTES) answer->version = r.bytes;
        if (r.field == 5 && r.type == PB_VARINT)
            answer->weight = (uint32_t)MIN(r.number, (uint64_t)UINT32_MAX);
        if (r.field == 6 && r.type == PB_VARINT)
            answer->wall_ms = (int64_t)MIN(r.number, (uint64_t)INT64_MAX);
        if (r.field == 7 && r.type == PB_FIXED64) answer->list = r.number;
    }
    return pb_done(&r, e);
}
