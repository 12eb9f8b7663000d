"""Details of one commit, or of one object of a repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from frazil.base.arrays import distinct
from frazil.errors import NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.manifests import INLINE, NATIVE, VIRTUAL, Manifest, rows_of_node
from frazil.formats.nodes import NodeSnapshot
from frazil.formats.times import emit_time
from frazil.repository.format import MAIN, ObjectKind, RepositoryFormat
from frazil.repository.inspection.report import Kept, ShownCommit, ShownObject
from frazil.repository.maintenance.id_columns import Ids, id_column, id_list, join, without
from frazil.repository.maintenance.reachable import chunk_files
from frazil.repository.merge.difference import Difference
from frazil.repository.merge.snapshot_delta import snapshot_delta
from frazil.repository.verification.histories import UNREADABLE, read_refs
from frazil.repository.verification.report import Findings

_MANIFESTS: Final = 16  # read in one batch


def show_commit(files: RepositoryFormat, snapshot: ObjectId, name: str) -> ShownCommit:
    """A commit. name: what it was found by; in a store that cannot list, only this one and `main` are looked at for its branches and tags. Raises
    NotFoundError, FormatError, StoreError."""
    own = files.snapshot(snapshot)
    info, parent = next((found.info, found.parent) for found in files.ancestors(snapshot))
    changed, before = _changed(files, snapshot, parent)
    refs = tuple(ref for ref, tip in _tips(files, name) if tip == snapshot)
    listed, previous = files.referenced([snapshot]), None if before is None else files.referenced([before])
    manifests = without(
        join([id_column(listed.manifests)]), join([] if previous is None else [id_column(previous.manifests)])
    )
    replaced = join([] if previous is None else [id_column(previous.manifests)])
    replaced = without(replaced, join([id_column(listed.manifests)]))
    attributes = without(
        join([id_column(listed.attributes)]), join([] if previous is None else [id_column(previous.attributes)])
    )
    named, inline = _named(files, manifests)
    chunks = without(named, _named(files, replaced)[0])
    wrote = {
        "snapshots": _sizes(files, "snapshots", id_column([snapshot])),
        "manifests": _sizes(files, "manifests", manifests),
        "attributes": _sizes(files, "attributes", attributes),
        "chunks": _sizes(files, "chunks", chunks),
    }
    return ShownCommit(
        encode_id(snapshot),
        None if parent is None else encode_id(parent),
        own.metadata.written_at,
        info.message,
        files.commit_metadata(snapshot),
        refs,
        wrote,
        inline,
        changed,
        emit_time(own.metadata.written_at),
    )


def _tips(files: RepositoryFormat, name: str) -> Iterable[tuple[str, ObjectId]]:
    if files.store.capabilities.listable:
        return read_refs(files, Findings())[1]
    tagged, found = files.tag(name), set[tuple[str, ObjectId]]()
    for branch in (MAIN, name):
        with suppress(*UNREADABLE):
            tip = files.read_tip(branch)
            if tip is not None and not tip.deleted:
                found.add((f"branch {branch}", tip.snapshot))
    return sorted(found) if tagged is None else [*sorted(found), (f"tag {name}", tagged)]


def _changed(
    files: RepositoryFormat, snapshot: ObjectId, parent: ObjectId | None
) -> tuple[Difference | None, ObjectId | None]:
    """What a commit changed, and the id of its parent's file; None if the parent has expired or is unknown."""
    if parent is None:
        return None, None
    try:
        before = files.snapshot_id(parent)
        old = files.snapshot(before)
    except NotFoundError:
        return None, None
    delta = snapshot_delta(files, old, files.snapshot(snapshot), files.match_nodes(before, snapshot))
    return delta.difference, before


def _named(files: RepositoryFormat, manifests: Ids) -> tuple[Ids, Kept]:
    """The chunk files that manifests refer to, and the chunks inside the manifests."""
    named: list[Ids] = []
    inline = Kept()
    for manifest in _read(files, id_list(manifests)):
        named.append(chunk_files(manifest))
        lengths = manifest.lengths[manifest.kinds == INLINE]
        inline = inline.plus(Kept(len(lengths), int(lengths.sum())))
    return join(named), inline


