"""Finds the dialect and the root of a hierarchy from its `zarr.json`. nodes.py has the nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from frazil.array.arguments import check_flag, check_mapping
from frazil.array.hierarchy import consolidated, hidden_nodes
from frazil.array.hierarchy.nodes import NodeLocation, find_node
from frazil.base.record import Record
from frazil.errors import AlreadyExistsError, InvalidInputError, MetadataError, StoreError, UnknownExtensionError
from frazil.metadata.draft import entry_point
from frazil.metadata.draft import layout as draft_layout
from frazil.metadata.extension_guard import ExtensionCall
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json
from frazil.metadata.members import Members, check_integer, check_object, json_object
from frazil.metadata.model import FORMATS, GroupMetadata, Metadata, ZarrFormat, parsed_format
from frazil.metadata.paths import ancestors, join, normalise
from frazil.metadata.v2 import layout as v2_layout
from frazil.metadata.v3.documents import DOCUMENT_NAME, is_draft_entry, parse_node, parsed_before, read_document
from frazil.stores.operations import adapted_store
from frazil.stores.store import Store


def locate(
    location: NodeLocation, path: str, zarr_format: object = None, *, to_create: bool = False
) -> tuple[NodeLocation, Metadata | None]:
    """The location of the node at a path, as the user wrote it, below `location`; and the node, None where there is none.

    One request; with a path one batch of two, as the zarr.json of the location itself may be the entry point of a hierarchy of the draft, which then decides
    alone. Such a hierarchy may also begin at the node, or between the two.
    zarr_format  the dialect, where it is known: for 3 always one request
    to_create    as in find_node
    Raises MetadataError, UnknownExtensionError, InvalidInputError for a path that the dialect does not have."""
    dialect = _format(zarr_format)
    if location.nodes is not None:
        in_repository = _without_documents(location, path, dialect)
        return in_repository, find_node(in_repository)
    lenient = normalise(path, str)
    whole = join(location.path, lenient)
    first: _Document | None = None
    if dialect == 2:
        found = _in_v2(location, path)
    elif not lenient or dialect == 3:
        found = _node_at(location, whole, _documents(location, [whole])[0], to_create) or (
            location.at(join(location.path, normalise(path))),
            None,
        )
    else:
        first, last = _documents(location, [location.path, whole])
        entry = first.draft_entry
        if entry is not None:
            found = _inside(location, location.path, entry, lenient, to_create)
        else:
            found = _node_at(location, whole, last, to_create) or _below(location, path, lenient, first, to_create)
    if found[1] is None and dialect != 2 and found[0].layout is location.layout:
        in_v2 = _in_v2(location, path)
        found = found if in_v2[1] is None else in_v2
    node = found[1]
    if dialect is not None and node is not None and node.zarr_format != dialect:
        raise InvalidInputError(
            f"a node of zarr_format {node.zarr_format!r} is there, not of {dialect!r}", path=path or "/"
        )
    if isinstance(node, GroupMetadata) and location.read_only and not found[0].store.capabilities.listable:
        return _through_copies(location, first, found[0], node), node
    return found


def _in_v2(location: NodeLocation, path: str) -> tuple[NodeLocation, Metadata | None]:
    """The location of a node of Zarr v2, and the node; None where none is there. One batch of requests."""
    top = location._replace(layout=v2_layout.V2)
    found = top.at(top.below(path))
    return found, find_node(found)


def _through_copies(
    top: NodeLocation, first: _Document | None, location: NodeLocation, group: GroupMetadata
) -> NodeLocation:
    """The location of a group in a store that cannot list: its nodes come from its consolidated metadata, or from that of the group at the location, whose
    zarr.json is `first`, where one of these exists."""
    copies = consolidated.copies_at(location, group)
    if copies is None and location.layout.zarr_format == 2 and location.path != top.path:
        copies = consolidated.copies_at(location.at(top.path), GroupMetadata(zarr_format=2))
    elif copies is None and first is not None and location.path != top.path and location.layout is top.layout:
        above = _node_at(top, top.path, first, False)
        if above is not None and isinstance(above[1], GroupMetadata):
            copies = consolidated.copies_at(top, above[1])
    return location if copies is None else location._replace(copies=copies)


def _without_documents(location: NodeLocation, path: str, dialect: ZarrFormat | None) -> NodeLocation:
    """The location of a node in a NodeStorage, which has one dialect. Raises InvalidInputError for another dialect."""
    if dialect not in (None, location.layout.zarr_format):
        raise InvalidInputError(
            f"a repository holds Zarr v3, and no nodes of zarr_format {dialect!r}",
            path=path or "/",
            hint="`frazil convert`, or frazil.convert, writes a hierarchy of another format into a repository as Zarr v3",
        )
    return location.at(location.below(path))


def _below(
    location: NodeLocation, path: str, lenient: str, first: _Document, to_create: bool
) -> tuple[NodeLocation, Metadata | None]:
    """The node of a hierarchy of the draft that begins between a location, whose zarr.json is `first`, and the node."""
    if first.node is None and first.content is not None:
        _check_document(first.content, join(location.path, DOCUMENT_NAME))
    between = ancestors(lenient)[1:]
    for above, document in zip(
        between, _documents(location, [join(location.path, part) for part in between]), strict=True
    ):
        entry = document.draft_entry
        if entry is not None:
            return _inside(location, join(location.path, above), entry, lenient[len(above) + 1 :], to_create)
    return location.at(join(location.path, normalise(path))), None


def _check_document(document: Json | MetadataError, key: str) -> None:
    """Raises MetadataError for a zarr.json that belongs to no dialect."""
    try:
        if isinstance(document, MetadataError):
            raise document
        if not is_draft_entry(document):
            check_integer(Members(check_object(document, None), None).get("zarr_format"), "zarr_format")
    except MetadataError as error:
        error.key = key
        raise


class _Document(Record):
    """A zarr.json, as bytes and as a node or a value; all None where there is none.

    node     of the final dialect, where the same bytes were parsed before
    content  the JSON object otherwise, or its error"""

    text: bytes | None = None
    node: Metadata | None = None
    content: dict[str, Json] | MetadataError | None = None

    @property
    def draft_entry(self) -> dict[str, Json] | None:
        """The content, where it is the entry point of a hierarchy of the draft."""
        content = self.content
        return content if isinstance(content, dict) and is_draft_entry(content) else None


def _documents(location: NodeLocation, paths: Sequence[str]) -> list[_Document]:
    """The zarr.json at each path, in one batch of requests."""
    keys = [join(path, DOCUMENT_NAME) for path in paths]
    return [
        _Document() if text is None else _read(location, key, text)
        for key, text in zip(keys, location.store.get_many(keys), strict=True)
    ]


def _read(location: NodeLocation, key: str, text: bytes) -> _Document:
    node = parsed_before(text, location.registry.metadata)
    if node is not None:
        return _Document(text, node)
    try:
        return _Document(text, None, check_object(read_document(text, key), None))
    except MetadataError as error:
        error.key = key
        return _Document(text, None, error)


def _node_at(
    location: NodeLocation, path: str, document: _Document, to_create: bool
) -> tuple[NodeLocation, Metadata | None] | None:
    """The node of a zarr.json at a path: of the final dialect, or the root of a hierarchy of the draft; None where there is none."""
    node, content = document.node, document.content
    if isinstance(content, MetadataError):
        raise content
    if document.draft_entry is not None:
        return _inside(location, path, document.draft_entry, "", to_create)
    if node is None and content is None:
        return None
    normalise(path)  # refuses names that nodes of the final dialect cannot have
    if node is None:
        node = parse_node(content, location.registry.metadata, key=join(path, DOCUMENT_NAME), text=document.text)
    return location.at(path), node


def _inside(
    location: NodeLocation, root: str, entry: Json, path: str, to_create: bool
) -> tuple[NodeLocation, Metadata | None]:
    """The node at a path of the hierarchy of the draft that begins at `root`."""
    top = drafted(location, root, entry, join(root, DOCUMENT_NAME))
    found = top.at(normalise(path, top.layout.check_name))
    return found, find_node(found, to_create=to_create)


def _entry_at(location: NodeLocation) -> tuple[NodeLocation | None, bool]:
    """The root of the hierarchy of the draft or of Zarr v2 (possibly a single array) that begins at a location, or None where none does; and whether there is
    any zarr.json. Raises MetadataError for a zarr.json that is neither the draft's nor a final document."""
    key = join(location.path, DOCUMENT_NAME)
    value, *nodes = location.store.get_many([key, *(join(location.path, name) for name in hidden_nodes.V2_NODES)])
    if value is None:
        return None if nodes == [None, None] else location._replace(layout=v2_layout.V2), False
    entry = read_document(value, key)
    if is_draft_entry(entry):
        return drafted(location, location.path, entry, key), True
    _check_document(entry, key)
    return None, True


