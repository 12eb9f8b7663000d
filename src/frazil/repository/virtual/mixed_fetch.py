"""Fetches virtual chunks of a session together with other chunks.

Where their files may be is in virtual_fetch.py. They are set in repository/session/set_references.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from frazil.errors import FrazilError
from frazil.formats.manifests import FileCheck
from frazil.repository.virtual.file_checks import plain_location
from frazil.repository.virtual.virtual_fetch import VirtualContainers
from frazil.stores.array_storage.chunk_storage import NOWHERE, Located, ObjectList
from frazil.stores.array_storage.shared_objects import fetch_located, object_spans
from frazil.stores.store import Store
from frazil.stores.transfer.composed_values import joined_sources
from frazil.stores.values import FOUND, STALE, Columns, Fetched, Versions

VIRTUAL_KIND: Final = 3  # of Located.kind: in the file at the location names[object]


class ObjectNames(ObjectList):
    """The names of the objects that contain chunks: first keys of chunk files, then locations. checks: the required state of each file; chunks: one chunk of
    each file"""

    __slots__ = ("checks", "chunks", "native")

    def __init__(
        self, keys: Sequence[str], locations: Sequence[str], checks: Sequence[FileCheck | None], chunks: Columns
    ) -> None:
        """chunks: int64[k, d], the coordinates of one chunk in each location"""
        super().__init__([*keys, *locations])
        self.native, self.checks, self.chunks = len(keys), checks, chunks

    def take(self, rows: Columns) -> ObjectNames:
        """A selection of these names, with their checks and chunks; int64[k], ascending."""
        keys, files = rows[rows < self.native].tolist(), (rows[rows >= self.native] - self.native).tolist()
        return ObjectNames(
            [self[i] for i in keys],
            [self[self.native + i] for i in files],
            [self.checks[i] for i in files],
            self.chunks[files],
        )


def fetch_mixed(
    store: Store,
    containers: VirtualContainers,
    located: Located,
    spans: Columns,
    *,
    expect: Versions | None,
    single_read: bool,
) -> Fetched:
    """ChunkStorage.fetch if some chunks are virtual. Also raises the errors of VirtualContainers.fetch."""
    names = located.names
    assert isinstance(names, ObjectNames)
    virtual = located.kind == VIRTUAL_KIND
    others = located._replace(
        names=names[: names.native], kind=np.where(virtual, NOWHERE, located.kind).astype(np.uint8)
    )
    fetched = fetch_located(store, others, spans, expect=None, single_read=single_read)
    of_files = np.flatnonzero(virtual[spans[:, 0]])
    moved = object_spans(located, spans[of_files])
    moved[:, 0] -= names.native
    try:
        from_files = containers.fetch(names[names.native :], moved, names.checks)
    except FrazilError as error:
        _add_chunk(error, names)
        raise
    sources, rows = joined_sources(fetched.sources, *from_files)
    every = fetched.rows.copy()
    every[of_files] = rows
    status, sizes = np.array(fetched.status, np.uint8), fetched.sizes.copy()
    status[virtual], sizes[virtual] = FOUND, located.length[virtual]
    versions = fetched.versions if located.versions is None else located.versions
    if expect is not None:
        stale = [
            i
            for i, expected in enumerate(expect)
            if expected is not None and status[i] == FOUND and versions[i] != expected
        ]
        status[stale] = STALE
    return Fetched(sources, status.tolist(), versions, sizes, every)


def _add_chunk(error: FrazilError, names: ObjectNames) -> None:
    """Adds to an error the chunk that could not be read; if the file has several, one of them."""
    for i, location in enumerate(names[names.native :]):
        if error.chunk is None and plain_location(location) == error.key:
            error.chunk = tuple(names.chunks[i].tolist())
