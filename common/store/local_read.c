// SPDX-License-Identifier: Apache-2.0
//
// local_read.c - reads ranges of objects, many at once: sorted by object and place, ranges that are
// near each other become one read, and all reads of a batch run together (io_int.h).
#include "base/fault.h"
#include "store/local_int.h"
#include "store/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// Two pieces with at most so many bytes between them are read as one. A separate read of bytes in
// the page cache costs 0.6 us, reading 16 kB more costs 0.7; from a disk a separate read costs far
// more. (1 MB, as is usual for buckets, would cost 40 us of a processor.)
#define GAP_MAX ((size_t)16 << 10)

// Sizes of a batch: open files, reads, and their pieces and gaps. A batch is on the caller's stack,
// so reading allocates memory only for gaps and for sorting more than SORTED pieces.
#define FILES  32
#define READS  64
#define PARTS  256
#define SORTED 32

struct batch {
    struct local *local;
    int fds[FILES];
    size_t files;
    struct io_op ops[READS];
    struct store_read **first[READS];  // first piece of each operation; `counts` pieces follow
    size_t counts[READS];
    size_t n;
    struct iovec parts[PARTS];
    size_t part_n;
    char *gaps[READS];  // memory for bytes between pieces, never read; or NULL
};

static int by_place(const void *a, const void *b)
{
    const struct store_read *x = *(struct store_read *const *)a;
    const struct store_read *y = *(struct store_read *const *)b;
    // By name, so that each object is opened once; then by place, so that neighbours meet.
    int order = str_cmp(x->name, y->name);
    if (order) return order;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void refuse(struct store_read *v, const err *e)
{
    v->ok = false;
    v->fault = *e;
}

static void ends_before(struct store_read *v, uint64_t end)
{
    v->ok = err_set(&v->fault, ERR_OUT_OF_RANGE,
                    "read object %.*s: it ends before byte %llu, %zu bytes at %llu are asked for",
                    STR(v->name), (unsigned long long)end, v->n, (unsigned long long)v->at);
}

// ---- one batch

static int open_object(struct local *l, str name, err *e)
{
    struct local_path path;
    local_path_of(l, name, &path);
    int fd = FAULT_ERRNO("store.read") ? -1 : open(path.p, O_RDONLY | O_CLOEXEC);
    if (fd < 0) local_fault(e, errno, "read", name);
    return fd;
}

static_assert(PARTS <= IOV_MAX, "an operation takes all parts of a batch");

static bool fits(struct batch *b, const struct store_read *v)
{
    const struct io_op *o = &b->ops[b->n - 1];
    assert(b->n > 0 && o->v_n > 0);
    uint64_t end = o->at + o->n;
    if (v->at < end || v->at - end > GAP_MAX || b->part_n + 2 > PARTS) return false;
    // Pieces may overlap or repeat: then v->at < end, and they are read separately.
    err no_room = {0};  // without memory for the gap the piece becomes a separate operation
    if (v->at == end) return true;
    char **gap = &b->gaps[b->n - 1];
    if (!*gap) *gap = mem_resize_bare(b->local->memory, NULL, 0, GAP_MAX, &no_room);
    return *gap != NULL;
}

static void add_part(struct batch *b, char *to, size_t n)  // NOLINT: written into later
{
    assert(b->n > 0 && b->part_n < PARTS);
    struct io_op *o = &b->ops[b->n - 1];
    b->parts[b->part_n++] = (struct iovec){to, n};
    o->v_n += 1;
    o->n += n;
}

// Joins the piece to the last operation, or begins one. False: the batch is full.
static bool add_piece(struct batch *b, struct store_read **v, bool same_file)
{
    struct store_read *piece = *v;
    if (same_file && b->n > 0 && fits(b, piece)) {
        const struct io_op *o = &b->ops[b->n - 1];
        size_t gap = (size_t)(piece->at - o->at - o->n);
        if (gap > 0) add_part(b, b->gaps[b->n - 1], gap);
        metric_add(&store_gaps, gap);
        b->counts[b->n - 1] += 1;
    } else {
        assert(b->files > 0);
        if (b->n == READS || b->part_n + 1 > PARTS) return false;
        b->ops[b->n] = (struct io_op){.what = IO_READ,
                                      .fd = b->fds[b->files - 1],
                                      .v = &b->parts[b->part_n],
                                      .at = piece->at};
        b->first[b->n] = v;
        b->gaps[b->n] = NULL;
        b->counts[b->n++] = 1;
    }
    add_part(b, piece->to, piece->n);
    return true;
}

// Fills the batch with pieces of v; returns how many of them are in it or have failed. Opening a
// file may take long on a busy or remote disk, so the request is checked before each one.
static size_t fill(struct batch *b, const struct req *r, struct store_read **v, size_t n)
{
    size_t i = 0;
    assert(b->n == 0 && b->part_n == 0);
    while (i < n && b->files < FILES) {
        err why = {0};
        if (i > 0 && !local_alive(r, &why)) break;
        str name = v[i]->name;
        int fd = open_object(b->local, name, &why);
        bool first = true;
        if (fd >= 0) b->fds[b->files++] = fd;
        for (; i < n && str_eq(v[i]->name, name); i++, first = false) {
            if (fd < 0) {
                refuse(v[i], &why);
                // Beyond what off_t can say there is no object.
            } else if (v[i]->at > INT64_MAX - v[i]->n) {
                ends_before(v[i], INT64_MAX);
            } else if (!add_piece(b, &v[i], !first)) {
                return i;
            }
        }
    }
    return i;
}

static void set_outcome(const struct io_op *o, const struct req *r, struct store_read *v)
{
    err why = {0};
    assert(v->at >= o->at);
    v->ok = true;
    if (!o->began) {
        if (local_alive(r, &why)) err_set(&why, ERR_DEADLINE_EXCEEDED, "too late");
        err_wrap(&why, "read object %.*s", STR(v->name));
        refuse(v, &why);
    } else if (v->n <= o->done && v->at - o->at <= o->done - v->n) {  // even if the rest failed
        metric_add_to(&store_bytes, S("read"), v->n);
    } else if (o->error) {
        local_fault(&why, o->error, "read", v->name);
        refuse(v, &why);
    } else {
        ends_before(v, o->at + o->done + 1);
    }
}

static void run_reads(struct batch *b, struct req *r)
{
    if (b->n > 0) io_run(b->local->io, r, b->ops, b->n);
    metric_add(&store_reads, b->n);
    for (size_t i = 0; i < b->n; i++) {
        for (size_t k = 0; k < b->counts[i]; k++)
            set_outcome(&b->ops[i], r, b->first[i][k]);
        // After the run, because the kernel writes the bytes of the gaps too.
        mem_free(b->local->memory, b->gaps[i], GAP_MAX);
    }
    for (size_t i = 0; i < b->files; i++)
        local_close_file(b->fds[i]);
}

static void run_all(struct local *l, struct req *r, struct store_read **v, size_t n)
{
    for (size_t i = 0; i < n;) {
        struct batch b;  // not zeroed: 10 kB
        b.local = l;
        b.files = b.n = b.part_n = 0;
        err why = {0};
        bool alive = local_alive(r, &why);
        if (alive) i += fill(&b, r, v + i, n - i);
        // One at a time, so that each piece gets its own error.
        if (!alive) refuse(v[i++], &why);
        run_reads(&b, r);
    }
}

void local_read_many(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    struct local *l = local_of(s);
    struct store_read *few[SORTED];
    err why = {0};
    struct store_read **sorted =
        n <= SORTED ? few : mem_alloc(l->memory, n * sizeof(struct store_read *), &why);
    if (!sorted) {
        for (size_t i = 0; i < n; i++)
            refuse(&v[i], &why);
        return;
    }
    for (size_t i = 0; i < n; i++)
        sorted[i] = &v[i];
    // Pointers are sorted, and the caller's array stays in its order.
    if (n > 1) qsort(sorted, n, sizeof *sorted, by_place);
    run_all(l, r, sorted, n);
    if (sorted != few) mem_free(l->memory, sorted, n * sizeof(struct store_read *));
}

bool local_size(struct store *s, struct req *r, str name, uint64_t *size, err *e)
{
    struct local_path path;
    struct stat st;
    if (!local_alive(r, e)) return false;
    local_path_of(local_of(s), name, &path);
    if (stat(path.p, &st) != 0) return local_fault(e, errno, "look at", name);
    if (!S_ISREG(st.st_mode)) return local_fault(e, ENOENT, "look at", name);
    *size = (uint64_t)st.st_size;
    return true;
}

struct sizing {
    struct store *store;
    struct req *req;
    struct store_sizing *v;
};

static void size_one(void *arg, size_t i)
{
    const struct sizing *w = arg;
    w->v[i].ok = local_size(w->store, w->req, w->v[i].name, &w->v[i].size, &w->v[i].fault);
}

void local_size_many(struct store *s, struct req *r, struct store_sizing *v, size_t n)
{
    struct sizing w = {s, r, v};
    io_each(local_of(s)->io, r, n, size_one, &w);
}
