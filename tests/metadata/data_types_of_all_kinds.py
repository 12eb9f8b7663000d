"""Data types of every kind, for property tests. Holds no tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import DataType
from frazil.metadata.types.datetimes import UNITS

CORE = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
COMPLEX = ("complex64", "complex128")

numbers = st.sampled_from([*CORE, *COMPLEX]).map(np.dtype)
raw = st.integers(1, 20).map(lambda size: np.dtype(f"V{size}"))
times = st.builds(
    lambda kind, factor, unit: np.dtype(f"{kind}8[{factor}{unit}]"),
    st.sampled_from("Mm"),
    st.one_of(st.just(""), st.integers(2, 2**31 - 1)),
    st.sampled_from(UNITS),
) | st.sampled_from(["M8", "m8"]).map(np.dtype)
plain_times = st.builds(lambda kind, unit: np.dtype(f"{kind}8[{unit}]"), st.sampled_from("Mm"), st.sampled_from(UNITS))
strings = st.builds(lambda kind, length: np.dtype(f"{kind}{length}"), st.sampled_from("SU"), st.integers(1, 9))
scalars = st.one_of(numbers, raw, times, strings)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5)


def structs(fields: st.SearchStrategy[np.dtype[np.generic]]) -> st.SearchStrategy[np.dtype[np.generic]]:
    """Packed structs of these."""
    return st.lists(st.tuples(names, fields), min_size=1, max_size=4, unique_by=lambda field: field[0]).map(np.dtype)


def nested(fields: st.SearchStrategy[np.dtype[np.generic]]) -> st.SearchStrategy[np.dtype[np.generic]]:
    """Structs of these and of structs of these."""
    return structs(fields | structs(fields))


def described(fields: st.SearchStrategy[np.dtype[np.generic]]) -> st.SearchStrategy[np.dtype[np.generic]]:
    """What NumPy's descr can also express: padding and sub-arrays."""
    shaped = st.tuples(fields, st.lists(st.integers(1, 3), min_size=1, max_size=2)).map(
        lambda field: np.dtype((field[0], tuple(field[1])))
    )
    aligned = st.lists(st.tuples(names, fields), min_size=1, max_size=4, unique_by=lambda field: field[0]).map(
        lambda entries: np.dtype(entries, align=True)
    )
    return structs(fields | shaped) | aligned | structs(aligned)


def typed(dtypes: st.SearchStrategy[np.dtype[np.generic]]) -> st.SearchStrategy[DataType]:
    """The data types that hold these."""
    return dtypes.map(CORE_EXTENSIONS.from_numpy)


def bits(draw: st.DrawFn, data_type: DataType) -> bytes:
    """One element of the type, with any valid bits; padding is zero."""
    return _bits(draw, data_type.dtype)


def _bits(draw: st.DrawFn, dtype: np.dtype[np.generic]) -> bytes:
    if dtype.subdtype is not None:
        return b"".join(_bits(draw, dtype.base) for _ in range(int(np.prod(dtype.shape))))
    if dtype.fields is not None:
        element = bytearray(dtype.itemsize)
        for field, offset, *_ in dtype.fields.values():
            element[offset : offset + field.itemsize] = _bits(draw, field)
        return bytes(element)
    if dtype.kind == "b":
        return bytes([draw(st.integers(0, 1))])
    if dtype.kind == "U":
        length = dtype.itemsize // 4
        text = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=length))
        return np.array(text, dtype).tobytes()
    return draw(st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize))
