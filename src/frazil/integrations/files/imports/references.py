"""References to chunks in a file, at its place or in the copy that a repository adopts: import modes "virtual" and "adopt".

Copies of values are in array_copies.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.base.reports import counted
from frazil.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.api.session import Session
    from frazil.formats.manifests import FileCheck
    from frazil.integrations.files.scanned import ScannedArray
    from frazil.integrations.files.sources.source import Source


def check_references(arrays: Sequence[ScannedArray], file: str) -> None:
    """Refuses arrays with chunks that no codec here decodes. Raises InvalidInputError."""
    refused = [array for array in arrays if array.library is not None]
    if refused:
        reasons = "; ".join([f"/{array.path}: {array.library.reason}" for array in refused[:10] if array.library])
        raise InvalidInputError(
            f"{counted(len(refused), 'variable')} can only be copied: {reasons}",
            key=file,
            hint=f"copy the values, or leave these out with skip={[array.path for array in refused]!r}",
        )


def set_references(
    session: Session, array: ScannedArray, path: str, source: Source, state: FileCheck, adopted: str = ""
) -> None:
    """Sets the references of one array that exists at a path of the session. Chunks that are not a part of a file are stored.

    state    of the file when it was scanned;  adopted: the id of the copy of the file in the repository; "": chunks stay in the file"""
    chunks = array.chunks
    if len(chunks.offsets):
        if array.urls:
            session.set_virtual_chunks(path, chunks.coordinates, array.urls, chunks.offsets, chunks.lengths)
        elif adopted:
            session.set_adopted_chunks(path, chunks.coordinates, adopted, chunks.offsets, chunks.lengths)
        else:
            session.set_virtual_chunks(
                path,
                chunks.coordinates,
                source.location,
                chunks.offsets,
                chunks.lengths,
                check={source.location: state},  # the state that was scanned: no request is needed
            )
    for coordinates, value in array.inline_chunks:
        session.store.set("/".join(part for part in (path, "c", *map(str, coordinates)) if part), value)
