// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "service/settings.h"

static struct config *config;

static bool load(err *e, char *flag)
{
    static char program[] = "flametree";
    char *argv[] = {program, flag, NULL};
    struct config_args args;
    config = config_new(settings_sections, settings_section_count);
    return config_load(config, flag ? 2 : 1, argv, &args, e) && settings_check(config, e);
}

static void defaults_are_valid(void **state)
{
    (void)state;
    assert_ok(load(e, NULL));
    const struct server_settings *s = config_section(config, "server");
    assert_string_equal(s->listen, "127.0.0.1:4040");
    assert_int_equal(s->memory_limit, UINT64_C(2) << 30);
    config_free(config);
}

static void what_does_not_fit_together_is_refused(void **state)
{
    (void)state;
    static const struct {
        char flag[64];
        const char *want;
    } cases[] = {
        {"--log.level=loud", "log.level: 'loud' is none of debug, info, warn, error"},
        {"--server.data_dir=", "server.data_dir must not be empty"},
        {"--server.tls_cert_file=a.pem",
         "server.tls_cert_file and server.tls_key_file need each other"},
        {"--internal.tls_key_file=a.pem",
         "internal.tls_cert_file and internal.tls_key_file need each other"},
        {"--internal.tls_ca_file=a.pem",
         "internal.tls_ca_file and internal.tls_cert_file need each other"},
        {"--self_profile.url=collector:4040",
         "self_profile.url: 'collector:4040' is not http://host:port"},
        {"--storage.kind=tape", "storage.kind: 'tape' is none of local, s3, azure, none"},
        {"--storage.io=aio", "storage.io: 'aio' is none of auto, threads"},
        {"--self_profile.url=http:///push",
         "self_profile.url: 'http:///push' is not http://host:port"},
        {"--server.listen=banana",
         "server.listen: 'banana' is not host:port or unix:/path: the port is missing"},
        {"--cluster.probe_interval=0",
         "flag --cluster.probe_interval: cluster.probe_interval: 0 is below the lowest value, "
         "200ms"},
        {"--cluster.ingesters=a=h:1,b=h:0",
         "cluster.ingesters: 'h:0' is not host:port or unix:/path: port 0 is no port to connect "
         "to"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char flag[64];
        memcpy(flag, cases[i].flag, sizeof flag);
        err fault = {0};
        assert_false(load(&fault, flag));
        assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
        assert_string_equal(fault.msg, cases[i].want);
        config_free(config);
    }
}

// A row whose default lies outside of its own bounds, or that does not parse, ends here.
static void every_row_has_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < settings_section_count; i++) {
        const struct config_section *s = settings_sections[i];
        for (size_t k = 0; k < s->row_count; k++) {
            str sentence = str_of(s->rows[k].sentence);
            if (!str_ends(sentence, S(".")) || str_contains(sentence, S("|")))
                fail_msg("%s.%s", s->name, s->rows[k].key);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_valid),
        cmocka_unit_test(what_does_not_fit_together_is_refused),
        cmocka_unit_test(every_row_has_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
