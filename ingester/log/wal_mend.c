// SPDX-License-Identifier: Apache-2.0
//
// wal_mend.c - mends write-ahead files that RocksDB would read for ever.
//
// RocksDB can recycle files; we never let it. A record whose type says "recycled" carries the
// number of the file that it belongs to, and RocksDB 7.8 looks at that number before it looks at
// the checksum. In the mode that reads every readable record it takes a wrong number for an older
// record, and passes over it without moving on: it reads the same record for ever. One flipped bit
// of a type is enough. So before each open such a type is overwritten with one that does not exist.
// Then RocksDB finds the checksum wrong and passes over the rest of the block.
//
// A file is blocks of 32 KiB, which no record crosses; a record is
//     4 CRC32C of type and payload, rotated and raised | 2 length | 1 type | payload
// (github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format).
#include "base/hash.h"
#include "ingester/log/wal_int.h"
#include "sys/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define BLOCK  32768
#define HEADER 7

enum {
    TYPE_NONE = 0,
    TYPE_RECYCLED_FIRST = 5,
    TYPE_RECYCLED_LAST = 8,
    TYPE_RECYCLED_SIZES = 11,  // of later versions
    TYPE_UNKNOWN = 127,
};

static bool is_recycled(uint8_t type)
{
    return (type >= TYPE_RECYCLED_FIRST && type <= TYPE_RECYCLED_LAST) ||
           type == TYPE_RECYCLED_SIZES;
}

static size_t length_of(const uint8_t *record)
{
    return (size_t)record[4] | (size_t)record[5] << 8;
}

static bool is_right(const uint8_t *record)
{
    uint32_t crc = crc32c(0, record + 6, 1 + length_of(record));
    uint32_t masked = (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
    uint32_t stored = (uint32_t)record[0] | (uint32_t)record[1] << 8 | (uint32_t)record[2] << 16 |
                      (uint32_t)record[3] << 24;
    return masked == stored;
}

// Where in a block RocksDB would come upon such a record; n: nowhere. RocksDB comes upon a record
// only behind records whose checksums are right, and `sure` checks these. Without `sure` it is a
// quick look at lengths and types, which finds every such record and perhaps more.
static size_t find_in(const uint8_t *block, size_t n, bool sure)
{
    size_t at = 0;
    while (n - at >= HEADER) {
        assert(at <= n);
        const uint8_t *record = block + at;
        if (is_recycled(record[6])) return at;
        size_t length = length_of(record);
        bool over = length > n - at - HEADER || (record[6] == TYPE_NONE && length == 0);
        if (over || (sure && !is_right(record))) return n;
        at += HEADER + length;
    }
    return n;
}

static bool mend_file(int fd, const char *path, err *e)
{
    uint8_t block[BLOCK];
    for (off_t from = 0;; from += BLOCK) {
        ssize_t n = pread(fd, block, sizeof block, from);
        if (n < 0) return err_set(e, ERR_UNAVAILABLE, "log: read %s: %m", path);
        // Blocks are read whole: a short read is the end of the file, which a crash may have cut.
        assert((size_t)n <= sizeof block);
        if (n == 0) return true;
        // The quick look comes first: it needs no checksums, and nearly no block has such a record.
        size_t at = find_in(block, (size_t)n, false);
        if (at < (size_t)n) at = find_in(block, (size_t)n, true);
        if (at == (size_t)n) continue;
        static const uint8_t unknown = TYPE_UNKNOWN;
        if (pwrite(fd, &unknown, 1, from + (off_t)at + HEADER - 1) != 1)
            return err_set(e, ERR_UNAVAILABLE, "log: write %s: %m", path);
        char text[LOG_QUOTE_MAX];
        log_error(NULL, "log.files_damaged", "file=%s at=%lld then=\"%s\"",
                  log_quote(text, str_of(path)), (long long)from + (long long)at,
                  "the type of this record is of no file of ours; it is passed over");
    }
}

bool wal_mend(const char *dir, err *e)
{
    DIR *d = opendir(dir);
    bool ok = true;
    if (!d) return true;  // there is no log yet, or RocksDB's open will say why it cannot be read
    for (struct dirent *f; ok && (f = readdir(d));) {
        char path[4096];
        if (!str_ends(str_of(f->d_name), S(".log"))) continue;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        // RocksDB's own open says why it cannot be read.
        if (fd < 0) continue;
        ok = mend_file(fd, path, e);
        (void)close(fd);
    }
    closedir(d);
    return ok;
}
