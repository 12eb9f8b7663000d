"""Profiles of the property tests, and the servers that tests ask for by name. `default` is what an editor runs, `ci` what `make test` runs, `nightly` looks longer.

The examples of `ci` are the same each time; others are looked for by `nightly` (`make campaign`). None has a deadline: on a shared machine time says nothing about the code."""

from __future__ import annotations

import gc
import signal

from hypothesis import HealthCheck, settings

from tests.servers.fixtures import azure, gcs, s3, web_server

__all__ = ["azure", "gcs", "s3", "web_server"]

settings.register_profile("default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), max_examples=60, print_blob=True, derandomize=True)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=2000, print_blob=True)
settings.load_profile("default")

# A shell that runs the tests in the background has them ignore interrupts, and with them all programs that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is loaded now stays to the end: collections of garbage do not look through it again and again."""
    gc.collect()
    gc.freeze()
