"""Shards written with shard_writes="append" and "in_place", read by others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.codecs import Bytes, Crc32c

pytestmark = pytest.mark.foreign


@pytest.mark.parametrize("location", ["end", "start"])
@pytest.mark.parametrize("mode", ["append", "in_place"])
def test_shards_written_in_place_are_read_by_others(tmp_path: Path, mode: str, location: str) -> None:
    zarr, tensorstore = pytest.importorskip("zarr"), pytest.importorskip("tensorstore")
    array = frazil.create_array(
        tmp_path, shape=(40, 50), dtype="int32", chunks=(4, 5), shards=(16, 20),
        codecs=[Bytes(), Crc32c()], index_location=location, shard_writes=mode,
    )  # fmt: skip
    expected = np.zeros((40, 50), "int32")
    for k in range(1, 30):
        box = slice(k % 20, k % 20 + 9), slice(k, k + 13)
        array[box] = expected[box] = k
    assert (zarr.open_array(tmp_path, mode="r")[...] == expected).all()
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/"}}
    other = tensorstore.open(spec, open=True).result()
    assert (other.read().result() == expected).all()
    other[0:3, 0:3] = expected[0:3, 0:3] = 77
    array[5, 5] = expected[5, 5] = 78
    assert (array[...] == expected).all()
    assert (tensorstore.open(spec, open=True).result().read().result() == expected).all()
