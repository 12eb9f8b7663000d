"""Arrays against NumPy: random layouts, selections and values, bit for bit, in memory and on disk."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import (
    DTYPES,
    Layout,
    basic_selections,
    create,
    in_any_memory,
    layouts,
    orthogonal_selections,
    same,
    values,
)

import frazil
from frazil.base.arrays import Values
from frazil.errors import InvalidInputError, ReadOnlyError, SelectionError
from frazil.stores import MemoryStore


@pytest.mark.rule("trap 24")
@given(layouts(), st.sampled_from(DTYPES), st.integers(0, 2**32), st.data())
def test_reads_and_writes_as_numpy(layout: Layout, dtype: str, seed: int, data: st.DataObject) -> None:
    """A few writes of every kind in sequence, then reads of every kind."""
    array = create(MemoryStore(), layout, dtype)
    shape = layout.shape
    expected = np.zeros(shape, array.dtype)
    for turn in range(data.draw(st.integers(0, 3))):
        kind = data.draw(st.sampled_from(["basic", "whole", "orthogonal", "points", "mask"]))
        if kind in ("basic", "whole"):
            selection = data.draw(basic_selections(shape)) if kind == "basic" else (...,)
            new = values(seed + turn, expected[selection].shape, array.dtype)
            array[selection], expected[selection] = in_any_memory(data.draw, new), new
        elif kind == "orthogonal":
            selection = data.draw(orthogonal_selections(shape))
            mesh = numpy_orthogonal(selection, shape)
            new = values(seed + turn, expected[mesh].shape, array.dtype)
            expected[mesh] = new
            array.oindex[selection] = in_any_memory(data.draw, squeezed(new, selection))
        elif kind == "mask" or not all(shape) or not shape:
            mask = np.asarray(np.random.default_rng(seed).random(shape) < 0.5)
            new = values(seed + turn, (int(mask.sum()),), array.dtype)
            array.vindex[mask], expected[mask] = in_any_memory(data.draw, new), new
        else:
            count = data.draw(st.integers(0, 12))
            places = tuple(np.random.default_rng(seed + turn).integers(0, n, count) for n in shape)
            new = values(seed + turn, (count,), array.dtype)
            array.vindex[places], expected[places] = in_any_memory(data.draw, new), new
    assert same(array[...], expected)
    selection = data.draw(basic_selections(shape))
    assert same(array[selection], expected[selection])
    selection = data.draw(orthogonal_selections(shape))
    assert same(array.oindex[selection], squeezed(expected[numpy_orthogonal(selection, shape)], selection))
    if shape and all(shape):
        places = tuple(np.random.default_rng(seed).integers(-n, n, (2, 5)) for n in shape)
        assert same(array.vindex[places], expected[places])
    again = pickle.loads(pickle.dumps(array))
    assert same(again[...], expected)


def numpy_orthogonal(selection: tuple[object, ...], shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The same selection for NumPy, which keeps the dimensions of integers."""
    return np.ix_(*(np.atleast_1d(np.arange(n)[part]) for part, n in zip(selection, shape, strict=True)))


def squeezed(array: np.ndarray, selection: tuple[object, ...]) -> np.ndarray:
    return array[tuple(0 if isinstance(part, int) else slice(None) for part in selection)]


@given(layouts(), st.sampled_from(DTYPES), st.integers(0, 2**32), st.data())
def test_reads_into_memory_of_any_strides(layout: Layout, dtype: str, seed: int, data: st.DataObject) -> None:
    array = create(MemoryStore(), layout, dtype)
    array[...] = values(seed, layout.shape, array.dtype)
    selection = data.draw(basic_selections(layout.shape))
    expected = array[...][selection]
    shape = np.asarray(expected).shape
    around = np.zeros([n * 2 + 1 for n in reversed(shape)], array.dtype)
    backwards = (..., *(slice(2 * n - 1, None, -2) if n else slice(0, 0) for n in reversed(shape)))
    out = around[backwards].T
    before = around.copy()
    assert array.read(selection, out=out) is out
    assert same(np.ascontiguousarray(out).reshape(shape), expected)
    around[backwards] = before[backwards]
    assert same(around, before), "nothing beside the view is touched"


