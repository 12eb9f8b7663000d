"""The removal of a node with everything below it."""

from __future__ import annotations

from frazil.array.arguments import check_flag
from frazil.array.hierarchy.node_changes import create_groups, documents_above, drop_copies, erase_node
from frazil.array.hierarchy.nodes import NodeLocation, node_exists
from frazil.errors import NotFoundError
from frazil.metadata.model import GroupMetadata


def remove_node(location: NodeLocation, *, keep_parent: bool = False) -> None:
    """Removes a node with everything below it: its document first, so that no part of it is visible. Raises NotFoundError.

    keep_parent  a group above that would vanish with its last member gets a document of its own first"""
    location.require_writable()
    check_flag(keep_parent, "keep_parent")
    if location.nodes is not None:
        location.nodes.remove(location.path)
        return
    layout, store = location.layout, location.store
    keys = layout.document_keys(location.path)
    if not node_exists(location):
        raise NotFoundError("there is nothing to remove", key=keys[0], path=location.path or "/")
    parent = location.at(location.path.rpartition("/")[0])
    may_vanish = keep_parent and parent.path and layout.implicit_groups
    if may_vanish and not store.exists(layout.document_key(parent.path, GroupMetadata)):
        create_groups(location, [parent.path], ())
    if location.path:
        drop_copies(location, documents_above(location, [location.path]))
    erase_node(location, location.path)
