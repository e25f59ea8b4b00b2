// SPDX-License-Identifier: Apache-2.0
#include "ingester/known_ids.h"

#include "cluster/node.h"
#include "ingester/head/recent_ids.h"
#include "manifest/names.h"
#include "manifest/stream.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DIRECTORY "/ingester/past"
#define NAME      "/known"

// The file: Unix nanoseconds in decimal and a newline.
#define TEXT_MAX ((size_t)64)

void known_ids_init(struct known_ids *k, const char *data_dir)
{
    size_t room = strlen(data_dir) + sizeof DIRECTORY NAME;
    *k = (struct known_ids){.path = mem_must(room)};
    snprintf(k->path, room, "%s" DIRECTORY NAME, data_dir);
    lock_init(&k->lock, LOCK_KNOWN_IDS);
    atomic_store(&k->since_wall_ns, INT64_MAX);
    atomic_store(&k->until_mono_ns, UINT64_MAX);
}

void known_ids_release(struct known_ids *k)
{
    if (!k->path) return;
    lock_release(&k->lock);
    mem_must_free(k->path);
    k->path = NULL;
}

// ---- the file

static bool read_file(const struct known_ids *k, int64_t *since_ns)
{
    struct buf text;
    err e = {0};
    uint64_t n = 0;
    buf_init(&text, NULL, TEXT_MAX);
    bool ok = file_exists(k->path) && file_read(k->path, &text, &e);
    str s = buf_view(&text);
    ok = ok && s.n > 1 && s.p[s.n - 1] == '\n' && str_u64(str_slice(s, 0, s.n - 1), &n) &&
         n <= INT64_MAX;
    *since_ns = (int64_t)n;
    buf_release(&text);
    return ok;
}

static void write_file(const struct known_ids *k)
{
    struct buf text;
    err e = {0};
    char fault[LOG_QUOTE_MAX];
    str dir = str_slice(str_of(k->path), 0, strlen(k->path) - strlen(NAME));
    char *path = mem_must(dir.n + 1);
    memcpy(path, dir.p, dir.n);
    buf_init(&text, NULL, TEXT_MAX);
    buf_printf(&text, "%" PRId64 "\n", atomic_load(&k->since_wall_ns));
    bool ok = buf_ok(&text, &e) && dir_make(path, &e) && file_write(k->path, buf_view(&text), &e);
    buf_release(&text);
    mem_must_free(path);
    if (ok) return;
    log_warn(NULL, "ids.unsaved", "fault=%s then=\"%s\"", log_quote(fault, str_of(e.msg)),
             "the next start takes profiles with ids as loose for half an hour");
}

// ---- deciding, with the lock

static void decide(struct known_ids *k, int64_t since_ns)
{
    int64_t left = since_ns ? since_ns + (int64_t)RECENT_IDS_NS - clock_wall_ns() : 0;
    left = MIN(MAX(left, 0), (int64_t)RECENT_IDS_NS);
    k->decided = true;
    atomic_store(&k->since_wall_ns, since_ns);
    atomic_store(&k->until_mono_ns, left ? clock_mono_ns() + (uint64_t)left : 0);
}

static void decide_now(struct known_ids *k, const char *why)
{
    char text[LOG_QUOTE_MAX];
    decide(k, clock_wall_ns());
    write_file(k);
    log_info(NULL, "ids.unknown", "why=%s then=\"%s\"", log_quote(text, str_of(why)),
             "profiles with ids that may be repeated are loose for half an hour at most");
}

void known_ids_need_none(struct known_ids *k)
{
    lock_take(&k->lock);
    decide(k, 0);
    lock_give(&k->lock);
}

void known_ids_read(struct known_ids *k, const char *why)
{
    int64_t since = 0;
    lock_take(&k->lock);
    k->read = true;
    if (!k->decided && why) decide_now(k, why);
    // A clock that was set back since: from now on at the latest.
    if (!k->decided && read_file(k, &since)) decide(k, MIN(since, clock_wall_ns()));
    lock_give(&k->lock);
}

static bool see_tenant(void *arg, str name, uint64_t size, err *e)
{
    (void)name;
    (void)size;
    *(bool *)arg = true;
    return err_set(e, ERR_ABORTED, "one is enough");
}

// Whether no earlier process of this node can have taken rows that are still somewhere. What was
// acknowledged is in a registered stream, or its tenant has segments. The streams were listed
// first, so rows that were flushed meanwhile show.
static bool is_empty(struct store *s, struct req *r, const struct registered *list,
                     const struct node_identity *me, bool *empty, err *e)
{
    bool some = false;
    err why = {0};
    *empty = false;
    for (size_t i = 0; i < list->n; i++) {
        const struct registered_stream *o = &list->v[i];
        if (o->node.n == 0 || (str_eq(o->node, me->node) && !id128_eq(o->boot, me->boot)))
            return true;
    }
    bool ok = store_list(s, r, name_tenants(), (str){0}, see_tenant, &some, &why) || some;
    if (!ok) *e = why;
    *empty = !some;
    return ok;
}

bool known_ids_settle(struct known_ids *k, struct store *s, struct req *r,
                      const struct registered *list, const struct node_identity *me, err *e)
{
    bool empty = false;
    lock_take(&k->lock);
    bool open = k->read && !k->decided;
    lock_give(&k->lock);
    if (!open) return true;
    // Without the lock: a store may be slow.
    if (!is_empty(s, r, list, me, &empty, e)) return err_wrap(e, "tenants");
    lock_take(&k->lock);
    if (empty) {
        decide(k, 0);
        write_file(k);
    } else {
        decide_now(k, "this data directory is new, and the store has profiles");
    }
    lock_give(&k->lock);
    return true;
}

void known_ids_note_unsaved(struct known_ids *k)
{
    err e = {0};
    char text[LOG_QUOTE_MAX];
    lock_take(&k->lock);
    if (!file_remove(k->path, &e))
        log_warn(NULL, "ids.mark_stays", "fault=%s do=\"%s\"", log_quote(text, str_of(e.msg)),
                 "remove ingester/past/known in the data directory before the next start");
    lock_give(&k->lock);
}

void known_ids_note_saved(struct known_ids *k)
{
    lock_take(&k->lock);
    if (k->decided) write_file(k);
    lock_give(&k->lock);
}

// ---- asking

uint64_t known_ids_ns(const struct known_ids *k)
{
    uint64_t until = atomic_load_explicit(&k->until_mono_ns, memory_order_relaxed);
    uint64_t now = clock_mono_ns();
    if (until == UINT64_MAX) return 0;  // nothing is decided yet
    if (now >= until) return RECENT_IDS_NS;
    // What is not known is not needed any more when all of the last half hour is.
    uint64_t left = until - now;
    return left < RECENT_IDS_NS ? RECENT_IDS_NS - left : 0;
}

bool known_ids_may_repeat(const struct known_ids *k, int64_t time_ns, int64_t ahead_ns)
{
    uint64_t until = atomic_load_explicit(&k->until_mono_ns, memory_order_relaxed);
    if (until == 0 || clock_mono_ns() >= until) return false;
    int64_t since = atomic_load_explicit(&k->since_wall_ns, memory_order_relaxed);
    return since > INT64_MAX - ahead_ns || time_ns <= since + ahead_ns;
}
