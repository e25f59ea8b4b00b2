// SPDX-License-Identifier: Apache-2.0
#include "unit/ingester/object_log_world.h"

#include "manifest/names.h"

#include <stdlib.h>

struct upload {
    struct store_upload upload;
    unsigned name;
    struct buf bytes;
};

size_t world_list_page;

const id128 world_streams[STREAMS] = {{{1}}, {{2}}};

// ---- contents: the bytes of all objects that were ever created

static struct {
    char *p;
    size_t n;
    bool seal;
} contents[CONTENTS];
static size_t content_count;

static uint8_t content_of(str bytes, bool seal)
{
    for (size_t i = 0; i < content_count; i++)
        if (str_eq(str_make(contents[i].p, contents[i].n), bytes)) return (uint8_t)(i + 1);
    assert_true(content_count + 1 < CONTENTS);
    contents[content_count].p = mem_must(bytes.n);
    contents[content_count].n = bytes.n;
    memcpy(contents[content_count].p, bytes.p, bytes.n);
    contents[content_count].seal = seal;
    return (uint8_t)++content_count;
}

// ---- what an actor's operations do

static uint32_t create(struct turn *t, unsigned name, uint8_t content)
{
    struct world *w = t->w;
    if (t->times_out) {
        for (size_t i = 0; i < FLIGHTS; i++) {
            if (w->flights[i][1]) continue;
            w->flights[i][0] = (uint8_t)name;
            w->flights[i][1] = content;
            w->faults--;
            return TIMED_OUT;
        }
        abort();
    }
    if (t->lies) {
        w->swallows--;
        w->swallowed++;
        return MADE;
    }
    if (w->objects[name]) return EXISTS;
    w->objects[name] = content;
    return MADE;
}

// Bits of the numbers of a stream above `after`, a page of them; above these, which are seals.
static uint32_t list(const struct world *w, unsigned stream, unsigned after)
{
    uint32_t bits = 0;
    size_t n = 0;
    for (unsigned i = after; i < NUMBERS && n < world_list_page; i++) {
        uint8_t content = w->objects[stream * NUMBERS + i];
        if (!content) continue;
        bits |= 1u << i | (uint32_t)contents[content - 1].seal << (NUMBERS + i);
        n++;
    }
    return bits;
}

// All objects with entries have the same size, and so have all seals but the one of an empty
// stream.
static uint64_t size_of(bool seal, unsigned number)
{
    uint64_t most = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < content_count; i++) {
        if (contents[i].seal != seal) continue;
        most = MAX(most, contents[i].n);
        least = MIN(least, contents[i].n);
    }
    return seal && number == 1 ? least : most;
}

static uint32_t perform(struct turn *t, enum op op, unsigned name, unsigned argument)
{
    struct world *w = t->w;
    switch (op) {
    case LIST:
        return list(w, name, argument);
    case SIZE:
    case READ:
        w->lies -= t->lies;
        return t->lies ? 0 : w->objects[name];
    case CREATE:
        return create(t, name, (uint8_t)argument);
    case DELETE:
        w->objects[name] = 0;
        return 0;
    case COVER:
        w->covered |= (uint8_t)(1u << argument);
        return 0;
    case WATCH:
        t->blocked = w->written < argument;
        return w->written | (uint32_t)w->twice << 8 | (uint32_t)w->below << 16;
    case PASS:
        memset(w->flights, 0, sizeof w->flights);
        return 0;
    case ASK:
        return w->covered;
    case REGISTERED:
        return !w->unregistered;
    case UNREGISTER:
        w->unregistered = 1;
        return 0;
    }
    abort();
}

// False: the actor's turn is over.
bool turn_operate(struct turn *t, enum op op, unsigned name, unsigned argument, uint32_t *result)
{
    struct world *w = t->w;
    uint32_t head = (uint32_t)op << 28 | name << 20;
    if (t->at < w->steps[t->who]) {
        uint32_t told = w->told[t->who][t->at++];
        assert_int_equal(told >> 20, head >> 20);  // actors do the same when told the same
        *result = told & 0xfffff;
        return true;
    }
    if (t->done) {
        t->frozen = true;
        return false;
    }
    t->done = true;
    assert_true(w->steps[t->who] < STEPS);
    *result = perform(t, op, name, argument);
    t->told = head | *result;
    w->told[t->who][w->steps[t->who]++] = t->told;
    t->at++;
    if (t->blocked) t->frozen = true;
    return !t->blocked;
}

