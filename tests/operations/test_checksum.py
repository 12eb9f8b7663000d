"""Checksums: an independent form of the definition in docs/checksums.md, equal for any storage of an array, different after any change, bounded reads."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tests.strategies import DTYPES

import frazil
from frazil import Runtime
from frazil.codecs import Bytes, Gzip, Transpose
from frazil.errors import InvalidInputError, NotFoundError
from frazil.operations.checksum import _plan, block_shape
from frazil.stores import MemoryStore

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
SEA = RNG.normal(size=(35, 50, 40)).astype(np.float32)


def by_definition(values: np.ndarray) -> str:
    """As defined in docs/checksums.md."""
    page = (ROOT / "docs" / "checksums.md").read_text()
    names: dict[str, object] = {}
    exec(re.findall(r"^```python definition\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0], names)
    made = names["checksum"](values)  # type: ignore[operator]
    assert isinstance(made, str)
    return made


def checksum_of(values: np.ndarray) -> str:
    """Of an array with these elements."""
    native = values.astype(values.dtype.newbyteorder("="))
    return frazil.checksum(
        frazil.create_array(MemoryStore(), data=native, chunks=tuple(max(1, n) for n in values.shape))
    )


@given(
    st.sampled_from([*DTYPES[:-1], "S3", "U2", "M8[s]"]).flatmap(
        lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9))
    )
)
def test_small_values_by_the_definition(values: np.ndarray) -> None:
    assert checksum_of(values) == by_definition(values)


@pytest.mark.parametrize(
    "values",
    [
        SEA,
        SEA[:, :1, 0],
        np.arange(10**5, dtype=">i8"),
        np.zeros((3, 5000), np.bool_),
        np.frombuffer(RNG.bytes(3 * 7000), "V3"),
        np.array([(1, (2, 3.5))] * 3000, [("a", "i2"), ("b", [("c", "u1"), ("d", ">f8")])]),
        np.arange(3000).astype("M8[D]").reshape(1000, 3),
    ],
    ids=lambda values: f"{values.dtype.kind}{values.shape}",
)
def test_larger_values_by_the_definition(values: np.ndarray) -> None:
    made = by_definition(values)
    assert checksum_of(values) == made
    native = values.astype(values.dtype.newbyteorder("="))
    chunks = tuple(max(1, n // 3) for n in values.shape)
    for limit in (1, 20000, 2**26):
        array = frazil.create_array(MemoryStore(), data=native, chunks=chunks)
        assert frazil.checksum(array, runtime=Runtime(bytes_in_flight=limit)) == made


def test_a_known_checksum_stays_the_same() -> None:
    """A fixed value: checksums that users have stored must stay valid."""
    assert (
        checksum_of(np.arange(6, dtype=np.uint16).reshape(2, 3))
        == hashlib.sha256(
            b'frazil checksum 1\n"<u2"\n2,3\n'
            + hashlib.sha256(bytes(8) + bytes([0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0])).digest()
        ).hexdigest()
    )


STORED = {
    "chunks": {"chunks": (7, 90, 11)},
    "pencils": {"chunks": (70, 3, 3)},
    "maps": {"chunks": (1, 90, 40), "codecs": []},
    "shards": {"chunks": (5, 6, 8), "shards": (20, 30, 40)},
    "big endian": {"chunks": (10, 10, 10), "codecs": [Bytes("big"), Gzip(1)]},
    "transposed": {"chunks": (10, 90, 10), "codecs": [Transpose([2, 0, 1]), Bytes("little")], "fill_value": 3},
    "draft": {"chunks": (10, 10, 10), "codecs": [Bytes("big"), Gzip(1)], "zarr_format": "draft"},
    "older draft": {"chunks": (10, 10, 10), "codecs": [Bytes("little")], "zarr_format": "draft-2021"},
}


@pytest.mark.parametrize("limit", [1, 30000, 250_000])
@pytest.mark.parametrize("how", STORED)
def test_the_same_however_it_is_stored(how: str, limit: int) -> None:
    store = MemoryStore()
    array = frazil.create_array(store, data=SEA, attributes={"how": how}, **STORED[how])  # type: ignore[arg-type]
    done: list[int] = []
    made = frazil.checksum(store, runtime=Runtime(bytes_in_flight=limit), progress=done.append)
    assert made == checksum_of(SEA)
    assert sum(done) == array.nbytes


def test_in_a_repository_and_in_a_group(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="sea") as root:
        root.create_array("level1/sea", data=SEA, chunks=(7, 90, 11))
    array = repo.readonly_session().root["level1/sea"]
    assert isinstance(array, frazil.Array)
    assert frazil.checksum(array) == checksum_of(SEA)
    assert frazil.checksum(tmp_path / "sea.repo@main", path="level1/sea") == checksum_of(SEA)


def test_every_change_is_seen() -> None:
    values = np.zeros((40, 30), "f4")
    made = {checksum_of(values)}
    for other in (
        values.astype("f8"),
        values.astype("i4"),
        values.reshape(30, 40),
        values.reshape(1200),
        values[:, :29],
    ):
        made.add(checksum_of(other))
    for at, value in (((0, 0), 1), ((39, 29), 1), ((3, 4), -0.0), ((3, 4), np.nan)):
        other = values.copy()
        other[at] = value
        made.add(checksum_of(other))
    swapped = SEA.copy()
    swapped[:8], swapped[8:16] = SEA[8:16], SEA[:8]  # whole blocks
    made |= {checksum_of(SEA), checksum_of(swapped)}
    assert len(made) == 12


def test_blocks() -> None:
    assert block_shape((512, 512, 512), 4) == (16, 16, 16)
    assert block_shape((512, 512), 8) == (32, 64)
    assert block_shape((10**9,), 1) == (16384,)
    assert block_shape((1, 3, 10**6), 4) == (1, 4, 1024)
    assert block_shape((2, 2), 4) == (2, 2)
    assert block_shape((), 4) == ()
    assert block_shape((0, 5), 4) == (1, 8)
    assert block_shape((9,), 10**6) == (1,)


@pytest.mark.parametrize(
    ("shape", "chunks", "most"),
    [
        ((512, 512, 512), (64, 64, 64), 1),
        ((8760, 721, 1440), (1, 721, 1440), 1),
        ((8760, 721, 1440), (8760, 10, 10), 1.5),
        ((1000, 1000, 1000), (100, 100, 100), 1.8),
        ((100000, 100000), (1000, 1000), 1),
    ],
)
def test_chunks_are_decoded_few_times(shape: tuple[int, ...], chunks: tuple[int, ...], most: float) -> None:
    """With the default memory limit."""
    array = frazil.create_array(MemoryStore(), shape=shape, dtype="f4", chunks=chunks)
    plan = _plan(array, block_shape(shape, 4), 2**25)
    assert plan.reads(chunks) <= most
    assert plan.nbytes <= 2**25


def test_mistakes(tmp_path: Path) -> None:
    group = frazil.create_group(tmp_path / "sea.zarr")
    with pytest.raises(InvalidInputError, match="a group is there"):
        frazil.checksum(tmp_path / "sea.zarr")
    with pytest.raises(InvalidInputError, match="a group is there"):
        frazil.checksum(group)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        frazil.checksum(tmp_path / "nothing")
    array = group.create_array("a", data=[1])
    with pytest.raises(InvalidInputError, match="progress"):
        frazil.checksum(array, progress=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="runtime"):
        frazil.checksum(array, runtime=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no nodes below"):
        frazil.checksum(array, path="b")
