"""Two views of the same shards: chunks through ShardingStore, and the engine's sharding codec with a plain index at the end. Both must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import values

import frazil
from frazil.codecs import Bytes, Codec, Gzip, ShardingIndexed
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.grids.chunk_keys import DefaultKeys, V2Keys
from frazil.stores import LocalStore, MemoryStore, ShardingStore, Store
from frazil.stores.values import Fetched
from frazil.stores.wrappers import WrappedStore

KEYS = {"default": DefaultKeys, "v2": V2Keys, "draft": DraftKeys}
URI = "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"


class Sharded(NamedTuple):
    """An array in shards, once or twice. counts: array side first, so the last one is of the outermost shard."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]
    codecs: tuple[Codec, ...]
    keys: str
    separator: str

    def create(self, store: Store, *, sharded: bool) -> None:
        """The array at the root, only its document."""
        extent, codecs = self.chunks, self.codecs
        encoding = {"name": "v2" if self.keys == "v2" else "default", "configuration": {"separator": self.separator}}
        more: dict[str, object] = {}
        if self.keys == "draft":
            entries = [
                {"extension": URI, "type": "indexed", "configuration": {"chunks_per_shard": list(counts)}}
                for counts in self.counts
            ]
            more = {"zarr_format": "draft", "storage_transformers": entries if sharded else []}
        elif sharded:
            for counts in self.counts:
                codecs = (ShardingIndexed(extent, codecs, [Bytes("little")]),)
                extent = tuple(a * b for a, b in zip(extent, counts, strict=True))
        frazil.create_array(
            store,
            shape=self.shape,
            dtype="int16",
            chunks=extent,
            codecs=codecs,
            fill_value=7,
            chunk_key_encoding=encoding,
            overwrite=True,
            **more,  # type: ignore[arg-type]
        )

    @property
    def document(self) -> str:
        return "meta/array.json" if self.keys == "draft" else "zarr.json"

    @property
    def prefix(self) -> str:
        return "data/" if self.keys == "draft" else ""

    def open(self, store: Store) -> tuple[frazil.Array, frazil.Array, ShardingStore]:
        """The array by the engine's shards, the same through the transformer, and the transformer."""
        plain = MemoryStore()
        self.create(plain, sharded=False)
        self.create(store, sharded=True)
        direct = frazil.open_array(store, "r+")
        above = store
        for counts in reversed(self.counts):
            keys = KEYS[self.keys](self.separator)
            above = ShardingStore(above, self.prefix, keys, counts, grid_shape=self.grid())
        through = frazil.open_array(_WithDocument(above, self.document, plain), "r+")
        assert isinstance(above, ShardingStore)
        return direct, through, above

    def grid(self) -> tuple[int, ...]:
        return tuple(-(-length // extent) for length, extent in zip(self.shape, self.chunks, strict=True))


class _WithDocument(WrappedStore):
    """A store with the documents of another store."""

    __slots__ = ("document", "documents")

    def __init__(self, inner: Store, document: str, documents: Store) -> None:
        super().__init__(inner)
        self.document, self.documents = document, documents

    def fetch(self, names: Sequence[str], *rest: object, **named: object) -> Fetched:  # type: ignore[override]
        store = self.documents if self.document in names else self.inner
        return store.fetch(names, *rest, **named)  # type: ignore[arg-type]


@st.composite
def arrays(draw: st.DrawFn) -> Sharded:
    rank = draw(st.integers(0, 3))
    sides = st.lists(st.integers(1, 3), min_size=rank, max_size=rank).map(tuple)
    return Sharded(
        tuple(draw(st.integers(1, 9)) for _ in range(rank)),
        draw(sides),
        tuple(draw(st.lists(sides, min_size=1, max_size=2))),
        draw(st.sampled_from([(Bytes(),), (Bytes("big"), Gzip(1))])),
        draw(st.sampled_from(sorted(KEYS))),
        draw(st.sampled_from(["/", "."])),
    )


@settings(deadline=None)
@given(arrays(), st.data(), st.integers(0, 2**32))
def test_writes_through_the_transformer_and_the_engine_agree(array: Sharded, data: st.DataObject, seed: int) -> None:
    store = MemoryStore()
    direct, through, above = array.open(store)
    expected = np.full(array.shape, 7, "i2")
    new = values(seed, array.shape, np.dtype("i2"))
    for _ in range(data.draw(st.integers(1, 5))):
        writer = data.draw(st.sampled_from([direct, through]))
        if data.draw(st.integers(0, 3)) == 0:
            at = tuple(data.draw(st.integers(0, n - 1)) for n in array.grid())
            above.erase(through.metadata.chunk_key_encoding.encode_one(at, array.prefix))
            box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, array.chunks, strict=True))
            expected[box] = 7
        else:
            box = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in array.shape)
            writer[box] = new[box]
            expected[box] = new[box]
        assert (direct[...] == expected).all()
        assert (through[...] == expected).all()
    assert direct.nchunks_initialized == through.nchunks_initialized
    encode = through.metadata.chunk_key_encoding.encode_one
    there = {key for at in np.ndindex(array.grid()) if above.exists(key := encode(at, array.prefix))}
    assert set(above.list()) == {*there, array.document, "zarr.json"}


@pytest.mark.parametrize("make", [MemoryStore, None])
def test_shards_are_the_same_bytes(make: Callable[[], Store] | None, tmp_path: object) -> None:
    array = Sharded((8, 8), (2, 2), ((2, 2),), (Bytes(), Gzip(1)), "default", "/")
    stores = [MemoryStore() if make else LocalStore(f"{tmp_path}/{i}") for i in range(2)]
    new = values(1, (8, 8), np.dtype("i2"))
    direct, through = array.open(stores[0])[0], array.open(stores[1])[1]
    for box in (np.s_[:, :], np.s_[1:5, 3:7], np.s_[0:2, 0:2]):
        direct[box] = through[box] = new[box]
        new = new + 1
        assert {key: stores[0].get(key) for key in stores[0].list()} == {
            key: stores[1].get(key) for key in stores[1].list()
        }