def test_memory_whose_elements_lie_on_top_of_each_other_is_refused(tmp_path: Path) -> None:
    """Also if nothing is stored."""
    out = np.lib.stride_tricks.as_strided(np.zeros(1, "u1"), (4,), (0,))
    for store in (MemoryStore(), tmp_path / "x"):
        array = frazil.create_array(store, shape=4, dtype="u1")
        with pytest.raises(InvalidInputError, match="stride of 0"):
            array.read(out=out)


@given(layouts(), st.sampled_from(DTYPES), st.integers(0, 2**32))
def test_unwritten_elements_are_the_fill_value(layout: Layout, dtype: str, seed: int) -> None:
    scalar = values(seed, (), np.dtype("V3" if dtype == "V3" else dtype))
    array = create(MemoryStore(), layout, dtype, fill=scalar[()])
    assert same(array[...], np.full(layout.shape, scalar, array.dtype))
    assert same(array.fill_value, scalar)


@pytest.mark.parametrize("index_location", ["start", "end"])
def test_sharded_arrays_on_disk_are_written_and_read_by_another_handle(tmp_path: Path, index_location: str) -> None:
    expected = np.arange(100 * 90, dtype="u2").reshape(100, 90)
    array = frazil.create_array(
        tmp_path / "a",
        shape=(100, 90),
        dtype="u2",
        chunks=(7, 8),
        shards=(21, 32),
        index_location=index_location,
    )
    array[...] = expected
    assert same(array[...], expected)
    array[3:5, 10] = 1
    expected[3:5, 10] = 1
    again = frazil.open_array(tmp_path / "a")
    assert same(again[...], expected)
    assert same(again[::-3, 5:80:7], expected[::-3, 5:80:7])
    for row, column in np.random.default_rng(0).integers(0, 90, (50, 2)).tolist():
        assert again[row, column] == expected[row, column]
    with pytest.raises(ReadOnlyError):
        again[...] = 0


@pytest.mark.parametrize("selection", [100, -101, (0, 0, 0), "x", 1.5, (..., ...), {1: 2}])
def test_selections_that_do_not_fit(selection: object) -> None:
    array = frazil.create_array(MemoryStore(), shape=(100, 90), dtype="u2", chunks=(7, 8))
    with pytest.raises(SelectionError):
        array[selection]
    with pytest.raises(SelectionError):
        array[selection] = 0


def test_values_that_do_not_fit() -> None:
    array = frazil.create_array(MemoryStore(), shape=(100, 90), dtype="u1", chunks=(7, 8))
    with pytest.raises(SelectionError):
        array[:, :3] = np.zeros((100, 4))
    with pytest.raises(InvalidInputError):
        array[0, 0] = 300
    with pytest.raises(InvalidInputError):
        array[0, 0] = "no number"
    with pytest.raises(InvalidInputError):
        array.read(out=np.zeros((100, 90), "u2"))
    assert array.nchunks_initialized == 0


@pytest.mark.parametrize("dtype", ["f8", "M8[s]", "U1", "O", "i4,f8"])
def test_masked_elements_are_refused(dtype: str) -> None:
    """Their masks were dropped: what was below them was stored."""
    values = np.ma.array(np.zeros(4, dtype) if dtype != "O" else ["a"] * 4, mask=False, dtype=dtype)
    kind = "string" if dtype == "O" else None
    array = frazil.array(values, dtype=kind, chunks=2)
    array[:] = values
    before = array[:].tolist()
    values[1] = np.ma.masked

    class Lazy:
        shape, dtype = values.shape, values.dtype
        __getitem__ = values.__getitem__

    writes: list[Callable[[], object]] = [
        lambda: array.__setitem__(..., values),
        lambda: array.__setitem__(1, values[1]),
        lambda: array.append(values),
        lambda: array.oindex.__setitem__(slice(0, 2), values[:2]),
        lambda: array.vindex.__setitem__([0, 1], values[:2]),
        lambda: array.blocks.__setitem__(0, values[:2]),
        lambda: frazil.array(values, dtype=kind),
        lambda: frazil.array(Lazy(), dtype=kind),
    ]
    for write in writes:
        with pytest.raises(InvalidInputError, match=r"masked.*value\.filled"):
            write()
    array[:1] = values[:1]
    assert array[:].tolist() == before


