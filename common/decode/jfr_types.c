// SPDX-License-Identifier: Apache-2.0
//
// jfr_types.c - the metadata of a chunk: a tree of elements with attributes, whose names and values
// are numbers of a table of strings.
//
//     root
//       metadata
//         class name, id, [superType, simpleType]
//           field name, class, [constantPool = "true"], [dimension = "1"]
//           annotation ...
//       region
#include "decode/jfr_int.h"

#define DEPTH_MAX 32    // elements in elements; the JDK's have 6
#define NEST_MAX  8     // arrays in arrays, as in jfr_read.c
#define INNER_MAX 16    // classes in classes
#define STEPS_MAX 1024  // of a class
#define LOOKS_MAX 4096  // fields looked at for a program: empty classes take no step

enum element {
    ELEMENT_ROOT,
    ELEMENT_METADATA,
    ELEMENT_CLASS,
    ELEMENT_FIELD,
    ELEMENT_OTHER
};

struct attributes {
    str name;
    uint64_t id;
    uint64_t class_id;
    bool has_id;
    bool has_class;
    bool in_pool;
    bool is_array;
};

struct tree {
    struct jfr_chunk *k;
    struct jfr_cursor *c;
    str *strings;
    uint64_t string_count;
};

static const struct {
    str name;
    str value;  // the field of JFR_VALUE
} kinds[JFR_OTHER] = {
    [JFR_EXECUTION_SAMPLE] = {S_INIT("jdk.ExecutionSample"), {0}},
    [JFR_WALL_SAMPLE] = {S_INIT("profiler.WallClockSample"), {0}},
    [JFR_IN_TLAB] = {S_INIT("jdk.ObjectAllocationInNewTLAB"), S_INIT("tlabSize")},
    [JFR_OUTSIDE_TLAB] = {S_INIT("jdk.ObjectAllocationOutsideTLAB"), S_INIT("allocationSize")},
    [JFR_ALLOCATION_SAMPLE] = {S_INIT("jdk.ObjectAllocationSample"), S_INIT("weight")},
    [JFR_MONITOR_ENTER] = {S_INIT("jdk.JavaMonitorEnter"), S_INIT("duration")},
    [JFR_THREAD_PARK] = {S_INIT("jdk.ThreadPark"), S_INIT("duration")},
    [JFR_LIVE_OBJECT] = {S_INIT("profiler.LiveObject"), {0}},
    [JFR_MALLOC] = {S_INIT("profiler.Malloc"), S_INIT("size")},
    [JFR_SETTING] = {S_INIT("jdk.ActiveSetting"), S_INIT("value")},
    [JFR_SYMBOL] = {S_INIT("jdk.types.Symbol"), {0}},
    [JFR_CLASS] = {S_INIT("java.lang.Class"), {0}},
    [JFR_METHOD_TYPE] = {S_INIT("jdk.types.Method"), {0}},
    [JFR_STACK_TRACE] = {S_INIT("jdk.types.StackTrace"), {0}},
    [JFR_THREAD_STATE] = {S_INIT("jdk.types.ThreadState"), {0}},
    [JFR_STRING] = {S_INIT("java.lang.String"), {0}},
};

static enum jfr_class_kind kind_of(str name)
{
    for (enum jfr_class_kind i = 0; i < JFR_OTHER; i++) {
        if (str_eq(name, kinds[i].name)) return i;
    }
    return JFR_OTHER;
}

// ---- the tree

static bool read_strings(struct tree *t, err *e)
{
    struct jfr_cursor *c = t->c;
    const uint8_t *at = c->at;
    uint64_t n = jfr_int(c);
    if (n > (uint64_t)(c->end - c->at)) {
        jfr_broken(c, at, "a table of strings larger than the metadata");
        n = 0;
    }
    t->string_count = n;
    t->strings = ARENA_ARRAY(t->k->a, str, n);
    if (!t->strings) return arena_fail(t->k->a, e);
    for (uint64_t i = 0; i < n && !c->fault; i++) {
        struct jfr_text text = jfr_text(c);
        t->strings[i] = jfr_text_str(t->k->a, &text, c->compressed);
    }
    return arena_ok(t->k->a, e);
}

