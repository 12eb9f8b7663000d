"""A repair during a garbage collection: data that it would restore may be about to be removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError, FormatError
from frazil.formats.ids import encode_id
from frazil.repository.maintenance import collection

HOUR = timedelta(hours=1)


def test_condemned_chunks_are_not_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair finds a chunk in a former tip; a collection that had marked before removes the chunk."""
    path = tmp_path / "r"
    repo = frazil.Repository.create(path)
    with repo.transaction(message="base") as root:
        root.create_array("a", data=np.arange(4000.0), chunks=(1000,), codecs=[])
    base = repo.lookup("main")
    first = [info.id for info in repo.history()][-1]
    of_base = set(os.listdir(path / "chunks"))
    with repo.transaction(message="left behind") as root:
        root["a"][:1000] = 7
    repo.reset_branch("main", base)
    repo.expire(older_than=timedelta(0))
    (path / "snapshots" / first).unlink()
    for name in of_base:
        (path / "chunks" / name).unlink()
    repo = frazil.Repository.open(path)
    repo.garbage_collect(wait=HOUR, accept_loss=True)
    for note in (path / "gc" / "condemned").iterdir():
        old = note.stat().st_mtime - 7200
        os.utime(note, (old, old))
    remove: Callable[..., None] = collection._remove
    refused: list[ConflictError] = []

    def repair_first(*arguments: object) -> None:
        with pytest.raises(ConflictError, match="garbage collection") as caught:
            repo.repair(older=True)
        refused.append(caught.value)
        remove(*arguments)

    monkeypatch.setattr(collection, "_remove", repair_first)
    before = {file.name for file in (path / "snapshots").iterdir()}
    repo.garbage_collect(wait=HOUR, accept_loss=True)
    assert refused
    assert repo.lookup("main") == base
    assert {file.name for file in (path / "snapshots").iterdir()} <= before


def test_condemned_chunks_are_restored_if_no_collection_runs(tmp_path: Path) -> None:
    """They exist, and the next collection marks them. It is refused until the damage is repaired, so the repair cannot wait for it."""
    path = tmp_path / "r"
    repo = frazil.Repository.create(path, chunk_packing="off")
    for number in range(3):
        with repo.transaction(message=str(number)) as root:
            root.require_array("a", shape=(4000,), dtype="f8", chunks=(1000,))[:] = np.arange(4000.0) + number
    tip = repo.lookup("main")
    repo.reset_branch("main", list(repo.history())[-1].id)
    repo.garbage_collect(wait=HOUR)
    for note in (path / "gc" / "condemned").iterdir():
        old = note.stat().st_mtime - 7200
        os.utime(note, (old, old))
    repo.reset_branch("main", tip)
    node = repo.readonly_session()._transaction.base.nodes.get("/a")
    (path / "manifests" / encode_id(node.array.manifests[0].id)).unlink()  # type: ignore[union-attr]
    repo = frazil.Repository.open(path)
    with pytest.raises(FormatError):
        repo.garbage_collect(wait=HOUR)
    done = repo.repair()
    assert not done.lost
    assert np.array_equal(repo.readonly_session().root["a"][:], np.arange(4000.0) + 1)
    assert repo.repair(history=True).ok
    repo.garbage_collect(wait=HOUR)
    repo = frazil.Repository.open(path)
    assert repo.verify(decode=True).ok
    assert np.array_equal(repo.readonly_session().root["a"][:], np.arange(4000.0) + 1)


def test_a_repair_that_cannot_read_the_records_of_collections_leaves_nothing(tmp_path: Path) -> None:
    """A link in gc/ hides what a collection removes, so the commit is refused, and its files are erased."""
    path = tmp_path / "r"
    repo = frazil.Repository.create(path, chunk_packing="off")
    for number in range(2):
        with repo.transaction(message=str(number)) as root:
            root.require_array("a", shape=(4000,), dtype="f8", chunks=(1000,))[:] = np.arange(4000.0) + number
    node = repo.readonly_session()._transaction.base.nodes.get("/a")
    (path / "manifests" / encode_id(node.array.manifests[0].id)).unlink()  # type: ignore[union-attr]
    (path / "gc").mkdir(exist_ok=True)
    (path / "gc" / "condemned").symlink_to(tmp_path)
    there = {file for file in path.rglob("*") if not file.is_dir()}
    with pytest.raises(FormatError):
        frazil.Repository.open(path).repair()
    assert {file for file in path.rglob("*") if not file.is_dir()} == there
