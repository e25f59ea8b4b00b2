// SPDX-License-Identifier: Apache-2.0
//
// All orders in which the writer of a log, the one who deletes its covered cuts, and those who
// adopt or read it can come to the store, with creations that time out and land later or never.
// The code is that of ingester/log/object_log*.c.
//
// An actor is a plain function that is taken from one operation to the next (object_log_world.h). A
// world that was seen before, however it came about, is not looked at again. A crash is an actor
// that is never taken further.
//
// Not all orders are different: where the next operation of an actor reads an object that nobody
// will delete any more, only this operation is done.
//
// What must hold, after each step:
//
//     whoever sealed and read a stream has each entry that is acknowledged in it, unless the
//     entry's cut is covered, now or at any later time;
//     a cut that a reader names has all entries that were acknowledged in it;
//     nothing is told as lost, however it is deleted beside those who read, and although something
//     on the way says now and then that an object is not there; but what a creation without effect
//     has lost is told.
//
// Mistakes made on purpose must be found.
#include "base/hash.h"
#include "ingester/log/object_log_int.h"
#include "sys/clock.h"
#include "unit/ingester/object_log_world.h"

#include <stdlib.h>

enum mistake {
    NONE,
    ACKNOWLEDGES_EARLY,  // before the object has landed
    BELIEVES_SEAL,       // without the LIST after it
    CHANGES_BYTES,       // of an object in doubt, under the same nonce
    DROPS_NEWEST,        // object of an open stream
    TELLS_TOO_MUCH,      // is covered: a cut that is not
    DROPS_UNTOLD,        // a covered cut before an object tells of it
    CLEARS_REGISTERED,   // all of a stream before its registration is gone
    CLEARS_UNCOVERED,    // takes the registration away before all is covered
    MISTAKES
};

static enum mistake mistake;
static bool violated;
static const char *what_is_violated;

static void violate(const char *what)
{
    violated = true;
    what_is_violated = what;
}

// ---- what must hold

// Entries: 1 and 2 are in the first cut, 3 in the second, and so on. 6 and 7 take the place of 1
// and 2 where the writer changes bytes.
static unsigned cut_of(unsigned entry)
{
    if (entry > 5) entry -= 5;
    return entry <= 2 ? 1 : entry - 1;
}

static void must_have(const struct world *w, unsigned entry)
{
    if (w->covered >> cut_of(entry) & 1) return;
    for (unsigned who = ADOPTER; who <= OTHER; who++)
        if (w->concluded[who] && !(w->has[who] >> entry & 1))
            violate("an acknowledged entry is not in what was read after a seal");
}

static void acknowledge(struct turn *t, unsigned entry)
{
    struct world *w = t->w;
    if (t->frozen || w->acknowledged >> entry & 1) return;
    w->acknowledged |= (uint8_t)(1u << entry);
    must_have(w, entry);
}

// What an actor has read: entries, and the cuts that it names.
struct reading {
    uint8_t has;
    uint8_t names;
    bool damaged;
};

// Says of something that it is lost, and nothing can be.
static void doubt_damage(const struct turn *t, const struct reading *x)
{
    if (!t->frozen && x->damaged && !t->w->swallowed)
        violate("something is told as lost that was covered, or is there");
}

// After a seal.
static void conclude(struct turn *t, const struct reading *x)
{
    struct world *w = t->w;
    if (t->frozen || w->concluded[t->who]) return;
    w->concluded[t->who] = 1;
    w->has[t->who] = x->has;
    doubt_damage(t, x);
    for (unsigned entry = 1; entry < 8; entry++) {
        bool lacks = (w->acknowledged >> entry & 1) && !(x->has >> entry & 1);
        if (w->acknowledged >> entry & 1) must_have(w, entry);
        if (lacks && x->names >> cut_of(entry) & 1)
            violate("a cut that was read as whole lacks an acknowledged entry");
    }
}

// ---- the writer

static unsigned writes;  // of the writer; more worlds than one likes if there are many

// The first of its cut.
static unsigned first_of(unsigned place)
{
    return place == 2 ? 1 : place;
}

