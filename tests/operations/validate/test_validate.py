"""frazil.validate: finds nothing in intact data, and finds every damage, with its place."""

from __future__ import annotations

import errno
import json
import pickle
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.operations.archives import HIERARCHIES, unpack
from tests.operations.hierarchies import content, copy_of, fill
from tests.servers.web import WebServer
from tests.torn_shards import JOURNAL, tear

import frazil
from frazil import Runtime
from frazil.codecs import Bytes, Gzip, ShardingIndexed
from frazil.codecs.sharding.shard import encode_indexes
from frazil.errors import ChecksumError, FormatError, InvalidInputError, NotFoundError, StoreError
from frazil.operations.shards.shard_index import levels_of
from frazil.operations.validate.report import Problem
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.values import Columns, Fetched
from frazil.testing import CountingStore
from frazil.testing.buffered_store import BufferedStore
from frazil.testing.checks import refusal

VALUES = np.random.default_rng(0).integers(0, 1000, (40, 60)).astype("<i4")


def damaged(store: frazil.stores.Store, key: str, at: int, length: int = 1) -> None:
    value = bytearray(store.get(key) or b"")
    for i in range(length):
        value[at + i] ^= 0xFF
    store.set(key, bytes(value))


def kinds(location: object, **arguments: object) -> list[tuple[str, str, str | None, tuple[int, ...] | None]]:
    found = frazil.validate(location, **arguments)  # type: ignore[arg-type]
    return [(problem.kind, problem.path, problem.key, problem.chunk) for problem in found.problems]


@pytest.mark.parametrize(("archive", "name"), HIERARCHIES)
def test_hierarchies_of_other_libraries_are_sound(archive: str, name: str, tmp_path: Path) -> None:
    found = frazil.validate(unpack(archive, tmp_path).hierarchy(name), decode=True)
    assert (found.ok, found.problems) == (True, ())
    assert found.arrays >= 1
    assert found.decoded_nbytes > 0


@pytest.mark.parametrize("zarr_format", [3, "draft", "draft-2021"])
@pytest.mark.parametrize("decode", [False, True])
def test_our_hierarchies_are_valid(zarr_format: int | str, decode: bool) -> None:
    store = fill(MemoryStore(), zarr_format)
    before = content(store)
    done: list[int] = []
    found = frazil.validate(store, decode=decode, progress=done.append, runtime=Runtime(bytes_in_flight=100))
    assert found.ok
    assert (found.groups, found.arrays, found.indexes) == (3, 6, 6)
    assert found.objects == sum(not key.rpartition("/")[2].startswith("zarr") and "meta/" not in key for key in before)
    assert (found.decoded_nbytes > 0) == decode
    assert sum(done) == found.decoded_nbytes
    assert content(store) == before
    assert frazil.validate(store, path="level1").arrays == 2
    assert frazil.validate(store, path="level1/shards", decode=decode).indexes == 6
    assert frazil.validate(store, path="empty", decode=decode).ok


def test_documents_keys_and_nodes_below_a_bad_document() -> None:
    store = fill(MemoryStore())
    store.set("notes.txt", b"x")
    store.set("level1/chunks/c/9/0", b"x")  # outside of the grid
    store.set("level1/chunks/c/0/0/0", b"x")
    store.set("level2/lost/zarr.json/x", b"x")
    store.set("dots/zarr.json", b"{}")
    assert kinds(store) == [
        ("key", "", "level1/chunks/c/0/0/0", None),
        ("key", "", "level1/chunks/c/9/0", None),
        ("key", "", "level2/lost/zarr.json/x", None),
        ("key", "", "notes.txt", None),
        ("document", "dots", "dots/zarr.json", None),
    ]
    assert kinds(store, path="level2") == [("key", "", "level2/lost/zarr.json/x", None)]
    assert [kind for kind, *_ in kinds(store, path="dots")] == ["document"]
    store.set("zarr.json", b"nonsense")
    assert [kind for kind, *_ in kinds(store)] == ["document"]


def test_keys_of_nothing_in_a_draft() -> None:
    store = fill(MemoryStore(), "draft")
    for key in ("notes.txt", "data/level1/chunks/c99/0", "meta/level1/chunks.array.json.old", "data/lost/c0"):
        store.set(key, b"x")
    assert sorted(str(key) for _, _, key, _ in kinds(store)) == [
        "data/level1/chunks/c99/0",
        "data/lost/c0",
        "meta/level1/chunks.array.json.old",
        "notes.txt",
    ]
    assert [key for _, _, key, _ in kinds(store, path="level1")] == [
        "data/level1/chunks/c99/0",
        "meta/level1/chunks.array.json.old",
    ]


