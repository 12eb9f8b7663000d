"""frazil.rechunk: the same elements in another form, in bounded memory, resumed after any interruption, without harm to existing data."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operations.hierarchies import content
from tests.operations.hierarchies import fill as fill_hierarchy
from tests.servers.buckets import S3
from tests.strategies import layouts

import frazil
from frazil import Runtime
from frazil.codecs import Bytes, Gzip, Transpose
from frazil.errors import (
    AlreadyExistsError,
    InvalidInputError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
)
from frazil.operations.copy.journal import JOURNAL_NAME
from frazil.operations.rechunk.rechunk import prepare_rechunk
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore

VALUES = np.random.default_rng(0).normal(size=(30, 40, 20)).astype("f4")
SMALL = Runtime(bytes_in_flight=40_000)
ARGUMENTS = {"chunks": (30, 5, 5), "shards": (30, 10, 20), "runtime": SMALL}


def source_at(location: object = None, **options: object) -> frazil.Array:
    made = {"chunks": (1, 40, 20), "codecs": [Bytes("little"), Gzip(1)], **options}
    return frazil.create_array(MemoryStore() if location is None else location, data=VALUES, **made)  # type: ignore[arg-type]


# --- the result ----------------------------------------------------------------------------------------------------------------------


@given(layouts(), st.data())
def test_any_layout_to_any_other(layout: tuple, data: st.DataObject) -> None:
    shape, chunks, shards, codecs, location = layout
    values = np.arange(np.prod(shape, dtype=int), dtype="<i4").reshape(shape)
    source = MemoryStore()
    options = {"chunks": chunks, "shards": shards, "codecs": codecs, "index_location": location}
    frazil.create_array(source, data=values, fill_value=3, attributes={"a": [1]}, **options)  # type: ignore[arg-type]
    inner = tuple(data.draw(st.integers(1, 5)) for _ in shape)
    outer = tuple(n * data.draw(st.integers(1, 3)) for n in inner) if data.draw(st.booleans()) else None
    target = MemoryStore()
    limit = data.draw(st.integers(1, 500))
    done = frazil.rechunk(
        source, target, to="x", chunks=inner, shards=outer, codecs="auto", runtime=Runtime(bytes_in_flight=limit)
    )
    array = frazil.open_array(target, path="x")
    np.testing.assert_array_equal(array[...], values)
    assert (array.chunks, array.shards, array.fill_value, dict(array.attrs)) == (inner, outer, 3, {"a": [1]})
    assert (done.chunks, done.shards, done.found, done.dry_run) == (inner, outer, 0, False)
    assert not target.exists("x/" + JOURNAL_NAME)
    assert frazil.checksum(array) == frazil.checksum(source)


def test_a_rechunk_changes_only_the_layout(tmp_path: Path) -> None:
    source = source_at(
        codecs=[Transpose([2, 1, 0]), Bytes("big"), Gzip(2)],
        dimension_names=("t", "y", None),
        attributes={"u": "m"},
        fill_value=np.nan,
    )
    written: list[int] = []
    frazil.rechunk(source, tmp_path / "new.zarr", chunks=(10, 10, 10), progress=written.append)
    array = frazil.open_array(tmp_path / "new.zarr")
    assert (array.chunks, array.shards, array.codecs) == ((10, 10, 10), None, source.codecs)
    assert (array.dimension_names, dict(array.attrs)) == (("t", "y", None), {"u": "m"})
    assert np.isnan(array.fill_value)
    assert sum(written) == array.nbytes
    frazil.rechunk(array, tmp_path / "more.zarr", shards=(20, 20, 20), codecs=["zstd"])
    more = frazil.open_array(tmp_path / "more.zarr")
    assert (more.chunks, more.shards) == ((10, 10, 10), (20, 20, 20))
    frazil.rechunk(more, tmp_path / "same.zarr")
    same = frazil.open_array(tmp_path / "same.zarr")
    assert (same.chunks, same.shards, same.codecs) == (more.chunks, more.shards, more.codecs)
    frazil.rechunk(same, tmp_path / "auto.zarr", chunks="auto", shards=None, codecs="auto")
    assert frazil.open_array(tmp_path / "auto.zarr").shards is None
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "auto.zarr")[...], VALUES)


@pytest.mark.parametrize("zarr_format", ["draft", "draft-2021"])
def test_a_rechunk_of_a_draft_array_writes_zarr_v3(zarr_format: str) -> None:
    store = fill_hierarchy(MemoryStore(), zarr_format)
    target = MemoryStore()
    for path in ("level1/shards", "level1/chunks", "dots", "scalar", "empty", "unwritten"):
        frazil.rechunk(store, target, path=path, to=path)
        array = frazil.open_array(target, path=path)
        assert array.metadata.zarr_format == 3
        assert frazil.checksum(array) == frazil.checksum(store, path=path)
    assert frazil.validate(target, decode=True).ok


def test_each_shard_is_written_once_and_nothing_is_read_back() -> None:
    source, target = source_at(), CountingStore(MemoryStore())
    done = frazil.rechunk(source, target, **ARGUMENTS)  # type: ignore[arg-type]
    shards = [key for key in target.inner.list() if key.startswith("c/")]
    assert len(shards) == 4
    assert all(target.count("put", key) == 1 for key in shards)
    assert target.count("put") == 4 + 1 + 1 + done.slabs  # the document, the journal, and its state after each slab
    assert (
        sum(request.nbytes for request in target.requests if request.operation == "fetch" and request.key in shards)
        == 0
    )


def test_elements_that_are_fill_value_are_not_stored() -> None:
    source = frazil.create_array(MemoryStore(), shape=(100, 100), dtype="i4", chunks=(10, 10), fill_value=7)
    source[55, 55] = 1
    target = MemoryStore()
    frazil.rechunk(source, target, chunks=(25, 25))
    assert target.list() == ["c/2/2", "zarr.json"]


def test_the_target_is_not_found_before_it_is_complete() -> None:
    target = MemoryStore()
    seen: list[bool] = []

    def look(nbytes: int) -> None:
        with pytest.raises(NotFoundError):
            frazil.open_array(target, path="new")
        seen.append(target.exists("new/" + JOURNAL_NAME))

    done = frazil.rechunk(source_at(), target, to="new", progress=look, **ARGUMENTS)  # type: ignore[arg-type]
    assert seen == [True] * done.slabs
    assert done.slabs > 2
    assert "new" in frazil.open_group(target)  # a group above was created


# --- interruptions ---------------------------------------------------------------------------------------------------------------------


class Stop(BaseException):
    """An interrupt."""


def stopped_at(slab: int) -> Callable[[int], None]:
    calls: list[int] = []

    def report(nbytes: int) -> None:
        calls.append(nbytes)
        if len(calls) == slab:
            raise Stop

    return report


def test_every_fault_of_the_destination_is_an_error_and_the_next_run_finishes() -> None:
    source, expected = source_at(), MemoryStore()
    frazil.rechunk(source, expected, **ARGUMENTS)  # type: ignore[arg-type]
    faults = 0
    for operation, kinds in (
        ("put_many", ("fail", "lose")),
        ("erase_many", ("fail", "lose")),
        ("list", ("fail",)),
        ("fetch", ("fail",)),
    ):
        for kind in kinds:
            for call in range(1, 40):
                target = MemoryStore()
                plan = FaultPlan([Fault(operation, call, kind)])  # type: ignore[arg-type]
                try:
                    frazil.rechunk(source, FaultyStore(target, plan), **ARGUMENTS)  # type: ignore[arg-type]
                except (StoreError, AlreadyExistsError):
                    faults += 1
                else:
                    assert content(target) == content(expected)
                    break
                if target.exists("zarr.json") and not target.exists(JOURNAL_NAME):  # all was done, the answer was lost
                    assert content(target) == content(expected)
                    continue
                frazil.rechunk(source, target, **ARGUMENTS)  # type: ignore[arg-type]
                assert content(target) == content(expected)
    assert faults > 20


KILLED = """
import os, signal, sys
import frazil
from frazil.runtime import Runtime
count = int(sys.argv[3])
def report(nbytes):
    global count
    count -= 1
    if count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
