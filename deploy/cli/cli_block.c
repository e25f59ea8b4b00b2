// SPDX-License-Identifier: Apache-2.0
//
// block ls and block verify, and functions for block show as well: a file as a block.
#include "deploy/cli/cli_block.h"

#include "block/verify.h"
#include "codec/json.h"
#include "deploy/cli/cli_files.h"
#include "deploy/cli/cli_time.h"
#include "manifest/names.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_MEMORY   ((size_t)8 << 30)
#define SERVICE_MEMORY ((size_t)16 << 30)
#define OUTPUT_MAX     ((size_t)1 << 30)
#define FAULTS_SHOWN   100  // of a file, in text

// ---- a file as a store of one object

static void read_one(const struct cli_block *f, struct store_read *v)
{
    assert(f->fd >= 0 && (v->to || v->n == 0));
    size_t got = 0;
    while (got < v->n) {
        ssize_t n = pread(f->fd, v->to + got, v->n - got, (off_t)(v->at + got));
        if (n < 0 && errno == EINTR) continue;
        // 0 at the end: the footer names bytes that the file does not have, or it has been cut
        // meanwhile.
        if (n <= 0) break;
        got += (size_t)n;
    }
    v->ok = got == v->n;
    if (!v->ok) {
        err_set(&v->fault, ERR_OUT_OF_RANGE, "%zu bytes at %" PRIu64 " cannot be read, only %zu",
                v->n, v->at, got);
    }
}

static void read_many(struct store *s, struct req *r, struct store_read *v, size_t n)
{
    const struct cli_block *f = CONTAINER_OF(s, struct cli_block, store);
    (void)r;
    for (size_t i = 0; i < n; i++)
        read_one(f, &v[i]);
}

static const struct store_kind file_kind = {.name = "file", .read_many = read_many};

// The last part of the path, without bytes that names of objects cannot have.
static str object_name(struct arena *a, const char *path)
{
    str all = str_of(path);
    size_t slash = str_rfind(all, '/');
    str last = slash < all.n ? str_slice(all, slash + 1, all.n) : all;
    // Names appear in messages, and a file may be called anything.
    char *name = arena_new(a, last.n + 1);
    if (!name) return (str){0};
    for (size_t i = 0; i < last.n; i++)
        name[i] = last.p[i] > ' ' && last.p[i] <= '~' ? last.p[i] : '_';
    return last.n ? (str){name, last.n} : S("block");
}

bool cli_block_open(struct cli_block *f, const char *path, err *e)
{
    assert(path);
    struct stat st;
    *f = (struct cli_block){.store = {&file_kind}, .path = path};
    req_init(&f->req, RANK_DUTY, NULL, BLOCK_MEMORY, 0);
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // of a pipe: fails the check below
    // On failure the caller closes as well: some of it may be open.
    if (f->fd < 0 || fstat(f->fd, &st) < 0) {
        return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_UNAVAILABLE, "%s: %s", path,
                       strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) return err_set(e, ERR_INVALID_ARGUMENT, "%s: not a file", path);
    return block_source_open(&f->req.arena, store_origin(&f->store, &f->req),
                             object_name(&f->req.arena, path), (uint64_t)st.st_size, &f->source,
                             e) ||
           err_wrap(e, "%s", path);
}

void cli_block_close(struct cli_block *f)
{
    if (f->fd >= 0) (void)close(f->fd);
    f->fd = -1;
    req_release(&f->req);
}

// ---- words

const char *cli_block_kind(enum block_kind kind)
{
    static const char *const names[] = {"?", "segment", "raw", "hours", "days"};
    // A footer of a later version may have a kind that is not known here.
    return names[kind >= BLOCK_SEGMENT && kind <= BLOCK_DAYS ? kind : 0];
}

const char *cli_block_class(enum block_class class)
{
    static const char *const names[] = {"all", "projection", "series"};
    assert(class < COUNT(names));
    return names[class];
}

const int64_t cli_block_widths[BLOCK_WIDTHS] = {SLOT_FIVE, SLOT_HOUR, SLOT_DAY, SLOT_WEEK,
                                                SLOT_WINDOW};

