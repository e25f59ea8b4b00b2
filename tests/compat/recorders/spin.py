"""A program that py-spy records."""
import time


def burn_hot_loop():
    end = time.process_time() + 1.5
    while time.process_time() < end:
        sum(range(10_000))


burn_hot_loop()
