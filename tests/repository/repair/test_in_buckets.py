"""Repair in real object stores."""

from __future__ import annotations

import numpy as np
import pytest
from tests.repository.maintenance.garbage import fill, values
from tests.servers.buckets import Buckets

import frazil
from frazil.formats.ids import encode_id
from frazil.formats.nodes import NodeSnapshot


@pytest.mark.parametrize("kind", ["s3", "azure", "gcs"])
def test_a_bucket(kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    server: Buckets = request.getfixturevalue(kind)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    url = server.url(prefix="repaired")
    repo = frazil.Repository.create(url, chunk_packing="off", chunk_digests="crc32c")
    fill(repo)
    assert repo.verify(decode=True, digests=True).ok
    tip, before = [commit.id for commit in repo.history()][:2]
    files = repo._files
    node = files.snapshot(files.tip("main").snapshot).nodes.get("/a")
    assert isinstance(node, NodeSnapshot)
    assert node.array is not None
    files.store.erase(files.key(f"manifests/{encode_id(node.array.manifests[0].id)}"))
    done = frazil.Repository.open(url).repair()
    assert list(done.commits) == ["main"]
    repo = frazil.Repository.open(url)
    assert np.array_equal(repo.readonly_session().root["a"][:], values(1))
    assert repo.verify(history=False, digests=True).ok
    files.store.erase(files.key(f"snapshots/{repo.lookup('main')}"))
    files.store.erase(files.key(f"snapshots/{tip}"))
    done = frazil.Repository.open(url).repair(tips=True)
    assert done.moved == {"main": before}
    assert done.ok
