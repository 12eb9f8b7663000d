"""A hierarchy printed as a tree of characters. It is given the nodes."""

from __future__ import annotations

from frazil.base.record import Record
from frazil.errors import FrazilError, one_line
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata, GroupMetadata


class Tree(Record):
    """name: of the group at the top; nodes: paths below it, depth first, each with its metadata, or the error of its document; left_out: number of nodes that
    are not among them. Prints as a tree."""

    name: str
    nodes: tuple[tuple[str, ArrayMetadata | GroupMetadata | FrazilError], ...]
    left_out: int = 0

    def first(self, most: int | None) -> Tree:
        """The tree with at most so many nodes."""
        if most is None or len(self.nodes) <= most:
            return self
        return Tree(self.name, self.nodes[:most], len(self.nodes) - most)

    def __repr__(self) -> str:
        last = {}
        for path, _ in self.nodes:
            last[path.rpartition("/")[0]] = path
        lines = [one_line(self.name)]
        bars: list[str] = []  # of the groups that contain a node, from the top
        for path, metadata in self.nodes:
            above, _, name = path.rpartition("/")
            is_last = last[above] == path
            depth = path.count("/")
            del bars[depth:]
            lines.append(f"{''.join(bars)}{'└── ' if is_last else '├── '}{one_line(name)}{_summary(metadata)}")
            bars.append("    " if is_last else "│   ")
        if self.left_out:
            lines.append(f"and {self.left_out:,} more")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Json]:
        """Paths and the nodes there."""
        return {path: _described(node) for path, node in self.nodes}


def _described(node: ArrayMetadata | GroupMetadata | FrazilError) -> Json:
    if isinstance(node, ArrayMetadata):
        return {"kind": "array", "shape": list(node.shape), "data_type": node.data_type.label}
    return {"kind": "group"} if isinstance(node, GroupMetadata) else {"kind": "unreadable", "reason": node.message}


def _summary(metadata: ArrayMetadata | GroupMetadata | FrazilError) -> str:
    if isinstance(metadata, FrazilError):
        return f" (unreadable: {one_line(metadata.message)})"
    if isinstance(metadata, GroupMetadata):
        return "/"
    return f" {metadata.shape} {one_line(metadata.data_type.label)}"
