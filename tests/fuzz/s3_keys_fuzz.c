// SPDX-License-Identifier: Apache-2.0
//
// Whatever a source of keys gives, the keys are texts within its own size. The first byte chooses
// the source: a service that gives JSON, the token service, a file.
#include "s3/key_text.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct s3_key_text found = {0};
    err e = {0};
    bool ok = true;
    if (size == 0) return 0;
    str text = str_make(data + 1, size - 1);
    arena_init(&a, NULL, 16 << 20);
    switch (data[0] % 3) {
    case 0:
        ok = s3_keys_of_json(&a, text, &found, &e);
        break;
    case 1:
        ok = s3_keys_of_xml(&a, text, &found, &e);
        break;
    default:
        s3_keys_of_file(text, S("default"), &found);
        break;
    }
    const struct s3_keys *k = &found.keys;
    if (ok) assert(k->id.n <= text.n && k->secret.n <= text.n && k->token.n <= text.n);
    if (!ok) assert(e.code != ERR_OK);
    arena_release(&a);
    return 0;
}
