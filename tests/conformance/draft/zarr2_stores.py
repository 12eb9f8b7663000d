"""Run in the environment of zarr-python 2.18: its own stores, used as stores of Frazil, that both programs write and read. Usage: zarr2_stores.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import zarr
from zarr._storage import v3
from zarr.storage import DirectoryStore, MemoryStore

import frazil


def main(folder: Path) -> None:
    stores = {
        "KVStoreV3": v3.KVStoreV3({}),
        "MemoryStoreV3": v3.MemoryStoreV3(),
        "DirectoryStoreV3": v3.DirectoryStoreV3(str(folder / "directory")),
        "SQLiteStoreV3": v3.SQLiteStoreV3(str(folder / "file.sqlite")),
        "LRUStoreCacheV3": v3.LRUStoreCacheV3(v3.KVStoreV3({}), 100_000),
        "ZipStoreV3": v3.ZipStoreV3(str(folder / "file.zip")),
        "MemoryStore": MemoryStore(),  # of Zarr v2: only a mapping, without operations of the draft
        "DirectoryStore": DirectoryStore(str(folder / "directory2")),
    }
    for name, store in stores.items():
        group = frazil.create_group(store, zarr_format="draft-2021")
        ours = group.create_array("a/ours", data=np.arange(400).reshape(20, 20), chunks=(5, 5), shards=(10, 10))
        assert np.array_equal(frazil.open_array(store, path="a/ours")[3:18, ::3], ours[3:18, ::3])
        if name.endswith("V3"):
            theirs = zarr.create((20, 20), chunks=(5, 5), dtype="f4", store=store, path="a/theirs", zarr_version=3)
            theirs[...] = 7
            assert (frazil.open_array(store, path="a/theirs")[...] == 7).all()
            assert np.array_equal(zarr.open_array(store, path="a/ours", mode="r", zarr_version=3)[...], ours[...])
            assert [path for path, _ in group.members(max_depth=None)] == ["a", "a/ours", "a/theirs"]
        print(name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
