"""Manifests, for all formats: chunk references in columns, and the look-up of references in them.

A snapshot lists the manifests of an array, in their order. The bytes of their files are in alpha/manifests.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from frazil import _kernel
from frazil.base.arrays import Columns, Octets, offsets_of
from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.formats.ids import ID_BYTES

FileBytes = bytes | bytearray | memoryview | _kernel.Segment

Number = TypeVar("Number", bound=np.integer)

INLINE: Final = 0
NATIVE: Final = 1
VIRTUAL: Final = 2

NO_FLAGS: Final[Mapping[bytes, bytes]] = {}

_NO_TEXT: Final[Octets] = np.frombuffer(b"", np.uint8)
_NO_STARTS: Final[Columns] = np.frombuffer(bytes(8), np.int64)
_FIRST_ROW: Final[Columns] = np.frombuffer(bytes(8), np.int64)
_NODE_LIMIT: Final = 2**32
_INT64_MAX: Final = 2**63 - 1


class FileCheck(Record):
    """The state of a file with virtual chunks. Unknown values are -1 or "", and are not compared.

    size       bytes
    modified   when it was last written, in nanoseconds since 1970
    tag        another mark of the version from its store, such as an ETag
    mapped_to  the address that the user mapped its prefix to. At another address only sizes are compared: a copy has other times and tags"""

    size: int = -1
    modified: int = -1
    tag: str = ""
    mapped_to: str = ""


class Manifest(Record):
    """n chunk references. After decoding, rows are sorted by node, then coordinates, without duplicates; `order_manifest` ensures this."""

    flags: Mapping[bytes, bytes]  # further data of the file, by name, both as its format encodes them; kept
    nodes: NDArray[np.uint32]  # [n], ids of nodes
    starts: Columns  # [n + 1]: the coordinates of row i are coordinates[starts[i]:starts[i + 1]]
    coordinates: Columns  # in the array's chunk grid; in damaged files their number may differ from the array's rank
    kinds: Octets  # [n], INLINE, NATIVE or VIRTUAL
    ids: Octets  # [n, 12], of the chunk object; zeros unless NATIVE
    offsets: Columns  # [n], bytes: the begin of the chunk in `inline`, in its object, or in the file at its location
    lengths: Columns  # [n], bytes; offset + length is below 2**63
    inline: Octets  # the bytes of inline chunks
    locations: NDArray[np.int32]  # [n], number of the location; -1 unless VIRTUAL
    location_text: Octets  # the locations in UTF-8, one after the other
    location_starts: Columns  # [m + 1]: location i is location_text[location_starts[i]:location_starts[i + 1]]
    checks: Mapping[str, FileCheck] = {}  # by location, if the state of the file is known

    @property
    def size(self) -> int:
        """The number of references."""
        return self.nodes.size

    def location(self, number: int) -> str:
        """One of the locations, of which there are location_starts.size - 1."""
        start, end = self.location_starts[number], self.location_starts[number + 1]
        return str(self.location_text[start:end].tobytes(), "utf-8")

    def all_locations(self) -> list[str]:
        """Every location, in order of number."""
        text = self.location_text.tobytes()
        return [str(text[start:end], "utf-8") for start, end in pairwise(self.location_starts.tolist())]


def nbytes_of(manifest: Manifest) -> int:
    """Bytes of memory of the columns."""
    return sum([column.nbytes for column in columns_of(manifest)])


def compact(manifest: Manifest) -> Manifest:
    """A copy for a cache: read-only, and without the memory and the Python objects that columns of the kernel, and parts of larger ones, keep alive."""
    columns = [column.copy() for column in columns_of(manifest)]
    for column in columns:
        column.setflags(write=False)
    return Manifest._make((manifest.flags, *columns, manifest.checks))


def columns_of(manifest: Manifest) -> Sequence[NDArray[np.generic]]:
    """All but flags and checks, in the order of the fields."""
    return manifest[1:-1]


# --- manifests from manifests -----------------------------------------------------------------------------------------------------------


def node_manifest(
    node: int,
    coordinates: Columns,
    kinds: Octets,
    ids: Octets,
    offsets: Columns,
    lengths: Columns,
    *,
    inline: FileBytes = b"",
    locations: NDArray[np.int32] | None = None,
    names: Sequence[str] = (),
    checks: Mapping[str, FileCheck] | None = None,
) -> Manifest:
    """The references of one node, with coordinates int64[n, d]; `locations` are numbers into `names`. The order stays as given."""
    if not 0 <= node < _NODE_LIMIT:
        raise InvalidInputError(f"{node} is not an id of a node")
    count, rank = coordinates.shape
    text, text_starts = location_columns(names) if names else (_NO_TEXT, _NO_STARTS)
    return Manifest(
        NO_FLAGS,
        filled(count, node, np.uint32),
        np.array([0, rank]) if count == 1 else np.arange(count + 1) * rank,
        np.ascontiguousarray(coordinates).reshape(-1),
        kinds,
        ids,
        offsets,
        lengths,
        np.frombuffer(memoryview(inline), np.uint8),
        filled(count, -1, np.int32) if locations is None else locations,
        text,
        text_starts,
        {} if checks is None else checks,
    )


def filled(count: int, value: int, dtype: type[Number]) -> NDArray[Number]:
    """A column of one value: np.full takes five times as long."""
    column = np.empty(count, dtype)
    column.fill(value)
    return column


def location_columns(names: Sequence[str]) -> tuple[Octets, Columns]:
    """(location_text, location_starts) of locations."""
    texts = [name.encode() for name in names]
    starts = offsets_of(np.array([len(text) for text in texts], np.int64))
    return np.frombuffer(b"".join(texts), np.uint8), starts


def select_rows(manifest: Manifest, rows: Columns) -> Manifest:
    """These rows (int64[k]), in this order. Inline bytes and locations stay, even unused ones."""
    ranks = manifest.starts[1:] - manifest.starts[:-1]
    rank = ranks.item(0) if ranks.size else 0
    if (ranks == rank).all():  # as nearly always
        starts: Columns = np.arange(len(rows) + 1) * rank
        coordinates = manifest.coordinates.reshape(ranks.size, rank)[rows].reshape(-1)
    else:
        starts = offsets_of(ranks[rows])
        positions = np.repeat(manifest.starts[rows] - starts[:-1], ranks[rows]) + np.arange(starts[-1])
        coordinates = manifest.coordinates[positions]
    return manifest._replace(
        starts=starts, coordinates=coordinates, **{name: getattr(manifest, name)[rows] for name in ROW_COLUMNS}
    )


def order_manifest(manifest: Manifest) -> Manifest:
    """The manifest sorted by node and coordinates, with only the last of rows with one key; itself if it is so already."""
    if manifest.nodes.size < 2:
        return manifest
    columns = _kernel.join_references([columns_of(manifest)])
    return manifest if columns is None else from_kernel(manifest.flags, columns, manifest.checks)


def join_manifests(
    manifests: Sequence[Manifest], *, flags: Mapping[bytes, bytes] = NO_FLAGS, checks: Mapping[str, FileCheck]
) -> Manifest:
    """All references of several manifests, at least one, sorted. If two have the same key, that of the later manifest is used. Flags and checks are
    arguments."""
    columns = _kernel.join_references([columns_of(manifest) for manifest in manifests])
    return manifests[0]._replace(flags=flags, checks=checks) if columns is None else from_kernel(flags, columns, checks)


def from_kernel(
    flags: Mapping[bytes, bytes], columns: Sequence[_kernel.Segment], checks: Mapping[str, FileCheck]
) -> Manifest:
    """A manifest of columns from the kernel, which cannot be written to."""
    arrays = [
        np.frombuffer(memoryview(column), dtype) for column, dtype in zip(columns, COLUMN_TYPES.values(), strict=True)
    ]
    arrays[_IDS] = arrays[_IDS].reshape(-1, ID_BYTES)
    return Manifest._make((flags, *arrays, checks))


COLUMN_TYPES: Final[Mapping[str, np.dtype[np.generic]]] = {
    "nodes": np.dtype(np.uint32),
    "starts": np.dtype(np.int64),
    "coordinates": np.dtype(np.int64),
    "kinds": np.dtype(np.uint8),
    "ids": np.dtype(np.uint8),
    "offsets": np.dtype(np.int64),
    "lengths": np.dtype(np.int64),
    "inline": np.dtype(np.uint8),
    "locations": np.dtype(np.int32),
    "location_text": np.dtype(np.uint8),
    "location_starts": np.dtype(np.int64),
}
_IDS: Final = list(COLUMN_TYPES).index("ids")
ROW_COLUMNS: Final = ("nodes", "kinds", "ids", "offsets", "lengths", "locations")


# --- rows of one array -----------------------------------------------------------------------------------------------------------------------------


def rows_of_node(manifest: Manifest, node: int) -> slice:
    """The rows of a node in an ordered manifest."""
    if not 0 <= node < _NODE_LIMIT:
        return slice(0, 0)
    count = manifest.nodes.size
    if count and manifest.nodes.item(0) == node == manifest.nodes.item(count - 1):  # most have one node
        return slice(0, count)
    number = np.uint32(node)
    return slice(int(manifest.nodes.searchsorted(number, "left")), int(manifest.nodes.searchsorted(number, "right")))


def rows_of_array(manifest: Manifest, node: int, rank: int) -> tuple[Columns, Columns]:
    """The rows of an ordered manifest that belong to a node and have as many coordinates as the array has dimensions (int64[m]), and their coordinates
    (int64[m, d]). Other rows do not belong to the array: the alpha library put some there by mistake."""
    found = rows_of_node(manifest, node)
    if found.stop - found.start == manifest.size == 1 and manifest.coordinates.size == rank:  # as most overlays
        return _FIRST_ROW, manifest.coordinates.reshape(1, rank)
    starts = manifest.starts[found.start : found.stop + 1]
    right = starts[1:] - starts[:-1] == rank
    if np.count_nonzero(right) == right.size:  # all() takes eight times as long
        coordinates = manifest.coordinates[starts[0] : starts[-1]].reshape(right.size, rank)
        return np.arange(found.start, found.stop), coordinates
    rows = np.flatnonzero(right)
    return rows + found.start, manifest.coordinates[starts[rows, None] + np.arange(rank)]