const char *cli_block_width(int64_t width)
{
    static const char *const names[BLOCK_WIDTHS] = {"5m", "1h", "1d", "7d", "28d"};
    assert(width > 0);
    for (size_t i = 0; i < BLOCK_WIDTHS; i++) {
        if (cli_block_widths[i] == width) return names[i];
    }
    return "?";
}

// ---- facts

const char *const cli_block_parts[PART_COUNT] = {"symbols", "index",   "nodes", "totals", "vectors",
                                                 "heads",   "details", "spans", "blooms", "footer"};

static void add_extent(struct block_part_sum *p, const struct block_extent *x)
{
    // Sections that a block does not have are extents of no bytes.
    if (x->stored == 0) return;
    p->sections++;
    p->raw += x->raw;
    p->stored += x->stored;
}

static uint64_t add_frames(struct block_part_sum *p, const struct block_frames *f)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        add_extent(p, &f->v[i].extent);
        count += f->v[i].count;
    }
    return count;
}

bool cli_block_facts(struct cli_block *f, struct arena *a, const struct block_service_ref *s,
                     struct block_index *index, struct block_facts *facts, err *e)
{
    assert(index && facts);
    str contents = {0};
    if (!block_source_sections(a, &f->source, &s->index, 1, &contents, e) ||
        !block_index_parse(a, contents, s, index, e)) {
        return err_wrap(e, "%s: service %.*s", f->path, STR(s->name));
    }
    add_extent(&facts->parts[PART_SYMBOLS], &s->symbols);
    add_extent(&facts->parts[PART_INDEX], &s->index);
    add_extent(&facts->parts[PART_BLOOMS], &index->blooms);
    add_frames(&facts->parts[PART_NODES], &index->nodes_at);
    facts->totals += add_frames(&facts->parts[PART_TOTALS], &index->totals);
    facts->vectors += add_frames(&facts->parts[PART_VECTORS], &index->vectors);
    facts->rows += add_frames(&facts->parts[PART_HEADS], &index->heads);
    add_frames(&facts->parts[PART_DETAILS], &index->details);
    add_frames(&facts->parts[PART_SPANS], &index->spans);
    for (uint32_t i = 0; i < index->key_count; i++)
        facts->keys[index->keys[i].class]++;
    for (uint32_t i = 0; i < index->node_count; i++) {
        for (size_t w = 0; w < BLOCK_WIDTHS; w++)
            facts->nodes[w] += index->nodes[i].node.width == cli_block_widths[w];
    }
    for (uint32_t i = 0; i < s->dataset_count; i++) {
        const struct block_dataset *d = &s->datasets[i];
        facts->profiles += d->profiles;
        facts->loose += d->loose;
        facts->first_ns = MIN(facts->first_ns, d->first_ns);
        facts->last_ns = MAX(facts->last_ns, d->last_ns);
    }
    return true;
}

bool cli_block_all_facts(struct cli_block *f, struct block_facts *facts, err *e)
{
    const struct block_footer *footer = &f->source.footer;
    // The two times are minimum and maximum of nothing yet.
    *facts = (struct block_facts){.first_ns = INT64_MAX, .last_ns = INT64_MIN};
    add_extent(&facts->parts[PART_FOOTER], &f->source.footer_at);
    for (uint32_t i = 0; i < footer->service_count; i++) {
        // One arena per service: thousands of them need the memory of the largest.
        struct arena a;
        struct block_index index;
        arena_init(&a, NULL, SERVICE_MEMORY);
        bool ok = cli_block_facts(f, &a, &footer->services[i], &index, facts, e);
        arena_release(&a);
        if (!ok) return false;
    }
    return true;
}

// ---- files

// The directory of a store also has objects that are not blocks: those of the manifest, and foreign
// files. The name after "v1/" tells them apart.
static bool is_other_object(str name)
{
    static const str folders[] = {S_INIT("raw/"), S_INIT("h/"), S_INIT("d/")};
    str rest = name;
    uint64_t top = 0;
    // Without a slash at its end, as the caller cut it off.
    struct segment_name segment;
    if (name_is_beside_tenants(name)) return true;
    if (!name_hex(&rest, 2, &top) || !name_char(&rest, '/')) return false;
    (void)str_split(rest, '/', &rest);  // the tenant
    if (str_starts(rest, S("live/a/")))
        return !segment_name_parse(str_slice(rest, S("live/a/").n, rest.n), &segment);
    for (size_t i = 0; i < COUNT(folders); i++) {
        if (str_starts(rest, folders[i])) return false;
    }
    return true;
}

