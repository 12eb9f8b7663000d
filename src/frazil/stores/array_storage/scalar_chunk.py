"""The chunk of an array without dimensions, which may have either of two keys (the draft of 2022 says `c`, zarr-python 2 wrote `c0`)."""

from __future__ import annotations

from frazil.stores.array_storage.chunk_storage import ChunkKeys, Located, PlainChunks
from frazil.stores.store import Store
from frazil.stores.values import Columns


class ScalarChunk(PlainChunks):
    """PlainChunks of one chunk, under its existing key: the encoding's own, or its `also`; its own if neither exists."""

    __slots__ = ("also",)

    def __init__(self, store: Store, prefix: str, keys: ChunkKeys, also: str, largest: int | None = None) -> None:
        super().__init__(store, prefix, keys, largest)
        self.also = prefix + also

    def locate_one(self, coordinates: tuple[int, ...]) -> Located:
        return super().locate_one(coordinates)._replace(names=(self._name(),))

    def _names(self, coords: Columns) -> list[str]:
        return [self._name()] * len(coords)

    def _name(self) -> str:
        own = self.keys.encode_one((), self.prefix)
        sizes = self.store.sizes([own, self.also])
        return self.also if sizes[0] < 0 <= sizes[1] else own


def plain_chunks(store: Store, prefix: str, keys: ChunkKeys, ndim: int, largest: int | None = None) -> PlainChunks:
    """The chunks of an array in a hierarchy of documents. largest: see PlainChunks."""
    also = getattr(keys, "also", None) if not ndim else None
    return (
        PlainChunks(store, prefix, keys, largest) if also is None else ScalarChunk(store, prefix, keys, also, largest)
    )
