// SPDX-License-Identifier: Apache-2.0
//
// Where keys come from. (tests/s3/test_keys.py has all sources, with processes.)
#include "lib/asked.h"
#include "lib/dir.h"
#include "s3/creds.h"

// As kubelet writes it, and as people do.
static void a_token_of_a_file_has_no_space_around_it(void **state)
{
    static const char *const files[] = {"a.web.token", "a.web.token\n", " a.web.token \r\n\n"};
    char dir[DIR_MAX];
    char path[DIR_PATH_MAX];
    struct asked sts;
    (void)state;
    dir_new(dir);
    asked_start(&sts, "<R><Credentials><AccessKeyId>AK</AccessKeyId><SecretAccessKey>secret"
                      "</SecretAccessKey><SessionToken>session</SessionToken></Credentials></R>");
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", dir_path(path, dir, "token"), 1);
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a b", 1);
    setenv("AWS_ENDPOINT_URL_STS", sts.url, 1);
    for (size_t i = 0; i < COUNT(files); i++) {
        struct s3_creds *c = NULL;
        struct s3_keys keys = {0};
        struct req r;
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_true(fputs(files[i], f) >= 0 && fclose(f) == 0);
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
        assert_ok((c = s3_creds_open(&(struct s3_key_options){0}, sts.client, "here", e)) != NULL);
        assert_ok(s3_creds_get(c, &r, &r.arena, &keys, e));
        assert_true(str_is(keys.id, "AK") && str_is(keys.secret, "secret"));
        assert_true(str_is(keys.token, "session"));
        assert_true(str_ends(str_of(sts.body), S("&WebIdentityToken=a.web.token")));
        s3_creds_close(c);
        req_release(&r);
    }
    asked_end(&sts);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_of_a_file_has_no_space_around_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
