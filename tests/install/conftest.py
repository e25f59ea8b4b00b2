"""One release for all tests here, packed of the release build as it is; and a second one, packed later by somebody else."""
import time

import pytest
import release


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    release.make(folder, "--build", release.RELEASE)
    return folder


@pytest.fixture(scope="session")
def released_again(released, tmp_path_factory):
    time.sleep(1.1)  # the clock of archives counts seconds
    folder = tmp_path_factory.mktemp("again")
    release.make(folder, "--build", release.RELEASE, umask=0o077, TZ="Asia/Tokyo", LC_ALL="C", USER="somebody", HOME=str(tmp_path_factory.mktemp("home")))
    return folder


@pytest.fixture(scope="session")
def debs(released):
    """{name: path}"""
    return release.debs(released)


@pytest.fixture(scope="session")
def packed(released):
    """The image."""
    path, = released.glob("flametree-*-image-*.tar.gz")
    return str(path)
