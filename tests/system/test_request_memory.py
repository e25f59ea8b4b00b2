"""What a push takes of memory: no more than six times its bytes when inflated, in any format. A server allows a request no more than that, and takes all."""
import large
import pytest
from flametree import Flametree

SIZE = 3 << 20
TIMES = 6


@pytest.fixture(scope="module")
def f():
    with Flametree("--limits.max_profile_size_bytes=0", "--limits.max_profile_stacktrace_samples=0", "--server.request_memory=%d" % (TIMES * SIZE)) as f:
        yield f


@pytest.mark.parametrize("format", large.FORMATS)
def test_a_push_takes_six_times_its_bytes_at_most(f, format):
    data = large.of(format, SIZE + SIZE // 16)
    assert 0.9 * SIZE < len(data) < 1.2 * SIZE, len(data)
    large.push(f.server(), format, data, "large-" + format).expect(200)


def test_one_that_takes_more_is_refused_by_the_limit(f):
    """So it is this limit that the others are held to."""
    large.push(f.server(), "speedscope", large.of("speedscope", 4 * SIZE), "too-large").expect((400, 413, 422, 429), "request needs more than its %d bytes" % (TIMES * SIZE))