def sharded(codecs: object = (), **arguments: object) -> tuple[MemoryStore, frazil.Array]:
    store = MemoryStore()
    options = {"chunks": (5, 10), "shards": (20, 20), "codecs": codecs, **arguments}
    return store, frazil.create_array(store, data=VALUES, **options)  # type: ignore[arg-type]


def test_an_index_that_does_not_fit_its_checksum_or_its_shard() -> None:
    store, array = sharded()
    size = len(store.get("c/0/0") or b"")
    damaged(store, "c/0/0", size - 3)  # the checksum
    damaged(store, "c/1/2", size - 40)  # an entry
    store.set("c/0/1", b"short")
    store.set("c/0/2", b"")
    level = levels_of(array)[0]
    table = np.full((level.total, 2), -1, np.int64)
    table[3] = 0, 10**6
    store.set("c/1/0", bytes(100) + encode_indexes(level, table[None]).tobytes())
    found = frazil.validate(store)
    assert [(problem.kind, problem.chunk, problem.key) for problem in found.problems] == [
        ("index", (0, 0), "c/0/0"),
        ("index", (0, 1), "c/0/1"),
        ("index", (0, 2), "c/0/2"),
        ("index", (1, 0), "c/1/0"),
        ("index", (1, 2), "c/1/2"),
    ]
    assert "outside the shard" in found.problems[3].message
    assert [problem.kind for problem in frazil.validate(store, decode=True).problems] == ["index"] * 5


@pytest.mark.parametrize(
    ("entries", "overlap"),
    [
        ({0: (0, 200), 1: (200, 200)}, None),
        ({0: (0, 200), 1: (199, 200)}, "1 inner chunks overlap others, the first of them number 1 at byte 199"),
        (
            {5: (0, 400), 2: (100, 10), 3: (200, 10)},
            "2 inner chunks overlap others, the first of them number 2 at byte 100",
        ),
        ({0: (0, 200), 1: (0, 200)}, None),  # the same bytes for two chunks: the writer saved space
        ({0: (0, 0), 1: (0, 200)}, None),
    ],
)
def test_inner_chunks_that_overlap(entries: dict[int, tuple[int, int]], overlap: str | None) -> None:
    store, array = sharded()
    level = levels_of(array)[0]
    table = np.full((level.total, 2), -1, np.int64)
    for number, entry in entries.items():
        table[number] = entry
    store.set("c/1/1", bytes(400) + encode_indexes(level, table[None]).tobytes())
    found = frazil.validate(store).problems
    assert [(problem.kind, problem.message, problem.chunk) for problem in found] == (
        [] if overlap is None else [("overlap", overlap, (1, 1))]
    )


@pytest.mark.parametrize("limit", [1, 1000, 2**26])
def test_every_bad_chunk_is_found(limit: int) -> None:
    store, array = sharded([Bytes("little"), Gzip(1)])
    level = levels_of(array)[0]
    for key, number in (("c/0/0", 3), ("c/0/0", 4), ("c/0/1", 0), ("c/1/2", 7)):
        value = store.get(key) or b""
        start, length = level.index_codecs.decode(value[-level.index_codecs.nbytes :]).reshape(-1, 2)[number].tolist()
        damaged(store, key, int(start), min(int(length), 10))
    found = kinds(store, decode=True, runtime=Runtime(bytes_in_flight=limit))
    assert found == [
        ("chunk", "", "c/0/0", (1, 1)),
        ("chunk", "", "c/0/0", (2, 0)),
        ("chunk", "", "c/0/1", (0, 2)),
        ("chunk", "", "c/1/2", (7, 5)),
    ]
    assert kinds(store) == []


def test_chunks_without_shards() -> None:
    store = MemoryStore()
    frazil.create_array(store, data=VALUES, chunks=(7, 9), codecs=[Bytes("little"), Gzip(1)])
    store.set("c/0/3", b"nonsense")
    store.set("c/5/6", b"")
    assert kinds(store, decode=True) == [("chunk", "", "c/0/3", (0, 3)), ("chunk", "", "c/5/6", (5, 6))]


