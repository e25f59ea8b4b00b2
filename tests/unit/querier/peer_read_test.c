// SPDX-License-Identifier: Apache-2.0
//
// A reading that is shared with another querier, which answers truly, wrongly or not at all: the
// sums are those of reading alone.
#include "codec/pb.h"
#include "lib/await.h"
#include "lib/listener.h"
#include "querier/merge/merged_int.h"
#include "querier/peer/peer_read.h"
#include "rpc/route.h"
#include "unit/querier/month.h"

#include <stdio.h>

#define BODY_MOST ((size_t)16 << 20)

enum conduct {
    TRUE_SHARE,
    NO_ANSWER,
    FAULT_THEN_GARBAGE,     // names an object, and goes on with what is no message
    FAULT_OF_OTHER_OBJECT,  // names one that it was asked for, and one that it was not
    FAULT,
};

struct scene {
    struct rig rig;
    struct loop *loop;
    struct client *client;
    struct router *router;
    struct server *server;
    struct members *members;
    atomic_int conduct;
    atomic_uint asked;
};

static void put_fault(struct buf *out, str object)
{
    size_t mark = pb_begin(out, 2);
    pb_put_bytes(out, 1, object);
    pb_put_u64(out, 2, ERR_DATA_LOSS);
    pb_put_bytes(out, 3, S("as told"));
    pb_end(out, mark);
}

// The object of the first piece that is asked for.
static str first_object(str question)
{
    struct pb_reader r = pb_reader(question);
    while (pb_next(&r)) {
        if (r.field != 2) continue;
        struct pb_reader piece = pb_reader(r.bytes);
        while (pb_next(&piece)) {
            if (piece.field == 1) return piece.bytes;
        }
    }
    return (str){0};
}

static bool answer(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    struct scene *s = self;
    enum conduct how = (enum conduct)atomic_load(&s->conduct);
    atomic_fetch_add(&s->asked, 1);
    if (how == NO_ANSWER) return err_set(e, ERR_UNAVAILABLE, "as told");
    if (how == TRUE_SHARE)
        return peer_read_answer(s->rig.blocks, &s->rig.memory, 0, &x->req, in, out, e);
    put_fault(out, first_object(in));
    if (how == FAULT_THEN_GARBAGE) buf_z(out, "\x07");
    if (how == FAULT_OF_OTHER_OBJECT) put_fault(out, S("v1/00/none"));
    return buf_ok(out, e);
}

static const struct rpc_method methods[] = {
    {.path = PEER_READ_PATH, .run = answer, .auth = ROUTE_INTERNAL, .rank = RANK_QUERIER}};

static void open_scene(struct scene *s)
{
    static struct lane *const lanes[RANK_COUNT];
    memset(s, 0, sizeof *s);
    rig_make(&s->rig, 11, 600, 8 << 20);
    s->rig.req.tenant = S("tenant");
    struct router_options o = {.body_max = BODY_MOST,
                               .answer_max = BODY_MOST,
                               .memory = &s->rig.memory};
    s->router = router_new(&o);
    router_add_rpc(s->router, methods, COUNT(methods), s, lanes);
    assert_ok((s->loop = loop_new("test", e)));
    assert_ok((s->client = client_new(s->loop, &s->rig.memory, 4, e)));
    struct server_options listen =
        listener_for("internal", "127.0.0.1:0", &s->rig.memory, RANK_QUERIER);
    assert_ok((s->server = server_open(&listen, router_app(s->router), &s->loop, 1, e)));
    assert_ok((s->members = members_new(e)));
    char entry[64];
    snprintf(entry, sizeof entry, "other=127.0.0.1:%u", server_port(s->server));
    assert_ok(members_add(s->members, MEMBER_QUERIER, str_of(entry), e));
}

static void close_scene(struct scene *s)
{
    server_drain(s->server, 0);
    server_close(s->server);
    client_free(s->client);
    loop_free(s->loop);
    router_free(s->router);
    members_free(s->members);
    rig_drop(&s->rig);
}

