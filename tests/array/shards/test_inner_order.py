"""inner_order: the order of inner chunks in written shards."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import InvalidInputError
from frazil.stores import MemoryStore

GRID = list(product(range(4), range(4)))
ORDERS = {
    "C": GRID,
    "F": sorted(GRID, key=lambda at: at[::-1]),
    "morton": sorted(GRID, key=lambda at: at[0] % 2 + at[1] % 2 * 2 + at[0] // 2 * 4 + at[1] // 2 * 8),
}


def stored_order(path: Path, shape: tuple[int, int] = (4, 4)) -> list[tuple[int, int]]:
    """Coordinates of the inner chunks of the shard 0, 0 in the order of their bytes; each is a single int32: its number in C order, counted from 1."""
    found = np.frombuffer((path / "c/0/0").read_bytes()[: shape[0] * shape[1] * 4], "<i4") - 1
    return [tuple(np.unravel_index(number, shape)) for number in found.tolist()]  # type: ignore[misc]


def create(path: Path, order: str, **more: object) -> frazil.Array:
    arguments = {"shape": (4, 4), "dtype": "int32", "chunks": (1, 1), "shards": (4, 4), "codecs": [], **more}
    return frazil.create_array(path, inner_order=order, **arguments)  # type: ignore[arg-type]


VALUES = np.arange(1, 17, dtype="int32").reshape(4, 4)


@pytest.mark.parametrize("order", ORDERS)
def test_whole_shards_parts_and_the_shard_writer(tmp_path: Path, order: str) -> None:
    whole = create(tmp_path / "whole", order)
    whole[...] = VALUES
    assert stored_order(tmp_path / "whole") == ORDERS[order]
    assert f'"order": "{order}"' in json.dumps(frazil.shards(tmp_path / "whole").to_json())
    parts = create(tmp_path / "parts", order)
    for at in np.random.default_rng(0).permutation(GRID).tolist():
        parts[tuple(at)] = VALUES[tuple(at)]
    assert stored_order(tmp_path / "parts") == ORDERS[order]
    written = create(tmp_path / "written", order)
    with written.shard_writer((0, 0)) as writer:
        for at in reversed(GRID):
            writer[at] = VALUES[at]
    assert stored_order(tmp_path / "written") == ORDERS[order]
    assert (written[...] == VALUES).all()


def test_a_partial_write_sorts_kept_chunks(tmp_path: Path) -> None:
    create(tmp_path, "written")[...] = VALUES
    assert stored_order(tmp_path) == ORDERS["C"]
    frazil.open_array(tmp_path, "r+", inner_order="F")[0, 0] = 1
    assert stored_order(tmp_path) == ORDERS["F"]
    frazil.open_array(tmp_path, "r+")[0, 0] = 1
    assert stored_order(tmp_path) == ORDERS["F"]


def test_by_dimensions_of_the_array_where_a_codec_transposes(tmp_path: Path) -> None:
    sharding = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [1, 1],
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        },
    }
    transpose = {"name": "transpose", "configuration": {"order": [1, 0]}}
    for order, expected in ORDERS.items():
        array = create(tmp_path / order, order, chunks=(4, 4), shards=None, codecs=[transpose, sharding])
        array[...] = VALUES
        assert stored_order(tmp_path / order) == expected
        assert (array[...] == VALUES).all()


def test_each_level_of_nested_shards(tmp_path: Path) -> None:
    inner = frazil.codecs.ShardingIndexed([1, 1], [frazil.codecs.Bytes()])
    array = create(tmp_path, "F", shape=(4, 4), chunks=(2, 2), shards=(4, 4), codecs=[inner])
    array[...] = np.arange(16).reshape(4, 4) + 1
    data = (tmp_path / "c/0/0").read_bytes()
    of_inner = 4 * 4 + 4 * 16 + 4
    firsts = [np.frombuffer(data[at * of_inner : at * of_inner + 16], "<i4").tolist() for at in range(4)]
    assert firsts == [[1, 5, 2, 6], [9, 13, 10, 14], [3, 7, 4, 8], [11, 15, 12, 16]]


def test_inner_order_is_not_in_documents(tmp_path: Path) -> None:
    create(tmp_path / "a", "morton")
    create(tmp_path / "b", "written")
    first, second = ((tmp_path / name / "zarr.json").read_bytes() for name in "ab")
    assert first == second
    assert "morton" not in json.dumps(json.loads(first))


def test_groups_and_sessions(tmp_path: Path) -> None:
    made = frazil.create_group(tmp_path / "g").create_array(
        "a", shape=(4, 4), dtype="int32", chunks=(1, 1), shards=(4, 4), codecs=[], inner_order="F"
    )
    made[...] = VALUES
    assert stored_order(tmp_path / "g/a") == ORDERS["F"]
    session = frazil.Repository.create(MemoryStore()).writable_session("main")
    kept = session.root.create_array(
        "a", shape=(4, 4), dtype="int32", chunks=(1, 1), shards=(4, 4), codecs=[], inner_order="F"
    )
    kept[...] = VALUES
    data = session.store.get("a/c/0/0")
    assert data is not None
    assert np.frombuffer(data[:64], "<i4").tolist() == VALUES.T.reshape(-1).tolist()


@pytest.mark.parametrize("wrong", ["c", "", None, 1, ["C"]])
def test_refusals(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="inner_order"):
        create(tmp_path, wrong)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
