"""Does without the pauses before something is tried again, which tests/stores/transfer/test_retry.py is about."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest


@contextmanager
def no_pauses() -> Iterator[None]:
    """As long as the block lasts, attempts follow each other at once; also a decorator. Not where rivals in threads get their turn in the pauses."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("frazil.stores.transfer.retry.time", SimpleNamespace(**{**vars(time), "sleep": lambda _: None}))
        yield