def drafted(location: NodeLocation, root: str, entry: Json, key: str) -> NodeLocation:
    """The root of a hierarchy with this entry point."""
    try:
        point = entry_point.parse_entry(entry, location.registry)
        store = location.store
        for extension in point.extensions:
            understand = location.registry.hierarchy_extension(extension.extension.name)
            if understand is not None:
                make = cast("Callable[[Extension, Store], object]", understand)
                name = extension.extension.name
                with ExtensionCall("extension", f"{name} of the hierarchy", extension.path):
                    transformed = make(extension.extension, store)
                    store = as_store(transformed, f"the extension {name} of the hierarchy", location, extension.path)
            elif extension.must_understand:
                raise entry_point.not_understood(extension, "with_hierarchy_extension")
    except InvalidInputError as error:
        error.key = error.key or key
        raise
    prefix = f"{root}/" if root else ""
    bare = point.prototype and _is_bare(store, prefix)
    entry_store = location.store if store is not location.store else None
    return location._replace(
        store=store, path="", layout=draft_layout.DraftLayout(prefix, point, bare), entry_store=entry_store
    )


def as_store(result: object, maker: str, location: NodeLocation, part: str) -> Store:
    """The result of a user's function as a Store; it is one, or has operations of one. It is made again for each handle. Writers exclude each other if their
    results have the same place in the documents, over the same store. Raises InvalidInputError."""
    if isinstance(result, Store):
        return result
    try:
        return adapted_store.AdaptedStore(result, guard_name=f"{part} over {location.store!r}")  # type: ignore[arg-type] # which refuses others
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{maker} made {type(result).__name__}, which is not a store: {error.message}", hint=error.hint
        ) from None


