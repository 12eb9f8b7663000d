"""References as a plain dict, and manifests made from it, for comparison with the columns of references.py and placement.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil.formats.manifests import (
    INLINE,
    NATIVE,
    VIRTUAL,
    Manifest,
    join_manifests,
    node_manifest,
    order_manifest,
)

Chunk: TypeAlias = tuple[int, ...]
Payload: TypeAlias = bytes | tuple[bytes, int, int] | tuple[str, int, int]  # inline, native, virtual
Model: TypeAlias = dict[Chunk, Payload]

payloads: st.SearchStrategy[Payload] = st.one_of(
    st.binary(max_size=4),
    st.tuples(st.sampled_from([b"a" * 12, b"b" * 12]), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.sampled_from(["file:///a", "file:///é", "file:///b"]), st.integers(0, 2), st.integers(0, 2)),
)


def columns_of(chunks: Iterable[Chunk], rank: int) -> NDArray[np.int64]:
    """int64[n, rank] of chunks."""
    rows = list(chunks)
    return np.array(rows, np.int64).reshape(len(rows), rank)


def manifest_of(node: int, model: Mapping[Chunk, Payload], rank: int) -> Manifest:
    """An ordered manifest of one node."""
    some = [payload[0] for payload in model.values() if not isinstance(payload, bytes)]
    names = sorted({name for name in some if isinstance(name, str)})
    kinds, ids, offsets, lengths, locations, inline = [], [], [], [], [], b"unused"
    for payload in model.values():
        if isinstance(payload, bytes):
            row = INLINE, bytes(12), len(inline), len(payload), -1
            inline += payload
        elif isinstance(payload[0], bytes):
            row = NATIVE, *payload, -1
        else:
            row = VIRTUAL, bytes(12), *payload[1:], names.index(payload[0])
        for column, value in zip((kinds, ids, offsets, lengths, locations), row, strict=True):
            column.append(value)
    return order_manifest(
        node_manifest(
            node,
            columns_of(model, rank),
            np.array(kinds, np.uint8),
            np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 12),
            np.array(offsets, np.int64),
            np.array(lengths, np.int64),
            inline=inline,
            locations=np.array(locations, np.int32),
            names=names,
        )
    )


def together(*manifests: Manifest) -> Manifest:
    """One manifest of several nodes."""
    return join_manifests(manifests, checks={})


def payload_at(manifest: Manifest, row: int) -> Payload:
    """The target of a row."""
    offset, length = int(manifest.offsets[row]), int(manifest.lengths[row])
    if manifest.kinds[row] == INLINE:
        return manifest.inline[offset : offset + length].tobytes()
    if manifest.kinds[row] == NATIVE:
        return manifest.ids[row].tobytes(), offset, length
    return manifest.location(int(manifest.locations[row])), offset, length


def model_of(manifest: Manifest, node: int) -> Model:
    """All references of a node, with any rank."""
    return {
        tuple(manifest.coordinates[manifest.starts[row] : manifest.starts[row + 1]].tolist()): payload_at(manifest, row)
        for row in np.flatnonzero(manifest.nodes == node).tolist()
    }
