"""Rows that a rebase copies: in boxes of bytes_in_flight, for any shape and sharding; only chunks that differ on both sides conflict."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError
from frazil.repository.merge.conflicts import Conflict
from frazil.runtime import Runtime
from frazil.stores import MemoryStore

LIMIT = 2**18


@pytest.mark.parametrize("layout", [{"chunks": (16, 16)}, {"chunks": (8, 16), "shards": (16, 64)}], ids=str)
def test_appended_rows_are_copied_within_the_limit(tmp_path: Path, layout: dict[str, tuple[int, ...]]) -> None:
    """Rows of the limit each. The copied rows are 12 times that."""
    columns, rows = LIMIT, 12
    layout = {name: (shape[0], shape[1] * 256) for name, shape in layout.items()}
    repo = frazil.Repository.create(tmp_path / "x", runtime=Runtime(threads=1, bytes_in_flight=LIMIT, cache_bytes=0))
    with repo.transaction(message="base") as root:
        root.create_array("a", shape=(2, columns), dtype="u1", fill_value=0, codecs=[], **layout)  # type: ignore[arg-type]
    session = repo.writable_session()
    array = session.open("a")
    assert isinstance(array, frazil.Array)
    for row in range(rows):
        array.append(np.full((1, columns), row + 1, "u1"))
    with repo.transaction(message="theirs") as root:
        root["a"].append(np.full((1, columns), 77, "u1"))  # type: ignore[union-attr]
    tracemalloc.start()
    try:
        session.rebase()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * LIMIT
    session.commit("mine")
    found = repo.readonly_session().open("a")
    assert isinstance(found, frazil.Array)
    for column in (0, 16384, columns - 1):
        assert found[:, column].tolist() == [0, 0, 77, *range(1, rows + 1)]


def test_only_chunks_that_differ_on_both_sides_are_in_conflict() -> None:
    for solver, expected in (("disjoint", None), ("ours", [9, 7]), ("theirs", [1, 8])):
        repo = frazil.Repository.create(MemoryStore())
        with repo.transaction(message="base") as root:
            root.create_array("a", shape=(3, 6), dtype="i4", chunks=(2, 2), fill_value=0)[...] = 1
        session = repo.writable_session()
        mine = session.open("a")
        assert isinstance(mine, frazil.Array)
        mine.append(np.full((1, 6), 2))
        mine[2, 0], mine[2, 2] = 9, 6
        with repo.transaction(message="theirs") as root:
            theirs = root["a"]
            assert isinstance(theirs, frazil.Array)
            theirs.append(np.full((2, 6), 3))
            theirs[2, 1], theirs[2, 4] = 8, 5
        if expected is None:
            with pytest.raises(ConflictError) as caught:
                session.rebase()
            (conflict,) = caught.value.conflicts
            assert isinstance(conflict, Conflict)
            assert conflict.chunks is not None and conflict.chunks.tolist() == [[1, 0]]
            continue
        session.commit("mine", rebase=solver)
        found = repo.readonly_session().open("a")
        assert isinstance(found, frazil.Array)
        assert found[:, 5].tolist() == [1, 1, 1, 3, 3, 2]
        # chunk (1, 0) is taken whole from one side; (1, 1) is only ours and (1, 2) only theirs
        row = found[2].tolist()
        assert row[2:] == [6, 1, 5, 1]
        assert row[:2] == ([9, 1] if solver == "ours" else [1, 8])


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("solver", ["ours", "theirs"])
def test_rows_come_from_where_the_session_has_the_array(solver: str, swapped: bool) -> None:
    """Both renamed the array to which both appended. If their name wins, the rows are still at our name; another array may be at the former one."""
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="base") as root:
        root.create_array("a", data=np.full(3, 1, "i4"), chunks=2)
        root.create_array("c", data=np.full(9, 7, "i4"), chunks=2)
    session = repo.writable_session()
    root = session.root
    root.move("a", "b")
    if swapped:
        root.move("c", "a")
    mine = root["b"]
    assert isinstance(mine, frazil.Array)
    mine.append(np.full(2, 2, "i4"))
    mine[2] = 9
    with repo.transaction(message="theirs") as root:
        theirs = root["a"]
        assert isinstance(theirs, frazil.Array)
        theirs.append(np.full(1, 3, "i4"))
        root.move("a", "d")
    session.rebase(lambda conflict: solver if conflict.kind == "renamed" else "ours")
    session.commit("mine")
    now = {path: node[...].tolist() for path, node in repo.readonly_session().root.arrays()}  # type: ignore[union-attr]
    other = {"a" if swapped else "c": [7] * 9}
    assert now == {**other, "b" if solver == "ours" else "d": [1, 1, 9, 3, 2, 2]}