frazil.rechunk(sys.argv[1], sys.argv[2], chunks=(30, 5, 5), shards=(30, 10, 20), runtime=Runtime(bytes_in_flight=40000), progress=report)
"""


def test_a_kill_at_any_slab(tmp_path: Path) -> None:
    source_at(tmp_path / "a.zarr")
    before = content(LocalStore(tmp_path / "a.zarr"))
    for slab in (1, 2, 1):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, tmp_path / "a.zarr", tmp_path / "b.zarr", str(slab)], check=False
        )
        assert done.returncode == -signal.SIGKILL
        with pytest.raises(NotFoundError):
            frazil.open_array(tmp_path / "b.zarr")
    report = frazil.rechunk(tmp_path / "a.zarr", tmp_path / "b.zarr", **ARGUMENTS)  # type: ignore[arg-type]
    assert report.found == 4
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "b.zarr")[...], VALUES)
    assert content(LocalStore(tmp_path / "a.zarr")) == before
    assert frazil.validate(tmp_path / "b.zarr", decode=True).ok


def test_only_the_same_rechunk_goes_on() -> None:
    source, target = source_at(), MemoryStore()
    with pytest.raises(Stop):
        frazil.rechunk(source, target, progress=stopped_at(1), **ARGUMENTS)  # type: ignore[arg-type]
    before = content(target)
    for other, arguments in (
        (source, {**ARGUMENTS, "chunks": (30, 10, 5)}),
        (source, {**ARGUMENTS, "codecs": "auto"}),
        (source_at(), ARGUMENTS),
    ):
        with pytest.raises(AlreadyExistsError, match="already"):
            frazil.rechunk(other, target, **arguments)  # type: ignore[arg-type]
    with pytest.raises(AlreadyExistsError, match="interrupted copy of something else"):
        frazil.copy(source.store, target)
    with pytest.raises(InvalidInputError, match="not finished"):
        frazil.copy(target, MemoryStore())
    assert content(target) == before
    frazil.rechunk(source, target, chunks=(7, 7, 7), shards=None, overwrite=True)
    np.testing.assert_array_equal(frazil.open_array(target)[...], VALUES)
    assert frazil.validate(target).ok


def test_the_second_of_two_rechunks_into_one_target_fails() -> None:
    source, target = source_at(), MemoryStore()
    calls: list[int] = []

    def another(nbytes: int) -> None:
        if not calls:
            calls.append(nbytes)
            frazil.rechunk(source, target, **ARGUMENTS)  # type: ignore[arg-type]

    with pytest.raises(AlreadyExistsError, match="another process writes"):
        frazil.rechunk(source, target, progress=another, **ARGUMENTS)  # type: ignore[arg-type]
    np.testing.assert_array_equal(frazil.open_array(target)[...], VALUES)


def test_an_interrupt_while_the_destination_is_emptied() -> None:
    class Interrupted(MemoryStore):
        stops = True

        def erase_many(self, names: Sequence[str], expect: Sequence[bytes | None]) -> list:  # type: ignore[override]
            found = super().erase_many(names, expect)
            if self.stops and any(name.startswith("c/") for name in names):
                raise Stop
            return found

    target = Interrupted()
    frazil.create_array(target, data=np.arange(100), chunks=(10,))
    with pytest.raises(Stop):  # the source no longer exists then: the next one may have its address
        frazil.rechunk(source_at(), target, overwrite=True, **ARGUMENTS)  # type: ignore[arg-type]
    assert not target.exists("zarr.json")
    Interrupted.stops = False
    source = source_at()
    with pytest.raises(AlreadyExistsError):
        frazil.rechunk(source, target, **ARGUMENTS)  # type: ignore[arg-type]
    frazil.rechunk(source, target, overwrite=True, **ARGUMENTS)  # type: ignore[arg-type]
    np.testing.assert_array_equal(frazil.open_array(target)[...], VALUES)
    assert frazil.validate(target).ok


# --- memory ----------------------------------------------------------------------------------------------------------------------------

MEASURED = """
import re, sys
import numcodecs
import numpy as np
import frazil
from frazil.runtime import Runtime

