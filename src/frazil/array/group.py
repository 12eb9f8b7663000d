"""The public class Group: a mapping from names and paths to arrays and groups. nodes.py reads documents, node_changes.py writes them,
tree.py prints hierarchies."""

from __future__ import annotations

from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    Sequence,
    ValuesView,
)
from typing import TYPE_CHECKING, Unpack
from weakref import ref

import numpy as np

from frazil.array.arguments import DEFAULT_FILL, check_depth, check_flag, check_mapping
from frazil.array.array import Array
from frazil.array.creation import array_creation, array_metadata
from frazil.array.handle import Update
from frazil.array.hierarchy import members, move, repository_locations
from frazil.array.hierarchy import tree as _tree
from frazil.array.hierarchy.node_changes import change_node, create_nodes, remove_node
from frazil.array.hierarchy.nodes import NodeLocation, as_stored, find_node, node_exists
from frazil.array.interface.zarr_group import ZarrGroup, path_of
from frazil.array.shards.shard_options import options_below
from frazil.codecs.registry import RuntimeTransformer
from frazil.errors import (
    AlreadyExistsError,
    FrazilError,
    InvalidInputError,
    MetadataError,
    NodeKindError,
    NotFoundError,
    UnknownExtensionError,
    one_line,
)
from frazil.metadata.model import ArrayMetadata, GroupMetadata

if TYPE_CHECKING:
    from frazil.array.creation.array_metadata import Lengths
    from frazil.array.creation.zarr_arguments import CreateArguments, TreeArguments
    from frazil.metadata.model import Metadata


