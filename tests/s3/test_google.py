"""Google Cloud Storage by its XML API, as its documentation has it (lib/google_storage.py): Google's own service is not to be had here."""
import os
import subprocess

import pytest
from bucket import BUCKET, flags, no_secrets, on_bucket, push, refused, total
from client import unique
from flametree import BIN, compact, flush
from google_storage import GoogleStorage


@pytest.fixture(params=["radosgw", "versitygw"])
def google(request, services):
    with GoogleStorage(services(request.param)) as g:
        yield g


@pytest.mark.drawn(1)
def test_the_tests_of_every_store_pass_on_a_bucket_of_google(google):
    done = subprocess.run([os.path.join(BIN, "s3.store"), google.url, BUCKET, "google"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert not google.problems
    assert google.kinds["creation"] and google.kinds["delete"] and google.kinds["end"] and not google.kinds["batch"]


def test_a_service_that_does_not_know_where_a_list_starts_serves_as_well(services):
    with GoogleStorage(services("versitygw")) as google:
        google.knows_start = False
        done = subprocess.run([os.path.join(BIN, "s3.store"), google.url, BUCKET, "google"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_everything_that_was_flushed_comes_back_from_a_bucket_of_google(google):
    prefix = unique("google")
    with on_bucket(google, prefix=prefix, dialect="google") as f:
        push(f.server(), 9)
        flush(f)
        compact(f)
        no_secrets(f, google.secret_key)
    with on_bucket(google, prefix=prefix, dialect="google") as f:  # a data directory of its own
        assert total(f.server()) == sum(range(1, 10))
    assert not google.problems and google.kinds["creation"] and not google.kinds["batch"]


def test_a_lost_answer_to_a_creation_is_no_second_creation(google):
    google.trouble = {"lost": 0.1, "landed": 0.1}
    prefix = unique("lost")
    with on_bucket(google, prefix=prefix, dialect="google") as f:
        push(f.server(), 9)
        flush(f)
        assert total(f.server()) == sum(range(1, 10))


def test_a_service_that_ignores_the_condition_is_refused(google):
    google.heeds_conditions = False
    code, said = refused(*flags(google, dialect="google"))
    assert code == 1 and "it accepts two creations of one name" in said, said


def test_what_speaks_amazons_way_is_refused_by_google(google):
    code, said = refused(*flags(google, dialect="amazon"))
    assert code == 1 and "403 AccessDenied" in said, said


@pytest.mark.parametrize("change, says", [
    ({"secret_key": "wrong"}, "403 SignatureDoesNotMatch; s3.secret_key (FLAMETREE_S3_SECRET_KEY) is wrong"),
    ({"access_key": "NOBODY"}, "403 InvalidAccessKeyId; look at s3.access_key"),
    ({"bucket": "not-there"}, "make the bucket, or look at s3.bucket"),
    ({"dialect": "french"}, "s3.dialect: 'french' is none of auto, amazon, google"),
])
def test_what_is_wrong_is_told_in_one_line(services, change, says):
    with GoogleStorage(services("versitygw")) as google:
        code, said = refused(*flags(google, **{"dialect": "google", **change}))
    assert code in (1, 2) and said.startswith("flametree: ") and says in said, said
    assert google.secret_key not in said
