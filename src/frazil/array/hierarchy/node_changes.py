"""Creates, changes and removes nodes, as documents in a store or through a NodeStorage. nodes.py reads them, move.py moves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from frazil.array.arguments import check_flag
from frazil.array.hierarchy import repository_locations
from frazil.array.hierarchy.hidden_nodes import refuse_hidden
from frazil.array.hierarchy.nodes import (
    M,
    NodeLocation,
    find_node,
    find_nodes,
    is_implied,
    look_up,
    node_exists,
    parsed,
)
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, NotFoundError
from frazil.metadata.layout import Candidate, Layout
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata
from frazil.metadata.paths import ancestors
from frazil.stores.keys.names import check_key
from frazil.stores.store import Store
from frazil.stores.values import ABSENT, ANY, NO_SPANS, Changed, Version, pieces_of

_BATCH: Final = 256  # the most keys of one batch


def change_node(location: NodeLocation, kind: type[M], change: Callable[[M], M], *, lengths_only: bool = False) -> M:
    """Applies a change to the stored document, again if another writer changed it first; returns the metadata that was written. Copies of the document in
    consolidated metadata are dropped; a group without a document gets one.
    lengths_only: `change` only changes the lengths of an array: then the new document is not parsed, unless metadata keeps it, as in the draft"""
    location.require_writable()
    location = location._replace(registry=location.registry.without_warnings())
    key = location.layout.document_key(location.path, kind)
    if location.nodes is not None:
        changed = location.nodes.change(location.path, lambda stored: change(of_kind(location, key, stored, kind)))
        return of_kind(location, key, changed, kind)
    if location.layout.attributes_key(location.path) is not None:
        return _change_two_documents(location, kind, change)
    written: list[M] = []

    def rewrite(value: bytes | None) -> bytes | None:
        stored: Metadata | None = None
        if value is not None:
            stored = location.layout.parse(key, value, location.registry)
        elif issubclass(kind, GroupMetadata) and is_implied(location):
            stored = GroupMetadata(zarr_format=location.layout.zarr_format, implicit=True)
        changed = change(of_kind(location, key, stored, kind))
        document = location.layout.emit(changed)
        same = changed == stored and document == location.layout.emit(stored)  # Python's 1 == True
        resized = lengths_only and isinstance(changed, ArrayMetadata) and changed.document is None
        as_read = resized or (isinstance(changed, GroupMetadata) and changed.zarr_format == 3)
        written[:] = [changed if same or as_read else parsed(location, changed, document)]
        location.layout.remember(document, written[0], location.registry)
        return None if same else document

    if location.store.update(key, rewrite) is not None and location.path:
        drop_copies(location, documents_above(location, [location.path]))
    return written[0]


def of_kind(location: NodeLocation, key: str, node: Metadata | None, kind: type[M]) -> M:
    if isinstance(node, kind):
        return node
    if node is None:
        raise NotFoundError("the node is gone", key=key, path=location.path or "/", hint="it was removed")
    raise InvalidInputError(
        "another kind of node is now at this path", key=key, path=location.path or "/", hint="open it again"
    )


def _change_two_documents(location: NodeLocation, kind: type[M], change: Callable[[M], M]) -> M:
    """As change_node, for a node with a separate document for its attributes, as in Zarr v2. The change is applied to each document as stored now; `change`
    gets the other document as it was read before.

    Copies in consolidated metadata, which has copies of the group itself, too, are dropped."""
    layout, store = location.layout, location.store
    key, beside = layout.document_key(location.path, kind), layout.attributes_key(location.path)
    assert beside is not None
    stored = of_kind(location, key, find_node(location), kind)
    changed = change(stored)
    written = []
    if _without_attributes(changed) != _without_attributes(stored):

        def rewrite(value: bytes | None) -> bytes | None:
            now = None if value is None else layout.parse(key, value, location.registry, store.get(beside))
            return layout.emit(change(of_kind(location, key, now, kind)))

        written.append(store.update(key, rewrite))
    if layout.emit_attributes(changed) != layout.emit_attributes(stored):

        def rewrite_attributes(value: bytes | None) -> bytes | None:
            document = layout.parse(key, layout.emit(stored), location.registry, value)
            return layout.emit_attributes(change(of_kind(location, key, document, kind))) or b"{}"

        written.append(store.update(beside, rewrite_attributes))
    if any(version is not None for version in written):
        drop_copies(
            location, {location.path: stored, **documents_above(location, [location.path] if location.path else [])}
        )
    now = find_node(location)
    return changed if now is None else of_kind(location, key, now, kind)


def _without_attributes(metadata: M) -> object:
    none: Mapping[str, object] = {}
    if isinstance(metadata, ArrayMetadata):
        return metadata.with_members(attributes=none, dimension_names=None)
    return metadata.with_attributes(none).without_consolidated()


def create_nodes(
    location: NodeLocation,
    nodes: Mapping[str, Metadata],
    *,
    overwrite: bool,
    explicit_groups: bool = False,
    replaces: str | None = None,
) -> None:
    """Creates nodes at paths, and missing groups above them, with documents where the dialect or explicit_groups requires them. Raises AlreadyExistsError
    before anything is written where a path is taken and overwrite is false; InvalidInputError where an array is above one of the nodes.

    replaces  the prefix of a hierarchy that they replace, in the store of the location"""
    location.require_writable()
    check_flag(overwrite, "overwrite")
    check_flag(explicit_groups, "explicit_groups")
    if location.nodes is not None:
        location.nodes.create(nodes, overwrite=overwrite)
        return
    store, layout = location.store, location.layout
    documents = [layout.emit(node) for node in nodes.values()]  # metadata unknown to the dialect is refused first
    above = sorted({path for node in nodes for path in ancestors(node)} - nodes.keys())
    existing = find_nodes(location, above) if above else {}
    check_above(nodes, {**existing, **nodes})
    refuse_hidden(store, layout, [*(() if overwrite else _unlisted(store, nodes)), *(set(above) - existing.keys())])
    if layout.implicit_groups and not overwrite:
        _check_free(location, nodes)
    if replaces is not None:
        (location.store if location.entry_store is None else location.entry_store).erase_prefix(replaces)
    # a single document that is put only if absent need not be looked up before
    put_detects = len(nodes) == 1 and store.capabilities.expects and not overwrite and existing.keys() >= set(above)
    for path in nodes:
        _remove_existing(location, path, nodes[path], overwrite, put_detects)
    drop_copies(location, existing)
    _write_entry(location)
    if explicit_groups or not layout.implicit_groups:
        create_groups(location, [path for path in above if path not in existing], nodes)
    keys = [layout.document_key(path, type(node)) for path, node in nodes.items()]
    answers = store.put_many(keys, pieces_of(documents), put_expect(store, len(keys), overwrite))
    for path, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, Changed):
            raise already_there(location.store, path)
    beside = {layout.attributes_key(path): layout.emit_attributes(node) for path, node in nodes.items()}
    attributes = {key: text for key, text in beside.items() if key is not None and text is not None}
    if attributes:
        store.put_many(list(attributes), pieces_of(list(attributes.values())), [ANY] * len(attributes))


def _unlisted(store: Store, nodes: Mapping[str, Metadata]) -> list[str]:
    """The paths that no other check covers, so those of new groups: a listing covers arrays, and root.py the root."""
    listed = store.capabilities.listable
    return [path for path, node in nodes.items() if path and not (listed and isinstance(node, ArrayMetadata))]


def _write_entry(location: NodeLocation) -> None:
    """Writes the entry point of the hierarchy, if it has one, unless it is there. An equal one that another writer creates at the same time is accepted."""
    entry = location.layout.entry()
    if entry is None:
        return
    key, value = entry
    store = location.store if location.entry_store is None else location.entry_store
    stored = store.get(key)
    if stored is None:
        if not isinstance(store.put_many([key], pieces_of([value]), put_expect(store, 1, False))[0], Changed):
            return
        stored = store.get(key)
    if stored is None or not location.layout.has_entry(stored):
        raise AlreadyExistsError(
            "another hierarchy is now at this location", key=key, path=location.path or "/", hint="open it again"
        )


def create_groups(location: NodeLocation, paths: Sequence[str], nodes: Iterable[str]) -> None:
    """Gives groups documents; nodes: paths of new nodes below them. Raises InvalidInputError if another writer has just created an array there."""
    if not paths:
        return
    store, layout = location.store, location.layout
    values = pieces_of([layout.emit(GroupMetadata(zarr_format=layout.zarr_format))] * len(paths))
    keys = [layout.document_key(path, GroupMetadata) for path in paths]
    answers = store.put_many(keys, values, put_expect(store, len(paths), False))
    lost = [path for path, answer in zip(paths, answers, strict=True) if isinstance(answer, Changed)]
    if lost:  # another writer created nodes there at the same time: groups are accepted, arrays are not
        check_above(nodes, find_nodes(location, lost))


def put_expect(store: Store, count: int, overwrite: bool) -> list[Version | None]:
    """The versions expected under the keys of documents of new nodes."""
    return [ABSENT if store.capabilities.expects and not overwrite else ANY] * count


def check_above(nodes: Iterable[str], existing: Mapping[str, Metadata]) -> None:
    """Refuses nodes that would be below one of the arrays of `existing`."""
    for node in nodes:
        for path in ancestors(node):
            if isinstance(existing.get(path), ArrayMetadata):
                raise InvalidInputError(
                    f"an array is at /{path}, and arrays have no children", path=node, hint="choose a path beside it"
                )


def documents_above(location: NodeLocation, paths: Iterable[str]) -> dict[str, Metadata]:
    """The documents of the groups above, where they may hold copies of documents below."""
    if location.layout.implicit_groups:
        return {}
    return find_nodes(location, sorted({above for path in paths for above in ancestors(path)}))


def drop_copies(location: NodeLocation, above: Mapping[str, Metadata]) -> None:
    """Drops consolidated metadata of the groups above a node that changes: their copies of its document would be stale."""
    for path, node in above.items():
        if (key := location.layout.copies_key(path)) is not None:
            if location.store.exists(key):
                location.store.erase(key)
        elif isinstance(node, GroupMetadata) and node.consolidated is not None:
            change_node(location.at(path), GroupMetadata, GroupMetadata.without_consolidated)


def _check_free(location: NodeLocation, paths: Iterable[str]) -> None:
    """Refuses paths that have a document of either kind, in one batch of requests."""
    keys = {key: path for path in paths for key in location.layout.document_keys(path)}
    for path, size in zip(keys.values(), location.store.sizes(list(keys)).tolist(), strict=True):
        if size >= 0:
            raise already_there(location.store, path)


def _remove_existing(location: NodeLocation, path: str, node: Metadata, overwrite: bool, put_detects: bool) -> None:
    """put_detects: whether the put of the document reports an existing one, and nothing is written before it."""
    store, layout, can = location.store, location.layout, location.store.capabilities
    if overwrite:
        if can.erasable or not can.listable or not all(map(store.is_empty, layout.prefixes(path))):
            erase_node(location, path)
        return
    prefix = layout.data_prefix(path)
    looks_below = isinstance(node, ArrayMetadata) and can.listable
    if layout.implicit_groups:
        if looks_below and not store.is_empty(layout.documents_prefix(path)):  # a group, which another node may replace
            raise already_there(location.store, path)
        if looks_below and not store.is_empty(prefix):
            _remove_orphans(location, path)
    elif looks_below:
        if not store.is_empty(prefix):  # a document, or chunks that would show up in the new array
            repository_locations.check_no_repository(store, prefix)
            raise already_there(store, path)
    elif put_detects and len(layout.document_keys(path)) == 1:
        check_key(layout.document_keys(path)[0])
    elif (store.sizes(layout.document_keys(path)) >= 0).any():
        raise already_there(location.store, path)


def _remove_orphans(location: NodeLocation, path: str) -> None:
    """Removes chunks without a document, which other programs leave behind when they remove an array. The chunks are listed before the document is looked up
    again, so that none of them belongs to an array that another writer has created meanwhile."""
    store, layout = location.store, location.layout
    keys = store.list_prefix(layout.data_prefix(path))
    pages = [keys[first : first + _BATCH] for first in range(0, len(keys), _BATCH)]
    versions = [version for page in pages for version in store.fetch(page, NO_SPANS).versions]
    _check_free(location, [path])
    if not store.capabilities.erasable:
        raise already_there(location.store, path)
    conditional = store.capabilities.expects and store.capabilities.conditional_erase
    expected = {key: version if conditional else ANY for key, version in zip(keys, versions, strict=True) if version}
    for page in pages:
        orphans = [key for key in page if key in expected]
        store.erase_many(orphans, [expected[key] for key in orphans])


def already_there(store: Store, path: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"something already exists in {store}",
        path=path or "/",
        hint="choose another location, or replace it with overwrite=True",
    )


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
    try:
        erase_node(location, location.path)
    except BaseException as error:
        can = store.capabilities
        may_wait = isinstance(error, Exception) or can.direct  # a user who interrupts a server that hangs does not
        with suppress(FrazilError):  # an empty group, so that the rest can be removed by the same call
            if location.path and can.listable and may_wait and not node_exists(location):
                create_groups(location, [location.path], ())
        raise


def erase_node(location: NodeLocation, path: str) -> None:
    """Removes all keys at a path and below. Documents are removed first, that of the node before those below: no array is visible without its chunks. In a
    store without listing, which may fail to remove the keys below, that of the node is removed last."""
    store, layout = location.store, location.layout
    keys = layout.document_keys(path)
    if store.capabilities.listable:
        are_between_chunks = layout.documents_prefix(path) == layout.data_prefix(path)
        node = look_up(location, [Candidate(path, keys)]).get(path) if are_between_chunks else None
        store.erase_values(keys)
        if are_between_chunks and not isinstance(node, ArrayMetadata):  # which has no nodes below it
            _erase_documents_below(store, layout, path)
    for prefix in layout.prefixes(path):
        store.erase_prefix(prefix)
    if not store.capabilities.listable:
        store.erase_values(keys)


def _erase_documents_below(store: Store, layout: Layout, path: str) -> None:
    names = {key.rpartition("/")[2] for key in layout.document_keys(path)}
    for page in store.list_pages(layout.documents_prefix(path)):
        if documents := [key for key in page.keys if key.rpartition("/")[2] in names]:
            store.erase_values(documents)
