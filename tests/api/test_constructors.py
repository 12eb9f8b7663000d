"""Arrays made, saved and loaded in one call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.codecs import Bytes, Zstd
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.stores import MemoryStore


@pytest.mark.parametrize(("name", "value"), [("create", 0), ("empty", 0), ("zeros", 0), ("ones", 1)])
def test_arrays_of_one_value(name: str, value: int, tmp_path: Path) -> None:
    make = getattr(frazil, name)
    assert make(5).dtype == np.float64
    array = make((4, 6), store=tmp_path / "a.zarr", dtype="u2", chunks=(2, 3))
    assert (array.chunks, array.dtype) == ((2, 3), np.dtype("u2"))
    assert (frazil.open_array(tmp_path / "a.zarr")[...] == value).all()
    with pytest.raises(AlreadyExistsError):
        make(3, store=tmp_path / "a.zarr")


@pytest.mark.parametrize(
    ("dtype", "fill", "kept"),
    [
        ("i1", 1, 1),
        ("f4", 1, 1.0),
        ("i4", 300.5, 0),
        ("u1", 300, 0),
        ("f4", np.nan, np.nan),
        ("i4", np.nan, 0),
        ("string", 1, ""),
        ("M8[s]", np.nan, None),
        ("m8[s]", np.inf, None),
        ("f8", 2**53 + 1, 0.0),
    ],
)
def test_empty_like_of_another_data_type_keeps_a_fill_value_that_it_holds(
    dtype: str, fill: float, kept: object
) -> None:
    source = frazil.full(3, fill, dtype="i8" if isinstance(fill, int) else "f8")
    np.testing.assert_equal(frazil.empty_like(source, dtype=dtype)[:].tolist(), [kept] * 3)


@pytest.mark.parametrize(("name", "value"), [("empty_like", 9), ("zeros_like", 0), ("ones_like", 1)])
def test_arrays_like_others(name: str, value: int) -> None:
    make = getattr(frazil, name)
    other = frazil.full((4, 6), 9, dtype="i4", chunks=(2, 3), shards=(4, 6))
    made = make(other)
    assert (made.shape, made.dtype, made.chunks, made.shards) == ((4, 6), np.dtype("i4"), (2, 3), (4, 6))
    assert (made[...] == value).all()
    assert make(other, chunks=(1, 6)).shards is None
    assert make(np.ones((2, 2), "u1")).dtype == np.uint8
    assert make([1, 2]).shape == (2,)


def test_full_and_full_like_fill_with_the_value() -> None:
    assert frazil.full(3, 7)[...].tolist() == [7, 7, 7]
    assert frazil.full_like(frazil.full(3, 7))[...].tolist() == [7, 7, 7]
    assert frazil.full_like(np.zeros(3, "u1"), 5)[...].tolist() == [5, 5, 5]


def test_array_and_from_array_keep_unspecified_properties(tmp_path: Path) -> None:
    values = np.arange(24).reshape(4, 6)
    arguments = {"chunks": (2, 3), "shards": (4, 6), "codecs": [Bytes("big"), Zstd(level=1)], "fill_value": 3}
    source = frazil.array(values, **arguments, attributes={"k": 1}, dimension_names=("y", "x"))
    for copy in (frazil.array(source), frazil.from_array(tmp_path / "b", data=source, chunks="keep", shards="keep")):
        np.testing.assert_array_equal(copy[...], values)
        assert (copy.chunks, copy.shards, copy.codecs, copy.fill_value) == ((2, 3), (4, 6), source.codecs, 3)
        assert (dict(copy.attrs), copy.dimension_names) == ({"k": 1}, ("y", "x"))
    other = frazil.from_array(tmp_path / "c", data=source, name="n", chunks=(1, 6), write_data=False)
    assert (other.path, other.chunks, other.shards, other.nchunks_initialized) == ("n", (1, 6), None, 0)
    assert frazil.array([1, 2])[...].tolist() == [1, 2]


def test_save_and_load(tmp_path: Path) -> None:
    frazil.save(tmp_path / "a", [1, 2, 3])
    assert frazil.load(tmp_path / "a").tolist() == [1, 2, 3]
    frazil.save(tmp_path / "a", np.arange(2))
    assert frazil.load(tmp_path / "a").tolist() == [0, 1]
    frazil.save(tmp_path / "g", [1], [2], x=[3])
    loaded = frazil.load(tmp_path / "g")
    assert {name: values.tolist() for name, values in loaded.items()} == {"arr_0": [1], "arr_1": [2], "x": [3]}
    frazil.save(tmp_path / "g", x=[4])
    assert frazil.load(tmp_path / "g", path="x").tolist() == [4]
    assert sorted(frazil.load(tmp_path / "g")) == ["arr_0", "arr_1", "x"]
    frazil.save_group(tmp_path / "p", [1], path="deep/er")
    assert frazil.load(tmp_path / "p", "deep/er")["arr_0"].tolist() == [1]
    with pytest.raises(InvalidInputError, match="nothing to save"):
        frazil.save(tmp_path / "n")


def test_group_opens_or_makes() -> None:
    store = MemoryStore()
    group = frazil.group(store, attributes={"k": 1})
    group["x"] = [1]
    assert dict(frazil.group(store).attrs) == {"k": 1}
    assert list(frazil.group(store)) == ["x"]
    assert list(frazil.group(store, overwrite=True)) == []
    assert frazil.group(store, path="a/b").path == "a/b"
    frazil.save_array(store, [1], path="c")
    with pytest.raises(InvalidInputError, match="array is there"):
        frazil.group(store, path="c")


def test_versions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    frazil.print_debug_info()
    printed = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert printed["kernel"] == frazil.__version__
    assert {"python", "numpy", "platform", "zstd"} <= set(printed)


def test_save_checks_all_arrays_before_it_replaces_one(tmp_path: Path) -> None:
    frazil.save(tmp_path / "g", a=np.arange(3), b=np.arange(4))
    for bad in ({"b": np.array([object()], dtype=object)}, {"__b": np.arange(4)}, {"b.__lock": np.arange(4)}):
        with pytest.raises(frazil.errors.FrazilError):
            frazil.save(tmp_path / "g", a=np.zeros(3), **bad)
        found = frazil.load(tmp_path / "g")
        assert isinstance(found, dict)
        np.testing.assert_array_equal(found["a"], np.arange(3))
        np.testing.assert_array_equal(found["b"], np.arange(4))
