"""Nodes of another dialect in a store, which a new node would hide: final Zarr v3 is looked for before Zarr v2. root.py finds the dialect of a location."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from frazil.errors import InvalidInputError
from frazil.metadata.layout import Layout
from frazil.metadata.paths import join
from frazil.metadata.v3.documents import DOCUMENT_NAME
from frazil.stores.store import Store

V2_NODES: Final = (".zgroup", ".zarray")  # each makes a node of Zarr v2


def refuse_hidden(store: Store, layout: Layout, paths: Iterable[str]) -> None:
    """Refuses new nodes and groups at paths of existing nodes of Zarr v2, or of final Zarr v3 where the layout is that of Zarr v2. One batch of requests.
    Raises InvalidInputError."""
    if layout.zarr_format in (2, 3):
        names = V2_NODES if layout.zarr_format == 3 else (DOCUMENT_NAME,)
        refuse_documents(store, "", [*paths], names)


def refuse_documents(store: Store, prefix: str, paths: Sequence[str], names: Sequence[str]) -> None:
    """Raises InvalidInputError where one of the documents is at one of the paths, which are relative to the prefix. One batch of requests."""
    keys = {join(join(prefix, path), name): path for path in paths for name in names}
    if not keys:
        return
    found, new = ("Zarr v2", 2) if names == V2_NODES else ("final Zarr v3", 3)
    for (key, path), size in zip(keys.items(), store.sizes(list(keys)).tolist(), strict=True):
        if size >= 0:
            raise InvalidInputError(
                f"a node of {found} is at /{path}, and a node of another dialect cannot replace it or be below it",
                key=key,
                path=path or "/",
                hint=f"zarr_format={new} at its location makes one of {found}; or choose another path",
            )
