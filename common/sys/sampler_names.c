// SPDX-License-Identifier: Apache-2.0
//
// sampler_names.c - addresses as names, by libdw: lines and inlined functions from debug data, else
// from symbols.
#include "base/hash.h"
#include "base/search.h"
#include "sys/clock.h"
#include "sys/sampler_names_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <dwarf.h>

#define TEXTS_MAX      ((size_t)16 << 20)
#define BUILD_ID_MAX   64  // bytes
#define REPORT_EACH_NS (60 * (uint64_t)NS_PER_S)
#define SCOPES_MAX     64  // inlined functions at one pc

// ---- files

static void hex_of(const unsigned char *bytes, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    text[2 * n] = '\0';
}

static size_t build_id_of(Dwfl_Module *m, char text[2 * BUILD_ID_MAX + 1])
{
    const unsigned char *bits = NULL;
    GElf_Addr at = 0;
    int n = dwfl_module_build_id(m, &bits, &at);
    // A file without a build id has none here either.
    if (n <= 0 || n > BUILD_ID_MAX) n = 0;
    hex_of(bits, (size_t)n, text);
    return (size_t)n * 2;
}

// libdw's own search may ask a server in the network, and it unpacks what it finds in memory. So
// only the program's own file is looked for. The signature is libdw's.
// NOLINTNEXTLINE(readability-function-size)
static int find_debug(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base,
                      const char *file, const char *link, GElf_Word crc, char **found)
{
    (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc;
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    (void)dwfl_module_info(m, NULL, &begin, &end, NULL, NULL, NULL, NULL);
    bool own = begin <= (uint64_t)find_debug && (uint64_t)find_debug < end;
    char id[2 * BUILD_ID_MAX + 1];
    char path[sizeof id + 64];
    if (!own || build_id_of(m, id) < 4) return -1;
    snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) *found = strdup(path);
    return fd;
}

static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                         .find_debuginfo = find_debug};

static int pin_file(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base, void *arg)
{
    (void)user, (void)name, (void)base, (void)arg;
    GElf_Addr bias = 0;
    (void)dwfl_module_getelf(m, &bias);
    return DWARF_CB_OK;
}

// Reads which files are mapped. They are opened at once, because an upgrade may put other files in
// their places later.
static void report(struct sampler_names *n)
{
    assert(n->dwfl);
    n->reported_mono_ns = clock_mono_ns();
    dwfl_report_begin(n->dwfl);
    (void)dwfl_linux_proc_report(n->dwfl, getpid());
    (void)dwfl_report_end(n->dwfl, NULL, NULL);
    (void)dwfl_getmodules(n->dwfl, pin_file, NULL, 0);
}

static int load_file(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base, void *arg)
{
    (void)user, (void)name, (void)base, (void)arg;
    Dwarf_Addr bias = 0;
    Dwarf *debug = dwfl_module_getdwarf(m, &bias);
    Dwarf_Aranges *units = NULL;
    // Tables are read now, at the start: later the first sample of a file would wait for them.
    if (debug) (void)dwarf_getaranges(debug, &units, NULL);
    (void)dwfl_module_getsymtab(m);
    return DWARF_CB_OK;
}

void sampler_names_load(struct sampler_names *n)
{
    (void)dwfl_getmodules(n->dwfl, load_file, NULL, 0);
}

// libdw gives the last module for what lies behind it.
static Dwfl_Module *module_at(const struct sampler_names *n, uint64_t pc)
{
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    Dwfl_Module *m = dwfl_addrmodule(n->dwfl, pc);
    if (m) (void)dwfl_module_info(m, NULL, &begin, &end, NULL, NULL, NULL, NULL);
    return m && begin <= pc && pc < end ? m : NULL;
}

Dwfl_Module *names_module(struct sampler_names *n, uint64_t pc)
{
    Dwfl_Module *m = module_at(n, pc);
    if (m || clock_mono_ns() - n->reported_mono_ns < REPORT_EACH_NS) return m;
    report(n);  // a library may have come
    return module_at(n, pc);
}

