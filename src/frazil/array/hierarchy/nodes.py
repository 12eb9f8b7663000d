"""Nodes of a place: reads, creates, changes and removes them, as documents in a store, or through a NodeStorage, without a store.

Not here: keys and documents of a dialect (metadata/layout.py), the dialect of a hierarchy (root.py), moves (move.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from frazil.array.arguments import check_flag, check_transformers
from frazil.array.shard_options import ShardOptions
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry, RuntimeTransformer
from frazil.errors import (
    AlreadyExistsError,
    FrazilError,
    InvalidInputError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
    UnknownExtensionError,
)
from frazil.late import LateModule
from frazil.metadata.layout import Candidate, Layout
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.metadata.paths import ancestors, normalise
from frazil.metadata.v3.documents import emit_node
from frazil.metadata.v3.layout import V3
from frazil.record import Record
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.array_storage.node_storage import NodeStorage
from frazil.stores.caches.byte_cache import ByteCache
from frazil.stores.keys import check_key
from frazil.stores.store import Store
from frazil.stores.values import ABSENT, ANY, NO_SPANS, Changed, Version, pieces_of

if TYPE_CHECKING:
    from frazil.metadata.types import variable_length
else:
    variable_length = LateModule("frazil.metadata.types.variable_length")

Metadata = ArrayMetadata | GroupMetadata
M = TypeVar("M", ArrayMetadata, GroupMetadata)
_AT_ONCE = 256  # keys of one batch, should there be very many


class Place(Record):
    """Where a node is and how it is treated: a store, a normalised path in its hierarchy ("" is the root), the extensions that are known, the limits,
    the dialect, and the storage transformers that the user asked for beside those of documents, array side first.

    entry_store  the store without the generic extensions of the hierarchy, which have no say in its entry point; None: there are none
    nodes        what keeps the nodes instead of documents in the store, which then is for display alone; None: documents. Layout is then that of V3
    memory       what all that is opened from here remembers; None: each array for itself;  shard_options: how its arrays write shards"""

    store: Store
    path: str = ""
    registry: Registry = DEFAULT_REGISTRY
    runtime: Runtime = DEFAULT
    read_only: bool = False
    layout: Layout = V3
    transformers: tuple[RuntimeTransformer, ...] = ()
    entry_store: Store | None = None
    nodes: NodeStorage | None = None
    memory: ByteCache | None = None
    shard_options: ShardOptions = ShardOptions()

    def at(self, path: str) -> Place:
        return self._replace(path=path)

    def below(self, path: str) -> str:
        """The path of a node below this one, as its user wrote it, checked and whole."""
        inner = normalise(path, self.layout.check_name)
        return f"{self.path}/{inner}" if self.path and inner else self.path or inner

    def through(self, transformers: Sequence[RuntimeTransformer]) -> Place:
        """The same place with more storage transformers, array side first. Raises InvalidInputError where chunks do not lie in a store."""
        added = check_transformers(transformers, "transformers")
        if added and self.nodes is not None:
            raise no_transformers(self)
        return self._replace(transformers=(*added, *self.transformers))

    def require_writable(self) -> None:
        """Raises ReadOnlyError."""
        if self.nodes is not None:
            self.nodes.require_writable()
        if self.read_only:
            raise ReadOnlyError(f"{self} was opened for reading", path=self.path or "/", hint='open it with mode="r+"')

    def __str__(self) -> str:
        return f"{self.store!r}" + (f" /{self.path}" if self.path else "")


def no_transformers(place: Place) -> InvalidInputError:
    """The error for storage transformers where chunks do not lie under keys of the store."""
    return InvalidInputError(
        "an array of a repository has no storage transformers: its chunks lie under no keys",
        path=place.path or "/",
        hint="put a store over the one that the repository is opened at",
    )


# --- reading -----------------------------------------------------------------------------------------------------------------------


def missing(place: Place) -> NotFoundError:
    """The error for a place where nothing is."""
    return NotFoundError(
        f"there is no array or group in {place.store!r}",
        key=place.layout.document_keys(place.path)[0],
        path=place.path or "/",
        hint="check the location; a hierarchy begins where its zarr.json is, and nodes of one of the 2022 draft have their path beside it",
    )


def find_node(place: Place, *, to_create: bool = False) -> Metadata | None:
    """The metadata of the node; None where nothing is there. One batch of requests; one more for a group without a document.

    to_create  the caller creates what is not there: a group without a document counts as none where the store cannot list
    Raises MetadataError where its document breaks the rules, what a port gives in place of a node, and StoreError where only a listing could tell of
    a group without a document, and the store cannot list."""
    if place.nodes is not None:
        return _readable(_decodable(place.nodes.find(place.path), place.path))
    found = _look_up(place, [Candidate(place.path, place.layout.document_keys(place.path))])
    node = _readable(found.get(place.path))
    if node is None and not (to_create and not place.store.capabilities.listable and place.path) and _is_implied(place):
        return GroupMetadata(zarr_format=place.layout.zarr_format, implicit=True)
    return node


def _readable(node: Metadata | FrazilError | None) -> Metadata | None:
    if isinstance(node, FrazilError):
        raise node
    return node


def _decodable(node: Metadata | FrazilError | None, path: str) -> Metadata | FrazilError | None:
    """A node that a port gave; the error for an array whose elements nobody here can read."""
    return (variable_length.undecodable(node, path) or node) if isinstance(node, ArrayMetadata) else node


def _is_implied(place: Place) -> bool:
    """Whether a group without a document is there: nodes lie below it; the root of a hierarchy is there with its entry point. Raises StoreError where
    the store cannot list, as nothing else tells."""
    layout, store = place.layout, place.store
    if not layout.implicit_groups:
        return False
    if not place.path:
        return True
    if not store.capabilities.listable:
        raise StoreError(
            f"{store!r} is not listable, and only a listing tells whether a group without a document is there",
            path=place.path,
            hint="open what lies below by its whole path, or use create_group, which gives the group a document",
        )
    return not store.is_empty(layout.documents_prefix(place.path))


def find_nodes(place: Place, paths: Sequence[str]) -> dict[str, Metadata]:
    """The nodes at these paths that have a document, in one batch of requests. Raises MetadataError where one breaks the rules."""
    asked: Mapping[str, Metadata | FrazilError | None]
    if place.nodes is not None:
        asked = {path: _decodable(place.nodes.find(path), path) for path in paths}
    else:
        asked = _look_up(place, [Candidate(path, place.layout.document_keys(path)) for path in paths])
    return {path: node for path, found in asked.items() if (node := _readable(found)) is not None}


def _look_up(place: Place, candidates: Sequence[Candidate]) -> dict[str, Metadata | FrazilError]:
    """What is there of these, in one batch of requests; what is wrong with a document stands in its place."""
    keys = [key for candidate in candidates for key in candidate.keys]
    values = place.store.get_many(keys)
    stored = dict(zip(keys, values, strict=True))
    found: dict[str, Metadata | FrazilError] = {}
    for candidate in candidates:
        for key in candidate.keys:
            value = stored[key]
            if value is not None:
                try:
                    found[candidate.path] = place.layout.parse(key, value, place.registry)
                except (MetadataError, UnknownExtensionError) as error:
                    found[candidate.path] = error
                break
        else:
            if candidate.group:
                found[candidate.path] = GroupMetadata(zarr_format=place.layout.zarr_format, implicit=True)
    return found


def as_stored(place: Place, metadata: M) -> M:
    """The metadata of a new node as whoever opens it will find it. Raises MetadataError for what the dialect cannot say, InvalidInputError for storage
    transformers where chunks do not lie in a store."""
    if place.nodes is None:
        return _parsed(place, type(metadata), place.layout.emit(metadata))
    if isinstance(metadata, ArrayMetadata) and metadata.storage_transformers:
        raise no_transformers(place)
    return _parsed(place, type(metadata), emit_node(metadata, None))  # which nobody keeps


def _parsed(place: Place, kind: type[M], document: bytes) -> M:
    node = place.layout.parse(place.layout.document_key(place.path, kind), document, place.registry)
    assert isinstance(node, kind)
    return node


# --- what lies below ---------------------------------------------------------------------------------------------------------------


def nodes_below(place: Place, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
    """The nodes below a group by path, depth first, each level sorted by name; an error stands for a document that cannot be read.
    max_depth: 0 for the direct members, None for all."""
    if place.nodes is not None:
        for path, node in place.nodes.below(place.path, max_depth):
            yield path, _decodable(node, path) or node
        return
    layout = place.layout
    if layout.at_once and max_depth != 0:
        keys = place.store.list_prefix(layout.documents_prefix(place.path))
        deep = place.path.count("/") + (place.path != "") + (max_depth or 0)
        below = layout.descendants(place.path, keys)
        if max_depth is not None:
            below = [candidate for candidate in below if candidate.path.count("/") <= deep]
        yield from _look_up(place, below).items()
        return
    levels = [iter(_look_up(place, _children(place)).items())]  # a loop: a hierarchy may be deeper than Python's stack
    while levels:
        for path, metadata in levels[-1]:
            yield path, metadata
            if isinstance(metadata, GroupMetadata) and (max_depth is None or len(levels) <= max_depth):
                levels.append(iter(_look_up(place, _children(place.at(path))).items()))
                break
        else:
            levels.pop()


def member_paths(place: Place) -> list[str]:
    """Paths of the direct members of a group, sorted, also of such as cannot be read. One listing, and one batch of look-ups where it does not say all."""
    if place.nodes is not None:
        return list(place.nodes.children(place.path))
    candidates = _children(place)
    if place.layout.implicit_groups:  # a listing shows documents themselves
        return [candidate.path for candidate in candidates]
    keys = [candidate.keys[0] for candidate in candidates]
    sizes = place.store.sizes(keys).tolist()
    return [candidate.path for candidate, size in zip(candidates, sizes, strict=True) if size >= 0]


def _children(place: Place) -> list[Candidate]:
    return place.layout.children(place.path, *place.store.list_dir(place.layout.documents_prefix(place.path)))


def node_exists(place: Place) -> bool:
    """Whether an array or a group is there, whatever its document says. One request a document that it may have; one more for a group without one.
    Raises StoreError where only a listing could tell, and the store cannot list."""
    if place.nodes is not None:
        return place.nodes.exists(place.path)
    keys = place.layout.document_keys(place.path)
    there = place.store.exists(keys[0]) if len(keys) == 1 else bool((place.store.sizes(keys) >= 0).any())
    return there or _is_implied(place)


# --- changing ----------------------------------------------------------------------------------------------------------------------


def change_node(place: Place, kind: type[M], change: Callable[[M], M], *, lengths_only: bool = False) -> M:
    """Changes the document by what is stored now, again where somebody else was quicker; the metadata that was written. Copies of it in consolidated
    metadata are dropped; a group without a document gets one.
    lengths_only: `change` gives an array other lengths and changes nothing else: then the new document is not parsed, unless metadata keeps it, as in the draft"""
    place.require_writable()
    place = place._replace(registry=place.registry.silent())
    key = place.layout.document_key(place.path, kind)
    if place.nodes is not None:
        changed = place.nodes.change(place.path, lambda stored: change(_of_kind(place, key, stored, kind)))
        return _of_kind(place, key, changed, kind)
    written: list[M] = []

    def rewrite(value: bytes | None) -> bytes | None:
        stored: Metadata
        if value is not None:
            stored = place.layout.parse(key, value, place.registry)
        elif issubclass(kind, GroupMetadata) and _is_implied(place):
            stored = GroupMetadata(zarr_format=place.layout.zarr_format, implicit=True)
        else:
            raise NotFoundError("the node is gone", key=key, path=place.path or "/", hint="somebody removed it")
        changed = change(_of_kind(place, key, stored, kind))
        document = place.layout.emit(changed)
        same = changed == stored and document == place.layout.emit(stored)  # Python's 1 == True
        resized = lengths_only and isinstance(changed, ArrayMetadata) and changed.document is None
        written[:] = [changed if same or resized else _parsed(place, kind, document)]
        place.layout.remember(document, written[0], place.registry)
        return None if same else document

    if place.store.update(key, rewrite) is not None and place.path:
        drop_copies(place, documents_above(place, [place.path]))
    return written[0]


def _of_kind(place: Place, key: str, node: Metadata, kind: type[M]) -> M:
    if isinstance(node, kind):
        return node
    raise InvalidInputError(
        "another kind of node has taken this place", key=key, path=place.path or "/", hint="open it anew"
    )


def create_nodes(
    place: Place,
    nodes: Mapping[str, Metadata],
    *,
    overwrite: bool,
    explicit_groups: bool = False,
    replaces: str | None = None,
) -> None:
    """Creates nodes at paths, and groups above them where there are none: with documents of their own where the dialect has no others, or explicit_groups
    says so. Raises AlreadyExistsError before anything is written where something is there and overwrite is false; InvalidInputError where an array
    stands above one of them.

    replaces  the prefix of a hierarchy that has to go for them, in the store of the location"""
    place.require_writable()
    check_flag(overwrite, "overwrite")
    check_flag(explicit_groups, "explicit_groups")
    if place.nodes is not None:
        place.nodes.create(nodes, overwrite=overwrite)
        return
    store, layout = place.store, place.layout
    documents = [layout.emit(node) for node in nodes.values()]  # what the dialect cannot say is refused first
    above = sorted({path for node in nodes for path in ancestors(node)} - nodes.keys())
    there = find_nodes(place, above) if above else {}
    check_above(nodes, {**there, **nodes})
    if layout.implicit_groups and not overwrite:
        _check_free(place, nodes)
    if replaces is not None:
        (place.store if place.entry_store is None else place.entry_store).erase_prefix(replaces)
    # a single document that is put only where none is need not be looked for before
    told = len(nodes) == 1 and store.capabilities.expects and not overwrite and there.keys() >= set(above)
    for path in nodes:
        _make_room(place, path, nodes[path], overwrite, told)
    drop_copies(place, there)
    _write_entry(place)
    if explicit_groups or not layout.implicit_groups:
        create_groups(place, [path for path in above if path not in there], nodes)
    keys = [layout.document_key(path, type(node)) for path, node in nodes.items()]
    answers = store.put_many(keys, pieces_of(documents), put_expect(store, len(keys), overwrite))
    for path, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, Changed):
            raise already_there(place, path)


def _write_entry(place: Place) -> None:
    """Sees to the document that the hierarchy has beside those of its nodes. Somebody else may have created the same at the same time, which is as good."""
    entry = place.layout.entry()
    if entry is None:
        return
    key, value = entry
    store = place.store if place.entry_store is None else place.entry_store
    there = store.get(key)
    if there is None:
        if not isinstance(store.put_many([key], pieces_of([value]), put_expect(store, 1, False))[0], Changed):
            return
        there = store.get(key)
    if there is None or not place.layout.has_entry(there):
        raise AlreadyExistsError(
            "another hierarchy has taken this place", key=key, path=place.path or "/", hint="open it anew"
        )


def create_groups(place: Place, paths: Sequence[str], nodes: Iterable[str]) -> None:
    """Gives groups documents; nodes: the paths of what is to lie below them. Raises InvalidInputError where somebody else has just put an array in the way."""
    if not paths:
        return
    store, layout = place.store, place.layout
    values = pieces_of([layout.emit(GroupMetadata(zarr_format=layout.zarr_format))] * len(paths))
    keys = [layout.document_key(path, GroupMetadata) for path in paths]
    answers = store.put_many(keys, values, put_expect(store, len(paths), False))
    lost = [path for path, answer in zip(paths, answers, strict=True) if isinstance(answer, Changed)]
    if lost:  # somebody else created the same at the same time: groups are as good, arrays are not
        check_above(nodes, find_nodes(place, lost))


def put_expect(store: Store, count: int, overwrite: bool) -> list[Version | None]:
    """What documents of new nodes are to find under their keys."""
    return [ABSENT if store.capabilities.expects and not overwrite else ANY] * count


def check_above(nodes: Iterable[str], there: Mapping[str, Metadata]) -> None:
    """Refuses nodes that would lie below one of the arrays of `there`."""
    for node in nodes:
        for path in ancestors(node):
            if isinstance(there.get(path), ArrayMetadata):
                raise InvalidInputError(
                    f"an array is at /{path}, and arrays have no children", path=node, hint="choose a path beside it"
                )


def documents_above(place: Place, paths: Iterable[str]) -> dict[str, Metadata]:
    """The documents of the groups above, where they may hold copies of those below."""
    if place.layout.implicit_groups:
        return {}
    return find_nodes(place, sorted({above for path in paths for above in ancestors(path)}))


def drop_copies(place: Place, above: Mapping[str, Metadata]) -> None:
    """Drops consolidated metadata of the groups above a node that changes: their copies of its document would be stale."""
    for path, node in above.items():
        if isinstance(node, GroupMetadata) and node.consolidated is not None:
            change_node(place.at(path), GroupMetadata, GroupMetadata.without_consolidated)


def _check_free(place: Place, paths: Iterable[str]) -> None:
    """Refuses paths at which a document of either kind is, in one batch of requests."""
    keys = {key: path for path in paths for key in place.layout.document_keys(path)}
    for path, size in zip(keys.values(), place.store.sizes(list(keys)).tolist(), strict=True):
        if size >= 0:
            raise already_there(place, path)


def _make_room(place: Place, path: str, node: Metadata, overwrite: bool, told: bool) -> None:
    """told: whether putting the document tells whether one is there, and nothing is written before."""
    store, layout = place.store, place.layout
    if overwrite:
        erase_node(place, path)
        return
    prefix = layout.data_prefix(path)
    looks_below = isinstance(node, ArrayMetadata) and store.capabilities.listable
    if layout.implicit_groups:
        if looks_below and not store.is_empty(layout.documents_prefix(path)):  # a group, which another may replace
            raise already_there(place, path)
        if looks_below and not store.is_empty(prefix):
            _remove_orphans(place, path)
    elif looks_below:
        if not store.is_empty(prefix):  # a document, or chunks that would show up in the new array
            raise already_there(place, path)
    elif told:
        check_key(layout.document_keys(path)[0])
    elif store.exists(layout.document_keys(path)[0]):
        raise already_there(place, path)


def _remove_orphans(place: Place, path: str) -> None:
    """Removes chunks without a document, which programs left behind that removed the array. They are listed before the document is looked for once
    more, so that none of them is of an array that somebody else has created meanwhile."""
    store, layout = place.store, place.layout
    keys = store.list_prefix(layout.data_prefix(path))
    pages = [keys[first : first + _AT_ONCE] for first in range(0, len(keys), _AT_ONCE)]
    versions = [version for page in pages for version in store.fetch(page, NO_SPANS).versions]
    _check_free(place, [path])
    if not store.capabilities.erasable:
        raise already_there(place, path)
    conditional = store.capabilities.expects and store.capabilities.conditional_erase
    there = {key: version if conditional else ANY for key, version in zip(keys, versions, strict=True) if version}
    for page in pages:
        left = [key for key in page if key in there]
        store.erase_many(left, [there[key] for key in left])


def already_there(place: Place, path: str) -> AlreadyExistsError:
    """The error for a path that is taken."""
    return AlreadyExistsError(
        f"something is there already in {place.store!r}",
        path=path or "/",
        hint="choose another place, or replace it with overwrite=True",
    )


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


def erase_node(place: Place, path: str) -> None:
    """Removes whatever is at a path and below. The document goes first, so that a node is never there in part; but last where the store may find that it
    cannot remove what lies below."""
    store, layout = place.store, place.layout
    keys = layout.document_keys(path)
    if store.capabilities.listable:
        store.erase_values(keys)
    for prefix in layout.prefixes(path):
        store.erase_prefix(prefix)
    if not store.capabilities.listable:
        store.erase_values(keys)
