"""engine="frazil": what is opened, from where, and which parts are read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tests.integrations.versions import OLD_XARRAY
from tests.servers.buckets import S3
from tests.servers.proxy import FaultProxy

import frazil
import frazil.xarray
from frazil.errors import InvalidInputError, MetadataError, NotFoundError
from frazil.integrations.xarray.backend_array import FrazilBackendArray
from frazil.stores import MemoryStore

RNG = np.random.default_rng(7)
VALUES = RNG.normal(size=(6, 8, 10))


def dataset() -> xr.Dataset:
    return xr.Dataset(
        {
            "temp": (("time", "y", "x"), VALUES, {"units": "K", "valid_range": [0.0, np.inf]}),
            "mask": (("y", "x"), VALUES[0] > 0),
        },
        {
            "time": np.arange("2026-01-01", "2026-01-07", dtype="datetime64[D]").astype("datetime64[ns]"),
            "name": ("x", list("abcdefghij")),
        },
        {"title": "sea", "history": ["a", "b"]},
    )


@pytest.fixture
def repository(tmp_path: Path) -> frazil.Repository:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    session = repo.writable_session("main")
    dataset().frazil.write(session, group="deep/level1", shards={"time": 4, "x": 10}, chunks={"time": 2, "x": 5})
    repo.create_tag("v1", session.commit("first"))
    return repo


def opened(location: Any, **options: Any) -> xr.Dataset:
    found: xr.Dataset = xr.open_dataset(location, engine="frazil", **options)
    return found


def test_datasets_open_at_every_kind_of_location(
    repository: frazil.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = repository.readonly_session("main")
    places: list[Any] = [
        ("sea.repo", "deep/level1"),
        ("sea.repo/deep", "level1"),
        ("sea.repo@v1", "deep/level1"),
        ("sea.repo@main/deep", "/level1/"),
        ("sea.repo@main/deep/level1", None),
        (tmp_path / "sea.repo", "deep/level1"),
        (repository, "deep/level1"),
        (session, "deep/level1"),
        (session.store, "deep/level1"),
        (session.root, "deep/level1"),
        (session.root["deep/level1"], None),
    ]
    for location, group in places:
        xr.testing.assert_identical(opened(location, group=group), dataset())
    dataset().frazil.write("sea.zarr")
    dataset().frazil.write("memory://test-every-location")
    xr.testing.assert_identical(opened("sea.zarr"), dataset())
    xr.testing.assert_identical(opened("memory://test-every-location"), dataset())


@pytest.mark.parametrize("location", ["sea.zarr", "a/b.repo", "b.repo@main/x", "https://x.org/a.zarr"])
def test_the_engine_guesses_which_locations_it_opens(location: str) -> None:
    entrypoint = xr.backends.plugins.list_engines()["frazil"]
    assert entrypoint.guess_can_open(location)
    assert entrypoint.guess_can_open(frazil.create_group(MemoryStore()))
    assert not entrypoint.guess_can_open("sea.nc")
    assert not entrypoint.guess_can_open(b"bytes")  # type: ignore[arg-type]


def test_missing_locations_are_refused(repository: frazil.Repository, tmp_path: Path) -> None:
    for location, group in [(tmp_path / "no.zarr", None), (repository, "no"), (tmp_path / "sea.repo@no", None)]:
        with pytest.raises(NotFoundError) as error:
            opened(location, group=group)
        assert "mode=" not in str(error.value)  # which open_dataset does not have
    with pytest.raises(InvalidInputError, match="an array is there, not a group"):
        opened(repository, group="deep/level1/temp")


def test_no_error_is_made_before_a_repository_is_looked_for(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hints of an error are requests: 16 instead of 10 for a group of a repository."""
    with FaultProxy(s3.endpoint) as proxy:
        for name, value in s3.environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        url = s3.url(prefix="sea.repo")
        with frazil.Repository.create(url).transaction(message="first") as root:
            root.create_group("level1").create_array("salt", data=np.arange(3), dimension_names=("x",))
        tip = 4  # tag and branch of this name, the branch's file, the snapshot
        for location, group, expected in (
            (url, "level1", 5 + 1 + tip),  # five documents, whether the folder is a repository
            (f"{url}/level1", None, 4 + 2 + 1 + tip),
            (f"{url}@main/level1", None, 1 + 1 + tip),
        ):
            answers = frazil.stores.ObjectStore(url).exists("here")  # the bucket is known to answer as a store
            proxy.requests.clear()
            assert list(opened(location, group=group).variables) == ["salt"] and not answers
            assert len(proxy.requests) == expected, (location, [request.path for request in proxy.requests])


