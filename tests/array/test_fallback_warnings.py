"""FallbackWarning: once for each document that is opened, at the line of the caller that opened it; not again when the node is used."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable

import pytest

import frazil
from frazil.array.array import Array
from frazil.errors import FallbackWarning
from frazil.stores import MemoryStore

NESTED = {
    "extension": "https://e.org/x",
    "type": "spam",
    "fallback": {"extension": "https://e.org/y", "type": "eggs", "fallback": "uint16"},
}
STRUCT = {
    "extension": "https://purl.org/zarr/spec/extensions/data-types/struct/1.0",
    "type": [["a", NESTED], ["b", {**NESTED, "type": "ham"}]],
}


def store_with(data_type: object, *names: str) -> MemoryStore:
    store = MemoryStore()
    frazil.create_group(store, zarr_format="draft")
    for name in names:
        frazil.create_array(store, path=name, shape=2, dtype="u2", codecs=[], fill_value=0)
        document = json.loads(store.get(f"meta/{name}.array.json") or b"")
        fill = "AAAAAA==" if data_type is STRUCT else 0
        store.set(
            f"meta/{name}.array.json", json.dumps(document | {"data_type": data_type, "fill_value": fill}).encode()
        )
    return store


def warnings_of(act: Callable[[], object]) -> list[warnings.WarningMessage]:
    """The warnings of a call; each must point to a line of the function that was called."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    for warning in caught:
        code, first = inspect.getsourcelines(act)
        assert warning.filename == __file__
        assert first <= warning.lineno < first + len(code)
        assert warning.category is FallbackWarning
    return caught


@pytest.mark.rule("D15", "D16")
@pytest.mark.parametrize("data_type", [NESTED, STRUCT])
def test_once_for_an_opening_at_the_line_of_the_user(data_type: object) -> None:
    store = store_with(data_type, "a")
    ways: list[Callable[[], object]] = [
        lambda: frazil.open_array(store, path="a"),
        lambda: frazil.open_array(store, "a", path="a"),
        lambda: frazil.open(store, path="a"),
        lambda: frazil.open_group(store)["a"],
        lambda: frazil.open_group(store).get("a"),
        lambda: list(frazil.open_group(store).members()),
        lambda: list(frazil.open_group(store).values()),
        lambda: frazil.open_group(store).tree(),
    ]
    for way in ways:
        (warning,) = warnings_of(way)
        text = str(warning.message)
        assert '"spam"' in text
        assert '"eggs"' not in text.partition("fallback")[0]
        assert ('"ham"' in text) == (data_type is STRUCT)


def test_a_fallback_warns_once_for_each_document() -> None:
    store = store_with(NESTED, "a", "b", "c")
    assert len(warnings_of(lambda: list(frazil.open_group(store).members()))) == 3


def test_a_fallback_warns_once_when_an_array_is_created() -> None:
    def make() -> None:
        frazil.create_array(MemoryStore(), shape=1, dtype="u2", zarr_format="draft", document={"data_type": NESTED})

    assert len(warnings_of(make)) == 1


def test_changes_of_an_open_array_warn_of_no_fallback_again() -> None:
    store = store_with(NESTED, "a")
    opened: list[Array] = []
    warnings_of(lambda: opened.append(frazil.open_array(store, "r+", path="a")))
    changes: list[Callable[[], object]] = [
        lambda: opened[0].resize(5),
        lambda: opened[0].append([1, 2]),
        lambda: opened[0].attrs.update(a=1),
        lambda: opened[0].info,
    ]
    for change in changes:
        assert warnings_of(change) == []