class Group(ZarrGroup, MutableMapping[str, "Array | Group"]):
    """A group of arrays and groups. frazil.create_group, frazil.open_group and other groups return it. It may be used from many threads, and pickled.

    Keys are names or paths below the group ("level1/temp"); iteration gives the names of its direct members. The specification reserves names that begin with
    `__`: no node has such a name, and folders with such names are left out."""

    __slots__ = ("_key", "_last_iteration", "_metadata", "_opened", "_renewals")

    def __init__(self, location: NodeLocation, metadata: GroupMetadata) -> None:
        self._opened, self._metadata = location, metadata
        nodes = location.nodes
        self._renewals = 0 if nodes is None else nodes.renewals
        self._key = None if nodes is None or location.read_only else nodes.node_key(location.path)
        self._last_iteration: ref[_Names] | None = None

    @property
    def _location(self) -> NodeLocation:
        """The location, which follows a group that is moved in a session; the last location of a group that was removed."""
        if self._opened.nodes is not None and self._key is not None:
            now = self._opened.nodes.node_path(self._key)
            if now is not None and now != self._opened.path:
                self._opened = self._opened.at(now)
        return self._opened

    @property
    def metadata(self) -> GroupMetadata:
        """The document, as a frozen value. It is read again where all nodes have changed, as in a session that was rebased."""
        nodes = self._location.nodes
        if nodes is not None and nodes.renewals != self._renewals:
            self._renewals = nodes.renewals
            node = find_node(self._location)
            self._metadata = node if isinstance(node, GroupMetadata) else GroupMetadata(implicit=True)
        return self._metadata

    def change_attributes(self, update: Update) -> None:
        location = self._location
        if location.nodes is not None and self._key is not None and location.nodes.node_path(self._key) is None:
            raise NotFoundError("the group is gone", path=location.path, hint="it was removed; open what is there now")
        self._metadata = change_node(
            location, GroupMetadata, lambda stored: stored.with_attributes(update(dict(stored.attributes)))
        )

    # --- as a mapping --------------------------------------------------------------------------------------------------------------

    def __getitem__(self, path: str) -> Array | Group:
        """The node at a name or path below this group, in one request; the group itself for "" and "/". Raises NotFoundError."""
        return self if _is_root(path) else _open(self._at(path), path)

    def open_array(self, path: str, *, inner_order: str | None = None, shard_writes: str | None = None) -> Array:
        """The array at a path below this group; options as in frazil.open_array, those of the group if left out. Raises NotFoundError,
        InvalidInputError if a group is there, or if the array does not allow the options."""
        node = _open(self._with_options(path, inner_order, shard_writes), path)
        if not isinstance(node, Array):
            raise NodeKindError("a group is there, not an array", path=node.path)
        return node

    def __setitem__(self, path: str, value: object) -> None:
        """Stores an array-like value as an array with the default layout, in place of an existing node. If writing fails, the old node is lost."""
        data = value if hasattr(value, "shape") and hasattr(value, "dtype") else np.asarray(value)
        self.create_array(path, data=data, overwrite=True)

    def _ipython_key_completions_(self) -> list[str]:
        """Names, to complete keys between brackets."""
        return self._names()

    def __delitem__(self, path: str) -> None:
        """Removes a node with everything below it. Raises NotFoundError."""
        self.remove(path)

    def remove(self, path: str, *, keep_parent: bool = False) -> None:
        """Removes a node with everything below it. Raises NotFoundError, ReadOnlyError.

        keep_parent  in a hierarchy of the 2022 draft a group without a document vanishes with its last member: this gives the group above the node
                     a document first"""
        remove_node(self._at(path), keep_parent=keep_parent)
        self._changed_below()

    def move(self, path: str, to: str) -> None:
        """Renames a node with everything below it. Both paths are below this group; missing groups above the new path are created. In a session handles follow
        the moved node; in a plain store they keep the old path.

        In a plain store keys are linked, or copied if the store cannot link, and the old keys are removed once the new node is complete. No other process may
        change the node during the move. A crash leaves the old node complete, or the new one, or both. Raises NotFoundError, AlreadyExistsError if the new path
        is taken, InvalidInputError if it is inside the node or below an array, ReadOnlyError, StoreError."""
        move.move_node(self._at(path), self._at(to).path)
        self._changed_below()

    def __contains__(self, path: object) -> bool:
        """Whether a node exists, even if its document cannot be read; one request, or a few in a hierarchy of the 2022 draft. There only a listing can find a
        group without a document: StoreError, if the store cannot list."""
        try:
            return _is_root(path) or node_exists(self._at(path))
        except InvalidInputError:  # not a path, or one that the store cannot have
            return False

    def __iter__(self) -> Iterator[str]:
        """Names of the direct members, sorted, also of unreadable ones. One listing, and one batch of look-ups."""
        names = _Names(self._names)
        self._last_iteration = ref(names)
        return names

    def __len__(self) -> int:
        """Number of direct members. One listing, and one batch of look-ups."""
        names = self._names()
        iteration = None if self._last_iteration is None else self._last_iteration()
        if iteration is not None:
            iteration.set_names(names)
        return len(names)

    def _names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in members.member_paths(self._location)]

    def keys(self) -> KeysView[str]:
        """Names of the direct members."""
        return _Keys(self)

    def items(self) -> ItemsView[str, Array | Group]:
        """Names and nodes of the direct members, as they are when first accessed. One listing, and one batch of requests."""
        return _Items(self)

    def values(self) -> ValuesView[Array | Group]:
        """The nodes of the direct members, as they are when first accessed. One listing, and one batch of requests."""
        return _Values(self)

    def members(
        self, max_depth: int | None = 0, *, skip_unreadable: bool = False
    ) -> Iterator[tuple[str, Array | Group]]:
        """Paths below this group, sorted, and the nodes there. max_depth: 0 for the direct members, None for all.

        skip_unreadable  leaves out nodes whose documents cannot be read (another codec or data type than those registered, a damaged
                         document), which otherwise raise MetadataError or UnknownExtensionError
        One listing of each level, and one batch of requests for its documents; of all levels at once in a hierarchy of the 2022 draft."""
        check_depth(max_depth)
        below = len(self.path) + (self.path != "")
        for path, metadata in members.nodes_below(self._location, max_depth):
            try:
                if isinstance(metadata, FrazilError):
                    raise metadata
                node = as_node(self._location.at(path), metadata)
            except (MetadataError, UnknownExtensionError) as error:
                if skip_unreadable:
                    continue
                leaves_out = "members(skip_unreadable=True) leaves such nodes out"
                error.hint = f"{error.hint}; {leaves_out}" if error.hint else leaves_out
                raise
            yield path[below:], node

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Names and arrays of the direct members."""
        return ((name, node) for name, node in self.members() if isinstance(node, Array))

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Names and groups of the direct members."""
        return ((name, node) for name, node in self.members() if isinstance(node, Group))

    def tree(
        self, max_depth: int | None = None, *, level: int | None = None, **zarr: Unpack[TreeArguments]
    ) -> _tree.Tree:
        """Everything below this group, as a value that prints as a tree. level is zarr-python's name for max_depth, max_nodes its limit; its other
        arguments have no effect."""
        check_depth(depth := max_depth if level is None else level)
        check_depth(most := zarr.get("max_nodes"), "max_nodes")
        below = len(self.path) + (self.path != "")
        nodes = [(path[below:], metadata) for path, metadata in members.nodes_below(self._location, depth)]
        return _tree.Tree("/" + self.path, tuple(nodes)).first(most)

    def _with_options(self, path: str, inner_order: object, shard_writes: object) -> NodeLocation:
        location = self._at(path)
        return location._replace(shard_options=options_below(location.shard_options, inner_order, shard_writes))

    def _at(self, path: object) -> NodeLocation:
        below = self._location.below(path)  # type: ignore[arg-type] # which refuses other types
        if below == self.path:
            raise InvalidInputError(
                f"{path!r} is the group itself, not a path below it", path=self.path or "/", hint='name a member, "a/b"'
            )
        return self._location.at(below)

    # --- creating ------------------------------------------------------------------------------------------------------------------

    def create_group(
        self,
        path: str | None = None,
        *,
        name: str | None = None,
        attributes: Mapping[str, object] | None = None,
        overwrite: bool = False,
        explicit_groups: bool = False,
    ) -> Group:
        """Creates a group, and missing groups above it: in a hierarchy of the 2022 draft with documents of their own if explicit_groups is True. Raises
        AlreadyExistsError, ReadOnlyError."""
        location = self._at(path_of(path, name))
        metadata = GroupMetadata(attributes=attributes, zarr_format=location.layout.zarr_format)
        self._create({location.path: metadata}, overwrite, explicit_groups)
        return Group(location, metadata)

    def create_array(
        self,
        path: str | None = None,
        *,
        name: str | None = None,
        shape: Lengths | None = None,
        dtype: object = None,
        data: object = None,
        chunks: Lengths | str = "auto",
        shards: Lengths | str | Mapping[str, object] | None = None,
        codecs: object = "auto",
        fill_value: object = DEFAULT_FILL,
        attributes: Mapping[str, object] | None = None,
        dimension_names: Sequence[str | None] | None = None,
        chunk_key_encoding: object = None,
        index_location: str = "end",
        storage_transformers: Sequence[object] = (),
        document: Mapping[str, object] | None = None,
        overwrite: bool = False,
        explicit_groups: bool = False,
        inner_order: str | None = None,
        shard_writes: str | None = None,
        progress: Callable[[int], object] | None = None,
        **zarr: Unpack[CreateArguments],
    ) -> Array:
        """Creates an array at a path (zarr-python: name) below this group. Arguments as in frazil.create_array; inner_order and shard_writes of the group are
        the defaults. Raises AlreadyExistsError, MetadataError, ReadOnlyError."""
        location = self._with_options(path_of(path, name), inner_order, shard_writes)
        self._guard([location.path], overwrite)
        array = array_creation.new_array(
            location,
            overwrite,
            data,
            progress,
            explicit_groups=explicit_groups,
            shape=shape,
            dtype=dtype,
            chunks=chunks,
            shards=shards,
            codecs=codecs,
            fill_value=fill_value,
            attributes=attributes,
            dimension_names=dimension_names,
            chunk_key_encoding=chunk_key_encoding,
            index_location=index_location,
            storage_transformers=storage_transformers,
            document=document,
            **zarr,
        )
        self._changed_below()
        return array

    def create_arrays(self, arrays: Mapping[str, Mapping[str, object]], *, overwrite: bool = False) -> dict[str, Array]:
        """Creates many arrays in one batch. For each path: the arguments of create_array without data. All are checked before one is created."""
        nodes = self._planned(arrays)
        self._create(nodes, overwrite)
        if self._location.nodes is not None:  # which may store only part of the metadata
            nodes = {at: array_creation.stored_array(self._location.at(at)) for at in nodes}
        found = zip(arrays, nodes.items(), strict=True)
        return {
            path: Array(self._location.at(at), node) for path, (at, node) in found if isinstance(node, ArrayMetadata)
        }

    def _planned(self, arrays: Mapping[str, Mapping[str, object]]) -> dict[str, Metadata]:
        """The metadata of new arrays by their paths in the store; arguments as in create_arrays."""
        nodes: dict[str, Metadata] = {}
        check_mapping(arrays, "arrays")
        for path, arguments in arrays.items():
            check_mapping(arguments, f"arrays[{path!r}]")
            location = self._at(path)
            if location.path in nodes:
                raise InvalidInputError("two of the new arrays have one path", path=location.path)
            array_metadata.check_arguments(arguments, required=("shape", "dtype"), path=location.path)
            registry, zarr_format = location.registry, location.layout.zarr_format
            metadata = array_metadata.array_metadata(registry, zarr_format=zarr_format, **arguments)  # type: ignore[arg-type]
            nodes[location.path] = as_stored(location, metadata)
        return nodes

    def require_group(self, path: str | None = None, *, name: str | None = None, overwrite: bool = False) -> Group:
        """The group at a path, itself for "/"; created if the path is free, or overwrite is True. Raises AlreadyExistsError for an array."""
        path = path_of(path, name)
        check_flag(overwrite, "overwrite")
        if overwrite:
            return self.create_group(path, overwrite=True)
        node = self if _is_root(path) else self._required(self._at(path), lambda: self.create_group(path))
        if not isinstance(node, Group):
            raise NodeKindError("an array is there, not a group", path=node.path)
        return node

    def require_array(
        self,
        path: str | None = None,
        *,
        name: str | None = None,
        shape: Lengths,
        dtype: object,
        exact: bool = False,
        **arguments: object,
    ) -> Array:
        """The array at a path, of this shape, and of this dtype or, unless exact, of one that NumPy casts to it safely (in any byte order); created with the
        arguments of create_array if the path is free. Raises AlreadyExistsError for any other node."""
        path = path_of(path, name)
        check_flag(exact, "exact")
        array_metadata.check_arguments(
            arguments, ("data", "overwrite", "explicit_groups", "inner_order", "progress", "shard_writes")
        )
        location = self._with_options(path, arguments.get("inner_order"), arguments.get("shard_writes"))
        node = self._required(location, lambda: self.create_array(path, shape=shape, dtype=dtype, **arguments))  # type: ignore[arg-type]
        target = array_metadata.array_metadata(self._location.registry, shape=shape, dtype=dtype)
        cast = np.can_cast(node.dtype if isinstance(node, Array) else "O", target.dtype, "equiv" if exact else "safe")
        if not isinstance(node, Array) or node.shape != target.shape or not cast:
            text = f"another node is there: {node!r}, not an array of shape {target.shape} and dtype {target.dtype}"
            raise AlreadyExistsError(text, path=node.path)
        return node

    def _required(self, location: NodeLocation, create: Callable[[], Array | Group]) -> Array | Group:
        if (node := find_node(location, to_create=True)) is None:
            try:
                return create()
            except AlreadyExistsError:  # another process was faster, or a repository is there
                node = find_node(location)
                if node is None:
                    raise
        return as_node(location, node)

    def _create(self, nodes: Mapping[str, Metadata], overwrite: bool, explicit_groups: bool = False) -> None:
        self._guard(nodes, overwrite)
        create_nodes(self._location, nodes, overwrite=overwrite, explicit_groups=explicit_groups)
        self._changed_below()

    def _guard(self, paths: Iterable[str], overwrite: bool) -> None:
        """Refuses to overwrite repositories, and to write among their files. Without overwrite the second check costs requests, so only local disks have it."""
        check_flag(overwrite, "overwrite")
        location = self._location
        if location.nodes is not None or not location.store.capabilities.listable:
            return
        for prefix in (prefix for path in paths for prefix in location.layout.prefixes(path)):
            if overwrite or location.store.capabilities.local:
                repository_locations.check_outside(location.store, prefix)
            if overwrite:
                repository_locations.check_none_below(location.store, prefix)
            elif location.store.capabilities.local:
                repository_locations.check_no_repository(location.store, prefix)

    def _changed_below(self) -> None:
        """Forgets consolidated metadata, which is stale and has also been dropped from the document (node_changes.py)."""
        if self._metadata.consolidated is not None:
            self._metadata = self._metadata.without_consolidated()

    def through(self, transformers: Sequence[RuntimeTransformer]) -> Group:
        """The same group, whose arrays read and write chunks through further storage transformers, array side first."""
        return Group(self._location.through(transformers), self._metadata)

    def from_documents(self) -> Group:
        """The same group, whose members are read from their own documents, never from consolidated metadata."""
        return self if self._location.copies is None else Group(self._location._replace(copies=None), self._metadata)

    # --- as an object --------------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return one_line(f"<frazil.Group {self._location}>")

    def __reduce__(self) -> tuple[object, ...]:
        return Group, (self._location, self._metadata)


