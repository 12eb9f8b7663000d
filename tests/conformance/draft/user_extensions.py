"""A complete sample of each extension point of the draft of 2022, with public names only, as a user would write it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from frazil import Registry
from frazil.codecs import DEFAULT_REGISTRY, ArrayToArray, ChunkSpec
from frazil.errors import MetadataError
from frazil.extensions import ArrayMetadata, DataType, Extension, Json, NamedExtension, RegularGrid
from frazil.stores import Changed, Columns, Fetched, Pieces, Store, Version, WrappedStore
from frazil.stores.values import Page

Values = NDArray[np.generic]

PACKED = "https://example.org/zarr/packed/1.0"
FOLDER = "https://example.org/zarr/folder/1.0"
AXES = "https://example.org/zarr/axes/1.0"
FIXED = "https://example.org/zarr/fixed-point/1.0"
TILES = "https://example.org/zarr/tiles/1.0"
MORTON = "https://example.org/zarr/morton/1.0"
MASK = "https://example.org/zarr/mask/1.0"


# --- metadata encoding: documents in a binary form, a tag and a length before each value ---------------------------------------------


class Packed:
    """{"extension": PACKED, "type": "packed", "metadata_key_suffix": ".bin"}"""

    def __init__(self, entry: Extension) -> None:
        if entry.configuration["type"] != "packed":
            raise MetadataError(f"there is no packed encoding of type {entry.configuration['type']}")

    def encode(self, document: dict[str, Json]) -> bytes:
        return b"PACK" + pack(document)

    def decode(self, value: bytes) -> Json:
        if value[:4] != b"PACK":
            raise MetadataError("a packed document begins with PACK")
        return unpack(value, 4)[0]


def pack(value: Json) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"n", False: b"f", True: b"t"}[value]
    if isinstance(value, dict):
        return (
            b"o" + struct.pack("<I", len(value)) + b"".join(pack(name) + pack(child) for name, child in value.items())
        )
    if isinstance(value, list):
        return b"a" + struct.pack("<I", len(value)) + b"".join(map(pack, value))
    if isinstance(value, float):
        return b"d" + struct.pack("<d", value)
    text = str(value).encode()
    return (b"s" if isinstance(value, str) else b"i") + struct.pack("<I", len(text)) + text


def unpack(data: bytes, at: int) -> tuple[Json, int]:
    tag, at = data[at : at + 1], at + 1
    if tag in b"nft":
        return {b"n": None, b"f": False, b"t": True}[tag], at
    if tag == b"d":
        return struct.unpack_from("<d", data, at)[0], at + 8
    (count,), at = struct.unpack_from("<I", data, at), at + 4
    if tag in b"si":
        text = data[at : at + count].decode()
        return text if tag == b"s" else int(text), at + count
    items: list[Json] = []
    for _ in range(2 * count if tag == b"o" else count):
        item, at = unpack(data, at)
        items.append(item)
    return items if tag == b"a" else {str(name): value for name, value in zip(items[::2], items[1::2], strict=True)}, at


# --- a generic extension of the hierarchy: documents and chunks in a folder of their own ----------------------------------------------


class InFolder(WrappedStore):
    """A store over the keys of another store that begin with a folder. It has the capabilities of the other store."""

    __slots__ = ("folder",)

    def __init__(self, inner: Store, folder: str) -> None:
        super().__init__(inner)
        self.folder = folder

    def _inside(self, names: Sequence[str]) -> list[str]:
        return [self.folder + name for name in names]

    def _outside(self, names: Sequence[str]) -> list[str]:
        return [name.removeprefix(self.folder) for name in names]

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        return self.inner.fetch(
            self._inside(names), spans, expect=expect, continue_from=continue_from, single_read=single_read
        )

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self.inner.put_many(self._inside(names), pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        return self.inner.erase_many(self._inside(names), expect)

    def list_page(self, prefix: str = "", after: str = "", **named: object) -> Page:  # type: ignore[override]
        page = self.inner.list_page(self.folder + prefix, after and self.folder + after, **named)  # type: ignore[arg-type]
        following = None if page.next is None else page.next.removeprefix(self.folder)
        return page._replace(keys=self._outside(page.keys), next=following)


def in_folder(entry: Extension, store: Store) -> InFolder:
    """{"extension": FOLDER, "must_understand": true, "configuration": {"name": "..."}}"""
    return InFolder(store, f"{entry.configuration['name']}/")


# --- a generic extension of arrays: names of dimensions --------------------------------------------------------------------------------


def named_axes(entry: Extension, metadata: ArrayMetadata) -> ArrayMetadata:
    """{"extension": AXES, "must_understand": false, "configuration": {"names": ["y", "x"]}}"""
    return metadata.with_members(dimension_names=entry.configuration["names"])


# --- a data type: numbers with a fixed number of decimals -----------------------------------------------------------------------------


class FixedPoint(DataType):
    """Decimal numbers with `places` digits after the point, as int32; {"extension": FIXED, "type": "fixed32", "places": 2, "fallback": "int32"}. In documents a
    fill value is a string, "12.50"."""

    __slots__ = ("places",)
    places: int

    def __init__(self, places: int) -> None:
        super().__init__(f"{FIXED} fixed32({places})", np.dtype("i4"), ((0, 4, 1),))
        self.places = places

    def extension(self) -> Extension:
        return Extension(FIXED, {"type": "fixed32", "places": self.places, "fallback": "int32"})

    def parse_bytes(self, value: Json, path: str) -> bytes:
        if not isinstance(value, str):
            raise MetadataError("a number with decimals is a string in documents", path=path)
        return self.user_bytes(float(value), path)

    def emit_bytes(self, data: bytes) -> Json:
        return f"{int(np.frombuffer(data, 'i4')[0]) / 10**self.places:.{self.places}f}"

    def user_bytes(self, value: object, path: str) -> bytes:
        assert isinstance(value, int | float)
        return np.int32(round(value * 10**self.places)).tobytes()


class FixedPoints:
    """All of them, for a registry."""

    names = (FIXED,)

    def matches(self, name: str) -> bool:
        return name == FIXED

    def parse(self, extension: Extension, path: str) -> DataType:
        places = extension.configuration.get("places")
        if extension.configuration.get("type") != "fixed32" or not isinstance(places, int):
            raise MetadataError("fixed32 with a number of places is the only type", path=path)
        return FixedPoint(places)

    def from_numpy(self, dtype: np.dtype[np.generic]) -> DataType | None:
        return None  # int32 stays int32: this type must be requested explicitly


# --- a chunk grid: tiles, with keys of their own ---------------------------------------------------------------------------------------


class TileKeys:
    """ "tile-1-0" for the chunk at (1, 0)."""

    def extension(self) -> Extension:
        return Extension(TILES)

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str:
        return prefix + "-".join(["tile", *map(str, coordinates)])

    def encode_all(self, coordinates: NDArray[np.int64], prefix: str = "") -> list[str]:
        return [self.encode_one(tuple(row), prefix) for row in coordinates.tolist()]

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        parts = key.split("-")
        found = tuple(int(part) for part in parts[1:] if part.isascii() and part.isdigit())
        return found if self.encode_one(found) == key and len(found) == ndim else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TileKeys)

    def __hash__(self) -> int:
        return hash(TileKeys)


class Tiles(RegularGrid):
    """{"extension": TILES, "type": "tiles", "tile": [4, 4]}"""

    __slots__ = ()
    chunk_key_encoding = TileKeys()


def tiles(extension: Extension, path: str) -> RegularGrid:
    return Tiles(extension.configuration["tile"], path=f"{path}.tile")


# --- a memory layout: the elements of square chunks in Morton order ---------------------------------------------------------------------


class Morton(ArrayToArray):
    """Elements in the order of the interleaved bits of their coordinates, along one dimension."""

    __slots__ = ()
    name: ClassVar[str] = "example.morton"

    def configuration(self) -> dict[str, object] | None:
        return None

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        rows, columns = (*spec.shape, 0, 0)[:2]
        if len(spec.shape) != 2 or rows != columns or rows & (rows - 1):
            raise MetadataError(f"chunks {spec.shape} are no squares of a power of two", path=path)
        return spec._replace(shape=(rows * columns,))

    def encode(self, array: Values, spec: ChunkSpec) -> Values:
        return array.reshape(-1)[morton_order(spec.shape[0])]

    def decode(self, array: Values, spec: ChunkSpec) -> Values:
        decoded = np.empty_like(array)
        decoded[morton_order(spec.shape[0])] = array
        return decoded.reshape(spec.shape)


def morton_order(edge: int) -> NDArray[np.int64]:
    """Places in C order, in Morton order."""
    rows, columns = np.divmod(np.arange(edge * edge), edge)
    code = np.zeros(edge * edge, np.int64)
    for bit in range(edge.bit_length()):
        code |= (columns >> bit & 1) << (2 * bit) | (rows >> bit & 1) << (2 * bit + 1)
    return np.argsort(code)


def morton(entry: Extension, chunk: tuple[int, ...]) -> list[Extension]:
    """{"extension": MORTON, "type": "z"}"""
    return [Extension("example.morton")]


# --- a storage transformer: every byte of a chunk masked -------------------------------------------------------------------------------


class Masked:
    """A store over a store with every byte of its values XORed: as many of the ten operations as possible with those of the other store."""

    def __init__(self, inner: Store, mask: int) -> None:
        self.inner, self.mask = inner, mask

    def get(self, key: str) -> bytes | None:
        value = self.inner.get(key)
        return None if value is None else masked(value, self.mask)

    def set(self, key: str, value: bytes) -> None:
        self.inner.set(key, masked(value, self.mask))

    def erase(self, key: str) -> None:
        self.inner.erase(key)

    def list_prefix(self, prefix: str) -> list[str]:
        return self.inner.list_prefix(prefix)


class MaskedSafely(Masked):
    """Over a store that supports conditions: then writers in other processes do not lose each other's data."""

    def version(self, key: str) -> bytes | None:
        found = self.inner.get_versioned(key)
        return None if found is None else found[1]

    def set_if(self, key: str, value: bytes, version: bytes) -> bytes | None:
        answer = self.inner.put(key, masked(value, self.mask), version)
        return None if isinstance(answer, Changed) else answer

    def erase_if(self, key: str, version: bytes) -> bool:
        return not isinstance(self.inner.erase_many([key], [version])[0], Changed)


def masked(value: bytes, mask: int) -> bytes:
    return (np.frombuffer(value, np.uint8) ^ np.uint8(mask)).tobytes()


def mask(entry: Extension, store: Store) -> Masked:
    """{"extension": MASK, "type": "xor", "configuration": {"mask": 90}}"""
    configuration = entry.configuration["configuration"]
    assert isinstance(configuration, dict)
    value = configuration["mask"]
    assert isinstance(value, int)
    return (MaskedSafely if store.capabilities.conditional else Masked)(store, value)


REGISTRY: Registry = (
    DEFAULT_REGISTRY.with_metadata_encoding(PACKED, Packed)
    .with_hierarchy_extension(FOLDER, in_folder)
    .with_array_extension(AXES, named_axes)
    .with_data_type(FixedPoints())
    .with_chunk_grid(NamedExtension[RegularGrid](TILES, tiles))
    .with_codec(Morton)
    .with_memory_layout(MORTON, morton)
    .with_storage_transformer(MASK, mask)
)
