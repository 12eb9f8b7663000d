"""Numbers of few bits and the registered complex numbers: fill values in every form, arrays, and refusals."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import MetadataError, UnknownExtensionError
from frazil.metadata.extensions import Extension
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.registered_complex import RegisteredComplexTypes
from frazil.metadata.types.small_numbers import FLOATS, INTEGERS
from frazil.stores import MemoryStore

ml_dtypes = pytest.importorskip("ml_dtypes")
ALL = (*INTEGERS, *FLOATS, *RegisteredComplexTypes.names)


@pytest.mark.parametrize("name", ALL)
def test_every_element_is_a_fill_value(name: str) -> None:
    data_type = CORE_EXTENSIONS.data_type(Extension(name))
    assert data_type.extension() == Extension(name)
    for bits in range(256) if data_type.itemsize < 4 else (0, 1, 127, 255):
        data = bytes([bits]) * data_type.itemsize
        if name in INTEGERS:  # whose upper bits have no meaning
            data = np.frombuffer(data, data_type.dtype).astype("i1").astype(data_type.dtype).tobytes()
        assert data_type.parse_fill(data_type.emit_fill(data_type.parse_fill(_hex(data_type, data)))).data == data


def _hex(data_type: frazil.metadata.types.core.DataType, data: bytes) -> object:
    if data_type.name in INTEGERS:
        return int(np.frombuffer(data, data_type.dtype)[0])
    order = sys.byteorder
    if not data_type.name.startswith("complex_"):
        return f"0x{int.from_bytes(data, order):0{2 * len(data)}x}"
    half = len(data) // 2
    return [f"0x{int.from_bytes(part, order):0{2 * half}x}" for part in (data[:half], data[half:])]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shards", [None, 4])
def test_arrays_keep_their_elements(name: str, shards: int | None) -> None:
    fill = [1, 1] if name.startswith("complex_") else 1
    a = frazil.create_array(MemoryStore(), shape=6, chunks=2, shards=shards, dtype=name, fill_value=fill)
    assert a[3].tobytes() == a.fill_value.tobytes() == a.metadata.fill_value.data
    values = np.frombuffer(bytes(range(4 * a.dtype.itemsize)), a.dtype)
    a[1:5] = values
    assert a[1:5].tobytes() == values.tobytes()
    assert frazil.open_array(a.store)[1:5].tobytes() == values.tobytes()


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_dtypes_of_the_package_have_their_types(name: str) -> None:
    a = frazil.create_array(MemoryStore(), data=np.zeros(3, getattr(ml_dtypes, name)))
    assert a.metadata.data_type.name == name


@pytest.mark.parametrize("name", ["int2", "int4"])
@pytest.mark.parametrize("codec", ["bytes", "packbits"])
def test_negative_integers_have_the_bits_of_the_package(name: str, codec: str) -> None:
    """Upper bits have no meaning, but chunks of the fill value are recognised by their bytes, and checksums are of bytes."""
    a = frazil.create_array(MemoryStore(), shape=6, chunks=3, dtype=name, codecs=[codec], fill_value=-1)
    a[:2] = np.array([-2, -1]).astype(a.dtype)
    assert a[...].tobytes() == np.array([-2, -1, -1, -1, -1, -1]).astype(a.dtype).tobytes()
    a[...] = np.full(6, -1).astype(a.dtype)
    assert a.nchunks_initialized == 0


@pytest.mark.parametrize(("name", "last_bit"), [("int4", 2), ("int4", 1), ("int2", 0), ("int8", 3)])
def test_packbits_extends_the_sign_to_the_bits_of_the_type(name: str, last_bit: int) -> None:
    packed = {"name": "packbits", "configuration": {"last_bit": last_bit}}
    a = frazil.create_array(MemoryStore(), shape=2, dtype=name, codecs=[packed])
    a[...] = values = np.array([-1, 0]).astype(a.dtype)
    assert a[...].tobytes() == values.tobytes()


@given(st.floats(-240, 240), st.sampled_from(["bfloat16", "float8_e4m3", "float8_e5m2"]))
def test_numbers_are_rounded(value: float, name: str) -> None:
    data_type = CORE_EXTENSIONS.data_type(Extension(name))
    assert data_type.parse_fill(value).data == np.array(value).astype(data_type.dtype).tobytes()
    assert data_type.fill_from_user(np.float64(value)).data == data_type.parse_fill(value).data


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int2", 2),
        ("int4", -9),
        ("uint2", -1),
        ("uint4", 1.5),
        ("int4", "1"),
        ("int4", True),
        ("float4_e2m1fn", 7.0),
        ("float4_e2m1fn", "NaN"),
        ("float8_e4m3fn", "Infinity"),
        ("float8_e5m2", 1e9),
        ("float8_e8m0fnu", -1.0),
        ("bfloat16", "0x1"),
        ("bfloat16", "0xzzzz"),
        ("bfloat16", None),
        ("complex_bfloat16", 1.0),
        ("complex_bfloat16", [1.0]),
        ("complex_float16", ["NaN", 1e9]),
    ],
)
def test_other_fill_values_are_refused(name: str, value: object) -> None:
    with pytest.raises(MetadataError) as caught:
        CORE_EXTENSIONS.data_type(Extension(name)).parse_fill(value)
    assert caught.value.path.startswith("fill_value")


def test_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnknownExtensionError) as caught:
        frazil.create_array(MemoryStore(), shape=2, dtype="bfloat16")
    assert "frazil[ml]" in str(caught.value)


def test_registered_names_of_the_core_stay() -> None:
    a = frazil.create_array(MemoryStore(), shape=2, dtype="complex_float32", fill_value=1 + 2j)
    assert (a.dtype, a.metadata.data_type.name, a[0]) == (np.complex64, "complex_float32", 1 + 2j)


def test_zero_is_the_least_number_where_there_is_none() -> None:
    """As in tensorstore, which writes 0.0 if no fill value is given."""
    data_type = CORE_EXTENSIONS.data_type(Extension("float8_e8m0fnu"))
    for zero in (0, 0.0):
        assert data_type.parse_fill(zero).data == data_type.fill_from_user(zero).data == data_type.zero.data == b"\0"
    assert data_type.emit_fill(data_type.zero) == 2.0**-127
    with pytest.raises(MetadataError):
        data_type.fill_from_user(-0.0)
