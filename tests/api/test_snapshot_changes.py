"""The changes between two snapshots, applied again: to the older one, backwards to the newer one, and next to changes of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.formats.nodes import Nodes
from frazil.repository.merge.apply import Shift, apply
from frazil.repository.merge.conflicts import find_conflicts
from frazil.repository.merge.delta import Delta
from frazil.repository.merge.session_delta import session_delta
from frazil.repository.merge.snapshot_delta import snapshot_delta
from frazil.repository.session.change_set import ChangeSet
from frazil.stores import MemoryStore
from frazil.testing.memory_format import create_memory_repository

Change = Callable[[frazil.Group], object]


def made_again(repo: frazil.Repository, old: str, new: str, branch: str) -> tuple[Delta, list[Shift]]:
    """Applies the changes from one snapshot to another at the tip of a branch, and commits."""
    files = repo._files
    ids = [files_id(repo, name) for name in (old, new)]
    session = repo.writable_session(branch)
    transaction = session._transaction
    source, changes = ChangeSet(Nodes()), transaction.changes.copy()
    states = [files.snapshot(one) for one in ids]
    delta = snapshot_delta(files, *states, files.match_nodes(*ids), source=source)
    onto = files.match_nodes(ids[0], transaction.base_id)

    def where(path: str) -> int | None:
        there = onto.there(path)
        return None if there is None else changes.key_at(there)

    shifts = apply(delta, changes, source, where)
    transaction.begin(transaction.base_id, transaction.base, changes)
    session.commit("again")
    return delta, shifts


def files_id(repo: frazil.Repository, name: str) -> bytes:
    return repo.readonly_session(snapshot=name)._transaction.base_id


def contents(session: frazil.Session) -> dict[str, object]:
    """All nodes: values or None, attributes."""
    found: dict[str, object] = {"": session.root.attrs.asdict()}
    for path, node in session.root.members(max_depth=None):
        values = node[...].tolist() if isinstance(node, frazil.Array) else None  # type: ignore[union-attr]
        found[path] = values, node.attrs.asdict()
    return found


def array(root: frazil.Group, path: str) -> frazil.Array:
    found = root[path]
    assert isinstance(found, frazil.Array)
    return found


def write(root: frazil.Group) -> None:
    array(root, "a")[1:5] = 70
    array(root, "g/big")[...] = 3


def erase(root: frazil.Group) -> None:
    array(root, "a")[2:4] = 0
    array(root, "g/big")[:64] = 0


def append(root: frazil.Group) -> None:
    array(root, "a").append(np.full(4, 9, "i4"))


def shrink(root: frazil.Group) -> None:
    array(root, "a").resize((3,))
    array(root, "g/big").resize((64,))


def swap(root: frazil.Group) -> None:
    root.move("a", "t")
    root.move("g", "a")
    root.move("t", "g")
    array(root, "a/big")[0] = 8


def replace(root: frazil.Group) -> None:
    del root["a"]
    root.create_array("a", data=np.arange(6.0).reshape(2, 3), chunks=(1, 2)).attrs["long"] = "x" * 100


def remove(root: frazil.Group) -> None:
    del root["g"]


def describe(root: frazil.Group) -> None:
    root.attrs["title"] = "t" * 50
    array(root, "a").attrs.put({"long": "y" * 100})
    root["g"].attrs["units"] = "m"


def make(root: frazil.Group) -> None:
    root.create_array("n/small", data=np.arange(10, dtype="i2"), chunks=(3,))
    root.create_array("n/large", data=np.arange(4096.0), chunks=(1024,), codecs=[]).attrs["long"] = "z" * 100
    root.create_array("n/empty", shape=(5,), dtype="i4")


CHANGES: list[Change] = [write, erase, append, shrink, swap, replace, remove, describe, make]
CREATED: dict[str, Callable[..., frazil.Repository]] = {
    "alpha": frazil.Repository.create,
    "memory": create_memory_repository,
}
OPTIONS: dict[str, dict[str, object]] = {
    "packed": {},
    "not packed": {"chunk_packing": "off"},
    "attribute files": {"attributes_file_bytes": 60},
    "compatible": {"compatible": "alpha-library"},
}


def repository(kind: str, options: Mapping[str, object] = {}) -> frazil.Repository:
    repo = CREATED[kind](MemoryStore(), **options)
    with repo.transaction(message="base") as root:
        root.create_array("a", data=np.arange(8, dtype="i4"), chunks=(2,), fill_value=0).attrs["long"] = "w" * 100
        root.create_array("g/big", data=np.arange(256.0), chunks=(64,), codecs=[], fill_value=0)
        root.create_array("other", data=np.arange(4, dtype="i4"), chunks=(2,))
    return repo


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("kind", "options"), [*[("alpha", name) for name in OPTIONS], ("memory", "packed"), ("memory", "not packed")]
)
def test_a_change_is_made_again_and_taken_back(kind: str, options: str, change: Change) -> None:
    repo = repository(kind, OPTIONS[options])
    base = repo.lookup_branch("main")
    before = contents(repo.readonly_session())
    repo.create_branch("again", base)
    repo.create_branch("beside", base)
    with repo.transaction(message="change") as root:
        change(root)
    new = repo.lookup_branch("main")
    after = contents(repo.readonly_session())
    made_again(repo, base, new, "again")
    assert contents(repo.readonly_session("again")) == after
    made_again(repo, new, base, "main")
    assert contents(repo.readonly_session()) == before
    with repo.transaction("beside", message="beside") as root:
        array(root, "other").append(np.full(2, 5, "i4"))
        root.create_group("more")
    made_again(repo, base, new, "beside")
    beside = contents(repo.readonly_session("beside"))
    assert beside.pop("more") == (None, {})
    assert beside.pop("other") == ([0, 1, 2, 3, 5, 5], {})
    assert beside == {path: found for path, found in after.items() if path != "other"}


def test_growth_between_snapshots_goes_behind_that_of_others() -> None:
    """By references to whole chunks; otherwise rows are copied, as those of a session."""
    repo = repository("alpha")
    base = repo.lookup_branch("main")
    for name in ("whole", "parts"):
        repo.create_branch(name, base)
    with repo.transaction(message="change") as root:
        append(root)
    for name, count in (("whole", 2), ("parts", 3)):
        with repo.transaction(name, message="theirs") as root:
            array(root, "a").append(np.full(count, 5, "i4"))
        delta, shifts = made_again(repo, base, repo.lookup_branch("main"), name)
        assert [(shift.old, shift.new, shift.by) for shift in shifts] == ([] if name == "whole" else [(8, 12, 3)])
        assert delta.metadata["/a"].append == (0, 8, 12)
    grown = array(repo.readonly_session("whole").root, "a")
    assert grown[...].tolist() == [*range(8), 5, 5, 9, 9, 9, 9]  # type: ignore[union-attr]


def test_virtual_chunks_keep_their_files_and_checks(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    for number, file in enumerate(files):
        file.write_bytes(np.arange(4, dtype="i4").tobytes() + np.full(4, number, "i4").tobytes())
    repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=[tmp_path.as_uri() + "/"])
    base = repo.lookup_branch("main")
    repo.create_branch("again", base)
    session = repo.writable_session()
    session.root.create_array(
        "v", shape=(8,), dtype="i4", chunks=(2,), codecs=[{"name": "bytes", "configuration": {"endian": "little"}}]
    )
    urls = [file.as_uri() for file in files for _ in range(2)]
    session.set_virtual_chunks("v", [[0], [1], [2], [3]], urls, [0, 8, 16, 24], 8)
    array(session.root, "v")[7] = 6
    session.commit("virtual")
    made_again(repo, base, repo.lookup_branch("main"), "again")
    found = array(repo.readonly_session("again").root, "v")
    assert found[...].tolist() == [0, 1, 2, 3, 1, 1, 1, 6]  # type: ignore[union-attr]
    files[0].write_bytes(bytes(32) + b"longer")
    with pytest.raises(frazil.errors.DataError, match="it had 32 bytes"):
        _ = array(
            frazil.Repository.open(repo._files.store, virtual_prefixes=[tmp_path.as_uri() + "/"])
            .readonly_session("again")
            .root,
            "v",
        )[...]


@pytest.mark.parametrize("change", CHANGES)
def test_snapshot_deltas_conflict_like_session_deltas(change: Change) -> None:
    """Both deltas of one change conflict with the same changes of others."""
    repo = repository("alpha")
    base = repo.lookup_branch("main")
    session = repo.writable_session()
    change(session.root)
    ours = session_delta(session._transaction)
    session.commit("change")
    ids = [files_id(repo, name) for name in (base, session.snapshot_id)]
    states, matching = [repo._files.snapshot(one) for one in ids], repo._files.match_nodes(*ids)
    again = snapshot_delta(repo._files, *states, matching, source=ChangeSet(Nodes()))
    assert again.difference == ours.difference
    assert again.rows.keys() == ours.rows.keys()
    for others in CHANGES:
        repo.create_branch(others.__name__, base)
        other = repo.writable_session(others.__name__)
        others(other.root)
        theirs = session_delta(other._transaction)
        conflicts = [[str(one) for one in find_conflicts(delta, theirs, *ids)] for delta in (ours, again)]
        assert conflicts[0] == conflicts[1]
