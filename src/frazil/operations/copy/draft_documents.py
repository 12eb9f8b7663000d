"""Completes documents of arrays of the 2022 draft in a copy: members with defaults are written, since the draft requires them in every document (draft of 2022,
Array metadata, fill_value).

Everything else in a copy keeps its bytes (run.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import FrazilError
from frazil.metadata.draft import entry_point
from frazil.metadata.draft import layout as draft_layout
from frazil.metadata.v3.documents import DOCUMENT_NAME, is_draft_entry, read_document
from frazil.stores.store import Store

_BATCH: Final = 1024  # documents read in one call
_DOCUMENTS: Final = "meta/"  # below the root of a hierarchy of the draft


def complete_documents(store: Store, root: str, names: Sequence[str]) -> None:
    """Rewrites documents of arrays of the draft that lack members, or have null as fill value.

    root   "" or ending in "/"
    names  of documents of any dialect below it, with the zarr.json of their hierarchies
    Unreadable documents are not changed, nor are hierarchies with extensions or an encoding of documents that only their user has."""
    found = {name for name in names if name.endswith(DOCUMENT_NAME)}
    layouts: dict[str, draft_layout.DraftLayout | None] = {}
    drafted = [(name, layout) for name in names if (layout := _layout_of(store, root, name, found, layouts))]
    for low in range(0, len(drafted), _BATCH):
        part = drafted[low : low + _BATCH]
        values = store.get_many([root + name for name, _ in part])
        for (name, layout), value in zip(part, values, strict=True):
            completed = None if value is None else _completed(layout, root + name, value)
            if completed is not None:
                store.set(root + name, completed)


def _layout_of(
    store: Store, root: str, name: str, found: set[str], layouts: dict[str, draft_layout.DraftLayout | None]
) -> draft_layout.DraftLayout | None:
    """The layout of the hierarchy of the draft in which a name is the document of an array; None for any other name."""
    for prefix in _prefixes(name):
        if prefix + DOCUMENT_NAME in found:
            if prefix not in layouts:
                layouts[prefix] = _layout_at(store, root + prefix)
            layout = layouts[prefix]
            if layout is not None:
                return layout if name.endswith(f"array{layout.entry_point.suffix}") else None
    return None


def _prefixes(name: str) -> Iterator[str]:
    """The possible roots of the hierarchy with a document of this name, the outermost first."""
    at = name.find(_DOCUMENTS)
    while at >= 0:
        if at == 0 or name[at - 1] == "/":
            yield name[:at]
        at = name.find(_DOCUMENTS, at + 1)


def _layout_at(store: Store, prefix: str) -> draft_layout.DraftLayout | None:
    key = prefix + DOCUMENT_NAME
    value = store.get(key)
    try:
        document = None if value is None else read_document(value, key)
        if not isinstance(document, Mapping) or not is_draft_entry(document):
            return None
        entry = entry_point.parse_entry(document, DEFAULT_REGISTRY)
    except FrazilError:
        return None
    return None if entry.extensions else draft_layout.DraftLayout(prefix, entry)


def _completed(layout: draft_layout.DraftLayout, key: str, value: bytes) -> bytes | None:
    """The document with all members; None if it has them, or is unreadable."""
    decode = layout.entry_point.encoding.decode
    try:
        emitted = layout.emit(layout.parse(key, value, DEFAULT_REGISTRY.without_warnings()))
        return None if decode(emitted) == decode(value) else emitted
    except FrazilError:
        return None