// The actor needs none of its answers any more.
void turn_begin_phase(struct turn *t, uint8_t phase)
{
    if (t->frozen) return;
    t->w->phase[t->who] = phase;
    t->w->steps[t->who] = 0;
    memset(t->w->told[t->who], 0, sizeof t->w->told[t->who]);
    t->at = 0;
}

void turn_keep_shelf(struct turn *t, const struct object_log_shelf *s)
{
    if (t->frozen) return;
    memset(t->w->shelf[t->who], 0, sizeof t->w->shelf[t->who]);
    assert_in_range(s->n, 0, CUTS);
    for (size_t i = 0; i < s->n; i++) {
        const struct object_log_place *p = &s->v[i];
        t->w->shelf[t->who][i] =
            (struct kept){(uint8_t)p->cut,      (uint8_t)p->first,   (uint8_t)p->last,
                          p->until_boot_ns > 0, (uint8_t)p->covered, (uint8_t)p->begun};
    }
}

void turn_load_shelf(const struct turn *t, struct object_log_shelf *s)
{
    err why = {0};
    for (size_t i = 0; i < CUTS; i++) {
        const struct kept *k = &t->w->shelf[t->who][i];
        if (!k->cut) continue;
        if (!object_log_shelf_room(s, &why)) abort();
        s->v[s->n++] = (struct object_log_place){.cut = k->cut,
                                                 .first = k->first,
                                                 .last = k->last,
                                                 .until_boot_ns = k->late ? OBJECT_LOG_LATE_NS : 0,
                                                 .covered = k->covered,
                                                 .begun = k->begun};
    }
}

// ---- the store that the code sees

static struct turn *turn_of(struct store *s)
{
    return (struct turn *)s;
}

static bool frozen(err *e)
{
    return err_set(e, ERR_CANCELED, "the turn is over");
}

// ULIDs are not parsed: that would be a fifth of all the time.
static unsigned stream_of(str name)
{
    static char texts[STREAMS][ULID_TEXT];
    if (!texts[0][0])
        for (size_t i = 0; i < STREAMS; i++)
            ulid_print(world_streams[i], texts[i]);
    str text = str_slice(name, name_logs().n, name_logs().n + ULID_TEXT - 1);
    bool second = str_is(text, texts[1]);
    assert_true(second || str_is(text, texts[0]));
    return second;
}

unsigned world_name_of(str name)
{
    uint64_t number = 0;
    assert_true(name_log_number(str_slice(name, name_logs().n + ULID_TEXT, name.n), &number));
    assert_in_range(number, 1, NUMBERS);
    return stream_of(name) * NUMBERS + (unsigned)number - 1;
}

static bool absent(str name, err *e)
{
    return err_set(e, ERR_NOT_FOUND, "no object %.*s", STR(name));
}

static bool model_size(struct store *s, struct req *r, str name, uint64_t *size, err *e)
{
    uint32_t content = 0;
    (void)r;
    if (str_starts(name, name_streams())) {
        if (!turn_operate(turn_of(s), REGISTERED, 0, 0, &content)) return frozen(e);
        *size = 0;
        return content || absent(name, e);
    }
    if (!turn_operate(turn_of(s), SIZE, world_name_of(name), 0, &content)) return frozen(e);
    if (content) *size = contents[content - 1].n;
    return content || absent(name, e);
}

static void model_read_many(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    (void)r;
    for (size_t i = 0; i < n; i++) {
        uint32_t content = 0;
        v[i].ok = false;
        if (!turn_operate(turn_of(s), READ, world_name_of(v[i].name), 0, &content)) {
            frozen(&v[i].fault);
        } else if (!content) {
            absent(v[i].name, &v[i].fault);
        } else {
            assert_int_equal(v[i].at, 0);
            memset(v[i].to, 0, v[i].n);
            memcpy(v[i].to, contents[content - 1].p, MIN(contents[content - 1].n, v[i].n));
            v[i].ok = true;
        }
    }
}

