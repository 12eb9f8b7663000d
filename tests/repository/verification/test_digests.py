"""Digests of files: every chunk file, manifest and attribute file that a session writes has one, a verification compares them, and a repair treats files that
differ as lost or damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil import _kernel
from frazil.errors import FormatError, InvalidInputError
from frazil.formats.ids import decode_id, encode_id
from frazil.formats.msgpack import pack
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store


def written(store: Store, file: Path) -> frazil.Repository:
    """Chunk files of each kind: large chunks, packs, files of forks, and an adopted file."""
    repo = frazil.Repository.create(store, chunk_digests="crc32c", durable=False)
    values = np.random.default_rng(0).random((8, 4096))
    with repo.transaction(message="large") as root:
        root.create_array("large", data=np.random.default_rng(1).random((2, 2**18)), chunks=(1, 2**18), codecs=[])
        root.create_array("small", data=values, chunks=(1, 512), codecs=[])
    session = repo.writable_session()
    fork = session.fork()
    fork.root["small"][2:4] = values[4:6]
    session.merge(fork)
    file.write_bytes(values[:1].tobytes())
    adopted = session.adopt_file(file)
    session.set_adopted_chunks("small", [[7, 0]], adopted, [0], [4096])
    session.commit("others")
    return repo


def digest(store: Store, key: str) -> bool:
    expected = int.from_bytes(decode_id(key.rpartition("/")[2])[-4:], "big")
    return _kernel.crc32c(store.get(key) or b"") == expected


@pytest.mark.parametrize("local", [True, False])
def test_every_chunk_file_has_a_digest(local: bool, tmp_path: Path) -> None:
    store: Store = LocalStore(tmp_path / "repo") if local else MemoryStore()
    repo = written(store, tmp_path / "file")
    keys = store.list_prefix("chunks/")
    assert len(keys) >= 4
    assert all(digest(store, key) for key in keys)
    steps: list[str] = []
    assert repo.verify(digests=True, progress=lambda step, _: steps.append(step)).ok
    assert "chunk files read" in steps
    for key in keys:
        data = bytearray(store.get(key) or b"")
        data[len(data) // 2] ^= 1
        store.set(key, bytes(data))
        assert repo.verify().ok
        found = repo.verify(digests=True)
        assert {problem.kind for problem in found.problems} <= {"digest"}
        if found.problems:  # otherwise nothing refers to it any more
            assert all(problem.chunks is not None and len(problem.chunks) for problem in found.problems)
            done = repo.repair(digests=True, dry_run=True)
            assert done.lost
            assert {entry.path for entry in done.lost} <= {problem.path for problem in found.problems}
        data[len(data) // 2] ^= 1
        store.set(key, bytes(data))
    assert repo.verify(digests=True, decode=True).ok


def test_a_file_that_is_read_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("frazil.repository.verification.digests._BATCH_BYTES", 1000)
    monkeypatch.setattr("frazil.repository.session.chunk_ids._PART", 777)
    store = MemoryStore()
    repo = written(store, tmp_path / "file")
    assert all(digest(store, key) for key in store.list_prefix("chunks/"))
    assert repo.verify(digests=True).ok


def test_a_repair_gives_up_what_a_digest_shows(tmp_path: Path) -> None:
    store = MemoryStore()
    repo = written(store, tmp_path / "file")
    key = max(store.list_prefix("chunks/"), key=lambda key: len(store.get(key) or b""))
    data = bytearray(store.get(key) or b"")
    data[5] ^= 64
    store.set(key, bytes(data))
    done = repo.repair(digests=True, accept_loss=True)
    assert done.lost
    assert repo.verify(digests=True, history=False).ok


def rewritten(store: Store, *, digests: bool = True) -> tuple[Store, dict[str, str]]:
    """Three commits of one array with the same chunks, and attributes in a file of their own: the manifest of each commit has the same node and box. Also
    returns the key of the manifest and of the attribute file of each."""
    repo = frazil.Repository.create(
        store,
        chunk_digests="crc32c" if digests else None,
        durable=False,
        attributes_file_bytes=100,
        chunk_packing="off",
    )
    keys: dict[str, str] = {}
    for number in range(3):
        before = set(store.list_prefix("manifests/")) | set(store.list_prefix("attributes/"))
        with repo.transaction(message=f"commit {number}") as root:
            array = root.require_array("a", shape=(4000,), dtype="f8", chunks=(1000,), codecs=[])
            array[:] = np.arange(4000.0) + number
            root.attrs["about"] = str(number) * 200
        for key in {*store.list_prefix("manifests/"), *store.list_prefix("attributes/")} - before:
            keys[f"{key.partition('/')[0]} {number}"] = key
    return store, keys


@pytest.mark.parametrize("local", [True, False])
def test_every_manifest_and_attribute_file_has_a_digest(local: bool, tmp_path: Path) -> None:
    store, keys = rewritten(LocalStore(tmp_path / "r") if local else MemoryStore())
    repo = frazil.Repository.open(store)
    assert len(keys) == 6
    assert all(digest(store, key) for key in keys.values())
    assert repo.verify().ok
    with repo.transaction(message="of forks") as root:
        root["a"][:500] = 0
    assert all(digest(store, key) for key in store.list_prefix("manifests/"))
    assert repo.verify(digests=True).ok


def replaced(store: Store, keys: dict[str, str], damage: str, kind: str = "manifests") -> frazil.Repository:
    """Damages the newest file of a kind so that it still is a valid one, and opens the repository again."""
    key = keys[f"{kind} 2"]
    value = store.get(keys[f"{kind} 1"]) or b""
    if damage == "flip":  # of one letter in the id of a chunk file
        data = bytearray(store.get(key) or b"")
        texts = [chunk.rpartition("/")[2] for chunk in store.list_prefix("chunks/")]
        at = max(data.find(text.encode()) for text in texts)
        data[at + 3] = ord("Z") if data[at + 3] != ord("Z") else ord("X")
        value = bytes(data)
    store.set(key, value)
    return frazil.Repository.open(store)


@pytest.mark.parametrize("kind", ["manifests", "attributes"])
def test_another_valid_file_is_found(kind: str) -> None:
    store, keys = rewritten(MemoryStore())
    assert (
        not replaced(*rewritten(MemoryStore(), digests=False), "swap", kind).verify().problems
    )  # why there are digests
    repo = replaced(store, keys, "swap", kind)
    found = repo.verify()
    assert [(one.kind, one.key) for one in found.problems] == [
        ("manifest" if kind == "manifests" else kind, keys[f"{kind} 2"])
    ]
    assert "other bytes" in found.problems[0].text


@pytest.mark.parametrize("damage", ["swap", "flip"])
def test_a_repair_rebuilds_such_a_manifest(damage: str) -> None:
    store, keys = rewritten(MemoryStore())
    repo = replaced(store, keys, damage)
    assert {one.kind for one in repo.verify().problems} >= {"manifest"}
    with pytest.raises(FormatError, match="other bytes"):
        repo.garbage_collect(now=True)
    done = repo.repair()
    assert not done.lost
    assert [entry.kind for entry in done.repaired] == ["chunks"]
    repo = frazil.Repository.open(store)
    assert np.array_equal(repo.readonly_session().root["a"][:], np.arange(4000.0) + 1)
    assert repo.readonly_session().root.attrs["about"] == "2" * 200
    assert repo.verify(history=False, digests=True, decode=True).ok
    assert repo.repair(history=True).ok
    repo.garbage_collect(now=True)
    assert repo.verify(digests=True, decode=True).ok


def test_commits_of_versions_without_digests_of_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    """They copy flags, also the parent's digest, and give random ids. Their files, and those of all later commits, are not compared."""
    store, _ = rewritten(MemoryStore())
    repo = frazil.Repository.open(store)
    with monkeypatch.context() as older:
        older.setattr("frazil.repository.alpha.new_snapshot.has_file_digests", lambda _: False)
        older.setattr("frazil.formats.alpha.snapshots.DIGEST_FLAG", "frazil.other")
        with repo.transaction(message="older version") as root:
            root["a"][:] = 5
    with repo.transaction(message="this version") as root:
        root["a"][1000:2000] = 6
    assert not all(digest(store, key) for key in store.list_prefix("manifests/"))
    assert frazil.Repository.open(store).verify(digests=True, decode=True).ok