static bool is_no_block(str path)
{
    static const str version = S_INIT("/v1/");
    // Each place is tried: a folder above the store may be called v1 as well.
    for (size_t i = 0; i + version.n < path.n; i++) {
        str rest = str_slice(path, i, path.n);
        if (str_starts(rest, version) && is_other_object(str_slice(rest, version.n, rest.n)))
            return true;
    }
    return false;
}

// Its objects, if it is the data directory of a server or the directory of a store.
static const char *objects_in(struct cli *c, const char *dir)
{
    static const char *const places[] = {"store/o/v1", "o/v1", "v1"};
    for (size_t i = 0; i < COUNT(places); i++) {
        str at = arena_printf(&c->arena, "%s/%s", dir, places[i]);
        if (at.p && file_exists(at.p)) return at.p;
    }
    return dir;
}

// Finds the blocks below a directory. The real path is used, because "." or a link does not show
// whether it is inside a store.
static bool find_blocks(struct cli *c, const char *given, struct cli_files *out, err *e)
{
    struct cli_files all = {0};
    const char *dir = objects_in(c, given);
    char real[PATH_MAX];
    if (!cli_files_below(&c->arena, dir, &all, e)) return false;
    if (!realpath(dir, real)) return err_set(e, ERR_UNAVAILABLE, "%s: %s", dir, strerror(errno));
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++) {
        assert(strncmp(all.v[i], dir, strlen(dir)) == 0);
        str below = str_of(all.v[i] + strlen(dir));
        if (str_starts(below, S("/"))) below = str_slice(below, 1, below.n);
        str path = arena_printf(&c->arena, "%s/%.*s", real, STR(below));
        if (!arena_ok(&c->arena, e)) return false;
        assert(n <= i);
        if (!is_no_block(path)) all.v[n++] = all.v[i];
    }
    all.n = n;
    *out = all;
    // A new server has none for a while: no error, but silence would look like one.
    if (n == 0) {
        cli_say(c,
                "no blocks yet in %s; a server writes new profiles into blocks after about 10 "
                "minutes (ingester.cut_age)",
                dir);
    }
    return true;
}

static bool each_of(struct cli *c, const struct cli_files *files, cli_block_fn *fn, void *arg)
{
    bool well = true;
    for (size_t i = 0; i < files->n; i++) {
        // A bad file is reported, and the others are looked at all the same.
        struct cli_block f;
        err fault = {0};
        bool ok = cli_block_open(&f, files->v[i], &fault) && fn(c, &f, arg, &fault);
        cli_block_close(&f);
        if (ok) continue;
        well = false;
        if (fault.code) cli_say(c, "%s", fault.msg);
    }
    return well;
}

static bool each(struct cli *c, cli_block_fn *fn, void *arg, int *status, err *e)
{
    bool well = true;
    for (size_t i = 0; i < c->args.operand_count; i++) {
        const char *operand = c->args.operands[i];
        struct cli_files files = {.v = &operand, .n = 1};
        struct stat st;
        bool is_dir = stat(operand, &st) == 0 && S_ISDIR(st.st_mode);
        if (is_dir && !find_blocks(c, operand, &files, e)) return false;
        // In this order: && must not skip the files of this operand after a bad one before.
        well = each_of(c, &files, fn, arg) && well;
    }
    if (!well) *status = CLI_FAILED;
    return well;
}

bool cli_block_print(struct cli *c, struct buf *b, bool json, err *e)
{
    if (!json || !c->out_is_tty) return cli_write(c, b, e);
    // JSON escapes control characters, but not those that turn the direction of text.
    struct buf clean;
    buf_init(&clean, NULL, OUTPUT_MAX);
    text_filter(&clean, buf_view(b));
    buf_clear(b);
    bool ok = cli_write(c, &clean, e);
    buf_release(&clean);
    return ok;
}

