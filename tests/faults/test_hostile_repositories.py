"""Repositories whose files were cut, swapped, lost or forged: an error that names the file, and the array and chunk if they are known; never the fill value.
Intact parts stay readable."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from tests.formats.documents import encoded_snapshot

import frazil
from frazil.errors import DataError, FormatError, FrazilError, InvalidInputError, NotFoundError, StoreError
from frazil.formats.alpha.manifests import decode_manifest, encode_manifest
from frazil.formats.alpha.snapshots import SnapshotFile, decode_snapshot
from frazil.formats.ids import decode_id, encode_id
from frazil.formats.manifests import NATIVE
from frazil.formats.nodes import NodeSnapshot
from frazil.formats.snapshots import SnapshotInfo
from frazil.stores import MemoryStore

LARGE = 2**20 + 2**10
ARRAYS: dict[str, dict[str, object]] = {
    "large": {"shape": (2 * LARGE,), "chunks": (LARGE,), "dtype": "u1", "codecs": ["bytes"]},
    "packed": {"shape": (4, 900), "chunks": (1, 900), "dtype": "u1", "codecs": ["bytes"]},
    "sharded": {"shape": (64, 64), "chunks": (8, 8), "shards": (32, 32), "dtype": "i4", "codecs": ["bytes"]},
    "encoded": {"shape": (4000,), "chunks": (2000,), "dtype": "f8"},
}
READS: dict[str, Callable[[frazil.Array], object]] = {
    "all": lambda array: array[...],
    "one": lambda array: array[(1,) * array.ndim],
    "few": lambda array: array[(slice(1, 3),) * array.ndim],
    "points": lambda array: array.vindex[tuple([[0, 1]] * array.ndim)],
    "write": lambda array: array.__setitem__((slice(1, 2),) * array.ndim, 3),
    "block": lambda array: array.blocks[(0,) * array.ndim],
}


def make(compatible: str | None = None) -> tuple[MemoryStore, frazil.Repository]:
    """Each array has its own manifest, and no inline chunks."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible=compatible)
    for name, arguments in ARRAYS.items():
        with repo.transaction(message=name) as root:
            array = root.create_array(name, fill_value=0, **arguments)  # type: ignore[arg-type]
            rng = np.random.default_rng(1)
            array[...] = rng.integers(1, 200, array.shape)
    return store, frazil.Repository.open(store)


def node_of(store: MemoryStore, path: str) -> NodeSnapshot:
    repo = frazil.Repository.open(store)
    key = f"snapshots/{repo.lookup('main')}"
    node = decode_snapshot(store.get(key) or b"", key).nodes.get(f"/{path}")
    assert isinstance(node, NodeSnapshot)
    return node


def manifest_key_of(store: MemoryStore, path: str) -> str:
    node = node_of(store, path)
    assert node.array is not None
    (manifest,) = node.array.manifests
    return f"manifests/{encode_id(manifest.id)}"


def chunk_keys_of(store: MemoryStore, path: str) -> list[str]:
    key = manifest_key_of(store, path)
    manifest = decode_manifest(store.get(key) or b"", key)
    rows = np.flatnonzero((manifest.nodes == node_of(store, path).id) & (manifest.kinds == NATIVE))
    return sorted({f"chunks/{encode_id(manifest.ids[i].tobytes())}" for i in rows.tolist()})


def check_others(store: MemoryStore, name: str) -> None:
    root = frazil.Repository.open(store).readonly_session().root
    assert sorted(root) == sorted(ARRAYS)
    for other in ARRAYS.keys() - {name}:
        assert (root[other][...] > 0).all()  # type: ignore[call-overload]


