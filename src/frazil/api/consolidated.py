"""The functions that write consolidated metadata, and open a group by it. array/hierarchy/consolidated.py reads and compares the copies of documents."""

from __future__ import annotations

import os
from collections.abc import Mapping

from frazil.api.nodes import open_group
from frazil.array.arguments import check_flag
from frazil.array.creation.modes import Mode, checked_mode, to_read_copies
from frazil.array.group import Group
from frazil.array.hierarchy import consolidated
from frazil.array.hierarchy.node_changes import change_node
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry
from frazil.errors import InvalidInputError, NodeKindError
from frazil.metadata.json_text import dump_json
from frazil.metadata.model import GroupMetadata
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.locations import Location, given_location


def consolidate_metadata(
    location: Location | Group | None = None,
    path: str | None = "",
    zarr_format: int | str | None = None,
    *,
    store: Location | None = None,
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
) -> Group:
    """Writes copies of the documents of all nodes below a group into that group, so that one request reads them all, also where a location cannot list. Returns
    the group.

    A later change of a node makes its copy stale: Frazil then drops the copies, other programs may not. No other process may change nodes during the call.
    Raises NotFoundError, MetadataError for a document that is not JSON, InvalidInputError for the draft of 2022, which has no place for copies, and in a
    repository, where one read of a snapshot finds all nodes, ReadOnlyError, StoreError where the store cannot list."""
    group = _opened(_source(location, store), "r+", path or "", zarr_format, registry, runtime)
    node_location = group._location
    node_location.require_writable()
    if node_location.nodes is not None:
        raise InvalidInputError(
            "a repository has no consolidated metadata",
            path=node_location.path or "/",
            hint="it needs none: one read of a snapshot finds all its nodes; to have it, copy the nodes to a plain store with frazil.copy",
        )
    copies = consolidated.emit_copies(node_location, consolidated.documents_below(node_location) or {})
    beside = node_location.layout.copies_key(node_location.path)
    if beside is not None:
        node_location.store.set(beside, dump_json(copies, 4))
        return Group(node_location, group.metadata)
    return Group(
        node_location, change_node(node_location, GroupMetadata, lambda stored: stored.with_consolidated(copies))
    )


def open_consolidated(
    location: Location | Group | None = None,
    *,
    store: Location | None = None,
    storage_options: Mapping[str, object] | None = None,
    mode: Mode = "r",
    path: str | None = "",
    check: bool | None = None,
    zarr_format: int | str | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | None = None,
    registry: Registry = DEFAULT_REGISTRY,
    runtime: Runtime = DEFAULT,
) -> Group:
    """The group at a location, for reading. All nodes below it come from the copies in its consolidated metadata, without a request for each. open_group does
    the same where the location cannot list, and otherwise reads the documents.

    mode   "r+" or "a": for reading and writing; the copies must exist, but the documents are read, as writing makes copies stale
    check  whether the copies are compared with the documents first, so that stale ones are an error; new nodes are not found if the location cannot list. None:
           only where that takes no requests, as on a local disk
    The other arguments are those of open_group. Raises NotFoundError for a missing group or consolidated metadata, MetadataError where that is stale or breaks
    the rules, InvalidInputError for an array, StoreError."""
    mode = to_read_copies(checked_mode(mode, {}))
    group = _opened(
        _source(location, store, storage_options), mode, path or "", zarr_format, registry, runtime, cache, cache_limit
    )
    node_location = group._location
    if check is not None:
        check_flag(check, "check")
    copies = consolidated.required_copies(node_location, group.metadata, check)
    return group if mode == "r+" else Group(node_location._replace(copies=copies, read_only=True), group.metadata)


def _source(
    location: Location | Group | None, store: Location | None, storage_options: Mapping[str, object] | None = None
) -> Location | Group:
    return location if isinstance(location, Group) else given_location(location, store, storage_options)


def _opened(
    location: Location | Group,
    mode: str,
    path: str,
    zarr_format: int | str | None,
    registry: Registry,
    runtime: Runtime,
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | None = None,
) -> Group:
    if not isinstance(location, Group):
        return open_group(
            location,
            mode,  # type: ignore[arg-type] # one of its modes
            path=path,
            zarr_format=zarr_format,
            cache=cache,
            cache_limit=cache_limit,
            registry=registry,
            runtime=runtime,
        )
    node = location[path]
    if not isinstance(node, Group):
        raise NodeKindError("an array is there, not a group", path=node.path, hint="name the group that it is in")
    return node