// In the first stream the place of an object is its number, and the seq of its entry.
static void fill(struct object_log_writer *w, unsigned entry, unsigned place, unsigned stream,
                 uint32_t covered)
{
    static const char letters[] = "0123456789";
    err why = {0};
    struct log_object_packer p;
    bool first = stream == 0;
    uint64_t seq = first ? place : 1;
    uint64_t cut = first ? cut_of(place) : 1;
    unsigned below = 1;
    while (first && below < first_of(place) && covered >> cut_of(below) & 1)
        below++;
    if (mistake == TELLS_TOO_MUCH && first) below = first_of(place);
    struct log_object_head h = {.nonce = {{(uint8_t)place, (uint8_t)stream}},
                                .cut = cut,
                                .cut_first_seq = first ? first_of(place) : 1,
                                .first_seq = seq,
                                .count = 1,
                                .covered = {below, cut_of(below), below}};
    object_log_fill(w, &p, &h);
    log_object_add(&p, S(""), 0, S(""), str_make(letters + entry, 1));
    if (!object_log_filled(w, &p, &why)) abort();
}

static void note_written(struct turn *t, const struct object_log_writer *w)
{
    unsigned number = (unsigned)w->number - 1;
    if (t->frozen) return;
    t->w->written = (uint8_t)MAX(t->w->written, number);
    t->w->below = (uint8_t)w->told.covered.below;
    if (w->tries > 1) t->w->twice |= (uint8_t)(1u << number);
}

// Writes what is not in the first stream into a second one.
static void write_elsewhere(struct turn *t, unsigned entry)
{
    struct object_log_writer b;
    err why = {0};
    object_log_init(&b, &t->store, world_streams[1], NULL);
    fill(&b, entry, 1, 1, 0);
    (void)!object_log_put(&b, &t->r, &why);
    object_log_release(&b);
}

// One entry into the first stream, at most twice tried. False: that stream is over.
static bool write_one(struct turn *t, struct object_log_writer *w, unsigned place)
{
    static const struct object_log_sealer own = {.node = S_INIT("w"), .nonce = {{0xaa}}};
    err why = {0};
    bool is_there = false;
    unsigned entry = place;
    uint32_t covered = 0;
    if (!turn_operate(t, ASK, 0, 0, &covered)) return false;
    fill(w, entry, place, 0, covered);
    if (mistake == ACKNOWLEDGES_EARLY) acknowledge(t, entry);
    enum object_log_put what = object_log_put(w, &t->r, &why);
    if (t->frozen) return false;
    if (what == OBJECT_LOG_UNKNOWN && mistake == CHANGES_BYTES) {
        object_log_release(w);
        buf_init(&w->bytes, NULL, 1 << 16);
        entry += 5;
        fill(w, entry, place, 0, covered);
        w->tries = 1;
    }
    if (what == OBJECT_LOG_UNKNOWN) what = object_log_put(w, &t->r, &why);
    if (t->frozen) return false;
    if (what == OBJECT_LOG_TWICE) violate("a name was used twice");
    if (what == OBJECT_LOG_LANDED) {
        note_written(t, w);
        acknowledge(t, entry);
        return true;
    }
    if (object_log_close(w, &t->r, &own, &is_there, &why) && !t->frozen) {
        if (is_there) acknowledge(t, entry);
        if (!is_there) write_elsewhere(t, entry);
    }
    return false;
}

static void writer(struct turn *t)
{
    struct object_log_writer w;
    object_log_init(&w, &t->store, world_streams[0], NULL);
    w.number = t->w->phase[WRITER] + 1;
    while (w.number <= writes && write_one(t, &w, (unsigned)w.number))
        turn_begin_phase(t, (uint8_t)(w.number - 1));
    object_log_release(&w);
}

// ---- the one who flushes and deletes

// Deletes what may go, when the writer has come as far as `wrote`.
static void trim(struct turn *t, struct object_log_shelf *s, uint32_t wrote, int64_t boot_ns)
{
    err why = {0};
    struct object_log_told told = {.number = wrote & 0xff, .covered.below = wrote >> 16};
    if (mistake == DROPS_UNTOLD) told.covered.below = told.number;
    if (mistake == DROPS_NEWEST) told.covered.below = told.number + 1;
    (void)!object_log_trim(s, &t->store, &t->r, world_streams[0], &told, boot_ns, &why);
}

