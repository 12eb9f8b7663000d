"""Arrays and groups as HTML for notebooks. html_table.py makes the HTML, also for repositories and histories (api/). info.py has the printed text."""

from __future__ import annotations

from frazil.array.hierarchy.members import nodes_below
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.array.info import FORMATS, Described, described
from frazil.array.interface.html_table import MOST_ROWS, table
from frazil.errors import FrazilError, StoreError
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata


def array_html(metadata: ArrayMetadata, array: Described) -> str:
    """The table of `info`, without the sizes of stored objects, which cost a listing."""
    return table(f"frazil.Array /{array.path}", described(metadata, array).rows()[1:])


def group_html(location: NodeLocation, metadata: GroupMetadata) -> str:
    """Attributes and direct members. One listing, and one batch of requests if the listing is not sufficient."""
    rows = [("format", FORMATS.get(metadata.zarr_format, str(metadata.zarr_format)))]
    rows += [(f"attribute {name}", str(value)) for name, value in metadata.attributes.items()]
    try:
        members = list(nodes_below(location, 0))
    except StoreError as error:
        rows.append(("members", f"cannot be listed: {error.message}"))
        members = []
    for path, node in members[:MOST_ROWS]:
        name = path.rpartition("/")[2]
        rows.append((f"{name}/" if isinstance(node, GroupMetadata) else name, _summary(node)))
    return table(f"frazil.Group /{location.path}", rows, more=max(len(members) - MOST_ROWS, 0))


def _summary(node: Metadata | FrazilError) -> str:
    if isinstance(node, ArrayMetadata):
        return f"{' x '.join(map(str, node.shape)) or '()'} {node.data_type.label}"
    return "group" if isinstance(node, GroupMetadata) else f"unreadable: {node.message}"
