"""Statements of the document about whole repositories, line by line: what is read and written, in which order, and what never changes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    DataError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
)
from frazil.formats.alpha.snapshots import decode_snapshot
from frazil.formats.ids import decode_id
from frazil.repository.alpha.alpha_library import GUARD
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.testing import CountingStore
from tests.conformance.alpha.library import unpack
from tests.conformance.alpha.repositories import contents, filled

FOLDERS = ("refs/", "snapshots/", "attributes/", "manifests/", "chunks/")


def references(store: MemoryStore) -> list[dict[str, object]]:
    """The payloads of all manifests."""
    return [payload for key in store.list_prefix("manifests/") for payload in unpack(store.get(key) or b"")[2].values()]


# --- files and storage -------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I27", "I44", "I52", "I60")
@pytest.mark.parametrize("options", [{}, {"compatible": "alpha-library"}, {"attributes_file_bytes": 10}])
def test_files_are_written_once_and_never_changed(options: dict[str, object]) -> None:
    store = MemoryStore()
    repo = filled(store, **options)
    for number in range(20):
        before = contents(store)
        with repo.transaction(message=str(number)) as root:
            root["a"][number * 50 : number * 50 + 60] = number
            root["b"].attrs["text"] = "x" * number
            if number % 5 == 0:
                root["a"].resize((2000 + number, 2))
        after = contents(store)
        assert before.items() <= after.items()
        assert all(key.startswith(FOLDERS) for key in after)
        new = sorted(after.keys() - before.keys())
        assert [key[:5] for key in new if key.startswith(("snap", "refs"))] == ["refs/", "snaps"], (
            "one of each a commit"
        )


@pytest.mark.rule("I117", "I119")
def test_a_repository_is_below_its_root(tmp_path: Path) -> None:
    for name in ("one", "two/deep"):
        repo = frazil.Repository.create(tmp_path / name, durable=False)
        with repo.transaction(message="first") as root:
            root.attrs["name"] = name
    for name in ("one", "two/deep"):
        assert frazil.Repository.open(tmp_path / name).readonly_session().root.attrs["name"] == name
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["refs", "snapshots"]


@pytest.mark.rule("I46", "I66", "I67", "I68", "I289", "I293", "I297")
def test_a_read_goes_from_the_branch_to_the_chunk() -> None:
    """Branch file, snapshot, the required manifest, and of a file with several chunks only the requested part."""
    inner = MemoryStore()
    filled(inner)
    store = CountingStore(inner)
    repo = frazil.Repository.open(store)
    store.clear()
    assert repo.readonly_session().root["a"][1500, 1] == 1
    fetched = [request for request in store.requests if request.operation == "fetch"]
    assert [request.key.partition("/")[0] for request in fetched] == ["refs", "snapshots", "manifests", "chunks"]
    chunk = fetched[-1]
    assert inner.sizes([chunk.key]).tolist() == [4 * 4000]
    assert (chunk.nbytes, chunk.start % 4000) == (4000, 0)
    assert len(inner.list_prefix("chunks/")) == 1


@pytest.mark.rule("I64", "I70", "I71", "I334", "I335", "I336", "I337", "I338")
def test_a_commit_writes_the_branch_file_last() -> None:
    store = CountingStore(MemoryStore())
    repo = filled(store)
    session = repo.writable_session()
    session.root["a"][0, 0] = 9
    store.clear()
    identity = session.commit("second")
    put = [request.key for request in store.requests if request.operation == "put"]
    assert [key.partition("/")[0] for key in put] == ["chunks", "manifests", "snapshots", "refs"]
    assert put[2:] == [f"snapshots/{identity}", "refs/branch.main/ZZZZZZZX.json"]
    assert json.loads(store.get(put[3]) or b"") == {"snapshot": identity}


@pytest.mark.rule("I47")
def test_files_of_a_lost_race_are_removed() -> None:
    store = MemoryStore()
    repo = filled(store)
    session, other = repo.writable_session(), repo.writable_session()
    session.root["b"][0] = 5
    other.root["b"][0] = 6
    other.commit("theirs")
    before = contents(store)
    with pytest.raises(ConflictError):
        session.commit("ours")
    assert contents(store) == before
    session.discard()
    assert contents(store) == before


# --- references --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I134", "I135", "I137", "I138", "I139", "I141", "I142", "I143")
def test_branches_move_and_tags_do_not() -> None:
    repo = filled(MemoryStore())
    first = repo.lookup("main")
    assert (repo.branches, repo.tags) == (["main"], [])
    repo.create_branch("dev", "main")
    repo.create_tag("v1", "main")
    for branch, value in (("main", 3), ("dev", 4)):
        with repo.transaction(branch, message="more") as root:
            root["b"][0] = value
    assert [repo.readonly_session(name).root["b"][0] for name in ("main", "dev")] == [3, 4]
    assert repo.readonly_session(tag="v1").root["b"][0] == 2
    assert repo.writable_session().branch == "main"
    repo.reset_branch("dev", first)
    assert repo.lookup_branch("dev") == repo.lookup_tag("v1") == first


@pytest.mark.rule("I140", "I303")
def test_a_repository_is_where_main_is() -> None:
    store = MemoryStore()
    assert not frazil.Repository.exists(store)
    repo = frazil.Repository.create(store)
    snapshot, branch, _ = sorted(store.list(), reverse=True)
    assert branch == "refs/branch.main/ZZZZZZZZ.json"
    found = decode_snapshot(store.get(snapshot) or b"")
    assert (len(found.nodes), found.total_parents, found.history) == (0, 0, ())
    assert frazil.Repository.exists(store)
    with pytest.raises(InvalidInputError, match="main"):
        repo.delete_branch("main")
    repo.create_branch("dev", "main")
    store.erase(branch)
    assert not frazil.Repository.exists(store)
    with pytest.raises(NotFoundError):
        frazil.Repository.open(store)


@pytest.mark.rule("I144", "I209", "I210", "I211", "I343", "I346", "I347", "I348")
def test_tags_are_made_once() -> None:
    store = MemoryStore()
    repo = filled(store)
    older = list(repo.history())[1].id
    repo.create_tag("old", older)
    repo.create_tag("new", "main")
    before = contents(store)
    for target in (older, "main", "old"):
        with pytest.raises(AlreadyExistsError):
            repo.create_tag("new", target)
    assert contents(store) == before
    assert json.loads(before["refs/tag.old/ref.json"]) == {"snapshot": older}


@pytest.mark.rule("I213")
def test_tags_are_never_deleted() -> None:
    """No operation does it, not even as a side effect. The tag outlives its branch."""
    store = MemoryStore()
    repo = filled(store)
    repo.create_branch("dev", "main")
    repo.create_tag("v1", "dev")
    key = "refs/tag.v1/ref.json"
    value = store.get(key)
    with repo.transaction("dev", message="more") as root:
        del root["a"]
    repo.reset_branch("dev", list(repo.history())[-1].id)
    repo.delete_branch("dev")
    repo.create_branch("v1", "main")
    repo.delete_branch("v1")
    repo.writable_session().discard()
    assert store.get(key) == value
    assert repo.tags == ["v1"]
    assert repo.readonly_session(tag="v1").root["a"][0, 0] == 1
    with pytest.raises(InvalidInputError, match="cannot be deleted"):
        repo.delete_tag("v1")
    assert store.get(key) == value


@pytest.mark.rule("I345")
def test_a_tag_is_made_of_a_snapshot_that_can_be_read() -> None:
    store = MemoryStore()
    repo = filled(store)
    first, second = (commit.id for commit in list(repo.history())[:2])
    store.erase(f"snapshots/{second}")
    before = contents(store)
    for target in ("00000000000000000000", second):
        with pytest.raises(NotFoundError):
            frazil.Repository.open(store).create_tag("v1", target)
    store.set(f"snapshots/{second}", b"\xc1damaged")
    with pytest.raises(DataError):
        frazil.Repository.open(store).create_tag("v1", second)
    assert contents(store).keys() - before.keys() == {f"snapshots/{second}"}
    frazil.Repository.open(store).create_tag("v1", first)
    assert repo.lookup_tag("v1") == first


@pytest.mark.rule(
    "I72", "I73", "I147", "I148", "I165", "I166", "I167", "I179", "I180", "I181", "I182", "I183", "I333", "I339"
)
def test_two_sessions_cannot_get_the_same_number() -> None:
    store = CountingStore(MemoryStore())
    repo = filled(store)
    one, other = repo.writable_session(), repo.writable_session()
    assert one.snapshot_id == other.snapshot_id == repo.lookup("main")
    one.root["a"][0, 0], other.root["b"][0] = 3, 4
    assert one.root["b"][0] == 2
    first = one.commit("first")
    assert repo.lookup("main") == first
    store.clear()
    with pytest.raises(ConflictError):
        other.commit("second")
    keys = [request.key for request in store.requests if request.key.endswith(".json")]
    assert set(keys) == {f"refs/branch.main/ZZZZZZZ{last}.json" for last in "WXY"}
    assert store.count("put") == 0, "the next file is there, so nothing is written"
    assert repo.lookup("main") == first
    second = other.commit("second", rebase="disjoint")
    assert branch_files(store) == [f"ZZZZZZZ{last}.json" for last in "WXYZ"]
    assert [commit.id for commit in repo.history()][:2] == [second, first]
    root = repo.readonly_session().root
    assert (root["a"][0, 0], root["b"][0]) == (3, 4)


@pytest.mark.rule("I170", "I171", "I45")
def test_the_branch_file_is_created_if_absent(tmp_path: Path) -> None:
    """Also if another program created it between two of our requests: an existing file is never replaced."""
    store = LocalStore(tmp_path / "r", sync=False)
    repo = frazil.Repository.create(store, durable=False)
    session = repo.writable_session()
    session.root.attrs["x"] = 1
    repo.create_branch("dev", "main")
    repo.writable_session("dev").commit("theirs", allow_empty=True)
    theirs = json.dumps({"snapshot": repo.lookup("dev")}).encode()
    assert store.create("refs/branch.main/ZZZZZZZY.json", theirs)
    with pytest.raises(ConflictError):
        session.commit("ours")
    assert store.get("refs/branch.main/ZZZZZZZY.json") == theirs
    session.rebase()
    session.commit("ours")
    assert branch_files(store)[0] == "ZZZZZZZX.json"


@pytest.mark.rule("I174", "I175", "I176", "I177")
def test_numbers_of_branch_files_descend_with_each_commit() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    names = ["ZZZZZZZZ"]
    for number in range(1, 40):
        with repo.transaction(message=str(number)) as root:
            root.attrs["n"] = number
        high, low = divmod(number, 32)
        names.insert(0, f"ZZZZZZ{'ZY'[high]}{'0123456789ABCDEFGHJKMNPQRSTVWXYZ'[31 - low]}")
        assert branch_files(store) == [f"{name}.json" for name in names]


def branch_files(store: Store) -> list[str]:
    """The names of the files of `main`, the latest first, without the one that keeps the alpha library out."""
    names = [key.rpartition("/")[2] for key in store.list_prefix("refs/branch.main/")]
    assert names[0] == GUARD
    return names[1:]


# --- attributes, chunks -------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I62", "I228", "I246", "I251")
def test_attribute_files_come_and_go() -> None:
    """Written, read, replaced, and no longer listed if no node refers to them."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, attributes_file_bytes=100)
    large = {"text": "x" * 200, "list": [1, 2.5, None]}
    with repo.transaction(message="both large") as root:
        root.create_group("g", attributes=large)
        root.create_array("a", shape=(2,), dtype="i4", attributes={**large, "own": 1})
        root.create_group("small", attributes={"n": 1})
    (first,) = listed(repo, store)
    assert sorted(unpack(store.get(first) or b""), key=len) == [large, {**large, "own": 1}]
    root = repo.readonly_session().root
    assert (dict(root["g"].attrs), dict(root["a"].attrs)) == (large, {**large, "own": 1})
    with repo.transaction(message="one changes") as root:
        root["g"].attrs["text"] = "y" * 300
    assert len(listed(repo, store)) == 2
    assert repo.readonly_session().root["a"].attrs["own"] == 1
    with repo.transaction(message="it gets small") as root:
        root["g"].attrs.put({"n": 1})
    assert listed(repo, store) == [first]
    with repo.transaction(message="the other goes") as root:
        del root["a"]
    assert listed(repo, store) == []
    assert len(store.list_prefix("attributes/")) == 2, "older snapshots have them"
    old = frazil.Repository.open(store).readonly_session(snapshot=list(repo.history())[2].id)
    assert dict(old.root["g"].attrs) == {**large, "text": "y" * 300}
    assert json.loads(old.store.get("a/zarr.json") or b"")["attributes"] == {**large, "own": 1}


