"""What snapshot files of the alpha refer to: manifests and attribute files. For garbage collection, which must not miss any.

Frazil's snapshots list all these files, and their nodes refer to them again. Both are used: if they differ, either may be damaged. The alpha library ignores
the lists."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.errors import FormatError
from frazil.formats.alpha.refs import snapshot_key
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.ids import ObjectId
from frazil.formats.nodes import Node, Nodes, NodeSnapshot
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.snapshot_flags import has_freedoms
from frazil.repository.format import Box, Referenced


def listed(snapshot: SnapshotFile) -> Referenced:
    """The files that a snapshot lists. Pure."""
    return Referenced(
        [info.id for info in snapshot.manifest_files],
        [info.id for info in snapshot.attribute_files],
        [[info.id for info in snapshot.history]],
        totals=[snapshot.total_parents],
    )


def referenced(files: Files, snapshots: Sequence[ObjectId]) -> Referenced:
    """The files that some snapshots list or their nodes refer to. Snapshots are read in one batch and not cached. Raises NotFoundError, FormatError."""
    manifests: dict[ObjectId, None] = {}
    attributes: dict[ObjectId, None] = {}
    ancestors: list[Sequence[ObjectId]] = []
    boxes: dict[ObjectId, set[Box]] = {}
    before: Nodes | None = None
    for file, snapshot in zip(snapshots, files.read_snapshots(snapshots), strict=True):
        found = listed(snapshot)
        manifests.update(dict.fromkeys(found.manifests))
        attributes.update(dict.fromkeys(found.attributes))
        ancestors += found.ancestors
        nodes = snapshot.nodes
        for path in nodes if before is None else nodes.differing(before):
            try:
                own = nodes.files_of(path)
            except FormatError as error:
                error.key = error.key or files.key(snapshot_key(file))
                raise
            manifests.update(dict.fromkeys(own.manifests))
            if has_freedoms(snapshot):
                _add_boxes(nodes.get(path), boxes)
            if own.attributes is not None:
                attributes[own.attributes] = None
        before = nodes
    return Referenced([*manifests], [*attributes], ancestors, boxes)


def _add_boxes(node: Node | None, boxes: dict[ObjectId, set[Box]]) -> None:
    if isinstance(node, NodeSnapshot) and node.array is not None:
        rank = len(node.array.metadata.shape)
        for manifest in node.array.manifests:
            boxes.setdefault(manifest.id, set()).add((node.id, rank, manifest.extents))