def peak():  # KiB of this program alone: ru_maxrss begins with what the program that started it had
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

source, target, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
runtime = Runtime(bytes_in_flight=limit)
frazil.create_array(target + "-small", data=np.ones((64, 64, 64), "f4"), chunks=(8, 64, 64))
frazil.rechunk(target + "-small", target + "-small2", chunks=(64, 8, 8), codecs=["zstd"], runtime=runtime)
before = peak()
frazil.rechunk(source, target, chunks=(64, 16, 16), shards=(64, 64, 64), codecs=["zstd"], runtime=runtime)
print(peak() - before)
"""


def measure(url: str, limit: int) -> int:
    """MiB used by a rechunk of 128 MiB, or of 64 MiB if the limit is small; 1 MiB is one new shard."""
    length = 128 if limit > 2**24 else 64
    array = frazil.create_array(
        f"{url}/a", shape=(length, 512, 512), dtype="f4", chunks=(4, 128, 128), shards=(32, 256, 256), codecs=[]
    )
    rows = np.random.default_rng(0).normal(size=(32, 512, 512)).astype("f4")
    for low in range(0, length, 32):
        array[low : low + 32] = rows + low
    words = [sys.executable, "-c", MEASURED, f"{url}/a", f"{url}/b", str(limit)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    np.testing.assert_array_equal(frazil.open_array(f"{url}/b")[50, 3], array[50, 3])
    return int(done.stdout) // 2**10


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc/self/status")
@pytest.mark.parametrize("limit", [2**20, pytest.param(2**23, marks=pytest.mark.campaign), 2**26])
def test_memory_is_bounded_on_a_disk(tmp_path: Path, limit: int) -> None:
    """The bytes in flight, and what allocators keep. Without a bound, 64 MiB would need 128 MiB and more."""
    assert measure(str(tmp_path), limit) <= limit // 2**20 + 8


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc/self/status")
@pytest.mark.parametrize("limit", [2**20, 2**26])
def test_memory_is_bounded_in_a_bucket(s3: S3, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    assert measure(f"s3://{s3.new_bucket()}", limit) <= limit // 2**20 + 32


# --- places ----------------------------------------------------------------------------------------------------------------------------


def test_into_a_session_and_out_of_one(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    session = repo.writable_session()
    done = frazil.rechunk(source_at(), session, to="level1/new", **ARGUMENTS)  # type: ignore[arg-type]
    assert done.slabs > 2
    session.commit("rechunk")
    array = repo.readonly_session().root["level1/new"]
    assert isinstance(array, frazil.Array)
    assert (array.chunks, array.shards) == ((30, 5, 5), (30, 10, 20))
    np.testing.assert_array_equal(array[...], VALUES)
    session = repo.writable_session()
    with pytest.raises(AlreadyExistsError):
        frazil.rechunk(array, session, to="level1/new")
    with pytest.raises(InvalidInputError, match="same location"):
        frazil.rechunk(session.root["level1/new"], session.store, to="level1/new")  # type: ignore[arg-type]
    frazil.rechunk(array, session.store, to="level1/new", shards=None, overwrite=True)
    session.commit("without shards")
    again = repo.readonly_session().root["level1/new"]
    assert again.shards is None  # type: ignore[union-attr]
    np.testing.assert_array_equal(again[...], VALUES)  # type: ignore[index]
    with pytest.raises(ReadOnlyError):
        frazil.rechunk(array, repo.readonly_session(), to="other")
    frazil.rechunk(tmp_path / "sea.repo@main", tmp_path / "out.zarr", path="level1/new", chunks=(10, 10, 10))
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "out.zarr")[...], VALUES)


def test_an_interrupted_rechunk_of_a_snapshot_is_resumed(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="sea") as root:
        root.create_array("sea", data=VALUES, chunks=(1, 40, 20))
    target = MemoryStore()
    with pytest.raises(Stop):
        frazil.rechunk(repo.readonly_session().root["sea"], target, progress=stopped_at(1), **ARGUMENTS)  # type: ignore[arg-type]
    other = frazil.Repository.open(tmp_path / "sea.repo", durable=False).readonly_session().root["sea"]
    assert frazil.rechunk(other, target, **ARGUMENTS).found == 1  # type: ignore[arg-type]
    np.testing.assert_array_equal(frazil.open_array(target)[...], VALUES)


def test_places_that_are_refused(tmp_path: Path) -> None:
    source_at(tmp_path / "ocean.zarr" / "a")
    frazil.create_group(tmp_path / "ocean.zarr")
    frazil.create_group(tmp_path / "old.zr3", zarr_format="draft").create_array("a", data=VALUES)
    frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    (tmp_path / "link").symlink_to(tmp_path / "ocean.zarr")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    source = str(tmp_path / "ocean.zarr" / "a")
    refused: list[tuple[object, str, type[Exception], str]] = [
        (source, "ocean.zarr/a", InvalidInputError, "same location"),
        (source, "link/a", InvalidInputError, "same location"),
        (source, "ocean.zarr/a/b", InvalidInputError, "inside the other"),
        (source, "ocean.zarr", InvalidInputError, "inside the other"),
        (source, "sea.repo", AlreadyExistsError, "already"),
        (source, "sea.repo/inside", InvalidInputError, "among the files of a repository"),
        (source, "sea.repo@main", InvalidInputError, "a state of the repository"),
        (source, "old.zr3", AlreadyExistsError, "already"),
        (str(tmp_path / "ocean.zarr"), "new.zarr", InvalidInputError, "a group is there"),
        (str(tmp_path / "nothing"), "new.zarr", NotFoundError, "nothing"),
    ]
    for place, destination, kind, expected_message in refused:
        with pytest.raises(kind, match=expected_message):
            frazil.rechunk(place, tmp_path / destination, overwrite=destination.startswith("ocean"))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="inside the other"):
        frazil.rechunk(tmp_path / "old.zr3", tmp_path / "old.zr3" / "b", path="a")
    with pytest.raises(InvalidInputError, match="arrays have no children"):
        frazil.rechunk(source_at(), LocalStore(tmp_path), to="ocean.zarr/a/b")
    with pytest.raises(InvalidInputError, match="hierarchy of another dialect"):
        frazil.rechunk(source_at(), LocalStore(tmp_path / "old.zr3"), to="b")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"chunks": (0, 1, 1)},
        {"chunks": (5, 5)},
        {"chunks": "large"},
        {"chunks": (7, 7, 7), "shards": (10, 10, 10)},
        {"codecs": ["nothing"]},
    ],
    ids=str,
)
def test_an_invalid_form_changes_nothing(arguments: dict[str, object]) -> None:
    target = MemoryStore()
    with pytest.raises((MetadataError, InvalidInputError)):
        frazil.rechunk(source_at(), target, **arguments)  # type: ignore[arg-type]
    assert target.list() == []


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    report = frazil.rechunk(source_at(), tmp_path / "b.zarr", dry_run=True, **ARGUMENTS)  # type: ignore[arg-type]
    assert (report.dry_run, report.chunks, report.shards, report.seconds) == (True, (30, 5, 5), (30, 10, 20), 0)
    assert "would be written" in str(report)
    assert not os.path.exists(tmp_path / "b.zarr")
    assert pickle.loads(pickle.dumps(report)) == report
    assert json.loads(json.dumps(report.to_json()))["chunks"] == [30, 5, 5]


def test_mistakes_of_types() -> None:
    for arguments in ({"dry_run": 1}, {"overwrite": "yes"}, {"progress": 3}, {"runtime": 3}):
        with pytest.raises(InvalidInputError):
            frazil.rechunk(source_at(), MemoryStore(), **arguments)  # type: ignore[arg-type]


def test_a_store_that_cannot_list() -> None:
    class Unlisted(MemoryStore):
        @property
        def capabilities(self):  # type: ignore[no-untyped-def]
            return super().capabilities._replace(listable=False)

    target: Store = Unlisted()
    with pytest.raises(StoreError, match="cannot list"):
        prepare_rechunk(source_at(), target)