def _is_bare(store: Store, prefix: str) -> bool:
    """Whether a prototype of 2020 put its chunks below `data/`, as zarrita did, and not below `data/root/`, as xtensor-zarr did: the documents do not show it.
    Raises StoreError where the store cannot list: chunks in the other location would read as fill values."""
    if not store.capabilities.listable:
        raise StoreError(
            f"{store} is not listable, and only a listing shows where a prototype of 2020 keeps its chunks",
            path=prefix[:-1] or "/",
            hint="open it where it can be listed, or convert it there to another dialect",
        )
    return store.is_empty(f"{prefix}data/root/") or store.exists(f"{prefix}meta/root/root.array")


def for_creation(
    location: NodeLocation,
    path: str,
    zarr_format: object,
    *,
    overwrite: bool,
    entry_point: Mapping[str, object] | None = None,
) -> tuple[NodeLocation, str | None]:
    """The location of a new node, in the dialect of the existing hierarchy, or in `zarr_format` where there is none; and the prefix that must be removed first,
    such as a hierarchy of another dialect. create_nodes removes it after all other checks. Nothing is changed here.

    zarr_format  None: that of the hierarchy, or 3
    entry_point  members for the zarr.json of a new hierarchy of the draft
    Raises InvalidInputError for a format or entry point that differs from the hierarchy's."""
    chosen = _format(zarr_format)
    check_flag(overwrite, "overwrite")
    if entry_point is not None:
        check_mapping(entry_point, "entry_point")
    if entry_point is not None and chosen in (2, 3):
        raise InvalidInputError("entry_point is for hierarchies of the draft of 2022 alone", path=path or "/")
    if location.nodes is not None:
        if entry_point is not None:
            raise InvalidInputError("a repository has no entry_point", path=path or "/")
        return _without_documents(location, path, chosen), None
    lenient = normalise(path, str)
    replaced = overwrite and not lenient and chosen is not None
    broken = False
    try:
        existing, occupied = _entry_at(location)
    except (MetadataError, UnknownExtensionError) as error:  # an invalid document, or one that this call may replace
        if lenient or (isinstance(error, UnknownExtensionError) and not replaced):
            raise
        existing, occupied, broken = None, True, True
    root, new = location.path, None
    prefix = f"{root}/" if root else ""
    if chosen == 2 and (existing is None or replaced):
        if occupied and not replaced:
            raise _already_exists(root, path, broken)
        target = location._replace(layout=v2_layout.V2)
        return target.at(target.below(path)), prefix if existing is not None or occupied else None
    if chosen in ("draft", "draft-2021"):
        new = drafted(location, root, _new_entry(chosen == "draft-2021", entry_point), join(root, DOCUMENT_NAME))
    if existing is not None and not (replaced and _differs(existing, new, entry_point is not None)):
        if chosen is not None and existing.layout.zarr_format != chosen:
            raise InvalidInputError(
                f"the hierarchy is of zarr_format {existing.layout.zarr_format!r}; a node of {chosen!r} cannot be in it",
                path=path or "/",
                hint="leave zarr_format out, or choose another location",
            )
        if existing.layout.zarr_format == 2:
            return existing.at(existing.below(path)), None
        _check_entry(existing, entry_point)
        return existing.at(normalise(path, existing.layout.check_name)), None
    if existing is None and not occupied and lenient:
        within = [*ancestors(lenient)[1:], *(() if overwrite else (lenient,))]
        hidden_nodes.refuse_documents(location.store, location.path, within, hidden_nodes.V2_NODES)
    if new is None:
        if entry_point is not None:
            raise InvalidInputError("entry_point needs a zarr_format, of the draft of 2022", path=path or "/")
        return location.at(join(root, normalise(path))), prefix if existing is not None else None
    if existing is None and not replaced and occupied:
        raise _already_exists(root, path, broken)
    return new.at(normalise(path, new.layout.check_name)), prefix if replaced else None


