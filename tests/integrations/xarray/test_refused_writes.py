"""Writes that ds.frazil.write and tree.frazil.write refuse: nothing is created, changed or replaced."""

from __future__ import annotations

import signal
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import frazil
import frazil.xarray
from frazil.errors import AlreadyExistsError, ConflictError, FrazilError, InvalidInputError, NotFoundError, StoreError
from frazil.stores import MemoryStore


@pytest.mark.parametrize(
    ("name", "attributes", "options"),
    [
        ("t", {}, {"encoding": {"t": {"compressors": 5}}}),
        ("t", {}, {"encoding": {"t": {"compressors": [{"name": "nowhere", "configuration": {}}]}}}),
        ("t", {}, {"encoding": {"t": {"fill_value": "x"}}}),
        ("t", {}, {"chunks": {"time": 2}, "shards": {"time": 5}}),
        ("__x", {}, {}),
        ("x.__lock", {}, {}),
        ("x" * 300, {}, {}),
        ("t", {"a": object()}, {}),
    ],
)
def test_refused_writes_replace_nothing(
    name: str, attributes: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    """The old dataset was removed before the new one was checked."""
    old = xr.Dataset({"t": (("time", "x"), np.arange(24.0).reshape(6, 4))})
    old.frazil.write(tmp_path / "a")
    for new in (old.rename(t=name).assign_attrs(attributes), old.rename(t=name)):
        new[name].attrs = attributes
        with pytest.raises((ValueError, TypeError, FrazilError)):
            new.frazil.write(tmp_path / "a", mode="w", **options)
        xr.testing.assert_identical(xr.open_dataset(tmp_path / "a", engine="frazil"), old)


def test_a_tree_is_checked_whole_before_it_replaces_one(tmp_path: Path) -> None:
    """The root was replaced before the nodes below it were checked."""
    old = xr.Dataset({"t": (("time", "x"), np.arange(24.0).reshape(6, 4))})
    tree = xr.DataTree.from_dict({"/": old, "/b": old + 1})
    tree.frazil.write(tmp_path / "a")
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    bad = xr.DataTree.from_dict({"/": old + 2, "/b": old.assign_attrs(a=object())})
    for mode in ("w", "a"):
        with pytest.raises((ValueError, TypeError)):
            bad.frazil.write(tmp_path / "a", mode=mode)
        assert before == {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    with pytest.raises((ValueError, TypeError)):
        bad.frazil.write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": {"zz": 1}}, "'zz', which is not in the dataset"),
        ({"shards": {"zz": 1}}, "'zz', which is not in the dataset"),
        ({"encoding": {"zz": {}}}, "'zz', which is not in the dataset"),
        ({"encoding": 5}, "mapping"),
        ({"encoding": {"t": 5}}, "castable"),
        ({"encoding": {"t": {"dtype": "nope"}}}, "dtype"),
        ({"encoding": {"t": {"chunks": (0, 4)}}}, "at least 1"),
        ({"group": 5}, "group is 5"),
        ({"compute": 5}, "compute is 5"),
        ({"safe_chunks": "x"}, "safe_chunks is 'x'"),
        ({"align_chunks": 3}, "align_chunks is 3"),
        ({"progress": 5}, "progress is 5"),
        ({"append_dim": "zz"}, "append_dim"),
    ],
)
def test_arguments_that_make_no_sense_create_nothing(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    dataset = xr.Dataset({"t": (("time", "x"), np.arange(24.0).reshape(6, 4))})
    with pytest.raises((InvalidInputError, NotFoundError), match=message):
        dataset.frazil.write(tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_a_chunk_of_minus_one_is_the_whole_dimension(tmp_path: Path) -> None:
    dataset = xr.Dataset({"t": (("time", "x"), np.arange(24.0).reshape(6, 4))})
    dataset.frazil.write(tmp_path / "a", encoding={"t": {"chunks": (-1, 2)}})
    assert frazil.open(tmp_path / "a")["t"].chunks == (6, 2)


def test_the_hint_for_a_group_that_exists_names_modes(tmp_path: Path) -> None:
    dataset = xr.Dataset({"t": ("time", np.arange(6))})
    dataset.frazil.write(tmp_path / "a")
    with pytest.raises(AlreadyExistsError, match='mode="w" replaces'):
        dataset.frazil.write(tmp_path / "a")


def test_a_dimension_without_elements_keeps_its_chunks(tmp_path: Path) -> None:
    empty = xr.Dataset({"t": (("time", "x"), np.zeros((0, 4)))})
    empty.frazil.write(tmp_path / "a", encoding={"t": {"chunks": (100, 4)}})
    empty.frazil.write(tmp_path / "b", chunks={"time": 100})
    empty.frazil.write(tmp_path / "c", encoding={"t": {"chunks": (-1, 4)}})
    found = [frazil.open_array(tmp_path / name / "t").chunks for name in "abc"]
    assert found == [(100, 4), (100, 4), (1, 4)]


def test_encodings_and_regions_of_what_is_not_there(tmp_path: Path) -> None:
    parent = xr.Dataset(coords={"x": ("x", np.arange(4))})
    tree = xr.DataTree.from_dict({"/": parent, "/b": xr.Dataset({"t": ("x", np.arange(4))})})
    with pytest.raises(NotFoundError, match="'x', which is not in the dataset"):
        tree.frazil.write(tmp_path / "a", encoding={"/b": {"x": {"chunks": (2,)}}})
    with pytest.raises(NotFoundError, match="there is no variable 'x'"):
        xr.Dataset({"t": ("x", np.arange(4))}, parent.coords).frazil.write(tmp_path / "a", mode="a", region="auto")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("stored", "region", "text"),
    [
        ({"x": [1, 1, 2, 3]}, "auto", "repeated values"),
        ({"x": 1}, "auto", "0 dimensions"),
        ({"x": [1, 2, 3, 4]}, {"y": "auto"}, "not in Dataset dimensions"),
    ],
)
def test_regions_that_coordinates_do_not_determine(
    tmp_path: Path, stored: dict[str, object], region: object, text: str
) -> None:
    dimension = "x" if isinstance(stored["x"], list) else "y"
    xr.Dataset({"t": (dimension, np.arange(4))}, stored).frazil.write(tmp_path / "a")
    part = xr.Dataset({"t": ("x", np.arange(2))}, {"x": [1, 2]})
    with pytest.raises(InvalidInputError, match=text):
        part.frazil.write(tmp_path / "a", region=region)
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "a" / "t")[:], np.arange(4))


