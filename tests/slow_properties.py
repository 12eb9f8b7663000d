"""Properties whose examples are slow. `make test` tries a fraction of the usual number of examples; `make campaign` tries that fraction of many more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import settings

Test = TypeVar("Test", bound=Callable[..., None])


def search(*, slowness: int) -> Callable[[Test], Test]:
    """A decorator for properties: one example for each `slowness` examples of other properties."""

    def marked(test: Test) -> Test:
        fewer = settings(max_examples=max(1, settings().max_examples // slowness))
        return pytest.mark.search(fewer(test))

    return marked