// ---- block ls

struct list {
    size_t lines;
    bool json;
};

static void put_heading(struct cli *c, struct buf *b)
{
    text_ink(b, c->look.colors, INK_DIM);
    buf_z(b, "kind     from              hours services       rows   profiles      bytes  tenant"
             " and file");
    text_reset(b, c->look.colors);
    buf_byte(b, '\n');
}

static void put_line(struct cli *c, struct buf *b, const struct cli_block *f,
                     const struct block_facts *facts)
{
    const struct block_about *about = &f->source.footer.about;
    char bytes[TEXT_NUMBER_MAX];
    struct buf from;
    buf_init(&from, NULL, 64);
    cli_time_put(&from, slot_start(about->from_hour, SLOT_HOUR));
    buf_printf(b, "%-8s ", cli_block_kind(about->kind));
    buf_str(b, str_slice(buf_view(&from), 0, 16));
    buf_release(&from);
    buf_printf(b, " %6u %8u %10" PRIu64 " %10" PRIu64 " ", about->hours,
               f->source.footer.service_count, facts->rows, facts->profiles);
    text_right(b, text_value(bytes, (double)f->source.size, TEXT_BYTES), 10);
    buf_z(b, "  ");
    text_put(b, about->tenant);
    buf_byte(b, ' ');
    text_ink(b, c->look.colors, INK_STRONG);
    text_put(b, str_of(f->path));
    text_reset(b, c->look.colors);
    buf_byte(b, '\n');
}

static void put_line_json(struct buf *b, const struct cli_block *f, const struct block_facts *facts)
{
    const struct block_about *about = &f->source.footer.about;
    buf_z(b, "{\"file\":");
    json_put_string(b, str_of(f->path));
    buf_printf(b, ",\"kind\":\"%s\",\"tenant\":", cli_block_kind(about->kind));
    json_put_string(b, about->tenant);
    buf_printf(b,
               ",\"fromHour\":%" PRId64 ",\"hours\":%u,\"services\":%u,\"rows\":%" PRIu64
               ",\"profiles\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
               about->from_hour, about->hours, f->source.footer.service_count, facts->rows,
               facts->profiles, f->source.size);
}

static bool list_one(struct cli *c, struct cli_block *f, void *arg, err *e)
{
    struct list *l = arg;
    struct block_facts facts;
    struct buf b;
    if (!cli_block_all_facts(f, &facts, e)) return false;
    buf_init(&b, NULL, OUTPUT_MAX);
    if (l->json) {
        buf_z(&b, l->lines ? ",\n" : "\n");
        put_line_json(&b, f, &facts);
    } else {
        if (l->lines == 0) put_heading(c, &b);
        put_line(c, &b, f, &facts);
    }
    // Counts files that were printed and not files that were tried: a comma stands between two.
    l->lines++;
    bool ok = cli_block_print(c, &b, l->json, e);
    buf_release(&b);
    return ok;
}

bool cli_block_array(struct cli *c, cli_block_fn *fn, void *arg, int *status, err *e)
{
    struct buf b;
    err fault = {0};
    assert(fn && status);
    bool json = cli_wants_json(c);
    if (!cli_width(c, e)) return cli_wrong(status);
    buf_init(&b, NULL, OUTPUT_MAX);
    if (json) buf_byte(&b, '[');
    bool ok = cli_write(c, &b, e);
    if (ok) ok = each(c, fn, arg, status, e);
    // The end is written after a failure as well: what was found so far stays valid JSON.
    if (json) buf_z(&b, "\n]\n");
    if (!cli_write(c, &b, &fault) && ok) {
        // The first error is the cause; one of this write counts only if there was none before.
        *e = fault;
        ok = false;
    }
    buf_release(&b);
    return ok;
}

bool cli_block_ls(struct cli *c, int *status, err *e)
{
    struct list l = {.json = cli_wants_json(c)};
    return cli_block_array(c, list_one, &l, status, e);
}

// ---- block verify

