"""Digests of values, which prove that two stores have the same bytes under two keys without both being read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from frazil.base.record import Record
from frazil.errors import ConflictError
from frazil.operations.copy.plan import digest_of
from frazil.stores.store import Store
from frazil.stores.transfer.value_copies import pieces_of_object
from frazil.stores.values import NO_SPANS, Version


class StoredObject(Record):
    """An object that exists, and its version."""

    store: Store
    key: str
    version: Version | None


def have_same_digest(source: StoredObject, found: StoredObject, limit: int) -> bool:
    """Whether digests prove that two objects of the same size have the same bytes: both stores report one, or one store does and the other's is computed here,
    if it needs no requests. limit: bytes that may be in memory."""
    digest, other = digest_of(source.version), digest_of(found.version)
    if digest is not None and other is not None:
        return digest == other
    if other is not None and source.store.capabilities.direct:
        return _md5(source.store, source.key, limit) == other
    if digest is not None and found.store.capabilities.direct:
        return _md5(found.store, found.key, limit) == digest
    return False


def md5_of(pieces: Iterable[bytes]) -> bytes:
    """The digest of the pieces of a value, in hexadecimal digits."""
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest().encode()


def _md5(store: Store, key: str, limit: int) -> bytes | None:
    """The digest of a value; None if it is replaced meanwhile."""
    try:
        return md5_of(pieces_of_object(store, key, store.fetch([key], NO_SPANS), limit))
    except ConflictError:
        return None