def listed(repo: frazil.Repository, store: MemoryStore) -> list[str]:
    """The attribute files of the tip, oldest first."""
    files = unpack(store.get(f"snapshots/{repo.lookup('main')}") or b"")[3]
    assert all(version == 0 for _, version in files)
    return [f"attributes/{identity}" for identity, _ in files]


@pytest.mark.rule("I288", "I290", "I292")
@pytest.mark.parametrize("options", [{"compatible": "alpha-library"}, {"chunk_packing": "off"}])
def test_each_large_chunk_has_a_file(options: dict[str, object]) -> None:
    store = MemoryStore()
    repo = filled(store, **options)
    natives = [payload["Ref"] for payload in references(store) if "Ref" in payload]
    assert len({file for file, _, _ in natives}) == len(natives) == len(store.list_prefix("chunks/")) == 4  # type: ignore[misc]
    assert all(offset == 0 and length == 4000 for _, offset, length in natives)  # type: ignore[misc]
    assert {store.get(key) for key in store.list_prefix("chunks/")} == {np.ones(1000, "<f4").tobytes()}
    assert (repo.readonly_session().root["a"][...] == 1).all()


@pytest.mark.rule("I30", "I61", "I63", "I257", "I289", "I294", "I297")
def test_several_arrays_share_files() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    with repo.transaction(message="first") as root:
        for name in "xy":
            root.create_array(name, shape=(3000,), dtype="u1", chunks=(1000,), codecs=["bytes"])[...] = ord(name)
    (chunk,), (manifest,) = store.list_prefix("chunks/"), store.list_prefix("manifests/")
    assert store.get(chunk) == b"x" * 3000 + b"y" * 3000
    assert len({node for node, _ in unpack(store.get(manifest) or b"")[2]}) == 2
    root = repo.readonly_session().root
    assert all((root[name][...] == ord(name)).all() for name in "xy")


