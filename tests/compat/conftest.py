"""Programs of real clients, built once into build/compat with the modules that their go.sum names."""
import os
import re
import subprocess

import pytest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
CANNOT_BE_HAD = re.compile(r"dial tcp|no such host|i/o timeout|proxyconnect|4\d\d [A-Z][a-z]+$", re.M)


@pytest.fixture(scope="session")
def go_program():
    """go_program(name, *verb): builds the module tests/compat/NAME by `go VERB`; skips when Go or a module cannot be had."""
    def build(name, *verb):
        found = subprocess.run([os.path.join(TOP, "tests/lib/go")], capture_output=True, text=True)
        if found.returncode:
            pytest.skip("no Go >= 1.25 can be had: " + found.stderr.strip())
        out = os.path.join(TOP, "build/compat", name)
        env = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"}
        built = subprocess.run([found.stdout.strip(), *verb, "-o", out, "."], cwd=os.path.join(TOP, "tests/compat", name), env=env, capture_output=True, text=True)
        if built.returncode and CANNOT_BE_HAD.search(built.stderr):
            pytest.skip("modules of tests/compat/%s cannot be downloaded: %s" % (name, built.stderr.strip().splitlines()[-1]))
        assert built.returncode == 0, built.stderr
        return out
    return build