class Watched(FrazilBackendArray):
    """Counts the accesses by []."""

    calls: list[str] = []
    __slots__ = ()

    def _read_basic(self, key: Any) -> Any:
        self.calls.append("basic")
        return super()._read_basic(key)

    def _read_outer(self, key: Any) -> Any:
        self.calls.append("outer")
        return super()._read_outer(key)

    def _read_points(self, key: Any) -> Any:
        self.calls.append("points")
        return super()._read_points(key)


POINTS = xr.DataArray([[1, 2], [7, 0]], dims=("a", "b"))
SELECTIONS: list[tuple[str, dict[str, Any]]] = [
    ("basic", {}),
    ("basic", {"time": 3}),
    ("basic", {"time": -1, "y": 2, "x": 3}),
    ("basic", {"y": slice(None, None, -1), "x": slice(8, 1, -3)}),
    ("basic", {"y": slice(5, 2)}),
    ("basic", {"x": slice(1, None, 4)}),
    ("outer", {"y": [5, 1, 1], "x": slice(None, None, -2)}),
    ("outer", {"time": [3, 0], "y": 2, "x": [9, 8, 0]}),
    ("outer", {"time": []}),
    ("outer", {"y": np.arange(8) % 2 == 0}),
    ("points", {"y": POINTS, "x": POINTS}),
    ("points", {"y": POINTS, "x": POINTS + 1, "time": slice(4, None, -2)}),
    ("points", {"time": xr.DataArray([1, 1], dims="p"), "x": xr.DataArray([0, 9], dims="p"), "y": [3, 2]}),
]


@pytest.mark.parametrize(("kind", "selection"), SELECTIONS)
def test_selections_are_native(
    kind: str, selection: dict[str, Any], monkeypatch: pytest.MonkeyPatch, repository: frazil.Repository
) -> None:
    monkeypatch.setattr("frazil.integrations.xarray.variables.FrazilBackendArray", Watched)
    monkeypatch.setattr(Watched, "calls", [])
    found = opened(repository, group="deep/level1", decode_cf=False)["temp"]
    expected = xr.DataArray(VALUES, dims=("time", "y", "x"))
    np.testing.assert_array_equal(found.isel(selection).values, expected.isel(selection).values)
    assert set(Watched.calls) <= {kind, "basic"}
    assert kind in Watched.calls


def test_a_selection_of_a_selection(repository: frazil.Repository) -> None:
    found = opened(repository, group="deep/level1")["temp"]
    expected = dataset()["temp"]
    first = {"y": slice(None, None, -1), "x": [7, 3, 2, 9]}
    xr.testing.assert_identical(
        found.isel(first).isel(x=slice(None, None, -2), y=[0, 5]),
        expected.isel(first).isel(x=slice(None, None, -2), y=[0, 5]),
    )
    xr.testing.assert_identical(found.sel(time="2026-01-03"), expected.sel(time="2026-01-03"))


def test_opening_reads_no_chunk(repository: frazil.Repository) -> None:
    found = opened(repository, group="deep/level1")
    assert not found["temp"].variable._in_memory
    assert not found["name"].variable._in_memory
    assert found["time"].variable._in_memory  # as an index


def test_chunks_of_dask_are_shards(repository: frazil.Repository) -> None:
    found = opened(repository, group="deep/level1", chunks={})
    assert found["temp"].encoding["preferred_chunks"] == {"time": 4, "y": 8, "x": 10}
    assert found["temp"].chunks == ((4, 2), (8,), (10,))
    assert found["temp"].encoding["chunks"] == (2, 8, 5)
    assert opened(repository, group="deep/level1", chunks="auto")["temp"].chunks == ((6,), (8,), (10,))
    xr.testing.assert_identical(found.compute(), dataset())


