"""The page for browsers: pure, from nodes to HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import islice
from typing import Final
from urllib.parse import quote

from frazil.base.record import Record
from frazil.errors import FrazilError
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata, GroupMetadata

LEVELS: Final = 3  # of a tree on one page; groups are links to their own pages
_MOST_LINES: Final = 1000
_SHARDING: Final = "sharding_indexed"
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em}td,th{text-align:left;padding:0 2em 0 0}th{font-weight:normal;color:#777}"
    "td{font-variant-numeric:tabular-nums}a{text-decoration:none}.bad{color:#b00}"
)


class Line(Record):
    """One node. link: relative to the page, None if there is nothing to show; what: the text of each column after the name; good: whether it can be read"""

    name: str
    link: str | None
    what: tuple[str, ...]
    good: bool = True


def describe(name: str, node: ArrayMetadata | GroupMetadata | FrazilError | None) -> Line:
    """The line of a node, whose name is a path below the page's; None: not a node, only a part of keys. A name ending in "/" links to a page, as groups do."""
    if isinstance(node, ArrayMetadata):
        chunks, shards = _layout(node)
        document = "zarr.json" if node.zarr_format == 3 else ".zarray" if node.zarr_format == 2 else None
        link = None if document is None else f"{name}/{document}"  # drafts have their documents elsewhere
        return Line(name, link, (_extent(node.shape), node.data_type.label, _extent(chunks), _extent(shards)))
    if isinstance(node, GroupMetadata):
        return Line(f"{name}/", f"{name}/", ())
    if isinstance(node, FrazilError):
        return Line(name, None, (f"cannot be read: {node.message}",), good=False)
    return Line(name, name, ())


def _layout(node: ArrayMetadata) -> tuple[Sequence[int] | None, Sequence[int] | None]:
    """The shapes of the innermost chunks and of shards; None where there are none."""
    if not isinstance(node.chunk_grid, RegularGrid):
        return None, None
    outer: Sequence[int] = node.chunk_grid.chunk_shape
    inner: Json = None
    codecs: Json = [{"name": codec.name, "configuration": dict(codec.configuration)} for codec in node.codecs]
    while isinstance(codecs, list):
        found = next((c for c in codecs if isinstance(c, dict) and c.get("name") == _SHARDING), None)
        configuration = found.get("configuration") if found is not None else None
        if not isinstance(configuration, dict):
            break
        inner, codecs = configuration.get("chunk_shape"), configuration.get("codecs")
    if not isinstance(inner, list):
        return outer, None
    return [length for length in inner if isinstance(length, int)], outer


def _extent(lengths: Sequence[int] | None) -> str:
    return "" if lengths is None else " × ".join(map(str, lengths)) or "()"


def draw_page(path: str, lines: Sequence[Line]) -> bytes:
    """The page at a path ("" or ending in "/")."""
    title = escape(f"/{path}")
    columns = "".join(f"<th>{name}" for name in ("name", "shape", "data type", "chunks", "shards"))
    rows = [f"<tr>{_cells(line)}" for line in islice(lines, _MOST_LINES)]
    if len(lines) > _MOST_LINES:
        rows.append(f"<tr><td>and {len(lines) - _MOST_LINES} more")
    up = '<p><a href="../">up</a>' if path else ""
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{up}<table><tr>{columns}{''.join(rows)}</table>"
    ).encode("utf-8", "replace")


def _cells(line: Line) -> str:
    name = escape(line.name)
    if line.link is not None:
        address = "./" + quote(line.link, errors="replace")  # so that a name with a colon is not read as a scheme
        name = f'<a href="{escape(address)}">{name}</a>'
    kind = "" if line.good else ' class="bad" colspan="4"'
    return f"<td>{name}" + "".join(f"<td{kind}>{escape(cell)}" for cell in line.what)