static void put_on_shelf(struct object_log_shelf *s, uint32_t wrote, unsigned number,
                         struct turn *t)
{
    err why = {0};
    struct object_log_writer w = {.store = &t->store,
                                  .number = number + 1,
                                  .tries = wrote >> (8 + number) & 1 ? 2 : 1};
    if (!object_log_shelf_room(s, &why)) abort();
    object_log_landed(s, &w, cut_of(number), 0);
}

static bool cover(struct turn *t, unsigned cut)
{
    uint32_t none = 0;
    return turn_operate(t, COVER, 0, cut, &none);
}

// A cut is closed when its last object is there.
static void flush_cut(struct turn *t, struct object_log_shelf *s, unsigned first, unsigned last)
{
    uint32_t wrote = 0;
    if (!turn_operate(t, WATCH, 0, last, &wrote) || !cover(t, cut_of(first))) return;
    for (unsigned i = first; i <= last; i++)
        put_on_shelf(s, wrote, i, t);
    object_log_covered(s, cut_of(first));
}

static void trim_after(struct turn *t, struct object_log_shelf *s, unsigned number, int64_t boot_ns)
{
    uint32_t wrote = 0;
    if (turn_operate(t, WATCH, 0, number, &wrote)) trim(t, s, wrote, boot_ns);
}

static void flusher(struct turn *t)
{
    struct object_log_shelf s = {0};
    uint32_t none = 0;
    turn_load_shelf(t, &s);
    for (uint8_t phase = t->w->phase[FLUSHER]; phase < 5 && !t->frozen; phase++) {
        if (phase == 0) flush_cut(t, &s, 1, 2);
        if (phase == 1) trim_after(t, &s, mistake == DROPS_NEWEST ? 2 : 3, 0);
        if (phase == 2) flush_cut(t, &s, 3, 3);
        if (phase == 3 && writes > 3) trim_after(t, &s, 4, 0);
        if (phase == 4 && s.n && turn_operate(t, PASS, 0, 0, &none))
            trim_after(t, &s, 0, OBJECT_LOG_LATE_NS);
        turn_keep_shelf(t, &s);
        turn_begin_phase(t, phase + 1);
    }
    object_log_shelf_release(&s);
}

// ---- those who read

static bool take(void *arg, const struct log_object *o, err *e)
{
    struct reading *x = arg;
    struct log_object_entry entry;
    str rest = o->entries;
    (void)e;
    while (log_object_next(&rest, &entry))
        x->has |= (uint8_t)(1u << (entry.rows.p[0] - '0'));
    return true;
}

static void take_damage(void *arg, const err *why)
{
    struct reading *x = arg;
    (void)why;
    x->damaged = true;
}

// Reads all whole cuts. False: not all could be read.
static bool read_cuts(struct turn *t, struct reading *x, const struct object_log_survey *survey)
{
    for (size_t i = 0; i < survey->n; i++) {
        const struct object_log_cut *c = &survey->cuts[i];
        err why = {0};
        struct reading cut = {0};
        const struct object_log_reader to = {take, take_damage, &cut};
        bool covered = false;
        if (!c->whole) continue;
        if (!object_log_read(&t->store, &t->r, world_streams[0], c, &to, &covered, &why))
            return false;
        if (covered) continue;
        x->has |= cut.has;
        x->names |= (uint8_t)(1u << c->cut);
        x->damaged |= cut.damaged;
    }
    return true;
}

static bool read_all(struct turn *t, struct reading *x)
{
    struct object_log_survey survey;
    err why = {0};
    bool ok = object_log_look(&t->store, &t->r, world_streams[0], 0, &survey, &why);
    if (!ok && why.code == ERR_DATA_LOSS) violate("objects do not follow each other");
    x->damaged = ok && survey.damaged > 0;
    ok = ok && read_cuts(t, x, &survey);
    object_log_survey_release(&survey);
    return ok && !t->frozen;
}

static bool note_top(void *arg, str name, uint64_t size, err *e)
{
    (void)size;
    (void)e;
    *(uint64_t *)arg = world_name_of(name) % NUMBERS + 1;
    return true;
}