static str string_at(struct tree *t)
{
    const uint8_t *at = t->c->at;
    uint64_t i = jfr_int(t->c);
    if (i < t->string_count) return t->strings[i];
    jfr_broken(t->c, at, "metadata that names a string that is not there");
    return (str){0};
}

static void read_attributes(struct tree *t, struct attributes *x)
{
    struct jfr_cursor *c = t->c;
    uint64_t n = jfr_int(c);
    for (uint64_t i = 0; i < n && !c->fault; i++) {
        str key = string_at(t);
        str value = string_at(t);
        if (str_is(key, "name")) x->name = value;
        if (str_is(key, "id")) x->has_id = str_u64(value, &x->id);
        if (str_is(key, "class")) x->has_class = str_u64(value, &x->class_id);
        if (str_is(key, "constantPool")) x->in_pool = str_is(value, "true");
        if (str_is(key, "dimension")) x->is_array = !str_is(value, "0");
    }
}

static bool add_class(struct tree *t, const struct attributes *x, err *e)
{
    struct jfr_types *types = &t->k->types;
    if (!x->has_id || x->name.n == 0) {
        jfr_broken(t->c, t->c->at, "a class without a name or id");
        return true;
    }
    size_t need = (size_t)types->class_count + 1;
    if (!arena_grow(t->k->a, &types->classes, &types->class_cap, need, sizeof *types->classes) ||
        !arena_grow(t->k->a, &types->ids, &types->id_cap, need, sizeof *types->ids)) {
        return arena_fail(t->k->a, e);
    }
    types->ids[types->class_count] = x->id;
    types->classes[types->class_count++] = (struct jfr_class){
        .name = x->name,
        .first_field = types->field_count,
        .kind = kind_of(x->name),
    };
    return true;
}

static bool add_field(struct tree *t, const struct attributes *x, err *e)
{
    struct jfr_types *types = &t->k->types;
    if (!x->has_class) {
        jfr_broken(t->c, t->c->at, "a field without a class");
        return true;
    }
    if (!arena_grow(t->k->a, &types->fields, &types->field_cap, (size_t)types->field_count + 1,
                    sizeof *types->fields)) {
        return arena_fail(t->k->a, e);
    }
    assert(types->class_count > 0);
    types->fields[types->field_count++] = (struct jfr_field){
        .name = x->name,
        .class_id = x->class_id,
        .in_pool = x->in_pool,
        .is_array = x->is_array,
    };
    types->classes[types->class_count - 1].field_count++;
    return true;
}

static enum element element_of(str name, bool outermost, enum element parent)
{
    if (outermost) return ELEMENT_ROOT;
    if (parent == ELEMENT_ROOT && str_is(name, "metadata")) return ELEMENT_METADATA;
    if (parent == ELEMENT_METADATA && str_is(name, "class")) return ELEMENT_CLASS;
    if (parent == ELEMENT_CLASS && str_is(name, "field")) return ELEMENT_FIELD;
    return ELEMENT_OTHER;
}

static bool read_tree(struct tree *t, err *e)
{
    struct {
        enum element kind;
        uint64_t left;  // children
    } open[DEPTH_MAX];
    struct jfr_cursor *c = t->c;
    uint32_t depth = 0;
    do {
        const uint8_t *at = c->at;
        struct attributes x = {0};
        str name = string_at(t);
        read_attributes(t, &x);
        uint64_t children = jfr_int(c);
        enum element parent = depth ? open[depth - 1].kind : ELEMENT_OTHER;
        enum element kind = element_of(name, depth == 0, parent);
        if (c->fault) break;
        if (kind == ELEMENT_CLASS && !add_class(t, &x, e)) return false;
        if (kind == ELEMENT_FIELD && !add_field(t, &x, e)) return false;
        if (depth == DEPTH_MAX) {
            jfr_broken(c, at, "metadata nested deeper than 32");
            break;
        }
        open[depth].kind = kind;
        open[depth++].left = children;
        while (depth > 0 && open[depth - 1].left == 0) {
            depth--;
        }
        if (depth > 0) open[depth - 1].left--;
    } while (depth > 0 && !c->fault);
    return true;
}

