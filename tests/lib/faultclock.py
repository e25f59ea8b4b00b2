"""The clocks of a process with fault points (common/sys/clock.h), which a test sets while it runs.

    clock = FaultClock(path); Flametree(..., env=clock.env)
    clock.set(hours=-3)                   # somebody set the wall clock
    clock.pass_(48 * 3600 * 10**9)        # time went by: wall and boot
    clock.wait(30)                        # so many seconds of every time limit went by: mono
"""
import os
import struct
import time


class FaultClock:
    def __init__(self, path):
        self.path, self.wall_ns, self.boot_ns, self.mono_ns = str(path), 0, 0, 0
        with open(self.path, "wb") as f:
            f.write(bytes(24))
        self.env = {"FLAMETREE_CLOCK": self.path}

    def write(self):
        with open(self.path, "r+b") as f:  # in place: the process has it mapped
            os.pwrite(f.fileno(), struct.pack("=qqq", self.wall_ns, self.boot_ns, self.mono_ns), 0)

    def set(self, days=0, hours=0, seconds=0):
        """How far the wall clock is off from what went by."""
        self.wall_ns = self.boot_ns + int(((days * 24 + hours) * 3600 + seconds) * 10**9)
        self.write()

    def pass_(self, ns):
        self.wall_ns += ns
        self.boot_ns += ns
        self.write()

    def wait(self, seconds):
        self.mono_ns += int(seconds * 10**9)
        self.write()

    def now_ns(self):
        """The wall clock, as the process sees it."""
        return time.time_ns() + self.wall_ns
