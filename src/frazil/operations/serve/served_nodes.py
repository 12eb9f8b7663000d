"""Checks whether a key that looks like a chunk's belongs to an array whose document is in the store. served_keys.py has the names of the documents and parses
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from frazil.errors import FrazilError
from frazil.operations.serve.served_keys import (
    ArrayKeys,
    DraftNode,
    array_keys,
    chunk_documents,
    draft_nodes,
    json_members,
)
from frazil.stores.store import Store

_MOST: Final = 4096  # the most remembered arrays

Arrays = Mapping[str, ArrayKeys]  # by the prefix of their chunks, "" or ending in "/"


class ServedNodes:
    """The arrays of the store that is served at present. Safe to use from many threads.

    If look-ups are requests, an array that was found once is remembered, so that a client that reads it costs one look-up and not one for each chunk. For
    another store, such as that of the next snapshot of a branch, arrays are looked up again. Missing arrays are looked up each time."""

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: tuple[Store | None, dict[str, ArrayKeys]] = (None, {})

    def serves(self, store: Store, key: str) -> bool:
        """Whether a key of a served form is that of a document, or of a chunk of an existing array. Raises InvalidInputError, StoreError."""
        if not chunk_documents(key):
            return True
        of, arrays = self._arrays
        if of is not store or len(arrays) >= _MOST:
            arrays = {}
            self._arrays = (store, arrays)
        if has_chunk(arrays, key):
            return True
        found = arrays_above(store, key)
        if not store.capabilities.direct:
            arrays.update(found)
        return has_chunk(found, key)


def has_chunk(arrays: Arrays, key: str) -> bool:
    """Whether a key is that of a chunk of one of the arrays."""
    ends = [0, *(end + 1 for end, sign in enumerate(key) if sign == "/")]
    return any((keys := arrays.get(key[:end])) is not None and keys.has(key[end:]) for end in ends)


def arrays_above(store: Store, key: str) -> Arrays:
    """The arrays that could have a chunk with this key, judged by prefixes. Raises InvalidInputError, StoreError."""
    nodes = draft_nodes(key)
    of_draft = _read(store, [(document, node.prefix) for node in nodes for document in node.documents(".json")], key)
    if not of_draft:
        of_draft = _read(store, [(document, node.prefix) for node in nodes for document in _renamed(store, node)], key)
    final = [(document, document[: document.rfind("/") + 1]) for document in chunk_documents(key)]
    return {**of_draft, **_read(store, final, key)}


def _read(store: Store, documents: Sequence[tuple[str, str]], key: str) -> dict[str, ArrayKeys]:
    """The arrays of these documents, each with the prefix of its chunks. If the store cannot have one of them, the error names the requested key."""
    if not documents:
        return {}
    try:
        values = store.get_many([document for document, _ in documents])
    except FrazilError as error:
        error.key = key
        raise
    found: dict[str, ArrayKeys] = {}
    for (document, prefix), value in zip(documents, values, strict=True):
        keys = None if value is None else array_keys(document, value)
        if keys is not None:
            found.setdefault(prefix, keys)
    return found


def _renamed(store: Store, node: DraftNode) -> list[str]:
    """The documents of a node in a hierarchy of the draft whose zarr.json gives them another suffix than ".json"."""
    entry = store.get(node.entry)
    suffix = None if entry is None else json_members(entry).get("metadata_key_suffix")
    return node.documents(suffix) if isinstance(suffix, str) and suffix != ".json" else []
