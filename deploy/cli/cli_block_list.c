// SPDX-License-Identifier: Apache-2.0
//
// block show: keys, nodes, and the stacks with the largest values in a node or a row of a service.
#include "codec/json.h"
#include "deploy/cli/cli_block.h"
#include "deploy/cli/cli_merge.h"
#include "deploy/cli/cli_time.h"
#include "model/frame_name.h"

#include <inttypes.h>
#include <stdlib.h>

#define STACKS_MAX    1000000
#define VALUE_COLUMNS 11u
#define STACK_LEAST   20u
#define FRAMES_SHOWN  100

static void put_labels(struct buf *b, labels ls)
{
    buf_byte(b, '{');
    for (size_t i = 0; i < ls.n; i++) {
        if (i) buf_z(b, ", ");
        text_put(b, ls.v[i].name);
        buf_z(b, "=\"");
        text_put(b, ls.v[i].value);
        buf_byte(b, '"');
    }
    buf_byte(b, '}');
}

static void json_labels(struct buf *b, labels ls)
{
    buf_byte(b, '{');
    for (size_t i = 0; i < ls.n; i++) {
        if (i) buf_byte(b, ',');
        json_put_string(b, ls.v[i].name);
        buf_byte(b, ':');
        json_put_string(b, ls.v[i].value);
    }
    buf_byte(b, '}');
}

static void put_titles(const struct block_shown *w, struct buf *b, const char *titles)
{
    buf_byte(b, '\n');
    text_ink(b, w->c->look.colors, INK_DIM);
    buf_z(b, titles);
    text_reset(b, w->c->look.colors);
    buf_byte(b, '\n');
}

// ---- keys

void cli_block_put_keys(const struct block_shown *w, struct buf *b)
{
    const struct block_index *x = w->index;
    assert(x && b);
    bool json = cli_wants_json(w->c);
    bool any = false;
    if (json)
        buf_z(b, ",\"keys\":[");
    else
        put_titles(w, b, "     key  class          nodes    totals       rows  type, labels");
    for (uint32_t i = 0; i < x->key_count; i++) {
        const struct block_key_ref *k = &x->keys[i];
        if (!block_set_has(&w->keys, i)) continue;
        if (json) {
            buf_printf(b, "%s\n  {\"key\":%u,\"class\":\"%s\",\"type\":", any ? "," : "", i,
                       cli_block_class(k->class));
            json_put_string(b, x->types[k->type]);
            buf_printf(b, ",\"nodes\":%u,\"totals\":%u,\"rows\":%" PRIu64 ",\"labels\":",
                       k->node_count, k->total_count, k->row_count);
            json_labels(b, k->ls);
            buf_byte(b, '}');
        } else {
            buf_printf(b, "%8u  %-10s %9u %9u %10" PRIu64 "  ", i, cli_block_class(k->class),
                       k->node_count, k->total_count, k->row_count);
            text_put(b, x->types[k->type]);
            buf_byte(b, ' ');
            put_labels(b, k->ls);
            buf_byte(b, '\n');
        }
        any = true;
    }
    if (json) buf_byte(b, ']');
}

// ---- nodes

static const char *value_text(char text[TEXT_NUMBER_MAX], const struct block_shown *w,
                              const struct block_key_ref *k, int64_t v)
{
    assert(k->type < w->index->type_count);
    struct draw_unit u = cli_merge_unit(w->index->types[k->type]);
    return text_value(text, (double)v * u.factor, u.unit);
}

static void put_node_line(const struct block_shown *w, struct buf *b, uint32_t key, uint32_t node)
{
    assert(key < w->index->key_count && node < w->index->node_count);
    const struct block_key_ref *k = &w->index->keys[key];
    const struct block_node *n = &w->index->nodes[node].node;
    char text[TEXT_NUMBER_MAX];
    buf_printf(b, "%8u %8u  %-4s", node, key, cli_block_width(n->width));
    cli_time_put_range(b, slot_start(n->slot, n->width), slot_start(n->slot + 1, n->width));
    buf_printf(b, " %10" PRIu64, n->profiles);
    text_right(b, value_text(text, w, k, n->total), VALUE_COLUMNS);
    buf_printf(b, "  %s\n", cli_block_class(k->class));
}

