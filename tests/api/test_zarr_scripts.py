"""Names in scripts of zarr-python 2 and 3 besides those of Frazil: older arguments, omitted modes, errors."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frazil
from frazil import errors
from frazil.errors import InvalidInputError, MetadataError
from frazil.stores import MemoryStore
from tests.array.test_unerasable_stores import Unerasable


def document(held: dict[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(held[".zarray"])
    return found


def test_arguments_of_zarr_python_2() -> None:
    held: dict[str, bytes] = {}
    array = frazil.create(
        (10, 10),
        store=held,
        chunks=(5, 5),
        dtype="i4",
        zarr_version=2,
        compressor=frazil.codecs.Gzip(1),
        dimension_separator="/",
        fill_value=None,
        order="F",
        synchronizer=object(),
        cache_metadata=False,
        cache_attrs=True,
        read_only=False,
        chunk_store=None,
        meta_array=None,
    )
    assert (document(held)["compressor"], document(held)["dimension_separator"]) == ({"id": "gzip", "level": 1}, "/")
    array[:] = 1
    assert "1/1" in held
    assert frazil.zeros(4, compressor=None).compressors == ()
    assert frazil.zeros(4, compressor="default").compressors == frazil.zeros(4).compressors
    assert frazil.create(4, chunk_shape=2).chunks == (2,)


@pytest.mark.parametrize(
    "given",
    [
        {"compressor": None, "compressors": None},
        {"dimension_separator": ".", "chunk_key_encoding": "v2"},
        {"chunk_shape": 2, "chunks": 2},
        {"chunk_store": {}},
        {"zarr_version": 2, "zarr_format": 3},
        {"mode": "r"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_arguments_that_contradict(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(given))):
        frazil.create(4, **given)


def test_objects() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    for array in (
        frazil.create(2, dtype=object, object_codec=numcodecs.VLenUTF8()),
        frazil.create(2, dtype=object, object_codec=numcodecs.VLenUTF8(), zarr_format=2),
    ):
        array[0] = "sea"
        assert array[0] == "sea"
    array = frazil.create(2, dtype=object, object_codec=numcodecs.JSON(), zarr_format=2)
    array[0] = {"a": [1]}
    assert array[0] == {"a": [1]}
    with pytest.raises(MetadataError, match="object_codec"):
        frazil.create(2, dtype=object, object_codec=numcodecs.JSON())


def test_a_fill_value_of_null() -> None:
    """None is null in Zarr v2, where the reader decides what unwritten elements are, as in zarr-python; elsewhere it is zero."""
    held: dict[str, bytes] = {}
    array = frazil.create_array(held, shape=4, dtype="i4", fill_value=None, zarr_format=2)
    assert document(held)["fill_value"] is None
    assert array.fill_value is None
    assert array[:].tolist() == [0] * 4
    array.attrs["a"] = 1
    array.resize(6)
    assert document(held)["fill_value"] is None
    frazil.create_array(held, shape=4, dtype="i4", zarr_format=2, overwrite=True)
    assert document(held)["fill_value"] == 0
    assert frazil.create_array({}, shape=4, dtype="i4", fill_value=None).fill_value == 0


def test_modes_that_are_left_out(tmp_path: Path) -> None:
    """If a description is given, the node is created; otherwise nothing is written."""
    for open_it in (frazil.open, frazil.open_array):
        path = tmp_path / f"{open_it.__name__}.zarr"
        with pytest.raises(errors.NotFoundError, match='mode="a"'):
            open_it(path)
        made = open_it(path, shape=(4,))
        assert isinstance(made, frazil.Array)
        assert made.dtype == np.float64
        made[:] = 1
        assert open_it(path, shape=(4,), dtype="f8")[0] == 1
        assert open_it(path).read_only
    assert frazil.open_group(tmp_path / "g.zarr", attributes={"a": 1}).attrs["a"] == 1
    assert frazil.open_group(tmp_path / "g.zarr").read_only
    frazil.open_array(tmp_path / "open_array.zarr", "r", synchronizer=None, write_empty_chunks=True, config=None)
    for _ in range(2):
        frazil.zeros(4, store=tmp_path / "z.zarr", mode="w")
    with pytest.raises(InvalidInputError, match="nonsense"):
        frazil.open_group(tmp_path / "g.zarr", nonsense=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_existing_array_is_opened_with_the_arguments_of_a_new_one(zarr_format: Any) -> None:
    """Without shape and data they were refused as those of a group, although an array is there."""
    held: dict[str, bytes] = {}
    frazil.create_array(held, path="a", data=np.arange(4), zarr_format=zarr_format)
    array = frazil.open(held, mode="a", path="a", config={"write_empty_chunks": True}, dtype="i8", fill_value=0)
    assert isinstance(array, frazil.Array)
    array[0] = 5
    assert array[:].tolist() == [5, 1, 2, 3]
    for path in ("", "new"):  # a group, and nothing
        with pytest.raises(InvalidInputError, match=r"dtype is not an argument of a group.*a shape, or data"):
            frazil.open(held, mode="a", path=path, dtype="i8", zarr_format=zarr_format)


@pytest.mark.parametrize("mode", ["r", "r+", "a", "w", None])
@pytest.mark.parametrize("open_it", [frazil.open, frazil.open_array, frazil.open_group])
def test_unknown_arguments_are_named(open_it: Callable[..., Any], mode: Any) -> None:
    """In mode r `open` said that mode a takes them."""
    held: dict[str, bytes] = {}
    frazil.create_array(held, path="a", data=np.arange(4))
    before = {**held}
    with pytest.raises(InvalidInputError, match="nonsense is not an argument"):
        open_it(held, mode, nonsense=1)
    with pytest.raises(InvalidInputError, match=r"not an argument.*Repository\.open\(\.\.\., virtual_prefixes"):
        open_it(held, mode, virtual_prefixes=["file:///data/"])
    assert held == before


@pytest.mark.parametrize("mode", ["r", "r+", "a", None])
def test_an_existing_array_has_no_other_store_of_chunks(mode: Any) -> None:
    """They were ignored: an array whose chunks are elsewhere was read as its fill value."""
    held: dict[str, bytes] = {}
    frazil.create_array(held, data=np.arange(4))
    for open_it in (frazil.open, frazil.open_array, frazil.open_group):
        for name in ("chunk_store", "meta_array"):
            with pytest.raises(InvalidInputError, match=name):
                open_it(held, mode=mode, **{name: {}})  # type: ignore[arg-type]
    for open_it in (frazil.open, frazil.open_array):
        array = open_it(held, mode=mode, chunk_store=None, synchronizer=object(), cache_metadata=False)
        assert isinstance(array, frazil.Array)
        assert array[3] == 3
    assert isinstance(frazil.open({}, mode="w", cache_metadata=False), frazil.Group)


def test_consolidated_metadata_that_is_required() -> None:
    held: dict[str, bytes] = {}
    group = frazil.group(held, synchronizer=None, cache_attrs=True)
    group.zeros("x", shape=(3,))
    for use_consolidated in (None, False):
        assert "x" in frazil.open_group(held, use_consolidated=use_consolidated)
    with pytest.raises(FileNotFoundError, match="consolidated"):
        frazil.open_group(held, use_consolidated=True)
    with pytest.raises(FileNotFoundError, match="consolidated"):
        frazil.open(held, mode="r", use_consolidated=True)
    frazil.consolidate_metadata(store=held, path=None)
    assert frazil.open_group(held, use_consolidated=True)["x"][0] == 0
    for mode in ("r", "r+", "a", None):
        for use_consolidated in (True, False, None):
            opened = frazil.open(held, mode=mode, use_consolidated=use_consolidated)  # type: ignore[arg-type] # of the loop
            assert isinstance(opened, frazil.Group)
            assert opened["x"][0] == 0
            copies = opened._location.copies
            assert (copies is None) or use_consolidated
    assert frazil.open(held, mode="r", path="x", use_consolidated=True).shape == (3,)  # type: ignore[union-attr] # an array
    assert frazil.open_consolidated(store=held)["x"][0] == 0
    assert frazil.open_group(held, use_consolidated=".zmetadata")["x"][0] == 0
    for wrong in ("yes", "", 1, [], np.True_):  # "yes" counted as True, and "" as False
        for open_it in (frazil.open, frazil.open_group):
            with pytest.raises(InvalidInputError, match=r"use_consolidated is .*True, False or None"):
                open_it(held, mode="r", use_consolidated=wrong)  # type: ignore[arg-type]


def test_arguments_by_the_names_of_zarr_python() -> None:
    group = frazil.group()
    group.require_group("a", overwrite=False).create_group("b")
    assert group.require_group(name="a", overwrite=False).keys() == {"b"}
    assert not list(group.require_group("a", overwrite=True))
    with pytest.raises(InvalidInputError, match="overwrite"):
        group.require_group("a", overwrite="yes")  # type: ignore[arg-type]
    array = group.require_array(name="x", shape=(3,), dtype="i4")
    assert group.require_array(name="x", shape=(3,), dtype="i4") == array
    array.resize(new_shape=(5,))
    assert array.shape == (5,)
    array.resize(0)
    assert array.shape == (0,)
    with pytest.raises(errors.MetadataError, match="shape"):
        array.resize()
    for shapes in ((3,), (None, 3)):
        with pytest.raises(InvalidInputError, match="given twice"):
            array.resize(*shapes, new_shape=(4,))
    assert array.shape == (0,)
    default = frazil.zeros(3)
    assert frazil.create(shape=3, codecs=None, filters=None, compressor="auto").codecs == default.codecs
    assert frazil.open_array({}, mode="w", shape=3, codecs=None).codecs == default.codecs
    assert frazil.open_like(default, "a", store={}, codecs=None).codecs == default.codecs
    for name in ("zeros", "ones", "empty"):
        assert getattr(group, name)(name=name, shape=3, codecs=None).codecs == default.codecs


def test_all_errors_and_warnings_of_zarr_python_have_names() -> None:
    theirs = pytest.importorskip("zarr.errors")
    for name in theirs.__all__:
        assert issubclass(getattr(errors, name), Warning if name.endswith("Warning") else errors.FrazilError)


@pytest.mark.parametrize("name", ["ZarrDeprecationWarning", "ZarrRuntimeWarning"])
def test_a_filter_of_other_warnings_hides_no_fallback(name: str) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", getattr(errors, name))
        warnings.warn("a fallback", errors.FallbackWarning, stacklevel=1)
    assert len(seen) == 1


def test_hierarchies_trees_and_likenesses(tmp_path: Path) -> None:
    nodes = {"a": {}, "a/x": {"shape": (4,), "dtype": "i4"}}
    assert dict(frazil.create_hierarchy(store=tmp_path / "h.zarr", nodes=nodes))["a/x"].shape == (4,)
    assert "x" in str(frazil.tree(tmp_path / "h.zarr"))
    assert "x" not in str(frazil.tree(frazil.open_group(tmp_path / "h.zarr"), level=0))
    made = dict(frazil.create_hierarchy(store={}, nodes={"": {"shape": (4,), "dtype": "i4"}}))
    assert made[""].shape == (4,)
    with pytest.raises(InvalidInputError, match="below"):
        frazil.create_hierarchy(store={}, nodes={"": {"shape": 4, "dtype": "i4"}, "a": {}})
    like = frazil.full((4, 4), 3, dtype="u1", chunks=(2, 2))
    found = frazil.open_like(like, str(tmp_path / "like.zarr"))
    assert (found.chunks, found.dtype, found[0, 0]) == ((2, 2), np.uint8, 3)
    assert frazil.empty_like(like)[0, 0] == 3
    assert frazil.create_array({}, data=np.arange(4), write_data=False)[:].tolist() == [0] * 4


def test_data_types_of_zarr_python() -> None:
    types = pytest.importorskip("zarr.dtype")
    assert frazil.zeros(3, dtype=types.UInt8()).dtype == np.uint8
    assert frazil.zeros((0, 3), chunks=(0, 3)).chunks == (1, 3)


MISTAKES: dict[str, tuple[Callable[[Path], object], str, type[Exception]]] = {
    "open": (lambda path: frazil.open(path / "none", mode="r"), "NodeNotFoundError", FileNotFoundError),
    "open_array": (lambda path: frazil.open_array(path / "none"), "ArrayNotFoundError", ValueError),
    "open_group": (lambda path: frazil.open_group(path / "none"), "GroupNotFoundError", FileNotFoundError),
    "member": (lambda path: frazil.open_group(path / "g")["none"], "NodeNotFoundError", KeyError),
    "create": (lambda path: frazil.zeros(3, store=path / "a"), "ContainsArrayError", ValueError),
    "w-": (lambda path: frazil.open_array(path / "a", "w-", shape=3), "ContainsArrayError", FileExistsError),
    "kind": (lambda path: frazil.open_group(path / "a"), "ContainsArrayError", ValueError),
    "other kind": (lambda path: frazil.open_array(path / "g"), "NodeTypeValidationError", ValueError),
    "index": (lambda path: frazil.open_array(path / "a")[10], "BoundsCheckError", IndexError),
    "points": (lambda path: frazil.open_array(path / "a").vindex[0:2], "VindexInvalidSelectionError", IndexError),
    "write": (lambda path: frazil.open_array(path / "a").__setitem__(0, 1), "ReadOnlyError", ValueError),
    "codec": (lambda path: frazil.zeros(3, compressors=[{"name": "none"}]), "UnknownCodecError", ValueError),
    "attribute": (lambda path: frazil.open_array(path / "a").attrs["none"], "BaseZarrError", KeyError),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_errors_have_the_names_and_bases_of_zarr_python(mistake: str, tmp_path: Path) -> None:
    frazil.zeros(3, store=tmp_path / "a")
    frazil.create_group(tmp_path / "g")
    act, name, base = MISTAKES[mistake]
    with pytest.raises(getattr(errors, name)) as caught:
        act(tmp_path)
    assert isinstance(caught.value, base)


@pytest.mark.parametrize("open_it", [frazil.open, frazil.open_array], ids=["open", "open_array"])
def test_data_is_not_dropped_where_the_mode_is_left_out(open_it: Callable[..., Any]) -> None:
    held: dict[str, bytes] = {}
    open_it(held, data=[1, 2, 3], attributes={"k": 1})
    before = dict(held)
    for given in ({"data": [7, 7, 7]}, {"shape": (3,), "attributes": {"k": 2}}):
        with pytest.raises(errors.AlreadyExistsError, match='mode="a"'):
            open_it(held, **given)
    assert held == before
    assert open_it(held, "a", data=[7, 7, 7])[...].tolist() == [1, 2, 3]
    assert open_it(held, attributes={}).read_only
    assert open_it(held, "w", data=[7, 7, 7])[...].tolist() == [7, 7, 7]


@pytest.mark.parametrize("open_it", [frazil.open, frazil.open_group], ids=["open", "open_group"])
def test_attributes_are_not_dropped_where_the_mode_is_left_out(open_it: Callable[..., Any]) -> None:
    held: dict[str, bytes] = {}
    for nothing in ({}, None):
        with pytest.raises(errors.NotFoundError):
            open_it(held, attributes=nothing)
    assert not held
    open_it(held, attributes={"k": 1})
    with pytest.raises(errors.AlreadyExistsError, match=r"attrs\.update"):
        open_it(held, attributes={"k": 2})
    assert dict(open_it(held, attributes={}).attrs) == {"k": 1}
    assert open_it(held, attributes={}).read_only
    assert dict(open_it(held, "a", attributes={"k": 2}).attrs) == {"k": 1}


def test_read_only_is_mode_r() -> None:
    held: dict[str, bytes] = {}
    group = frazil.create_group(held)
    group["x"] = [1, 2]
    before = dict(held)
    opened: list[Callable[..., Any]] = [
        lambda mode=None, **given: frazil.open_group(held, mode, **given),
        lambda mode=None, **given: frazil.open(held, mode, path="x", **given),
        lambda mode=None, **given: frazil.open_array(held, mode, path="x", **given),
    ]
    for open_it in opened:
        for mode in (None, "r"):
            assert open_it(mode, read_only=True).read_only
        for mode in ("r+", "a", "w", "w-"):
            with pytest.raises(InvalidInputError, match="read_only"):
                open_it(mode, read_only=True)
        for value in (None, False):
            assert open_it(read_only=value).read_only
            assert not open_it("r+", read_only=value).read_only
        assert not open_it("a", read_only=False).read_only
        with pytest.raises(InvalidInputError, match="read_only"):
            open_it(read_only="yes")
    with pytest.raises(InvalidInputError, match="shape"):
        frazil.open(held, path="new", shape=3, read_only=True)
    with pytest.raises(InvalidInputError, match="read_only"):
        frazil.zeros(3, store=held, path="new", read_only=True)
    assert held == before


def test_a_group_of_consolidated_metadata_is_not_made() -> None:
    held: dict[str, bytes] = {}
    for mode in ("a", "r+", "r", None):
        with pytest.raises(errors.NotFoundError):
            frazil.open_group(held, mode, use_consolidated=True)  # type: ignore[arg-type] # of the loop
    assert not held
    frazil.create_group(held)["x"] = [1, 2]
    before = dict(held)
    for mode in ("w", "w-"):
        with pytest.raises(InvalidInputError, match="use_consolidated"):
            frazil.open_group(held, mode, use_consolidated=True)  # type: ignore[arg-type] # of the loop
    assert held == before


@pytest.mark.parametrize(
    "nodes",
    [
        {"": {}, "x": {"shape": 3, "dtype": "nonsense"}},
        {"": {}, "x": 5},
        {"": {}, "x": {"nonsense": 1}},
        {"": {"nonsense": 1}},
        {"": {}, "x": {"attributes": {"a": object()}}},
        {"": {}, "x": {"shape": 3, "dtype": "i4", "attributes": {"a": object()}}},
        {"": {}, "x": {"shape": 3, "dtype": "i4"}, "x/y": {}},
        {"": {}, "a": {}, "/a/": {}},
        {"a": {"shape": 3, "dtype": "i4"}, "/a/": {}},
        {"": {}, "/": {}},
        {"x": {"shape": 3, "dtype": "nonsense"}},
    ],
)
@pytest.mark.parametrize("overwrite", [True, False])
def test_hierarchies_with_a_wrong_node_change_nothing(nodes: dict[str, object], overwrite: bool) -> None:
    held: dict[str, bytes] = {}
    with pytest.raises(InvalidInputError):
        frazil.create_hierarchy(store=held, nodes=nodes, overwrite=overwrite)
    assert not held
    frazil.create_group(held)["keep"] = [1, 2]
    before = dict(held)
    with pytest.raises((InvalidInputError, errors.AlreadyExistsError)):
        frazil.create_hierarchy(store=held, nodes=nodes, overwrite=overwrite)
    assert held == before


def test_two_spellings_of_one_path_below_a_group() -> None:
    group = frazil.create_group({})
    for other in ({}, {"shape": 3, "dtype": "i4"}):
        with pytest.raises(InvalidInputError, match="one path"):
            group.create_hierarchy({"a": {}, "/a/": other})
    assert list(group) == []


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_of_a_group_take_its_format_by_the_older_name(zarr_format: int) -> None:
    group = frazil.create_group({}, zarr_format=zarr_format)
    assert group.create_array("x", shape=3, dtype="i4", zarr_version=zarr_format).shape == (3,)
    with pytest.raises(InvalidInputError, match="zarr_format is"):
        group.create_array("y", shape=3, dtype="i4", zarr_version=5 - zarr_format)
    assert list(group) == ["x"]


@pytest.mark.parametrize("path", ["/", "//", "/foo", "//foo", "///foo//bar/", None])
def test_slashes_of_paths_do_not_count(path: str | None) -> None:
    plain = "/".join(part for part in (path or "").split("/") if part)
    held: dict[str, bytes] = {}
    assert frazil.group(held, path=path).path == plain
    assert frazil.open_group(held, "r", path=path).path == plain
    other: dict[str, bytes] = {}
    assert frazil.create(store=other, path=path, shape=2).path == plain
    for node in (frazil.open(other, path=path), frazil.open_array(other, path=path)):
        assert node.path == plain
    saved: dict[str, bytes] = {}
    frazil.save(saved, np.arange(3), path=path)
    assert frazil.load(saved, path)[2] == 2
    assert f"{plain}/zarr.json".strip("/") in saved


def test_stores_without_erase_are_saved_to_once() -> None:
    store = Unerasable(MemoryStore())
    frazil.save(store, a=np.arange(3), b=np.arange(4))
    assert frazil.load(store)["b"].tolist() == [0, 1, 2, 3]
    with pytest.raises(errors.StoreError, match="not erasable"):
        frazil.save(store, a=np.arange(3))
    assert frazil.load(store)["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["M8", "m8"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_times_that_were_never_written_are_none(kind: str, zarr_format: int) -> None:
    array = frazil.create_array({}, shape=2, dtype=f"{kind}[10s]", zarr_format=zarr_format)
    assert np.isnat(array[:]).all()
    assert np.isnat(array.fill_value)
    array[0] = 5
    again = frazil.open_array(array.store)
    assert again.dtype == f"{kind}[10s]"
    assert again[:].astype("i8").tolist() == [5, np.iinfo("i8").min]
    assert frazil.zeros(3, dtype=f"{kind}[s]")[0].astype("i8") == 0