def _read(files: RepositoryFormat, ids: Sequence[ObjectId]) -> Iterator[Manifest]:
    for low in range(0, len(ids), _MANIFESTS):
        yield from files.manifests(ids[low : low + _MANIFESTS])


def _sizes(files: RepositoryFormat, kind: ObjectKind, ids: Ids) -> Kept:
    """The number of objects, and their bytes. Objects that are gone count 0 bytes."""
    if not len(ids):
        return Kept()
    keys = [files.key(f"{kind}/{encode_id(file)}") for file in id_list(ids)]
    return Kept(len(keys), int(np.maximum(files.store.sizes(keys), 0).sum()))


# --- objects other than snapshots -------------------------------------------------------------------------------------------------------


def show_object(files: RepositoryFormat, file: ObjectId) -> ShownObject | None:
    """The manifest, chunk file or attribute file with an id, or None. Its uses are looked up in the tips of branches and tags.

    Raises FormatError for an invalid manifest, StoreError."""
    kinds: list[ObjectKind] = ["manifests", "chunks", "attributes"]
    keys = [files.key(f"{kind}/{encode_id(file)}") for kind in kinds]
    for kind, key, size in zip(kinds, keys, files.store.sizes(keys).tolist(), strict=True):
        if size >= 0:
            content = _content(files.manifests([file])[0]) if kind == "manifests" else {}
            used_by = tuple(_uses(files, kind, file))
            return ShownObject(kind, encode_id(file), size, _modified(files, key), content, used_by)
    return None


def _content(manifest: Manifest) -> dict[str, int]:
    found = {"arrays": len(distinct(manifest.nodes)), "references": manifest.size}
    for name, kind in (("inline", INLINE), ("in chunk files", NATIVE), ("virtual", VIRTUAL)):
        rows = manifest.kinds == kind
        found[name], found[f"{name}, bytes"] = int(rows.sum()), int(manifest.lengths[rows].sum())
    return {**found, "chunk files": len(chunk_files(manifest))}


def _modified(files: RepositoryFormat, key: str) -> int:
    folder, _, _ = key.rpartition("/")
    if not files.store.capabilities.listable:
        return -1
    page = files.store.list_page(f"{folder}/", key[:-1], details=True, limit=8)
    times = [] if page.modified is None else page.modified.tolist()
    return next((time for name, time in zip(page.keys, times, strict=False) if name == key), -1)


def _uses(files: RepositoryFormat, kind: ObjectKind, file: ObjectId) -> Iterator[tuple[str, str, int]]:
    """Where the tips of branches and tags refer to an object: the ref, the path, and the number of references."""
    visited: set[ObjectId] = set()
    for ref, tip in read_refs(files, Findings())[1]:
        if tip in visited:
            continue
        visited.add(tip)
        try:
            nodes = files.snapshot(tip).nodes
            for path in nodes:
                node = nodes.get(path)
                if isinstance(node, NodeSnapshot):
                    count = _count_uses(files, kind, file, node)
                    if count:
                        yield ref, path, count
        except UNREADABLE:  # verify reports these
            continue


def _count_uses(files: RepositoryFormat, kind: ObjectKind, file: ObjectId, node: NodeSnapshot) -> int:
    if kind == "attributes":
        return int(getattr(node.attributes, "id", None) == file)
    listed = [] if node.array is None else [reference.id for reference in node.array.manifests]
    if kind == "manifests":
        listed = [file] if file in listed else []
    count = 0
    for manifest in _read(files, listed):
        rows = rows_of_node(manifest, node.id)
        if kind == "manifests":
            count += rows.stop - rows.start
        else:
            count += int((manifest.ids[rows] == np.frombuffer(file, np.uint8)).all(axis=1).sum())
    return count