def test_a_region_without_elements_changes_nothing(tmp_path: Path) -> None:
    whole = xr.Dataset({"t": ("x", np.arange(4))}, {"x": [9, 7, 5, 3]})
    whole.frazil.write(tmp_path / "a")
    (whole + 1).isel(x=slice(0)).frazil.write(tmp_path / "a", region="auto")
    assert xr.open_dataset(tmp_path / "a", engine="frazil").identical(whole)


def test_an_empty_group_that_exists_is_no_new_one(tmp_path: Path) -> None:
    """New nodes have its format."""
    frazil.create_group(tmp_path / "a", zarr_format=2)
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"t": ("x", np.arange(4))}), "/b": xr.Dataset({"u": ("y", [1, 2])})})
    tree.frazil.write(tmp_path / "a", mode="a")
    assert {path.name for path in (tmp_path / "a").rglob(".zarray")} == {".zarray"}
    assert not list((tmp_path / "a").rglob("zarr.json"))
    xr.testing.assert_identical(xr.open_datatree(tmp_path / "a", engine="frazil"), tree)


def times(*values: str, calendar: str | None) -> xr.Dataset:
    found = xr.Dataset({"time": ("time", np.array(values, "M8[ns]"))})
    return found if calendar is None else found.convert_calendar(calendar)