// The number of a module, which libdw keeps with it, plus one.
static bool number_module(struct sampler_names *n, Dwfl_Module *m, uint32_t *number, err *e)
{
    void **user = NULL;
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    const char *file = NULL;
    const char *name = dwfl_module_info(m, &user, &begin, &end, NULL, NULL, &file, NULL);
    if (*user) {
        *number = (uint32_t)((uintptr_t)*user - 1);
        return true;
    }
    // libdw keeps a pointer of ours with each module: the number plus one, so that NULL is "none
    // yet".
    size_t need = n->module_count + 1;
    if (!mem_grow(n->memory, &n->modules, &n->module_cap, need, sizeof *n->modules, e) ||
        !mem_grow(n->memory, &n->symbols, &n->symbols_cap, need, sizeof *n->symbols, e))
        return false;
    char id[2 * BUILD_ID_MAX + 1];
    size_t id_length = build_id_of(m, id);
    struct sampler_module *row = &n->modules[n->module_count];
    *row = (struct sampler_module){
        .file = arena_str(&n->module_texts, str_of(file ? file : name)),
        .build_id = arena_str(&n->module_texts, str_make(id, id_length)),
        .begin = begin,
        .end = end,
    };
    if (!arena_ok(&n->module_texts, e)) return false;
    *number = (uint32_t)n->module_count++;
    *user = (void *)(uintptr_t)n->module_count;  // NOLINT: a number
    return true;
}

// ---- functions

struct function_key {
    const struct sampler_names *names;
    str linked;
    str file;
};

static bool same_function(const void *ctx, uint32_t row)
{
    const struct function_key *k = ctx;
    const struct sampler_function *f = &k->names->functions[row];
    return str_eq(f->linked, k->linked) && str_eq(f->file, k->file);
}

static bool intern_function(struct sampler_names *n, const char *linked, const char *file,
                            uint32_t *number, err *e)
{
    struct function_key k = {.names = n, .linked = str_of(linked), .file = str_of(file)};
    uint64_t hash = hash_table_and(hash_table_str(k.linked), hash_table_str(k.file));
    *number = map_find(&n->names, hash, same_function, &k);
    if (*number != MAP_NONE) return true;
    if (!mem_grow(n->memory, &n->functions, &n->function_cap, n->function_count + 1,
                  sizeof *n->functions, e))
        return false;
    struct sampler_function *f = &n->functions[n->function_count];
    f->linked = arena_str(&n->texts, k.linked);
    f->file = arena_str(&n->texts, k.file);
    char *clear = sampler_demangle(linked);
    f->name = clear ? arena_str(&n->texts, str_of(clear)) : f->linked;
    free(clear);
    if (!arena_ok(&n->texts, e)) return false;
    if (!map_put(&n->names, hash, (uint32_t)n->function_count, e)) return false;
    assert(n->function_count < MAP_NONE);
    *number = (uint32_t)n->function_count++;
    return true;
}

static bool add_line(struct sampler_names *n, struct pc_row *row, uint32_t function, int line,
                     err *e)
{
    if (!mem_grow(n->memory, &n->lines, &n->line_cap, n->line_count + 1, sizeof *n->lines, e))
        return false;
    assert(row->first + row->count == n->line_count);
    n->lines[n->line_count++] =
        (struct sampler_line){.function = function, .line = line > 0 ? (uint32_t)line : 0};
    row->count++;
    return true;
}

// ---- debug information

static bool is_function(Dwarf_Die *d)
{
    int tag = dwarf_tag(d);
    return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_subprogram ||
           tag == DW_TAG_entry_point;
}

static const char *linked_name(Dwarf_Die *d)
{
    Dwarf_Attribute a;
    const char *linked = NULL;
    if (dwarf_attr_integrate(d, DW_AT_linkage_name, &a)) linked = dwarf_formstring(&a);
    return linked ? linked : dwarf_diename(d);
}

static int call_line(Dwarf_Die *d)
{
    Dwarf_Attribute a;
    Dwarf_Word v = 0;
    if (!dwarf_attr(d, DW_AT_call_line, &a) || dwarf_formudata(&a, &v) != 0 || v > INT32_MAX)
        return 0;
    return (int)v;
}

// The scopes around a pc, innermost first, malloc'd. What dwarf_getscopes gives leaves the place of
// an inlined function for that of its definition, so only its innermost one is taken, and then its
// parents.
static int scopes_at(Dwfl_Module *m, uint64_t pc, Dwarf_Die **scopes)
{
    Dwarf_Addr bias = 0;
    Dwarf_Die *unit = dwfl_module_addrdie(m, pc, &bias);
    Dwarf_Die *inner = NULL;
    if (!unit || dwarf_getscopes(unit, pc - bias, &inner) <= 0) return 0;
    // Copied, because freeing the list frees the entries.
    Dwarf_Die innermost = inner[0];
    free(inner);
    return dwarf_getscopes_die(&innermost, scopes);
}

