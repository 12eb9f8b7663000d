"""Any dataset of xarray's own strategies is the same after writing and reading."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, assume, given, reject, settings
from xarray.testing import strategies

import frazil
import frazil.xarray
from frazil.stores import MemoryStore

NAMES = st.text("abcxyz_µ", min_size=1, max_size=6).filter(lambda name: not name.startswith("__"))
DTYPES = st.sampled_from(
    [np.dtype(kind) for kind in ("?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16", "U3", "M8[ns]")]
)


def simple(value: object) -> bool:
    """Values that JSON preserves: no arrays, which become lists, and no empty objects with keys that are not text."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and simple(part) for name, part in value.items())
    return value is None or isinstance(value, bool | str | float)


ATTRIBUTES = st.dictionaries(
    NAMES,
    (strategies.attrs() | st.text(max_size=4) | st.sampled_from(["NaN", "Infinity", -math.inf, math.inf])).filter(
        simple
    ),
    max_size=3,
)
VARIABLES = strategies.variables(
    dims=strategies.dimension_sizes(dim_names=NAMES, min_dims=0, max_dims=3, min_side=0, max_side=5),
    dtype=DTYPES,
    attrs=ATTRIBUTES,
)


def plain(variable: xr.Variable) -> bool:
    """NaT and times out of range are a matter of the CF conventions; text does not end in NUL."""
    values: Any = variable.values
    if values.dtype.kind == "M":
        return bool((np.abs(values.astype("i8")) < 2**62).all())
    return values.dtype.kind != "U" or all("\0" not in value and value.isprintable() for value in values.flat)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(variable=VARIABLES.filter(plain), attributes=ATTRIBUTES, name=NAMES, lazy=st.booleans(), data=st.data())
@pytest.mark.filterwarnings("ignore")
def test_a_variable(variable: xr.Variable, attributes: Any, name: str, lazy: bool, data: st.DataObject) -> None:
    if name in variable.dims and variable.ndim != 1:
        name += "0"
    source = xr.Dataset({name: variable}, attrs=attributes)
    store = MemoryStore()
    sides = st.integers(1, 4)
    chunks = {str(dimension): data.draw(sides) for dimension in variable.dims}
    shards = {dimension: extent * data.draw(st.integers(1, 3)) for dimension, extent in chunks.items()}
    written = source.chunk() if lazy else source
    written.frazil.write(store, chunks=chunks, shards=shards if data.draw(st.booleans()) else None)
    found = xr.open_dataset(store, engine="frazil", chunks={} if data.draw(st.booleans()) else None)  # type: ignore[arg-type]
    xr.testing.assert_identical(found.load(), source)


@pytest.mark.skipif(not hasattr(strategies, "basic_indexers"), reason="xarray 2025.9 has no strategies of selections")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.fixed_dictionaries({name: st.integers(1, 7) for name in "abc"}),
    chunks=st.fixed_dictionaries({name: st.integers(1, 4) for name in "abc"}),
    factor=st.integers(1, 3),
    data=st.data(),
)
def test_selections(sizes: dict[str, int], chunks: dict[str, int], factor: int, data: st.DataObject) -> None:
    shape = tuple(sizes.values())
    source = xr.Variable(tuple(sizes), np.arange(np.prod(shape)).reshape(shape))
    store = MemoryStore()
    xr.Dataset({"v": source}).frazil.write(
        store, chunks=chunks, shards={name: factor * size for name, size in chunks.items()}
    )
    found = xr.open_dataset(store, engine="frazil")["v"].variable  # type: ignore[arg-type]
    kind = data.draw(
        st.sampled_from([strategies.basic_indexers, strategies.outer_array_indexers, strategies.vectorized_indexers])
    )
    selection = data.draw(kind(sizes=sizes))
    for (
        name,
        part,
    ) in selection.items():  # an empty slice with a negative step is an IndexError of xarray, for any engine
        assume(not isinstance(part, slice) or len(range(*part.indices(sizes[name]))))
    try:
        expected = source.isel(selection)
    except IndexError:
        reject()
    xr.testing.assert_identical(found.isel(selection).load(), expected)
    assert frazil.open(store)["v"].chunks == tuple(chunks[name] for name in sizes)  # type: ignore[index]
