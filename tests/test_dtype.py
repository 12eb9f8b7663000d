"""The data types of zarr.dtype, by its names: they give the same results as zarr-python's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import frazil
from frazil import dtype
from frazil.errors import InvalidInputError, MetadataError

MADE: list[tuple[str, dict[str, Any]]] = [
    *[(name, {}) for name in ("Bool", "Int8", "UInt8", "VariableLengthUTF8", "VariableLengthBytes")],
    *[
        (f"{kind}{bits}", {"endianness": order})
        for kind, sizes in {"Int": (16, 32, 64), "UInt": (16, 32, 64), "Float": (16, 32, 64), "Complex": (64, 128)}.items()
        for bits in sizes
        for order in ("little", "big")
    ],
    ("DateTime64", {"unit": "s", "scale_factor": 10, "endianness": "big"}),
    ("TimeDelta64", {"unit": "ns"}),
    ("FixedLengthUTF32", {"length": 4, "endianness": "big"}),
    ("NullTerminatedBytes", {"length": 3}),
    ("RawBytes", {"length": 3}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "arguments"), MADE)
def test_data_types_agree_with_zarr_python(name: str, arguments: dict[str, Any]) -> None:
    theirs = getattr(pytest.importorskip("zarr.dtype"), name)(**arguments)
    ours = getattr(dtype, name)(**arguments)
    for zarr_format in (2, 3):
        assert ours.to_json(zarr_format=zarr_format) == theirs.to_json(zarr_format=zarr_format)
    assert ours.to_native_dtype() == theirs.to_native_dtype()
    mine, other = ours.default_scalar(), theirs.default_scalar()
    assert mine == other or (np.isnat(mine) and np.isnat(other))


@pytest.mark.parametrize(("name", "arguments"), MADE)
def test_data_types_create_arrays(name: str, arguments: dict[str, Any]) -> None:
    made = getattr(dtype, name)(**arguments)
    array = frazil.create_array({}, shape=2, dtype=made)
    assert array.metadata.data_type == made.data_type
    found = dtype.parse_dtype(made.to_json(zarr_format=3), zarr_format=3)
    assert type(found) is type(made)
    assert found.data_type == made.data_type
    if made.to_native_dtype().kind != "O":
        assert getattr(dtype, name).from_native_dtype(made.to_native_dtype()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert name in repr(made)
    assert dtype.parse_dtype(made) is made


def test_structs() -> None:
    made = dtype.Struct(fields=(("a", dtype.Int32()), ("b", dtype.Float64())))
    assert made.to_json(zarr_format=2) == {"name": [["a", "<i4"], ["b", "<f8"]], "object_codec_id": None}
    assert type(dtype.parse_dtype([("a", "i4")])) is dtype.Struct
    assert frazil.create_array({}, shape=2, dtype=made).dtype.names == ("a", "b")


def test_scalars() -> None:
    assert dtype.Int8().to_json_scalar(42, zarr_format=3) == 42
    assert dtype.Int8().from_json_scalar(42, zarr_format=3) == np.int8(42)
    assert dtype.Float32().to_json_scalar(np.nan) == "NaN"
    assert dtype.Int8().cast_scalar(4.0) == 4
    with pytest.raises(MetadataError):
        dtype.Int8().cast_scalar(400)
    with pytest.raises(InvalidInputError, match="not a Int16"):
        dtype.Int16.from_native_dtype("i4")
    with pytest.raises(InvalidInputError, match="endianness"):
        dtype.Int16(endianness="middle")
    assert type(dtype.parse_dtype("bfloat16")) is dtype.ZDType
