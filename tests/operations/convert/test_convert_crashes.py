"""Conversions that are killed: at each of their steps, in the middle of one, and at any time. Afterwards the whole hierarchy can be read, and the next run
finishes."""

from __future__ import annotations

import itertools
import os
import select
import shutil
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork, read_pipe
from tests.operations.archives import assert_same
from tests.operations.hierarchies import content, fill

import frazil
from frazil.errors import AlreadyExistsError, ConflictError, FrazilError, NotFoundError
from frazil.operations.convert.convert import convert, prepare
from frazil.operations.convert.hierarchy_keys import JOURNAL_NAME
from frazil.stores import Changed, LocalStore, MemoryStore, Pieces, Store, Version, WrappedStore

FORMATS = (3, "draft", "draft-2021")
PAIRS = list(itertools.permutations(FORMATS, 2))


class Mortal(WrappedStore):
    """Kills its process in the middle of the `step`-th change: the first half of the names is done."""

    __slots__ = ("left",)

    def __init__(self, inner: Store, step: int) -> None:
        super().__init__(inner)
        self.left = step

    def _half(self, names: Sequence[str]) -> int:
        self.left -= 1
        return len(names) if self.left else len(names) // 2

    def _live(self) -> None:
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        half = self._half(names)
        done = self.inner.put_many(names[:half], pieces._replace(offsets=pieces.offsets[: half + 1]), expect[:half])
        self._live()
        return done

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        half = self._half(names)
        done = self.inner.erase_many(names[:half], expect[:half])
        self._live()
        return done

    def copy_in(self, names, source, sources, **options):  # type: ignore[no-untyped-def]
        half = self._half(names)
        sizes = self.inner.copy_in(names[:half], self.inner, sources[:half], **options)
        self._live()
        return sizes


def in_child(act: object) -> bool:
    """Whether the child ended normally."""
    pid = fork(act)  # type: ignore[arg-type]
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == 0


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_killed_at_every_sixth_step_in_place(source: int | str, target: int | str, tmp_path: Path) -> None:
    """At other steps for each pair of dialects; the campaign has all steps."""
    kill_in_place(source, target, tmp_path, 1 + PAIRS.index((source, target)), 6)


@pytest.mark.campaign
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_killed_at_every_step_in_place(source: int | str, target: int | str, tmp_path: Path) -> None:
    seen = kill_in_place(source, target, tmp_path, 1, 1)
    assert seen == {source, target, *([3] if 3 not in (source, target) else [])}


def kill_in_place(source: int | str, target: int | str, tmp_path: Path, first: int, stride: int) -> set[int | str]:
    """Kills the conversion at some steps, and ends it after each. Returns the formats that were found in between."""
    original = fill(LocalStore(tmp_path / "original"), source)
    seen = set[int | str]()
    for step in itertools.count(first, stride):
        location = tmp_path / str(step)
        shutil.copytree(tmp_path / "original", location)
        lived = in_child(partial(convert, Mortal(LocalStore(location), step), zarr_format=target))
        assert_same(original, location)
        now = frazil.open(location).metadata.zarr_format
        seen.add(now)
        if lived:
            assert now == target
            break
        if step // stride % 3 == 0:
            in_child(partial(convert, Mortal(LocalStore(location), step), zarr_format=target))
            assert_same(original, location)
        convert(location, zarr_format=target)
        assert_same(original, location)
        assert frazil.open(location).metadata.zarr_format == target
        keys = LocalStore(location).list()
        assert JOURNAL_NAME not in keys
        tops = {key.partition("/")[0] for key in keys}
        assert tops == ({"meta", "data", "zarr.json"} if target != 3 else tops - {"meta", "data"})
        shutil.rmtree(location)
    assert step > 10
    return seen


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_killed_at_every_second_step_elsewhere(source: int | str, target: int | str, tmp_path: Path) -> None:
    """At the other steps for every second pair of dialects; the campaign has all steps."""
    kill_elsewhere(source, target, tmp_path, 1 + PAIRS.index((source, target)) % 2, 2)


@pytest.mark.campaign
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_killed_at_every_step_elsewhere(source: int | str, target: int | str, tmp_path: Path) -> None:
    kill_elsewhere(source, target, tmp_path, 1, 1)


def kill_elsewhere(source: int | str, target: int | str, tmp_path: Path, first: int, stride: int) -> None:
    """Kills the conversion at some steps, and repeats it after each."""
    original = fill(LocalStore(tmp_path / "original"), source)
    before = content(original)
    for step in itertools.count(first, stride):
        location = tmp_path / str(step)
        if in_child(partial(convert, original, Mortal(LocalStore(location), step), zarr_format=target)):
            break
        if "zarr.json" in LocalStore(location).list():
            assert_same(original, location)
        else:
            with pytest.raises(NotFoundError):
                frazil.open(location)
        convert(original, location, zarr_format=target)
        assert_same(original, location)
        assert JOURNAL_NAME not in LocalStore(location).list()
        shutil.rmtree(location)
    assert content(original) == before
    assert step > 5


