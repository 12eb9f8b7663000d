"""Every array and group of the hierarchies that zarr-python 2.18.7 wrote, and of the same in the dialect of December 2022: values, data types and
attributes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.stores import LocalStore
from tests.conformance.draft.fixtures import CASES, COUNTS, HIERARCHIES, OLD, Fixture, load, unpack
from tests.conformance.draft.zarr2 import Zarr2
from tests.strategies import same


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = unpack(tmp_path_factory.mktemp("draft"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=CASES, ids="-".join)
def fixture(request: pytest.FixtureRequest, unpacked: Path) -> Fixture:
    return load(unpacked, *request.param)


def differences(root: frazil.Array | frazil.Group, fixture: Fixture) -> list[str]:
    """Nodes that differ from the manifest, and how."""
    found = []
    for expected in fixture.arrays:
        array = root if isinstance(root, frazil.Array) else root[expected.path]
        assert isinstance(array, frazil.Array), expected.path
        checks = {
            "shape": array.shape == expected.values.shape,
            "dtype": array.dtype == expected.values.dtype,
            "values": same(array[...], expected.values),
            "attributes": dict(array.attrs) == expected.attributes,
            "chunks": array.chunks == expected.chunks,
            "shards": array.shards == _shards(expected.chunks, expected.chunks_per_shard),
            "path": array.path == expected.path,
        }
        found += [f"{expected.path}: {check}" for check, good in checks.items() if not good]
    for path, attributes in fixture.groups.items():
        if isinstance(root, frazil.Group):
            group = root[path] if path else root
            if dict(group.attrs) != (attributes or {}):
                found.append(f"{path}: attributes")
    return found


def _shards(chunks: tuple[int, ...], per_shard: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if per_shard is None:
        return None
    return tuple(chunk * count for chunk, count in zip(chunks, per_shard, strict=False))


def test_the_fixtures_have_all_arrays_and_groups(unpacked: Path) -> None:
    for kind, (arrays, groups) in COUNTS.items():
        manifest = json.loads((unpacked / kind / "manifest.json").read_text())
        assert (len(manifest["arrays"]), len(manifest["groups"])) == (arrays, groups)
        assert sum(len(load(unpacked, *case).arrays) for case in CASES if case[0] == kind) == arrays


@pytest.mark.rule("D24", "D31", "D87", "Z1", "Z2", "Z3", "Z4", "Z5", "Z6", "Z8", "Z9", "Z11", "Z12", "Z13", "Z19")
def test_read_from_disk_untouched(fixture: Fixture) -> None:
    before = fixture.contents()
    assert differences(frazil.open(fixture.folder), fixture) == []
    assert fixture.contents() == before


def test_read_from_memory(fixture: Fixture) -> None:
    store = fixture.in_memory()
    assert differences(frazil.open(store), fixture) == []
    assert differences(frazil.open(store, mode="r+"), fixture) == []
    assert store.list() == sorted(path.relative_to(fixture.folder).as_posix() for path in fixture.files())


def written(root: frazil.Array | frazil.Group, fixture: Fixture) -> dict[str, np.ndarray]:
    """Writes into every array and its document. Returns the expected content. The corner gets the former value of the last element."""
    expected = {}
    for was in fixture.arrays:
        array = root if isinstance(root, frazil.Array) else root[was.path]
        assert isinstance(array, frazil.Array)
        values = was.values.copy()
        if values.size:
            values[(0,) * values.ndim] = values[(-1,) * values.ndim]
            array[(0,) * values.ndim] = values[(0,) * values.ndim]
        array.attrs["new"] = {"a": [1]}
        expected[was.path] = values
    return expected


@pytest.mark.rule("D93", "D85", "X6", "Z7", "Z10")
def test_every_array_of_the_fixtures_is_written_and_read_back(fixture: Fixture, tmp_path: Path) -> None:
    """The other elements, attributes and members stay; zarr-python 2.18 reads the older dialect."""
    shutil.copytree(fixture.folder, tmp_path / "h.zr3")
    expected = written(frazil.open(tmp_path / "h.zr3", mode="r+"), fixture)
    for was in fixture.arrays:
        array = frazil.open_array(tmp_path / "h.zr3", path=was.path)
        assert same(array[...], expected[was.path]), was.path
        assert dict(array.attrs) == {**was.attributes, "new": {"a": [1]}}, was.path
        stored = json.loads((tmp_path / "h.zr3" / was.key).read_text())
        fill = stored["fill_value"] if was.document["fill_value"] is None else was.document["fill_value"]
        assert fill is not None, "a null becomes a fixed value"
        changed = {"attributes": {**was.document["attributes"], "new": {"a": [1]}}, "fill_value": fill}
        assert stored == {**was.document, **changed}, was.path
    assert {path.relative_to(fixture.folder) for path in fixture.files()} <= {
        path.relative_to(tmp_path / "h.zr3") for path in (tmp_path / "h.zr3").rglob("*")
    }


@pytest.mark.rule("Z16")
@pytest.mark.parametrize("name", HIERARCHIES[OLD])
def test_zarr_python_reads_what_was_written_into_its_own(
    zarr2: Zarr2, name: str, unpacked: Path, tmp_path: Path
) -> None:
    fixture = load(unpacked, OLD, name)
    store = tmp_path / "h.zr3"
    shutil.copytree(fixture.folder, store)
    expected = written(frazil.open(store, mode="r+"), fixture)
    expected.pop("fill/int_null", None)  # zarr-python reads undefined values there if nothing was written
    for path, values in expected.items():
        read = zarr2.read(store, path)
        assert read.astype(read.dtype.newbyteorder("=")).tobytes() == values.tobytes(), path


def test_read_from_a_copy_below_other_things(fixture: Fixture, tmp_path: Path) -> None:
    shutil.copytree(fixture.folder, tmp_path / "deep" / "below" / "h.zr3")
    assert differences(frazil.open(tmp_path / "deep" / "below" / "h.zr3", mode="r+"), fixture) == []
    for expected in fixture.arrays:
        array = frazil.open_array(LocalStore(tmp_path / "deep" / "below" / "h.zr3"), path=expected.path)
        assert same(array[...], expected.values), expected.path


@pytest.mark.rule("D5", "D51", "D72", "D73", "Z13", "Z15")
def test_nodes_are_listed(fixture: Fixture) -> None:
    expected = fixture.members()
    if not expected:
        return
    root = frazil.open_group(fixture.folder)
    kinds = {
        path: "array" if isinstance(node, frazil.Array) else "group" for path, node in root.members(max_depth=None)
    }
    assert kinds == expected
    assert sorted(root) == sorted(path for path in expected if "/" not in path)
    assert len(root) == len(list(root))
    assert {path: node["kind"] for path, node in root.tree().to_json().items()} == expected
    for path, kind in expected.items():
        assert path in root
        if kind == "group":
            names = [below.rpartition("/")[2] for below in sorted(expected) if below.rpartition("/")[0] == path]
            assert list(frazil.open_group(fixture.folder, path=path)) == sorted(names), path
        else:
            assert frazil.open_array(fixture.folder, path=path).path == path