struct check {
    struct cli *c;
    size_t files;
    bool json;
    uint64_t faults;  // of the current file
    struct buf b;
};

static void put_fault(void *arg, str service, const char *text)
{
    struct check *k = arg;
    assert(text);
    k->faults++;
    if (k->json) {
        buf_z(&k->b, k->faults > 1 ? ",\n  {\"service\":" : "\n  {\"service\":");
        json_put_string(&k->b, service);
        buf_z(&k->b, ",\"fault\":");
        json_put_string(&k->b, str_of(text));
        buf_byte(&k->b, '}');
        return;
    }
    // Programs get all of them; for people a broken section can have a million.
    if (k->faults > FAULTS_SHOWN) return;
    buf_z(&k->b, "  ");
    text_ink(&k->b, k->c->look.colors, INK_STRONG);
    text_put(&k->b, service);
    text_reset(&k->b, k->c->look.colors);
    if (service.n) buf_z(&k->b, ": ");
    text_put(&k->b, str_of(text));
    buf_byte(&k->b, '\n');
}

static void put_verdict(struct cli *c, struct buf *b, const struct cli_block *f,
                        const struct block_verified *v)
{
    assert(c && v);
    char bytes[TEXT_NUMBER_MAX];
    text_put(b, str_of(f->path));
    buf_z(b, ": ");
    text_ink(b, c->look.colors, v->faults ? INK_FAULT : INK_STRONG);
    if (v->faults)
        buf_printf(b, "%" PRIu64 " fault%s", v->faults, v->faults == 1 ? "" : "s");
    else
        buf_z(b, "ok");
    text_reset(b, c->look.colors);
    buf_printf(b,
               ", %s of %s: %" PRIu64 " sections, %u services, %" PRIu64 " keys, %" PRIu64
               " nodes, %" PRIu64 " totals, %" PRIu64 " rows, %" PRIu64 " vectors, %" PRIu64
               " spans\n",
               cli_block_kind(f->source.footer.about.kind),
               text_value(bytes, (double)f->source.size, TEXT_BYTES), v->sections, v->services,
               v->keys, v->nodes, v->totals, v->rows, v->vectors, v->spans);
}

static bool verify_one(struct cli *c, struct cli_block *f, void *arg, err *e)
{
    struct check *k = arg;
    struct block_verified v;
    const struct block_verify_options o = {.report = put_fault, .arg = k, .cap = SERVICE_MEMORY};
    k->faults = 0;
    if (k->json) {
        buf_z(&k->b, k->files ? ",\n{\"file\":" : "\n{\"file\":");
        json_put_string(&k->b, str_of(f->path));
        buf_z(&k->b, ",\"faults\":[");
    }
    // Before the file is read, as its opening brace has been written.
    k->files++;
    bool ok = block_verify(&f->source, &o, &v, e) || err_wrap(e, "%s", f->path);
    if (k->json) {
        buf_printf(&k->b,
                   "],\"sections\":%" PRIu64 ",\"services\":%u,\"keys\":%" PRIu64
                   ",\"nodes\":%" PRIu64 ",\"totals\":%" PRIu64 ",\"rows\":%" PRIu64
                   ",\"vectors\":%" PRIu64 ",\"spans\":%" PRIu64 "}",
                   v.sections, v.services, v.keys, v.nodes, v.totals, v.rows, v.vectors, v.spans);
    } else {
        if (k->faults > FAULTS_SHOWN)
            buf_printf(&k->b, "  and %" PRIu64 " more\n", k->faults - FAULTS_SHOWN);
        if (ok) put_verdict(c, &k->b, f, &v);
    }
    // Faults that were found before the failure are printed too, and must not replace it.
    err fault = {0};
    if (!cli_block_print(c, &k->b, k->json, ok ? e : &fault)) return false;
    return ok && v.faults == 0;
}

bool cli_block_verify(struct cli *c, int *status, err *e)
{
    struct check k = {.c = c, .json = cli_wants_json(c)};
    buf_init(&k.b, NULL, OUTPUT_MAX);
    bool ok = cli_block_array(c, verify_one, &k, status, e);
    buf_release(&k.b);
    return ok;
}