@pytest.mark.filterwarnings("ignore:Time:UserWarning")
@pytest.mark.parametrize("calendar", [None, "noleap"])
@pytest.mark.parametrize("options", [{"append_dim": "time"}, {"mode": "a"}, {"mode": "r+"}])
def test_times_that_the_stored_units_cannot_express(
    options: dict[str, Any], calendar: str | None, tmp_path: Path
) -> None:
    """They were written in finer units, and read as other times."""
    days = times("2020-01-01", "2020-01-02", calendar=calendar)
    days.frazil.write(tmp_path / "a")
    # as others write units, which xarray encodes without the hours
    frazil.open_array(tmp_path / "a", "r+", path="time").attrs["units"] = "days since 2020-01-01 00:00:00"
    hours = times("2020-01-03T06", "2020-01-03T07:30", calendar=calendar)
    for later in (hours, hours.reset_index("time").reset_coords("time")):
        with pytest.raises(InvalidInputError, match="has 'days since 2020-01-01 00:00:00'"):
            later.frazil.write(tmp_path / "a", **options)
    assert xr.open_dataset(tmp_path / "a", engine="frazil").equals(days)
    more = times("2020-01-03", "2020-01-04", calendar=calendar)
    more.frazil.write(tmp_path / "a", **options)
    expected = xr.concat([days, more], "time") if "append_dim" in options else more
    assert xr.open_dataset(tmp_path / "a", engine="frazil").equals(expected)


@pytest.mark.filterwarnings("ignore:Time:UserWarning")
def test_durations_that_the_stored_units_cannot_express(tmp_path: Path) -> None:
    """xarray reads durations only where it is asked to, or where they have a dtype."""
    days = xr.Dataset({"v": ("i", np.array([1, 2], "m8[D]").astype("m8[ns]"))})
    days.frazil.write(tmp_path / "a")
    with pytest.raises(InvalidInputError, match="need the units 'hours'"):
        xr.Dataset({"v": ("i", np.array([1, 5], "m8[h]").astype("m8[ns]"))}).frazil.write(tmp_path / "a", mode="r+")
    assert xr.open_dataset(tmp_path / "a", engine="frazil", decode_timedelta=True).equals(days)


def _rows(start: int, stop: int) -> xr.Dataset:
    return xr.Dataset({"a": (("t", "x"), np.ones((stop - start, 2)))}, {"t": np.arange(start, stop)})


@pytest.mark.parametrize(
    ("part", "options", "lengths"),
    [
        (_rows(4, 6), {"append_dim": "t"}, "6 in variable 'a' and 4 in 'b'"),
        (_rows(4, 6).assign(b=("t", [7, 8]), c=("t", [9, 9])), {"append_dim": "t"}, "6 in variable 'a' and 2 in 'c'"),
        (xr.Dataset({"n": ("t", np.ones(9))}), {"mode": "a"}, "4 in variable 'a' and 9 in 'n'"),
        (xr.Dataset({"n": ("t", np.ones(2))}), {"mode": "a", "region": {"t": slice(1, 3)}}, "and 2 in 'n'"),
    ],
)
def test_no_write_gives_a_dimension_two_lengths(
    part: xr.Dataset, options: dict[str, Any], lengths: str, tmp_path: Path
) -> None:
    """The write was done, and then no engine of xarray could open the group."""
    old = _rows(0, 4).assign(b=("t", [1, 2, 3, 4]))
    old.frazil.write(tmp_path / "a")
    with pytest.raises(InvalidInputError, match=lengths):
        part.frazil.write(tmp_path / "a", **options)
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a", engine="frazil"), old)


def test_variables_can_be_added_to_a_group_that_has_two_lengths_already(tmp_path: Path) -> None:
    group = frazil.create_group(tmp_path / "a")
    group.create_array("p", data=np.ones(2), dimension_names=["t"])
    group.create_array("q", data=np.ones(3), dimension_names=["t"])
    group.create_array("unnamed", data=np.ones(3))
    xr.Dataset({"a": ("t", np.ones(2))}).frazil.write(tmp_path / "a", mode="a")
    assert "a" in frazil.open_group(tmp_path / "a")