def refused(store: MemoryStore, name: str, key: str, *kinds: type[FrazilError]) -> None:
    """Every read of the array fails and names the place; so does a write that needs the old data."""
    for how, read in READS.items():
        session = frazil.Repository.open(store).writable_session()
        array = session.root[name]
        assert isinstance(array, frazil.Array)
        with pytest.raises(kinds) as caught:
            read(array)
        error = caught.value
        assert isinstance(error, FrazilError)
        assert error.key == key, how
        assert (error.path or "").strip("/") == name, how
    check_others(store, name)


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
@pytest.mark.parametrize("name", ARRAYS)
def test_a_chunk_file_that_is_lost_or_cut(name: str, compatible: str | None) -> None:
    store, _ = make(compatible)
    keys = chunk_keys_of(store, name)
    whole = {key: store.get(key) or b"" for key in keys}
    for key in keys:
        store.erase(key)
    for how, read in READS.items():
        array = frazil.Repository.open(store).writable_session().root[name]
        with pytest.raises((StoreError, DataError, NotFoundError)) as caught:
            read(array)  # type: ignore[arg-type]
        assert caught.value.key in keys, how  # type: ignore[attr-defined]
        assert (caught.value.path or "").strip("/") == name, how  # type: ignore[attr-defined]
        if name == "large" or compatible:  # a pack holds many chunks
            assert caught.value.chunk is not None, how  # type: ignore[attr-defined]
    check_others(store, name)
    for kept in (0, 1, 40):
        for key in keys:
            store.set(key, whole[key][:kept])
        for how in ("all", "few", "one", "points", "block"):
            array = frazil.Repository.open(store).readonly_session().root[name]
            with pytest.raises((StoreError, DataError)) as caught:
                READS[how](array)  # type: ignore[arg-type]
            assert caught.value.key in keys, how  # type: ignore[attr-defined]
            assert (caught.value.path or "").strip("/") == name, how  # type: ignore[attr-defined]
    for key in keys:
        store.set(key, whole[key])
    check_others(store, "none")


