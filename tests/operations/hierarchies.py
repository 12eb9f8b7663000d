"""Small hierarchies with all that a conversion handles: groups with and without documents, shards, key encodings, arrays without dimensions."""

from __future__ import annotations

import numpy as np

import frazil
from frazil.codecs import Bytes, Gzip
from frazil.stores import MemoryStore, Store

RNG = np.random.default_rng(0)
SEA = RNG.integers(0, 1000, (20, 30)).astype("<i4")


def fill(store: Store, zarr_format: int | str = 3) -> Store:
    """Arrays of each kind, all with codecs that every dialect has."""
    gzip = [Bytes("little"), Gzip(1)]
    root = frazil.create_group(store, attributes={"title": "sea", "n": [1, None, 2.5]}, zarr_format=zarr_format)
    shards = root.create_array("level1/shards", shape=(20, 30), dtype="<i4", chunks=(4, 5), shards=(8, 10), codecs=gzip)
    shards[:15, 3:] = SEA[:15, 3:]
    chunks = root.create_array("level1/chunks", shape=(20, 30), dtype="<i4", chunks=(4, 5), codecs=gzip, fill_value=7)
    chunks[2:, :9] = SEA[2:, :9]
    dots = root.create_array(
        "dots",
        shape=(20, 30),
        dtype=">f4",
        chunks=(7, 30),
        codecs=[Bytes("big")],
        chunk_key_encoding={"name": "default", "separator": "."} if zarr_format == 3 else None,
        fill_value=float("nan"),
        attributes={"units": "m"},
    )
    dots[3:] = SEA[3:]
    root.create_array("scalar", shape=(), dtype="<f8", codecs=[Bytes("little")])[...] = 2.5
    root.create_array("empty", shape=(0, 3), dtype="u1", codecs=[Bytes()])
    root.create_array("unwritten", shape=(5,), dtype="i8", codecs=[Bytes("little")], fill_value=-1)
    root.create_group("level2", attributes={"deep": {"er": True}})
    return store


def copy_of(store: Store) -> MemoryStore:
    twin = MemoryStore()
    for key in store.list():
        twin.set(key, store.get(key) or b"")
    return twin


def content(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}