def _format(zarr_format: object) -> ZarrFormat | None:
    if zarr_format is None:
        return None
    chosen = parsed_format(zarr_format)
    if chosen is None:
        raise InvalidInputError(f"zarr_format is {zarr_format!r}; it must be one of {', '.join(map(repr, FORMATS))}")
    return chosen


def _already_exists(root: str, path: str, broken: bool) -> AlreadyExistsError:
    """The error for a location that already has a zarr.json."""
    remedy = "replace it with overwrite=True" if broken else "convert it with frazil.convert"
    return AlreadyExistsError(
        "something already exists" if broken else "a node of the final Zarr v3 already exists",
        key=join(root, DOCUMENT_NAME),
        path=path or "/",
        hint=f"choose another location, or {remedy}",
    )


def _new_entry(old: bool, members: Mapping[str, object] | None) -> dict[str, Json]:
    supplied = json_object({} if members is None else members, "entry_point")
    if old and "metadata_encoding" in supplied:
        raise InvalidInputError("the older dialect has no encoding but JSON", path="metadata_encoding")
    return {**entry_point.new_entry(old=old), **supplied}


def _differs(existing: NodeLocation, new: NodeLocation | None, entry_given: bool) -> bool:
    """Whether the new hierarchy replaces the existing one."""
    if new is None or new.layout.zarr_format != existing.layout.zarr_format:
        return True
    return entry_given and new.layout != existing.layout


def _check_entry(existing: NodeLocation, members: Mapping[str, object] | None) -> None:
    """Refuses an entry point that differs from that of the hierarchy."""
    layout = existing.layout
    assert isinstance(layout, draft_layout.DraftLayout)
    for name, value in (members or {}).items():
        if layout.entry_point.document.get(name) != value:
            raise InvalidInputError(
                f"the hierarchy already exists, with another {name} in its entry point",
                key=layout.root + DOCUMENT_NAME,
                hint="leave entry_point out, or choose another location",
            )