bool jfr_read_types(struct jfr *d, struct jfr_chunk *k, err *e)
{
    struct jfr_cursor c = {.at = k->start + k->types_at, .end = k->end, k->compressed, NULL, NULL};
    struct tree t = {.k = k, .c = &c};
    jfr_int(&c);  // size: the tree ends by itself, and the chunk bounds it
    jfr_long(&c);
    jfr_long(&c);
    jfr_long(&c);
    jfr_long(&c);
    if (!read_strings(&t, e)) return false;
    if (!c.fault && !read_tree(&t, e)) return false;
    if (c.fault) return jfr_fail(d, &c, e);
    return idmap_build(&k->types.rows, k->a, k->types.ids, k->types.class_count, e);
}

// ---- programs

struct inner {
    uint32_t row;    // of the class
    uint32_t next;   // field
    uint32_t array;  // the step that begins the array whose element this is; STEPS_MAX = none
    bool frame;      // the class of a frame of a stack
};

struct making {
    struct jfr_chunk *k;
    const struct jfr_class *outer;
    struct jfr_step steps[STEPS_MAX];
    struct inner open[INNER_MAX];
    uint32_t n;
    uint32_t depth;
    uint32_t looks;
    uint32_t arrays;  // that are open
    uint32_t needed;  // steps up to the last that has a slot
    const char *fault;
};

static int primitive(str name)
{
    static const struct {
        str name;
        enum jfr_step_kind kind;
    } all[] = {
        {S_INIT("boolean"), JFR_BYTE},
        {S_INIT("byte"), JFR_BYTE},
        {S_INIT("short"), JFR_SHORT},
        {S_INIT("char"), JFR_SHORT},
        {S_INIT("int"), JFR_INT},
        {S_INIT("long"), JFR_LONG},
        {S_INIT("float"), JFR_FLOAT},
        {S_INIT("double"), JFR_DOUBLE},
        {S_INIT("java.lang.String"), JFR_TEXT},
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        if (str_eq(name, all[i].name)) return (int)all[i].kind;
    }
    return -1;
}

static enum jfr_slot slot_of(const struct making *m, str name)
{
    static const struct {
        str name;
        enum jfr_slot slot;
    } all[] = {
        {S_INIT("stackTrace"), JFR_STACK},   {S_INIT("state"), JFR_STATE},
        {S_INIT("contextId"), JFR_CONTEXT},  {S_INIT("spanId"), JFR_SPAN},
        {S_INIT("spanName"), JFR_SPAN_NAME}, {S_INIT("samples"), JFR_SAMPLES},
        {S_INIT("type"), JFR_TYPE},          {S_INIT("name"), JFR_NAME},
        {S_INIT("frames"), JFR_FRAMES},      {S_INIT("string"), JFR_NAME},
        {S_INIT("startTime"), JFR_START},    {S_INIT("id"), JFR_ID},
        {S_INIT("objectClass"), JFR_OBJECT},
    };
    const struct inner *x = &m->open[m->depth - 1];
    if (x->frame) {
        if (str_is(name, "method")) return JFR_METHOD;
        return str_is(name, "lineNumber") ? JFR_LINE : JFR_NOTHING;
    }
    if (m->depth != 1 || m->outer->kind == JFR_OTHER) return JFR_NOTHING;
    if (name.n && str_eq(name, kinds[m->outer->kind].value)) return JFR_VALUE;
    for (size_t i = 0; i < COUNT(all); i++) {
        if (str_eq(name, all[i].name)) return all[i].slot;
    }
    return JFR_NOTHING;
}