@pytest.mark.parametrize("name", ARRAYS)
def test_a_manifest_that_is_lost_or_another_file(name: str) -> None:
    store, repo = make()
    key = manifest_key_of(store, name)
    whole = store.get(key) or b""
    store.erase(key)
    refused(store, name, key, NotFoundError, StoreError)
    snapshot = store.get(f"snapshots/{repo.lookup('main')}") or b""
    for data in (b"", whole[:1], whole[: len(whole) // 2], whole[:-1], whole + b"x", snapshot, b"\xc1" * 50):
        store.set(key, data)
        refused(store, name, key, FormatError)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("column", ["lengths", "offsets"])
def test_a_reference_beyond_its_file(name: str, column: str) -> None:
    store, _ = make()
    key = manifest_key_of(store, name)
    manifest = decode_manifest(store.get(key) or b"", key)
    for more in (2**24, 2**40, 2**62):
        changed = getattr(manifest, column) + more
        store.set(key, bytes(memoryview(encode_manifest(manifest._replace(**{column: changed})))))
        for how in ("all", "few", "one", "points", "block"):
            array = frazil.Repository.open(store).readonly_session().root[name]
            with pytest.raises((StoreError, DataError)) as caught:
                READS[how](array)  # type: ignore[arg-type]
            error = caught.value
            assert error.key in (key, *chunk_keys_of(store, name)), how  # type: ignore[attr-defined]
            assert (error.path or "").strip("/") == name, how  # type: ignore[attr-defined]
        check_others(store, name)


def test_a_snapshot_that_is_lost_or_another_file() -> None:
    store, repo = make()
    key = f"snapshots/{repo.lookup('main')}"
    whole = store.get(key) or b""
    manifest = store.get(manifest_key_of(store, "large")) or b""
    for data in (b"", whole[:3], whole[: len(whole) // 2], whole[:-1], manifest, b"\xdd\xff\xff\xff\xff" * 9):
        store.set(key, data)
        with pytest.raises(FormatError) as caught:
            frazil.Repository.open(store).readonly_session()
        assert caught.value.key == key
    store.erase(key)
    with pytest.raises(NotFoundError) as lost:
        frazil.Repository.open(store).readonly_session()
    assert lost.value.key == key
    older = frazil.Repository.open(store)
    assert older.branches == ["main"]


def with_history(snapshot: SnapshotFile, history: tuple[SnapshotInfo, ...], total: int) -> bytes:
    return bytes(encoded_snapshot(snapshot._replace(history=history, total_parents=total)))


def test_histories_that_go_in_circles() -> None:
    store, repo = make()
    tip = repo.lookup("main")
    key = f"snapshots/{tip}"
    snapshot = decode_snapshot(store.get(key) or b"", key)
    info = snapshot.metadata
    parent = snapshot.history[0]
    for history, total in (((info,), 5), ((parent, info), 9), ((), 3), ((parent, parent), 2), ((parent,), 2**31)):
        store.set(key, with_history(snapshot, history, total))
        opened = frazil.Repository.open(store)
        found: list[str] = []
        with suppress(FormatError):
            found += (commit.id for commit in opened.history())
        assert len(found) == len(set(found)) <= 9
        assert (opened.readonly_session().root["packed"][...] > 0).all()  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"null", b'{"snapshot": "../../x"}', b'{"snapshot": 5}', b"\xff" * 9, b"{}" * 40_000]
)
def test_invalid_branch_files_are_refused(data: bytes) -> None:
    store, _ = make()
    key = min(key for key in store.list_prefix("refs/branch.main/") if key.endswith(".json"))
    store.set(key, data)
    repo = frazil.Repository.open(store)
    for act in (repo.readonly_session, repo.writable_session, lambda: list(repo.history())):
        with pytest.raises(FormatError) as caught:
            act()  # type: ignore[operator]
        assert caught.value.key == key
    assert repo.branches == ["main"]


@pytest.mark.parametrize("name", ["a/b", "../main", "..", ".", "", "a\0b", "/", "x/", "\ud800", "main/../../x"])
def test_names_that_would_climb(name: str) -> None:
    store, repo = make()
    tip, keys = repo.lookup("main"), store.list()
    for act in (
        lambda: repo.create_branch(name, tip),
        lambda: repo.create_tag(name, tip),
        lambda: repo.writable_session(name),
        lambda: repo.readonly_session(tag=name),
        lambda: repo.reset_branch(name, tip),
        lambda: repo.delete_branch(name),
    ):
        with pytest.raises((InvalidInputError, NotFoundError)):
            act()  # type: ignore[no-untyped-call]
    assert store.list() == keys


def test_an_invalid_node_does_not_hide_others() -> None:
    store, repo = make()
    key = f"snapshots/{repo.lookup('main')}"
    data = store.get(key) or b""
    at = data.index(b"bytes", data.index(b"/packed"))
    store.set(key, data[:at] + b"\xc1" * 5 + data[at + 5 :])
    root = frazil.Repository.open(store).readonly_session().root
    with pytest.raises(FrazilError) as caught:
        root["packed"]
    assert (caught.value.path or "").strip("/") == "packed"
    for other in ARRAYS.keys() - {"packed"}:
        assert (root[other][...] > 0).all()  # type: ignore[call-overload]


def test_ids_are_no_paths() -> None:
    for text in ("../../../../../etc/pass", "0" * 19, "0" * 21, "U" * 20, ""):
        with pytest.raises((FormatError, InvalidInputError)):
            decode_id(text)


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
def test_a_snapshot_with_the_content_of_another(compatible: str | None) -> None:
    """It has its own id in it: without a look at that, a swapped tip reads as another commit, and a collection removes what the tip alone needs. Of the alpha
    library the first snapshot has another id than its file: any snapshot could have its content in such a repository."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off", compatible=compatible)  # type: ignore[arg-type]
    for number in range(4):
        with repo.transaction(message=str(number)) as root:
            root.create_array(f"a{number}", data=np.full((4, 256), number), chunks=(1, 256), codecs=["bytes"])
    ids = [commit.id for commit in repo.history()]
    whole = {key: store.get(key) or b"" for key in store.list()}
    for one, other in ((0, 1), (0, 2), (1, 2), (0, 4)):
        keys = f"snapshots/{ids[one]}", f"snapshots/{ids[other]}"
        store.set(keys[0], whole[keys[1]])
        store.set(keys[1], whole[keys[0]])
        opened = frazil.Repository.open(store)
        for index in {one, other} - {4}:  # the first snapshot says nothing of its own
            with pytest.raises(FormatError, match="content of another snapshot") as caught:
                opened.readonly_session(snapshot=ids[index])
            assert caught.value.key == f"snapshots/{ids[index]}"
        with pytest.raises(FormatError):
            opened.garbage_collect(now=True)
        assert {problem.key for problem in opened.verify().problems} >= {keys[0]}
        for key, value in whole.items():
            store.set(key, value)
    opened = frazil.Repository.open(store)
    opened.garbage_collect(now=True)
    assert opened.verify(decode=True).ok
    assert sorted(opened.readonly_session().root) == ["a0", "a1", "a2", "a3"]


def test_a_manifest_with_the_content_of_another() -> None:
    """The snapshot says how many references of the array it has, and where: without a look at that, the chunks read as fill value, or as older ones."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    for number in range(3):
        with repo.transaction(message=str(number)) as root:
            root.create_array(f"a{number}", data=np.full((4, 256), number + 1), chunks=(1, 256), codecs=["bytes"])
    with repo.transaction(message="one chunk") as root:
        root["a0"][2] = 9
    with repo.transaction(message="another chunk") as root:
        root["a1"][3] = 8
    whole = {key: store.get(key) or b"" for key in store.list_prefix("manifests/")}
    right = {name: array[...] for name, array in repo.readonly_session().root.items()}  # type: ignore[index, union-attr]
    refused: list[tuple[str, str | None]] = []
    for key, value in whole.items():
        for other in whole.keys() - {key}:
            store.set(key, whole[other])
            root = frazil.Repository.open(store).readonly_session().root
            for name, values in right.items():
                for at in (slice(None), 3):
                    try:
                        assert np.array_equal(root[name][at], values[at])  # type: ignore[index]
                    except FormatError as error:
                        refused.append((key, error.key))
            store.set(key, value)
    assert refused
    assert all(key == reported for key, reported in refused)


def test_a_commit_over_a_manifest_with_the_content_of_another() -> None:
    """It would merge the wrong references into its own: it is refused, and nothing is committed."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    for number in range(2):
        with repo.transaction(message=str(number)) as root:
            root.create_array(f"a{number}", data=np.full((8, 256), number + 1), chunks=(1, 256), codecs=["bytes"])
    with repo.transaction(message="one chunk") as root:
        root["a0"][2] = 9
    one, other = manifest_of(store, "a0"), manifest_key_of(store, "a1")
    whole = store.get(one) or b""
    store.set(one, store.get(other) or b"")
    before = repo.lookup("main")
    session = frazil.Repository.open(store).writable_session()
    session.root["a0"][5] = 4
    with pytest.raises(FormatError, match="references of the array"):
        session.commit("over it")
    assert repo.lookup("main") == before
    store.set(one, whole)
    assert np.array_equal(frazil.Repository.open(store).readonly_session().root["a0"][2], np.full(256, 9))


@pytest.mark.parametrize("change", ["commit", "rebase", "diff"])
def test_a_manifest_with_as_many_references_of_other_chunks(change: str) -> None:
    """A commit made these references permanent, and a rebase overwrote the chunk that another writer had committed."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    with repo.transaction(message="0") as root:
        root.create_array("a", data=np.full((64, 256), 1), chunks=(1, 256), codecs=["bytes"])
    base = repo.lookup("main")
    repo.create_branch("dev", base)
    early = frazil.Repository.open(store).writable_session()
    early.root["a"][2] = 7
    with repo.transaction(message="one") as root:
        root["a"][2] = 9
    one = manifest_of(store, "a")
    before = set(store.list_prefix("manifests/"))
    with repo.transaction("dev", message="other") as root:
        root["a"][5] = 8
    (other,) = set(store.list_prefix("manifests/")) - before
    whole = store.get(one) or b""
    store.set(one, store.get(other) or b"")
    again = frazil.Repository.open(store)
    with pytest.raises(FormatError, match="references of other chunks") as caught:
        if change == "commit":
            late = again.writable_session()
            late.root["a"][6] = 4
            late.commit("over it")
        elif change == "rebase":
            early.commit("mine", rebase="disjoint")
        else:
            again.diff(base, again.lookup("main"))
    assert caught.value.key == one
    store.set(one, whole)
    assert frazil.Repository.open(store).readonly_session().root["a"][:8, 0].tolist() == [1, 1, 9, 1, 1, 1, 1, 1]


def manifest_of(store: MemoryStore, path: str) -> str:
    """The newest manifest of an array."""
    array = node_of(store, path).array
    assert array is not None
    return f"manifests/{encode_id(array.manifests[0].id)}"
