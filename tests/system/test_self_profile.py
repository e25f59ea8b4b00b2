"""The program profiles itself: names of its own functions appear under service flametree."""
from client import CPU, Server
from flametree import Flametree, await_


def test_own_functions_are_found_by_query():
    with Flametree("--self_profile.interval", "1s", self_profile=True) as f:
        s = Server(f.url, strict=True)

        def stacks():
            s.rpc("querier.v1.QuerierService/ProfileTypes", "{}")  # work to be seen at
            try:
                return s.stacks("flametree", CPU)
            except AssertionError:
                return {}

        def own():
            seen = {frame for stack in stacks() for frame in stack.split(";")}
            return seen & {"lane_main", "loop_main", "lane_work", "loop_thread", "worker_main", "service_main", "uv_run", "main"}
        await_("frames of its own", own, 60)
        assert {"component"} <= {k for row in s.series("flametree") for k in row}, s.series("flametree")[:1]


def test_off_by_its_row():
    with Flametree(self_profile=False) as f:
        assert Server(f.url, strict=True).ok("LabelValues", name="service_name").get("names", []) == []
