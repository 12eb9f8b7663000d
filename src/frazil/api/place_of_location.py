"""The place of a location: its store, with the cache and the storage transformers that are asked for; a point in a repository where the location names one.

What is at the place is opened and created by places.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil.array.arguments import check_surroundings, check_transformers
from frazil.array.hierarchy.nodes import Place
from frazil.codecs.registry import Registry, RuntimeTransformer
from frazil.errors import InvalidInputError
from frazil.late import LateModule
from frazil.runtime import Runtime
from frazil.stores.caches.byte_cache import ByteCache
from frazil.stores.locations import Location, resolve

if TYPE_CHECKING:
    from frazil.api import references, repository
    from frazil.stores.caches import disk_cache
else:
    references = LateModule("frazil.api.references")
    repository = LateModule("frazil.api.repository")
    disk_cache = LateModule("frazil.stores.caches.disk_cache")


def place_of(
    location: Location | Place,
    registry: Registry,
    runtime: Runtime,
    read_only: bool,
    transformers: Sequence[RuntimeTransformer] = (),
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | None = None,
) -> Place:
    """The place of a location; `locate` and `for_creation` make of it the place of a node below. A Place is returned as it is: open_array and open_group pass
    one when they create a node."""
    if isinstance(location, Place):
        return location
    check_surroundings(registry, runtime)
    added = check_transformers(transformers, "storage_transformers")
    named = None
    if isinstance(location, str | os.PathLike) and "@" in str(location):
        named = references.split_reference(location)
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
    return Place(store, prefix.removesuffix("/"), registry, runtime, read_only, transformers=added, memory=memory)


def _in_repository(
    named: references.Named,
    read_only: bool,
    registry: Registry,
    runtime: Runtime,
    cache: str | os.PathLike[str] | None,
    cache_limit: int | None,
) -> Place:
    """The place in a repository that sea.repo@REF/PATH names, to be read."""
    text = f"{named.repository}@{named.reference}"
    if not named.reference:
        raise InvalidInputError(
            "nothing is named after the @", path=text, hint=f"a branch, a tag or a snapshot: {text}main"
        )
    if not read_only:
        raise InvalidInputError(
            "a point in a repository can only be read by its name",
            path=text,
            hint="write in a session of a branch: frazil.Repository.open(...).transaction(branch, message=...)",
        )
    repo = repository.Repository.open(
        named.repository, cache=cache, cache_limit=cache_limit, registry=registry, runtime=runtime
    )
    return repo.readonly_session(snapshot=repo.lookup(named.reference)).place(named.path)
