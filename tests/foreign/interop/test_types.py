"""Datetimes, strings, structs and raw bytes, exchanged with zarr-python 3 in both directions."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frazil
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.stores import MemoryStore
from tests.metadata import data_types_of_all_kinds as kinds

zarr = pytest.importorskip("zarr")
pytestmark = pytest.mark.filterwarnings("ignore:The data type:Warning", "ignore::UserWarning")

STRUCTS = tuple(map(int, zarr.__version__.split(".")[:2])) >= (
    3,
    2,
)  # the name `struct`; earlier ones wrote `structured`
POINT = np.dtype([("x", "f4"), ("y", "f8")])
DTYPES = {
    "datetimes": np.dtype("M8[ns]"),
    "datetimes of ten microseconds": np.dtype("M8[10us]"),
    "datetimes without a unit": np.dtype("M8"),
    "years": np.dtype("M8[Y]"),
    "timedeltas": np.dtype("m8[h]"),
    "byte strings": np.dtype("S5"),
    "text": np.dtype("U7"),
    "structs": np.dtype([("a", "i4"), ("b", "S3"), ("c", "U2"), ("d", "M8[D]"), ("e", "?")]),
    "nested structs": np.dtype([("p", POINT), ("q", "u1"), ("r", [("p", POINT), ("c", "c16")])]),
    "structs of single bytes": np.dtype([("a", "i1"), ("b", "u1"), ("c", "S2")]),
}
TYPES = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)


def elements(dtype: np.dtype, count: int = 12) -> np.ndarray:
    """Values, with NaT, empty strings and similar ones among them."""
    random = np.random.default_rng(7)
    if dtype.names is not None:
        made = np.zeros(count, dtype)
        for name in dtype.names:
            made[name] = elements(dtype[name], count)
        return made
    if dtype.kind in "mM":
        counts = random.integers(-(2**40), 2**40, count)
        counts[::5] = -(2**63)
        return counts.view(dtype)
    if dtype.kind in "SU":
        words = ["", "a", "bc", "def", "añ", "\U0001f9ca", "xyzxyz"] if dtype.kind == "U" else [b"", b"a", b"\xff\x00q"]
        return np.array([words[i % len(words)] for i in range(count)]).astype(dtype)
    return random.integers(0, 2, count).astype(dtype)


def theirs(path: Path, mode: str = "r"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.open_array(str(path), mode=mode, zarr_format=3)


def fill_of(dtype: np.dtype) -> object:
    nat = np.frombuffer((-(2**63)).to_bytes(8, sys.byteorder, signed=True), dtype)[0] if dtype.kind in "mM" else None
    return {"S": b"ab", "U": "añ"}.get(dtype.kind, nat)


@TYPES
@pytest.mark.parametrize("shards", [None, (4,)])
def test_theirs_are_read_and_written_to(dtype: np.dtype, shards: tuple[int, ...] | None, tmp_path: Path) -> None:
    if dtype.names is not None and shards is not None and not STRUCTS:
        pytest.skip("zarr-python 3.0 and 3.1 cannot make shards of structs")
    values = elements(dtype)
    fill = fill_of(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = zarr.create_array(
            str(tmp_path),
            shape=(14,),
            dtype=dtype,
            chunks=(2,),
            shards=shards,
            **({} if fill is None else {"fill_value": fill}),
        )
    made[:12] = values
    array = frazil.open_array(tmp_path, mode="r+")
    assert array.dtype == dtype
    assert array[:12].tobytes() == values.tobytes()
    assert array.fill_value == made.fill_value or (np.isnat(array.fill_value) and np.isnat(made.fill_value))
    assert array[12:].tobytes() == np.full(2, array.fill_value, dtype).tobytes()
    array[3:9] = values[:6]
    array.attrs["touched"] = True
    again = theirs(tmp_path)
    assert again.attrs["touched"]
    assert again[3:9].tobytes() == values[:6].tobytes()
    assert again[9:12].tobytes() == values[9:].tobytes()


@TYPES
@pytest.mark.parametrize("shards", [None, (4,)])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_ours_are_read_and_written_to(
    dtype: np.dtype, shards: tuple[int, ...] | None, endian: str, tmp_path: Path
) -> None:
    values = elements(dtype)
    kind = CORE_EXTENSIONS.from_numpy(dtype)
    if dtype.names is not None and not STRUCTS and (endian == "big" or kind.swaps):
        pytest.skip("zarr-python 3.0 and 3.1 do not know the name, nor a byte order of structs")
    array = frazil.create_array(
        tmp_path,
        shape=(14,),
        dtype=dtype,
        chunks=(2,),
        shards=shards,
        fill_value=fill_of(dtype),
        codecs=[frazil.codecs.Bytes(endian if kind.swaps else None), frazil.codecs.Zstd()],
    )
    array[:12] = values
    if dtype.names is not None and not STRUCTS:
        pytest.skip("zarr-python 3.0 and 3.1 do not know the name")
    read = theirs(tmp_path, "r+")
    assert read.dtype == dtype
    assert read[:12].astype(dtype).tobytes() == values.tobytes()
    assert read[12:].astype(dtype).tobytes() == np.full(2, array.fill_value, dtype).tobytes()
    if endian == "big" and dtype == np.dtype("M8"):
        pytest.skip("NumPy turns datetimes without a unit into big-endian ones without swapping their bytes")
    read[3:9] = values[:6]
    assert frazil.open_array(tmp_path)[3:9].tobytes() == values[:6].tobytes()


def described(dtype: np.dtype, name: str) -> object:
    """The data type of a document, its structs with this name."""
    if dtype.names is None:
        return CORE_EXTENSIONS.from_numpy(dtype).to_json()
    fields = [[field, described(dtype[field], name)] for field in dtype.names]
    return {"name": name, "configuration": {"fields": fields}}


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.names is not None])
def test_structs_under_their_older_name(dtype: np.dtype, tmp_path: Path) -> None:
    values = elements(dtype)
    array = frazil.create_array(
        tmp_path, shape=(12,), dtype=described(dtype, "structured"), chunks=(5,), fill_value=values[3]
    )
    array[:10] = values[:10]
    document = json.loads((tmp_path / "zarr.json").read_text())
    assert document["data_type"] == described(dtype, "structured")
    assert isinstance(document["fill_value"], str)
    read = theirs(tmp_path)
    assert read.dtype == dtype
    assert read[:10].tobytes() == values[:10].tobytes()
    assert read[10:].tobytes() == values[[3, 3]].tobytes()


def test_raw_bytes_under_their_name(tmp_path: Path) -> None:
    values = np.frombuffer(b"abcdefghijkl", "V3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_array(str(tmp_path), shape=(5,), dtype="V3", chunks=(2,), fill_value=np.void(b"\x01\x02\xff"))[
            :4
        ] = values
    array = frazil.open_array(tmp_path, mode="r+")
    assert array[:4].tobytes() == values.tobytes()
    assert array[4].tobytes() == b"\x01\x02\xff"
    array.attrs["a"] = 1
    assert json.loads((tmp_path / "zarr.json").read_text())["data_type"]["name"] == "raw_bytes"
    assert theirs(tmp_path)[:4].tobytes() == values.tobytes()


@given(dtype=kinds.plain_times | kinds.strings, data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_any_fill_value_is_read_by_them(dtype: np.dtype, data: st.DataObject, tmp_path: Path) -> None:
    kind = CORE_EXTENSIONS.from_numpy(dtype)
    element = kinds.bits(data.draw, kind)
    if dtype.kind == "S":
        element = element.rstrip(b"\0").ljust(len(element), b"\0")
    frazil.create_array(tmp_path, shape=(1,), dtype=dtype, fill_value=np.frombuffer(element, dtype)[0], overwrite=True)
    assert theirs(tmp_path)[...].astype(dtype).tobytes() == element


def test_documents_are_as_they_write_them() -> None:
    for dtype in (d for d in DTYPES.values() if d.names is None or STRUCTS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs_json = zarr.core.dtype.parse_dtype(dtype, zarr_format=3).to_json(zarr_format=3)
        store = MemoryStore()
        frazil.create_array(store, shape=(1,), dtype=dtype)
        value = store.get("zarr.json")
        assert value is not None
        assert json.loads(value)["data_type"] == theirs_json