class _Names(Iterator[str]):
    """Names that are listed when the first is needed. `list` and `sorted` ask for the length first: then the names that were counted are used, and are not
    listed twice."""

    __slots__ = ("__weakref__", "_found", "_list")

    def __init__(self, list_names: Callable[[], list[str]]) -> None:
        self._list = list_names
        self._found: Iterator[str] | None = None

    def set_names(self, names: list[str]) -> None:
        """Sets the names, unless the iteration has begun."""
        if self._found is None:
            self._found = iter(names)

    def __next__(self) -> str:
        if self._found is None:
            self._found = iter(self._list())
        return next(self._found)


class _Keys(KeysView[str]):
    """The view of MutableMapping would begin to iterate after the length was computed."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._group = group

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)


class _Items(ItemsView[str, "Array | Group"]):
    """The view of MutableMapping would request every member once more."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._group, self._found = group, list[tuple[str, "Array | Group"]]()

    def _members(self) -> list[tuple[str, Array | Group]]:
        self._found = self._found or list(self._group.members())
        return self._found

    def __iter__(self) -> Iterator[tuple[str, Array | Group]]:
        return iter(self._members())

    def __len__(self) -> int:
        return len(self._members())


class _Values(ValuesView["Array | Group"]):
    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._items = _Items(group)

    def __iter__(self) -> Iterator[Array | Group]:
        return (node for _, node in self._items)

    def __len__(self) -> int:
        return len(self._items)


def _is_root(path: object) -> bool:
    """Whether a path below a group names the group itself: "", "/"."""
    return isinstance(path, str) and not path.strip("/")


def _open(location: NodeLocation, path: str) -> Array | Group:
    node = find_node(location)
    if node is None:
        hint = "list(group), or `frazil ls`, shows its members"
        raise NotFoundError(f"there is no {path!r} in the group", path=location.path, hint=hint)
    return as_node(location, node)


def as_node(location: NodeLocation, metadata: Metadata) -> Array | Group:
    """The object that users get for a node. An array gets no copies of the documents of other nodes, which would be in each of its pickles."""
    if isinstance(metadata, ArrayMetadata):
        return Array(location if location.copies is None else location._replace(copies=None), metadata)
    return Group(location, metadata)
