// SPDX-License-Identifier: Apache-2.0
#include "azure/answer.h"

#include "codec/json.h"
#include "s3/xml.h"

// ---- lists

struct paging {
    struct arena *a;
    struct s3_page *page;
    size_t cap;
    struct s3_entry entry;
    bool has_size;
    bool folder;
    bool root;
    bool tells_end;  // it says whether it goes on
};

static bool keep_entry(struct paging *p, err *e)
{
    bool complete = p->entry.key.n && p->has_size;
    bool folder = p->folder;
    struct s3_entry entry = p->entry;
    p->entry = (struct s3_entry){0};
    p->has_size = p->folder = false;
    if (!arena_ok(p->a, e)) return false;  // then a name is missing, too
    if (folder) return true;
    if (!complete) return err_set(e, ERR_DATA_LOSS, "a blob has no name or no length");
    if (!arena_grow(p->a, &p->page->v, &p->cap, p->page->n + 1, sizeof entry))
        return arena_fail(p->a, e);
    p->page->v[p->page->n++] = entry;
    return true;
}

#define BLOB "EnumerationResults/Blobs/Blob"

static bool on_page(void *arg, str path, str text, err *e)
{
    struct paging *p = arg;
    if (str_is(path, BLOB "/Name")) p->entry.key = arena_str(p->a, text);
    if (str_is(path, BLOB "/Properties/Content-Length"))
        p->has_size = str_u64(text, &p->entry.size);
    if (str_is(path, BLOB "/Properties/ResourceType")) p->folder = str_is(text, "directory");
    if (str_is(path, "EnumerationResults/Prefix")) p->page->prefix = arena_str(p->a, text);
    if (str_is(path, "EnumerationResults/NextMarker")) {
        p->page->next = arena_str(p->a, text);
        p->tells_end = true;
    }
    if (str_is(path, "EnumerationResults")) p->root = true;
    return !str_is(path, BLOB) || keep_entry(p, e);
}

bool azure_read_page(struct arena *a, str xml, struct s3_page *out, err *e)
{
    *out = (struct s3_page){0};
    struct paging p = {.a = a, .page = out};
    if (!xml_read(xml, on_page, &p, e)) return err_wrap(e, "list of the store");
    if (!arena_ok(a, e)) return false;
    if (!p.root) return err_set(e, ERR_DATA_LOSS, "list of the store: the answer is no list");
    if (!p.tells_end)
        return err_set(e, ERR_DATA_LOSS, "list of the store: it does not say whether it goes on");
    out->truncated = out->next.n > 0;
    return true;
}

// ---- refusals

struct refusing {
    struct arena *a;
    struct s3_refusal *out;
};

static bool on_refusal(void *arg, str path, str text, err *e)
{
    struct refusing *r = arg;
    str rest = {0};
    (void)e;
    if (str_is(path, "Error/Code")) r->out->code = arena_str(r->a, text);
    if (str_is(path, "Error/Message"))
        r->out->message = arena_str(r->a, str_trim(str_split(text, '\n', &rest)));
    return true;
}

void azure_read_refusal(struct arena *a, str xml, struct s3_refusal *out)
{
    struct refusing r = {a, out};
    err ignored = {0};
    *out = (struct s3_refusal){0};
    if (!xml_read(xml, on_refusal, &r, &ignored)) *out = (struct s3_refusal){0};
}

// ---- tokens

bool azure_read_token(struct arena *a, str json, struct azure_token *out, err *e)
{
    struct json_reader j;
    str key = {0};
    uint64_t seconds = 0;
    *out = (struct azure_token){0};
    json_reader_init(&j, a, json);
    for (enum json_token t = json_next(&j); t != JSON_END; t = json_next(&j)) {
        if (t == JSON_FAULT) {
            *e = j.fault;
            if (e->code != ERR_RESOURCE_EXHAUSTED) e->code = ERR_DATA_LOSS;
            return err_wrap(e, "token");
        }
        if (t == JSON_KEY) key = j.text;
        if (t == JSON_STRING && str_is(key, "access_token")) out->token = j.text;
        // A number, or text that is one, as the metadata service has it.
        bool number = t == JSON_NUMBER || t == JSON_STRING;
        if (number && str_is(key, "expires_in") && str_u64(j.text, &seconds))
            out->seconds = (int64_t)MIN(seconds, (uint64_t)INT32_MAX);
    }
    return out->token.n || err_set(e, ERR_DATA_LOSS, "token: the answer has none");
}

// ---- texts of people

static str without_mark(str sas)
{
    return str_starts(sas, S("?")) ? str_slice(sas, 1, sas.n) : sas;
}

void azure_read_connection(str text, struct azure_connection *out)
{
    *out = (struct azure_connection){0};
    for (str rest = text; rest.p;) {
        str value = {0};
        str name = str_trim(str_split(str_split(rest, ';', &rest), '=', &value));
        value = str_trim(value);
        if (str_is(name, "AccountName")) out->account = value;
        if (str_is(name, "AccountKey")) out->key = value;
        if (str_is(name, "SharedAccessSignature")) out->sas = without_mark(value);
        if (str_is(name, "BlobEndpoint")) out->endpoint = value;
        if (str_is(name, "EndpointSuffix")) out->suffix = value;
    }
}

void azure_read_secret(str text, struct azure_connection *out)
{
    str line = str_trim(text);
    azure_read_connection(line, out);
    if (out->key.n || out->sas.n) return;
    str sas = without_mark(line);
    if (str_starts(sas, S("sv=")) || str_starts(sas, S("sp=")) || str_starts(sas, S("se=")) ||
        str_starts(sas, S("st=")) || str_starts(sas, S("si=")) || str_starts(sas, S("sr=")))
        out->sas = sas;
    else
        out->key = line;
}
