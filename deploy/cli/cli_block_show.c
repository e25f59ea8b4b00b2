// SPDX-License-Identifier: Apache-2.0
//
// block show: the footer of a block, its services, and the sizes of its sections.
#include "codec/json.h"
#include "deploy/cli/cli_block.h"
#include "deploy/cli/cli_time.h"

#include <inttypes.h>
#include <stdio.h>

// For damaged files, which may name any size; sound ones stay far below.
#define OUTPUT_MAX     ((size_t)2 << 30)
#define SERVICE_MEMORY ((size_t)16 << 30)
#define NAME_COLUMNS   10u
#define SOURCES_SHOWN  10u

struct show {
    struct cli *c;
    struct cli_block *f;
    struct buf *b;
    bool json;
    size_t files;
    str service;  // --service; p NULL: all
    struct selector match;
    bool has_node;
    bool has_row;
    uint64_t node;
    uint64_t row;
};

static void put_name(const struct show *s, const char *name)
{
    buf_z(s->b, "  ");
    assert(s->b && strlen(name) <= NAME_COLUMNS);
    text_ink(s->b, s->c->look.colors, INK_DIM);
    text_left(s->b, str_of(name), NAME_COLUMNS);
    text_reset(s->b, s->c->look.colors);
    buf_z(s->b, "  ");
}

static void put_counts(struct buf *b, const uint64_t *v, const char *const *names, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (v[i] == 0) continue;
        buf_printf(b, "%s%" PRIu64 " %s", any ? ", " : "", v[i], names[i]);
        any = true;
    }
    buf_z(b, any ? "\n" : "none\n");
}

// ---- the block

static void put_sources(const struct show *s, const struct block_about *about)
{
    if (about->source_count == 0) return;
    put_name(s, "sources");
    buf_printf(s->b, "%zu segment%s\n", about->source_count, about->source_count == 1 ? "" : "s");
    // A block of a week may come from a hundred thousand segments; JSON has them all.
    for (size_t i = 0; i < MIN(about->source_count, SOURCES_SHOWN); i++) {
        text_pad(s->b, NAME_COLUMNS + 4);
        text_put(s->b, about->sources[i]);
        buf_byte(s->b, '\n');
    }
    if (about->source_count > SOURCES_SHOWN) {
        text_pad(s->b, NAME_COLUMNS + 4);
        buf_printf(s->b, "and %zu more\n", about->source_count - SOURCES_SHOWN);
    }
}

// A hash of the list of ingesters and of settings, or what there is in its place.
static const char *placing_text(uint64_t placing, char text[17])
{
    if (placing == PLACING_UNKNOWN) return "unknown";
    if (placing == PLACING_MANY) return "many";
    snprintf(text, 17, "%016" PRIx64, placing);
    return text;
}

static void put_placings(const struct show *s, const struct placings *p)
{
    char text[17];
    if (p->n == 0) return;
    put_name(s, "placings");
    for (uint32_t i = 0; i < p->n; i++)
        buf_printf(s->b, "%s%s", i ? ", " : "", placing_text(p->v[i], text));
    buf_z(s->b, placings_differ(p) ? "; they differ, so rows with clients' ids are loose\n" : "\n");
}

static void json_placings(struct buf *b, const struct placings *p)
{
    char text[17];
    for (uint32_t i = 0; i < p->n; i++)
        buf_printf(b, "%s\"%s\"", i ? "," : "", placing_text(p->v[i], text));
}

static void put_about(const struct show *s)
{
    const struct block_about *about = &s->f->source.footer.about;
    const id128 none = {{0}};
    char text[TEXT_NUMBER_MAX];
    char ulid[ULID_TEXT];
    struct buf *b = s->b;
    text_ink(b, s->c->look.colors, INK_STRONG);
    text_put(b, str_of(s->f->path));
    text_reset(b, s->c->look.colors);
    buf_byte(b, '\n');
    put_name(s, "kind");
    buf_printf(b, "%s of tenant ", cli_block_kind(about->kind));
    text_put(b, about->tenant);
    buf_byte(b, '\n');
    put_name(s, "covers");
    cli_time_put_range(b, slot_start(about->from_hour, SLOT_HOUR),
                       slot_start(about->from_hour + about->hours, SLOT_HOUR));
    buf_printf(b, ", %u hour%s\n", about->hours, about->hours == 1 ? "" : "s");
    if (!id128_eq(about->id, none)) {  // segments have names instead
        ulid_print(about->id, ulid);
        put_name(s, "id");
        buf_printf(b, "%s\n", ulid);
    }
    // Hashes of stacks: the parts of a block that is too large for one object divide them.
    put_name(s, "packs");
    buf_printf(b, "%08x – %08x", about->pack_lo, about->pack_hi);
    if (about->parts > 1) buf_printf(b, ", part %u of %u", about->part + 1, about->parts);
    buf_byte(b, '\n');
    put_name(s, "classes");
    uint64_t classes[BLOCK_CLASSES];
    bool any = false;
    for (int i = 0; i < BLOCK_CLASSES; i++) {
        classes[i] = about->classes >> i & 1;
        if (!classes[i]) continue;
        buf_printf(b, "%s%s", any ? ", " : "", cli_block_class((enum block_class)i));
        any = true;
    }
    buf_z(b, any ? "\n" : "none\n");
    put_name(s, "size");
    buf_printf(b, "%s (%" PRIu64 " bytes)\n",
               text_value(text, (double)s->f->source.size, TEXT_BYTES), s->f->source.size);
    put_sources(s, about);
    put_placings(s, &about->placings);
}