static int line_at(Dwfl_Module *m, uint64_t pc)
{
    int line = 0;
    Dwfl_Line *l = dwfl_module_getsrc(m, pc);
    if (l) (void)dwfl_lineinfo(l, NULL, &line, NULL, NULL, NULL);
    return line;
}

static bool locate_by_debug(struct sampler_names *n, Dwfl_Module *m, struct pc_row *row, err *e)
{
    Dwarf_Die *scopes = NULL;
    int count = scopes_at(m, row->pc, &scopes);
    int line = count > 0 ? line_at(m, row->pc) : 0;
    bool ok = true;
    for (int i = 0; ok && i < count && row->count < SCOPES_MAX; i++) {
        if (!is_function(&scopes[i])) continue;
        const char *name = linked_name(&scopes[i]);
        uint32_t function = 0;
        if (name) {
            ok = intern_function(n, name, dwarf_decl_file(&scopes[i]), &function, e) &&
                 add_line(n, row, function, line, e);
        }
        // Scopes outside of a function that was not inlined are namespaces and classes.
        if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine) break;
        line = call_line(&scopes[i]);
    }
    free(scopes);
    return ok;
}

// ---- symbols

static int compare_spans(const void *left, const void *right)
{
    const struct symbol_span *a = left;
    const struct symbol_span *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->preference != b->preference) return a->preference < b->preference ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static bool read_symbols(struct sampler_names *n, Dwfl_Module *m, struct symbol_spans *s, err *e)
{
    static const uint32_t preferences[] = {[STB_LOCAL] = 2, [STB_GLOBAL] = 0, [STB_WEAK] = 1};
    int count = dwfl_module_getsymtab(m);
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr at = 0;
        const char *name = dwfl_module_getsym_info(m, i, &symbol, &at, NULL, NULL, NULL);
        unsigned type = GELF_ST_TYPE(symbol.st_info);
        unsigned binding = GELF_ST_BIND(symbol.st_info);
        bool code = type == STT_FUNC || type == STT_GNU_IFUNC;
        if (!name || !name[0] || !code || symbol.st_size == 0) continue;
        if (symbol.st_shndx == SHN_UNDEF) continue;
        if (!mem_grow(n->memory, &s->v, &s->cap, s->n + 1, sizeof *s->v, e)) return false;
        s->v[s->n++] = (struct symbol_span){
            .begin = at,
            .end = at + symbol.st_size,
            .preference = binding < COUNT(preferences) ? preferences[binding] : 2,
            .number = i,
        };
    }
    // The first entry of a table is empty, so the loop began at 1.
    if (s->n > 0) qsort(s->v, s->n, sizeof *s->v, compare_spans);
    s->read = true;
    return true;
}

// The function that holds pc; NULL if none does. Aliases follow one another; functions in functions
// are not looked for.
static const struct symbol_span *find_span(const struct symbol_spans *s, uint64_t pc)
{
    size_t low = SEARCH(at, 0, s->n, s->v[at].begin <= pc);
    if (low == 0) return NULL;
    uint64_t begin = s->v[low - 1].begin;
    const struct symbol_span *found = NULL;
    for (; low > 0 && s->v[low - 1].begin == begin; low--) {
        if (s->v[low - 1].end > pc) found = &s->v[low - 1];
    }
    return found;
}

static bool locate_by_symbol(struct sampler_names *n, Dwfl_Module *m, struct pc_row *row, err *e)
{
    assert(row->module < n->module_count);
    struct symbol_spans *s = &n->symbols[row->module];
    if (!s->read) {
        s->n = 0;  // an earlier try may have run out of memory
        if (!read_symbols(n, m, s, e)) return false;
    }
    const struct symbol_span *span = find_span(s, row->pc);
    GElf_Sym symbol;
    const char *name = span ? dwfl_module_getsym(m, span->number, &symbol, NULL) : NULL;
    char text[256];
    if (!name) {
        str file = n->modules[row->module].file;
        file = str_slice(file, str_find(file, '/') < file.n ? str_rfind(file, '/') + 1 : 0, file.n);
        snprintf(text, sizeof text, "[%.*s]", STR(file));
        name = text;
    }
    uint32_t function = 0;
    return intern_function(n, name, NULL, &function, e) && add_line(n, row, function, 0, e);
}

// ---- places

struct pc_key {
    const struct sampler_names *names;
    uint64_t pc;
};

static bool same_pc(const void *ctx, uint32_t row)
{
    const struct pc_key *k = ctx;
    return k->names->rows[row].pc == k->pc;
}

