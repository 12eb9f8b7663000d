"""Checks the arguments with which repositories are created and opened, and makes the files of a repository, in the format of its location, and its options from
them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from frazil.array.arguments import check_flag, check_surroundings
from frazil.codecs.registry import Registry
from frazil.errors import FormatError, InvalidInputError
from frazil.repository.alpha import branches
from frazil.repository.alpha.file_cache import UNCHANGING, Files
from frazil.repository.alpha.format import AlphaFormat
from frazil.repository.session.transaction import Options
from frazil.repository.virtual.prefixes import Prefixes
from frazil.repository.virtual.virtual_fetch import open_containers
from frazil.runtime import Runtime, in_context
from frazil.stores.caches import disk_cache
from frazil.stores.local.local_store import LocalStore
from frazil.stores.locations import Location, resolve

if TYPE_CHECKING:
    from frazil.stores.store import Store

_COMPATIBLE: Final = "alpha-library"
_CRC: Final = "crc32c"


def check_compatible(compatible: object, attributes_file_bytes: object, chunk_digests: object) -> None:
    """Refuses arguments with which a repository cannot be created."""
    if chunk_digests is not None and not (isinstance(chunk_digests, str) and chunk_digests == _CRC):
        raise InvalidInputError(f"chunk_digests is {chunk_digests!r}; it must be None or {_CRC!r}")
    if compatible is not None and chunk_digests is not None:
        raise InvalidInputError(
            "chunk_digests: commits of the library of the alpha have no digests",
            hint="leave it out for a repository that the alpha library can use",
        )
    if compatible is not None and not (isinstance(compatible, str) and compatible == _COMPATIBLE):
        raise InvalidInputError(f"compatible is {compatible!r}; it must be None or {_COMPATIBLE!r}")
    if compatible is not None and attributes_file_bytes is not None:
        raise no_attribute_files()


def no_attribute_files() -> InvalidInputError:
    return InvalidInputError(
        "attributes_file_bytes: the library of the alpha does not read attributes in files of their own",
        hint="leave it out for a repository that the alpha library can use",
    )


def is_repository(location: Location) -> bool:
    """Whether a repository, which has a branch `main`, is at a location."""
    store, prefix = resolve(location)
    return branches.exists(Files(store, prefix))


def later_format(store: Store, prefix: str) -> FormatError | None:
    """The error for a repository of a later format of Icechunk at a prefix; None if there is none."""
    return branches.later_format(Files(store, prefix))


def open_files(
    location: Location,
    durable: bool,
    runtime: Runtime,
    cache: str | os.PathLike[str] | None,
    cache_limit: int | None,
) -> AlphaFormat:
    runtime = in_context(runtime)
    store, prefix = resolve(
        location,
        requests_in_flight=runtime.requests_in_flight,
        bytes_in_flight=runtime.bytes_in_flight,
        threads=runtime.threads,
    )
    if isinstance(store, LocalStore) and durable != store.sync:
        store = LocalStore(store.path, sync=durable, read_only=store.read_only, threads=store.threads)
    if cache is not None or cache_limit is not None:
        store = disk_cache.cached(store, cache, cache_limit, [prefix + kind for kind in UNCHANGING])
    return AlphaFormat(store, prefix, cache_bytes=runtime.cache_bytes)


def session_options(
    durable: bool, packing: str, prefixes: Prefixes, attribute_limit: int | None, registry: Registry, runtime: Runtime
) -> Options:
    check_surroundings(registry, runtime := in_context(runtime))
    check_flag(durable, "durable")
    if not isinstance(packing, str) or packing not in ("auto", "off"):
        raise InvalidInputError(f"chunk_packing is {packing!r}; it must be 'auto' or 'off'")
    whole = isinstance(attribute_limit, int) and not isinstance(attribute_limit, bool)
    if attribute_limit is not None and (not whole or attribute_limit < 0):
        raise InvalidInputError(
            f"attributes_file_bytes is {attribute_limit!r}; it must be a whole number, 0 or more, or None"
        )
    return Options(
        packing == "auto", attribute_limit, False, runtime, open_containers(prefixes, runtime.requests_in_flight)
    )
