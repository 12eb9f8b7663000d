"""Files that are written once: read, written, cached."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.concurrent_calls import in_processes, in_threads
from tests.formats.archives import NAMES, files_in
from tests.formats.documents import encoded_snapshot
from tests.repository.archived_repositories import (
    archive,
    empty_files,
    info,
    manifest,
    put_manifests,
    put_snapshot,
    snapshot,
    some_id,
)

import frazil
from frazil.errors import FormatError, InvalidInputError, NotFoundError, ReadOnlyError, StoreError
from frazil.formats.alpha.attributes import encode_attributes
from frazil.formats.ids import decode_id, encode_id
from frazil.formats.manifests import Manifest
from frazil.repository.alpha.file_cache import Files
from frazil.stores import LocalStore, MemoryStore, read_only
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore


def same(left: Manifest, right: Manifest) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prefix", ["", "deep/down/"])
def test_every_file_of_the_archives_is_read(name: str, prefix: str) -> None:
    files = archive(name, prefix)
    for key, data in files_in(name, "snapshots").items():
        file = decode_id(key.removeprefix("snapshots/"))
        assert files.has_snapshot(file)
        assert encoded_snapshot(files.snapshot(file)) == data
    ids = [decode_id(key.removeprefix("manifests/")) for key in files_in(name, "manifests")]
    assert all(found.size for found in files.manifests(ids))


def test_snapshots_are_written_and_remembered(tmp_path: Path) -> None:
    store = CountingStore(LocalStore(tmp_path))
    files = Files(store, "repo/")
    own = snapshot(info(1))
    files.write_new([files.encoded_snapshot(own.metadata.id, own)])
    assert store.count("put", f"repo/snapshots/{encode_id(own.metadata.id)}") == 1
    assert files.snapshot(own.metadata.id) == own
    assert files.snapshot(own.metadata.id) is files.snapshot(own.metadata.id)
    assert files.has_snapshot(own.metadata.id)
    assert store.count() == 1  # nothing is read back
    assert Files(store, "repo/").snapshot(own.metadata.id) == own
    assert store.count("fetch") == 1


def test_snapshots_are_remembered_as_long_as_there_is_room() -> None:
    store = CountingStore(MemoryStore())
    files = Files(store, cache_bytes=10_000)
    ids = [put_snapshot(files, number) for number in range(1, 30)]
    assert files.memory.nbytes <= 10_000
    store.clear()
    for file in [*ids[-8:], *ids[-8:]]:
        files.snapshot(file)
    assert store.count() == 0
    files.snapshot(ids[0])
    assert store.count() == 1
    files.snapshot(ids[-1])
    assert store.count() == 1
    for file in ids[1:20]:
        files.snapshot(file)
    assert store.count() == 20
    files.snapshot(ids[-8])  # the least recently used one was evicted
    assert store.count() == 21


@pytest.mark.parametrize(("limit", "requests"), [(0, 4), (520, 2)])
def test_the_last_snapshot_is_remembered_whatever_its_size_unless_nothing_is(limit: int, requests: int) -> None:
    store = CountingStore(MemoryStore())
    files = Files(store, cache_bytes=limit)
    ids = [put_snapshot(files, number) for number in (1, 2)]
    store.clear()
    for file in (ids[1], ids[1], ids[0], ids[1]):
        files.snapshot(file)
    assert store.count("fetch") == requests
    assert len(files.memory) == 0


def test_the_name_of_the_file_counts() -> None:
    files = empty_files()
    file = some_id()
    files.write_new([files.encoded_snapshot(file, snapshot(info(1)))])
    assert files.snapshot(file).metadata.id == info(1).id
    with pytest.raises(NotFoundError):
        files.snapshot(info(1).id)


def test_manifests_come_in_one_batch(tmp_path: Path) -> None:
    store = CountingStore(LocalStore(tmp_path))
    files = Files(store)
    made = [(some_id(), manifest(node, 5)) for node in range(10)]
    put_manifests(files, made)
    assert store.bytes_written == sum(path.stat().st_size for path in tmp_path.glob("*/*"))
    ids = [file for file, _ in made]
    assert all(map(same, files.manifests(ids), [one for _, one in made]))
    assert store.count("fetch") == 0
    cold = Files(store)
    assert all(map(same, cold.manifests([*ids, ids[3]]), [*(one for _, one in made), made[3][1]]))
    assert store.count("fetch") == 10
    cold.manifests(ids)
    assert store.count("fetch") == 10
    assert cold.manifests([]) == []


def test_memory_is_bounded() -> None:
    store = CountingStore(MemoryStore())
    files = Files(store, cache_bytes=20_000)
    ids = [some_id() for _ in range(20)]
    put_manifests(files, [(file, manifest(1, 100)) for file in ids])
    for file in ids:
        files.manifests([file])
        assert 0 < files.memory.nbytes <= 20_000
    assert 0 < len(files.memory) < 20
    large = some_id()
    put_manifests(files, [(large, manifest(1, 5000))])
    store.clear()
    for _ in range(3):
        assert files.manifests([large])[0].size == 5000
    assert store.count("fetch") == 3  # it never fits
    with pytest.raises(InvalidInputError):
        Files(store, cache_bytes=-1)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=40), st.integers(0, 8000))
def test_cached_files_equal_stored_files(steps: list[tuple[int, bool]], limit: int) -> None:
    files = Files(MemoryStore(), cache_bytes=limit)
    made: dict[int, tuple[bytes, Manifest]] = {}
    for number, write in steps:
        if write or number not in made:
            made[number] = some_id(), manifest(number, 1 + number * 7)
            put_manifests(files, [made[number]])
        file, expected = made[number]
        assert same(files.manifests([file])[0], expected)
        assert files.memory.nbytes <= limit


def test_written_manifests_cannot_be_changed() -> None:
    files = empty_files()
    file, mine = some_id(), manifest(3, 4)
    put_manifests(files, [(file, mine)])
    with pytest.raises(ValueError, match="read-only"):
        files.manifests([file])[0].lengths[0] = 1
    mine.lengths[0] += 1  # what is cached is a copy
    assert same(Files(files.store).manifests([file])[0], files.manifests([file])[0])


def test_attributes() -> None:
    store = CountingStore(MemoryStore())
    files = Files(store, "r/")
    file = some_id()
    files.write_attributes(file, encode_attributes([{"a": 1}, {}, {"b": [1, {"c": None}]}]))
    for one in (files, Files(store, "r/")):
        assert [one.attributes(file, location) for location in range(3)] == [{"a": 1}, {}, {"b": [1, {"c": None}]}]
    assert store.count("fetch") == 1
    with pytest.raises(FormatError, match="none at location 3") as caught:
        files.attributes(file, 3)
    assert caught.value.key == f"r/attributes/{encode_id(file)}"


def test_errors_name_the_missing_file() -> None:
    files = archive(NAMES[0], "p/")
    for kind, read in (
        ("snapshots", files.snapshot),
        ("manifests", lambda file: files.manifests([file])),
        ("attributes", lambda file: files.attributes(file, 0)),
    ):
        file = some_id()
        with pytest.raises(NotFoundError) as caught:
            read(file)
        assert caught.value.key == f"p/{kind}/{encode_id(file)}"
        assert caught.value.hint


@pytest.mark.parametrize(
    "data", [b"", b"\x9b", b"\x28\xb5\x2f\xfd", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff" * 50]
)
def test_broken_files_are_named(data: bytes) -> None:
    files = empty_files()
    file = some_id()
    for kind in ("snapshots", "manifests", "attributes"):
        files.store.set(f"{kind}/{encode_id(file)}", data)
    for kind, read in (
        ("snapshots", files.snapshot),
        ("manifests", lambda file: files.manifests([file])),
        ("attributes", lambda file: files.attributes(file, 0)),
    ):
        with pytest.raises(FormatError) as caught:
            read(file)
        assert caught.value.key == f"{kind}/{encode_id(file)}"


def test_ids_do_not_climb() -> None:
    files = empty_files()
    for hostile in (b"../../../etc", b"snapshots/../../../../x", b""):
        if len(hostile) == 12:
            with pytest.raises(NotFoundError):
                files.snapshot(hostile)  # as text the id is like any other
        else:
            with pytest.raises(InvalidInputError):
                files.snapshot(hostile)
    for prefix in ("../", "a", "/", "a/../b/"):
        with pytest.raises(InvalidInputError):
            Files(MemoryStore(), prefix)


def test_values_that_the_format_cannot_hold_are_not_written() -> None:
    store = CountingStore(MemoryStore())
    files = Files(store)
    wrong = manifest(1, 3)
    with pytest.raises(InvalidInputError):
        put_manifests(files, [(some_id(), manifest(1, 3)), (some_id(), wrong._replace(lengths=wrong.lengths[:2]))])
    with pytest.raises(InvalidInputError):
        files.write_new([files.encoded_snapshot(some_id(), snapshot(info(1)._replace(written_at=2**80)))])
    assert store.requests == []


def test_a_read_only_store_is_not_written() -> None:
    files = Files(read_only(MemoryStore()))
    with pytest.raises(ReadOnlyError):
        files.write_new([files.encoded_snapshot(some_id(), snapshot(info(1)))])


@pytest.mark.parametrize("kind", ["fail", "cut", "lose"])
def test_failed_writes_are_not_cached(kind: str) -> None:
    store = FaultyStore(MemoryStore(), FaultPlan([Fault("put_many", 1, kind)]))  # type: ignore[arg-type]
    files = Files(store)
    with pytest.raises(StoreError):
        files.write_new([files.encoded_snapshot(info(1).id, snapshot(info(1)))])
    assert files._cached_snapshot(f"snapshots/{encode_id(info(1).id)}") is None
    files.write_new([files.encoded_snapshot(info(1).id, snapshot(info(1)))])
    assert files.snapshot(info(1).id) == snapshot(info(1))


def test_a_short_answer_is_no_snapshot() -> None:
    inner = MemoryStore()
    put_snapshot(Files(inner), 1)
    files = Files(FaultyStore(inner, FaultPlan([Fault("fetch", 1, "cut")])))
    with pytest.raises(StoreError):
        files.snapshot(info(1).id)
    assert files.snapshot(info(1).id).metadata == info(1)


def test_files_pickle(tmp_path: Path) -> None:
    files = Files(LocalStore(tmp_path), "a/", cache_bytes=1234)
    file = put_snapshot(files, 1)
    copy = pickle.loads(pickle.dumps(files))
    assert (copy.prefix, copy.memory.limit, repr(copy)) == ("a/", 1234, repr(files))
    assert copy.snapshot(file) == files.snapshot(file)


def test_threads_and_forks_share_files(tmp_path: Path) -> None:
    files = Files(LocalStore(tmp_path), cache_bytes=30_000)
    made = {some_id(): node for node in range(20)}
    put_manifests(files, [(file, manifest(node, 50)) for file, node in made.items()])
    ids = [put_snapshot(files, number) for number in range(1, 20)]

    def read(_: int) -> None:
        for file, node in [*made.items()] * 3:
            assert files.manifests([file])[0].nodes.tolist() == [node] * 50
        for number, file in enumerate(ids * 3):
            assert files.snapshot(file).metadata == info(number % 19 + 1)

    in_threads(4, read)
    with files.memory._lock:  # as another thread might hold them at the fork
        in_processes(2, read)


def test_sessions_share_what_they_look_up() -> None:
    """References are cached with their index; another session of the repository fetches none and builds none."""
    store = CountingStore(MemoryStore())
    repo = frazil.Repository.create(store)
    with repo.transaction(message="first") as root:
        root.create_array("a", data=np.arange(10_000), chunks=(1,), codecs=[])
    repo = frazil.Repository.open(store)
    for number in range(3):
        store.clear()
        session = repo.readonly_session()
        assert (session.root["a"][100:200] == np.arange(100, 200)).all()
        assert {done.key.split("/")[0] for done in store.requests} - (
            {"chunks", "manifests", "snapshots"} if number == 0 else set()
        ) <= {"refs"}
    memory = session.root["a"]._location.memory
    assert 10_000 * 60 < memory.nbytes <= memory.limit


def test_chunks_that_are_read_once_are_not_kept() -> None:
    """A verification with decoding held them, up to half of the default limit."""
    files = Files(CountingStore(MemoryStore()))
    assert files.chunk_store() is not files.store
    assert files.uncached().chunk_store() is files.store
