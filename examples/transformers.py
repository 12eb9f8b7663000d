"""Storage transformers at run time: a cache under an array, and the chunks of a sharded array as keys of a store.

A transformer is a store that wraps another store. One that no document names is passed when the array is opened.
Usage: python transformers.py [FOLDER]"""

from __future__ import annotations

import sys
import tempfile

import numpy as np

import frazil
from frazil.stores import CachingStore, LocalStore, ShardingStore, Store
from frazil.testing import CountingStore


def main(folder: str) -> None:
    disk = CountingStore(LocalStore(folder))  # like a store in a network: each range is a request
    sea = frazil.create_array(
        disk, path="sea", shape=(512, 512), dtype="int16", chunks=(64, 64), shards=(256, 256), zarr_format="draft"
    )
    sea[...] = np.arange(512 * 512, dtype="i4").reshape(512, 512) % 1000

    caches: list[CachingStore] = []

    def cached(store: Store) -> Store:
        caches.append(CachingStore(store, 2**24))
        return caches[0]

    reader = frazil.open_array(disk, path="sea", storage_transformers=[cached])
    for turn in ("first", "second"):
        disk.clear()
        mean = reader[100:400, 100:400].mean()
        print(f"the {turn} time: mean {mean:.1f}, {disk.count('fetch')} requests, {disk.bytes_read:,} bytes")
    print(f"{caches[0].hits} ranges came from {caches[0].nbytes_kept:,} bytes in memory")

    chunks = ShardingStore(LocalStore(folder), "data/sea/", sea.metadata.chunk_key_encoding, [4, 4], grid_shape=[8, 8])
    print(f"{len(chunks.inner.list_prefix('data/sea/'))} shards have {len(chunks.list_prefix('data/sea/'))} chunks")
    chunks.erase_values([f"data/sea/c{i}/{i}" for i in range(8)])  # the diagonal
    print(f"after erasing the diagonal: {sea.nchunks_initialized} chunks, sea[0, 0] is {sea[0, 0]}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:  # nothing is left behind
            main(f"{scratch}/sea.zr3")
