"""The removal of a node with everything below it."""

from __future__ import annotations

from frazil.array.arguments import check_flag
from frazil.array.hierarchy.nodes import Place, create_groups, documents_above, drop_copies, erase_node, node_exists
from frazil.errors import NotFoundError
from frazil.metadata.model import GroupMetadata


def remove_node(place: Place, *, keep_parent: bool = False) -> None:
    """Removes a node with everything below it: its document first, so that it is never there in part. Raises NotFoundError.

    keep_parent  a group above that would vanish with its last member gets a document of its own first"""
    place.require_writable()
    check_flag(keep_parent, "keep_parent")
    if place.nodes is not None:
        place.nodes.remove(place.path)
        return
    layout, store = place.layout, place.store
    keys = layout.document_keys(place.path)
    if not node_exists(place):
        raise NotFoundError("there is nothing to remove", key=keys[0], path=place.path or "/")
    parent = place.at(place.path.rpartition("/")[0])
    if (
        keep_parent
        and parent.path
        and layout.implicit_groups
        and not store.exists(layout.document_key(parent.path, GroupMetadata))
    ):
        create_groups(place, [parent.path], ())
    if place.path:
        drop_copies(place, documents_above(place, [place.path]))
    erase_node(place, place.path)
