// SPDX-License-Identifier: Apache-2.0
#include "s3/xml.h"

#include <expat.h>
#include <limits.h>

#define PATH_BYTES 256

struct xml {
    XML_Parser parser;
    xml_element *fn;
    void *arg;
    err *e;
    bool failed;  // *e is set
    unsigned depth;
    size_t ends[XML_DEPTH];  // of the names in `path`
    size_t path_n;
    size_t text_n;
    char path[PATH_BYTES];
    char text[XML_TEXT];
};

static void fail(struct xml *x, const char *why)
{
    if (!x->failed) err_set(x->e, ERR_DATA_LOSS, "XML of the store: %s", why);
    x->failed = true;
    XML_StopParser(x->parser, XML_FALSE);
}

static void on_doctype(void *arg, const XML_Char *name, const XML_Char *system_id,
                       const XML_Char *public_id, int has_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_subset;
    fail(arg, "it has a document type, which no answer of a store needs");
}

static void on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct xml *x = arg;
    size_t n = strlen(name);
    (void)attributes;
    if (x->failed) return;  // expat may say a little more after it was stopped
    if (x->depth == XML_DEPTH || x->path_n + 1 + n > sizeof x->path) {
        fail(x, "its elements lie too deep");
        return;
    }
    if (x->depth) x->path[x->path_n++] = '/';
    memcpy(x->path + x->path_n, name, n);
    x->path_n += n;
    x->ends[x->depth++] = x->path_n;
    x->text_n = 0;
}

static void on_text(void *arg, const XML_Char *bytes, int n)
{
    struct xml *x = arg;
    if (x->failed) return;
    if ((size_t)n > sizeof x->text - x->text_n) {
        fail(x, "an element has too much text");
        return;
    }
    memcpy(x->text + x->text_n, bytes, (size_t)n);
    x->text_n += (size_t)n;
}

static void on_end(void *arg, const XML_Char *name)
{
    struct xml *x = arg;
    (void)name;
    if (x->failed) return;
    assert(x->depth > 0);
    str path = str_make(x->path, x->path_n);
    if (!x->fn(x->arg, path, str_trim(str_make(x->text, x->text_n)), x->e)) {
        x->failed = true;
        XML_StopParser(x->parser, XML_FALSE);
    }
    x->depth--;
    x->path_n = x->depth ? x->ends[x->depth - 1] : 0;
    x->text_n = 0;
}

bool xml_read(str bytes, xml_element *fn, void *arg, err *e)
{
    struct xml x = {.fn = fn, .arg = arg, .e = e};
    if (bytes.n > INT_MAX) return err_set(e, ERR_DATA_LOSS, "XML of the store: it is too long");
    x.parser = XML_ParserCreate(NULL);
    if (!x.parser) return err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory to read XML");
    XML_SetUserData(x.parser, &x);
    XML_SetStartDoctypeDeclHandler(x.parser, on_doctype);
    XML_SetElementHandler(x.parser, on_start, on_end);
    XML_SetCharacterDataHandler(x.parser, on_text);
    enum XML_Status status = XML_Parse(x.parser, bytes.p, (int)bytes.n, XML_TRUE);
    if (status != XML_STATUS_OK && !x.failed) {
        enum XML_Error code = XML_GetErrorCode(x.parser);
        x.failed = true;
        err_set(e, code == XML_ERROR_NO_MEMORY ? ERR_RESOURCE_EXHAUSTED : ERR_DATA_LOSS,
                "XML of the store: %s at line %lu", XML_ErrorString(code),
                (unsigned long)XML_GetCurrentLineNumber(x.parser));
    }
    XML_ParserFree(x.parser);
    return !x.failed;
}