// Each hour of two days from its leaf or its segments, so that there is much to share.
static struct month_plan two_days(const struct month *f)
{
    struct month_plan p = {0};
    for (int64_t h = 0; h < 48; h++) {
        int64_t from = MONTH_FROM + h * SLOT_HOUR;
        if (f->raw[h]) month_piece(&p, f->raw[h], LEVEL_NODES, from, from + SLOT_HOUR);
        for (size_t i = 0; i < 2 && !f->raw[h]; i++) {
            const struct level_object *o = f->segments[h][i];
            if (o) month_piece(&p, o, LEVEL_NODES, from, from + SLOT_HOUR);
        }
    }
    assert_true(p.p.n > 10);
    return p;
}

// The sums as text; the arena's.
static str read_with(struct scene *s, bool shared, struct block_reads *out)
{
    const struct query q = {.tree.wanted = true,
                            .from_ns = MONTH_FROM,
                            .to_ns = MONTH_FROM + 2 * SLOT_DAY};
    struct month_plan p = two_days(s->rig.month);
    const struct block_task task = {&q, &p.p, NULL, false};
    const struct peer_readers readers = {.client = s->client,
                                         .members = shared ? s->members : NULL,
                                         .self = S("self"),
                                         .split_bytes = 1,
                                         .answer_max = BODY_MOST};
    struct merged m;
    *out = (struct block_reads){0};
    assert_ok(merged_init(&m, &s->rig.memory, 0, true, e));
    assert_ok(peer_read(&readers, s->rig.blocks, &s->rig.req, &task, &m, out, e));
    assert_ok(merged_finish(&m, e));
    str sums = merge_text(&arena, &m.stacks);
    str text = arena_printf(&arena, "%llu: %.*s", (unsigned long long)m.profiles, STR(sums));
    merged_release(&m);
    return text;
}

// Again, until the other one was asked: on a busy machine it may be given up before.
static str read_shared(struct scene *s, struct block_reads *out)
{
    unsigned before = atomic_load(&s->asked);
    str text = {0};
    AWAIT((text = read_with(s, true, out), atomic_load(&s->asked) > before));
    return text;
}

static void a_shared_reading_has_the_sums_of_one_reader_alone(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum conduct conduct;
    } cases[] = {{"a true share", TRUE_SHARE},
                 {"no answer", NO_ANSWER},
                 {"a fault, then garbage", FAULT_THEN_GARBAGE},
                 {"a fault of an object that was not asked for", FAULT_OF_OTHER_OBJECT}};
    struct scene s;
    struct block_reads reads;
    open_scene(&s);
    str alone = read_with(&s, false, &reads);
    assert_int_equal(reads.fault_count, 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        atomic_store(&s.conduct, (int)cases[i].conduct);
        str shared = read_shared(&s, &reads);
        if (reads.fault_count) fail_msg("%s: %s", cases[i].name, reads.faults[0].why.msg);
        if (!str_eq(shared, alone)) fail_msg("%s: %.*s", cases[i].name, STR(shared));
    }
    close_scene(&s);
}

static void an_object_that_a_peer_cannot_read_is_told_as_ones_own(void **state)
{
    (void)state;
    struct scene s;
    struct block_reads reads;
    open_scene(&s);
    atomic_store(&s.conduct, FAULT);
    AWAIT((read_with(&s, true, &reads), reads.fault_count > 0));
    assert_int_equal(reads.fault_count, 1);
    assert_int_equal(reads.faults[0].why.code, ERR_DATA_LOSS);
    assert_string_equal(reads.faults[0].why.msg, "as told");
    assert_non_null(reads.faults[0].object);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(a_shared_reading_has_the_sums_of_one_reader_alone),
        ARENA_TEST(an_object_that_a_peer_cannot_read_is_told_as_ones_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
