"""Chunk files that branches or tags lead to are missing: the existing ones may only look unreachable, so a collection touches nothing until the loss is
accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.repository.maintenance.garbage import FORMATS, fill, let_pass, orphan, records, values
from tests.repository.maintenance.test_reachable import manifests_of
from tests.servers.buckets import Buckets

import frazil
from frazil.errors import FormatError
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.testing import CountingStore
from frazil.testing.memory_format import open_memory_repository

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
Create = Callable[[Store], frazil.Repository]


def opened(store: Store) -> frazil.Repository:
    """The repository without what is cached of it."""
    return open_memory_repository(store) if store.get("state") else frazil.Repository.open(store)


def fill_with_garbage(repo: frazil.Repository) -> None:
    """Commits, and garbage."""
    fill(repo)
    orphan(repo)


def flip(store: Store, repo: frazil.Repository) -> tuple[str, str]:
    """Changes a letter of the id of a chunk file in the newest manifest. Returns the key of the chunk file and the one that the manifest now names."""
    manifest = manifests_of(repo, "/a")[0]
    data = bytearray(store.get(manifest) or b"")
    at, chunk = max((data.find(key[-20:].encode()), key) for key in store.list_prefix("chunks/"))
    data[at + 3] = ord("Z") if data[at + 3] != ord("Z") else ord("X")
    store.set(manifest, bytes(data))
    return chunk, f"chunks/{data[at : at + 20].decode()}"


@formats
@pytest.mark.parametrize("now", [False, True])
def test_a_changed_letter_in_a_manifest(create: Create, now: bool) -> None:
    """The chunk file that the manifest named has no reference any more."""
    store = MemoryStore()
    repo = create(store)
    fill_with_garbage(repo)
    repo.garbage_collect()
    store.erase_prefix("gc/marks/")
    let_pass(store)
    manifest = manifests_of(repo, "/a")[0]
    value = store.get(manifest) or b""
    _, named = flip(store, repo)
    before = {key: store.get(key) for key in store.list()}
    for dry_run in (True, False):
        with pytest.raises(FormatError, match="are missing: 1, the first is") as caught:
            opened(store).garbage_collect(now=now, dry_run=dry_run)
        assert caught.value.key == named
        assert "accept_loss=True" in str(caught.value.hint)
        assert {key: store.get(key) for key in store.list()} == before
    store.set(manifest, value)
    done = opened(store).garbage_collect(now=now)
    assert (done.removed["chunks"], done.missing) == (2, 0)
    assert (opened(store).readonly_session().root["a"][:] == values(2)).all()


@formats
def test_objects_marked_before_the_damage_stay(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill_with_garbage(repo)
    repo.garbage_collect(now=True)
    chunk, _ = flip(store, repo)
    orphan(repo)
    assert opened(store).garbage_collect(now=True).removed["chunks"] == 2
    assert store.get(chunk) is not None


@formats
def test_collection_runs_after_a_repair_that_accepts_loss(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill_with_garbage(repo)
    dead = opened(store).verify().orphan_ids["chunks"]
    gone = min(key for key in store.list_prefix("chunks/") if key.removeprefix("chunks/") not in dead)
    value = store.get(gone) or b""
    store.erase(gone)
    with pytest.raises(FormatError):
        opened(store).garbage_collect()
    first = opened(store).garbage_collect(accept_loss=True)
    assert (first.missing, first.condemned["chunks"], first.live["chunks"]) == (1, 2, 11)
    assert first.to_json()["missing"] == 1
    assert "missing: 1 chunk file" in str(first)
    let_pass(store)
    with pytest.raises(FormatError):
        opened(store).garbage_collect()
    assert opened(store).garbage_collect(accept_loss=True, dry_run=True).removed["chunks"] == 2
    assert opened(store).garbage_collect(accept_loss=True).removed["chunks"] == 2
    store.set(gone, value)
    done = opened(store).garbage_collect()
    assert (done.missing, done.live["chunks"]) == (0, 12)
    assert "missing" not in str(done)


@formats
def test_a_manifest_that_is_restored_after_its_damage_was_marked(create: Create) -> None:
    """Its references are read again, and the new marks are kept."""
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    manifest = manifests_of(repo, "/a")[0]
    value = store.get(manifest) or b""
    chunk, _ = flip(store, repo)
    assert opened(store).garbage_collect(accept_loss=True).condemned["chunks"] == 1
    store.set(manifest, value)
    let_pass(store)
    assert sum(opened(store).garbage_collect().removed.values()) == 0
    progress: list[tuple[str, int]] = []
    opened(store).garbage_collect(now=True, progress=lambda *update: progress.append(update))
    assert not [step for step, _ in progress if step == "manifests read"]
    assert store.get(chunk) is not None


@formats
def test_only_manifests_with_missing_chunk_files_are_read_again(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 6)
    store.erase(min(store.list_prefix("chunks/")))
    opened(store).repair(accept_loss=True)
    counts: list[int] = []
    for _ in range(2):
        read: list[int] = []
        done = opened(store).garbage_collect(
            progress=lambda step, n, read=read: read.append(n) if step == "manifests read" else None
        )
        assert done.missing == 1
        counts.append(sum(read))
    assert counts[0] >= 6
    assert counts[1] <= 2


@formats
@pytest.mark.parametrize("moved", [False, True])
def test_a_file_that_was_removed_or_moved_by_hand(create: Create, moved: bool, tmp_path: Path) -> None:
    store = frazil.stores.LocalStore(tmp_path / "r")
    repo = create(store)
    fill(repo)
    (tmp_path / "r/aside").mkdir()
    chunk = min((tmp_path / "r/chunks").iterdir())
    other = tmp_path / "r/aside" / chunk.name if moved else tmp_path / "r/chunks/copy"
    chunk.rename(other)
    orphan(repo)
    before = set((tmp_path / "r/chunks").iterdir())
    for dry_run in (True, False):
        with pytest.raises(FormatError) as caught:
            opened(store).garbage_collect(now=True, dry_run=dry_run)
        assert caught.value.key == f"chunks/{chunk.name}"
    assert set((tmp_path / "r/chunks").iterdir()) == before
    assert opened(store).garbage_collect(now=True, accept_loss=True).removed["chunks"] == 2
    other.rename(chunk)
    assert opened(store).garbage_collect(now=True).missing == 0
    assert (opened(store).readonly_session().root["a"][:] == values(2)).all()


# --- concurrent changes ----------------------------------------------------------------------------------------------------------------


@formats
@pytest.mark.parametrize("step", ["chunks listed", "chunks removed"])
def test_chunk_files_of_commits_after_the_listing_are_looked_up(create: Create, step: str) -> None:
    """And only these: a collection without concurrent commits sends no more requests."""
    store = MemoryStore()
    repo = create(store)
    fill_with_garbage(repo)
    counting = CountingStore(store)

    def commit(at: str, _count: int) -> None:
        if at == step:
            with repo.transaction(message="meanwhile") as root:
                root["a"][:] = values(5)

    done = opened(counting).garbage_collect(now=True, progress=commit)
    assert (done.removed["chunks"], done.missing) == (2, 0)
    looked_up = {one.key for one in counting.requests if one.operation == "look up" and one.key.startswith("chunks/")}
    assert len(looked_up) == (4 if step == "chunks listed" else 0)
    assert (opened(store).readonly_session().root["a"][:] == values(5)).all()


@formats
def test_a_commit_that_is_reset_and_collected_meanwhile(create: Create) -> None:
    """The run has marked the commit, which came after the listing; then another run removes it."""
    store = MemoryStore()
    repo = create(store)
    fill_with_garbage(repo)
    tip = repo.lookup("main")
    steps: list[str] = []

    def change(at: str, _count: int) -> None:
        steps.append(at)
        if at == "chunks listed":
            with repo.transaction(message="meanwhile") as root:
                root["a"][:] = values(5)
        elif steps.count("manifests read") == 1 and at == "manifests read":
            opened(store).reset_branch("main", tip)
            assert opened(store).garbage_collect(now=True).removed["chunks"] == 6

    done = opened(store).garbage_collect(progress=change)
    assert (done.live["chunks"], done.missing) == (12, 0)
    assert steps.count("manifests read") > 1
    assert records(store, "runs") == []


# --- in buckets --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["s3", "azure", "gcs"])
def test_a_bucket(kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    server: Buckets = request.getfixturevalue(kind)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    url = server.url(prefix="missing")
    repo = frazil.Repository.create(url, chunk_packing="off")
    fill_with_garbage(repo)

    def commit(at: str, _count: int) -> None:
        if at == "chunks listed":
            with repo.transaction(message="meanwhile") as root:
                root["a"][:] = values(5)

    assert frazil.Repository.open(url).garbage_collect(progress=commit).condemned["chunks"] == 2
    store = repo._files.store
    store.erase_values(store.list_prefix("gc/"))
    chunk, named = flip(store, repo)
    before = set(store.list_prefix(""))
    with pytest.raises(FormatError) as caught:
        frazil.Repository.open(url).garbage_collect(now=True)
    assert caught.value.key == named
    assert set(store.list_prefix("")) == before
    assert frazil.Repository.open(url).garbage_collect(now=True, accept_loss=True, dry_run=True).removed["chunks"] == 3
    assert store.get(chunk) is not None


@formats
def test_a_loss_that_a_repair_recorded(create: Create) -> None:
    """Older snapshots keep referring to the file. Collections work again, and are still refused for any other missing file."""
    store = MemoryStore()
    repo = create(store)
    fill_with_garbage(repo)
    dead = opened(store).verify().orphan_ids["chunks"]
    gone, other, *_ = sorted(key for key in store.list_prefix("chunks/") if key.removeprefix("chunks/") not in dead)
    value, kept = store.get(gone) or b"", store.get(other) or b""
    store.erase(gone)
    for consents in ({}, {"older": True}, {"accept_loss": True, "dry_run": True}):
        opened(store).repair(**consents)  # type: ignore[arg-type]
        with pytest.raises(FormatError, match="are missing: 1, "):
            opened(store).garbage_collect()
    opened(store).repair(accept_loss=True)
    first = opened(store).garbage_collect()
    assert (first.missing, first.condemned["chunks"]) == (1, 2)
    assert len(records(store, "lost")) == 1
    store.erase(other)
    let_pass(store)
    with pytest.raises(FormatError, match="are missing: 1, ") as caught:
        opened(store).garbage_collect()
    assert caught.value.key == other
    store.set(other, kept)
    assert opened(store).garbage_collect().removed["chunks"] == 2
    opened(store).repair(accept_loss=True)
    assert len(records(store, "lost")) == 1
    store.set(gone, value)
    assert opened(store).garbage_collect().missing == 0
    assert opened(store).verify(decode=True).ok


@formats
@pytest.mark.parametrize("accept_loss", [False, True])
def test_a_manifest_restored_after_a_repair_gave_up_a_file(create: Create, accept_loss: bool) -> None:
    """The marks of the damaged manifest are not trusted, though the file that it named is recorded as lost."""
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    manifest = manifests_of(repo, "/a")[0]
    value = store.get(manifest) or b""
    chunk, _ = flip(store, repo)
    opened(store).repair(accept_loss=True)
    assert opened(store).garbage_collect().condemned["chunks"] == 1
    store.set(manifest, value)
    let_pass(store)
    assert opened(store).garbage_collect(accept_loss=accept_loss).removed["chunks"] == 0
    assert store.get(chunk) is not None


def test_a_damaged_record_of_losses() -> None:
    """Collections are refused as before, and a repair with the consent records the losses again."""
    store = MemoryStore()
    fill_with_garbage(frazil.Repository.create(store, chunk_packing="off"))
    dead = opened(store).verify().orphan_ids["chunks"]
    store.erase(min(key for key in store.list_prefix("chunks/") if key.removeprefix("chunks/") not in dead))
    opened(store).repair(accept_loss=True)
    (record,) = records(store, "lost")
    store.set(record, (store.get(record) or b"")[:-1])
    assert [problem.key for problem in opened(store).verify().problems if problem.kind == "collection"] == [record]
    with pytest.raises(FormatError) as caught:
        opened(store).garbage_collect()
    assert caught.value.key == record
    assert "remove this file" in (caught.value.hint or "")
    opened(store).repair(accept_loss=True)
    store.erase(record)
    assert opened(store).garbage_collect().missing == 1