// Puts a seal above what a LIST shows, and is content.
static bool seal_and_believe(struct turn *t, const struct object_log_sealer *by)
{
    struct buf bytes;
    struct log_object_packer p;
    err why = {0};
    bool existed = true;
    uint64_t top = 0;
    if (!store_list(&t->store, &t->r, name_log(&t->r.arena, world_streams[0]), (str){0}, note_top,
                    &top, &why))
        return false;
    buf_init(&bytes, NULL, 1 << 16);
    log_object_begin(&p, &bytes,
                     &(struct log_object_head){.stream = world_streams[0],
                                               .number = top + 1,
                                               .nonce = by->nonce,
                                               .seal = true,
                                               .node = by->node});
    bool ok = log_object_end(&p, &why) &&
              store_put(&t->store, &t->r, name_log_object(&t->r.arena, world_streams[0], top + 1),
                        buf_view(&bytes), &existed, &why);
    buf_release(&bytes);
    return ok && !existed;
}

static void seal_it(struct turn *t)
{
    const struct object_log_sealer by = {.node = S("a"), .nonce = {{(uint8_t)t->who}}};
    uint64_t number = 0;
    bool sealed = false;
    for (unsigned tries = 0; tries < 2 && !sealed && !t->frozen; tries++) {
        err why = {0};
        sealed = mistake == BELIEVES_SEAL
                     ? seal_and_believe(t, &by)
                     : object_log_seal(&t->store, &t->r, world_streams[0], &by, &number, &why);
    }
    turn_begin_phase(t, sealed ? 1 : 9);
}

static void adopt_it(struct turn *t)
{
    struct reading x = {0};
    struct object_log_shelf s = {0};
    err why = {0};
    bool ok = read_all(t, &x);
    if (ok) conclude(t, &x);
    for (uint64_t cut = 1; ok && cut < 8; cut++) {
        if (!(x.names >> cut & 1)) continue;
        if (!object_log_shelf_room(&s, &why)) abort();
        s.v[s.n++] = (struct object_log_place){.cut = cut, .first = cut, .last = cut};
    }
    turn_keep_shelf(t, &s);
    turn_begin_phase(t, ok ? 2 : 9);
    object_log_shelf_release(&s);
}

static bool cover_all(struct turn *t, const struct object_log_shelf *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!cover(t, (unsigned)s->v[i].cut)) return false;
    return true;
}

static void clear(struct turn *t)
{
    uint64_t removed = 0;
    bool done = false;
    err why = {0};
    (void)!object_log_clear(&t->store, &t->r, world_streams[0], UINT64_MAX, &removed, &done, &why);
}

static void delete_all(struct turn *t)
{
    uint32_t none = 0;
    for (unsigned i = 0; i < 3; i++)
        if (!turn_operate(t, DELETE, i, 0, &none)) return;
}

// What an adopter has read it flushes, and deletes it when no creation is under way any more.
static void flush_adopted(struct turn *t)
{
    struct object_log_shelf s = {0};
    uint32_t none = 0;
    turn_load_shelf(t, &s);
    if (mistake == CLEARS_REGISTERED) {
        if (cover_all(t, &s)) delete_all(t);
    } else if (mistake == CLEARS_UNCOVERED) {
        if (turn_operate(t, UNREGISTER, 0, 0, &none)) clear(t);
    } else if (cover_all(t, &s) && turn_operate(t, UNREGISTER, 0, 0, &none) &&
               turn_operate(t, PASS, 0, 0, &none)) {
        clear(t);
    }
    object_log_shelf_release(&s);
}

static void adopter(struct turn *t)
{
    if (t->w->phase[t->who] == 0) seal_it(t);
    if (!t->frozen && t->w->phase[t->who] == 1) adopt_it(t);
    if (!t->frozen && t->w->phase[t->who] == 2 && t->who == ADOPTER) flush_adopted(t);
}

// Reads a stream that may be open.
static void reader(struct turn *t)
{
    struct reading x = {0};
    uint32_t wrote = 0;  // what is acknowledged before the look begins must be in it
    if (!turn_operate(t, WATCH, 0, 0, &wrote)) return;
    if (!read_all(t, &x) || t->w->concluded[READER]) return;
    t->w->concluded[READER] = 1;
    doubt_damage(t, &x);
    for (unsigned entry = 1; entry <= (wrote & 0xff); entry++) {
        bool lacks = t->w->acknowledged >> entry & 1 && !(x.has >> entry & 1) && !x.damaged;
        // Nobody can tell whether there was one above the highest.
        if (t->w->swallowed && entry == (wrote & 0xff)) continue;
        if (lacks && x.names >> cut_of(entry) & 1)
            violate("a cut that was read as whole lacks an acknowledged entry");
        if (lacks && t->w->swallowed) violate("a lost entry is not told");
    }
}

