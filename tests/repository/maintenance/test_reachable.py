"""Marking: damage that would make objects in use look unreachable."""

from __future__ import annotations

import numpy as np
import pytest
from tests.repository.maintenance.garbage import fill, objects, orphan, values

import frazil
from frazil.errors import FormatError
from frazil.formats.ids import encode_id
from frazil.formats.nodes import NodeSnapshot
from frazil.stores import MemoryStore


@pytest.mark.parametrize("marked", [False, True], ids=["new", "marked"])
def test_a_manifest_with_the_content_of_another_one(marked: bool) -> None:
    """It says nothing of the chunks that only the right one refers to: nothing is removed, also if an earlier run has marked the history up to there."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    fill(repo)
    if marked:
        repo.garbage_collect(now=True)
    with repo.transaction(message="others") as root:
        root["a"][1:] = values(5)[1:]
    with repo.transaction(message="another array") as root:
        root.create_array("b", data=values(6)[:2], chunks=(1, 256), codecs=[])
    orphan(repo)
    known = {node: repo.readonly_session().root[node][:] for node in ("a", "b")}
    (of_a, *_), (of_b, *_) = (manifests_of(repo, path) for path in ("/a", "/b"))
    for kept, other in ((of_a, of_b), (of_b, of_a)):
        value, replacement = store.get(kept), store.get(other)
        assert value is not None
        assert replacement is not None
        store.set(kept, replacement)
        before = objects(store)
        for dry_run in (True, False):
            with pytest.raises(FormatError) as caught:
                frazil.Repository.open(store).garbage_collect(now=True, dry_run=dry_run)
            assert caught.value.key == kept
        assert objects(store) == before
        assert [problem.kind for problem in frazil.Repository.open(store).verify().problems] == ["manifest"]
        store.set(kept, value)
    repo = frazil.Repository.open(store)
    assert repo.garbage_collect(now=True).removed["chunks"] >= 2
    assert all(np.array_equal(repo.readonly_session().root[node][:], known[node]) for node in known)


def manifests_of(repo: frazil.Repository, path: str) -> list[str]:
    """The keys of the manifests of an array at the tip of main, the newest first."""
    node = repo._files.snapshot(repo._files.tip("main").snapshot).nodes.get(path)
    assert isinstance(node, NodeSnapshot)
    assert node.array is not None
    return [f"manifests/{encode_id(manifest.id)}" for manifest in node.array.manifests]
