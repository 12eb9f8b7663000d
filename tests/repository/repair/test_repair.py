"""Repair: each kind of file damaged in each way, alone and two at once; what is restored, what is reported as lost, and that no existing file is changed."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.maintenance.garbage import FORMATS, fill, values
from tests.repository.verification.test_verify import contents, tip_manifest
from tests.slow_properties import search

import frazil
from frazil.errors import FormatError, FrazilError, InvalidInputError, NotFoundError
from frazil.formats.ids import encode_id
from frazil.repository.repair.report import Repair
from frazil.repository.verification.report import Problem
from frazil.stores import MemoryStore
from frazil.stores.store import Store

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
Create = Callable[[Store], frazil.Repository]


def filled(create: Create, commits: int = 3) -> tuple[MemoryStore, frazil.Repository]:
    """Like kept.fill, with attributes in files, a group, and a single chunk in the last commit."""
    store = MemoryStore()
    repo = create(store)
    repo = type(repo)(repo._files, repo._options._replace(attribute_limit=10), repo._registry)
    fill(repo, commits)
    with repo.transaction(message="a group") as root:
        root.create_group("g").create_array("b", data=values(7), chunks=(2, 256), codecs=[])
        root["a"].attrs["long"] = "x" * 100
    with repo.transaction(message="one chunk") as root:
        root["a"][1] = values(50)[1]
        root["a"].attrs["other"] = "y" * 100
    return store, repo


def expected() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    found = values(2)
    found[1] = values(50)[1]
    return found


def require_kept(before: dict[str, bytes | None], store: MemoryStore) -> None:
    """Existing files are unchanged. The exception is the object of the format for tests."""
    after = contents(store)
    for key, value in before.items():
        assert key == "state" or after.get(key) == value, key


def check_report(repo: frazil.Repository, done: Repair) -> None:
    """A verification finds what the repair reported, and the repair can be repeated without another commit."""
    assert list(map(str, repo.verify().problems)) == list(map(str, done.after))
    again = repo.repair()
    assert not again.commits
    assert not again.moved
    str(done), json.dumps(done.to_json())


@formats
def test_a_repair_changes_nothing_in_a_sound_repository(create: Create) -> None:
    store, repo = filled(create)
    before = contents(store)
    done = repo.repair(decode=True, older=True, accept_loss=True, tips=True, history=True)
    assert done.ok
    assert not (done.commits or done.created or done.moved or done.repaired or done.lost or done.before)
    assert contents(store) == before


@formats
def test_manifest(create: Create) -> None:
    store, repo = filled(create)
    key, _ = tip_manifest(repo)
    for data in (None, b"\x93nonsense"):
        store.erase(key) if data is None else store.set(key, data)
        before = contents(store)
        dry = repo.repair(dry_run=True)
        assert contents(store) == before
        assert list(dry.commits) == ["main"]
        if data is None:
            continue
        done = repo.repair()
        require_kept(before, store)
        assert [str(one) for one in done.repaired] == [str(one) for one in dry.repaired]
        assert list(done.commits) == ["main"]
        assert not done.lost
        assert {entry.kind for entry in done.repaired} == {"chunks"}
        assert all(entry.path == "/a" and entry.snapshot for entry in done.repaired)
        assert repo.verify(history=False).ok
        assert {problem.key for problem in done.after} == {key}  # of the snapshot that was the tip
        check_report(repo, done)
        assert np.array_equal(repo.readonly_session().root["a"][:], values(2))
        assert "repair" in next(iter(repo.history())).metadata


@formats
def test_a_manifest_without_an_older_one(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 1)
    key, _ = tip_manifest(repo)
    store.erase(key)
    done = repo.repair(older=True)
    assert not done.commits
    (lost,) = done.lost
    assert (lost.kind, lost.path, lost.ref) == ("chunks", "/a", "branch main")
    assert lost.chunks is not None
    assert lost.chunks.tolist() == [[0, 0], [1, 0], [2, 0], [3, 0]]
    check_report(repo, done)
    done = repo.repair(accept_loss=True)
    assert list(done.commits) == ["main"]
    assert repo.verify(history=False).ok
    assert (repo.readonly_session().root["a"][:] == 0).all()


@formats
def test_chunk_files(create: Create) -> None:
    store, repo = filled(create)
    ids = set(store.list_prefix("chunks/"))
    with repo.transaction(message="again") as root:
        root["a"][2] = values(60)[2]
    (gone,) = set(store.list_prefix("chunks/")) - ids
    before = contents(store)
    for data in (b"", None):
        store.erase(gone) if data is None else store.set(gone, data)
        done = repo.repair()
        assert not done.commits
        assert [(entry.path, entry.chunks.tolist()) for entry in done.lost if entry.chunks is not None] == [
            ("/a", [[2, 0]])
        ]
        check_report(repo, done)
    del before[gone]
    done = repo.repair(older=True)
    assert not done.lost
    assert [entry.chunks.tolist() for entry in done.repaired if entry.chunks is not None] == [[[2, 0]]]
    assert repo.verify(history=False).ok
    assert np.array_equal(repo.readonly_session().root["a"][:], expected())
    require_kept(before, store)
    repo.reset_branch("main", f"{next(iter(repo.history())).parent}")
    done = repo.repair(accept_loss=True)
    assert [entry.chunks.tolist() for entry in done.lost if entry.chunks is not None] == [[[2, 0]]]
    found = expected()
    found[2] = 0
    assert np.array_equal(repo.readonly_session().root["a"][:], found)
    assert repo.verify(history=False).ok
    check_report(repo, done)


@formats
def test_chunks_that_cannot_be_decoded(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    with repo.transaction(message="0") as root:
        root.create_array("z", data=np.random.default_rng(0).integers(0, 9999, (4, 1024)), chunks=(1, 1024))
    old = set(store.list_prefix("chunks/"))
    with repo.transaction(message="1") as root:
        root["z"][3] = np.arange(1024) * 7 % 911
    (key,) = set(store.list_prefix("chunks/")) - old
    store.set(key, b"\xff" * len(store.get(key) or b""))
    assert repo.repair().ok
    done = repo.repair(decode=True)
    assert [entry.chunks.tolist() for entry in done.lost if entry.chunks is not None] == [[[3, 0]]]
    assert not done.commits
    done = repo.repair(decode=True, older=True)
    assert done.commits
    assert repo.verify(decode=True).ok
    assert np.array_equal(repo.readonly_session().root["z"][:], np.random.default_rng(0).integers(0, 9999, (4, 1024)))


@formats
def test_attributes(create: Create) -> None:
    store, repo = filled(create)
    old = dict(repo.readonly_session(snapshot=next(iter(repo.history())).parent).root["a"].attrs)
    newest = max(store.list_prefix("attributes/"), key=lambda key: store._table.times[key])
    store.set(newest, b"\x90")
    before = contents(store)
    done = repo.repair()
    require_kept(before, store)
    assert [entry.kind for entry in done.repaired] == ["attributes"]
    assert dict(repo.readonly_session().root["a"].attrs) == old
    assert np.array_equal(repo.readonly_session().root["a"][:], expected())
    assert repo.verify(history=False).ok
    check_report(repo, done)
    repo.reset_branch("main", str(next(iter(repo.history())).parent))
    for key in store.list_prefix("attributes/"):
        store.erase(key)
    done = repo.repair()
    assert [(entry.kind, entry.path) for entry in done.repaired] == [
        ("attributes", "/a")
    ]  # from before there was a file
    assert dict(repo.readonly_session().root["a"].attrs) == {}


@formats
def test_a_tip_that_cannot_be_read(create: Create) -> None:
    for damage in ("missing", "torn", "another"):
        store, repo = filled(create)
        ids = [commit.id for commit in repo.history()]
        key = f"snapshots/{ids[0]}"
        if damage == "missing":
            store.erase(key)
        else:
            store.set(key, (store.get(f"snapshots/{ids[2]}") or b"") if damage == "another" else b"\x9b")
        before = contents(store)
        done = repo.repair()
        require_kept(before, store)
        assert not done.moved
        assert done.created == {"main-repaired": ids[1]}
        assert not repo.repair().created  # no second one
        assert repo.branches == ["main", "main-repaired"]
        done = repo.repair(tips=True)
        require_kept(before, store)
        assert done.moved == {"main": ids[1]}
        assert done.ok
        assert repo.verify(decode=True).ok
        assert np.array_equal(repo.readonly_session().root["a"][:], values(2))


@formats
def test_a_repair_with_tips_moves_damaged_branches_back(create: Create) -> None:
    store, repo = filled(create)
    ids = [commit.id for commit in repo.history()]
    newest = max(store.list_prefix("chunks/"), key=lambda key: store._table.times[key])
    store.erase(newest)
    done = repo.repair(tips=True)
    assert done.moved == {"main": ids[1]}
    assert done.created == {"main-damaged": ids[0]}
    assert repo.lookup("main") == ids[1]
    assert repo.lookup("main-damaged") == ids[0]
    assert {problem.ref for problem in done.after} == {"branch main-damaged"}


@formats
def test_histories(create: Create) -> None:
    store, repo = filled(create)
    ids = [commit.id for commit in repo.history()]
    store.erase(f"snapshots/{ids[2]}")
    done = repo.repair()
    assert not done.commits
    assert done.after
    with pytest.raises(FormatError):
        repo.garbage_collect(now=True)
    done = repo.repair(history=True)
    assert done.ok
    assert [entry.kind for entry in done.repaired] == ["history"]
    assert [commit.id for commit in repo.history()] == ids[:2]
    repo.garbage_collect(now=True)
    assert repo.verify(decode=True).ok
    assert np.array_equal(repo.readonly_session().root["a"][:], expected())


def branch_files(store: MemoryStore) -> list[str]:
    return [key for key in store.list_prefix("refs/branch.main/") if key.endswith(".json")]


@pytest.mark.parametrize("data", [b"", b"{", b'{"snapshot":"0"}', b'{"snapshot":"00000000000000000000"}'])
def test_a_damaged_branch_file(data: bytes) -> None:
    store, repo = filled(FORMATS[0])
    ids = [commit.id for commit in repo.history()]
    store.set(branch_files(store)[0], data)
    before = contents(store)
    done = frazil.Repository.open(store).repair()
    require_kept(before, store)
    # a file that names a missing snapshot names no other one
    assert done.created == {"main-repaired": ids[1]} | ({} if b"00000" in data else {"main-found": ids[0]})
    repo = frazil.Repository.open(store)
    done = repo.repair(tips=True)
    require_kept(before, store)
    assert done.ok, str(done)
    assert repo.lookup("main") == ids[1]
    with repo.transaction(message="goes on") as root:
        root["a"][0] = 1
    assert repo.verify(decode=True).ok


def test_tags() -> None:
    store, repo = filled(FORMATS[0])
    repo.create_tag("v1", "main")
    repo.create_tag("v2", "main")
    with repo.transaction(message="later") as root:
        root["a"][:] = values(8)
    key = "refs/tag.v2/ref.json"
    store.set(key, b"{")
    v1 = repo.lookup_tag("v1")
    session = repo.readonly_session(tag="v1")
    node = session._transaction.base.nodes.get("/a")
    manifests = node.array.manifests  # type: ignore[union-attr]
    store.erase(f"manifests/{encode_id(manifests[0].id)}")
    done = repo.repair()
    assert "v1-repaired" in done.created
    assert repo.lookup_tag("v1") == v1
    assert any(entry.ref == "tag v2" for entry in done.lost)
    assert np.array_equal(repo.readonly_session("v1-repaired").root["a"][:], values(2))
    assert {problem.key for problem in repo.verify().problems} == {key, f"manifests/{encode_id(manifests[0].id)}"}
    count = len(store.list_prefix("snapshots/"))
    repo.repair()
    assert len(store.list_prefix("snapshots/")) == count


@formats
def test_a_node(create: Create) -> None:
    """A node of the tip with invalid bytes."""
    store, repo = filled(create)
    key = f"snapshots/{repo.lookup('main')}"
    data = store.get(key) or b""
    at = data.rindex(b"float64")
    store.set(key, data[:at] + b"flaat64" + data[at + 7 :])
    found = repo.verify(history=False)
    if {problem.kind for problem in found.problems} != {"node"}:
        pytest.skip("the type is not read by verification")
    before = contents(store)
    done = repo.repair()
    require_kept(before, store)
    assert "node" in {entry.kind for entry in done.repaired}
    assert repo.verify(history=False, decode=True).ok


@formats
def test_bad_arguments_and_places(create: Create) -> None:
    _, repo = filled(create)
    for name in ("decode", "older", "accept_loss", "tips", "history", "dry_run"):
        with pytest.raises(InvalidInputError, match=name):
            repo.repair(**{name: "yes"})  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="progress"):
        repo.repair(progress=3)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        type(repo)(type(repo._files)(MemoryStore()), repo._options, repo._registry).repair()  # type: ignore[call-arg]


def test_later_versions_stay_unchanged() -> None:
    for start in (b"ICE\xf0\x9f\xa7\x8aCHUNK", b"\x28\xb5\x2f\xfd", None):
        store, repo = filled(FORMATS[0])
        key = f"snapshots/{repo.lookup('main')}"
        data = store.get(key) or b""
        store.set(key, data[:1] + b"\x09" + data[2:] if start is None else start + data)
        before = contents(store)
        for dry_run in (True, False):
            with pytest.raises(FormatError, match=r"not read here|only version"):
                frazil.Repository.open(store).repair(tips=True, accept_loss=True, history=True, dry_run=dry_run)
        assert contents(store) == before


PARTS = st.floats(0, 1, exclude_max=True)  # ids, and lengths with them, differ in each run
DAMAGE = st.tuples(
    st.sampled_from(["snapshots/", "manifests/", "attributes/", "chunks/", "refs/"]),
    PARTS,
    st.sampled_from(["cut", "flip", "erase", "swap"]),
    PARTS,
    st.integers(0, 7),
)


def damage(store: MemoryStore, prefix: str, which: float, how: str, part: float, bit: int) -> None:
    keys = [
        key for key in store._table.times if key.startswith(prefix) and "not-for" not in key
    ]  # as they were written
    if not keys:
        return
    key = keys[int(which * len(keys))]
    value = bytearray(store.get(key) or b"")
    at = int(part * len(value))
    if how == "cut":
        store.set(key, bytes(value[:at]))
    elif how == "flip" and value:
        value[at] ^= 1 << bit
        store.set(key, bytes(value))
    elif how == "erase":
        store.erase(key)
    elif how == "swap":
        other = keys[int(part * len(keys))]
        theirs = store.get(other) or b""
        store.set(other, bytes(value))
        store.set(key, theirs)


@formats
@search(slowness=2)
@given(first=DAMAGE, second=st.none() | DAMAGE)
def test_a_repair_leaves_only_the_problems_that_it_reports(create: Create, first: tuple, second: tuple | None) -> None:  # type: ignore[type-arg]
    """Verify, repair, verify: the remaining problems are those that the repair reported. With every consent, tips are sound or reported as beyond repair."""
    store, repo = filled(create, 2)
    repo.create_tag("v1", "main")
    with repo.transaction(message="last") as root:
        root["a"][3] = values(70)[3]
    for one in (first, second):
        if one is not None and not (one[0] == "refs/" and create is FORMATS[1]):
            damage(store, *one)
    before = contents(store)
    repo = type(repo)(repo._files.uncached(), repo._options, repo._registry)
    try:
        found = repo.verify()
    except FrazilError:
        with pytest.raises(FrazilError):
            repo.repair()
        assert contents(store) == before
        return
    done = repaired(repo)
    if done is None:  # in another version of the format, because of a flipped bit
        assert contents(store) == before
        return
    require_kept(before, store)
    assert list(map(str, done.before)) == list(map(str, found.problems))
    check_report(repo, done)
    for problem in repo.verify(history=False).problems:
        assert is_reported(problem, done), (str(problem), str(done))
    done = repo.repair(older=True, accept_loss=True, tips=True, history=True)
    require_kept(before, store)
    left = [problem for problem in done.after if not (problem.ref.startswith("tag ") or problem.kind == "expiry")]
    assert not left or any(entry.kind == "branch" for entry in done.lost), str(done)
    if not done.after:
        repo.garbage_collect(now=True)
        assert repo.verify().ok


def repaired(repo: frazil.Repository) -> Repair | None:
    """The report of a repair; None if it refused another version of the format."""
    try:
        return repo.repair()
    except FormatError as error:
        if not error.other_version:
            raise
    return None


def is_reported(problem: Problem, done: Repair) -> bool:
    """Whether a repair reported a problem as lost, or that another branch replaces its branch."""
    entries = [*done.lost, *done.repaired]
    if problem.ref.startswith("tag ") or problem.ref.removeprefix("branch ") in done.created:
        return True  # tags are permanent, and lost data is also lost on a new branch
    return any(
        (entry.kind == "branch" and entry.ref == problem.ref)
        or (entry.ref == problem.ref and entry.path == problem.path)
        for entry in entries
    )


def test_a_branch_with_the_name_of_a_repair() -> None:
    """A branch of a user is not taken for the repair of a tag, which gets another name; a repair that users continued is."""
    store, repo = filled(FORMATS[0])
    repo.create_tag("v1", "main")
    repo.create_branch("v1-repaired", list(repo.history())[2].id)
    repo.create_branch("v1-repaired-2", "main")
    repo.create_branch("v1-repaired-x", "main")
    for branch in ("main", "v1-repaired-2", "v1-repaired-x"):
        with repo.transaction(branch, message="later") as root:
            root["a"][:] = values(8)
    node = repo.readonly_session(tag="v1")._transaction.base.nodes.get("/a")
    store.erase(f"manifests/{encode_id(node.array.manifests[0].id)}")  # type: ignore[union-attr]
    dry = repo.repair(dry_run=True)
    done = repo.repair()
    assert list(done.created) == list(dry.created) == ["v1-repaired-3"]
    (named,) = [entry for entry in done.repaired if entry.kind == "branch"]
    assert (named.ref, "v1-repaired-3" in named.text) == ("tag v1", True)
    assert list(map(str, dry.repaired)) == list(map(str, done.repaired))
    assert np.array_equal(repo.readonly_session("v1-repaired-3").root["a"][:], values(2))
    for _ in range(2):
        again = repo.repair()
        assert not again.created
        assert not [entry for entry in again.repaired if entry.kind == "branch"]
        with repo.transaction("v1-repaired-3", message="continued") as root:
            root["a"][:] = values(9)


@formats
def test_a_tag_is_repaired_once(create: Create) -> None:
    """Also in a format whose snapshots do not name their parents: each repair made another branch."""
    store, repo = filled(create, 2)
    repo.create_tag("v1", "main")
    with repo.transaction(message="last") as root:
        root["a"][:] = values(70)
    node = repo.readonly_session(tag="v1")._transaction.base.nodes.get("/a")
    store.erase(f"manifests/{encode_id(node.array.manifests[0].id)}")  # type: ignore[union-attr]
    assert list(repo.repair().created) == ["v1-repaired"]
    assert not repo.repair().created


def test_a_branch_whose_name_is_a_number() -> None:
    """It is not taken for the repair of a tag, whatever its name begins with."""
    store, repo = filled(FORMATS[0])
    repo.create_tag("v1", "main")
    repo.create_branch("2024", "main")
    node = repo.readonly_session(tag="v1")._transaction.base.nodes.get("/a")
    store.erase(f"manifests/{encode_id(node.array.manifests[0].id)}")  # type: ignore[union-attr]
    done = repo.repair()
    assert sorted(done.commits) == ["2024", "main"]
    assert done.created == {"v1-repaired": done.commits["main"]}
    assert not repo.repair().created
