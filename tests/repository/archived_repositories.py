"""Repositories for tests: those of the archives, in memory; and snapshots made by hand."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from frazil.formats.alpha.manifests import encode_manifest
from frazil.formats.alpha.refs import Ref, branch_key, emit_ref, manifest_key
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.ids import ObjectId, decode_id, new_id
from frazil.formats.manifests import NATIVE, Manifest, node_manifest
from frazil.formats.snapshots import SnapshotInfo
from frazil.repository.alpha.branches import create_repository
from frazil.repository.alpha.format import AlphaFormat as Files
from frazil.repository.format import Tip
from frazil.stores import Capabilities, MemoryStore, Store
from frazil.stores.values import flat_buffer
from frazil.stores.wrappers import WrappedStore
from tests.formats.archives import repository

SECOND = 10**9


def archive(name: str, prefix: str = "") -> Files:
    """One of the repositories that the library of the alpha wrote, below a prefix."""
    store = MemoryStore()
    for key, value in repository(name).items():
        store.set(prefix + key, value)
    return Files(store, prefix)


def some_id() -> ObjectId:
    return new_id(os.urandom)


def info(number: int, message: str = "") -> SnapshotInfo:
    """A commit with this number as its id, written this many seconds after 1970."""
    return SnapshotInfo(number.to_bytes(12, "big"), number * SECOND, message or f"commit {number}")


def snapshot(own: SnapshotInfo, history: Sequence[SnapshotInfo] = (), total: int | None = None) -> SnapshotFile:
    return SnapshotFile(own, own.written_at, tuple(history), len(history) if total is None else total)


def put_snapshot(files: Files, number: int, history: Sequence[int] = (), total: int | None = None) -> ObjectId:
    made = snapshot(info(number), [info(parent) for parent in history], total)
    files.write_new([files.encoded_snapshot(made.metadata.id, made)])
    return made.metadata.id


def put_manifests(files: Files, manifests: Sequence[tuple[ObjectId, Manifest]]) -> None:
    """Writes manifests with their own snapshot."""
    encoded = [(manifest_key(file), flat_buffer(encode_manifest(one)), one) for file, one in manifests]
    files.write_new([*encoded, files.encoded_snapshot(some_id(), snapshot(info(1)))])


def manifest(node: int, count: int) -> Manifest:
    """Native references of a node, one dimension, in order."""
    return node_manifest(
        node,
        np.arange(count)[:, None],
        np.full(count, NATIVE, np.uint8),
        np.frombuffer(os.urandom(12 * count), np.uint8).reshape(count, 12),
        np.zeros(count, np.int64),
        np.full(count, 100, np.int64),
    )


def empty_files(store: Store | None = None) -> Files:
    return Files(MemoryStore() if store is None else store)


def of_text(text: str) -> ObjectId:
    return decode_id(text)


class Without(WrappedStore):
    """A store that lacks some operations."""

    def __init__(self, inner: Store, **lacks: bool) -> None:
        super().__init__(inner)
        self.lacks = lacks

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(**self.lacks)


def created(store: Store | None = None, prefix: str = "") -> tuple[Files, Tip]:
    files = Files(MemoryStore() if store is None else store, prefix)
    first = snapshot(info(1))
    return files, create_repository(files, first.metadata.id, first)


def put_file(files: Files, branch: str, sequence: int, number: int = 1, *, deleted: bool = False) -> None:
    files.store.set(files.key(branch_key(branch, sequence)), emit_ref(Ref(info(number).id, deleted)))