static void json_node(struct buf *b, uint32_t key, uint32_t node, const struct block_node *n)
{
    buf_printf(b,
               "{\"node\":%u,\"key\":%u,\"width\":\"%s\",\"start\":%" PRId64
               ",\"profiles\":%" PRIu64 ",\"total\":%" PRId64 ",\"first\":%" PRId64
               ",\"last\":%" PRId64 "}",
               node, key, cli_block_width(n->width), slot_start(n->slot, n->width), n->profiles,
               n->total, n->first_ns, n->last_ns);
}

void cli_block_put_nodes(const struct block_shown *w, struct buf *b)
{
    const struct block_index *x = w->index;
    bool json = cli_wants_json(w->c);
    bool any = false;
    if (json)
        buf_z(b, ",\"nodes\":[");
    else
        put_titles(w, b, "    node      key  slot, profiles, total, class");
    for (uint32_t i = 0; i < x->key_count; i++) {
        // The nodes of a key lie side by side; that they are in bounds was checked by the reader.
        const struct block_key_ref *k = &x->keys[i];
        if (!block_set_has(&w->keys, i)) continue;
        for (uint32_t n = k->first_node; n < k->first_node + k->node_count; n++) {
            if (json) {
                buf_z(b, any ? ",\n  " : "\n  ");
                json_node(b, i, n, &x->nodes[n].node);
            } else {
                put_node_line(w, b, i, n);
            }
            any = true;
        }
    }
    if (json) buf_byte(b, ']');
}

// ---- stacks of a vector

static int by_value(const void *a, const void *b)
{
    const struct vector_entry *x = a;
    const struct vector_entry *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    // Equal values need an order too, or two runs could differ.
    return (x->stack > y->stack) - (x->stack < y->stack);
}

// The frames of a stack, the leaf first.
static void put_stack(struct buf *b, const struct symbol_table *t, uint32_t stack, bool json)
{
    assert(stack < t->stack_count);
    bool any = false;
    if (stack == 0 && !json) buf_z(b, "[unknown]");
    // Ends at 0, the empty stack: parents have smaller numbers, which the reader has checked.
    for (int i = 0; stack && i < FRAMES_SHOWN; i++, stack = t->stacks[stack].parent) {
        char room[FRAME_NAME_MAX];
        str name = frame_name(t, t->stacks[stack].frame, room);
        if (any) buf_z(b, json ? "," : " < ");
        any = true;
        if (json)
            json_put_string(b, name);
        else
            text_put(b, name.n ? name : S("?"));
    }
}

static void put_entry(const struct block_shown *w, struct buf *b, const struct symbol_table *t,
                      const struct block_key_ref *k, const struct vector_entry *v, double all)
{
    char text[TEXT_NUMBER_MAX];
    // The stack goes through a buffer of its own, since only the whole can be cut to the width.
    struct buf stack;
    text_right(b, value_text(text, w, k, v->value), VALUE_COLUMNS);
    text_right(b, text_percent(text, all != 0 ? (double)v->value / all : 0), 9);
    buf_printf(b, " %8u  ", v->stack);
    buf_init(&stack, NULL, (size_t)1 << 20);
    put_stack(&stack, t, v->stack, false);
    unsigned used = VALUE_COLUMNS + 9 + 11;
    unsigned room = w->c->look.width > used + STACK_LEAST ? w->c->look.width - used : STACK_LEAST;
    text_put_cut(b, buf_view(&stack), room);
    buf_release(&stack);
    buf_byte(b, '\n');
}