static void (*const acts[ACTORS])(struct turn *t) = {
    [WRITER] = writer, [FLUSHER] = flusher, [ADOPTER] = adopter,
    [OTHER] = adopter, [READER] = reader,
};

// ---- all orders

#define SEEN_SIZE ((size_t)1 << 22)

static struct {
    uint64_t (*v)[2];
    size_t n;
} seen;

// Whether a world is met for the first time.
static bool is_new(const struct world *w)
{
    static const struct hash_key other = {{1, 2, 3, 4}};
    uint64_t a = hash_keyed(&HASH_KEY_PUBLIC, w, sizeof *w) | 1;
    uint64_t b = hash_keyed(&other, w, sizeof *w);
    size_t i = a >> 8 & (SEEN_SIZE - 1);
    for (; seen.v[i][0]; i = (i + 1) & (SEEN_SIZE - 1))
        if (seen.v[i][0] == a && seen.v[i][1] == b) return false;
    assert_true(++seen.n < SEEN_SIZE / 4 * 3);
    seen.v[i][0] = a;
    seen.v[i][1] = b;
    return true;
}

// A world after one operation of an actor.
struct next {
    struct world w;
    uint32_t told;  // operation, name and result; 0: the actor has ended, or waits
};

enum turn_fault {
    FINE,
    TIMES_OUT,
    LIES,
};

static void take_turn(struct next *to, const struct world *from, enum actor who,
                      enum turn_fault fault)
{
    to->w = *from;
    to->told = 0;
    struct turn t = {.store.kind = &world_store_kind,
                     .w = &to->w,
                     .who = who,
                     .times_out = fault == TIMES_OUT,
                     .lies = fault == LIES};
    if (from->ended[who]) return;
    req_init(&t.r, RANK_DUTY, NULL, 1 << 20, 0);
    acts[who](&t);
    req_release(&t.r);
    if (!t.frozen) to->w.ended[who] = 1;
    if (!t.blocked) to->told = t.told;
}

static size_t transitions;

// Does the operation read an object that nobody deletes any more? It comes to the same before and
// after all that others do.
static bool stands_alone(const struct world *from, uint32_t told, enum actor who, unsigned actors)
{
    enum op op = told >> 28;
    uint32_t content = told & 0xfffff;
    if ((op != READ && op != SIZE) || !content || from->lies) return false;
    if (world_is_seal(content)) return true;
    for (enum actor other = FLUSHER; other <= ADOPTER; other++)
        if (other != who && actors >> other & 1 && !from->ended[other]) return false;
    return true;
}

static void explore(const struct world *from, unsigned actors);

static void go(const struct world *to, unsigned actors)
{
    transitions++;
    if (!violated && is_new(to)) explore(to, actors);
}

// Creations that timed out land.
static void land(const struct world *from, unsigned actors)
{
    for (size_t i = 0; i < FLIGHTS && !violated; i++) {
        struct world to = *from;
        if (!from->flights[i][1]) continue;
        if (!to.objects[to.flights[i][0]]) to.objects[to.flights[i][0]] = to.flights[i][1];
        to.flights[i][0] = to.flights[i][1] = 0;
        go(&to, actors);
    }
}

static bool may_lie(const struct world *from, uint32_t told)
{
    enum op op = told >> 28;
    if (op == READ || op == SIZE) return from->lies && (told & 0xfffff);
    return op == CREATE && from->swallows && (told & 0xfffff) == MADE;
}

static void explore(const struct world *from, unsigned actors)
{
    struct next to[ACTORS];
    for (enum actor who = 0; who < ACTORS; who++) {
        to[who].told = 0;
        if (!(actors >> who & 1)) continue;
        take_turn(&to[who], from, who, FINE);
        if (!stands_alone(from, to[who].told, who, actors)) continue;
        go(&to[who].w, actors);
        return;
    }
    for (enum actor who = 0; who < ACTORS && !violated; who++) {
        if (!to[who].told) continue;
        uint32_t told = to[who].told;
        go(&to[who].w, actors);
        if (violated) return;
        if (told >> 28 == CREATE && from->faults) {
            take_turn(&to[who], from, who, TIMES_OUT);
            go(&to[who].w, actors);
        }
        if (may_lie(from, told)) {
            take_turn(&to[who], from, who, LIES);
            go(&to[who].w, actors);
        }
    }
    land(from, actors);
}

