"""Verification: sound repositories, and repositories damaged in each way, in both formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repository.archived_repositories import archive, info, manifest, snapshot, some_id
from tests.repository.maintenance.garbage import FORMATS, fill, orphan

import frazil
from frazil.errors import FrazilError, InvalidInputError, NotFoundError
from frazil.formats.alpha.manifests import decode_manifest, encode_manifest
from frazil.formats.ids import decode_id, encode_id
from frazil.formats.manifests import Manifest
from frazil.formats.nodes import Nodes, NodeSnapshot
from frazil.repository.alpha.format import AlphaFormat
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.id_columns import id_column
from frazil.repository.maintenance.records import emit_columns
from frazil.repository.verification.report import Verification
from frazil.repository.verification.verify import check
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import flat_buffer

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
Create = Callable[[Store], frazil.Repository]


def filled(create: Create, commits: int = 3) -> tuple[MemoryStore, frazil.Repository]:
    store = MemoryStore()
    repo = create(store)
    fill(repo, commits)
    repo.create_tag("v1", "main")
    return store, repo


def kinds(found: Verification) -> list[str]:
    return [problem.kind for problem in found.problems]


def files_of(repo: frazil.Repository) -> RepositoryFormat:
    return repo._files


def tip_manifest(repo: frazil.Repository) -> tuple[str, NodeSnapshot]:
    """The key of the manifest of `a` at the tip, and its node."""
    files = files_of(repo)
    node = files.snapshot(files.tip("main").snapshot).nodes.get("/a")
    assert isinstance(node, NodeSnapshot)
    assert node.array is not None
    return f"manifests/{encode_id(node.array.manifests[0].id)}", node


def change_manifest(store: MemoryStore, repo: frazil.Repository, change: Callable[[Manifest], Manifest]) -> None:
    key, _ = tip_manifest(repo)
    changed = change(decode_manifest(store.get(key) or b""))
    store.set(key, bytes(flat_buffer(encode_manifest(changed))))


def contents(store: MemoryStore) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


@formats
def test_a_sound_repository_has_no_problems(create: Create) -> None:
    store, repo = filled(create)
    orphan(repo)
    before = contents(store)
    steps: list[str] = []
    found = repo.verify(decode=True, progress=lambda step, _: steps.append(step))
    assert found.ok
    assert (found.refs, found.snapshots, found.references, found.chunks, found.decoded) == (2, 4, 12, 12, 4)
    assert found.orphans == {"snapshots": 0, "attributes": 0, "manifests": 0, "chunks": 2}
    assert str(found).endswith("sound")
    assert found.to_json()["ok"] is True
    assert {"snapshots read", "manifests read", "chunks listed", "chunks decoded"} <= set(steps)
    assert contents(store) == before
    assert repo.verify().decoded is None


def test_lost_commits_are_among_the_orphans() -> None:
    store, repo = filled(frazil.Repository.create)
    with repo.transaction(message="later") as root:
        root.attrs["later"] = True
    tip, text = repo.lookup("main"), "they are among these snapshots"
    assert text not in str(repo.verify())
    store.erase(sorted(store.list_prefix("refs/branch.main/"))[1])  # the newest, behind the file for the alpha library
    found = frazil.Repository.open(store).verify()
    assert found.orphan_ids["snapshots"] == (tip,)
    assert text in str(found)


def test_chunks_are_decoded_within_the_budget() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store, runtime=frazil.Runtime(bytes_in_flight=1600))
    with repo.transaction(message="a") as root:
        root.create_array("a", data=np.arange(200), chunks=(10,))
    counts = []
    repo.verify(decode=True, progress=lambda step, count: counts.append(count) if step == "chunks decoded" else None)
    assert counts == [5] * 4, "a quarter of the budget each"


@formats
def test_expired_ancestors_are_no_problem(create: Create) -> None:
    store, repo = filled(create, 6)
    repo.expire(older_than=timedelta(0), keep_last=2)
    repo.garbage_collect(now=True)
    found = repo.verify(decode=True)
    assert found.ok, str(found)
    assert found.snapshots == 2
    store.set("gc/expired/00000000000000000000", b"nonsense")
    assert "expiry" in kinds(repo.verify())


@formats
def test_chunk_files(create: Create) -> None:
    store, repo = filled(create, 1)
    gone, short = store.list_prefix("chunks/")[:2]
    store.erase(gone)
    store.set(short, (store.get(short) or b"")[:-1])
    for found in (repo.verify(), repo.verify(decode=True)):
        assert sorted(kinds(found)) == ["missing", "range"]
        for problem in found.problems:
            assert (problem.path, problem.ref) == ("/a", "branch main")
            assert problem.chunks is not None
            assert problem.chunks.shape == (1, 2)
            assert not problem.chunks.flags.writeable
            assert "1 chunk: (" in str(problem)
            assert problem.to_json()["chunks"] == problem.chunks.tolist()
        assert not found.ok
    assert repo.verify(decode=True).decoded == 2


@formats
def test_snapshots(create: Create) -> None:
    ids = [commit.id for commit in filled(create)[1].history()]
    for place, expected in ((0, "ref"), (1, "history")):
        store, repo = filled(create)
        ids = [commit.id for commit in repo.history()]
        store.erase(f"snapshots/{ids[place]}")
        found = repo.verify()
        assert kinds(found)[0] in (expected, "snapshot"), str(found)
        assert {problem.key for problem in found.problems} == {f"snapshots/{ids[place]}"}
        store.set(f"snapshots/{ids[place]}", b"\x9bnonsense")
        found = repo.verify(decode=True)
        assert found.problems
        assert {problem.key for problem in found.problems} == {f"snapshots/{ids[place]}"}


@formats
def test_a_snapshot_in_the_place_of_another(create: Create) -> None:
    store, repo = filled(create)
    ids = [commit.id for commit in repo.history()]
    store.set(f"snapshots/{ids[0]}", store.get(f"snapshots/{ids[1]}") or b"")
    assert any(f"its id is {ids[1]}" in problem.text or problem.kind == "history" for problem in repo.verify().problems)


@formats
def test_manifests(create: Create) -> None:
    store, repo = filled(create)
    key, _ = tip_manifest(repo)
    for change in (lambda: store.erase(key), lambda: store.set(key, b"\x93nonsense")):
        change()
        for decode in (False, True):
            found = repo.verify(decode=decode)
            assert (kinds(found), found.problems[0].key) == (["manifest"], key)
            assert found.problems[0].path == "/a"


@formats
def test_references_beyond_the_grid(create: Create) -> None:
    store, repo = filled(create)

    def beyond(found: Manifest) -> Manifest:
        coordinates = found.coordinates.copy()
        coordinates[-2] += 7
        return found._replace(coordinates=coordinates)

    change_manifest(store, repo, beyond)
    found = repo.verify()
    assert set(kinds(found)) == {"reference"}
    assert found.problems[0].chunks is not None
    assert found.problems[0].chunks.tolist() == [[10, 0]]
    files = files_of(repo)
    boxes = files.rules(files.snapshot(files.tip("main").snapshot)).extents
    assert any("box" in problem.text for problem in found.problems) == boxes


@formats
def test_references_of_another_rank(create: Create) -> None:
    store, repo = filled(create)
    _, node = tip_manifest(repo)
    change_manifest(store, repo, lambda _: manifest(node.id, 3))
    found = repo.verify()
    assert kinds(found) == ["reference"]
    assert "another number of indices" in found.problems[0].text


@formats
def test_attribute_files(create: Create) -> None:
    store, repo = filled(create)
    repo = type(repo)(files_of(repo), repo._options._replace(attribute_limit=10), repo._registry)
    with repo.transaction(message="attributes") as root:
        root["a"].attrs["long"] = "x" * 100
    assert repo.verify().ok
    (key,) = store.list_prefix("attributes/")
    for change in (lambda: store.set(key, b"\x90"), lambda: store.erase(key)):
        change()
        found = repo.verify()
        assert [(problem.kind, problem.key) for problem in found.problems] == [("attributes", key)]


def test_nodes_with_one_id() -> None:
    store, repo = filled(FORMATS[0], 1)
    files = files_of(repo)
    assert isinstance(files, AlphaFormat)
    _, node = tip_manifest(repo)
    one, other = 0xABCDEF01, 0xABCDEF02
    nodes = Nodes({"/a": node._replace(id=one), "/b": node._replace(path="/b", id=other)})
    file = some_id()
    tip = files.snapshot(files.tip("main").snapshot)
    files.write_new(
        [
            files.encoded_snapshot(
                file, snapshot(info(7)._replace(id=file), (tip.metadata, *tip.history))._replace(nodes=nodes)
            )
        ]
    )
    key = f"snapshots/{encode_id(file)}"
    repo.create_tag("twins", encode_id(file))
    store.set(key, (store.get(key) or b"").replace(other.to_bytes(4, "big"), one.to_bytes(4, "big")))
    found = repo.verify()
    assert {(problem.ref, problem.key) for problem in found.problems} == {("tag twins", key)}, str(found)
    assert any(" id" in problem.text for problem in found.problems)


@formats
def test_chunks_that_cannot_be_decoded(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    with repo.transaction(message="0") as root:
        root.create_array("z", data=np.random.default_rng(0).integers(0, 9999, (8, 2048)), chunks=(1, 1024))
    key = store.list_prefix("chunks/")[3]
    store.set(key, b"\xff" * len(store.get(key) or b""))
    assert repo.verify().ok
    found = repo.verify(decode=True)
    assert kinds(found) == ["decode"]
    assert found.problems[0].chunks is not None
    assert len(found.problems[0].chunks) == 1


def test_a_damaged_ref() -> None:
    store, repo = filled(FORMATS[0])
    key = next(key for key in store.list_prefix("refs/") if "tag." in key)
    store.set(key, b"{")
    found = repo.verify()
    assert [(problem.kind, problem.ref, problem.key) for problem in found.problems] == [("ref", "tag v1", key)]


@pytest.mark.parametrize("name", ["icechunk-alpha-repo", "icechunk-alpha-varied"])
def test_repositories_of_the_alpha_library(name: str) -> None:
    found = check(archive(name), lambda _what, _count: None).found
    assert found.ok, str(found)
    assert found.virtual
    assert "not contacted" in str(found)
    assert (found.strays > 0) == (name == "icechunk-alpha-repo")


def test_misplaced_references_of_the_alpha_library() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible="alpha-library", chunk_packing="off")
    with repo.transaction(message="0") as root:
        for name in ("lat", "lon"):
            root.create_array(name, data=np.random.default_rng(0).random((4, 256)), chunks=(1, 256), codecs=[])
    assert repo.verify(decode=True).ok
    files = files_of(repo)
    nodes = files.snapshot(files.tip("main").snapshot).nodes
    found = sorted(
        (node for node in map(nodes.get, ("/lat", "/lon")) if isinstance(node, NodeSnapshot)), key=lambda node: node.id
    )
    low, high = found
    assert low.array is not None
    assert high.array is not None
    key = f"manifests/{encode_id(low.array.manifests[0].id)}"
    right = decode_manifest(store.get(f"manifests/{encode_id(high.array.manifests[0].id)}") or b"")
    rows = np.flatnonzero(right.nodes == high.id)
    both = right._replace(
        nodes=np.concatenate([np.full(rows.size, low.id, np.uint32), right.nodes[rows]]),
        starts=np.arange(0, 4 * rows.size + 1, 2),
        coordinates=np.concatenate([right.coordinates[: 2 * rows.size]] * 2),
        **{
            name: np.concatenate([getattr(right, name)[rows]] * 2)
            for name in ("kinds", "ids", "offsets", "lengths", "locations")
        },
    )
    store.set(key, bytes(flat_buffer(encode_manifest(both))))
    damaged = repo.verify()
    assert "misplaced" in kinds(damaged)
    assert damaged.problems[0].path == low.path


@formats
def test_bad_arguments_and_places(create: Create) -> None:
    _, repo = filled(create)
    with pytest.raises(InvalidInputError, match="progress"):
        repo.verify(progress=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="decode"):
        repo.verify(decode="yes")  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        type(repo)(type(files_of(repo))(MemoryStore()), repo._options, repo._registry).verify()  # type: ignore[call-arg]


@formats
def test_an_interrupt_does_no_harm(create: Create) -> None:
    store, repo = filled(create)
    before = contents(store)

    def interrupt(_step: str, _count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repo.verify(decode=True, progress=interrupt)
    assert contents(store) == before
    assert repo.verify(decode=True).ok


PARTS = st.floats(0, 1, exclude_max=True)  # ids, and lengths with them, differ in each run


@formats
@given(place=PARTS, changes=st.lists(st.tuples(PARTS, st.integers(0, 255)), max_size=3), end=st.just(1.0) | PARTS)
@settings(max_examples=15, deadline=None)
def test_hostile_files(create: Create, place: float, changes: list[tuple[float, int]], end: float) -> None:
    """Any file with other bytes in it, or truncated: the result is a report or an error of ours, and nothing is written."""
    store, repo = filled(create, 2)
    # the object of the format for tests does not support this
    keys = [key for key in sorted(store.list()) if key.startswith(("snapshots/", "manifests/", "refs/"))]
    key = keys[int(place * len(keys))]
    value = bytearray(store.get(key) or b"")
    for part, byte in changes if value else []:
        value[int(part * len(value))] = byte
    store.set(key, bytes(value[: int(end * len(value))]))
    before = contents(store)
    for decode in (False, True):
        try:
            found = repo.verify(decode=decode)
        except FrazilError:
            assert not key.startswith(("snapshots/", "manifests/"))  # for these the report has everything
        else:
            str(found)
            json.dumps(found.to_json())
    assert contents(store) == before


def test_chunks_in_two_manifests() -> None:
    """In the format without overlays, programs differ in which of two references counts."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible="alpha-library", chunk_packing="off")
    fill(repo, 2)
    files = files_of(repo)
    assert isinstance(files, AlphaFormat)
    (tip, parent) = (files.snapshot(files.snapshot_id(decode_id(commit.id))) for commit in list(repo.history())[:2])
    new, old = (found.nodes.get("/a") for found in (tip, parent))
    assert isinstance(new, NodeSnapshot)
    assert isinstance(old, NodeSnapshot)
    assert new.array is not None
    assert old.array is not None
    both = new._replace(array=new.array._replace(manifests=(*new.array.manifests, *old.array.manifests)))
    file = some_id()
    files.write_new(
        [
            files.encoded_snapshot(
                file,
                snapshot(info(7)._replace(id=file), (tip.metadata, *tip.history))._replace(
                    nodes=Nodes({"/": NodeSnapshot(1, "/"), "/a": both})
                ),
            )
        ]
    )
    repo.create_branch("twice", encode_id(file))
    found = repo.verify()
    assert [(problem.kind, problem.ref, problem.path) for problem in found.problems] == [
        ("reference", "branch twice", "/a")
    ]
    assert found.problems[0].chunks is not None
    assert len(found.problems[0].chunks) == 4
    assert list(repo.repair().commits) == ["twice"]
    assert repo.verify(history=False).ok
    assert (repo.readonly_session("twice").root["a"][:] == repo.readonly_session().root["a"][:]).all()