static bool put_vector(const struct block_shown *w, struct buf *b, const struct block_key_ref *k,
                       str columns, int64_t factor, const char *name, err *e)
{
    struct symbol_table t = {0};
    struct vector_entry *v = NULL;
    str contents = {0};
    assert(name);
    size_t n = 0;
    uint64_t most = 20;
    double all = 0;
    bool json = cli_wants_json(w->c);
    if (!cli_args_number(&w->c->args, OPT_BLOCK_TOP, 1, STACKS_MAX, &most, e)) return false;
    if (!block_source_sections(w->a, &w->f->source, &w->s->symbols, 1, &contents, e) ||
        !block_symbols_parse(w->a, contents, &t, e)) {
        return false;
    }
    // Nothing below trusts the file: the vector may be damaged although its section has the right
    // hash.
    if (!columns_entries(w->a, columns, t.stack_count, &v, &n, e)) return err_wrap(e, "the vector");
    for (size_t i = 0; i < n; i++) {
        if (v[i].stack >= t.stack_count)
            return err_set(e, ERR_DATA_LOSS, "the vector has stack %u of %u", v[i].stack,
                           t.stack_count);
        // A vector is shared by nodes whose values are multiples of each other; the factor is this
        // node's.
        if (__builtin_mul_overflow(v[i].value, factor, &v[i].value))
            return err_set(e, ERR_DATA_LOSS, "the vector times %" PRId64 " does not fit 64 bits",
                           factor);
        // As a number with a fraction: a sum of integers could overflow, and this one is for shares
        // only.
        all += (double)v[i].value;
    }
    qsort(v, n, sizeof *v, by_value);
    if (json)
        buf_printf(b, ",\"%s\":[", name);
    else
        put_titles(w, b, "      value    share    stack  the leaf < its callers");
    for (size_t i = 0; i < MIN(n, most); i++) {
        if (json) {
            buf_printf(b, "%s\n  {\"value\":%" PRId64 ",\"stack\":%u,\"frames\":[", i ? "," : "",
                       v[i].value, v[i].stack);
            put_stack(b, &t, v[i].stack, true);
            buf_z(b, "]}");
        } else {
            put_entry(w, b, &t, k, &v[i], all);
        }
    }
    if (json) buf_byte(b, ']');
    if (!json && n > most) buf_printf(b, "and %zu more stacks\n", n - (size_t)most);
    return true;
}

// The vector at a place of a frame.
static bool get_vector(const struct block_shown *w, const struct block_frame *f, uint64_t place,
                       str *columns, err *e)
{
    struct block_vectors v;
    str contents = {0};
    if (!block_source_sections(w->a, &w->f->source, &f->extent, 1, &contents, e) ||
        !block_vectors_parse(w->a, contents, f->count, &v, e)) {
        return false;
    }
    assert(place < f->count);
    *columns = block_vector_at(&v, (uint32_t)place);
    return true;
}

bool cli_block_put_node(const struct block_shown *w, uint64_t n, struct buf *b, err *e)
{
    const struct block_index *x = w->index;
    str columns = {0};
    if (n >= x->node_count) {
        return err_set(e, ERR_OUT_OF_RANGE, "--node %" PRIu64 ": service %.*s has %u nodes", n,
                       STR(w->s->name), x->node_count);
    }
    uint32_t key = 0;
    // Before a key's first node the difference wraps to a large number, so one comparison does.
    // Each node is of a key, so the loop ends.
    while (n - x->keys[key].first_node >= x->keys[key].node_count)
        key++;
    assert(key < x->key_count);
    const struct block_node_ref *ref = &x->nodes[n];
    if (!get_vector(w, &x->nodes_at.v[ref->frame], ref->place, &columns, e)) return false;
    if (cli_wants_json(w->c)) {
        buf_z(b, ",\"node\":");
        json_node(b, key, (uint32_t)n, &ref->node);
    } else {
        put_titles(w, b, "    node      key  slot, profiles, total, class");
        put_node_line(w, b, key, (uint32_t)n);
    }
    return put_vector(w, b, &x->keys[key], columns, ref->factor, "nodeStacks", e);
}

// ---- a row

struct row {
    int64_t time_ns;
    int64_t total;
    id128 id;
    uint64_t vector;
    int64_t factor;
    int64_t duration_ns;
    uint32_t attempt;
    labels annotations;
};

