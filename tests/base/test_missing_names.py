"""Names of zarr-python that do not exist here: the errors name a replacement, and the replacement exists."""

from __future__ import annotations

import re

import pytest

import frazil
from frazil.base.missing_names import _HINTS, hint


def owner_of(name: str) -> object:
    if name in ("Array", "Group"):
        return frazil.zeros(1) if name == "Array" else frazil.group()
    return eval(name, {"frazil": frazil})


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in _HINTS.items() for name in names])
def test_an_error_says_what_to_use(owner: str, name: str) -> None:
    found = owner_of(owner)
    with pytest.raises(AttributeError, match="Coming from zarr-python: ") as caught:
        getattr(found, name)
    assert name in str(caught.value)
    for word in re.findall(r"frazil(?:\.[A-Za-z_]+)+", hint(owner, name)):
        assert eval(word, {"frazil": frazil}) is not None


def test_other_names_have_no_hint() -> None:
    for owner in (frazil, frazil.storage, frazil.codecs, frazil.stores, frazil.zeros(1), frazil.group()):
        assert not hasattr(owner, "nonsense")
        with pytest.raises(AttributeError) as caught:
            owner.nonsense  # type: ignore[attr-defined]
        assert "zarr-python" not in str(caught.value)