def test_snapshots_of_versions_that_gave_them_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not compared. The next commit has a digest."""
    with monkeypatch.context() as older:
        for module in ("new_snapshot", "snapshot_flags"):
            older.setattr(
                f"frazil.repository.alpha.{module}.with_file_digests",
                lambda flags, snapshot: {**flags, "frazil.file_digests": pack(encode_id(snapshot))},
            )
        store, _ = rewritten(MemoryStore())
    repo = frazil.Repository.open(store)
    assert repo.verify(digests=True, decode=True).ok
    repo.garbage_collect(now=True)
    with repo.transaction(message="this version") as root:
        root["a"][1000:2000] = 6
    repo = frazil.Repository.open(store)
    assert repo.verify(digests=True, decode=True).ok
    key = f"snapshots/{repo.lookup_branch('main')}"
    data = bytearray(store.get(key) or b"")
    data[data.index(b"this version")] ^= 1
    store.set(key, bytes(data))
    assert {problem.kind for problem in frazil.Repository.open(store).verify().problems} == {"snapshot"}


def test_repositories_without_digests_refuse_to_verify_them() -> None:
    repo = frazil.Repository.create(MemoryStore())
    with pytest.raises(InvalidInputError, match="no digests"):
        repo.verify(digests=True)
    with pytest.raises(InvalidInputError, match="chunk_digests"):
        frazil.Repository.create(MemoryStore(), chunk_digests="md5")
    with pytest.raises(InvalidInputError, match="chunk_digests"):
        frazil.Repository.create(MemoryStore(), chunk_digests="crc32c", compatible="alpha-library")
    store = MemoryStore()
    for _ in range(2):
        again = frazil.Repository.open_or_create(store, chunk_digests="crc32c")
        assert again.verify(digests=True).ok


def test_a_changed_letter_in_a_snapshot() -> None:
    """Attributes, messages and shapes are in snapshots, and no id of a snapshot ends in a digest: it contains one."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_digests="crc32c")
    for number in range(3):
        with repo.transaction(message=f"commit {number}") as root:
            root.attrs["unit"] = f"metre {number}"
    ids = [one.id for one in repo.history()]
    assert repo.verify().ok
    for identity in ids[:3]:
        key = f"snapshots/{identity}"
        value = store.get(key) or b""
        for text in (b"metre", b"commit"):
            store.set(key, value[: (at := value.rfind(text))] + b"M" + value[at + 1 :])
            found = frazil.Repository.open(store).verify()
            assert ("snapshot", identity, key) in {(one.kind, one.snapshot, one.key) for one in found.problems}
            store.set(key, value)
    tip = f"snapshots/{ids[0]}"
    value = store.get(tip) or b""
    store.set(tip, value.replace(b"metre", b"Metre"))
    assert frazil.Repository.open(store).repair().created == {"main-repaired": ids[1]}
    done = frazil.Repository.open(store).repair(tips=True)
    assert (dict(done.moved), done.created["main-damaged"]) == ({"main": ids[1]}, ids[0])
    again = frazil.Repository.open(store).repair(tips=True)
    assert (dict(again.moved), dict(again.created)) == ({}, {})
    store.set(tip, value)
    assert frazil.Repository.open(store).verify(digests=True).ok