static void put_parts(const struct show *s, const struct block_facts *facts)
{
    struct buf *b = s->b;
    buf_byte(b, '\n');
    text_ink(b, s->c->look.colors, INK_DIM);
    buf_z(b, "  section      number        raw     stored  ratio    share\n");
    text_reset(b, s->c->look.colors);
    uint64_t all = 0;
    // All is more than 0: a block has a footer at least.
    for (size_t i = 0; i < PART_COUNT; i++)
        all += facts->parts[i].stored;
    for (size_t i = 0; i < PART_COUNT; i++) {
        const struct block_part_sum *p = &facts->parts[i];
        char text[TEXT_NUMBER_MAX];
        if (p->sections == 0) continue;
        buf_z(b, "  ");
        text_left(b, str_of(cli_block_parts[i]), NAME_COLUMNS);
        buf_printf(b, " %8" PRIu64, p->sections);
        text_right(b, text_value(text, (double)p->raw, TEXT_BYTES), 11);
        text_right(b, text_value(text, (double)p->stored, TEXT_BYTES), 11);
        buf_printf(b, " %6.2f", (double)p->raw / (double)p->stored);
        double share = (double)p->stored / (double)all;
        text_right(b, text_percent(text, share), 9);
        buf_z(b, "  ");
        text_ink(b, s->c->look.colors, INK_BAR);
        text_bar(b, share, 12);
        text_reset(b, s->c->look.colors);
        buf_byte(b, '\n');
    }
}

// ---- a service

static void put_datasets(const struct show *s, const struct block_service_ref *v,
                         const struct block_index *x)
{
    struct buf *b = s->b;
    text_ink(b, s->c->look.colors, INK_DIM);
    buf_z(b, "    profiles    loose   placed  times, profile type\n");
    text_reset(b, s->c->look.colors);
    for (uint32_t i = 0; i < v->dataset_count; i++) {
        const struct block_dataset *d = &v->datasets[i];
        buf_printf(b, "  %10" PRIu64 " %8" PRIu64 " %8" PRIu64 "  ", d->profiles, d->loose,
                   d->placed);
        cli_time_put_range(b, d->first_ns, d->last_ns);
        buf_z(b, "  ");
        text_put(b, d->type);
        buf_byte(b, '\n');
        // Types of the index and datasets of the footer are in orders of their own, joined by name.
        for (uint32_t t = 0; t < x->type_count; t++) {
            if (!str_eq(x->types[t], d->type) || x->dropped[t].n == 0) continue;
            text_pad(b, 32);
            buf_z(b, "projections leave out ");
            for (uint32_t k = 0; k < x->dropped[t].n; k++) {
                if (k) buf_z(b, ", ");
                text_put(b, x->dropped[t].v[k]);
            }
            buf_byte(b, '\n');
        }
    }
}

static void put_service(const struct show *s, const struct block_service_ref *v,
                        const struct block_index *x, const struct block_facts *facts)
{
    static const char *const classes[] = {"all", "projection", "series"};
    static const char *const widths[] = {"of 5 minutes", "of an hour", "of a day", "of a week",
                                         "of 28 days"};
    struct buf *b = s->b;
    buf_byte(b, '\n');
    text_ink(b, s->c->look.colors, INK_STRONG);
    text_put(b, v->name);
    text_reset(b, s->c->look.colors);
    buf_byte(b, '\n');
    put_name(s, "stacks");
    buf_printf(b, "%u\n", x->stack_count);
    put_name(s, "keys");
    put_counts(b, facts->keys, classes, BLOCK_CLASSES);
    put_name(s, "nodes");
    put_counts(b, facts->nodes, widths, BLOCK_WIDTHS);
    if (facts->totals) {
        put_name(s, "totals");
        buf_printf(b, "%" PRIu64 " of %s\n", facts->totals,
                   s->f->source.footer.about.kind == BLOCK_DAYS ? "hours" : "minutes");
    }
    if (facts->rows) {
        put_name(s, "rows");
        buf_printf(b, "%" PRIu64 " with %" PRIu64 " different vectors\n", facts->rows,
                   facts->vectors);
    }
    put_datasets(s, v, x);
}

