"""Garbage collection in real object stores: their listings have ages, and they delete in bulk."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.repository.maintenance.garbage import fill, orphan, values
from tests.servers.buckets import Buckets

import frazil
from frazil.errors import NotFoundError


@pytest.mark.parametrize("kind", ["s3", "azure", "gcs"])
def test_a_bucket(kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server: Buckets = request.getfixturevalue(kind)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    url = server.url(prefix="collected")
    repo = frazil.Repository.create(url, chunk_packing="off")
    fill(repo)
    orphan(repo)
    tip, before = [commit.id for commit in repo.history()][:2]
    cached = frazil.Repository.open(url, cache=tmp_path / "cache")
    assert (cached.readonly_session(snapshot=tip).root["a"][:] == values(2)).all()
    repo.reset_branch("main", before)
    first = repo.garbage_collect()
    assert (first.condemned["chunks"], first.condemned["snapshots"], first.live["snapshots"]) == (6, 1, 3)
    assert repo.garbage_collect().waiting["chunks"] == 6
    last = repo.garbage_collect(now=True)
    assert (last.removed["chunks"], last.removed_bytes) == (6, first.condemned_bytes)
    assert (frazil.Repository.open(url).readonly_session().root["a"][:] == values(1)).all()
    again = frazil.Repository.open(url, cache=tmp_path / "cache")
    with pytest.raises(NotFoundError):  # also if the snapshot is cached on disk
        again.create_tag("gone", tip)
    assert repo.garbage_collect(now=True).removed["chunks"] == 0
