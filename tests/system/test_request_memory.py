"""What a push takes of memory: no more than six times its bytes when inflated, in any format. A server allows a request no more than that, and takes all."""
import large
import pytest
from client import packed, pb, unique
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


def test_an_otlp_request_that_takes_more_is_to_come_again_as_a_whole():
    """A partial success is never sent again; and nothing of it is stored, or that would count twice."""
    def resource(service, samples):
        profile = pb((1, pb((1, 1), (2, 2)))) + large.many(2, [pb((1, 1), (4, packed([1])))] * samples) + pb((5, pb((1, 3), (2, 4))), (6, 10_000_000))
        attributes = pb((1, pb((1, "service.name"), (2, pb((1, service))))))
        return pb((1, attributes), (2, pb((2, profile))))
    dictionary = b"".join([pb((1, b"")), large.many(2, [b"", pb((3, pb((1, 1))))]), large.many(3, [b"", pb((1, 5))]), pb((4, b"")),
                           large.many(5, ["", "samples", "count", "cpu", "nanoseconds", "main"]), pb((6, b"")), large.many(7, [b"", pb((1, packed([1])))])])
    few, many = unique(), unique()
    with Flametree("--server.request_memory=%d" % SIZE) as f:
        s = f.server()
        large.push(s, "otlp", pb((1, resource(few, 10)), (2, dictionary)), few).expect(200)
        assert sum(s.stacks(few).values()) == 10 * 10_000_000
        large.push(s, "otlp", pb((1, resource(few, 10)), (1, resource(many, SIZE // 16)), (2, dictionary)), few).expect(429, "request needs more than its ")
        assert sum(s.stacks(few).values()) == 10 * 10_000_000 and s.stacks(many) == {}
