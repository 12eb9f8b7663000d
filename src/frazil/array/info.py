"""The descriptions of arrays (shape, codecs, sizes) and groups as values that print as tables. io/chunk_count.py counts inner chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from frazil.array.access import Access
from frazil.array.interface.html_table import table as html_table
from frazil.base.record import Record
from frazil.base.reports import counted, extents_text, human
from frazil.codecs.codec import Codec
from frazil.errors import one_line
from frazil.metadata.json_text import Json, copied, known_members, with_lists
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.stores.store import Store


class Described(Protocol):
    """The members of an array that info needs."""

    @property
    def path(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def nchunks(self) -> int: ...
    @property
    def chunks(self) -> tuple[int, ...]: ...
    @property
    def shards(self) -> tuple[int, ...] | None: ...
    @property
    def codecs(self) -> Sequence[Codec]: ...


FORMATS: Final[dict[int | str, str]] = {
    2: "Zarr v2",
    3: "Zarr v3",
    "draft": "Zarr v3, draft of December 2022",
    "draft-2021": "Zarr v3, draft of 2021",
}


class ArrayInfo(Record):
    """nbytes: of all elements; stored_nbytes: of all stored objects, without the document, and -1, as stored_objects, where nothing was listed; nchunks:
    innermost chunks; chunks_initialized: those of them that are stored, None where they were not counted."""

    path: str
    zarr_format: int | str
    shape: tuple[int, ...]
    data_type: str
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: tuple[str, ...]
    fill_value: Json
    dimension_names: tuple[str | None, ...] | None
    attributes: dict[str, Json]
    nbytes: int
    nchunks: int
    stored_objects: int
    stored_nbytes: int
    chunks_initialized: int | None = None

    def to_json(self) -> dict[str, Json]:
        """The same, as JSON."""
        left_out = {"chunks_initialized"} if self.chunks_initialized is None else set()
        return {name: with_lists(value) for name, value in self._asdict().items() if name not in left_out}

    def __repr__(self) -> str:
        return table(self.rows())

    def _repr_html_(self) -> str:
        return html_table("frazil.Array info", self.rows())

    def rows(self) -> list[tuple[str, str]]:
        """Names and values as text, in the order in which they are printed."""
        stored = f"{human(self.stored_nbytes)} in {counted(self.stored_objects, 'shard' if self.shards else 'chunk')}"
        if self.stored_nbytes:
            larger = self.stored_nbytes > self.nbytes > 0
            ratio = self.stored_nbytes / self.nbytes if larger else self.nbytes / self.stored_nbytes
            stored += f" ({ratio:.1f} times {'larger' if larger else 'smaller'})"
        lines = [
            ("path", "/" + self.path),
            ("format", FORMATS.get(self.zarr_format, str(self.zarr_format))),
            ("shape", extents_text(self.shape)),
            ("data type", self.data_type),
            ("chunks", extents_text(self.chunks)),
            ("shards", extents_text(self.shards) if self.shards else "none"),
            ("codecs", ", ".join(self.codecs)),
            ("fill value", "null" if self.fill_value is None else str(self.fill_value)),
            ("size", f"{human(self.nbytes)} in {counted(self.nchunks, 'chunk')}"),
        ]
        if self.stored_objects >= 0:
            lines.append(("stored", stored))
        if self.chunks_initialized is not None:
            lines.append(("initialized", f"{self.chunks_initialized:,} of {counted(self.nchunks, 'chunk')}"))
        if self.dimension_names is not None:
            lines.insert(3, ("dimensions", ", ".join(name or "-" for name in self.dimension_names)))
        return lines + [(f"attribute {name}", str(value)) for name, value in self.attributes.items()]


class GroupInfo(Record):
    """arrays and groups: numbers of nodes below it, at all levels; None where nothing was listed."""

    path: str
    zarr_format: int | str
    read_only: bool
    store: str
    attributes: dict[str, Json]
    arrays: int | None = None
    groups: int | None = None

    def to_json(self) -> dict[str, Json]:
        """The same, as JSON."""
        return known_members(self._asdict())

    def __repr__(self) -> str:
        return table(self.rows())

    def _repr_html_(self) -> str:
        return html_table("frazil.Group info", self.rows())

    def rows(self) -> list[tuple[str, str]]:
        """Names and values as text, in the order in which they are printed."""
        lines = [
            ("path", "/" + self.path),
            ("format", FORMATS.get(self.zarr_format, str(self.zarr_format))),
            ("read only", "yes" if self.read_only else "no"),
            ("store", self.store),
        ]
        if self.arrays is not None and self.groups is not None:
            lines.append(("members", f"{counted(self.arrays, 'array')}, {counted(self.groups, 'group')}"))
        return lines + [(f"attribute {name}", str(value)) for name, value in self.attributes.items()]


def group_info(path: str, metadata: GroupMetadata, store: Store, *, read_only: bool) -> GroupInfo:
    """The facts known without a request: nothing about the nodes below it."""
    attributes = {name: copied(value) for name, value in metadata.attributes.items()}
    return GroupInfo(path, metadata.zarr_format, read_only, repr(store), attributes)


def array_info(access: Access, metadata: ArrayMetadata, array: Described) -> ArrayInfo:
    """Lists the array's keys."""
    stored, sizes = access.storage.stored_sizes(metadata.grid_shape)
    nbytes = int(np.maximum(sizes, 0).sum())
    return described(metadata, array)._replace(stored_objects=len(stored), stored_nbytes=nbytes)


def described(metadata: ArrayMetadata, array: Described) -> ArrayInfo:
    """The facts known without a request: nothing about stored chunks."""
    return ArrayInfo(
        array.path,
        metadata.zarr_format,
        metadata.shape,
        metadata.data_type.label,
        array.chunks,
        array.shards,
        tuple(map(repr, array.codecs)),
        None if metadata.fill_is_undefined else metadata.data_type.emit_fill(metadata.fill_value),
        metadata.dimension_names,
        {name: copied(value) for name, value in metadata.attributes.items()},
        array.nbytes,
        array.nchunks,
        -1,
        -1,
    )


def table(lines: Sequence[tuple[str, str]]) -> str:
    """Names and values in two columns, one line each. Characters that would break a line or the terminal are escaped as in Python."""
    shown = [(one_line(name), one_line(value)) for name, value in lines]
    width = max(len(name) for name, _ in shown)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown)