def test_names_of_tasks_are_those_of_the_snapshot(repository: frazil.Repository, tmp_path: Path) -> None:
    def name(location: Any, group: str | None = "deep/level1") -> str:
        found: str = opened(location, group=group, chunks={})["temp"].data.name
        return found

    first = name(repository.readonly_session("main"))
    again = frazil.Repository.open(tmp_path / "sea.repo", durable=False)
    assert name(again.readonly_session("main")) == first
    root = name(repository.readonly_session("main").root)
    assert name(repository.readonly_session("main").root) == root
    with repository.transaction("main", message="second") as group:
        temp = group["deep/level1/temp"]
        assert isinstance(temp, frazil.Array)
        temp[0] = 1
    assert name(repository.readonly_session("main")) != first
    assert name(repository.readonly_session("main").root) != root
    assert name(repository.readonly_session(tag="v1")) == first


def test_lazy_datasets_pickle(repository: frazil.Repository) -> None:
    found = opened(repository, group="deep/level1")
    xr.testing.assert_identical(pickle.loads(pickle.dumps(found)), dataset())
    lazy = opened(repository, group="deep/level1", chunks={})
    xr.testing.assert_identical(pickle.loads(pickle.dumps(lazy)), dataset())


def test_processes_of_dask_read(repository: frazil.Repository) -> None:
    lazy = opened(repository, group="deep/level1", chunks={})
    assert float(lazy["temp"].sum().compute(scheduler="processes", num_workers=2)) == pytest.approx(VALUES.sum())


def test_a_tree(repository: frazil.Repository) -> None:
    tree = xr.open_datatree(repository, engine="frazil", chunks={})  # type: ignore[arg-type]
    xr.testing.assert_identical(tree["deep/level1"].to_dataset(), dataset())
    assert set(xr.open_groups(repository, engine="frazil")) == {"/", "/deep", "/deep/level1"}  # type: ignore[arg-type]
    assert set(xr.open_groups(repository, engine="frazil", group="deep")) == {".", "level1"}  # type: ignore[arg-type]
    assert set(xr.open_groups(repository, engine="frazil", group="/")) == {".", "deep", "deep/level1"}  # type: ignore[arg-type]


def test_arguments_of_the_zarr_engine() -> None:
    """They raised a TypeError."""
    both: dict[str, bytes] = {}  # as after a migration that keeps the documents of Zarr v2
    for zarr_format in (2, 3):
        held: dict[str, bytes] = {}
        xr.Dataset({"a": ("x", [zarr_format])}).frazil.write(held, zarr_format=zarr_format)
        both |= held
        for place in (held, frazil.open_group(held)):
            found = opened(place, zarr_format=zarr_format, mode="r", cache_members=False)
            assert found["a"].item() == zarr_format
            tree = xr.open_datatree(place, engine="frazil", zarr_format=zarr_format, mode="r+")  # type: ignore[arg-type]
            assert tree["a"].item() == zarr_format
            with pytest.raises((InvalidInputError, NotFoundError), match=r"is there, not of|no array or group"):
                opened(place, zarr_format=5 - zarr_format)
    assert [opened(both, zarr_format=chosen)["a"].item() for chosen in (2, 3, None)] == [2, 3, 3]
    with pytest.raises(InvalidInputError, match=r"opened for reading.*frazil\.write"):
        opened(both, mode="a")


def test_arrays_without_names_of_dimensions() -> None:
    group = frazil.create_group(MemoryStore())
    group.create_array("a", shape=(2, 3), dtype="i4")
    group.create_array("b", shape=(), dtype="i4")
    with pytest.raises(KeyError, match="required for xarray to determine variable dimensions"):
        opened(group)
    assert set(opened(group, drop_variables="a")) == {"b"}


def test_other_dialects_have_names_in_attributes() -> None:
    group = frazil.create_group(MemoryStore(), zarr_format="draft", attributes={"title": "t", "_ncproperties": 1})
    group.create_array(
        "a", data=np.arange(3.0), fill_value=1, attributes={"_ARRAY_DIMENSIONS": ["x"], "_nczarr": {}, "units": "m"}
    )
    found = opened(group)
    assert found["a"].dims == ("x",)
    assert found["a"].attrs == {"units": "m"}
    assert found.attrs == {"title": "t"}
    np.testing.assert_array_equal(found["a"], [0, np.nan, 2])
    np.testing.assert_array_equal(opened(group, use_zarr_fill_value_as_mask=False)["a"], [0, 1, 2])