def test_in_a_session_several_writes_may_append_together(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "r")
    whole = _rows(0, 6).assign(b=("t", [1, 2, 3, 4, 5, 6]))
    session = repo.writable_session()
    whole.isel(t=slice(0, 4)).frazil.write(session)
    _rows(4, 6).frazil.write(session, append_dim="t")
    xr.Dataset({"b": ("t", [5, 6])}).frazil.write(session, append_dim="t")
    session.commit("appended")
    xr.testing.assert_identical(xr.open_dataset(repo.readonly_session(), engine="frazil"), whole)


@pytest.mark.parametrize("options", [{"mode": "w"}, {"mode": "w-"}, {"mode": "a"}, {"group": "b"}])
@pytest.mark.parametrize("kind", ["dataset", "tree"])
def test_a_failed_write_leaves_no_arrays_of_fill_values_in_a_session(options: dict[str, Any], kind: str) -> None:
    """They looked complete. Groups stay."""

    def fails(block: np.ndarray) -> np.ndarray:
        raise OSError("the source is gone")

    lazy = da.ones((4, 4), chunks=2).map_blocks(fails, dtype=float)
    data = xr.Dataset({"n": ("t", np.ones(4)), "a": (("t", "x"), lazy)}, attrs={"title": "sea"})
    written: Any = data if kind == "dataset" else xr.DataTree.from_dict({"/": data, "/below": data})
    session = frazil.Repository.create(MemoryStore()).writable_session()
    if options.get("mode") != "w-":
        session.root.create_group("other")
    with pytest.raises(OSError, match="the source is gone"):
        written.frazil.write(session, **options)
    assert [path for path, node in session.root.members(max_depth=None) if isinstance(node, frazil.Array)] == []
    assert ("other" in session.root) is (options.get("mode") != "w-")


def test_a_failed_write_keeps_the_variables_that_existed(tmp_path: Path) -> None:
    def fails(block: np.ndarray) -> np.ndarray:
        raise OSError("the source is gone")

    old = _rows(0, 4)
    for target in (tmp_path / "a", frazil.Repository.create(tmp_path / "r").writable_session()):
        old.frazil.write(target)
        new = xr.Dataset({"b": ("t", da.ones(4, chunks=2).map_blocks(fails, dtype=float))})
        with pytest.raises(OSError, match="the source is gone"):
            new.frazil.write(target, mode="a")
        found = xr.open_dataset(target, engine="frazil")
        xr.testing.assert_identical(found[list(old.variables)], old)
        assert ("b" in found) is isinstance(target, Path)


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("place", ["folder", "session"])
def test_a_failed_append_gives_arrays_their_lengths_again(place: str, changed: bool, tmp_path: Path) -> None:
    """Unless another writer has changed them meanwhile."""
    target: Any = tmp_path / "a" if place == "folder" else frazil.Repository.create(tmp_path / "r").writable_session()
    old = _rows(0, 4)
    old.frazil.write(target)

    def fails(block: np.ndarray) -> np.ndarray:
        if changed:
            array = frazil.open(target if place == "folder" else target.store, "r+")["a"]  # type: ignore[index]
            array.resize(9, 2)
        raise OSError("the source is gone")

    more = _rows(4, 6)
    more["a"] = ("t", "x"), da.zeros((2, 2)).map_blocks(fails, dtype=float, meta=np.zeros(0))
    with pytest.raises(OSError, match="the source is gone"):
        more.frazil.write(target, append_dim="t")
    found = frazil.open(target if place == "folder" else target.store)
    shapes = {path: node.shape for path, node in found.arrays()}  # type: ignore[union-attr]
    assert shapes == {"a": (9, 2) if changed else (4, 2), "t": (4,)}
    if not changed:
        xr.testing.assert_identical(xr.open_dataset(target, engine="frazil"), old)