static void put(struct making *m, enum jfr_step_kind kind, enum jfr_slot slot)
{
    if (m->n == STEPS_MAX) {
        m->fault = "has more than 1024 values";
        return;
    }
    m->steps[m->n++] = (struct jfr_step){.kind = (uint8_t)kind, .slot = (uint8_t)slot};
    if (slot != JFR_NOTHING) m->needed = m->n;
}

static void open_class(struct making *m, uint32_t row, uint32_t array, bool frame)
{
    if (m->depth == INNER_MAX) {
        m->fault = "has classes nested deeper than 16, or contains itself";
        return;
    }
    m->open[m->depth++] = (struct inner){.row = row, .array = array, .frame = frame};
}

static void close_array(struct making *m, uint32_t array)
{
    if (array == STEPS_MAX || m->fault) return;
    m->steps[array].body = (uint16_t)(m->n - array - 1);
    if (m->steps[array].slot != JFR_NOTHING) m->needed = m->n;
    m->arrays--;
}

static void make_field(struct making *m, const struct jfr_field *f)
{
    enum jfr_slot slot = slot_of(m, f->name);
    uint32_t array = STEPS_MAX;
    if (++m->looks > LOOKS_MAX) m->fault = "has too many fields";
    if (f->is_array) {
        array = m->n;
        if (++m->arrays > NEST_MAX) m->fault = "has arrays nested deeper than 8";
        put(m, JFR_ARRAY, slot);
        if (slot != JFR_FRAMES) slot = JFR_NOTHING;
    }
    if (m->fault) return;
    if (f->in_pool) {
        put(m, JFR_LONG, slot);
        close_array(m, array);
        return;
    }
    uint32_t row = idmap_row(&m->k->types.rows, f->class_id);
    if (row == MAP_NONE) {
        m->fault = "has a field of a class that is not there";
        return;
    }
    int kind = primitive(m->k->types.classes[row].name);
    if (kind < 0) {
        open_class(m, row, array, f->is_array && slot == JFR_FRAMES);
        return;
    }
    put(m, (enum jfr_step_kind)kind, slot);
    close_array(m, array);
}

static void make_steps(struct making *m)
{
    const struct jfr_types *types = &m->k->types;
    while (m->depth > 0 && !m->fault) {
        struct inner *x = &m->open[m->depth - 1];
        const struct jfr_class *class = &types->classes[x->row];
        if (x->next < class->field_count) {
            make_field(m, &types->fields[class->first_field + x->next++]);
            continue;
        }
        m->depth--;
        close_array(m, x->array);
    }
}

static bool has_numbers_alone(const struct jfr_step *array)
{
    for (uint32_t i = 1; i <= array->body; i++) {
        uint8_t kind = array[i].kind;
        if (kind != JFR_SHORT && kind != JFR_INT && kind != JFR_LONG) return false;
    }
    return true;
}

bool jfr_class_ready(struct jfr_chunk *k, uint32_t row, err *e)
{
    struct jfr_class *class = &k->types.classes[row];
    if (class->ready) return true;
    struct making m = {.k = k, .outer = class};
    int kind = primitive(class->name);
    if (kind >= 0) {
        put(&m, (enum jfr_step_kind)kind, JFR_NAME);
    } else {
        open_class(&m, row, STEPS_MAX, false);
        make_steps(&m);
    }
    if (m.fault) {
        return err_set(e, ERR_INVALID_ARGUMENT, "malformed JFR: the class \"%.*s\" %s",
                       STR(str_slice(class->name, 0, 128)), m.fault);
    }
    // Events have sizes, so what follows the last field of use needs no reading.
    uint32_t n = class->kind < JFR_EVENTS ? m.needed : m.n;
    struct jfr_step *steps = ARENA_ARRAY(k->a, struct jfr_step, n);
    if (!steps) return arena_fail(k->a, e);
    if (n) memcpy(steps, m.steps, n * sizeof *steps);
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].kind == JFR_ARRAY) steps[i].numbers = has_numbers_alone(&steps[i]);
    }
    class->steps = steps;
    class->step_count = n;
    class->ready = true;
    return true;
}
