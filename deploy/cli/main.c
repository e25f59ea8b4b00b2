// SPDX-License-Identifier: Apache-2.0
//
// All four services in one process, and the command line client. A command goes to the client;
// without one, or with settings only, the process serves. Services that others call start first and
// drain last.
#include "compactor/compactor.h"
#include "deploy/cli/cli.h"
#include "distributor/distributor.h"
#include "ingester/ingester.h"
#include "querier/querier.h"

#include <stdio.h>
#include <stdlib.h>

static int serve(int argc, char **argv)
{
    // In this order: services that are called by others start first, and drain last.
    assert(argc > 0);
    const struct service *services[] = {&ingester, &compactor, &distributor, &querier};
    return service_main(services, COUNT(services), argc, argv);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

// flametree serve [SETTINGS]
static int serve_command(int argc, char **argv)
{
    assert(argc > 1);
    // The server must not take the word for a setting, so it is replaced by the program's name.
    argv[1] = argv[0];
    return serve(argc - 1, argv + 1);
}

// flametree config check [FILE] [SETTINGS]: one word more or less is --check-config --config FILE.
static int check_command(int argc, char **argv)
{
    static char check[] = "--check-config";
    static char config[] = "--config";
    assert(argc > 2);
    argv[1] = argv[0];
    argv[2] = check;
    if (argc < 4 || argv[3][0] == '-') return serve(argc - 1, argv + 1);
    argv[0] = argv[1];
    argv[1] = check;
    argv[2] = config;
    return serve(argc, argv);
}

int main(int argc, char **argv)
{
    // With --help behind them these two are explained by the client, as all commands are.
    bool help = argc > 2 && is_help(argv[argc - 1]);
    if (argc > 1 && !help) {
        if (strcmp(argv[1], "serve") == 0) return serve_command(argc, argv);
        if (argc > 2 && strcmp(argv[1], "config") == 0 && strcmp(argv[2], "check") == 0)
            return check_command(argc, argv);
    }
    if (cli_args_are_ours(argc, argv)) return cli_main(argc, argv);
    if (argc == 2 && is_help(argv[1])) {
        static const char text[] = "flametree is a server, whose settings follow, and a client: "
                                   "`flametree help` lists its commands.\n\n";
        if (fputs(text, stdout) == EOF || fflush(stdout) != 0) return EXIT_FAILURE;
    }
    return serve(argc, argv);
}
