// SPDX-License-Identifier: Apache-2.0
//
// jfr_labels.c - the agent's LabelsSnapshot:
//
//     LabelsSnapshot { map<int64, Context> contexts = 1; map<int64, string> strings = 2; }
//     Context { map<int64, int64> labels = 1; }   numbers of strings: key and value
#include "base/utf8.h"
#include "codec/pb.h"
#include "decode/jfr_int.h"

struct entry {
    uint64_t key;
    uint64_t number;
    str bytes;
};

static bool read_entry(str message, struct entry *out, err *e)
{
    struct pb_reader r = pb_reader(message);
    *out = (struct entry){0};
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_VARINT) out->key = r.number;
        if (r.field == 2 && r.type == PB_VARINT) out->number = r.number;
        if (r.field == 2 && r.type == PB_BYTES) out->bytes = r.bytes;
    }
    return pb_done(&r, e);
}

struct filling {
    struct jfr_labels *l;
    struct arena *a;
    size_t caps[5];
};

static bool add_string(struct filling *f, const struct entry *x, err *e)
{
    struct jfr_labels *l = f->l;
    size_t need = (size_t)l->string_count + 1;
    str text = x->bytes;
    if (!utf8_is_text(text)) {
        text = utf8_mended(f->a, text);
        l->bad_texts++;
    }
    if (!arena_grow(f->a, &l->string_ids, &f->caps[0], need, sizeof *l->string_ids) ||
        !arena_grow(f->a, &l->strings, &f->caps[1], need, sizeof *l->strings)) {
        return arena_fail(f->a, e);
    }
    l->string_ids[l->string_count] = x->key;
    l->strings[l->string_count++] = text;
    return true;
}

static bool add_context(struct filling *f, const struct entry *x, err *e)
{
    struct jfr_labels *l = f->l;
    size_t need = (size_t)l->context_count + 2;
    if (!arena_grow(f->a, &l->context_ids, &f->caps[2], need, sizeof *l->context_ids) ||
        !arena_grow(f->a, &l->context_first, &f->caps[3], need, sizeof *l->context_first)) {
        return arena_fail(f->a, e);
    }
    struct pb_reader r = pb_reader(x->bytes);
    l->context_first[l->context_count] = l->pair_count;
    while (pb_next(&r)) {
        struct entry pair;
        if (r.field != 1 || r.type != PB_BYTES) continue;
        if (!read_entry(r.bytes, &pair, e)) return false;
        if (!arena_grow(f->a, &l->pairs, &f->caps[4], (size_t)l->pair_count + 1,
                        sizeof *l->pairs)) {
            return arena_fail(f->a, e);
        }
        l->pairs[l->pair_count++] = (struct jfr_label_pair){pair.key, pair.number};
    }
    l->context_ids[l->context_count++] = x->key;
    l->context_first[l->context_count] = l->pair_count;
    return pb_done(&r, e);
}

bool jfr_labels_read(struct jfr_labels *l, struct arena *a, str bytes, err *e)
{
    struct filling f = {.l = l, .a = a};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        struct entry x;
        if (r.field > 2 || r.type != PB_BYTES) continue;
        if (!read_entry(r.bytes, &x, e)) return err_wrap(e, "labels");
        if (!(r.field == 1 ? add_context(&f, &x, e) : add_string(&f, &x, e))) return false;
    }
    if (!pb_done(&r, e)) return err_wrap(e, "labels");
    return idmap_build(&l->contexts, a, l->context_ids, l->context_count, e) &&
           idmap_build(&l->string_rows, a, l->string_ids, l->string_count, e);
}
