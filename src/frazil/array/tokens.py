"""Tokens that identify the content of an array. dask uses them in the names of tasks that read an array (`__dask_tokenize__`).

Equal tokens mean equal content. Chunks in plain stores have no version; docs/design/019-dask.md says what follows from this."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from frazil.metadata.model import ArrayMetadata

if TYPE_CHECKING:
    from frazil.array.hierarchy.nodes import NodeLocation


class OwnToken:
    """A random token of one writable handle. Each write replaces it."""

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text: str | None = None

    def drop(self) -> None:
        self._text = None

    def get(self) -> str:
        if self._text is None:
            self._text = os.urandom(16).hex()
        return self._text


def token_of(location: NodeLocation, shape: tuple[int, ...], own: OwnToken) -> tuple[object, ...]:
    """Of an array in a repository: where it is, and the snapshot. In a plain store: where it is, its document with the version of that, and for a handle that can
    write the handle's own token. One request in a plain store; raises StoreError."""
    if location.nodes is not None:
        begun, changes = location.nodes.version
        told = ("frazil.Array", location.path, shape, begun)
        return (*told, changes, own.get()) if changes else told
    document = location.store.get_versioned(location.layout.document_key(location.path, ArrayMetadata))
    told = ("frazil.Array", location.path, shape, (location.store, location.transformers, document))
    return told if location.read_only else (*told, own.get())