@pytest.mark.parametrize("dtype", ["f8", "M8[s]"])
def test_masked_elements_of_lists_and_of_what_becomes_an_array_are_refused(dtype: str) -> None:
    """NumPy drops the masks of rows, dask its own, and variables of netCDF4 are converted to masked arrays."""
    dask_array = pytest.importorskip("dask.array")
    values = np.ma.array(np.ones((2, 4), dtype), mask=False)
    array = frazil.array(np.zeros((2, 4), dtype), chunks=2)

    class Converted:
        def __array__(self, dtype: object = None, copy: object = None) -> Values:
            return values

    for mask in (False, True):
        values[1, 2] = np.ma.masked if mask else values[0, 0]
        rows = [np.zeros(4, dtype), values[1]]
        lazy = dask_array.from_array(values, chunks=2)
        for value in (rows, tuple(rows), lazy, *([] if dtype == "M8[s]" else [Converted()])):
            for write in (lambda value: array.__setitem__(..., value), lambda value: frazil.array(value, dtype=dtype)):
                if mask:
                    with pytest.raises(InvalidInputError, match="masked"):
                        write(value)
                else:
                    write(value)
    assert array[1].tolist() == np.ones(4, dtype).tolist()


def test_lists_of_different_lengths_are_no_data() -> None:
    for make in (frazil.array, lambda data: frazil.save(MemoryStore(), data)):
        with pytest.raises(InvalidInputError, match="data is not an array"):
            make([[1], [1, 2]])


def test_masked_values_of_a_field_are_refused() -> None:
    array = frazil.array(np.zeros(2, "i4,f8"))
    with pytest.raises(InvalidInputError, match=r"^the value has masked elements"):
        array["f1"] = np.ma.array([1, 2], mask=[0, 1])
    assert array["f1"].tolist() == [0, 0]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 0, 2)])
def test_out_may_have_no_elements(shape: tuple[int, ...]) -> None:
    array = frazil.create_array(MemoryStore(), shape=shape, chunks=(1,) * len(shape), dtype="f8")
    out = np.empty(shape)  # whose strides are 0
    assert array.read(out=out) is out


def test_resize_and_append(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", shape=(10, 6), dtype="i4", chunks=(2, 2), shards=(4, 4), fill_value=-1)
    values = np.arange(60, dtype="i4").reshape(10, 6)
    array[...] = values
    array.resize((5, 5))
    assert same(array[...], values[:5, :5])
    array.shape = (10, 6)
    expected = np.full((10, 6), -1, "i4")
    expected[:5, :5] = values[:5, :5]
    assert same(array[...], expected), "old values do not come back"
    assert array.append(values[:3]) == (13, 6)
    assert same(frazil.open_array(tmp_path / "a")[...], np.concatenate((expected, values[:3])))
    assert array.append(np.zeros((13, 2)), axis=-1) == (13, 8)
    with pytest.raises(SelectionError):
        array.append(np.zeros((3, 3)))
    assert array.shape == (13, 8)


def test_attributes_write_through(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", shape=3, dtype="i4", attributes={"units": "m"})
    other = frazil.open_array(tmp_path / "a", mode="r+")
    array.attrs["long_name"] = "height"
    other.attrs.update({"valid": [0, 1]}, scale=2.5)
    assert dict(other.attrs) == {"units": "m", "long_name": "height", "valid": [0, 1], "scale": 2.5}
    del array.attrs["units"]
    assert dict(frazil.open_array(tmp_path / "a").attrs) == {"long_name": "height", "valid": [0, 1], "scale": 2.5}
    with pytest.raises(KeyError):
        del array.attrs["units"]
    with pytest.raises(InvalidInputError):
        array.attrs["bad"] = {1, 2}


@pytest.mark.parametrize("dtype", ["f8", "string", "bytes"])
def test_a_result_that_memory_cannot_hold_is_no_wrong_selection(dtype: str) -> None:
    array = frazil.create_array(MemoryStore(), shape=(2**40, 2**10), dtype=dtype, chunks=(2**10, 2**10))
    for read in (
        lambda: array[...],
        lambda: array.oindex[:, [1, 2, 3]],
        array.read,
        lambda: np.asarray(array),
    ):
        with pytest.raises(InvalidInputError, match=r"of shape .* does not fit into memory") as caught:
            read()
        assert not isinstance(caught.value, SelectionError)
        assert isinstance(caught.value.__cause__, MemoryError | ValueError)
        assert "part by part" in str(caught.value.hint)
