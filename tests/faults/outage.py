# SPDX-License-Identifier: Apache-2.0
"""One long outage of the store instead of many faults: for half of it nothing comes back from the service, for the other half it hangs up on everybody.

With a local log pushes go on. With the log in the store they are refused, each with Retry-After, until the store is back; clients keep what was refused and
repeat it. Either way each profile that was acknowledged counts once afterwards, no budget of memory was exceeded, and nobody had to do anything."""
import re
import time

from book import Wrong
from flametree import is_sanitized
from load import OF_A_SERVICE
from story import HEAL_SECONDS, Story

REFUSED = (429, 503)


class Outage(Story):
    PUSHERS = 16

    def suffer(self):
        self.pause(3)
        self.self_test()
        if self.options.self_test:
            return
        self.tries = []  # (begin, end, outcome, Retry-After) of each push; Python's lists take appends of several threads
        self.load.tell = lambda *one: self.tries.append(one)
        seconds, self.resident = self.options.outage * 60, {}
        self.watch(min(20, seconds / 3))
        before, self.resident = self.resident, {}
        began = time.monotonic()
        self.be_away(seconds)
        self.back(began, time.monotonic())
        self.tell_memory(before)

    def be_away(self, seconds):
        store, net = self.cluster.store, self.cluster.net
        if net.real:
            cuts = [net.cut("store", name) for name in self.cluster.listed]
            self.say("+ nothing comes back from the store")
            self.watch(seconds / 2)
            store.order(away=True)
            for cut in cuts:
                net.mend(cut)
        store.order(away=True)
        self.say("+ the store hangs up on everybody")
        self.watch(seconds / 2)
        store.order(away=False)
        self.say("- the store is back")

    def back(self, began, ended):
        """Looks at what clients met, and awaits that all is as before."""
        self.refusals = self.during(began, ended)
        complete = self.await_answers() - ended
        self.watch(3)
        after = [t for t in list(self.tries) if t[0] >= ended]
        taken = [t[1] for t in after if t[2] == 200]
        if not taken:
            raise Wrong("the store is back, but no push is taken")
        self.say("pushes were taken %.1f s after the outage, the last one was refused after %.1f s, answers were complete after %.1f s" % (
            min(taken) - ended, max([t[1] - ended for t in after if t[2] != 200], default=0), complete))
        self.done, self.longest = 1, complete

    def during(self, began, ended):
        """How many pushes were refused."""
        tries = [t for t in list(self.tries) if t[0] >= began and t[1] <= ended]
        taken, refused = ([t for t in tries if t[2] in outcome] for outcome in ((200,), REFUSED))
        told = [t for t in refused if t[3]]
        self.say("during the outage: %d pushes taken, %d refused (429: %d, 503: %d), of these %d with Retry-After, %d without an answer; an answer took at most %.1f s" % (
            len(taken), len(refused), *(sum(t[2] == status for t in refused) for status in REFUSED), len(told), len(tries) - len(taken) - len(refused),
            max([t[1] - t[0] for t in taken + refused], default=0)))
        if len(told) != len(refused):
            raise Wrong("%d pushes were refused without Retry-After" % (len(refused) - len(told)))
        late = [t for t in tries if t[0] > (began + ended) / 2]
        if self.log == "local" and sum(t[2] == 200 for t in late) < 0.9 * len(late):
            raise Wrong("the log is on the disk, but of %d pushes in the second half of the outage %d were taken" % (len(late), sum(t[2] == 200 for t in late)))
        if self.log == "object" and not refused:
            raise Wrong("the log is in the store, but no push was refused")
        return len(refused)

    def await_answers(self):
        """When every querier calls its answer complete."""
        deadline = time.monotonic() + HEAL_SECONDS
        for querier in self.cluster.of("querier"):
            while True:
                said = self.load.ask(querier, "s%d" % (self.load.count // OF_A_SERVICE))
                if said is not None and not said.startswith("partial"):
                    break
                if time.monotonic() > deadline:
                    raise Wrong("the store is back, but after %d s %s says: %s" % (HEAL_SECONDS, querier.name, said))
                self.pause(0.1)
        return time.monotonic()

    # ---- memory

    def watch(self, seconds):
        """Time goes by, and the resident memory of each process is noted."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for node in self.cluster.nodes.values():
                if node.runs():
                    self.resident.setdefault(node.name, []).append(node.rss_bytes() >> 20)
            self.pause(min(1, max(0, until - time.monotonic())))

    def tell_memory(self, before):
        """Fails if a budget was exceeded."""
        if is_sanitized(self.cluster["querier-1"]):
            self.say("resident memory says little here: AddressSanitizer keeps what is freed")
        for name, sizes in sorted(self.resident.items()):
            node, most = self.cluster[name], {}
            for line in node.operator().call("GET", "/metrics").expect(200).body.decode().splitlines():
                found = re.fullmatch(r'flametree_memory_(peak|limit)_bytes\{budget="([^"]+)"\} (\S+)', line)
                if found:
                    most.setdefault(found[2], {})[found[1]] = float(found[3])
            over = {budget: m for budget, m in most.items() if 0 < m.get("limit", 0) < m.get("peak", 0)}
            if over:
                raise Wrong("%s exceeded its budgets: %s" % (name, over))
            self.say("%-13s resident MiB before, at most, after: %d, %d, %d; no budget of %d was exceeded" % (name, before[name][-1], max(sizes), sizes[-1], len(most)))

    def summary(self, good):
        return super().summary(good) + (", %d pushes refused with Retry-After" % self.refusals if good and not self.options.self_test else "")
