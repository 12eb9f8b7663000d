"""Inconsistent arguments of read_shards: ValueErrors, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from frazil import _kernel

MAX = 2**63 - 1
NONE = np.empty((0, 2), np.int64)
PROGRAM = _kernel.program((4,), 2, (0,), (), (), b"\0\0")
INDEX = _kernel.shard_index((3,), (1,), True, 48, False, 0)
OTHER = _kernel.shard_index((3,), (1,), True, 48, False, None)
TABLE = np.array([(0, 8), (-1, -1), (8, 8)], np.int64)
SHARD = bytes(range(16)) + TABLE.tobytes()
VERSIONS = np.zeros((1, 3), np.int64)
OBJECTS = np.array([(-1, 0, -1)], np.int64)
AXIS = (0, 1, 12, 12, 4, 0, 3)


def read(**changed: object) -> tuple[object, np.ndarray, np.ndarray]:
    out, states = np.full(12, 9, np.uint16), np.full((1, 4), 9, np.int64)
    arguments: dict[str, object] = {
        "program": PROGRAM, "levels": [INDEX], "names": None, "files": None, "buffers": [SHARD], "objects": OBJECTS,
        "axes": [AXIS], "rows": None, "remembered": [], "slots": None, "fresh": np.empty((3, 2), np.int64),
        "states": states, "out": out, "threads": 1,
    }  # fmt: skip
    assert set(changed) <= set(arguments)
    arguments |= changed
    arguments["axes"] = arguments["axes"], arguments.pop("rows")
    return _kernel.read_shards(*arguments.values()), out, states  # type: ignore[arg-type]


EXPECTED = [256, 770, 1284, 1798, 0, 0, 0, 0, 2312, 2826, 3340, 3854]


def test_a_shard_in_memory() -> None:
    answer, out, states = read()
    assert answer == ([], (1, 0, 0))
    assert states[0, 0] == _kernel.SHARD_FRESH
    assert out.tolist() == EXPECTED
    known = {"remembered": [(TABLE, None)], "slots": np.array([(0, 0)]), "fresh": NONE}
    answer, out, states = read(**known)
    assert (answer, states[0, 0], out.tolist()) == (([], (0, 0, 0)), _kernel.SHARD_KNOWN, EXPECTED)
    answer, out, states = read(**{**known, "remembered": [(TABLE, VERSIONS)]})
    assert (answer, states[0, 0]) == (([], (0, 0, 1)), _kernel.SHARD_STALE)
    answer, out, states = read(objects=np.array([(_kernel.MISSING, 0, 0)]), fresh=np.empty((3, 2), np.int64))
    assert (answer, states[0, 0], out.any()) == (([], (0, 1, 0)), _kernel.SHARD_MISSING, False)
    assert read(rows=np.array([0]))[1].tolist() == EXPECTED
    columns = np.array([0, 2]), np.array([(0, 1), (1, 1)]), np.array([(0, 4, 1, 0), (0, 2, 2, 4)])
    assert read(axes=[columns])[1].tolist() == [*EXPECTED[:4], 2312, 3340, *[9] * 6]


def test_files_are_named_by_coordinates(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1").write_bytes(SHARD)
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        names, states = (root, "c/", "/"), np.empty((3, 4), np.int64)
        out, fresh = np.full(36, 9, np.uint16), np.empty((9, 2), np.int64)
        axis, none = (0, 1, 36, 36, 4, 0, 9), np.empty((0, 3), np.int64)
        answer, _, _ = read(names=names, buffers=(), objects=none, axes=[axis], states=states, out=out, fresh=fresh)
        found = os.stat(tmp_path / "c" / "1")
    finally:
        os.close(root)
    assert answer == ([], (1, 2, 0))
    assert states[:, 0].tolist() == [_kernel.SHARD_MISSING, _kernel.SHARD_FRESH, _kernel.SHARD_MISSING]
    assert states[1, 1:].tolist() == [found.st_ino, found.st_size, found.st_mtime_ns]
    assert out.tolist() == [0] * 12 + EXPECTED + [0] * 12
    assert (fresh[3:6] == TABLE).all()


@pytest.mark.parametrize(
    "changed",
    [
        {"levels": [OTHER]},
        {"names": (-1, "", "/")},
        {"buffers": []},
        {"objects": np.empty((0, 3), np.int64)},
        {"objects": np.array([(0, 0, -1)])},
        {"objects": np.array([(-2, 0, -1)])},
        {"axes": []},
        {"axes": [AXIS, AXIS]},
        {"axes": [(0, 1, 12)]},
        {"axes": [(0, 0, 12, 12, 4, 0, 3)]},
        {"axes": [(0, 1, 12, 12, 0, 0, 3)]},
        {"axes": [(-1, 1, 12, 12, 4, 0, 3)]},
        {"axes": [(0, 1, 12, 12, 4, 3, 0)]},
        {"axes": [(0, 1, 13, 13, 4, 0, 4)]},
        {"axes": [(MAX, MAX, MAX, MAX, MAX, 0, 3)]},
        {"axes": [(np.array([0]), np.array([(0, 1)]), np.array([(0, 5, 1, 0)]))]},
        {"axes": [(np.array([0]), np.array([(0, 2)]), np.array([(0, 4, 1, 0)]))]},
        {"axes": [(np.array([0]), np.array([(MAX, 1)]), np.array([(0, 4, 1, 0)]))]},
        {"axes": [(np.array([0, 1]), np.array([(0, 1)]), np.array([(0, 4, 1, 0)]))]},
        {"rows": np.array([1])},
        {"rows": np.array([-1])},
        {"slots": np.array([(0, 0)])},
        {"slots": np.array([(-2, 0)])},
        {"slots": np.array([(-1, 0), (-1, 0)])},
        {"slots": np.array([(0, 1)]), "remembered": [(TABLE, None)], "fresh": NONE},
        {"slots": np.array([(0, 0)]), "remembered": [(TABLE, VERSIONS[:0])], "fresh": NONE},
        {"slots": np.array([(0, 0)]), "remembered": [(TABLE[:2], VERSIONS)], "fresh": NONE},
        {"slots": np.array([(0, 0)]), "remembered": [(TABLE, VERSIONS)]},
        {"fresh": np.empty((2, 2), np.int64)},
        {"states": np.empty((2, 4), np.int64)},
        {"out": np.empty(11, np.uint16)},
        {"out": np.empty(12, np.uint8)},
        {"out": np.broadcast_to(np.zeros(1, np.uint16), 12)},
    ],
)  # fmt: skip
def test_bad_arguments_are_value_errors(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        read(**changed)


def points(**changed: object) -> tuple[object, np.ndarray]:
    out = np.full(3, 9, np.uint16)
    columns: dict[str, object] = {
        "shards": np.array([(0,)]), "offsets": np.array([0, 2]), "chunks": np.array([(0,), (2,)]),
        "first": np.array([0, 1, 3]), "points": np.array([(1, 0), (3, 2), (0, 1)]),
    }  # fmt: skip
    fresh, states = np.empty((3, 2), np.int64), np.empty((1, 4), np.int64)
    given = tuple({**columns, **changed}.values())
    return _kernel.read_shards(PROGRAM, [INDEX], None, None, [SHARD], OBJECTS, given, [], None, fresh, states, out, 1), out  # type: ignore[arg-type] # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"shards": np.empty((0, 1), np.int64)},
        {"offsets": np.array([0, 1])},
        {"offsets": np.array([0, 3])},
        {"offsets": np.array([1, 2])},
        {"offsets": np.array([], np.int64)},
        {"chunks": np.array([(0,)])},
        {"first": np.array([0, 1])},
        {"first": np.array([0, 1, 4])},
        {"first": np.array([1, 0, 3])},
        {"first": np.array([], np.int64)},
        {"points": np.array([(4, 0), (3, 2), (0, 1)])},
        {"points": np.array([(1, 0), (3, 3), (0, 1)])},
    ],
)
def test_bad_points_are_value_errors(changed: dict[str, object]) -> None:
    answer, out = points()
    assert answer == ([], (1, 0, 0))
    assert out.tolist() == [EXPECTED[1], EXPECTED[8], EXPECTED[11]]
    with pytest.raises(ValueError):
        points(**changed)


@pytest.mark.parametrize(
    "given",
    [
        ((0,), (1,), True, 0, False, 0),
        ((-1,), (1,), True, 16, False, 0),
        ((2**40, 2**40), (1, 1), True, 16, False, 0),
        ((3,), (), True, 48, False, 0),
        ((3,), (2,), True, 48, False, 0),
        ((3, 2), (2, 0), True, 96, False, 0),
        ((3,), (MAX,), True, 48, False, 0),
        ((3,), (1,), True, 47, False, 0),
        ((3,), (1,), True, 48, False, 1),
    ],
)
def test_bad_indexes_are_value_errors(given: tuple[object, ...]) -> None:
    with pytest.raises(ValueError):
        _kernel.shard_index(*given)  # type: ignore[arg-type]


def test_bad_tables_are_value_errors() -> None:
    row, size = np.array([(-1, 16, 48)], np.int64), np.array([64], np.int64)
    table = np.empty((3, 2), np.int64)
    assert _kernel.read_indexes(INDEX, None, [SHARD], row, size, table, 1) == []
    assert (table == TABLE).all()
    for index, rows, sizes, tables in (
        (OTHER, row, size, table),
        (INDEX, row, size, table[:2]),
        (INDEX, row, np.array([64, 64]), table),
        (INDEX, np.array([(0, 16, 48)]), size, table),
    ):
        with pytest.raises(ValueError):
            _kernel.read_indexes(index, None, [SHARD], rows, sizes, tables, 1)
    ((unit, code, _),) = _kernel.read_indexes(INDEX, None, [SHARD], np.array([(-1, 16, 47)]), size, table, 1)
    assert (unit, code) == (0, _kernel.FAILED_RANGE)
    with pytest.raises(ValueError):
        _kernel.check_indexes(INDEX, size, TABLE[:2].copy())
    for index, tables, length in ((OTHER, TABLE, 48), (INDEX, TABLE[:2].copy(), 48), (INDEX, TABLE, 47)):
        with pytest.raises(ValueError):
            _kernel.write_indexes(index, tables, bytearray(length))