#define BIT(actor) (1u << (actor))

struct faults {
    uint8_t times_out, lies, swallows;
};

// Names in a page of a list.
#define PAGE 2

static bool holds(enum mistake m, unsigned actors, struct faults faults, unsigned count)
{
    struct world w;
    uint64_t began = clock_thread_ns();
    memset(&w, 0, sizeof w);
    w.faults = faults.times_out;
    w.lies = faults.lies;
    w.swallows = faults.swallows;
    object_log_page_max = NUMBERS;
    object_log_pause_ns = 0;
    mistake = m;
    violated = false;
    transitions = 0;
    world_list_page = count > 3 ? PAGE : NUMBERS;
    writes = count;
    seen.n = 0;
    seen.v = mem_must(SEEN_SIZE * sizeof *seen.v);
    explore(&w, actors);
    print_message("%zu worlds, %zu steps, %llu ms%s%s\n", seen.n, transitions,
                  (unsigned long long)((clock_thread_ns() - began) / NS_PER_MS),
                  violated ? ": " : "", violated ? what_is_violated : "");
    mem_must_free(seen.v);
    world_forget_contents();
    return !violated;
}

static void nothing_acknowledged_is_lost_to_who_seals(void **state)
{
    static const struct {
        const char *name;
        unsigned actors;
        struct faults faults;
        unsigned writes;
    } cases[] = {
        {"deletion beside an adopter", BIT(WRITER) | BIT(FLUSHER) | BIT(ADOPTER), {1, 0, 0}, 3},
        {"lists of several pages", BIT(WRITER) | BIT(FLUSHER) | BIT(ADOPTER), {0, 0, 0}, 4},
        {"two creations that time out", BIT(WRITER) | BIT(ADOPTER), {2, 0, 0}, 3},
        {"two adopters", BIT(WRITER) | BIT(ADOPTER) | BIT(OTHER), {0, 0, 0}, 3},
        {"deletion beside a reader", BIT(WRITER) | BIT(FLUSHER) | BIT(READER), {1, 0, 0}, 3},
        {"an adopter beside a reader", BIT(WRITER) | BIT(ADOPTER) | BIT(READER), {0, 0, 0}, 3},
        {"a false 404 for an adopter", BIT(WRITER) | BIT(FLUSHER) | BIT(OTHER), {0, 1, 0}, 3},
        {"two false 404s for a reader", BIT(WRITER) | BIT(READER), {0, 2, 0}, 4},
        {"a creation without effect", BIT(WRITER) | BIT(READER), {0, 0, 1}, 4},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        print_message("%s: ", cases[i].name);
        assert_true(holds(NONE, cases[i].actors, cases[i].faults, cases[i].writes));
    }
}

static void mistakes_are_found(void **state)
{
    static const char *const names[MISTAKES] = {
        [ACKNOWLEDGES_EARLY] = "acknowledged before it landed",
        [BELIEVES_SEAL] = "a seal believed without the list after it",
        [CHANGES_BYTES] = "other bytes under the same nonce",
        [DROPS_NEWEST] = "the newest object deleted",
        [TELLS_TOO_MUCH] = "told as covered before it is",
        [DROPS_UNTOLD] = "a cut deleted before an object tells of it",
        [CLEARS_REGISTERED] = "a stream cleared away before its registration",
        [CLEARS_UNCOVERED] = "a stream cleared away before it is covered",
    };
    (void)state;
    for (enum mistake m = NONE + 1; m < MISTAKES; m++) {
        bool clears = m == CLEARS_REGISTERED || m == CLEARS_UNCOVERED;
        // Until a name is free that a seal could take, the writer has to have gone on.
        bool late = m == BELIEVES_SEAL || m == DROPS_NEWEST;
        print_message("%s: ", names[m]);
        assert_false(holds(m, BIT(WRITER) | (clears ? BIT(OTHER) : BIT(FLUSHER)) | BIT(ADOPTER),
                           (struct faults){!clears && !late, 0, 0}, late ? 4 : 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_acknowledged_is_lost_to_who_seals),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