@pytest.mark.parametrize("around", [(), (Gzip(1),)], ids=["reachable", "with a codec around"])
def test_shards_within_shards(around: tuple[object, ...]) -> None:
    inner = ShardingIndexed([5, 10], [Bytes("little")], [Bytes("little")])
    codecs = [ShardingIndexed([10, 20], [inner, *around], None), *around]
    store = MemoryStore()
    array = frazil.create_array(store, data=VALUES, chunks=(20, 20), codecs=codecs)
    found = frazil.validate(store, decode=True)
    assert (found.ok, found.indexes, found.objects) == (True, 6 * 3, 6)
    if around:
        damaged(store, "c/0/1", 20, 10)
    else:
        damaged(store, "c/0/1", 4 * 200 + 4 * 16 - 1)  # the highest byte of the last entry of the first inner shard
    (problem,) = frazil.validate(array).problems
    assert (problem.kind, problem.key, problem.chunk) == ("index", "c/0/1", (0, 1))
    assert ("inner shard number 0" in problem.message) == (not around)


def test_values_that_cannot_be_fetched_are_reported_and_the_rest_is_checked() -> None:
    class Broken(BufferedStore):
        def fetch(self, names: Sequence[str], spans: Columns, **options: object) -> Fetched:
            if "c/0/1" in names and len(spans):
                raise StoreError("the disk is broken", key="c/0/1")
            return super().fetch(names, spans, **options)  # type: ignore[arg-type]

    store, _ = sharded()
    damaged(store, "c/1/2", len(store.get("c/1/2") or b"") - 1)
    assert [(kind, key) for kind, _, key, _ in kinds(Broken(store), decode=True)] == [
        ("store", "c/0/1"),
        ("index", "c/1/2"),
    ]


def test_chunks_are_read_only_on_request() -> None:
    store, array = sharded()
    counting = CountingStore(store)
    assert frazil.validate(counting).ok
    document = len(store.get("zarr.json") or b"")
    assert counting.bytes_read <= 2 * document + 6 * levels_of(array)[0].index_codecs.nbytes
    assert counting.count("put") == counting.count("erase") == 0


