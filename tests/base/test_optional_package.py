"""Packages that are not installed."""

from __future__ import annotations

import math

import pytest

from frazil.base.optional_package import load_package
from frazil.errors import InvalidInputError, UnknownExtensionError


def test_a_package_that_is_there() -> None:
    assert load_package("math", "sums need", "sums") is math


@pytest.mark.parametrize("refusal", [InvalidInputError, UnknownExtensionError])
def test_a_package_that_is_missing(refusal: type[InvalidInputError]) -> None:
    with pytest.raises(refusal, match=r"^sums need no_such_package, which cannot be imported \(") as caught:
        load_package("no_such_package.inner", "sums need", "sums", refusal)
    assert caught.value.hint == "pip install 'frazil[sums]'"
