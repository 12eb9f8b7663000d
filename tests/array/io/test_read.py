"""Reads of shards that others replace meanwhile: every replaced shard is read again, however many there are. And the memory of results."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil import _kernel
from frazil.array.io.read import result_memory
from frazil.codecs.chain.compiled_chain import decode_chunks
from frazil.errors import ChunkDecodeError, DataError
from frazil.stores import LocalStore
from frazil.stores.wrappers import WrappedStore

SHARDS, INNER = 20, 40  # more than 16 inner chunks in each, the number that a call once reported


def replaced(folder: Path, codecs: list[object]) -> tuple[frazil.Array, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """A handle with cached indexes of shards that have been replaced since, and the values that it must read now."""
    length = SHARDS * INNER * 4
    arguments = {"shape": (length,), "dtype": "i4", "chunks": (4,), "shards": (4 * INNER,), "codecs": codecs}
    store = LocalStore(folder)
    frazil.create_array(store, **arguments)[:] = 1  # type: ignore[arg-type]
    array = frazil.open_array(store)
    while True:  # an index is cached once its file is old enough that its version is distinguishable from the next one
        array[:]
        assert array._access.indexes is not None
        remembered = array._access.indexes.find([(shard,) for shard in range(SHARDS)])
        if remembered is not None and None not in remembered:
            break
    values = np.arange(length, dtype="i4") + 2
    frazil.open_array(store, "r+")[:] = values
    return array, values


@pytest.mark.parametrize("codecs", [[], ["zstd"]], ids=["raw", "compressed"])
def test_shards_that_were_replaced_are_all_read_again(tmp_path: Path, codecs: list[object]) -> None:
    array, values = replaced(tmp_path / "a", codecs)
    out = np.full(len(values), -7, "i4")
    assert (array.read(out=out) == values).all()
    array, values = replaced(tmp_path / "b", codecs)
    out = np.full(len(values), -7, "i4")
    order = np.random.default_rng(1).permutation(len(values))
    assert (array.vindex[order] == values[order]).all()


@pytest.mark.parametrize("codecs", [[], ["zstd"]], ids=["raw", "compressed"])
def test_shards_that_are_rewritten_in_place_while_they_are_read_are_all_read_again(
    tmp_path: Path, codecs: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs do that. The files are already open, so that only the kernel can detect it."""
    length = SHARDS * INNER * 4
    arguments = {"shape": (length,), "dtype": "i4", "chunks": (4,), "shards": (4 * INNER,), "codecs": codecs}
    values = np.random.default_rng(1).integers(0, 2**31, length, "i4")
    for name, data in (("a", np.repeat(np.arange(length // 4, dtype="i4") + 1, 4)), ("b", values)):
        frazil.create_array(tmp_path / name, **arguments)[:] = data  # type: ignore[arg-type]
    calls = 0

    def decode(*given: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 1:
            for shard in range(SHARDS):
                with (tmp_path / "a" / "c" / f"{shard}").open("wb") as file:
                    file.write((tmp_path / "b" / "c" / f"{shard}").read_bytes())
        return decode_chunks(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(sys.modules["frazil.array.io.read"], "decode_chunks", decode)
    out = np.full(length, -7, "i4")
    store = WrappedStore(LocalStore(tmp_path / "a"))  # whose files are open before the kernel reads them
    assert (frazil.open_array(store).read(out=out) == values).all()
    assert calls > 1


def test_a_fault_behind_many_replaced_shards_is_an_error(tmp_path: Path) -> None:
    array, _ = replaced(tmp_path, ["zstd"])
    last = tmp_path / "c" / f"{SHARDS - 1}"
    broken = bytearray(last.read_bytes())
    broken[: len(broken) // 2] = b"\xff" * (len(broken) // 2)
    last.write_bytes(broken)
    with pytest.raises(DataError) as caught:
        array[:]
    assert caught.value.key == f"c/{SHARDS - 1}"
    assert isinstance(caught.value, ChunkDecodeError)


MIB = 1024 * 1024


@pytest.mark.parametrize(
    "dtype", ["u1", ">f4", "M8[ns]", "m8[s]", "U3", "V7", "i4,f8", "c16", "O", np.dtypes.StringDType()]
)
@pytest.mark.parametrize("nbytes", [0, 1, 128 * 1024 - 1, 128 * 1024, MIB, 4 * MIB - 1, 4 * MIB])
def test_memory_is_as_numpy_gives_it(dtype: object, nbytes: int) -> None:
    expected = np.dtype(dtype)  # type: ignore[call-overload]
    shape = (nbytes // expected.itemsize, 1)
    memory = result_memory(shape, expected)
    assert (memory.shape, memory.dtype, memory.flags.c_contiguous) == (shape, expected, True)
    assert memory.flags.writeable and memory.flags.owndata


def test_what_does_not_fit_is_numpys_error() -> None:
    with pytest.raises(MemoryError):
        result_memory((1 << 55,), np.dtype("u1"))
    with pytest.raises(ValueError, match="big"):
        result_memory((1 << 62, 1 << 62), np.dtype("f8"))


@pytest.mark.parametrize("begin", [0, 1, 4095])
def test_populating_changes_no_byte(begin: int) -> None:
    values = np.arange(MIB, dtype=np.uint8)[begin:]
    before = values.copy()
    _kernel.populate(values)
    assert (values == before).all()


@pytest.mark.parametrize("values", [b"read only", np.zeros((4, 4))[:, ::2]])
def test_other_memory_is_refused(values: object) -> None:
    with pytest.raises(ValueError, match="values"):
        _kernel.populate(values)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["S200000", "V200000", "U50000"])
def test_one_element_of_any_size(dtype: str) -> None:
    array = frazil.create_array({}, shape=(3,), chunks=(3,), dtype=dtype)
    scalar = frazil.create_array({}, shape=(), dtype=dtype)
    array[1] = scalar[()] = np.array(["1"], "S1").astype(dtype)[0]
    for found in (scalar[()], array[1], array.vindex[1]):
        assert np.asarray(found) == array[:][1]
