"""Resolves a location to a node: its store, with the cache and the storage transformers that the user gives; or a point in a repository where the location
names one.

nodes.py opens and creates the node."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from frazil.api import ref_locations, repository, repository_arguments
from frazil.array.arguments import check_surroundings, check_transformers
from frazil.array.hierarchy import repository_locations
from frazil.array.hierarchy.nodes import NodeLocation, missing
from frazil.codecs.registry import Registry, RuntimeTransformer
from frazil.errors import FrazilError, InvalidInputError, StoreError
from frazil.metadata.paths import ancestors
from frazil.runtime import Runtime, in_context
from frazil.stores.array_storage import node_store
from frazil.stores.caches import disk_cache
from frazil.stores.caches.byte_cache import ByteCache
from frazil.stores.keys.names import COPY_JOURNAL
from frazil.stores.local.local_store import LocalStore
from frazil.stores.locations import Location, resolve
from frazil.stores.objects import object_store

CREATES: Final = 'mode="a", which is the default in zarr-python, creates a node'
_ONE_SLASH: Final = re.compile(r"(?:^|/)(s3|gs|az|https?|file|memory):/")
_OTHER_FILES: Final = (".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".he5")


def node_location_of(
    location: Location | NodeLocation,
    registry: Registry,
    runtime: Runtime,
    read_only: bool,
    transformers: Sequence[RuntimeTransformer] = (),
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | None = None,
) -> NodeLocation:
    """The NodeLocation that a location names; `locate` and `for_creation` return the location of a node below it. A NodeLocation is returned unchanged:
    open_array and open_group pass one when they create a node."""
    if isinstance(location, NodeLocation):
        return location
    check_surroundings(registry, runtime := in_context(runtime))
    added = check_transformers(transformers, "storage_transformers")
    named = None
    if isinstance(location, (str, os.PathLike)) and "@" in str(location):
        named = ref_locations.split_ref(location)
    if named is not None:
        return _in_repository(named, read_only, registry, runtime, cache, cache_limit).through(added)
    store, prefix = resolve(
        location,
        requests_in_flight=runtime.requests_in_flight,
        bytes_in_flight=runtime.bytes_in_flight,
        threads=runtime.threads,
    )
    if cache is not None or cache_limit is not None:
        store = disk_cache.cached(store, cache, cache_limit)
    memory = ByteCache(runtime.cache_bytes)
    found = NodeLocation(store, prefix.removesuffix("/"), registry, runtime, read_only, memory=memory)
    # its nodes do more than its keys: an array is replaced in one step
    if not isinstance(store, LocalStore) and isinstance(store, node_store.NodeStore):
        found = found._replace(nodes=store.nodes, read_only=read_only or store.read_only)
    return found.through(added)


def _in_repository(
    named: ref_locations.RefLocation,
    read_only: bool,
    registry: Registry,
    runtime: Runtime,
    cache: str | os.PathLike[str] | None,
    cache_limit: int | None,
) -> NodeLocation:
    """The location in a repository that sea.repo@REF/PATH names, for reading."""
    text = f"{named.repository}@{named.ref}"
    if not named.ref:
        raise InvalidInputError(
            "there is no name after the @", path=text, hint=f"a branch, a tag or a snapshot: {text}main"
        )
    if not read_only:
        raise InvalidInputError(
            "a branch, tag or snapshot of a repository can only be read by its name",
            path=text,
            hint="write in a session of a branch: frazil.Repository.open(...).transaction(branch, message=...)",
        )
    repo = repository.Repository.open(
        named.repository, cache=cache, cache_limit=cache_limit, registry=registry, runtime=runtime
    )
    return repo.readonly_session(snapshot=repo.lookup(named.ref)).node_location(named.path)


def _nothing_hint(folder: str) -> str:
    """The hint for a local path without a node."""
    if (found := _ONE_SLASH.search(folder)) is not None:
        return f"a URL has two slashes: {found[1]}://"
    if os.path.isdir(folder):
        return "check the location: this folder holds no node"
    if os.path.isdir(os.path.join(os.path.dirname(folder), "meta")):
        return "of a hierarchy of the 2022 draft, give the folder of its zarr.json as location, and the node as path"
    return "check the location: there is no such folder"


def nothing_at(node_location: NodeLocation) -> FrazilError:
    """The error for a location without a node. It names a repository at this location, as nodes of repositories are not documents."""
    error = missing(node_location)
    store = node_location.store
    if isinstance(store, LocalStore):
        folder = os.path.join(store.path, node_location.path).rstrip("/")
    else:
        base = store.url if isinstance(store, object_store.ObjectStore) else ""
        folder = f"{base}/{node_location.path}".strip("/")
    if folder.lower().endswith(_OTHER_FILES):
        error.hint = f"`frazil import {folder} sea.repo` brings files of NetCDF and HDF5 into a repository"
        return error
    journal = f"{node_location.path}/{COPY_JOURNAL}".lstrip("/")
    with suppress(StoreError):
        if store.capabilities.listable and store.exists(journal):
            error.hint = "what copy, rechunk or import began to write here is not complete: run it again"
            return error
    hint = _nothing_hint(folder) if isinstance(store, LocalStore) else error.hint
    error.hint = f"{hint}; {CREATES}" if store.capabilities.writable else hint
    for path in dict.fromkeys((*ancestors(node_location.path), node_location.path)):
        prefix = f"{path}/" if path else ""
        try:
            found = repository_locations.is_repository(store, prefix)
            # a listing shows later formats, too
            if found or not store.capabilities.listable:
                later = repository_arguments.later_format(store, prefix)
                if later is not None:
                    return later
            if not found:
                continue
        except (InvalidInputError, StoreError):  # not listable, or not the path of a repository
            break
        is_named = isinstance(store, LocalStore | object_store.ObjectStore)
        repo = f"{store}/{path}".rstrip("/") if is_named else "sea.repo"
        inside = node_location.path.removeprefix(path).strip("/")
        error.hint = (
            f'there is a repository{f" in {path!r}" if path else " here"}: frazil.open("{repo}@main{inside and f"/{inside}"}") reads its branch main; '
            "frazil.Repository.open(location).readonly_session().root is its root group, writable_session() changes it"
        )
        break
    else:
        if (
            isinstance(store, LocalStore)
            and (outer := repository_locations.outer_repository(store, node_location.path))
            and not outer.later
        ):
            error.hint = f'there is a repository above it: frazil.open("{outer.location}@main/{outer.inside}") reads its branch main'
    return error