def test_variables_that_cannot_be_read_may_be_left_out() -> None:
    store = MemoryStore()
    dataset().frazil.write(store, group="g")
    document = store.get("g/mask/zarr.json")
    assert document is not None
    store.set("g/mask/zarr.json", json.dumps({**json.loads(document), "data_type": "unheard-of"}).encode())
    with pytest.raises((InvalidInputError, MetadataError), match="drop_variables"):
        opened(store, group="g")
    with pytest.raises((InvalidInputError, MetadataError)):
        opened(store, group="g", drop_variables=["temp"])
    expected = dataset().drop_vars("mask")
    xr.testing.assert_identical(opened(store, group="g", drop_variables=["mask"]), expected)
    tree = xr.open_datatree(store, engine="frazil", drop_variables=["mask"])  # type: ignore[arg-type]
    xr.testing.assert_identical(tree["g"].to_dataset(), expected)


@pytest.mark.parametrize(
    ("dtype", "stored", "value"),
    [
        ("f4", "AAAAAAAA+H8=", np.nan),
        ("f8", -999.0, -999.0),
        ("f8", "NaN", np.nan),
        ("i2", -1, -1),
        ("S3", "YWI=", b"ab"),
        ("U3", "ab", "ab"),
        pytest.param(
            *("c8", ["AAAAAAAA8D8=", "AAAAAAAAAEA="], 1 + 2j),
            marks=pytest.mark.skipif(OLD_XARRAY, reason="xarray 2025.9 decodes no complex fill values"),
        ),
    ],
)
def test_forms_of_fill_values(dtype: str, stored: object, value: object) -> None:
    group = frazil.create_group(MemoryStore())
    group.create_array("a", shape=3, dtype=dtype, dimension_names=["x"], attributes={"_FillValue": stored})
    found = opened(group, mask_and_scale=False)["a"].attrs["_FillValue"]
    np.testing.assert_equal(found, value)


def test_an_invalid_fill_value() -> None:
    group = frazil.create_group(MemoryStore())
    group.create_array("a", shape=3, dtype="f4", dimension_names=["x"], attributes={"_FillValue": "what?"})
    with pytest.raises(MetadataError, match="not a fill value of float32"):
        opened(group)


async def _loaded(found: xr.Dataset) -> xr.Dataset:
    return await found.load_async()


@pytest.mark.skipif(OLD_XARRAY, reason="xarray 2025.9 loads no variables that it decodes in coroutines")
def test_loading_from_a_coroutine(repository: frazil.Repository) -> None:
    import asyncio

    xr.testing.assert_identical(asyncio.run(_loaded(opened(repository, group="deep/level1"))), dataset())


def test_frazil_does_not_import_xarray() -> None:
    import subprocess
    import sys

    code = "import frazil, sys; print('xarray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"


def test_virtual_chunks_of_allowed_places(tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    ds = xr.Dataset({"v": ("n", np.arange(6.0))})
    ds.to_netcdf(tmp_path / "v.nc", format="NETCDF3_CLASSIC", engine="netcdf4")
    location = tmp_path / "a.repo"
    frazil.import_file(tmp_path / "v.nc", location, "virtual")
    allowed = [tmp_path.resolve().as_uri() + "/"]
    for name in (location, f"{location}@main"):
        assert xr.open_dataset(name, engine="frazil", virtual_prefixes=allowed).identical(ds)
        assert xr.open_datatree(name, engine="frazil", virtual_prefixes=allowed).dataset.identical(ds)
    with pytest.raises(InvalidInputError, match="virtual_prefixes"):
        xr.open_dataset(location, engine="frazil").load()
    with pytest.raises(InvalidInputError, match="virtual_prefixes"):
        xr.open_dataset(frazil.Repository.open(location), engine="frazil", virtual_prefixes=allowed)
