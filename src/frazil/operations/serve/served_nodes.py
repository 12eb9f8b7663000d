"""Whether a key that looks like a chunk's lies below an array: whose document a store has. The names of these documents are in served_keys.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from frazil.errors import FrazilError
from frazil.operations.serve.served_keys import DraftNode, chunk_documents, draft_nodes
from frazil.stores.store import Store

_MOST: Final = 4096  # documents that are remembered


class ServedNodes:
    """The arrays of the store that is served at a moment. Safe to use from many threads.

    Where a look-up is a request, a document that was found once is taken to stay, so that a client that reads an array costs one look-up and not one for each
    chunk. Another store, as that of the next snapshot of a branch, is looked up anew. What was not found is looked up each time."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[Store | None, set[str]] = (None, set())

    def serves(self, store: Store, key: str) -> bool:
        """Whether a key of a served form is a document, or is below an array as a chunk would be. Raises InvalidInputError, StoreError."""
        documents = chunk_documents(key)
        if not documents:
            return True
        nodes = draft_nodes(key)
        of_draft = [document for node in nodes for document in node.documents(".json")]
        of, known = self._known
        if of is not store or len(known) >= _MOST:
            known = set()
            self._known = (store, known)
        if any(document in known for document in (*documents, *of_draft)):
            return True
        found = _find(store, documents, key) or _find(store, of_draft, key)
        if found is None:
            found = _find(store, [document for node in nodes for document in _renamed(store, node)], key)
        if found is not None and not store.capabilities.direct:
            known.add(found)
        return found is not None


def _find(store: Store, documents: Sequence[str], key: str) -> str | None:
    """The first of the documents that is there. Where the store cannot have one of them, the error names the key that was asked for."""
    if not documents:
        return None
    try:
        values = store.get_many(documents)
    except FrazilError as error:
        error.key = key
        raise
    found = zip(documents, values, strict=True)
    return next((document for document, value in found if value is not None and _is_array(document, value)), None)


def _is_array(document: str, value: bytes) -> bool:
    """Of the documents that are asked for only zarr.json may be a group's."""
    return not document.endswith("zarr.json") or _member(value, "node_type") == "array"


def _member(document: bytes, name: str) -> object:
    """A member of a JSON object; None where it has none, or is none."""
    try:
        return json.loads(document).get(name)
    except (ValueError, AttributeError, RecursionError):
        return None


def _renamed(store: Store, node: DraftNode) -> list[str]:
    """The documents of a node in a hierarchy of the draft whose zarr.json gives them another suffix than ".json"."""
    entry = store.get(node.entry)
    suffix = None if entry is None else _member(entry, "metadata_key_suffix")
    return node.documents(suffix) if isinstance(suffix, str) and suffix != ".json" else []
