"""Large reads of variable-length elements in parts: the same elements as from NumPy, no chunk twice."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import frazil
from frazil.array.io import read
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

SHAPE = (23, 7)
TEXT = np.array([f"{number} " * (number % 9) for number in range(23 * 7)]).reshape(SHAPE)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_PART_ELEMENTS", 8)


@cache
def array_of(dtype: str, number: int) -> tuple[frazil.Array, Any]:
    return array(dtype, **LAYOUTS[number])


def array(dtype: str, **layout: Any) -> tuple[frazil.Array, Any]:
    values: Any = TEXT.astype(np.dtypes.StringDType()) if dtype == "string" else np.vectorize(str.encode, "O")(TEXT)
    made = frazil.create_array(MemoryStore(), shape=SHAPE, dtype=dtype, **layout)
    made[...] = values
    return made, values


LAYOUTS: list[dict[str, Any]] = [
    {"chunks": (4, 3)},
    {"chunks": (2, 7), "shards": (6, 7)},
    {"chunks": (5, 7), "codecs": ["zstd"]},
]
SLICES = st.tuples(*[st.slices(extent) for extent in SHAPE])


@pytest.mark.parametrize("dtype", ["string", "bytes"])
@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
@given(data=st.data())
def test_selections(dtype: str, layout: int, data: st.DataObject) -> None:
    stored, values = array_of(dtype, layout)
    key = data.draw(
        SLICES
        | st.tuples(st.slices(SHAPE[0]), st.integers(0, SHAPE[1] - 1))
        | st.tuples(st.slices(SHAPE[0]), st.none())
    )
    np.testing.assert_array_equal(stored[key], values[key])


@pytest.mark.parametrize("dtype", ["string", "bytes"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reading_into_an_array_of_other_strides(dtype: str, layout: dict[str, Any]) -> None:
    stored, values = array(dtype, **layout)
    out = np.full((23, 7, 2), "before" if dtype == "string" else b"before", stored.dtype)
    assert stored.read(out=out[..., 1]) is not None
    np.testing.assert_array_equal(out[..., 1], values)
    assert (out[..., 0] == ("before" if dtype == "string" else b"before")).all()
    columns = [6, 0, 3]
    np.testing.assert_array_equal(stored.oindex[1:22, columns], values[1:22, columns])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["string", "bytes"])
def test_a_damaged_chunk_ends_a_read_in_parts(dtype: str, threads: int) -> None:
    store = MemoryStore()
    made = frazil.create_array(store, shape=SHAPE, dtype=dtype, chunks=(4, 7))
    values: Any = TEXT.astype(made.dtype) if dtype == "string" else np.vectorize(str.encode, "O")(TEXT)
    made[...] = values
    opened = frazil.open_array(store, runtime=frazil.Runtime(threads=threads))
    np.testing.assert_array_equal(opened[...], values)
    store.set("c/4/0", b"\1")
    with pytest.raises(frazil.errors.ChunkDecodeError):
        opened[...]
    np.testing.assert_array_equal(opened[:16], values[:16])


@pytest.mark.parametrize("first", ["", "import concurrent.futures.thread"])
def test_text_is_read_while_the_interpreter_ends(first: str) -> None:
    """No thread can be started then, and the module for it not be imported."""
    program = f"""
{first}
import atexit, frazil
from frazil.array.io import read
from frazil.stores import MemoryStore
read._PART_ELEMENTS = 2
made = frazil.create_array(MemoryStore(), shape=(8,), dtype="string", chunks=(2,))
made[...] = list("abcdefgh")
atexit.register(lambda: print("".join(made[...].tolist())))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "abcdefgh\n"


def test_parts_read_each_chunk_once() -> None:
    store = CountingStore(MemoryStore())
    stored = frazil.create_array(store, shape=SHAPE, path="text", dtype="string", chunks=(4, 7))
    stored[...] = TEXT
    whole = frazil.create_array(store, path="whole", shape=SHAPE, dtype="i4", chunks=(4, 7), fill_value=1)
    whole[...] = np.arange(161).reshape(SHAPE)
    requests = []
    for opened in (stored, whole):
        store.clear()
        opened[1:, ::-1]
        requests.append(store.count("fetch"))
    assert requests[0] == requests[1] > 0
