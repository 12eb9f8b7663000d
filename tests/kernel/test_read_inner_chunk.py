"""read_inner_chunk: it reads what read_shards reads, leaves the rest to it, and refuses inconsistent arguments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from frazil import _kernel

PROGRAM = _kernel.program((4, 2), 2, (0, 1), (), (), b"\7\0")
INDEX = _kernel.shard_index((3, 2), (2, 1), True, 96, False, 0)
CHUNKS = np.arange(48, dtype=np.uint16).reshape(6, 4, 2)  # of a shard; the last but one is missing
TABLE = np.array([[(16 * number, 16) if number != 4 else (-1, -1) for number in range(6)]], np.int64)
SHARD = CHUNKS.tobytes() + TABLE.tobytes()
NAME = Path("c/1.0")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).write_bytes(SHARD)
    root = os.open(tmp_path, os.O_RDONLY)
    yield root
    os.close(root)


def version(path: Path) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def read(root: int, versions: object = None, **changed: object) -> tuple[bool, np.ndarray]:
    out = np.full((2, 2), 9, np.uint16)
    single = {"chunk": (4, 1), "starts": (0, 0), "counts": (2, 2), "steps": (3, 1)}
    single |= {name: value for name, value in changed.items() if name in single}
    arguments: dict[str, object] = {
        "program": PROGRAM, "index": INDEX, "names": (root, "c/", "."), "single": tuple(single.values()),
        "tables": TABLE, "versions": versions, "table": 0, "out": out,
    }  # fmt: skip
    arguments |= {name: value for name, value in changed.items() if name in arguments}
    assert set(changed) <= {*single, *arguments}
    return _kernel.read_inner_chunk(*arguments.values()), out  # type: ignore[arg-type]


def test_elements_of_a_chunk(root: int, tmp_path: Path) -> None:
    expected = CHUNKS[3][::3]
    for versions, tables, table in [
        (None, TABLE, 0),
        (np.array([version(tmp_path / NAME)]), TABLE[0], 0),
        (np.array([(0, 0, 0), version(tmp_path / NAME)]), np.concatenate([TABLE * 0, TABLE]), 1),
    ]:
        done, out = read(root, versions, tables=tables, table=table)
        assert done and out.tolist() == expected.tolist()


def test_a_chunk_that_is_not_stored(root: int) -> None:
    done, out = read(root, chunk=(5, 0))
    assert done and out.tolist() == [[7, 7], [7, 7]]


def test_what_read_shards_has_to_read(root: int, tmp_path: Path) -> None:
    assert not read(root, chunk=(0, 0))[0], "there is no such shard"
    current = version(tmp_path / NAME)
    for field in range(3):
        other = np.array([current])
        other[0, field] += 1
        done, out = read(root, other)
        assert not done and (out == 9).all(), "another version"
    (tmp_path / NAME).write_bytes(SHARD[:60])
    assert not read(root)[0], "the chunk lies beyond the end"
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    assert not read(root)[0], "no file"


@pytest.mark.parametrize(
    "changed",
    [
        {"names": (-1, "c/", ".")},
        {"chunk": (4,)},
        {"starts": (0, 0, 0)},
        {"starts": (-1, 0)},
        {"starts": (2, 0)},
        {"counts": (2,)},
        {"counts": (0, 2)},
        {"counts": (3, 1)},
        {"counts": (2**63 - 1, 2)},
        {"steps": (0, 1)},
        {"steps": (2**63 - 1, 1)},
        {"tables": TABLE[:, :3]},
        {"tables": TABLE.astype(np.int32)},
        {"table": 1},
        {"table": 2**63 - 1},
        {"versions": np.zeros((0, 3), np.int64)},
        {"versions": np.zeros((1, 2), np.int64)},
        {"out": np.zeros((2, 2), np.uint8)},
        {"out": np.zeros(4, np.uint16)},
        {"out": np.zeros((1, 2), np.uint16)},
        {"out": np.broadcast_to(np.zeros(1, np.uint16), (2, 2))},
        {"out": bytes(8)},
        {"index": _kernel.shard_index((6,), (1,), True, 96, False, 0)},
    ],
)  # fmt: skip
def test_bad_arguments_are_value_errors(root: int, changed: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        read(root, **changed)
