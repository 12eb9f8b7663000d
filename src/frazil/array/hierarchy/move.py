"""Moves a node with everything below it: through a NodeStorage, or key by key in a store. A Layout gives the keys; nodes.py creates nodes.

Stores cannot rename. So all keys first get their new names, as links where the store can (copy_in with `shares`), in this order: chunks and unknown keys, documents of nodes
below (the deepest first), and last the document of the node itself, which makes the new node exist. Then the old node is removed, its own document first. A crash leaves the old
node whole; or both; or the new node, and keys without a document at the old path. Where groups need no document (draft of 2022), members that are moved already show as a group
at the new path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.array.hierarchy.hidden_nodes import refuse_hidden
from frazil.array.hierarchy.nodes import (
    Metadata,
    Place,
    already_there,
    check_above,
    create_groups,
    documents_above,
    drop_copies,
    erase_node,
    find_nodes,
    node_exists,
    put_expect,
)
from frazil.errors import ConflictError, InvalidInputError, NotFoundError, ReadOnlyError, StoreError
from frazil.metadata.paths import ancestors
from frazil.stores.store import Store
from frazil.stores.values import Changed, pieces_of

_AT_ONCE = 4096  # keys of one batch, should there be very many


def move_node(place: Place, to: str) -> None:
    """Gives the node at a place the path `to`, normalised, in the same hierarchy. Errors as in Group.move."""
    place.require_writable()
    if place.nodes is not None:
        place.nodes.move(place.path, to)
        return
    _check_store(place.store)
    above = _check_paths(place, to)
    names = _new_names(place, to)
    documents = _own_documents(place)
    drop_copies(place, {**documents_above(place, [place.path]), **above})
    if not place.layout.implicit_groups:
        create_groups(place, [path for path in ancestors(to) if path not in above], [to])
    _link(place, names)
    _write_documents(place, to, {names[old]: value for old, value in documents.items()})
    erase_node(place, place.path)


def _check_store(store: Store) -> None:
    can = store.capabilities
    if not can.writable:
        raise ReadOnlyError(f"{store!r} can only be read", hint="open it for writing")
    for capability, has in (("listable", can.listable), ("erasable", can.erasable)):
        if not has:
            raise StoreError(f"{store!r} is not {capability}, so nodes in it cannot be renamed")


def _check_paths(place: Place, to: str) -> dict[str, Metadata]:
    """What is above the new path and has a document. Refuses a node that is not there, and a new path that it cannot have."""
    store, layout = place.store, place.layout
    if not node_exists(place):
        raise NotFoundError("there is nothing to move", key=layout.document_keys(place.path)[0], path=place.path)
    if to.startswith(place.path + "/"):
        raise InvalidInputError(
            f"/{place.path} cannot be moved to /{to}, which is inside it",
            path=place.path,
            hint="choose a path beside it",
        )
    above = find_nodes(place, ancestors(to))
    check_above([to], above)
    refuse_hidden(store, layout, [path for path in ancestors(to) if path not in above])
    if node_exists(place.at(to)) or not all(store.is_empty(prefix) for prefix in layout.prefixes(to)):
        raise already_there(place, to)
    return above


def _new_names(place: Place, to: str) -> dict[str, str]:
    """The new name of every key of the node, in the order in which they are to be written."""
    store, layout = place.store, place.layout
    names = dict(zip(layout.document_keys(place.path), layout.document_keys(to), strict=True))
    below: list[str] = []
    for old, new in zip(layout.prefixes(place.path), layout.prefixes(to), strict=True):
        keys = store.list_prefix(old)
        names.update((key, new + key[len(old) :]) for key in keys)
        if old == layout.documents_prefix(place.path):
            found = sorted(layout.descendants(place.path, keys), key=lambda candidate: -candidate.path.count("/"))
            below = [key for candidate in found for key in candidate.keys]
    for key in below:  # documents, the deepest first, behind all others
        names[key] = names.pop(key)
    return names


def _own_documents(place: Place) -> dict[str, bytes]:
    """The documents of the node itself, by their keys: none of a group without one."""
    keys = place.layout.document_keys(place.path)
    values = place.store.get_many(keys)
    return {key: value for key, value in zip(keys, values, strict=True) if value is not None}


def _link(place: Place, names: Mapping[str, str]) -> None:
    """All but the documents of the node itself."""
    own = place.layout.document_keys(place.path)
    keys = [key for key in names if key not in own]
    for first in range(0, len(keys), _AT_ONCE):
        part = keys[first : first + _AT_ONCE]
        sizes = place.store.copy_in([names[key] for key in part], place.store, part, shares=True)
        gone = [key for key, size in zip(part, sizes, strict=True) if size < 0]
        if gone:
            raise ConflictError(
                "the node was changed while it was being moved; nothing of it was removed",
                key=gone[0],
                path=place.path,
                hint="remove what is at the new path, and move it again",
            )


def _write_documents(place: Place, to: str, documents: Mapping[str, bytes]) -> None:
    keys: Sequence[str] = list(documents)
    if keys:
        expect = put_expect(place.store, len(keys), overwrite=False)
        answers = place.store.put_many(keys, pieces_of(list(documents.values())), expect)
        if any(isinstance(answer, Changed) for answer in answers):
            raise already_there(place, to)
