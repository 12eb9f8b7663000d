"""Skips the pauses before retries, which tests/stores/transfer/test_retry.py tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest


@contextmanager
def no_pauses() -> Iterator[None]:
    """During the block, retries follow at once; also a decorator. Not for tests in which rival threads run during the pauses."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("frazil.base.retry.time", SimpleNamespace(**{**vars(time), "sleep": lambda _: None}))
        yield
