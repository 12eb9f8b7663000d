"""Datasets of VirtualiZarr become virtual chunks of a repository. The package is not in the locked environment: without it, stand-ins for its manifests are
used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError

xarray = pytest.importorskip("xarray")
FrazilBackendEntrypoint = pytest.importorskip("frazil.integrations.xarray.entrypoint").FrazilBackendEntrypoint
zarr = pytest.importorskip("zarr")

VALUES = np.arange(6 * 8, dtype="<f4").reshape(6, 8)


class Manifest:
    """The attributes of a ChunkManifest that are used."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self._entries = entries

    def dict(self) -> dict[str, Any]:
        return self._entries


class ManifestArray:
    """The attributes of a ManifestArray that xarray and the import use."""

    def __init__(self, metadata: Any, manifest: Any) -> None:
        self.metadata, self.manifest = metadata, manifest
        self.shape, self.ndim, self.dtype = metadata.shape, len(metadata.shape), np.dtype("<f4")

    def __array_function__(self, *_: object) -> Any:
        raise NotImplementedError

    def __array_ufunc__(self, *_: object) -> Any:
        raise NotImplementedError


def entries(folder: Path) -> dict[str, Any]:
    """The chunks of 3 x 8 of VALUES, the second of which is first in the file."""
    (folder / "data.bin").write_bytes(b"head" + VALUES[3:].tobytes() + VALUES[:3].tobytes())
    return {
        f"{i}.0": {"path": (folder / "data.bin").as_uri(), "offset": 4 + (1 - i) * 96, "length": 96} for i in (0, 1)
    }


def metadata(shape: tuple[int, ...] = (6, 8), chunks: tuple[int, ...] = (3, 8)) -> Any:
    return zarr.create_array(
        zarr.storage.MemoryStore(), shape=shape, chunks=chunks, dtype="<f4", compressors=None, fill_value=-1.0
    ).metadata


def dataset(folder: Path) -> Any:
    held = ManifestArray(metadata(), Manifest(entries(folder)))
    time = xarray.Variable(("y",), np.datetime64("2024-02-28", "ns") + np.arange(6) * np.timedelta64(1, "D"))
    temp = xarray.Variable(("y", "x"), held, {"units": "K", "_FillValue": "AAAAAAAA8L8="})
    level = xarray.Variable((), np.float64(2.5), {"units": "m"})
    return xarray.Dataset({"temp": temp}, {"y": time, "level": level}, {"title": "The sea"})


def opened(folder: Path) -> Any:
    repo = frazil.Repository.open(folder / "sea.repo", virtual_prefixes=[folder.as_uri() + "/"])
    return repo.readonly_session()


def test_manifests_become_virtual_chunks_and_the_rest_is_written(tmp_path: Path) -> None:
    made = dataset(tmp_path)
    done = frazil.import_file(made, tmp_path / "sea.repo")
    assert set(done.arrays) == {"temp", "y", "level"}
    session = opened(tmp_path)
    found = xarray.open_dataset(session, engine=FrazilBackendEntrypoint)
    np.testing.assert_array_equal(found["temp"].values, VALUES)
    xarray.testing.assert_identical(
        found["y"], made["y"].assign_coords(level=2.5).drop_vars("level").assign_coords(level=made["level"])
    )
    assert found.attrs == {"title": "The sea"} and found["temp"].attrs == {"units": "K"}
    assert "level" in found.coords
    moved = np.zeros_like(VALUES)
    (tmp_path / "data.bin").write_bytes(b"head" + moved.tobytes())
    with pytest.raises(frazil.errors.DataError):
        session.root["temp"][...]  # type: ignore[index] # the file changed


def test_a_tree_has_groups(tmp_path: Path) -> None:
    made = dataset(tmp_path)
    tree = xarray.DataTree.from_dict({"/": xarray.Dataset(attrs={"title": "Both"}), "/one/two": made})
    frazil.import_file(tree, tmp_path / "sea.repo", path="below")
    root = opened(tmp_path).root
    assert root["below"].attrs["title"] == "Both"
    np.testing.assert_array_equal(root["below/one/two/temp"][...], VALUES)  # type: ignore[index]


def test_values_are_copied_from_places_that_are_allowed(tmp_path: Path) -> None:
    made = dataset(tmp_path)
    with pytest.raises(InvalidInputError, match="virtual_prefixes"):
        frazil.import_file(made, tmp_path / "a.zarr", "copy")
    frazil.import_file(made, tmp_path / "a.zarr", "copy", virtual_prefixes=[tmp_path.as_uri() + "/"], skip=["level"])
    np.testing.assert_array_equal(frazil.open(tmp_path / "a.zarr/temp")[...], VALUES)


def test_unsupported_datasets_are_refused(tmp_path: Path) -> None:
    made = dataset(tmp_path)
    with pytest.raises(InvalidInputError, match="no variable that is a manifest"):
        frazil.import_file(made.drop_vars("temp"), tmp_path / "sea.repo")
    with pytest.raises(InvalidInputError, match="names"):
        frazil.import_file(made.assign(names=("y", np.array(["a"] * 6, object))), tmp_path / "sea.repo")
    with pytest.raises(InvalidInputError, match="adopt"):
        frazil.import_file(made, tmp_path / "sea.repo", "adopt")
    outside = ManifestArray(metadata(), Manifest({"2.0": {"path": "s3://a/b", "offset": 0, "length": 96}}))
    with pytest.raises(InvalidInputError, match="outside"):
        frazil.import_file(xarray.Dataset({"t": (("y", "x"), outside)}), tmp_path / "sea.repo")
    assert not (tmp_path / "sea.repo").exists()
    frazil.import_file(made, tmp_path / "sea.repo")
    with pytest.raises(AlreadyExistsError):
        frazil.import_file(made, tmp_path / "sea.repo")


def test_virtualizarr_itself(tmp_path: Path) -> None:
    virtualizarr = pytest.importorskip(
        "virtualizarr", reason="VirtualiZarr is not installed: pip install virtualizarr h5py"
    )
    h5py = pytest.importorskip("h5py")
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore

    with h5py.File(tmp_path / "sea.h5", "w") as file:
        file["y"], file["x"] = np.arange(6.0), np.arange(8.0)
        temp = file.create_dataset("temp", data=VALUES, chunks=(3, 4), shuffle=True, compression="gzip", fillvalue=-1)
        for axis, name in enumerate(("y", "x")):
            file[name].make_scale(name)
            temp.dims[axis].attach_scale(file[name])
        temp.attrs["units"] = "K"
    parser = virtualizarr.parsers.HDFParser()
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    made = virtualizarr.open_virtual_dataset(
        (tmp_path / "sea.h5").as_uri(), registry=registry, parser=parser, loadable_variables=["y"]
    )
    twice = xarray.concat([made, made], dim="y", coords="minimal", compat="override", data_vars="minimal")
    frazil.import_file(twice, tmp_path / "sea.repo")
    found = xarray.open_dataset(opened(tmp_path), engine=FrazilBackendEntrypoint)
    np.testing.assert_array_equal(found["temp"].values, np.concatenate([VALUES, VALUES]))
    np.testing.assert_array_equal(found["x"].values, np.arange(8.0))
    np.testing.assert_array_equal(found["y"].values, np.tile(np.arange(6.0), 2))
    assert found["temp"].attrs["units"] == "K"