struct pc_row *names_row(struct sampler_names *n, uint64_t pc, err *e)
{
    struct pc_key k = {.names = n, .pc = pc};
    uint64_t hash = hash_table_word(pc);
    uint32_t i = map_find(&n->pcs, hash, same_pc, &k);
    if (i != MAP_NONE) return &n->rows[i];
    if (!mem_grow(n->memory, &n->rows, &n->row_cap, n->row_count + 1, sizeof *n->rows, e) ||
        !map_put(&n->pcs, hash, (uint32_t)n->row_count, e))
        return NULL;
    struct pc_row *row = &n->rows[n->row_count++];
    *row = (struct pc_row){.pc = pc, .module = NO_MODULE};
    return row;
}

static bool locate(struct sampler_names *n, struct pc_row *row, err *e)
{
    Dwfl_Module *m = names_module(n, row->pc);
    row->first = (uint32_t)n->line_count;
    row->count = 0;
    if (m) {
        if (!number_module(n, m, &row->module, e)) return false;
        if (!locate_by_debug(n, m, row, e)) return false;
        if (row->count == 0 && !locate_by_symbol(n, m, row, e)) return false;
    }
    // Also without a name: another look would find no more.
    row->located = true;
    return true;
}

bool sampler_names_find(struct sampler_names *n, uint64_t pc, struct sampler_place *place, err *e)
{
    struct pc_row *row = names_row(n, pc, e);
    if (!row) return false;
    if (!row->located && !locate(n, row, e)) return false;
    *place = (struct sampler_place){
        .lines = row->count ? &n->lines[row->first] : NULL,
        .count = row->count,
        .module = row->module,
    };
    return true;
}

const struct sampler_function *sampler_names_function(const struct sampler_names *n,
                                                      uint32_t function)
{
    assert(function < n->function_count);
    return &n->functions[function];
}

const struct sampler_module *sampler_names_module(const struct sampler_names *n, uint32_t module)
{
    assert(module < n->module_count);
    return &n->modules[module];
}

uint32_t sampler_names_function_count(const struct sampler_names *n)
{
    return (uint32_t)n->function_count;
}

uint32_t sampler_names_module_count(const struct sampler_names *n)
{
    return (uint32_t)n->module_count;
}

// ---- life

static void forget(struct sampler_names *n)
{
    mem_free(n->memory, n->rows, n->row_cap * sizeof *n->rows);
    mem_free(n->memory, n->lines, n->line_cap * sizeof *n->lines);
    mem_free(n->memory, n->functions, n->function_cap * sizeof *n->functions);
    n->rows = NULL;
    n->lines = NULL;
    n->functions = NULL;
    n->row_count = n->row_cap = 0;
    n->line_count = n->line_cap = 0;
    n->function_count = n->function_cap = 0;
    // Modules stay: their numbers are in libdw, and files are mapped as long as the process lives.
    map_release(&n->pcs);
    map_release(&n->names);
    arena_release(&n->texts);
}

void sampler_names_trim(struct sampler_names *n, bool all)
{
    if (all || n->row_count > n->cap) forget(n);
}

struct sampler_names *sampler_names_new(struct mem_budget *memory, size_t cap, err *e)
{
    struct sampler_names *n = mem_alloc(memory, sizeof *n, e);
    if (!n) return NULL;
    n->memory = memory;
    n->cap = cap;
    map_init(&n->pcs, memory);
    map_init(&n->names, memory);
    arena_init(&n->texts, memory, TEXTS_MAX);
    arena_init(&n->module_texts, memory, TEXTS_MAX);
    n->dwfl = dwfl_begin(&callbacks);
    if (!n->dwfl) {
        err_set(e, ERR_UNAVAILABLE, "libdw: %s", dwfl_errmsg(-1));
        sampler_names_free(n);
        return NULL;
    }
    report(n);
    return n;
}

void sampler_names_free(struct sampler_names *n)
{
    if (!n) return;
    forget(n);
    for (size_t i = 0; i < n->module_count; i++)
        mem_free(n->memory, n->symbols[i].v, n->symbols[i].cap * sizeof *n->symbols[i].v);
    mem_free(n->memory, n->symbols, n->symbols_cap * sizeof *n->symbols);
    mem_free(n->memory, n->modules, n->module_cap * sizeof *n->modules);
    arena_release(&n->module_texts);
    if (n->dwfl) dwfl_end(n->dwfl);
    mem_free(n->memory, n, sizeof *n);
}
