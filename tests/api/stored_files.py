"""What must hold for the files of a repository after every commit, read only through frazil.formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np

from frazil.formats.alpha.manifests import decode_manifest
from frazil.formats.alpha.snapshots import SnapshotFile, decode_snapshot
from frazil.formats.ids import ObjectId, decode_id, encode_id
from frazil.formats.manifests import NATIVE, Manifest
from frazil.formats.msgpack import unpack
from frazil.formats.nodes import AttributesReference, NodeSnapshot
from frazil.stores import Store

HISTORY = 8


def read_snapshots(store: Store) -> dict[ObjectId, SnapshotFile]:
    """All snapshots by the ids of their files."""
    keys = store.list_prefix("snapshots/")
    return {decode_id(key.removeprefix("snapshots/")): decode_snapshot(store.get(key) or b"", key) for key in keys}


def check_files(store: Store, *, garbage: bool = True, reached: Collection[str] | None = None) -> None:
    """garbage: whether there may be chunk files that no snapshot refers to;  reached: the snapshots that count, if others may be left by failed commits"""
    manifests: dict[ObjectId, Manifest] = {}
    keys = store.list_prefix("chunks/")
    sizes = dict(zip(keys, store.sizes(keys).tolist(), strict=True))
    used: set[str] = set()
    for file, snapshot in read_snapshots(store).items():
        if reached is not None and encode_id(file) not in reached:
            continue
        try:
            used |= _check_snapshot(store, snapshot, manifests, sizes)
        except AssertionError as error:
            error.add_note(f"in the snapshot {encode_id(file)}, {snapshot.metadata.message!r}")
            raise
    assert garbage or used == set(sizes)


def _check_snapshot(
    store: Store, snapshot: SnapshotFile, manifests: dict[ObjectId, Manifest], sizes: dict[str, int]
) -> set[str]:
    freedoms = "frazil" in snapshot.flags
    nodes = [snapshot.nodes.get(path) for path in snapshot.nodes]
    whole = [node for node in nodes if isinstance(node, NodeSnapshot)]
    assert len(whole) == len(nodes)
    assert max(Counter(node.id for node in whole).values(), default=1) == 1, "ids of nodes are unique"
    if freedoms:
        following = unpack(snapshot.flags["frazil"])["next_node"]  # type: ignore[index, call-overload]
        assert all(node.id < following for node in whole)  # type: ignore[operator]
    assert len(snapshot.history) == (min(snapshot.total_parents, HISTORY) if freedoms else snapshot.total_parents)
    listed = [info.id for info in snapshot.manifest_files]
    named = {manifest.id for node in whole if node.array is not None for manifest in node.array.manifests}
    assert len(listed) == len(set(listed))
    assert set(listed) == named, "each manifest is listed that an array names, and no other"
    files = {node.attributes.id for node in whole if isinstance(node.attributes, AttributesReference)}
    assert {info.id for info in snapshot.attribute_files} == files
    assert all(store.exists(f"attributes/{encode_id(file)}") for file in files)
    for file in named - manifests.keys():
        data = store.get(key := f"manifests/{encode_id(file)}")
        assert data is not None, "a manifest that is named is there"
        manifests[file] = decode_manifest(data, key)
    used: set[str] = set()
    for node in whole:
        if node.array is not None:
            used |= _check_array(node, manifests, sizes, freedoms=freedoms)
    return used


def _check_array(
    node: NodeSnapshot, manifests: dict[ObjectId, Manifest], sizes: dict[str, int], *, freedoms: bool
) -> set[str]:
    assert node.array is not None
    rank = len(node.array.metadata.shape)
    grid = [
        -(-length // chunk)
        for length, chunk in zip(node.array.metadata.shape, node.array.metadata.chunk_shape, strict=True)
    ]
    seen: set[tuple[int, ...]] = set()
    used: set[str] = set()
    assert len({one.id for one in node.array.manifests}) == len(node.array.manifests)
    for reference in node.array.manifests:
        manifest = manifests[reference.id]
        rows = np.flatnonzero(manifest.nodes == node.id).tolist()
        assert rows, "a manifest that an array names holds chunks of it"
        found = [tuple(manifest.coordinates[manifest.starts[i] : manifest.starts[i + 1]].tolist()) for i in rows]
        assert all(len(one) == rank for one in found)
        assert all(0 <= at < count for one in found for at, count in zip(one, grid, strict=True)), "inside of the grid"
        assert len(set(found)) == len(found)
        if freedoms:
            table = np.array(found).reshape(len(found), rank)
            low, high = (tuple(edge.tolist()) for edge in (table.min(axis=0), table.max(axis=0)))
            assert reference.extents == (low, high, (len(found),))
        else:
            assert reference.extents == ()
            assert not seen & set(found), "without freedoms a chunk is in one manifest alone"
        seen |= set(found)
        for i in rows:
            if manifest.kinds[i] == NATIVE:
                key = f"chunks/{encode_id(manifest.ids[i].tobytes())}"
                assert key in sizes, "a chunk file that is referred to is there"
                assert manifest.offsets[i] + manifest.lengths[i] <= sizes[key]
                assert freedoms or manifest.offsets[i] == 0
                used.add(key)
    return used