@formats
def test_files_of_collections(create: Create) -> None:
    """A list or a pin that cannot be read prevents collections, new tags and branches; other files there are ignored."""
    store, repo = filled(create, 2)
    orphan(repo)
    repo.garbage_collect()
    assert repo.verify().ok
    (condemned,) = store.list_prefix("gc/condemned/")
    pin, later, foreign = f"gc/pins/{'0' * 20}", f"gc/leases/{'0' * 20}", "gc/condemned/notes.txt"
    store.set(condemned, (store.get(condemned) or b"")[:-2])
    store.set(pin, emit_columns({"others": id_column([])}))
    store.set(later, b"")
    store.set(foreign, b"")
    found = repo.verify(history=False)
    assert [(problem.kind, problem.key) for problem in found.problems] == [
        ("collection", condemned),
        ("collection", later),
        ("collection", pin),
    ]
    assert "remove this file" in found.problems[0].text
    assert not repo.repair().ok
    for key in (condemned, pin, later):
        store.erase(key)
    assert repo.verify().ok
    assert repo.garbage_collect().condemned["chunks"] == 2


def test_missing_chunk_files_are_named() -> None:
    """So that a user can put them back from a copy."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    with repo.transaction(message="x") as root:
        root.create_array("a", data=np.zeros((5, 1000)) + 1, chunks=(1, 1000), codecs=[])
    keys = sorted(store.list_prefix("chunks/"))
    store.erase(keys[1])
    (problem,) = frazil.Repository.open(store).verify().problems
    assert problem.text == f"chunk files are missing: {keys[1]}"
    for key in keys:
        store.erase(key)
    (problem,) = frazil.Repository.open(store).verify().problems
    assert problem.text == f"chunk files are missing: {', '.join(keys[:3])} and 2 more"
