"""Hierarchies of other programs, converted: to final Zarr v3, which zarr-python 3 reads too; in both directions; and in place."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.conformance.draft.zarr2 import Zarr2
from tests.operations.archives import DRAFT, HIERARCHIES, OLD, Archive, assert_same, nodes_of, unpack

import frazil
from frazil.errors import ConversionError
from frazil.stores import LocalStore, MemoryStore

NODES = {OLD: 146, DRAFT: 136}  # arrays and groups of the manifests


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Archive]:
    folder = tmp_path_factory.mktemp("archives")
    return {name: unpack(name, folder) for name in (OLD, DRAFT)}


def assert_expected(archive: Archive, name: str, location: object) -> None:
    nodes = nodes_of(location)
    for path, expected in archive.arrays(name):
        node = nodes[path]
        assert isinstance(node, frazil.Array)
        values = node[...]
        assert (values.shape, values.dtype.newbyteorder("=")) == (expected.shape, expected.dtype.newbyteorder("=")), (
            path
        )
        assert values.astype(values.dtype).tobytes() == expected.astype(values.dtype).tobytes(), path
    for path, attributes in archive.groups(name):
        assert dict(nodes[path].attrs) == attributes, path


@pytest.mark.parametrize("name", NODES)
def test_all_nodes_of_the_manifests_are_here(archives: dict[str, Archive], name: str) -> None:
    manifest = archives[name].manifest
    assert len(manifest["arrays"]) + len(manifest["groups"]) == NODES[name]
    assert {entry["hierarchy"] for entry in manifest["arrays"] + manifest["groups"]} == {
        f"{hierarchy}.zr3" for archive, hierarchy in HIERARCHIES if archive == name
    }


@pytest.mark.parametrize(("archive", "name"), HIERARCHIES)
def test_archives_converted_to_v3_and_back_are_unchanged(
    archives: dict[str, Archive], archive: str, name: str, tmp_path: Path
) -> None:
    old, new, back = archives[archive].hierarchy(name), tmp_path / "new", tmp_path / "back"
    done = frazil.convert(old, new)
    assert (done.nbytes_recoded, {array.way for array in done.arrays}) == (0, {"bytes"})
    assert_expected(archives[archive], name, new)
    assert_same(old, new)
    assert frazil.open(new).metadata.zarr_format == 3
    zarr_format = "draft-2021" if archive == OLD else "draft"
    assert frazil.convert(new, back, zarr_format=zarr_format).nbytes == done.nbytes
    assert_expected(archives[archive], name, back)
    assert_same(old, back)
    assert frazil.open(back).metadata.zarr_format == zarr_format


@pytest.mark.parametrize(("archive", "name"), HIERARCHIES)
def test_archives_converted_in_place_and_back_are_unchanged(
    archives: dict[str, Archive], archive: str, name: str, tmp_path: Path
) -> None:
    original, target = archives[archive].hierarchy(name), tmp_path / "place"
    shutil.copytree(original, target)
    done = frazil.convert(target)
    assert_same(original, target)
    left = {key for key in LocalStore(target).list() if key.startswith(("meta/", "data/"))}
    assert len(left) == done.left_behind, "what is of no node stays"
    for key in left:
        (target / key).unlink()
    frazil.convert(target, zarr_format="draft-2021" if archive == OLD else "draft")
    assert_same(original, target)
    assert {key.partition("/")[0] for key in LocalStore(target).list()} == {"meta", "data", "zarr.json"}


@pytest.mark.parametrize(("archive", "name"), HIERARCHIES)
def test_zarr_python_reads_converted_arrays(
    archives: dict[str, Archive], archive: str, name: str, tmp_path: Path
) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    # struct had another name before
    unread = {"struct"} if tuple(map(int, zarr.__version__.split(".")[:2])) < (3, 2) else set()
    frazil.convert(archives[archive].hierarchy(name), tmp_path / "new")
    nodes = nodes_of(tmp_path / "new")
    arrays = {path: node for path, node in nodes.items() if isinstance(node, frazil.Array)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of features outside its specification
        for path, node in arrays.items():
            if node.metadata.data_type.name in unread:
                continue
            other = zarr.open(tmp_path / "new", path=path or None, mode="r", zarr_format=3)
            values = node[...]
            read = np.asarray(other[...])
            assert read.shape == values.shape, path
            assert read.astype(values.dtype).tobytes() == values.tobytes(), path
            assert dict(other.attrs) == dict(node.attrs), path


def test_between_the_dialects_of_the_draft(archives: dict[str, Archive], tmp_path: Path) -> None:
    for name in ("sharded", "core"):
        old = archives[DRAFT].hierarchy(name)
        frazil.convert(old, tmp_path / name, zarr_format="draft-2021")
        assert_same(old, tmp_path / name)
        target = tmp_path / f"{name}-place"
        shutil.copytree(tmp_path / name, target)
        frazil.convert(target, zarr_format="draft")
        assert_same(old, target)


def test_arrays_that_december_2022_cannot_express_are_refused_or_encoded_again(archives: dict[str, Archive]) -> None:
    old, store = archives[OLD].hierarchy("core"), MemoryStore()
    with pytest.raises(ConversionError) as caught:
        frazil.convert(old, store, zarr_format="draft")
    assert store.list() == []
    refused = {path for path, _, _ in caught.value.refusals}
    assert refused >= {f"codecs/{name}" for name in ("bz2", "lz4", "lzma", "zlib", "zstd", "delta_filter_gzip")}
    assert all(path in str(caught.value) for path in refused)
    done = frazil.convert(old, store, zarr_format="draft", recode=True)
    assert {array.path for array in done.arrays if array.way == "recoded"} == refused
    assert_same(old, store)


@pytest.mark.parametrize(("archive", "name"), HIERARCHIES)
def test_zarr_python_2_reads_arrays_converted_to_its_dialect(
    archives: dict[str, Archive], zarr2: Zarr2, archive: str, name: str, tmp_path: Path
) -> None:
    frazil.convert(archives[archive].hierarchy(name), tmp_path / "new")
    frazil.convert(tmp_path / "new", tmp_path / "old", zarr_format="draft-2021")
    for path, expected in archives[archive].arrays(name):
        values = zarr2.read(tmp_path / "old", path)
        assert values.shape == expected.shape, path
        assert values.astype(expected.dtype).tobytes() == expected.tobytes(), path