@pytest.mark.rule("I281", "I295")
def test_files_of_others_hold_chunks(tmp_path: Path) -> None:
    file = tmp_path / "sea.bin"
    file.write_bytes(b"header" + np.arange(10, dtype="<i4").tobytes())
    store = MemoryStore()
    repo = frazil.Repository.create(store, virtual_prefixes=[f"file://{tmp_path}/"])
    session = repo.writable_session()
    for name in ("virtual", "adopted"):
        session.root.create_array(name, shape=(10,), dtype="i4", chunks=(5,), codecs=["bytes"])
    coordinates, offsets = np.array([[0], [1]]), np.array([6, 26])
    session.set_virtual_chunks("virtual", coordinates, f"file://{file}", offsets, 20)
    session.set_adopted_chunks("adopted", coordinates, session.adopt_file(file), offsets, 20)
    session.commit("theirs")
    assert [store.get(key) for key in store.list_prefix("chunks/")] == [file.read_bytes()]
    root = repo.readonly_session().root
    assert root["virtual"][...].tolist() == root["adopted"][...].tolist() == list(range(10))


# --- algorithms ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I311", "I313", "I314", "I318", "I320", "I321", "I322", "I323", "I327", "I328", "I329")
def test_reading_from_an_id_a_branch_and_a_tag() -> None:
    inner = MemoryStore()
    repo = filled(inner)
    identity = repo.lookup("main")
    repo.create_tag("v1", "main")
    store = CountingStore(inner)
    for named, expected in (
        ({"snapshot": identity}, [("fetch", f"snapshots/{identity}")]),
        ({"branch": "main"}, [("fetch", "refs/branch.main/ZZZZZZZY.json"), ("fetch", f"snapshots/{identity}")]),
        ({"tag": "v1"}, [("fetch", "refs/tag.v1/ref.json"), ("fetch", f"snapshots/{identity}")]),
    ):
        fresh = frazil.Repository.open(store)
        store.clear()
        session = fresh.readonly_session(**named)  # type: ignore[arg-type]
        requests = [(request.operation, request.key) for request in store.requests]
        assert [request for request in requests if request[0] == "fetch"][-len(expected) :] == expected
        assert session.root["b"][...].tolist() == [2] * 4
        with pytest.raises(ReadOnlyError):
            session.root["b"][0] = 1
    assert decode_id(identity)


@pytest.mark.rule("I28", "I29")
def test_readers_see_one_commit_for_ever() -> None:
    store = MemoryStore()
    repo = filled(store)
    readers = [repo.readonly_session()]
    for number in range(3, 8):
        session = repo.writable_session()
        session.root["b"][...] = number
        session.root["b"].attrs["n"] = number
        assert repo.readonly_session().root["b"][0] == number - 1, "nothing is seen before the commit"
        session.commit(str(number))
        readers.append(repo.readonly_session())
    for number, reader in enumerate(readers, 2):
        assert reader.root["b"][...].tolist() == [number] * 4
        assert reader.root["b"].attrs.get("n", 2) == number
    for number, commit in zip(range(7, 1, -1), repo.history(), strict=False):
        assert repo.readonly_session(snapshot=commit.id).root["b"][3] == number
