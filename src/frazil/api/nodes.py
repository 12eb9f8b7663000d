"""Opening and creating arrays and groups at a location. The objects themselves are in array/."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, Unpack

from frazil.api import destinations, node_locations
from frazil.array import array as arrays
from frazil.array import group as groups
from frazil.array.arguments import DEFAULT_FILL
from frazil.array.creation import array_creation, array_metadata, modes, zarr_arguments
from frazil.array.hierarchy import consolidated, node_changes, root
from frazil.array.hierarchy.nodes import M, NodeLocation
from frazil.array.shards.shard_options import check_location, checked_options
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry, RuntimeTransformer
from frazil.errors import AlreadyExistsError, InvalidInputError, NodeKindError
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.locations import Location, given_location

if TYPE_CHECKING:
    from frazil.array.array import Array
    from frazil.array.creation.array_metadata import Lengths
    from frazil.array.creation.modes import Mode
    from frazil.array.creation.zarr_arguments import CreateArguments, GroupArguments
    from frazil.array.group import Group

    Made = TypeVar("Made", Array, Group)
else:
    Made = TypeVar("Made")


def create_array(
    location: Location | None = None,
    *,
    store: Location | None = None,
    storage_options: Mapping[str, object] | None = None,
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
    overwrite: bool = False,
    path: str | None = "",
    name: str | None = None,
    zarr_format: int | str | None = None,
    explicit_groups: bool = False,
    entry_point: Mapping[str, object] | None = None,
    document: Mapping[str, object] | None = None,
    inner_order: str = "written",
    shard_writes: str = "rewrite",
    progress: Callable[[int], object] | None = None,
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
    **zarr: Unpack[CreateArguments],
) -> Array:
    """A new array.

    location    (or store) a folder, a URL, a Store, or an object that frazil.stores.adapt accepts
    storage_options  of a bucket, with the names of fsspec (anon, key, secret, token, endpoint_url, client_kwargs) or of obstore
    path        (or name) of nodes in the location, "" or None for the location itself; missing groups above are created
    shape       elements along each dimension; shape and dtype may come from `data`, which is then written
    data        an array; an array-like of dask, h5py, zarr, xarray, ..., which is read and written shard by shard; or, with `shape`, an iterator of consecutive
                blocks along the first dimension. If it cannot be read or written, the new array is removed
    dtype       anything that NumPy accepts as a dtype, or the name of a registered data type ("r24"); little-endian unless codecs set another byte order
    chunks      elements along each dimension of a chunk, the unit of reading; "auto" or True: about 1 MiB; one number: along all dimensions; False: one chunk
    shards      elements of a shard, the unit of writing, a multiple of chunks; None: each chunk is an object of its own; "auto": about 64 MiB
    codecs      "auto" or None (docs/design/004-defaults.md); or a list of codecs, of names or objects of a document, or of codecs of zarr-python or numcodecs;
                [] stores raw bytes
    fill_value  of elements that were never written: by default zero, NaT for times; None: the same, and in Zarr v2 null, which leaves it to the reader
    attributes  JSON values by name;  dimension_names: for each dimension a name or None
    chunk_key_encoding  "default" (keys such as c/0/0), "v2" (0.0), or an object of a document;  index_location: of the index in a shard, "end" or "start"
    storage_transformers  of the registry, array side first
    overwrite   whether an existing node is removed: after the first box of `data` was read; in a session, after the new array is complete
    zarr_format 3 (Zarr v3.1), 2 (Zarr v2), "draft" (that of December 2022), "draft-2021" (its older dialect); None: that of the hierarchy at the location, or 3
    explicit_groups  whether groups above get documents also in the draft, where they are optional
    entry_point  members for the zarr.json of a new hierarchy of the draft: `extensions`, `metadata_encoding`
    document    members for the array's document in the draft: `extensions`, `data_type`, `chunk_grid`, `chunk_memory_layout`
    inner_order "written", "C", "F" or "morton": the order of inner chunks in shards that this handle writes
    shard_writes "rewrite": a shard is replaced whole; "append": writes new inner chunks behind the old ones; "in_place": over the old ones (docs/sharding.md)
    progress    called with the bytes of elements of `data` that were written since the last call
    registry    the known extensions; runtime: limits of this handle
    zarr        filters, serializer, compressors instead of codecs, and other names of zarr-python (docs/design/068-names-of-zarr-python.md)
    Raises AlreadyExistsError, MetadataError (names the argument), UnknownExtensionError, StoreError."""
    options = checked_options(inner_order, shard_writes)
    zarr_format = zarr_arguments.format_of(zarr_format, zarr) if zarr else zarr_format
    node_location, replaces = _for_creation(
        node_locations.node_location_of(
            given_location(location, store, storage_options), registry, runtime, read_only=False
        ).with_options(options),
        path if name is None else name,
        zarr_format,
        overwrite,
        entry_point,
        is_array=True,
    )
    return array_creation.new_array(
        node_location,
        overwrite,
        data,
        progress,
        replaces=replaces,
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


def open_array(
    location: Location | None = None,
    mode: Mode | None = None,
    *,
    store: Location | None = None,
    storage_options: Mapping[str, object] | None = None,
    path: str | None = "",
    zarr_format: int | str | None = None,
    storage_transformers: Sequence[RuntimeTransformer] = (),
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | None = None,
    inner_order: str = "written",
    shard_writes: str = "rewrite",
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
    **arguments: object,
) -> Array:
    """The array at a location, in any dialect. One request if it is of the final Zarr v3, and its path is "" or zarr_format is given.

    zarr_format  the dialect, where it is known; for a new array, as in create_array
    storage_transformers  functions from a store to a store, array side first, that the document does not name, such as a cache
    cache  a folder that keeps encoded parts of objects that were read. They are not fetched again until the object changes. For object stores and web servers;
           it has no effect where reading takes no request. Many processes may share it
    cache_limit  size limit of the folder in bytes, by default 10 GiB; the least recently used parts are removed first
    inner_order, shard_writes  as in create_array
    mode  r: read; r+: read and write; a: as r+, but a missing array is created with the arguments of create_array; w: created, in place of an existing node;
          w-: created, nothing may exist there. Default: a with a shape, data or attributes, otherwise r; data and attributes are then only for a new array, and
          an error if one exists
    dtype  of a new array: by default float64
    arguments  of create_array; zarr_version is the older name of zarr_format
    Raises NotFoundError, AlreadyExistsError, MetadataError, InvalidInputError for a group."""
    lost = modes.lost_argument(mode, arguments)
    mode = modes.checked_mode(mode, arguments)
    zarr_format = zarr_arguments.format_of(zarr_format, arguments) if arguments else zarr_format
    node_location = node_locations.node_location_of(
        given_location(location, store, storage_options),
        registry,
        runtime,
        mode == "r",
        storage_transformers,
        cache,
        cache_limit,
    )
    node_location = node_location.with_options(checked_options(inner_order, shard_writes))
    if arguments:
        array_metadata.check_arguments(arguments, modes.OF_A_NEW_ARRAY)
        modes.refuse_arguments(arguments, mode)

    def create() -> Array:
        if arguments.get("dtype") is None and arguments.get("data") is None:
            arguments["dtype"] = "float64"
        return create_array(
            node_location._replace(transformers=()),  # type: ignore[arg-type] # which node_location_of knows
            path=path,
            zarr_format=zarr_format,
            registry=registry,
            runtime=runtime,
            overwrite=mode == "w",
            inner_order=inner_order,
            shard_writes=shard_writes,
            **arguments,  # type: ignore[arg-type]
        )

    found = _existing_or_created(node_location, path, mode, ArrayMetadata, zarr_format, create, lost)
    return arrays.Array(*found) if isinstance(found, tuple) else found.through(storage_transformers)


def create_group(
    location: Location | None = None,
    *,
    store: Location | None = None,
    storage_options: Mapping[str, object] | None = None,
    attributes: Mapping[str, object] | None = None,
    overwrite: bool = False,
    path: str | None = "",
    zarr_format: int | str | None = None,
    explicit_groups: bool = False,
    entry_point: Mapping[str, object] | None = None,
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
) -> Group:
    """A new group, with missing groups above it; zarr_format, explicit_groups and entry_point as in create_array.

    Raises AlreadyExistsError, MetadataError, StoreError."""
    location = given_location(location, store, storage_options)
    group, replaces = planned_group(location, attributes, overwrite, path, zarr_format, entry_point, registry, runtime)
    node_changes.create_nodes(
        group._location,
        {group.path: group.metadata},
        overwrite=overwrite,
        explicit_groups=explicit_groups,
        replaces=replaces,
    )
    # in a session, the planned one is of the node that was replaced
    return groups.Group(group._location, group.metadata)


def planned_group(
    location: Location,
    attributes: Mapping[str, object] | None = None,
    overwrite: bool = False,
    path: str | None = "",
    zarr_format: int | str | None = None,
    entry_point: Mapping[str, object] | None = None,
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
) -> tuple[Group, str | None]:
    """The group that create_group makes, before anything is stored; and the prefix that is removed for it, as from for_creation."""
    node_location, replaces = _for_creation(
        node_locations.node_location_of(location, registry, runtime, read_only=False),
        path,
        zarr_format,
        overwrite,
        entry_point,
        is_array=False,
    )
    return groups.Group(
        node_location, GroupMetadata(attributes=attributes, zarr_format=node_location.layout.zarr_format)
    ), replaces


def open_group(
    location: Location | None = None,
    mode: Mode | None = None,
    *,
    store: Location | None = None,
    storage_options: Mapping[str, object] | None = None,
    path: str | None = "",
    attributes: Mapping[str, object] | None = None,
    zarr_format: int | str | None = None,
    entry_point: Mapping[str, object] | None = None,
    storage_transformers: Sequence[RuntimeTransformer] = (),
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | None = None,
    inner_order: str = "written",
    shard_writes: str = "rewrite",
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
    **zarr: Unpack[GroupArguments],
) -> Group:
    """The group at a location, in any dialect; modes, cache, cache_limit and, for the arrays below, storage_transformers as in open_array. For mode w-, a group
    without a document (draft of 2022) counts as existing.

    inner_order, shard_writes  for arrays that are opened or created through the group, as in create_array; arrays that do not allow shard_writes rewrite shards
    zarr  other names of zarr-python (docs/design/068-names-of-zarr-python.md)
    Raises NotFoundError, AlreadyExistsError, InvalidInputError for an array."""
    lost = modes.lost_argument(mode, {"attributes": attributes})
    mode = modes.checked_mode(mode, {"attributes": attributes, **zarr})
    if modes.requires_copies(zarr.get("use_consolidated")):
        mode = modes.to_read_copies(mode)
    zarr_format = zarr_arguments.group_format(zarr_format, zarr) if zarr else zarr_format
    node_location = node_locations.node_location_of(
        given_location(location, store, storage_options),
        registry,
        runtime,
        mode == "r",
        storage_transformers,
        cache,
        cache_limit,
    )
    node_location = _with_options(node_location, inner_order, shard_writes)

    def create() -> Group:
        if mode == "w-":
            _refuse_implied(node_location, path)
        return create_group(
            node_location._replace(transformers=()),  # type: ignore[arg-type] # which node_location_of knows
            attributes=attributes,
            overwrite=mode == "w",
            path=path,
            zarr_format=zarr_format,
            entry_point=entry_point,
            registry=registry,
            runtime=runtime,
        )

    found = _existing_or_created(node_location, path, mode, GroupMetadata, zarr_format, create, lost)
    group = groups.Group(*found) if isinstance(found, tuple) else found.through(storage_transformers)
    return _with_copies(group, zarr.get("use_consolidated"))


def _with_copies(group: Group, use_consolidated: object) -> Group:
    """The group, with consolidated metadata as the argument of zarr-python says. Raises NotFoundError."""
    if use_consolidated is False:
        return group.from_documents()
    if modes.requires_copies(use_consolidated):
        copies = consolidated.required_copies(group._location, group.metadata)
        group = groups.Group(group._location._replace(copies=copies), group.metadata) if group.read_only else group
    return group


def open_node(
    location: Location | None = None,
    mode: Mode | None = None,
    *,
    store: Location | None = None,
    storage_options: Mapping[str, object] | None = None,
    path: str | None = "",
    zarr_format: int | str | None = None,
    storage_transformers: Sequence[RuntimeTransformer] = (),
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | None = None,
    inner_order: str = "written",
    shard_writes: str = "rewrite",
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
    **arguments: object,
) -> Array | Group:
    """The array or group at a location, as from open_array and open_group. Modes a, w and w- may create one: an array if a shape or data is given, with the
    arguments of create_array; otherwise a group. Raises NotFoundError, AlreadyExistsError, MetadataError, InvalidInputError."""
    location = given_location(location, store, storage_options)
    requested_mode, mode = mode, modes.checked_mode(mode, arguments)
    zarr_format = zarr_arguments.format_of(zarr_format, arguments) if arguments else zarr_format

    def opened(function: Callable[..., Made]) -> Made:
        return function(
            location,
            requested_mode,
            path=path,
            zarr_format=zarr_format,
            storage_transformers=storage_transformers,
            cache=cache,
            cache_limit=cache_limit,
            inner_order=inner_order,
            shard_writes=shard_writes,
            registry=registry,
            runtime=runtime,
            **arguments,
        )

    if arguments:
        array_metadata.check_arguments(arguments, (*modes.OF_A_NEW_ARRAY, "use_consolidated"))
        modes.refuse_arguments(arguments, mode)
    if mode not in ("r", "r+") and ("shape" in arguments or "data" in arguments):
        return opened(open_array)
    if mode in ("w", "w-"):
        modes.check_group_arguments(arguments)
        return opened(open_group)
    node_location = node_locations.node_location_of(
        location, registry, runtime, mode == "r", storage_transformers, cache, cache_limit
    )
    node_location, node = _locate(_with_options(node_location, inner_order, shard_writes), path, zarr_format)
    if mode == "a" and not isinstance(node, ArrayMetadata):
        modes.check_group_arguments(arguments)  # an array that exists does not need those of a new one
        if node is None:
            return opened(open_group)
    if node is None:
        raise node_locations.nothing_at(node_location)
    modes.refuse_lost(modes.lost_argument(requested_mode, arguments), node_location.path)
    if isinstance(node, ArrayMetadata):
        node_location = node_location._replace(shard_options=node_location.shard_options._replace(inherited=False))
    found = groups.as_node(node_location, node)
    return _with_copies(found, arguments.get("use_consolidated")) if isinstance(found, groups.Group) else found


def node_or_location(location: Location, path: str, zarr_format: int | None = None) -> Array | Group | NodeLocation:
    """The node at a location, for reading; where there is none its location, of which `nothing_at` makes the error. Raises MetadataError."""
    found, node = _locate(node_locations.node_location_of(location, DEFAULT_REGISTRY, DEFAULT, True), path, zarr_format)
    return found if node is None else groups.as_node(found, node)


def _with_options(node_location: NodeLocation, inner_order: str, shard_writes: str) -> NodeLocation:
    """The location of a group whose arrays have these options. Raises InvalidInputError for options that the location does not allow."""
    options = checked_options(inner_order, shard_writes)._replace(inherited=True)
    check_location(
        options,
        node_location.store,
        bool(node_location.transformers) or node_location.nodes is not None,
        node_location.path,
    )
    return node_location.with_options(options)


def _existing_node(
    node_location: NodeLocation, path: str | None, mode: str, kind: type[M], zarr_format: int | str | None
) -> tuple[NodeLocation, M] | None:
    """The node to open; None where a new one must be created."""
    if mode in ("w", "w-"):
        return None
    node: Metadata | None
    node_location, node = _locate(node_location, path, zarr_format, to_create=mode == "a")
    if node is None:
        if mode == "a":
            return None
        raise node_locations.nothing_at(node_location)
    if isinstance(node, kind):
        return node_location, node
    is_group = isinstance(node, GroupMetadata)
    raise NodeKindError(
        "a group is there, not an array" if is_group else "an array is there, not a group",
        path=node_location.path or "/",
        hint=f"frazil.open_{'group' if is_group else 'array'} opens it",
    )


def _locate(
    node_location: NodeLocation, path: str | None, zarr_format: int | str | None, *, to_create: bool = False
) -> tuple[NodeLocation, Metadata | None]:
    """As locate; a repository without a node at its root counts as having a group there."""
    node_location, node = root.locate(node_location, "" if path is None else path, zarr_format, to_create=to_create)
    if node is None and node_location.nodes is not None and not node_location.path:
        node = GroupMetadata(implicit=True)
    return node_location, node


def _refuse_implied(node_location: NodeLocation, path: str | None) -> None:
    """Raises AlreadyExistsError for a group without a document (draft of 2022): mode w- may not give it one, as create_group does. create_group finds all other
    existing nodes."""
    try:
        existing, node = root.locate(node_location, "" if path is None else path, to_create=True)
    except InvalidInputError:
        return
    if isinstance(node, GroupMetadata) and node.implicit:
        raise AlreadyExistsError(
            f"a group without a document already exists in {existing.store}",
            path=existing.path or "/",
            hint='open it with mode="r+", or "a"; frazil.create_group gives it a document',
        )


def _existing_or_created(
    node_location: NodeLocation,
    path: str | None,
    mode: str,
    kind: type[M],
    zarr_format: int | str | None,
    create: Callable[[], Made],
    lost: str | None = None,
) -> tuple[NodeLocation, M] | Made:
    """The node to open, or the one that `create` makes. In mode a, a node that another process creates at the same time is opened.
    lost: an argument that an existing node would not get; then an existing node is an error."""
    found = _existing_node(node_location, path, mode, kind, zarr_format)
    if found is not None:
        modes.refuse_lost(lost, found[0].path)
        return found
    try:
        return create()
    except AlreadyExistsError:
        found = _existing_node(node_location, path, mode, kind, zarr_format) if mode == "a" else None
        if found is None or lost is not None:
            raise
        return found


def _for_creation(
    node_location: NodeLocation,
    path: str | None,
    zarr_format: int | str | None,
    overwrite: bool,
    entry_point: Mapping[str, object] | None,
    is_array: bool,
) -> tuple[NodeLocation, str | None]:
    """The location of a new node, and the prefix of a hierarchy that it replaces, as from for_creation; with the guard of all destinations."""
    path = "" if path is None else path
    target, replaces = root.for_creation(node_location, path, zarr_format, overwrite=overwrite, entry_point=entry_point)
    prefixes = {f"{target.path}/" if target.path else "", *([] if replaces is None else [replaces])}
    for prefix in prefixes:
        # an array itself checks whether a node exists there
        destinations.check_destination(
            None, node_location.store, prefix, overwrite=overwrite, may_be_repository=is_array and not overwrite
        )
    return target, replaces