def test_every_changed_bit_of_a_snapshot_is_found() -> None:
    """Also in its flags, which contain the digest. A collection is refused: chunks that only the original snapshot leads to would be garbage."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_digests="crc32c")
    with repo.transaction(message="first") as root:
        root.attrs["unit"] = "metre"
    key = f"snapshots/{repo.lookup_branch('main')}"
    value = store.get(key) or b""
    for at in range(len(value)):
        store.set(key, value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])
        damaged = frazil.Repository.open(store)
        assert damaged.verify().problems, at
        with pytest.raises(FormatError):
            damaged.garbage_collect(now=True)
    store.set(key, value)
    assert frazil.Repository.open(store).verify().ok
    frazil.Repository.open(store).garbage_collect(now=True)


def test_a_changed_snapshot_is_found_beside_other_damage() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_digests="crc32c", chunk_packing="off")
    with repo.transaction(message="first") as root:
        root.create_array("a", data=np.arange(4000.0), chunks=(1000,), codecs=[])
        root.attrs["unit"] = "metre"
    key = f"snapshots/{repo.lookup_branch('main')}"
    store.set(key, (store.get(key) or b"").replace(b"metre", b"mitre"))
    store.erase(store.list_prefix("chunks/")[0])
    kinds = {problem.kind for problem in frazil.Repository.open(store).verify().problems}
    assert kinds == {"missing", "snapshot"}
    done = frazil.Repository.open(store).repair(accept_loss=True)
    assert not done.commits
