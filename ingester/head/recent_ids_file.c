// SPDX-License-Identifier: Apache-2.0
//
// recent_ids_file.c - recent ids on disk, so that they outlast the process: one file for each cut
// that the log dropped, named by a ULID, removed when its ids are too old to matter.
#include "base/fault.h"
#include "base/hash.h"
#include "ingester/head/recent_ids.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/rand.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

static const char magic[8] = "FTPAST2\n";
static const char magic_1[8] = "FTPAST1\n";  // keys without groups

#define CRC_BYTES  4
#define NAME_BYTES (ULID_TEXT - 1)

// An id may be kept in memory for so long: a generation young, a generation old.
#define KEPT_NS (2 * (int64_t)RECENT_IDS_NS)

// ---- bytes

static void put_crc(struct buf *out)
{
    uint32_t crc = crc32c(0, out->p, out->n);
    for (unsigned i = 0; i < CRC_BYTES; i++)
        buf_byte(out, (uint8_t)(crc >> (8 * i)));
}

static bool parse(str bytes, str *keys, size_t *key_bytes, err *e)
{
    uint32_t crc = 0;
    size_t around = sizeof magic + CRC_BYTES;
    bool first = bytes.n >= around && memcmp(bytes.p, magic_1, sizeof magic_1) == 0;
    *key_bytes = first ? RECENT_IDS_KEY_1 : RECENT_IDS_KEY;
    if (bytes.n < around || (bytes.n - around) % *key_bytes ||
        (!first && memcmp(bytes.p, magic, sizeof magic) != 0)) {
        return err_set(e, ERR_DATA_LOSS, "the file's %zu bytes are not a list of ids", bytes.n);
    }
    for (unsigned i = 0; i < CRC_BYTES; i++)
        crc |= (uint32_t)(uint8_t)bytes.p[bytes.n - CRC_BYTES + i] << (8 * i);
    if (crc32c(0, bytes.p, bytes.n - CRC_BYTES) != crc) {
        return err_set(e, ERR_DATA_LOSS, "the file's checksum is wrong");
    }
    *keys = str_slice(bytes, sizeof magic, bytes.n - CRC_BYTES);
    return true;
}

// ---- files

static bool is_old(id128 name)
{
    int64_t ms = (int64_t)uuid_ms(name);
    return clock_wall_ns() / NS_PER_MS - ms > KEPT_NS / NS_PER_MS;
}

typedef bool visit(void *arg, const char *path, err *e);

// Removes files that are old or were never finished, and calls fn for the others. Goes on after a
// failure; *e is the first one. Without the directory there are no files. Names of other programs
// are left alone.
static bool each_file(const char *dir, visit *fn, void *arg, err *e)
{
    char path[4096];
    bool ok = true;
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT) return true;
    if (!d) return err_set(e, ERR_UNAVAILABLE, "%s: %m", dir);
    for (struct dirent *at = readdir(d); at; at = readdir(d)) {
        id128 name;
        err fault = {0};
        str text = str_of(at->d_name);
        bool half = text.n > NAME_BYTES && str_is(str_slice(text, NAME_BYTES, text.n), ".tmp");
        if (!ulid_parse(str_slice(text, 0, NAME_BYTES), &name, &fault)) continue;
        snprintf(path, sizeof path, "%s/%s", dir, at->d_name);
        fault = (err){0};
        bool well = true;
        if (half || is_old(name)) {
            well = file_remove(path, &fault);
        } else if (fn && text.n == NAME_BYTES) {
            well = fn(arg, path, &fault);
        }
        if (ok && !well) *e = fault;
        ok = ok && well;
    }
    closedir(d);
    return ok;
}

bool recent_ids_save(struct recent_ids *p, const char *dir, struct mem_budget *memory, err *e)
{
    struct buf bytes;
    uint8_t random[10];
    char name[ULID_TEXT];
    char path[4096];
    buf_init(&bytes, memory, SIZE_MAX);
    buf_put(&bytes, magic, sizeof magic);
    recent_ids_fresh(p, &bytes);
    bool some = bytes.n > sizeof magic;
    size_t end = bytes.n;
    put_crc(&bytes);
    rand_bytes(random, sizeof random);
    ulid_print(ulid_make((uint64_t)(MAX(clock_wall_ns(), 0) / NS_PER_MS), random), name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FAULT("flush.past");
    bool ok =
        buf_ok(&bytes, e) && (!some || (dir_make(dir, e) && file_write(path, buf_view(&bytes), e)));
    FAULT("flush.past.after");
    recent_ids_note_saved(p, ok ? str_slice(buf_view(&bytes), sizeof magic, end) : (str){0}, ok);
    buf_release(&bytes);
    return ok && each_file(dir, NULL, NULL, e);
}

struct loading {
    struct recent_ids *recent_ids;
    size_t most;
    struct mem_budget *memory;
};

static bool load_file(void *arg, const char *path, err *e)
{
    struct loading *x = arg;
    struct buf bytes;
    str keys = {0};
    size_t key_bytes = 0;
    buf_init(&bytes, x->memory, SIZE_MAX);
    bool ok = file_read(path, &bytes, e) &&
              (parse(buf_view(&bytes), &keys, &key_bytes, e) || err_wrap(e, "%s", path));
    if (ok) recent_ids_add_saved(x->recent_ids, keys, key_bytes, x->most);
    buf_release(&bytes);
    return ok;
}

bool recent_ids_load(struct recent_ids *p, const char *dir, size_t most, struct mem_budget *memory,
                     err *e)
{
    struct loading x = {p, most, memory};
    return each_file(dir, load_file, &x, e);
}
