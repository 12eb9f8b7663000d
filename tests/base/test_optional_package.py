"""Packages that are not installed."""

from __future__ import annotations

import math
import subprocess
import sys

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


@pytest.mark.parametrize("name", ["xarray", "zarr"])
def test_a_module_of_ours_whose_package_is_missing(name: str) -> None:
    program = (
        f"import sys; sys.modules[{name!r}] = None\ntry: import frazil.{name}\n"
        "except ImportError as error: print(type(error).__name__, error.hint)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == f"MissingPackageError pip install 'frazil[{name}]'"
