"""A thread that does one thing again and again beside a test, until its block ends.

    class Asker(Beside):
        def step(self): ...
    with Asker() as asker: ...
    assert not asker.faults
"""
import threading


class Beside(threading.Thread):
    """`faults` are what step() raised: the test tells of them, in its own thread. Unless it `stays`, the first fault ends it."""

    def __init__(self, stays=True):
        super().__init__()
        self.stays, self.over, self.faults = stays, threading.Event(), []

    def run(self):
        while not self.over.is_set():
            try:
                self.step()
            except Exception as e:
                self.faults.append(e)
                if not self.stays:
                    return

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