static bool get_row(const struct block_shown *w, uint64_t n, struct row *row, err *e)
{
    const struct block_frame *head = block_frame_of(&w->index->heads, n);
    const struct block_frame *rest = block_frame_of(&w->index->details, n);
    struct block_heads h = {0};
    struct block_details d = {0};
    str contents[2] = {{0}};
    if (!head || !rest) {
        return err_set(e, ERR_OUT_OF_RANGE, "--row %" PRIu64 ": service %.*s has no such row", n,
                       STR(w->s->name));
    }
    // Details are read with the heads, whose number of rows they do not repeat.
    const struct block_extent x[2] = {head->extent, rest->extent};
    if (!block_source_sections(w->a, &w->f->source, x, 2, contents, e) ||
        !block_heads_parse(w->a, contents[0], head->count, &h, e) ||
        !block_details_parse(w->a, contents[1], &h, &d, e)) {
        return false;
    }
    assert(n >= head->first && n - head->first < head->count);
    uint64_t i = n - head->first;
    *row = (struct row){.time_ns = h.times[i],
                        .total = h.totals[i],
                        .id = d.ids[i],
                        .vector = d.vectors[i],
                        .factor = d.factors ? d.factors[i] : 1,
                        .duration_ns = d.durations ? d.durations[i] : 0,
                        .attempt = h.attempts ? block_attempt(h.attempts[i]) : 0};
    if (d.annotations) row->annotations = d.annotations[i];
    return true;
}

static void put_row_line(const struct block_shown *w, struct buf *b, const struct row *r,
                         uint32_t key)
{
    assert(key < w->index->key_count);
    const struct block_key_ref *k = &w->index->keys[key];
    char text[TEXT_NUMBER_MAX];
    char id[UUID_TEXT];
    uuid_print(r->id, id);
    put_titles(w, b, "row");
    buf_z(b, "  ");
    cli_time_put(b, r->time_ns);
    buf_printf(b, ".%09" PRId64 " UTC, profile %s, total %s, vector %" PRIu64,
               r->time_ns % 1000000000, id, value_text(text, w, k, r->total), r->vector);
    if (r->factor != 1) buf_printf(b, " times %" PRId64, r->factor);
    if (r->duration_ns)
        buf_printf(b, ", over %s", text_value(text, (double)r->duration_ns, TEXT_NS));
    if (r->attempt) buf_printf(b, ", attempt %u", r->attempt);
    buf_printf(b, "\n  key %u ", key);
    put_labels(b, k->ls);
    buf_byte(b, '\n');
    if (r->annotations.n == 0) return;
    buf_z(b, "  annotations ");
    put_labels(b, r->annotations);
    buf_byte(b, '\n');
}

static void json_row(struct buf *b, const struct row *r, uint32_t key)
{
    char id[UUID_TEXT];
    uuid_print(r->id, id);
    buf_printf(b,
               ",\"row\":{\"key\":%u,\"time\":%" PRId64 ",\"id\":\"%s\",\"total\":%" PRId64
               ",\"vector\":%" PRIu64 ",\"factor\":%" PRId64 ",\"duration\":%" PRId64
               ",\"attempt\":%u,\"annotations\":",
               key, r->time_ns, id, r->total, r->vector, r->factor, r->duration_ns, r->attempt);
    json_labels(b, r->annotations);
    buf_byte(b, '}');
}

bool cli_block_put_row(const struct block_shown *w, uint64_t n, struct buf *b, err *e)
{
    const struct block_index *x = w->index;
    struct row row = {0};
    str columns = {0};
    if (!get_row(w, n, &row, e)) return false;
    uint32_t key = 0;
    // As with nodes; if it is of no other key, it is of the last one.
    while (key + 1 < x->key_count && n - x->keys[key].first_row >= x->keys[key].row_count)
        key++;
    const struct block_frame *f = block_frame_of(&x->vectors, row.vector);
    if (!f) return err_set(e, ERR_DATA_LOSS, "vector %" PRIu64 " is not there", row.vector);
    if (!get_vector(w, f, row.vector - f->first, &columns, e)) return false;
    if (cli_wants_json(w->c))
        json_row(b, &row, key);
    else
        put_row_line(w, b, &row, key);
    return put_vector(w, b, &x->keys[key], columns, row.factor, "rowStacks", e);
}