@pytest.mark.parametrize("kind", ["dataset", "tree"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_replacement_in_a_session_that_fails_leaves_what_was_there(kind: str, error: type[BaseException]) -> None:
    """The old arrays were removed first, and chunk files of the session with them."""
    session = frazil.Repository.create(MemoryStore()).writable_session()
    old = _rows(0, 200_000).assign_attrs(title="old")  # its chunks are files
    old.frazil.write(session, group="g", chunks={"t": 100_000})
    array = session.root["g/a"]

    def fails(nbytes: int) -> None:
        raise error

    new: Any = _rows(0, 3).chunk(t=1)
    new = new if kind == "dataset" else xr.DataTree.from_dict({"/": new, "/below": new})
    with pytest.raises(error):
        new.frazil.write(session, group="g", mode="w", progress=fails)
    xr.testing.assert_identical(xr.open_dataset(session, group="g", engine="frazil"), old)
    assert isinstance(array, frazil.Array) and array[0, 0] == 1
    new.frazil.write(session, group="g", mode="w")
    assert xr.open_dataset(session, group="g", engine="frazil").sizes["t"] == 3
    session.commit("both")


def _chunk_files(repo: Path) -> int:
    return len(list((repo / "chunks").glob("*")))


def _in_files() -> xr.Dataset:
    """Its chunks do not wait in memory for a commit."""
    return xr.Dataset({"a": (("t", "x"), np.random.default_rng(0).random((200_000, 2)))})


@pytest.mark.parametrize("error", [None, OSError])
def test_a_discarded_session_leaves_no_chunk_files_of_a_replacement(
    error: type[BaseException] | None, tmp_path: Path
) -> None:
    session = frazil.Repository.create(tmp_path / "r").writable_session()

    def fails(nbytes: int) -> None:
        if error:
            raise error

    for mode in ("w-", "w", "w"):
        with pytest.raises(error) if error and mode == "w" else nullcontext():
            _in_files().frazil.write(session, mode=mode, chunks={"t": 100_000}, progress=fails if mode == "w" else None)
    assert _chunk_files(tmp_path / "r")
    session.discard()
    assert not _chunk_files(tmp_path / "r")


def test_chunk_files_of_a_replacement_stay_when_others_refer_to_them(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "r")
    session = repo.writable_session()
    data = _in_files()
    for _ in range(2):
        data.frazil.write(session, mode="w", chunks={"t": 100_000})
    fork = session.fork()
    session.discard()
    xr.testing.assert_identical(xr.open_dataset(fork, engine="frazil"), data)
    for _ in range(2):
        data.frazil.write(session, mode="w", chunks={"t": 100_000})
    session.commit("replaced")
    (data + 1).frazil.write(session, mode="w", chunks={"t": 100_000})
    session.discard()
    xr.testing.assert_identical(xr.open_dataset(repo, engine="frazil"), data)


def test_a_replacement_that_another_thread_disturbs_says_what_to_do(tmp_path: Path) -> None:
    session = frazil.Repository.create(tmp_path / "r").writable_session()
    _rows(0, 4).frazil.write(session)

    def disturbs(nbytes: int) -> None:
        session.root.attrs["a"] = nbytes

    with pytest.raises(ConflictError, match="another thread changed the same") as refused:
        _rows(0, 6).frazil.write(session, mode="w", progress=disturbs)
    assert "worker" not in str(refused.value)
    _rows(0, 6).frazil.write(session, mode="w")
    assert xr.open_dataset(session, engine="frazil").sizes["t"] == 6


def test_a_replacement_may_read_what_it_replaces_in_a_session() -> None:
    session = frazil.Repository.create(MemoryStore()).writable_session()
    _rows(0, 4).frazil.write(session)
    lazy = xr.open_dataset(session, engine="frazil", chunks={})
    (lazy + 1).frazil.write(session, mode="w")
    xr.testing.assert_equal(xr.open_dataset(session, engine="frazil"), _rows(0, 4) + 1)


def test_an_append_that_is_interrupted_while_an_array_grows_is_undone_in_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = frazil.Repository.create(tmp_path / "r").writable_session()
    old = _rows(0, 4)
    old.frazil.write(session)
    resize = frazil.Array._resize

    def interrupted(array: frazil.Array, lengths: tuple[int, ...], expected: tuple[int, ...] | None = None) -> None:
        resize(array, lengths, expected)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(frazil.Array, "_resize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _rows(4, 6).frazil.write(session, append_dim="t")
    xr.testing.assert_identical(xr.open_dataset(session, engine="frazil"), old)


def test_an_append_that_is_interrupted_while_an_array_grows_is_undone_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _rows(0, 4)
    old.frazil.write(tmp_path / "a")
    resize = frazil.Array._resize

    def interrupted(array: frazil.Array, lengths: tuple[int, ...], expected: tuple[int, ...] | None = None) -> None:
        resize(array, lengths, expected)
        monkeypatch.undo()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    monkeypatch.setattr(frazil.Array, "_resize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _rows(4, 6).frazil.write(tmp_path / "a", append_dim="t")
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a", engine="frazil"), old)


def test_an_append_that_could_not_begin_leaves_the_rows_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has appended as many rows at that time."""
    _rows(0, 4).frazil.write(tmp_path / "a")
    theirs = _rows(10, 12) * 7

    def fails(array: frazil.Array, lengths: tuple[int, ...], expected: tuple[int, ...] | None = None) -> None:
        monkeypatch.undo()
        theirs.frazil.write(tmp_path / "a", append_dim="t")
        raise StoreError("the document cannot be read")

    monkeypatch.setattr(frazil.Array, "_resize", fails)
    with pytest.raises(StoreError, match="cannot be read"):
        _rows(4, 6).frazil.write(tmp_path / "a", append_dim="t")
    assert (xr.open_dataset(tmp_path / "a", engine="frazil").isel(t=slice(4, None)) == theirs).all()


@pytest.mark.parametrize("attributes", [{}, {"q": 1}])
def test_a_group_of_a_session_is_replaced(tmp_path: Path, attributes: dict[str, int]) -> None:
    session = frazil.Repository.create(tmp_path / "r").writable_session()
    for start in (0, 4):
        new = _rows(start, start + 4).assign_attrs(attributes)
        new.frazil.write(session, group="g", mode="w")
        xr.testing.assert_identical(xr.open_dataset(session, group="g", engine="frazil"), new)


def test_an_append_that_fails_after_a_rebase_leaves_the_rows_of_others(tmp_path: Path) -> None:
    """Its own growth was given up by the rebase; another commit of the same length has the shape now."""
    repo = frazil.Repository.create(tmp_path / "r")
    _rows(0, 4).frazil.write(repo)
    session = repo.writable_session()
    theirs = _rows(10, 12) * 7

    def fails(nbytes: int) -> None:
        theirs.frazil.write(repo, append_dim="t")
        session.rebase("theirs")
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        _rows(4, 6).frazil.write(session, append_dim="t", progress=fails)
    expected = xr.open_dataset(repo, engine="frazil")
    assert expected.sizes["t"] == 6
    xr.testing.assert_identical(xr.open_dataset(session, engine="frazil"), expected)


@pytest.mark.parametrize("place", ["session", "branch"])
def test_no_write_into_a_repository_gives_a_dimension_two_lengths(place: str, tmp_path: Path) -> None:
    """Only an append to a session may, because the session can append the other variables before it commits."""
    repo = frazil.Repository.create(tmp_path / "r")
    old = _rows(0, 4).assign(b=("t", [1, 2, 3, 4]))
    target: Any = repo.writable_session() if place == "session" else f"{tmp_path / 'r'}@main"
    old.frazil.write(target)
    with pytest.raises(InvalidInputError, match="4 in variable 'a' and 9 in 'n'") as refused:
        xr.Dataset({"n": ("t", np.ones(9))}).frazil.write(target, mode="a")
    assert "session" not in str(refused.value)  # which would not help
    if place == "branch":
        with pytest.raises(InvalidInputError, match="6 in variable 'a' and 4 in 'b'"):
            _rows(4, 6).frazil.write(target, append_dim="t")
    xr.testing.assert_identical(xr.open_dataset(target, engine="frazil"), old)
