"""ds.frazil.write: into folders, sessions and branches; how xarray's own engine reads the result, and refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from tests.integrations.versions import OLD_ZARR
from tests.servers.buckets import S3

import frazil
import frazil.xarray
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
)
from frazil.stores import MemoryStore

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:xarray")
NO_TEXT = pytest.mark.skipif(OLD_ZARR, reason="zarr-python 3.0 has no data types of text and bytes of fixed length")


def dataset() -> xr.Dataset:
    times = np.arange("2026-01-01", "2026-01-07", dtype="datetime64[D]").astype("datetime64[ns]")
    return xr.Dataset(
        {
            "temp": (("time", "y", "x"), np.arange(480.0).reshape(6, 8, 10), {"units": "K", "missing_value": np.nan}),
            "flag": ((), True),
        },
        {"time": times, "name": ("x", list("abcdefghij")), "x": np.arange(10)},
        {"title": "sea", "limits": [0.5, np.inf]},
    )


def opened(location: Any, engine: str = "frazil", **options: Any) -> xr.Dataset:
    if engine == "zarr":
        pytest.importorskip("zarr")
        options["consolidated"] = False
    found: xr.Dataset = xr.open_dataset(location, engine=engine, **options)
    return found


def same(one: xr.Dataset, other: xr.Dataset) -> None:
    def plain(found: xr.Dataset) -> xr.Dataset:
        found = found.load().copy()
        for variable in found.variables.values():
            variable.attrs.pop("missing_value", None)
        return found

    xr.testing.assert_identical(plain(one), plain(other))


@NO_TEXT
def test_both_engines_read_what_either_wrote(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    written = dataset()
    written["raw"] = ("x", np.array([b"ab", b"c"] * 5))
    written["masked"] = ("x", np.arange(10, dtype="i2"), {}, {"_FillValue": 3})
    written["packed"] = ("x", np.linspace(0, 1, 10), {}, {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -1})
    written["wave"] = ("x", np.arange(10) * (1 + 2j))
    written.attrs |= {"word": "NaN", "parts": ["-Infinity", math.nan]}
    written.frazil.write(tmp_path / "ours.zarr")
    written.to_zarr(tmp_path / "theirs.zarr", zarr_format=3)
    for location in ("ours.zarr", "theirs.zarr"):
        ours, theirs = opened(tmp_path / location), opened(str(tmp_path / location), "zarr")
        same(ours, theirs)
        for name, variable in theirs.variables.items():
            mine = ours[name].variable.encoding
            assert {key: mine[key] for key in ("chunks", "shards", "preferred_chunks")} == {
                key: variable.encoding[key] for key in ("chunks", "shards", "preferred_chunks")
            }
            np.testing.assert_equal(mine.get("_FillValue"), variable.encoding.get("_FillValue"))
            np.testing.assert_equal(mine.get("fill_value"), variable.encoding.get("fill_value"))
    opened(tmp_path / "ours.zarr").to_zarr(
        tmp_path / "again.zarr", zarr_format=3
    )  # the encoding of each fits the other
    opened(str(tmp_path / "theirs.zarr"), "zarr").frazil.write(tmp_path / "anew.zarr")
    same(opened(tmp_path / "again.zarr"), opened(tmp_path / "anew.zarr"))


def test_numbers_that_json_has_not(tmp_path: Path) -> None:
    written = dataset().assign_attrs(word="Infinity")
    written.frazil.write(tmp_path / "sea.zarr")
    found = opened(tmp_path / "sea.zarr")
    assert found.attrs == written.attrs
    opened(tmp_path / "sea.zarr")[["temp"]].frazil.write(tmp_path / "sea.zarr", mode="a")
    assert opened(tmp_path / "sea.zarr").attrs == written.attrs
    document = json.loads((tmp_path / "sea.zarr" / "zarr.json").read_text())
    assert document["attributes"]["limits"] == [0.5, math.inf]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_branch_gets_one_commit(tmp_path: Path, lazy: bool) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    source = dataset().chunk({"time": 2}) if lazy else dataset()
    before = len(list(repo.history("main")))
    snapshot = source.frazil.write(f"{tmp_path}/sea.repo@main", group="a/b", message="all of it")
    assert [commit.message for commit in repo.history("main")][: len(list(repo.history("main"))) - before] == [
        "all of it"
    ]
    assert repo.lookup("main") == snapshot
    same(opened(repo, group="a/b"), dataset())
    assert dataset().frazil.write(repo, mode="a") == repo.lookup("main")
    with pytest.raises(InvalidInputError, match="written on a branch"):
        dataset().frazil.write(tmp_path / "sea.repo")
    with pytest.raises(InvalidInputError, match="combined with a commit"):
        source.frazil.write(repo, mode="a", compute=False)


class Broken(Exception):
    pass


def _break(block: Any) -> Any:
    raise Broken


def test_a_branch_stays_as_it_is_where_the_computation_fails(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    tip = repo.lookup("main")
    lazy = xr.Dataset(
        {
            "a": ("x", da.ones(10, chunks=5)),
            "b": ("x", da.ones(10, chunks=5).map_blocks(_break, dtype=float, meta=np.empty(0))),
        }
    )
    with pytest.raises(Broken):
        lazy.frazil.write(repo)
    assert repo.lookup("main") == tip


def test_a_write_that_fails_on_a_branch_leaves_no_chunk_files() -> None:
    """Neither if it fails before the commit, nor if others changed the same."""
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    random = np.random.default_rng(0)
    large = xr.Dataset({name: ("x", random.random(1_000_000)) for name in "ab"})
    large[["a"]].frazil.write(repo, chunks={"x": 250_000})
    before = store.list()

    def fail(count: int) -> None:
        raise Broken

    with pytest.raises(Broken):
        (large + 1).frazil.write(repo, mode="a", progress=fail)
    assert store.list() == before

    def meddle(count: int) -> None:
        with repo.transaction(message="theirs") as root:
            root["a"].resize(5)
            root["a"][...] = 7

    with pytest.raises(ConflictError):
        (large[["a"]] + 1).frazil.write(repo, mode="a", progress=meddle)
    assert [key for key in store.list() if key.startswith("chunks/")] == [key for key in before if "chunks/" in key]


def test_a_session_has_the_changes() -> None:
    repo = frazil.Repository.create(MemoryStore())
    session = repo.writable_session("main")
    dataset().frazil.write(session)
    later = dataset().chunk({"time": 3}).frazil.write(session, group="lazy", compute=False)
    assert np.isnan(opened(session, group="lazy")["temp"]).all()
    session.merge(later.compute(scheduler="threads"))
    same(opened(session), dataset())
    same(opened(session, group="lazy"), dataset())
    with pytest.raises(NotFoundError):
        opened(repo, group="lazy")
    session.commit("both")
    same(opened(repo, group="lazy"), dataset())
    with pytest.raises(ReadOnlyError):
        dataset().frazil.write(repo.readonly_session("main"), group="other")
    with pytest.raises(InvalidInputError, match="message"):
        dataset().frazil.write(session, group="other", message="no")


def test_a_group_is_a_target(tmp_path: Path) -> None:
    group = frazil.create_group(tmp_path / "sea.zarr").create_group("a")
    dataset().frazil.write(group, group="b")
    same(opened(tmp_path / "sea.zarr", group="a/b"), dataset())
    with pytest.raises(AlreadyExistsError):
        dataset().frazil.write(group)
    dataset().frazil.write(group.create_group("empty"))
    same(opened(group["empty"]), dataset())
    with pytest.raises(ReadOnlyError):
        dataset().frazil.write(frazil.open_group(tmp_path / "sea.zarr"), mode="a")


def test_append_and_region(tmp_path: Path) -> None:
    location = tmp_path / "sea.zarr"
    whole = dataset().drop_vars("flag")
    whole.isel(time=slice(0, 2)).frazil.write(location, chunks={"time": 1}, shards={"time": 4})
    whole.isel(time=slice(2, 5)).chunk({"time": 2}).frazil.write(location, append_dim="time", align_chunks=True)
    whole.isel(time=[5]).frazil.write(location, append_dim="time")
    same(opened(location), whole)
    part = whole[["temp"]].isel(time=slice(1, 4), x=slice(3, 7)) * -1
    part.drop_vars("name", errors="ignore").frazil.write(location, region="auto", mode="a")
    expected = whole.copy(deep=True)
    expected["temp"][1:4, :, 3:7] *= -1
    same(opened(location), expected)
    with pytest.raises(KeyError):
        part.assign_coords(x=np.arange(90, 94)).drop_vars("name").frazil.write(location, region="auto")


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_each_shard_is_written_by_one_task(tmp_path: Path, scheduler: str) -> None:
    """Chunks of dask of 3 rows, shards of 4: rechunked if layout is given, refused if the shards are in the encoding, and also correct without the check."""
    values = np.random.default_rng(3).normal(size=(50, 40))
    lazy = xr.Dataset({"a": (("y", "x"), da.from_array(values, chunks=(3, 7)))})
    encoding = {"a": {"chunks": (2, 2), "shards": (4, 4)}}
    import dask

    with dask.config.set(scheduler=scheduler):
        lazy.frazil.write(tmp_path / "1.zarr", chunks=2, shards=4)
        with pytest.raises(InvalidInputError, match=r"overlap.*align_chunks=True"):
            lazy.frazil.write(tmp_path / "2.zarr", encoding=encoding)
        assert not (tmp_path / "2.zarr").exists()
        lazy.frazil.write(tmp_path / "3.zarr", encoding=encoding, safe_chunks=False)
        lazy.frazil.write(tmp_path / "4.zarr", encoding=encoding, align_chunks=True)
    for name in "134":
        array = frazil.open(tmp_path / f"{name}.zarr")["a"]  # type: ignore[index]
        assert (array.chunks, array.shards) == ((2, 2), (4, 4))
        np.testing.assert_array_equal(array[:], values)


@pytest.mark.parametrize(
    ("chunks", "shards", "expected"),
    [
        (None, None, ((6, 8, 10), None)),
        ({"time": 2}, None, ((2, 8, 10), None)),
        ({"time": 1, "x": 5}, {"time": 3}, ((1, 8, 5), (3, 8, 10))),
        (2, 4, ((2, 2, 2), (4, 4, 4))),
        ({"x": 3}, {"time": 6}, ((6, 8, 3), (6, 8, 12))),
        ("auto", None, ((6, 8, 10), None)),
        (None, {"time": 100}, ((100, 8, 10), None)),
    ],
)
def test_layouts(chunks: Any, shards: Any, expected: Any) -> None:
    store = MemoryStore()
    dataset().frazil.write(store, chunks=chunks, shards=shards)
    array = frazil.open(store)["temp"]  # type: ignore[index]
    assert (array.chunks, array.shards) == expected
    same(opened(store), dataset())


def test_shards_alone_are_cut_into_chunks() -> None:
    store = MemoryStore()
    xr.Dataset({"a": (("t", "x"), np.zeros((300, 4096)))}).frazil.write(store, shards={"t": 100})
    array = frazil.open(store)["a"]  # type: ignore[index]
    assert array.shards == (100, 4096)
    assert np.prod(array.chunks) * 8 <= 2**20


@pytest.mark.parametrize(
    "layout", [{"chunks": 0}, {"shards": {"x": -1}}, {"chunks": "big"}, {"shards": {"x": 2.5}}, {"chunks": True}]
)
def test_invalid_layouts_are_refused(layout: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="must give extents"):
        dataset().frazil.write(MemoryStore(), **layout)


def test_errors_name_the_variable() -> None:
    wrong: list[tuple[Any, str]] = [
        (np.array(["a", "b"], dtype=object), "not Unicode text"),
        (np.zeros(2, np.longdouble), "no registered data type"),
    ]
    for values, reason in wrong:
        store = MemoryStore()
        odd = xr.Dataset({"fine": ("x", [1, 2]), "odd": ("x", values)})
        if values.dtype == object:
            odd["odd"].data[1] = "\ud800"  # xarray itself does not accept it if pandas has pyarrow
        with pytest.raises(FrazilError, match=f"variable 'odd'.*{reason}"):
            odd.frazil.write(store)


def test_bad_input_changes_nothing(tmp_path: Path) -> None:
    location = tmp_path / "sea.zarr"
    dataset().frazil.write(location)
    bad: list[dict[str, Any]] = [
        {"mode": "x"},
        {"mode": "w", "append_dim": "time"},
        {"mode": "a", "encoding": {"temp": {"chunks": (1, 1, 1)}}},
        {"append_dim": "depth"},
        {"region": {"depth": slice(1)}},
        {"mode": "w", "encoding": {"temp": {"unheard": 1}}},
    ]
    for arguments in bad:
        with pytest.raises(ValueError):
            dataset().frazil.write(location, **arguments)
        same(opened(location), dataset())
    with pytest.raises(AlreadyExistsError):
        dataset().frazil.write(location)


def test_codecs_of_an_encoding(tmp_path: Path) -> None:
    forms: list[Any] = [frazil.codecs.Gzip(3), {"name": "gzip", "configuration": {"level": 3}}, [frazil.codecs.Gzip(3)]]
    for number, form in enumerate(forms):
        location = tmp_path / f"{number}.zarr"
        dataset().frazil.write(location, encoding={"temp": {"compressors": form}})
        assert frazil.open(location)["temp"].codecs[1:] == (frazil.codecs.Gzip(3),)  # type: ignore[index]
        again = MemoryStore()
        opened(location).frazil.write(again)
        assert frazil.open(again)["temp"].codecs[1:] == (frazil.codecs.Gzip(3),)  # type: ignore[index]
    blosc = frazil.codecs.Blosc("lz4", 5, "shuffle")  # it gets its typesize from the array
    dataset().frazil.write(tmp_path / "blosc.zarr", encoding={"temp": {"compressors": blosc}})
    assert frazil.open(tmp_path / "blosc.zarr")["temp"].codecs[1].typesize == 8  # type: ignore[index, union-attr]
    dataset().frazil.write(tmp_path / "raw.zarr", encoding={"temp": {"compressors": None}})
    assert len(frazil.open(tmp_path / "raw.zarr")["temp"].codecs) == 1  # type: ignore[index]


@pytest.mark.parametrize("name", [None, "temp", "x"])
def test_a_data_array(tmp_path: Path, name: str | None) -> None:
    pytest.importorskip("zarr")
    array = xr.DataArray(np.arange(3.0), dims="x", name=name, coords={"y": ("x", [1, 2, 3])})
    array.frazil.write(tmp_path / "a.zarr")
    xr.testing.assert_identical(xr.open_dataarray(tmp_path / "a.zarr", engine="frazil"), array)
    xr.testing.assert_identical(xr.open_dataarray(tmp_path / "a.zarr", engine="zarr", consolidated=False), array)


def test_a_tree_is_one_commit(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    tree = xr.DataTree.from_dict(
        {"/": dataset(), "/a": dataset()[["temp"]].chunk({"y": 3}), "/a/b": xr.Dataset(attrs={"n": 1})}
    )
    snapshot = tree.frazil.write(repo, group="trees/one")
    assert repo.lookup("main") == snapshot
    found = xr.open_datatree(repo, engine="frazil", group="trees/one")  # type: ignore[arg-type]
    assert list(found.groups) == list(tree.groups)
    for path in tree.groups:
        same(found[path].to_dataset(), tree[path].to_dataset())
    with pytest.raises(InvalidInputError, match="unexpected encoding group"):
        tree.frazil.write(repo, mode="w", encoding={"/c": {}})


def test_progress() -> None:
    reports: list[int] = []
    dataset().chunk({"time": 2}).frazil.write(MemoryStore(), progress=reports.append)
    assert sum(reports) == sum(
        np.asarray(variable).nbytes for variable in opened(_written(), decode_cf=False).variables.values()
    )


def _written() -> MemoryStore:
    store = MemoryStore()
    dataset().frazil.write(store)
    return store


@pytest.mark.parametrize("engine", ["frazil", pytest.param("zarr", marks=NO_TEXT)])
def test_data_is_not_removed_before_it_is_read(engine: str, tmp_path: Path) -> None:
    location = tmp_path / "a.zarr"
    dataset().frazil.write(location)
    before, lazy = opened(location).load(), opened(location, engine, chunks={})
    with pytest.raises(InvalidInputError, match="inside the other"):
        (lazy[["temp"]] * 2).frazil.write(location, mode="w")
    assert opened(location).identical(before)
    lazy.load().frazil.write(location, mode="w")
    assert opened(location).identical(before)


def test_consolidated_metadata_on_request(tmp_path: Path) -> None:
    dataset().frazil.write(tmp_path / "a.zarr", group="g", consolidated=True)
    assert len(frazil.open_consolidated(tmp_path / "a.zarr", path="g")) == len(dataset().variables)
    repo = frazil.Repository.create(tmp_path / "a.repo")
    for location in (repo, repo.writable_session(), tmp_path / "a.repo@main"):
        with pytest.raises(InvalidInputError, match="consolidated"):
            dataset().frazil.write(location, consolidated=True)
    assert len(list(repo.history())) == 1


def test_a_data_array_without_a_name_is_read_from_either_engine(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    array = xr.DataArray(np.arange(6.0), dims="x", attrs={"units": "K"})
    array.to_zarr(tmp_path / "theirs.zarr")
    array.frazil.write(tmp_path / "ours.zarr")
    for location in ("theirs.zarr", "ours.zarr"):
        for engine in ("frazil", "zarr"):
            found: Any = xr.open_dataarray(str(tmp_path / location), engine=engine, consolidated=False)
            xr.testing.assert_identical(found, array)
    with pytest.raises(InvalidInputError, match="reserved"):
        xr.Dataset({"__other": array}).frazil.write(tmp_path / "other.zarr")


def test_new_variables_in_zarr_v2(tmp_path: Path) -> None:
    """There the fill value marks missing values, so it is null if nothing marks them: a fill value of 0 would mark zeros."""
    location = tmp_path / "sea.zarr"
    old = xr.Dataset({"old": (("x", "y"), np.arange(6.0).reshape(2, 3))})
    frazil.create_group(location, zarr_format=2)
    old.frazil.write(location, mode="a")
    new = xr.Dataset(
        {
            "float": (("x", "y"), np.array([[0, np.nan, 2], [3, 4, 5]])),
            "plain": (("x", "y"), np.array([[0, np.nan, 2], [3, 4, 5]]), {}, {"_FillValue": None}),
            "zero": ("x", np.array([0, 1])),
            "packed": ("x", np.array([0.5, np.nan]), {"units": "K"}, {"dtype": "i2", "_FillValue": 0, "scale_factor": 0.5}),
            "fixed": ("x", np.array(["a", "bcd"])),
            "text": ("x", np.array(["", "bcd"], dtype=object)),
            "bytes": ("x", np.array([b"a", b"bcd"])),
            "time": ("x", np.array(["2026-01-01", "NaT"], dtype="datetime64[ns]")),
        }
    )  # fmt: skip
    new.frazil.write(location, mode="a")
    theirs, ours = opened(location, "zarr").load(), opened(location).load()
    assert {node.metadata.zarr_format for _, node in frazil.open_group(location).members()} == {2}
    xr.testing.assert_equal(ours, xr.merge([old, new]))
    xr.testing.assert_identical(ours, theirs)
    assert not any("_FillValue" in variable.attrs for variable in ours.variables.values())
    again = ours.drop_encoding()
    again.frazil.write(location, mode="a")
    xr.testing.assert_equal(opened(location).load(), again)


@pytest.mark.parametrize("mode", ["w-", "w", "a"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_format_of_a_new_group(tmp_path: Path, mode: Any, zarr_format: Any) -> None:
    data = dataset().drop_vars("name")
    data.frazil.write(tmp_path / "sea.zarr", mode=mode, zarr_format=zarr_format)
    assert frazil.open_group(tmp_path / "sea.zarr").metadata.zarr_format == zarr_format
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "sea.zarr", engine="frazil").load(), data)
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "sea.zarr", engine="zarr", consolidated=False).load(), data)
    tree = xr.DataTree.from_dict({"/": data, "/deep": data})
    tree.frazil.write(tmp_path / "tree.zarr", mode=mode, zarr_format=zarr_format)
    members = frazil.open_group(tmp_path / "tree.zarr").members(max_depth=None)
    assert {node.metadata.zarr_format for _, node in members} == {zarr_format}


def test_the_format_of_an_existing_group_stays(tmp_path: Path) -> None:
    data = dataset().drop_vars("name")
    data.frazil.write(tmp_path / "sea.zarr", zarr_format=2)
    data.frazil.write(tmp_path / "sea.zarr", append_dim="time", zarr_format=2)
    region = {"time": slice(0, 6)}
    for arguments in ({"mode": "a"}, {"append_dim": "time"}, {"region": region}):
        with pytest.raises(InvalidInputError, match="the group has the format 2"):
            data.frazil.write(tmp_path / "sea.zarr", zarr_format=3, **arguments)
    assert xr.open_dataset(tmp_path / "sea.zarr", engine="frazil").sizes["time"] == 12
    frazil.Repository.create(tmp_path / "sea.repo")
    with pytest.raises(InvalidInputError, match="a repository holds Zarr v3"):
        data.frazil.write(f"{tmp_path}/sea.repo@main", zarr_format=2)


def test_new_variables_of_the_draft_are_refused(tmp_path: Path) -> None:
    group = frazil.create_group(tmp_path / "sea.zarr", zarr_format="draft")
    with pytest.raises(InvalidInputError, match="Zarr v3 or v2"):
        dataset().frazil.write(group, mode="a")
    assert not list(group)


def test_storage_options(s3: S3) -> None:
    given = s3.environment()
    options = {
        "key": given["AWS_ACCESS_KEY_ID"], "secret": given["AWS_SECRET_ACCESS_KEY"], "endpoint_url": given["AWS_ENDPOINT_URL"]
    }  # fmt: skip
    location = s3.url(prefix="sea.zarr")
    dataset().frazil.write(location, storage_options=options)
    found = opened(location, storage_options=options)
    xr.testing.assert_identical(found.load().drop_attrs(), dataset().drop_attrs())
    trees = xr.open_datatree(location, engine="frazil", storage_options=options)
    assert set(trees.variables) == set(dataset().variables)
    with pytest.raises(InvalidInputError, match="storage_options"):
        opened("sea.zarr", storage_options=options)


def test_dask_arrays_of_an_index_and_of_numpy_wrapped_by_xarray(tmp_path: Path) -> None:
    """Their graphs contain wrappers of xarray around objects without a truth value."""
    times = xr.date_range("2026-01-01", periods=12, freq="6h")
    plain = xr.Dataset({"x": ("time", np.arange(12.0))}, {"time": times, "month": ("time", times.month)})
    lazy = plain.chunk(time=4)
    wrapped = xr.core.indexing.ImplicitToExplicitIndexingAdapter(xr.core.indexing.NumpyIndexingAdapter(np.arange(12)))
    lazy["y"] = ("time", da.from_array(wrapped, chunks=4))
    plain["y"] = ("time", np.arange(12))
    lazy.frazil.write(tmp_path / "a.zarr", mode="w")
    same(opened(tmp_path / "a.zarr"), plain)


def test_the_target_by_the_name_that_to_zarr_has(tmp_path: Path) -> None:
    written = xr.Dataset({"a": ("x", [1, 2])})
    for data, name in ((written, "dataset"), (written["a"], "array"), (xr.DataTree(written), "tree")):
        data.frazil.write(store=tmp_path / name, mode="w")
        assert xr.open_dataset(tmp_path / name, engine="frazil")["a"].values.tolist() == [1, 2]
        with pytest.raises(InvalidInputError, match="given twice"):
            data.frazil.write(tmp_path / name, store=tmp_path / name, mode="w")
        with pytest.raises(InvalidInputError, match="no location"):
            data.frazil.write(mode="w")


def test_the_first_write_of_a_loop_has_nothing_to_append_to(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="first write"):
        xr.Dataset({"a": ("x", [1, 2])}).frazil.write(tmp_path / "new.zarr", append_dim="x")
    assert not (tmp_path / "new.zarr").exists()
