// SPDX-License-Identifier: Apache-2.0
//
// cli_catalog.h - what a copy of a store has: names, sizes and CRC32C of its objects.
//
//     backup/<ulid>      flametree backup 1
//                        <crc32c, 8 hex digits> <size> <name>       a line for each object, by name
//                        end <crc32c of all bytes before this line>
//
// The newest one that is whole counts, the one with the highest name; a backup writes it before the
// roots, and deletes those before it after them. It lies beside v1/, where no server looks.
#pragma once

#include "base/map.h"
#include "store/store.h"

#define CATALOG_PREFIX S("backup/")

struct catalog_entry {
    str name;
    uint64_t size;
    uint32_t crc;
    bool wanted;  // of the copy that is being made
};

struct catalog {
    struct arena *arena;
    struct catalog_entry *v;
    size_t n;
    size_t cap;
    struct map by_name;
    str object;  // the name of the one that was read; empty: none
};

void catalog_init(struct catalog *c, struct arena *a);
void catalog_release(struct catalog *c);

// The entry of a name, or NULL.
struct catalog_entry *catalog_find(struct catalog *c, str name);
// Adds an entry, or replaces the numbers of the one that there is. NULL without memory, and with
// invalid_argument for a name with a line end, which no line can have.
struct catalog_entry *catalog_put(struct catalog *c, str name, uint64_t size, uint32_t crc,
                                  err *e) MUST_CHECK;

// The bytes of a catalog: reads all entries, or prints the wanted ones, in order of name.
// catalog_parse fails with data_loss.
bool catalog_parse(struct catalog *c, str bytes, err *e) MUST_CHECK;
bool catalog_print(const struct catalog *c, struct buf *out, err *e) MUST_CHECK;
void catalog_seal(struct buf *lines);  // adds the last line

// Reads the newest catalog of a store; none is no failure. data_loss if it is damaged.
bool catalog_read(struct catalog *c, struct store *s, struct req *r, err *e) MUST_CHECK;
// Writes the wanted entries as a new object, whose name becomes c->object.
bool catalog_write(struct catalog *c, struct store *s, struct req *r, err *e) MUST_CHECK;
// Deletes all catalogs but c->object.
bool catalog_tidy(struct catalog *c, struct store *s, struct req *r, err *e) MUST_CHECK;
