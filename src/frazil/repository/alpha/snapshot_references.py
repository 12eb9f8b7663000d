"""What snapshot files of the alpha refer to: manifests and attribute files. For garbage collection, which must not miss any.

Our snapshots list all of it. The alpha library ignores its lists, so that the nodes count, too, of what it may have written."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.formats.alpha.refs import snapshot_key
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.ids import ObjectId
from frazil.formats.nodes import AttributesReference, BrokenNode
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.snapshot_flags import has_freedoms
from frazil.repository.format import Referenced

__all__ = ["referenced"]


def referenced(files: Files, snapshots: Sequence[ObjectId]) -> Referenced:
    """What some snapshots refer to, read in one batch and not remembered. Raises NotFoundError, FormatError."""
    manifests: dict[ObjectId, None] = {}
    attributes: dict[ObjectId, None] = {}
    for file, snapshot in zip(snapshots, files.read_snapshots(snapshots), strict=True):
        manifests.update((info.id, None) for info in snapshot.manifest_files)
        attributes.update((info.id, None) for info in snapshot.attribute_files)
        if not has_freedoms(snapshot):
            _of_nodes(files, file, snapshot, manifests, attributes)
    return Referenced([*manifests], [*attributes])


def _of_nodes(
    files: Files,
    file: ObjectId,
    snapshot: SnapshotFile,
    manifests: dict[ObjectId, None],
    attributes: dict[ObjectId, None],
) -> None:
    for path in snapshot.nodes:
        node = snapshot.nodes.get(path)
        if isinstance(node, BrokenNode):
            error = node.error
            error.key = error.key or files.key(snapshot_key(file))
            raise error
        if node is None:
            continue
        if isinstance(node.attributes, AttributesReference):
            attributes[node.attributes.id] = None
        if node.array is not None:
            manifests.update((reference.id, None) for reference in node.array.manifests)
