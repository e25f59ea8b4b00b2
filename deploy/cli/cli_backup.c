// SPDX-License-Identifier: Apache-2.0
//
// backup and restore: a store, copied to another one (cli_copy.h).
#include "deploy/cli/cli_copy.h"

#include <inttypes.h>
#include <stdio.h>

static void summarize(const struct copying *k, const char *to)
{
    char all[TEXT_NUMBER_MAX];
    char copied[TEXT_NUMBER_MAX];
    if (cli_args_has(&k->c->args, OPT_QUIET)) return;
    fprintf(stderr,
            "%s has %" PRIu64 " objects, %s; %" PRIu64 " of them, %s, were copied now, %" PRIu64
            " that nothing names any more were deleted\n",
            to, k->objects, text_value(all, (double)k->bytes, TEXT_BYTES), k->copied,
            text_value(copied, (double)k->copied_bytes, TEXT_BYTES), k->deleted);
    if (k->snapshots > k->root_count) {
        fprintf(stderr,
                "objects were replaced and deleted meanwhile: %" PRIu64
                " snapshots of %zu tenants\n",
                k->snapshots, k->root_count);
    }
}

static bool copy(struct cli *c, bool fresh, err *e)
{
    struct copying *k = ARENA_NEW(&c->arena, struct copying);
    if (!k) return arena_fail(&c->arena, e);
    const char *to = c->args.operands[1];
    bool ok = copying_open(k, c, c->args.operands[0], to, e);
    k->verify_kept = fresh || cli_args_has(&c->args, OPT_VERIFY);
    // A copy is to be restored as a whole, and with the checksums that it was made with.
    if (ok && fresh && k->source.object.n == 0)
        ok = err_set(e, ERR_NOT_FOUND, "%s has no catalog: it is no copy that backup made",
                     c->args.operands[0]);
    ok = ok && copying_run(k, fresh, e);
    cli_progress_erase(&k->progress);
    if (ok) summarize(k, to);
    copying_release(k);
    return ok;
}

// NOLINTNEXTLINE(readability-non-const-parameter): the signature is cli_run
bool cli_backup(struct cli *c, int *status, err *e)
{
    (void)status;
    return copy(c, false, e);
}

static bool check(struct cli *c, err *e)
{
    struct copying *k = ARENA_NEW(&c->arena, struct copying);
    uint64_t faults = 0;
    if (!k) return arena_fail(&c->arena, e);
    bool ok = copying_open(k, c, c->args.operands[0], NULL, e) && copying_check(k, &faults, e);
    cli_progress_erase(&k->progress);
    if (ok && !cli_args_has(&c->args, OPT_QUIET)) {
        char all[TEXT_NUMBER_MAX];
        fprintf(stderr, "%" PRIu64 " objects, %s; %" PRIu64 " wrong\n", k->objects,
                text_value(all, (double)k->bytes, TEXT_BYTES), faults);
    }
    copying_release(k);
    if (!ok || faults == 0) return ok;
    return err_set(e, ERR_DATA_LOSS, "%" PRIu64 " objects of the copy are damaged or gone", faults);
}

bool cli_restore(struct cli *c, int *status, err *e)
{
    bool only = cli_args_has(&c->args, OPT_CHECK);
    if (only != (c->args.operand_count == 1)) {
        err_set(e, ERR_INVALID_ARGUMENT,
                only ? "--check reads a copy and writes nothing: give COPY alone"
                     : "give COPY and the store to restore it to");
        return cli_wrong(status);
    }
    return only ? check(c, e) : copy(c, true, e);
}
