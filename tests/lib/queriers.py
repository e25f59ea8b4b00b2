# SPDX-License-Identifier: Apache-2.0
"""A cluster whose querier has peers, with which it shares large questions; and one more querier, which reads all by itself."""
import contextlib

FIRST_PORT, STEP = 4050, 100  # of the querier of deploy/examples, whose internal listener is one above


class Queriers:
    """`with Queriers(Cluster(...), peers=2) as q`: starts the cluster, the peers and `alone`. Any question for a flame graph is large."""

    SHARES = "--querier.split_bytes=1"

    def __init__(self, cluster, peers=2):
        self.cluster, self.first = cluster, cluster["querier"]
        ports = {"querier": FIRST_PORT, **{"querier-%d" % n: FIRST_PORT + n * STEP for n in range(2, peers + 2)}}
        listed = "--cluster.queriers=" + ",".join("%s=%s:%d" % (name, cluster.host, port + 1) for name, port in ports.items())
        self.alone = cluster.another("alone", "querier", FIRST_PORT + (peers + 2) * STEP)
        self.first.args += [self.SHARES, listed]
        self.peers = {name: cluster.another(name, "querier", port) for name, port in ports.items() if name != "querier"}

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        try:
            for m in (self.cluster, *self.peers.values(), self.alone):
                self.stack.enter_context(m)
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *why):
        return self.stack.__exit__(*why)

    def parts(self, by):
        """How many shares were read by a peer, here, or here again."""
        return self.first.metric('flametree_querier_split_parts_total{by="%s"}' % by) or 0
