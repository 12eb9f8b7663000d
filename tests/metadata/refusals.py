"""Checks of errors for these tests. Holds no tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from frazil.errors import InvalidInputError, MetadataError


@contextmanager
def refused(path: str | None, *words: str, kind: type[InvalidInputError] = MetadataError) -> Iterator[None]:
    """The block raises an error of this class with this path, and its message contains these words."""
    with pytest.raises(kind) as caught:
        yield
    assert caught.value.path == path, str(caught.value)
    for word in words:
        assert word in caught.value.message
