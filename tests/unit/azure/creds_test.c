// SPDX-License-Identifier: Apache-2.0
//
// Where keys and tokens come from. (tests/s3/test_azure.py has all sources, with processes.)
#include "azure/creds.h"
#include "lib/asked.h"
#include "lib/dir.h"

// On AKS it ends with a '/', and elsewhere it may have a path.
static void tokens_are_asked_for_below_the_authority(void **state)
{
    static const struct {
        const char *authority;
        const char *path;
    } cases[] = {
        {"", "/a-tenant/oauth2/v2.0/token"},
        {"/", "/a-tenant/oauth2/v2.0/token"},
        {"/below", "/below/a-tenant/oauth2/v2.0/token"},
        {"/below/", "/below/a-tenant/oauth2/v2.0/token"},
    };
    char dir[DIR_MAX];
    char path[DIR_PATH_MAX];
    struct asked entra;
    (void)state;
    dir_new(dir);
    asked_start(&entra, "{\"access_token\":\"a.bearer.token\",\"expires_in\":3600}");
    FILE *f = fopen(dir_path(path, dir, "token"), "w");
    assert_non_null(f);
    assert_true(fputs("a.federated.token\n", f) >= 0 && fclose(f) == 0);
    unsetenv("AZURE_STORAGE_CONNECTION_STRING");
    unsetenv("AZURE_STORAGE_KEY");
    unsetenv("AZURE_STORAGE_SAS_TOKEN");
    setenv("AZURE_FEDERATED_TOKEN_FILE", path, 1);
    setenv("AZURE_CLIENT_ID", "a client", 1);
    setenv("AZURE_TENANT_ID", "a-tenant", 1);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct azure_key_options none = {0};
        struct azure_creds *c = NULL;
        struct azure_keys keys = {0};
        struct req r;
        char url[128];
        snprintf(url, sizeof url, "%s%s", entra.url, cases[i].authority);
        setenv("AZURE_AUTHORITY_HOST", url, 1);
        req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
        assert_ok((c = azure_creds_open(&none, entra.client, e)) != NULL);
        assert_ok(azure_creds_get(c, &r, &r.arena, &keys, e));
        assert_true(str_is(keys.bearer, "a.bearer.token"));
        assert_string_equal(entra.path, cases[i].path);
        assert_true(str_ends(str_of(entra.body), S("&client_assertion=a.federated.token")));
        azure_creds_close(c);
        req_release(&r);
    }
    asked_end(&entra);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_asked_for_below_the_authority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
