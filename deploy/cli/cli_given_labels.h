// SPDX-License-Identifier: Apache-2.0
//
// cli_given_labels.h - the labels of --label KEY=VALUE, for push and import.
#pragma once

#include "deploy/cli/cli.h"
#include "model/label.h"

// Labels that a server would rename, drop or keep to itself are refused, and so are names that come
// twice. Memory is c->arena; in the order in which they were given.
bool cli_given_labels(struct cli *c, labels *out, err *e) MUST_CHECK;
