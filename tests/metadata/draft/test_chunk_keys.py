"""Chunk keys of the 2022 draft, in both directions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.refusals import refused

from frazil.metadata.draft.chunk_keys import URI, DraftKeys
from frazil.metadata.draft.emitter import draft_keys
from frazil.metadata.grids.chunk_keys import DefaultKeys

SEPARATORS = st.sampled_from("/.")


@pytest.mark.rule("D20", "D22", "D69", "K3", "X25")
@pytest.mark.parametrize(
    ("separator", "coordinates", "key"),
    [
        ("/", (1, 23, 45), "c1/23/45"),
        (".", (1, 23, 45), "c1.23.45"),
        ("/", (0,), "c0"),
        (".", (0,), "c0"),
        ("/", (2**63 - 1, 0), "c9223372036854775807/0"),
    ],
)
def test_keys(separator: str, coordinates: tuple[int, ...], key: str) -> None:
    keys = DraftKeys(separator)
    assert keys.encode_one(coordinates, "data/x/") == f"data/x/{key}"
    assert keys.encode_all(np.array([coordinates]), "data/x/") == [f"data/x/{key}"]
    assert keys.decode(key, len(coordinates)) == coordinates


@pytest.mark.rule("D22", "X25", "Z9")
def test_chunk_keys_without_dimensions() -> None:
    new, old = DraftKeys("/"), DraftKeys("/", old=True)
    assert (new.encode_one(()), new.also) == ("c", "c0")
    assert (old.encode_one(()), old.also) == ("c0", "c")
    for keys in (new, old):
        assert keys.encode_all(np.zeros((2, 0), np.int64), "p/") == ["p/" + keys.alone] * 2
        assert [keys.decode(key, 0) for key in ("c", "c0", "c1", "", "c.0", "c/0")] == [(), (), None, None, None, None]
    assert new.decode("c0", 1) == (0,)
    assert new.decode("c", 1) is None


@pytest.mark.rule("D20")
@given(SEPARATORS, st.booleans(), st.lists(st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=2), max_size=5))
def test_chunk_keys_round_trip(separator: str, old: bool, coordinates: list[list[int]]) -> None:
    keys = DraftKeys(separator, old)
    encoded = keys.encode_all(np.array(coordinates, np.int64).reshape(-1, 2), "p/")
    assert encoded == [keys.encode_one(tuple(row), "p/") for row in coordinates]
    assert [keys.decode(key.removeprefix("p/"), 2) for key in encoded] == [tuple(row) for row in coordinates]
    assert pickle.loads(pickle.dumps(keys)) == keys


@pytest.mark.rule("D20")
@given(SEPARATORS, st.text("c01./-", max_size=8), st.integers(0, 3))
def test_other_keys_are_not_chunk_keys(separator: str, key: str, rank: int) -> None:
    keys = DraftKeys(separator)
    found = keys.decode(key, rank)
    assert found is None or keys.encode_one(found) == key or (rank == 0 and key == "c0")


@pytest.mark.parametrize("key", ["c/1/0", "c01/0", "c1/0/", "c1//0", "c1/-0", "1/0", "c1.0", "c1/0/0", "C1/0", "c٣/0"])
def test_keys_of_others(key: str) -> None:
    assert DraftKeys("/").decode(key, 2) is None


@pytest.mark.rule("D21")
@pytest.mark.parametrize("separator", ["", "-", "//", None])
def test_separators(separator: str | None) -> None:
    if separator is None:
        assert DraftKeys(separator).separator == "/", "the default"
        return
    with refused("chunk_grid.separator", '"/" or "."'):
        DraftKeys(separator)


def test_chunk_key_encodings_compare_by_value() -> None:
    assert DraftKeys("/") != DraftKeys(".")
    assert DraftKeys("/") != DraftKeys("/", old=True)
    assert DraftKeys("/") != DefaultKeys("/")
    assert DraftKeys(".").extension().name == URI
    assert draft_keys(DefaultKeys("."), old=True) == DraftKeys(".", old=True)
    assert draft_keys(object(), old=False) == DraftKeys("/")