def test_a_limit_of_problems() -> None:
    store = MemoryStore()
    frazil.create_array(store, data=[1])
    for i in range(9):
        store.set(f"x{i}", b"")
    found = frazil.validate(store, limit=4)
    assert (len(found.problems), found.omitted, found.ok) == (4, 5, False)
    assert "9 problems" in str(found)
    assert "and 5 more problems" in str(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert json.loads(json.dumps(found.to_json()))["omitted"] == 5


def test_a_store_that_cannot_list(tmp_path: Path, web_server: WebServer) -> None:
    store = LocalStore(tmp_path / "a.zarr")
    frazil.copy(sharded()[0], store)
    store.erase("c/1/1")
    damaged(store, "c/1/2", len(store.get("c/1/2") or b"") - 1)
    store.set("notes.txt", b"")
    with web_server(tmp_path) as url:
        found = frazil.validate(f"{url}/a.zarr", decode=True)
    assert [(problem.kind, problem.chunk) for problem in found.problems] == [("index", (1, 2))]
    assert (found.unlisted, found.objects) == (True, 5)
    assert "cannot list" in str(found)


def test_a_repository(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="sea") as root:
        root.create_array("level1/sea", data=VALUES, chunks=(5, 10), shards=(20, 20))
        root.create_array("small", data=np.arange(3))
    found = frazil.validate(repo.readonly_session().root, decode=True)
    assert (found.ok, found.groups, found.arrays, found.objects, found.indexes) == (True, 2, 2, 7, 6)
    assert frazil.validate(tmp_path / "sea.repo@main", path="level1", decode=True).ok
    files = sorted((tmp_path / "sea.repo" / "chunks").rglob("*"), key=lambda path: path.stat().st_size)
    files[-1].write_bytes(files[-1].read_bytes()[:-1] + b"x")
    found = frazil.validate(tmp_path / "sea.repo@main")
    assert [problem.kind for problem in found.problems] == ["index"]
    files[-1].unlink()
    found = frazil.validate(tmp_path / "sea.repo@main", decode=True)
    assert {problem.kind for problem in found.problems} == {"store"}


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        frazil.validate(tmp_path / "nothing")
    store = copy_of(sharded()[0])
    for arguments in ({"decode": 1}, {"limit": 0}, {"progress": 3}):
        with pytest.raises(InvalidInputError):
            frazil.validate(store, **arguments)  # type: ignore[arg-type]


def test_problems_are_one_line() -> None:
    assert str(Problem("key", "a\nb", "x", "c\x1b", (1,))) == "key: /x: a\\nb (key c\\x1b, chunk (1,))"


def torn_array(folder: Path) -> tuple[frazil.Array, Path, bytes]:
    array = frazil.create_array(folder, data=VALUES, chunks=(10, 10), shards=(20, 30), shard_writes="append")
    shard = folder / "c/1/0"
    return array, shard, tear(shard)


def test_a_torn_shard_is_found_and_repaired(tmp_path: Path) -> None:
    _, shard, before = torn_array(tmp_path)
    for decode in (False, True):
        assert kinds(tmp_path, decode=decode) == [("torn", "", "c/1/0", (1, 0))]
    assert len(shard.read_bytes()) == len(before) + 400
    found = frazil.validate(tmp_path, decode=True, repair=True)
    assert found.ok
    assert [(one.kind, one.key, one.chunk) for one in found.repaired] == [("torn", "c/1/0", (1, 0))]
    assert json.loads(json.dumps(found.to_json()))["repaired"][0]["kind"] == "torn"
    assert "repaired: torn: /: an append to the shard was killed" in str(found)
    assert shard.read_bytes() == before
    assert not Path(f"{shard}{JOURNAL}").exists()
    assert frazil.validate(tmp_path, repair=True).repaired == ()


def test_repair_is_refused_where_nothing_is_changed_in_place() -> None:
    store = MemoryStore()
    frazil.create_array(store, data=VALUES, chunks=(10, 10), shards=(20, 30))
    with pytest.raises(InvalidInputError, match="only on a local disk"):
        frazil.validate(store, repair=True)


@pytest.mark.parametrize("reader", ["elements", "count", "shards", "convert", "copy"])
def test_every_reader_restores_a_torn_shard(tmp_path: Path, reader: str) -> None:
    _, shard, before = torn_array(tmp_path / "a")
    array = frazil.open_array(tmp_path / "a")
    if reader == "elements":
        assert (array[...] == VALUES).all()
    elif reader == "count":
        assert array.nchunks_initialized == 24
    elif reader == "shards":
        assert [found.error for found in frazil.shards(tmp_path / "a").shards] == [None] * 4
    elif reader == "convert":
        frazil.convert(tmp_path / "a", tmp_path / "b", zarr_format="draft")
        assert (frazil.open_array(tmp_path / "b")[...] == VALUES).all()
    else:
        frazil.copy(tmp_path / "a", tmp_path / "b")
        assert (frazil.open_array(tmp_path / "b")[...] == VALUES).all()
    assert shard.read_bytes() == before


@pytest.mark.parametrize("writable", [True, False])
def test_a_copy_of_a_torn_shard_names_the_append_and_is_repaired_on_request(tmp_path: Path, writable: bool) -> None:
    """The first reader of the copy removed the journal, which alone could restore it."""
    _, shard, before = torn_array(tmp_path / "a")
    subprocess.run(["cp", "-a", tmp_path / "a", tmp_path / "b"], check=True)
    shutil.rmtree(tmp_path / "a")
    copied = tmp_path / "b" / shard.relative_to(tmp_path / "a")
    array = frazil.open_array(
        tmp_path / "b", "r+" if writable else "r", shard_writes="append" if writable else "rewrite"
    )
    for read in (lambda: array[...], lambda: array[25, 3], lambda: array.vindex[[25, 26], [3, 4]]):
        with pytest.raises(ChecksumError, match=r"copied during an append.* validate --repair"):
            read()
    if writable:
        with pytest.raises(ChecksumError, match="copied during an append"):
            array[25, 3] = 5
    assert (array[:20] == VALUES[:20]).all()
    assert [found.error is None for found in frazil.shards(tmp_path / "b").shards] == [True, True, False, True]
    for decode in (False, True):
        assert kinds(tmp_path / "b", decode=decode) == [("torn", "", "c/1/0", (1, 0))]
    assert Path(f"{copied}{JOURNAL}").exists()
    found = frazil.validate(tmp_path / "b", decode=True, repair=True)
    assert (found.ok, [(one.kind, one.key) for one in found.repaired]) == (True, [("torn", "c/1/0")])
    assert copied.read_bytes() == before
    assert not Path(f"{copied}{JOURNAL}").exists()
    assert (frazil.open_array(tmp_path / "b")[...] == VALUES).all()


def torn_copy(folder: Path) -> Path:
    """A copy of an array in which an append to the shard c/1/0 is incomplete; the path of this shard."""
    _, shard, _ = torn_array(folder / "a")
    subprocess.run(["cp", "-a", folder / "a", folder / "b"], check=True)
    shutil.rmtree(folder / "a")
    return folder / "b" / shard.relative_to(folder / "a")


def test_a_journal_beside_a_good_shard_hides_no_other_damage(tmp_path: Path) -> None:
    """The error of one shard named another one."""
    shard = torn_copy(tmp_path)
    journal = Path(f"{shard}{JOURNAL}").read_bytes()
    assert frazil.validate(tmp_path / "b", repair=True).ok
    Path(f"{shard}{JOURNAL}").write_bytes(journal)  # of another file, by which a writer of another program replaced it
    other = tmp_path / "b/c/0/0"
    tear(other)
    array = frazil.open_array(tmp_path / "b", "r+", shard_writes="append")
    assert array.nchunks_initialized == 24  # the torn shard is restored
    tear(other)
    array[15:25, 0:3] = 7
    other.write_bytes(other.read_bytes()[:-1])
    Path(f"{shard}{JOURNAL}").write_bytes(journal)
    for do in (lambda: array[15:25, 0:3], lambda: array.nchunks_initialized, lambda: array.__setitem__(0, 1)):
        with pytest.raises((ChecksumError, FormatError)) as caught:
            do()
        assert caught.value.key == "c/0/0"
        assert "copied" not in str(caught.value)


@pytest.mark.parametrize("operation", ["copy", "convert"])
def test_a_torn_copy_is_not_copied_without_its_journal(tmp_path: Path, operation: str) -> None:
    torn_copy(tmp_path)

    def run() -> None:
        if operation == "copy":
            frazil.copy(tmp_path / "b", tmp_path / "c", overwrite=True)
        else:
            frazil.convert(tmp_path / "b", tmp_path / "c", zarr_format="draft", overwrite=True)

    with pytest.raises(ChecksumError, match="copied during an append"):
        run()
    assert frazil.validate(tmp_path / "b", repair=True).ok
    run()
    assert (frazil.open_array(tmp_path / "c")[...] == VALUES).all()


def test_a_torn_copy_that_cannot_be_read_keeps_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the system does not say whether the index is good."""
    shard = torn_copy(tmp_path)
    fetch = LocalStore.fetch

    def refused(store: LocalStore, names: Sequence[str], spans: Columns, **options: Any) -> Fetched:
        if "c/1/0" in names:
            raise StoreError("too many open files", errno=24)
        return fetch(store, names, spans, **options)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "fetch", refused)
        found = frazil.validate(tmp_path / "b", repair=True)
    assert ([one.kind for one in found.problems], found.repaired) == (["store"], ())
    assert Path(f"{shard}{JOURNAL}").exists()
    assert frazil.validate(tmp_path / "b", repair=True).ok


def test_a_copy_that_stays_damaged_is_not_called_repaired(tmp_path: Path) -> None:
    shard = torn_copy(tmp_path)
    damaged = bytearray(shard.read_bytes())
    damaged[-400 - 90] ^= 1  # in the old index, before the sample of the journal
    shard.write_bytes(damaged)
    found = frazil.validate(tmp_path / "b", repair=True)
    assert ([one.kind for one in found.problems], found.repaired) == (["index"], ())


def test_the_journal_of_another_file_restores_none_that_can_be_read(tmp_path: Path) -> None:
    """A shard replaced by a program that does not support journals, and which begins with the same bytes."""
    array, shard, before = torn_array(tmp_path)
    index = before[-(16 * 6 + 4) :]
    replaced = tmp_path / "new"
    replaced.write_bytes(before + b"waste" * 20 + index)
    replaced.rename(shard)
    assert (array[...] == VALUES).all()
    found = frazil.validate(tmp_path, decode=True, repair=True)
    assert (found.ok, found.repaired) == (True, ())
    assert shard.read_bytes() == before + b"waste" * 20 + index
    assert not Path(f"{shard}{JOURNAL}").exists()


def test_a_folder_that_cannot_be_listed_is_an_error_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(root: int, prefix: str) -> None:
        raise OSError(errno.EIO, "injected")

    frazil.create_array(tmp_path, data=np.arange(3))
    monkeypatch.setattr("frazil.operations.validate.validate.each_folder", fails)
    error = refusal(StoreError, lambda: frazil.validate(tmp_path))
    assert (error.errno, error.key) == (errno.EIO, "")


@pytest.mark.parametrize("shards", [None, (20, 30)])
def test_folders_in_place_of_chunks(tmp_path: Path, shards: tuple[int, int] | None) -> None:
    array = frazil.create_array(tmp_path, name="a", data=VALUES, chunks=(10, 10), shards=shards)
    assert kinds(tmp_path) == []
    (tmp_path / "a/c/1/1").unlink()
    (tmp_path / "a/c/1/1").mkdir()
    (tmp_path / "a/c/0/other").mkdir()
    for location in (tmp_path, array):
        assert kinds(location) == [("store", "a", "a/c/1/1", (1, 1))]
    with pytest.raises(StoreError, match=r"there is a folder at its key .*'a/c/1/1'.* Hint: "):
        array[...]
