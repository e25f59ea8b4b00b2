// SPDX-License-Identifier: Apache-2.0
//
// names.h - names of objects in the store (docs/formats/manifest.md).
//
//     v1/cluster                                                  cluster id, format
//     v1/tenants/<tenant>                                         this tenant has data
//     v1/closed/<tenant>                                          this tenant is being deleted
//     v1/streams/<stream>                                         registered streams (stream.h)
//     v1/forgotten/<stream>                                       streams given up (forgotten.h)
//     v1/deleted/<ulid>                                           deletions that these missed
//     v1/log/<stream>/<number>                                    logs of ingesters that have them
//     v1/damaged/<stream>/<number>                                kept of damaged ones
//     v1/<hh>/<tenant>/live/a/<hour>.<stream>.<cut>.<part>        segments
//     v1/<hh>/<tenant>/live/m/<version>                           manifest roots
//     v1/<hh>/<tenant>/page/<ulid>                                manifest pages
//     v1/<hh>/<tenant>/{raw,h,d}/<first hour>-<hours>/<pack>-<ulid>   blocks
//
// hh: two hex digits, the top byte of XXH64 of the tenant. Numbers are zero-padded lower-case hex
// (hour, cut, version, hours: 16, 16, 16, 4 digits; part and pack: 8), so names sort as
// they count; hours before the epoch are refused. Streams and ULIDs are 26 characters.
#pragma once

#include "base/arena.h"
#include "base/ulid.h"

#define NAME_MAX_BYTES   512
#define NAME_BLOCK_BYTES 62  // of a block's name behind the tenant's prefix, with a NUL

// May a tenant have this name? 1 to 150 bytes of A-Z a-z 0-9 ! - _ . * ' ( ), not "." or "..": the
// rule of requests (rpc/auth.h). Objects of a store that have other names there are not ours.
#define NAME_TENANT_MAX 150
bool name_tenant_ok(str tenant);

struct segment_name {
    int64_t hour;
    id128 stream;
    uint64_t cut;
    uint32_t part;
};
int segment_name_cmp(const struct segment_name *a, const struct segment_name *b);  // as bytes sort

// Rows that were imported come in no segment. The leaf that holds them names a stream of its own
// for each piece of an import, which no process has: its time is the last that a ULID can have, and
// its 80 bits are a hash of the rows' ids. So the same piece is absorbed once, as a segment is.
//
// Its cut is a *generation*: the version of the manifest in which the last deletion that had
// something of the hour was over, 0 if there was none. So what is imported again after it was
// deleted has a name of its own, and the name of what was deleted is never used again.
#define STREAM_IMPORT_HASH 10
id128 stream_of_import(const uint8_t hash[STREAM_IMPORT_HASH]);
bool stream_is_import(id128 stream);

// The part of a segment's name behind live/a/, and back. Three numbers, a ULID, dots and a NUL.
#define SEGMENT_TEXT 80
void segment_name_print(const struct segment_name *n, char text[SEGMENT_TEXT]);
bool segment_name_parse(str text, struct segment_name *n) MUST_CHECK;

// Whole names and prefixes; the arena's.
str name_cluster(void);
str name_tenants(void);  // prefix
str name_tenant(struct arena *a, str tenant);
str name_all_closed(void);
str name_closed(struct arena *a, str tenant);
str name_of_tenant(struct arena *a, str tenant);  // prefix of all that a tenant has
str name_live(struct arena *a, str tenant);       // prefix of segments, then roots
str name_segments(struct arena *a, str tenant);   // prefix
str name_segment(struct arena *a, str tenant, const struct segment_name *n);
str name_roots(struct arena *a, str tenant);  // prefix
str name_root(struct arena *a, str tenant, uint64_t version);
bool name_root_version(str text, uint64_t *version) MUST_CHECK;  // the part behind live/m/
str name_page(struct arena *a, str tenant, id128 id);

// Registered streams.
str name_streams(void);  // prefix
str name_stream(struct arena *a, id128 stream);

// Streams that a person gave up, and deletions that ended since (forgotten.h).
str name_all_forgotten(void);  // prefix
str name_forgotten(struct arena *a, id128 stream);
str name_all_deleted(void);  // prefix
str name_deleted(struct arena *a, id128 deletion);

// Objects of an ingester that earlier versions of the program made (streams_clear_former). If its
// id could not be a part of a name, they are under "~" and 16 hex digits of the hash of the id.
str name_former(struct arena *a, str node);  // prefix

// Logs in the store (docs/formats/object-log.md); objects of a stream are numbered from 1.
str name_logs(void);                          // prefix
str name_log(struct arena *a, id128 stream);  // prefix
str name_log_object(struct arena *a, id128 stream, uint64_t number);
bool name_log_number(str text, uint64_t *number) MUST_CHECK;  // the part behind the stream

// Copies of such objects that are kept, because they are damaged, or one of their cut is.
str name_all_damaged(void);                       // prefix
str name_damaged(struct arena *a, id128 stream);  // prefix
str name_damaged_object(struct arena *a, id128 stream, uint64_t number);

// Is an object whose name goes on so behind "v1/" beside those of the tenants: `cluster`, or below
// a folder that is above, or below that of the trial at a start (store/check.h)?
bool name_is_beside_tenants(str rest);

// Pieces of names: each takes its piece from the front of *rest; false, and *rest unchanged, if
// that begins otherwise.
bool name_hex(str *rest, size_t digits, uint64_t *v) MUST_CHECK;
bool name_char(str *rest, char c) MUST_CHECK;
bool name_ulid(str *rest, id128 *id) MUST_CHECK;
