"""Repairs of repositories of the alpha library, and repairs that end early: by an interrupt, by a kill, or because of a concurrent writer."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.repository.archived_repositories import archive
from tests.repository.maintenance.garbage import FORMATS, fill, values
from tests.repository.maintenance.interrupts import Interrupted
from tests.repository.verification.test_verify import contents, tip_manifest

import frazil
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.formats.alpha.manifests import decode_manifest, encode_manifest
from frazil.formats.ids import encode_id
from frazil.formats.nodes import NodeSnapshot
from frazil.repository.session.transaction import Options
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import Changed, Pieces, Version, flat_buffer
from frazil.stores.wrappers import WrappedStore

NAMES = ["icechunk-alpha-repo", "icechunk-alpha-varied"]


def opened(name: str) -> tuple[MemoryStore, frazil.Repository]:
    files = archive(name)
    assert isinstance(files.store, MemoryStore)
    return files.store, frazil.Repository(files, Options(), DEFAULT_REGISTRY)


@pytest.mark.parametrize("name", NAMES)
def test_repositories_of_the_alpha_library(name: str) -> None:
    store, repo = opened(name)
    before = contents(store)
    assert repo.repair(older=True, accept_loss=True, tips=True, history=True).ok
    assert contents(store) == before
    for kind in ("manifests/", "chunks/", "snapshots/"):
        for key in store.list_prefix(kind)[:2]:
            store, repo = opened(name)
            store.set(key, (store.get(key) or b"")[:-7])
            damaged = contents(store)
            repo.repair()
            done = repo.repair(older=True, accept_loss=True, tips=True, history=True)
            after = contents(store)
            assert all(after[other] == value for other, value in damaged.items())
            left = [problem for problem in done.after if not problem.ref.startswith("tag ")]
            assert not left or any(entry.kind == "branch" for entry in done.lost), f"{key}: {done}"


def misplaced() -> tuple[MemoryStore, frazil.Repository, NodeSnapshot]:
    """Two arrays of one rank. The later commit of the alpha library gave the first one the references of the other."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible="alpha-library", chunk_packing="off")
    with repo.transaction(message="0") as root:
        for number, name in enumerate(("lat", "lon")):
            root.create_array(name, data=np.random.default_rng(number).random((4, 256)), chunks=(1, 256), codecs=[])
    with repo.transaction(message="1") as root:
        for name in ("lat", "lon"):
            root[name][0] = 1
    nodes = repo._files.snapshot(repo._files.tip("main").snapshot).nodes
    low, high = sorted(
        (node for node in map(nodes.get, ("/lat", "/lon")) if isinstance(node, NodeSnapshot)), key=lambda node: node.id
    )
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
    return store, frazil.Repository.open(store), low


def test_misplaced_references_come_from_before() -> None:
    _, repo, low = misplaced()
    assert {problem.kind for problem in repo.verify(history=False).problems} == {"misplaced"}
    done = repo.repair()
    assert [(entry.path, len(entry.chunks)) for entry in done.repaired if entry.chunks is not None] == [(low.path, 4)]
    assert not done.lost
    assert repo.verify(history=False, decode=True).ok
    root = repo.readonly_session().root
    number = ("/lat", "/lon").index(low.path)
    assert np.array_equal(root[low.path.strip("/")][:], np.random.default_rng(number).random((4, 256)))
    other = np.random.default_rng(1 - number).random((4, 256))
    other[0] = 1
    assert np.array_equal(root[("lat", "lon")[1 - number]][:], other)


# --- ends


def damaged(store: Store) -> frazil.Repository:
    """One of two branches has lost a manifest, the other its tip."""
    repo = FORMATS[0](store)
    fill(repo, 3)
    repo.create_branch("other", "main")
    with repo.transaction("other", message="lost") as root:
        root["a"][0] = 5
    store.erase(f"snapshots/{repo.lookup('other')}")
    key, _ = tip_manifest(repo)
    store.erase(key)
    return frazil.Repository.open(store)


@pytest.mark.parametrize("after", [False, True])
def test_interrupts(after: bool) -> None:
    left = 0
    while True:
        store = MemoryStore()
        damaged(store)
        interrupted = Interrupted(store, left, KeyboardInterrupt(), after=after)
        try:
            frazil.Repository.open(interrupted).repair(older=True, tips=True)
        except KeyboardInterrupt:
            repo = frazil.Repository.open(store)
            repo.verify()
            repo.repair(older=True, tips=True)
            assert repo.verify(history=False, decode=True).ok
            assert len(list(repo.history())) == 5
            left += 1 if after else 7
        else:
            break
    assert left > 3


class Killed(WrappedStore):
    """A store in which the process is killed instead of a put."""

    def __init__(self, inner: Store, left: int) -> None:
        super().__init__(inner)
        self.left = left

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().put_many(names, pieces, expect)


def test_kills(tmp_path: Path) -> None:
    for left in range(20):
        path = tmp_path / str(left)
        damaged(LocalStore(path))
        child = os.fork()
        if child == 0:
            try:
                frazil.Repository.open(Killed(LocalStore(path), left)).repair(older=True, tips=True)
            finally:
                os._exit(0)
        killed = os.waitpid(child, 0)[1] == signal.SIGKILL
        repo = frazil.Repository.open(path)
        done = repo.repair(older=True, tips=True)
        assert repo.verify(history=False, decode=True).ok
        assert np.array_equal(repo.readonly_session().root["a"][:], values(1))
        if not killed:
            assert not done.commits
            assert left > 3
            return
    raise AssertionError("the repair did not end")


class Beside(WrappedStore):
    """A store in which another writer commits when a manifest is written for the first time."""

    act = None

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        answers = super().put_many(names, pieces, expect)
        if self.act is not None and any("manifests/" in name for name in names):
            act, self.act = self.act, None
            act()
        return answers


def test_a_repair_beside_a_writer_keeps_the_commit() -> None:
    store = MemoryStore()
    damaged(store)
    beside = Beside(store)

    def commit() -> None:
        with frazil.Repository.open(store).transaction(message="beside") as root:
            root.create_array("new", data=[1, 2, 3])

    beside.act = commit
    done = frazil.Repository.open(beside).repair(older=True, tips=True)
    assert beside.act is None
    repo = frazil.Repository.open(store)
    assert list(done.commits) == ["main"]
    assert [commit.message for commit in repo.history()][1] == "beside"
    assert repo.readonly_session().root["new"][:].tolist() == [1, 2, 3]
    assert repo.verify(history=False, decode=True).ok
    assert repo.verify().orphans["snapshots"] == 0
