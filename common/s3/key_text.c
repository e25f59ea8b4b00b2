// SPDX-License-Identifier: Apache-2.0
#include "s3/key_text.h"

#include "codec/json.h"
#include "s3/answer.h"
#include "s3/xml.h"

bool s3_keys_of_json(struct arena *a, str text, struct s3_key_text *out, err *e)
{
    struct json_reader j;
    str key = {0};
    *out = (struct s3_key_text){0};
    json_reader_init(&j, a, text);
    for (enum json_token t = json_next(&j); t != JSON_END; t = json_next(&j)) {
        if (t == JSON_FAULT) {
            *e = j.fault;
            return err_wrap(e, "keys");
        }
        if (t == JSON_KEY) key = j.text;
        if (t != JSON_STRING) continue;
        if (str_is(key, "AccessKeyId")) out->keys.id = j.text;
        if (str_is(key, "SecretAccessKey")) out->keys.secret = j.text;
        if (str_is(key, "Token")) out->keys.token = j.text;
        if (str_is(key, "Expiration")) out->ends_wall_ns = s3_time(j.text);
    }
    return true;
}

struct reading {
    struct arena *a;
    struct s3_key_text *out;
};

static bool on_element(void *arg, str path, str text, err *e)
{
    struct reading *s = arg;
    struct s3_keys *k = &s->out->keys;
    if (str_ends(path, S("/Credentials/AccessKeyId"))) k->id = arena_str(s->a, text);
    if (str_ends(path, S("/Credentials/SecretAccessKey"))) k->secret = arena_str(s->a, text);
    if (str_ends(path, S("/Credentials/SessionToken"))) k->token = arena_str(s->a, text);
    if (str_ends(path, S("/Credentials/Expiration"))) s->out->ends_wall_ns = s3_time(text);
    return arena_ok(s->a, e);
}

bool s3_keys_of_xml(struct arena *a, str text, struct s3_key_text *out, err *e)
{
    struct reading s = {a, out};
    *out = (struct s3_key_text){0};
    return xml_read(text, on_element, &s, e) || err_wrap(e, "keys");
}

void s3_keys_of_file(str text, str profile, struct s3_key_text *out)
{
    bool inside = false;
    *out = (struct s3_key_text){0};
    for (str rest = text; rest.p;) {
        str value = {0};
        str line = str_trim(str_split(rest, '\n', &rest));
        if (!line.n || line.p[0] == '#' || line.p[0] == ';') continue;
        if (line.p[0] == '[') {
            inside = str_eq(str_trim(str_slice(line, 1, line.n - 1)), profile);
            continue;
        }
        str name = str_trim(str_split(line, '=', &value));
        value = str_trim(value);
        if (!inside) continue;
        if (str_is(name, "aws_access_key_id")) out->keys.id = value;
        if (str_is(name, "aws_secret_access_key")) out->keys.secret = value;
        if (str_is(name, "aws_session_token")) out->keys.token = value;
    }
}
