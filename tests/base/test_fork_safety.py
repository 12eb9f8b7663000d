"""Objects that a fork renews."""

from __future__ import annotations

import gc
import os

import pytest

from frazil.base.fork_safety import ForkSafeLock, renew_after_fork


class Held:
    renewed = 0

    def after_fork(self) -> None:
        self.renewed += 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_renews_what_lives() -> None:
    value, ended, held = Held(), Held(), ForkSafeLock()
    renew_after_fork(value)
    renew_after_fork(ended)
    del ended
    gc.collect()
    with held.lock:
        child = os.fork()
        if child == 0:
            os._exit(value.renewed + 2 * held.lock.locked())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert value.renewed == 0
