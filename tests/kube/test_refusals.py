# SPDX-License-Identifier: Apache-2.0
"""What is wrong is said where whoever installs looks: by helm, or in the state of the pods."""
from flametree import await_

WRONG = "n0t-the-key"


def test_a_second_release_on_one_prefix_is_refused(busy, release):
    second = release("second", "small", prefix="busy")
    said = second.install(wait=False, status=None)
    assert "release busy in namespace busy keeps its profiles at" in said and "give this one another storage.s3.prefix" in said, said
    assert not second.pods()


def test_a_wrong_secret_is_told_by_the_name_of_its_key_and_a_right_one_is_taken(kube, store, release):
    one = release("wrong", "small", "ingester.replicas=1", "distributor.replicas=1", "querier.replicas=1", secret={"secret-key": WRONG})
    one.install(wait=False)

    def told(role):
        """Why the process of before ended, as `kubectl describe pod` shows it."""
        states = [status.get(which, {}).get("terminated", {}) for pod in one.pods(role) for status in pod["status"].get("containerStatuses", []) for which in ("state", "lastState")]
        return "".join(state.get("message", "") for state in states)

    for role in ("ingester", "querier", "compactor"):
        said = await_("the reason of " + role, lambda: told(role), 60, 0.3)
        assert "s3.secret_key (FLAMETREE_S3_SECRET_KEY) is wrong" in said, said
        assert WRONG not in said and store.secret_key not in said, said
    kube.patch("/api/v1/namespaces/wrong/secrets/bucket", {"stringData": {"secret-key": store.secret_key}})
    one.await_ready()