static bool put_lists(const struct show *s, const struct block_shown *w, err *e)
{
    struct buf *b = s->b;
    const struct cli_args *args = &s->c->args;
    if (cli_args_has(args, OPT_KEYS)) cli_block_put_keys(w, b);
    if (cli_args_has(args, OPT_NODES)) cli_block_put_nodes(w, b);
    if (s->has_node && !cli_block_put_node(w, s->node, b, e)) return false;
    return !s->has_row || cli_block_put_row(w, s->row, b, e);
}

// ---- JSON

static void json_about(const struct show *s)
{
    const struct block_about *about = &s->f->source.footer.about;
    char ulid[ULID_TEXT];
    struct buf *b = s->b;
    buf_z(b, s->files ? ",\n{\"file\":" : "\n{\"file\":");
    json_put_string(b, str_of(s->f->path));
    buf_printf(b, ",\"bytes\":%" PRIu64 ",\"kind\":\"%s\",\"tenant\":", s->f->source.size,
               cli_block_kind(about->kind));
    json_put_string(b, about->tenant);
    // Segments have no id; theirs is printed as zeros, so that the fields are always the same.
    ulid_print(about->id, ulid);
    buf_printf(b,
               ",\"id\":\"%s\",\"fromHour\":%" PRId64 ",\"hours\":%u,\"packLo\":%u,\"packHi\":%u,"
               "\"part\":%u,\"parts\":%u,\"classes\":[",
               ulid, about->from_hour, about->hours, about->pack_lo, about->pack_hi, about->part,
               MAX(about->parts, 1u));
    bool any = false;
    for (int i = 0; i < BLOCK_CLASSES; i++) {
        if (!(about->classes >> i & 1)) continue;
        buf_printf(b, "%s\"%s\"", any ? "," : "", cli_block_class((enum block_class)i));
        any = true;
    }
    buf_z(b, "],\"sources\":[");
    for (size_t i = 0; i < about->source_count; i++) {
        if (i) buf_byte(b, ',');
        json_put_string(b, about->sources[i]);
    }
    buf_z(b, "],\"placings\":[");
    json_placings(b, &about->placings);
    buf_z(b, "],\"services\":[");
}

static void json_service(const struct show *s, const struct block_service_ref *v,
                         const struct block_index *x, const struct block_facts *facts, bool first)
{
    struct buf *b = s->b;
    buf_z(b, first ? "\n {\"service\":" : ",\n {\"service\":");
    json_put_string(b, v->name);
    buf_printf(b,
               ",\"stacks\":%u,\"totals\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"vectors\":%" PRIu64
               ",\"keyCounts\":{",
               x->stack_count, facts->totals, facts->rows, facts->vectors);
    for (int i = 0; i < BLOCK_CLASSES; i++)
        buf_printf(b, "%s\"%s\":%" PRIu64, i ? "," : "", cli_block_class((enum block_class)i),
                   facts->keys[i]);
    buf_z(b, "},\"nodeCounts\":{");
    for (size_t i = 0; i < BLOCK_WIDTHS; i++)
        buf_printf(b, "%s\"%s\":%" PRIu64, i ? "," : "", cli_block_width(cli_block_widths[i]),
                   facts->nodes[i]);
    buf_z(b, "},\"types\":[");
    for (uint32_t i = 0; i < v->dataset_count; i++) {
        const struct block_dataset *d = &v->datasets[i];
        buf_z(b, i ? ",\n  {\"type\":" : "\n  {\"type\":");
        json_put_string(b, d->type);
        buf_printf(b,
                   ",\"profiles\":%" PRIu64 ",\"loose\":%" PRIu64 ",\"placed\":%" PRIu64
                   ",\"first\":%" PRId64 ",\"last\":%" PRId64 "}",
                   d->profiles, d->loose, d->placed, d->first_ns, d->last_ns);
    }
    buf_byte(b, ']');
}

static void json_parts(const struct show *s, const struct block_facts *facts)
{
    buf_z(s->b, "],\"sections\":{");
    for (size_t i = 0; i < PART_COUNT; i++) {
        const struct block_part_sum *p = &facts->parts[i];
        buf_printf(s->b,
                   "%s\n  \"%s\":{\"number\":%" PRIu64 ",\"raw\":%" PRIu64 ",\"stored\":%" PRIu64
                   "}",
                   i ? "," : "", cli_block_parts[i], p->sections, p->raw, p->stored);
    }
    buf_z(s->b, "}}");
}

