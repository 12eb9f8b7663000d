"""Sizes of the nodes of a hierarchy, decoded and stored. Keys are listed, nothing is decoded."""

from __future__ import annotations

from frazil.array.array import Array
from frazil.array.group import Group, as_node
from frazil.array.hierarchy.members import nodes_below
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.base.record import Record
from frazil.base.reports import columns, human
from frazil.errors import DataError, FrazilError, InvalidInputError
from frazil.metadata.json_text import Json, known_members
from frazil.metadata.model import ArrayMetadata, Metadata


class NodeUsage(Record):
    """path: below the requested node, which is ""; kind: "array", "group" or "unreadable".

    nbytes         of all elements, decoded; for a group those of all arrays below it
    stored_nbytes  of the stored chunks and shards, objects: their number; documents do not count
    unreadable     number of unreadable nodes, of this one and all below it;  reason: why this one is unreadable"""

    path: str
    kind: str
    nbytes: int = 0
    stored_nbytes: int = 0
    objects: int = 0
    unreadable: int = 0
    reason: str | None = None

    def plus(self, other: NodeUsage) -> NodeUsage:
        """This node with the sizes of a node below it added."""
        return self._replace(
            nbytes=self.nbytes + other.nbytes,
            stored_nbytes=self.stored_nbytes + other.stored_nbytes,
            objects=self.objects + other.objects,
            unreadable=self.unreadable + other.unreadable,
        )

    def to_json(self) -> dict[str, Json]:
        """Members that are not None."""
        return known_members(self._asdict())


def usage(node: Array | Group) -> list[NodeUsage]:
    """The node itself and all below it, depth first; groups have the sums of the nodes below them. Raises StoreError."""
    if isinstance(node, Array):
        return [_of_node("", node.metadata, node._location)]
    above = len(node.path) + (node.path != "")
    found = {"": NodeUsage("", "group")}
    for path, metadata in nodes_below(node._location, None):
        inner = path[above:]
        found[inner] = _of_node(inner, metadata, node._location.at(path))
    for path in sorted(found, key=lambda path: -path.count("/")):
        if path:
            found[path.rpartition("/")[0]] = found[path.rpartition("/")[0]].plus(found[path])
    return list(found.values())


def _of_node(path: str, metadata: Metadata | FrazilError, location: NodeLocation) -> NodeUsage:
    if isinstance(metadata, FrazilError):
        return NodeUsage(path, "unreadable", unreadable=1, reason=metadata.message)
    if not isinstance(metadata, ArrayMetadata):
        return NodeUsage(path, "group")
    try:
        array = as_node(location, metadata)
        assert isinstance(array, Array)
        info = array.info
    except (InvalidInputError, DataError) as error:
        return NodeUsage(path, "unreadable", unreadable=1, reason=error.message)
    return NodeUsage(path, "array", info.nbytes, info.stored_nbytes, info.stored_objects)


def lines(nodes: list[NodeUsage]) -> list[str]:
    """A table, one line for each: decoded bytes, stored bytes, compression ratio, stored objects, path. Pure."""
    rows = [("decoded", "stored", "ratio", "objects", "path")]
    for node in nodes:
        ratio = f"{node.nbytes / node.stored_nbytes:.1f}" if node.stored_nbytes else "-"
        name = (node.path or ".") + ("/" if node.kind == "group" and node.path else "")
        if node.reason is not None:
            rows.append(("-", "-", "-", "-", f"{name} (unreadable: {node.reason})"))
        else:
            rows.append((human(node.nbytes), human(node.stored_nbytes), ratio, f"{node.objects}", name))
    return columns(rows)