@pytest.mark.parametrize("in_place", [True, False])
def test_killed_at_any_time(in_place: bool, tmp_path: Path) -> None:
    original = LocalStore(tmp_path / "original")
    root = frazil.create_group(original)
    values = np.random.default_rng(0).integers(0, 200, (300, 300)).astype("u1")
    root.create_array("chunks", data=values, chunks=(10, 10))
    root.create_array("shards", data=values, chunks=(10, 10), shards=(60, 60))
    rng = np.random.default_rng(1)
    location = tmp_path / "place"
    formats = itertools.cycle(["draft-2021", 3])
    if in_place:
        shutil.copytree(tmp_path / "original", location)
    for turn in range(12):
        target = next(formats) if in_place else "draft-2021"
        source, destination = (location, None) if in_place else (tmp_path / "original", location)
        listen, report_to = os.pipe()
        pid = fork(partial(converting, source, destination, target, report_to))
        os.close(report_to)
        read_pipe(listen, 1)
        select.select([], [], [], float(rng.random()) * 0.06)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(listen)
        if in_place:
            assert_same(original, location)
        if turn % 2 or in_place:
            convert(source, destination, zarr_format=target, overwrite=not in_place)
            assert_same(original, location)
        if not in_place:
            shutil.rmtree(location, ignore_errors=True)


def converting(source: Path, destination: Path | None, target: int | str, report_to: int) -> None:
    os.write(report_to, b".")
    convert(source, destination, zarr_format=target)
    select.select([], [], [], 10)


def interrupted(tmp_path: Path, step: int, source: int | str = 3, target: int | str = "draft") -> LocalStore:
    store = fill(LocalStore(tmp_path / "place"), source)
    assert not in_child(lambda: convert(Mortal(store, step), zarr_format=target))
    return store


@pytest.mark.parametrize("step", [6, 9])
def test_writes_after_an_interruption_are_kept(tmp_path: Path, step: int) -> None:
    """Before zarr.json was replaced, and after: then the old documents can no longer be found."""
    store = interrupted(tmp_path, step)
    array = frazil.open_array(store, "r+", path="level1/chunks")
    assert array.metadata.zarr_format == (3 if step == 6 else "draft")
    array[0:4, 0:5] = 4711
    array[4:8, 0:5] = 7
    shards = frazil.open_array(store, "r+", path="level1/shards")
    shards[5, 5] = -5
    expected = array[...], shards[...]
    convert(store, zarr_format="draft")
    assert (frazil.open_array(store, path="level1/chunks")[...] == expected[0]).all()
    assert (frazil.open_array(store, path="level1/shards")[...] == expected[1]).all()
    assert frazil.open_array(store, path="level1/chunks").metadata.zarr_format == "draft"


def test_an_interrupted_conversion_can_be_given_up(tmp_path: Path) -> None:
    store = interrupted(tmp_path, 6)
    assert JOURNAL_NAME in store.list()
    planned = convert(store, zarr_format=3, dry_run=True)
    assert "would be removed" in str(planned)
    assert JOURNAL_NAME in store.list()
    convert(store, zarr_format=3)
    assert content(store) == content(fill(MemoryStore()))
    assert {path.name for path in (tmp_path / "place").iterdir()} == {key.partition("/")[0] for key in store.list()}


def test_another_dialect_after_an_interruption(tmp_path: Path) -> None:
    for step in (8, 14, 19):
        store = interrupted(tmp_path / str(step), step)
        convert(store, zarr_format="draft-2021")
        assert_same(store, fill(MemoryStore()))
        assert frazil.open(store).metadata.zarr_format == "draft-2021"
        assert JOURNAL_NAME not in store.list()


def test_another_journal_is_an_error(tmp_path: Path) -> None:
    store = fill(MemoryStore())
    for value in (b"{", b"[]", b'{"frazil_convert": 2}', b'{"frazil_convert": 1, "from": [3], "to": true}'):
        store.set(JOURNAL_NAME, value)
        with pytest.raises(FrazilError, match="cannot resume the conversion"):
            convert(store, zarr_format="draft")
        with pytest.raises(AlreadyExistsError):
            convert(fill(MemoryStore()), store)
    journal = {"frazil_convert": 1, "from": "draft", "to": "draft-2021", "origin": "", "documents": {}}
    store.set(JOURNAL_NAME, str(journal).replace("'", '"').encode())
    with pytest.raises(FrazilError, match="and the hierarchy is of 3"):
        convert(store, zarr_format="draft")


def test_a_zarr_json_that_changes_meanwhile_is_kept() -> None:
    store = fill(MemoryStore())
    task = prepare(store, None, "draft")
    frazil.open_group(store, "r+").attrs["new"] = 1
    with pytest.raises(ConflictError):
        task.run(lambda _: None)
    assert frazil.open_group(store).attrs["new"] == 1
    assert frazil.open_group(store).metadata.zarr_format == 3
    assert_same(frazil_without(store), fill(MemoryStore()))


def frazil_without(store: Store) -> Store:
    del frazil.open_group(store, "r+").attrs["new"]
    return store


def test_two_runs_at_once_lose_nothing(tmp_path: Path) -> None:
    """The second one takes the first one's journal for that of an interrupted run. After the first one is done, removed objects must not be removed again."""
    store = interrupted(tmp_path, 6)
    late = prepare(store, None, "draft")
    convert(store, zarr_format="draft")
    with pytest.raises(ConflictError):
        late.run(lambda _: None)
    assert_same(store, fill(MemoryStore()))
    fresh = fill(MemoryStore())
    first, second = prepare(fresh, None, "draft"), prepare(fresh, None, "draft")
    first.run(lambda _: None)
    with pytest.raises((AlreadyExistsError, ConflictError)):
        second.run(lambda _: None)
    assert_same(fresh, fill(MemoryStore()))