static bool model_get(struct store *s, struct req *r, str name, struct buf *out, err *e)
{
    uint32_t content = 0;
    (void)r;
    if (!turn_operate(turn_of(s), READ, world_name_of(name), 0, &content)) return frozen(e);
    if (!content) return absent(name, e);
    buf_put(out, contents[content - 1].p, contents[content - 1].n);
    return buf_ok(out, e);
}

// Of each object a list tells only that it is there, and whether it is a seal, or the tables of
// worlds would become large: that tells its size.
static bool model_list(struct store *s, struct req *r, str prefix, str after, store_visit *fn,
                       void *arg, err *e)
{
    struct turn *t = turn_of(s);
    uint32_t bits = 0;
    if (str_starts(prefix, name_streams())) {
        if (!turn_operate(t, REGISTERED, 0, 0, &bits)) return frozen(e);
        return !bits || fn(arg, prefix, 0, e);
    }
    unsigned stream = stream_of(prefix);
    unsigned from = after.n ? world_name_of(after) % NUMBERS + 1 : 0;
    for (bool more = true; more;) {
        if (!turn_operate(t, LIST, stream, from, &bits)) return frozen(e);
        more = (size_t)__builtin_popcount(bits & ((1u << NUMBERS) - 1)) == world_list_page;
        for (unsigned i = 0; i < NUMBERS; i++) {
            if (!(bits >> i & 1)) continue;
            str name = name_log_object(&r->arena, world_streams[stream], i + 1);
            from = i + 1;
            if (!fn(arg, name, size_of(bits >> (NUMBERS + i) & 1, i + 1), e)) return false;
        }
    }
    return true;
}

static struct store_upload *model_begin(struct store *s, struct req *r, str name,
                                        enum store_naming naming, uint64_t about, err *e)
{
    struct upload *u = mem_must(sizeof *u);
    (void)r;
    (void)about;
    (void)e;
    assert_int_equal(naming, STORE_EXCLUSIVE);
    u->upload.store = s;
    u->name = world_name_of(name);
    buf_init(&u->bytes, NULL, 1 << 16);
    return &u->upload;
}

static bool model_write(struct store_upload *up, str bytes, err *e)
{
    struct upload *u = (struct upload *)up;
    buf_str(&u->bytes, bytes);
    return buf_ok(&u->bytes, e);
}

static void model_abandon(struct store_upload *up)
{
    struct upload *u = (struct upload *)up;
    buf_release(&u->bytes);
    mem_must_free(u);
}

static bool is_seal(const struct upload *u)
{
    err why = {0};
    struct log_object_head h;
    unsigned stream = u->name / NUMBERS;
    if (!log_object_decode_head(buf_view(&u->bytes), world_streams[stream], u->name % NUMBERS + 1,
                                &h, &why))
        abort();
    return h.seal;
}

static bool model_commit(struct store_upload *up, bool *existed, err *e)
{
    struct upload *u = (struct upload *)up;
    uint32_t result = 0;
    uint8_t content = content_of(buf_view(&u->bytes), is_seal(u));
    bool ok = turn_operate(turn_of(up->store), CREATE, u->name, content, &result);
    model_abandon(up);
    if (!ok) return frozen(e);
    *existed = result == EXISTS;
    return result != TIMED_OUT || err_set(e, ERR_UNAVAILABLE, "timed out");
}

static bool model_remove(struct store *s, struct req *r, str name, err *e)
{
    uint32_t result = 0;
    (void)r;
    return turn_operate(turn_of(s), DELETE, world_name_of(name), 0, &result) || frozen(e);
}

const struct store_kind world_store_kind = {
    .name = "model",
    .read_many = model_read_many,
    .list = model_list,
    .begin = model_begin,
    .write = model_write,
    .commit = model_commit,
    .abandon = model_abandon,
    .remove = model_remove,
    .size = model_size,
    .get = model_get,
};

// ---- contents, from outside

bool world_is_seal(uint32_t content)
{
    assert_in_range(content, 1, content_count);
    return contents[content - 1].seal;
}

void world_forget_contents(void)
{
    for (; content_count > 0; content_count--)
        mem_must_free(contents[content_count - 1].p);
}
