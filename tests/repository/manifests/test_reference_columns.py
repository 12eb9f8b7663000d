"""New references in columns: consistent ones are accepted unchanged, others are refused with the wrong chunk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.repository.manifests.reference_columns import reference_columns, set_checks
from frazil.repository.virtual.locations import file_location
from frazil.repository.virtual.virtual_fetch import NO_CONTAINERS, open_containers


@given(st.data(), st.integers(0, 3))
def test_columns_come_as_they_are(data: st.DataObject, rank: int) -> None:
    grid = [data.draw(st.sampled_from([1, 3, 2**20, 2**32])) for _ in range(rank)]
    coordinates = data.draw(st.lists(st.tuples(*(st.integers(0, extent - 1) for extent in grid)), max_size=6))
    texts = data.draw(st.lists(st.sampled_from("abc"), min_size=len(coordinates), max_size=len(coordinates)))
    offsets, lengths = range(len(texts)), np.arange(len(texts), dtype=np.uint8) + 1
    table = np.array(coordinates, np.uint64).reshape(len(coordinates), rank)
    if len(set(coordinates)) < len(coordinates):
        with pytest.raises(InvalidInputError, match="given twice") as caught:
            reference_columns(table, texts, list(offsets), lengths, grid=grid, path="/a")
        assert caught.value.chunk is not None
        assert coordinates.count(tuple(caught.value.chunk)) > 1
        return
    for locations in (texts, np.array(texts, "U1"), np.array(texts, object), iter(texts)):
        found = reference_columns(table, locations, list(offsets), lengths, grid=grid)
        assert [tuple(row) for row in found.coordinates.tolist()] == coordinates
        assert [found.names[number] for number in found.locations.tolist()] == texts
        assert found.names == tuple(dict.fromkeys(texts))
        assert found.offsets.tolist() == list(offsets) and found.lengths.tolist() == lengths.tolist()
        assert {column.dtype for column in (found.coordinates, found.offsets, found.lengths)} == {np.dtype(np.int64)}


def test_a_single_location_and_length_apply_to_all() -> None:
    found = reference_columns([[0], [2]], "file:///a", [0, 8], 8, grid=(3,))
    assert found.names == ("file:///a",) and found.locations.tolist() == [0, 0] and found.lengths.tolist() == [8, 8]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coordinates": [[0, 0], [3, 0]]}, r"grid \(3, 2\)"),
        ({"coordinates": [[0, 0], [-1, 0]]}, r"grid \(3, 2\)"),
        ({"coordinates": [[1, 1], [1, 1]]}, "twice"),
        ({"coordinates": [[0], [1]]}, r"shape \(n, 2\)"),
        ({"coordinates": [0, 1]}, r"shape \(n, 2\)"),
        ({"coordinates": [[0, 0], [1]]}, "array of integers"),
        ({"coordinates": [[0.0, 1.0], [1.0, 1.0]]}, "must be integers"),
        ({"coordinates": [[True, False], [True, True]]}, "must be integers"),
        ({"coordinates": np.array([[0, 0], [2**63, 0]], np.uint64)}, r"below 2\*\*63"),
        ({"coordinates": [[0, 0], [2**70, 0]]}, "integers"),
        ({"offsets": [0, -1]}, "negative offset"),
        ({"offsets": [0, 2**63 - 4]}, r"beyond 2\*\*63"),
        ({"offsets": [0]}, "one for each chunk"),
        ({"offsets": ["a", "b"]}, "must be integers"),
        ({"lengths": [4, 0]}, "below 1"),
        ({"lengths": -1}, "below 1"),
        ({"lengths": [[4, 4]]}, "one for each chunk"),
        ({"locations": ["file:///a"]}, "one for each chunk"),
        ({"locations": ["file:///a", None]}, "not NoneType"),
        ({"locations": [b"file:///a"] * 2}, "not bytes"),
        ({"locations": [{}, {}]}, "not dict"),
        ({"locations": 3}, "locations must be URLs"),
    ],
)
def test_inconsistent_columns_are_refused(changes: dict[str, object], message: str) -> None:
    given = {"coordinates": [[0, 0], [1, 0]], "locations": "file:///a", "offsets": [0, 4], "lengths": 4, **changes}
    with pytest.raises(InvalidInputError, match=message) as caught:
        reference_columns(**given, grid=(3, 2), path="/a")
    assert caught.value.path == "/a"


def test_repeated_chunks_are_found_in_grids_of_any_size() -> None:
    for grid in ((4, 5), (2**20, 2**20), (2**32, 2**32, 2**32)):
        rows = [[3] * len(grid), [0] * len(grid), [3] * len(grid)]
        with pytest.raises(InvalidInputError, match="twice") as caught:
            reference_columns(rows, "file:///a", 0, 1, grid=grid)
        assert caught.value.chunk == (3,) * len(grid)


def test_checks_are_of_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    prefix = file_location(f"{tmp_path}/")
    found = reference_columns([[0], [1]], [prefix + "a", prefix + "b"], 0, 1, grid=(2,))
    checked = set_checks(found, open_containers([prefix]))
    assert list(checked.checks) == [prefix + "a"] and checked.checks[prefix + "a"].size == 3
    assert not set_checks(found, open_containers([prefix]), look_up=False).checks
    for look_up in (True, False):
        with pytest.raises(InvalidInputError, match="outside of the prefixes"):
            set_checks(found, NO_CONTAINERS, look_up=look_up)