// ---- the whole

static void add_parts(struct block_facts *to, const struct block_facts *from)
{
    for (size_t i = 0; i < PART_COUNT; i++) {
        to->parts[i].sections += from->parts[i].sections;
        to->parts[i].raw += from->parts[i].raw;
        to->parts[i].stored += from->parts[i].stored;
    }
}

static bool show_service(const struct show *s, const struct block_service_ref *v,
                         struct block_facts *all, bool first, err *e)
{
    assert(s->f && s->b);
    struct arena a;
    struct block_index x = {0};
    struct block_facts facts = {0};
    arena_init(&a, NULL, SERVICE_MEMORY);
    struct block_shown w = {.c = s->c, .f = s->f, .s = v, .a = &a, .index = &x};
    bool ok = cli_block_facts(s->f, &a, v, &x, &facts, e) &&
              block_select(x.postings, &a, &s->match, &w.keys, e);
    if (ok && s->json)
        json_service(s, v, &x, &facts, first);
    else if (ok)
        put_service(s, v, &x, &facts);
    ok = ok && put_lists(s, &w, e);
    if (ok && s->json) buf_byte(s->b, '}');  // here, as the lists are members of the service
    // Also after a failure: the caller does not print them then.
    add_parts(all, &facts);
    arena_release(&a);
    // Printed service by service: a block may have thousands, and memory is that of one.
    return ok && cli_block_print(s->c, s->b, s->json, e);
}

static bool show_all(const struct show *s, err *e)
{
    const struct block_footer *footer = &s->f->source.footer;
    struct block_facts all = {0};
    bool any = false;
    // The one section that belongs to no service.
    all.parts[PART_FOOTER] =
        (struct block_part_sum){1, s->f->source.footer_at.raw, s->f->source.footer_at.stored};
    if (s->json)
        json_about(s);
    else
        put_about(s);
    for (uint32_t i = 0; i < footer->service_count; i++) {
        const struct block_service_ref *v = &footer->services[i];
        // By the pointer: an empty text is a service without a name.
        if (s->service.p && !str_eq(s->service, v->name)) continue;
        if (!show_service(s, v, &all, !any, e)) return false;
        any = true;
    }
    if (!any && s->service.p) {
        return err_set(e, ERR_NOT_FOUND, "%s: there is no service %.*s in it", s->f->path,
                       STR(s->service));
    }
    if (s->json)
        json_parts(s, &all);
    else
        put_parts(s, &all);
    return cli_block_print(s->c, s->b, s->json, e);
}

static bool show_one(struct cli *c, struct cli_block *f, void *arg, err *e)
{
    struct show *s = arg;
    (void)c;
    struct buf b;
    // Nodes and rows are numbered within their service.
    if ((s->has_node || s->has_row) && !s->service.p && f->source.footer.service_count > 1) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "%s: it has %u services; --node and --row need --service", f->path,
                       f->source.footer.service_count);
    }
    buf_init(&b, NULL, OUTPUT_MAX);
    // Both are of this file only; the next call sets them again.
    s->f = f;
    s->b = &b;
    if (s->files && !s->json) buf_byte(&b, '\n');
    bool ok = show_all(s, e);
    s->files++;
    buf_release(&b);
    return ok;
}

bool cli_block_show(struct cli *c, int *status, err *e)
{
    struct show s = {.c = c, .json = cli_wants_json(c)};
    const char *service = cli_args_get(&c->args, OPT_BLOCK_SERVICE);
    const char *match = cli_args_get(&c->args, OPT_BLOCK_MATCH);
    s.has_node = cli_args_has(&c->args, OPT_NODE);
    s.has_row = cli_args_has(&c->args, OPT_ROW);
    if (service) s.service = str_of(service);
    if (match && !cli_args_has(&c->args, OPT_KEYS) && !cli_args_has(&c->args, OPT_NODES)) {
        err_set(e, ERR_INVALID_ARGUMENT, "--match selects what --keys and --nodes list");
        return cli_wrong(status);
    }
    if (cli_args_has(&c->args, OPT_BLOCK_TOP) && !s.has_node && !s.has_row) {
        err_set(e, ERR_INVALID_ARGUMENT, "--top is for the stacks of --node and --row");
        return cli_wrong(status);
    }
    if (match && !selector_parse(&c->arena, str_of(match), &s.match, e)) {
        err_wrap(e, "--match");
        return cli_wrong(status);
    }
    if (!cli_args_number(&c->args, OPT_NODE, 0, UINT32_MAX, &s.node, e) ||
        !cli_args_number(&c->args, OPT_ROW, 0, INT64_MAX, &s.row, e)) {
        return cli_wrong(status);
    }
    return cli_block_array(c, show_one, &s, status, e);
}
