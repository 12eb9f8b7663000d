"""Moves a node with everything below it: through a NodeStorage, or key by key in a store. A Layout gives the keys; node_changes.py creates nodes.

Stores cannot rename. So all keys are first linked or copied to their new names (copy_in with `shares`), in this order: chunks and unknown keys, documents of
nodes below (the deepest first), and last the document of the node itself, which makes the new node exist. Then the old node is removed, its own document first.
A crash leaves the old node, both nodes, or the new node and keys without a document at the old path. Where groups need no document (draft of 2022), a part of
the moved members may appear as a group at the new path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.array.hierarchy.hidden_nodes import refuse_hidden
from frazil.array.hierarchy.node_changes import (
    already_there,
    check_above,
    create_groups,
    documents_above,
    drop_copies,
    erase_node,
    put_expect,
)
from frazil.array.hierarchy.nodes import NodeLocation, find_nodes, node_exists
from frazil.errors import ConflictError, InvalidInputError, NotFoundError, StoreError
from frazil.metadata.model import Metadata
from frazil.metadata.paths import ancestors
from frazil.stores.values import Changed, pieces_of

_BATCH = 4096  # the most keys of one batch


def move_node(location: NodeLocation, to: str) -> None:
    """Gives the node at a location the path `to`, normalised, in the same hierarchy. Errors as in Group.move."""
    location.require_writable()
    if location.nodes is not None:
        location.nodes.move(location.path, to)
        return
    try:
        for capability in ("writable", "listable", "erasable"):
            location.store.require(capability)
    except StoreError as error:
        error.hint = "nodes of this store cannot be renamed: copy them elsewhere under the new names"
        raise
    above = _check_paths(location, to)
    keys = location.layout.document_keys(location.path)  # a group may have no document
    documents = {
        key: value for key, value in zip(keys, location.store.get_many(keys), strict=True) if value is not None
    }
    names = _new_names(location, to, documents)
    drop_copies(location, {**documents_above(location, [location.path]), **above})
    if not location.layout.implicit_groups:
        create_groups(location, [path for path in ancestors(to) if path not in above], [to])
    _link(location, to, names)
    _write_documents(location, to, {names[old]: value for old, value in documents.items()})
    erase_node(location, location.path)


def _check_paths(location: NodeLocation, to: str) -> dict[str, Metadata]:
    """The nodes above the new path that have a document. Refuses a node that does not exist, and a new path that it cannot have."""
    store, layout = location.store, location.layout
    if not node_exists(location):
        raise NotFoundError("there is nothing to move", key=layout.document_keys(location.path)[0], path=location.path)
    if to.startswith(location.path + "/"):
        raise InvalidInputError(
            f"/{location.path} cannot be moved to /{to}, which is inside it",
            path=location.path,
            hint="choose a path beside it",
        )
    above = find_nodes(location, ancestors(to))
    check_above([to], above)
    refuse_hidden(store, layout, [path for path in ancestors(to) if path not in above])
    if node_exists(location.at(to)) or not all(store.is_empty(prefix) for prefix in layout.prefixes(to)):
        raise already_there(location.store, to)
    return above


def _new_names(location: NodeLocation, to: str, documents: Mapping[str, bytes]) -> dict[str, str]:
    """The new name of every key of the node, in the order of writing. Raises StoreError for a listing without its documents: it may lack all keys."""
    store, layout = location.store, location.layout
    names = dict(zip(layout.document_keys(location.path), layout.document_keys(to), strict=True))
    below: list[str] = []
    for old, new in zip(layout.prefixes(location.path), layout.prefixes(to), strict=True):
        keys = store.list_prefix(old)
        missing = [key for key in documents if key.startswith(old) and key not in keys]
        if missing:
            raise StoreError(
                "a document of the node exists, but is not listed; nothing of the node was removed",
                key=missing[0],
                path=location.path,
                hint="check the server, and proxies before it, and move it again",
            )
        names.update((key, new + key[len(old) :]) for key in keys)
        if old == layout.documents_prefix(location.path):
            found = sorted(layout.descendants(location.path, keys), key=lambda candidate: -candidate.path.count("/"))
            below = [key for candidate in found for key in candidate.keys if key in names]
    for key in below:  # documents follow all other keys, the deepest first
        names[key] = names.pop(key)
    return names


def _link(location: NodeLocation, to: str, names: Mapping[str, str]) -> None:
    """Links or copies all keys except the documents of the node itself."""
    own = location.layout.document_keys(location.path)
    keys = [key for key in names if key not in own]
    for first in range(0, len(keys), _BATCH):
        part = keys[first : first + _BATCH]
        sizes = location.store.copy_in([names[key] for key in part], location.store, part, shares=True)
        missing = [key for key, size in zip(part, sizes, strict=True) if size < 0]
        if missing:
            raise ConflictError(
                "the node was changed while it was being moved; nothing of it was removed",
                key=missing[0],
                path=location.path,
                hint="remove what is at the new path, and move it again",
            )
    if location.store.direct:
        return
    # a proxy may answer a copy with success that the server never made: one listing finds that before anything is removed
    there = {key for prefix in location.layout.prefixes(to) for key in location.store.list_prefix(prefix)}
    missing = [key for key in keys if names[key] not in there]
    if missing:
        raise StoreError(
            "a key of the node was copied, but is not at the new path; nothing of the node was removed",
            key=names[missing[0]],
            path=location.path,
            hint="check the server, and proxies before it; remove what is at the new path, and move it again",
        )


def _write_documents(location: NodeLocation, to: str, documents: Mapping[str, bytes]) -> None:
    keys: Sequence[str] = list(documents)
    if keys:
        expect = put_expect(location.store, len(keys), overwrite=False)
        answers = location.store.put_many(keys, pieces_of(list(documents.values())), expect)
        if any(isinstance(answer, Changed) for answer in answers):
            raise already_there(location.store, to)
