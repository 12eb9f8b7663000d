"""tensorstore, with its cache off (cache_pool of 0 bytes, also its default), so that every read decodes again."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorstore as ts

import engines
from rows import Box, Spec

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


class Engine(engines.Engine):
    modules = ("tensorstore",)

    sync = True  # its default: every file is synced to the disk

    def __init__(self) -> None:
        self.context = ts.Context({"cache_pool": {"total_bytes_limit": 0}, "file_io_sync": self.sync})

    def create(self, path: str, spec: Spec) -> Any:
        codecs = [BYTES, *(spec.codecs or ())]  # its own default is no compression
        if spec.shards:
            inner = {"chunk_shape": spec.chunks, "codecs": codecs, "index_codecs": [BYTES, {"name": "crc32c"}]}
            codecs = [{"name": "sharding_indexed", "configuration": inner}]
        grid = {"name": "regular", "configuration": {"chunk_shape": spec.shards or spec.chunks}}
        metadata = {"shape": spec.shape, "data_type": spec.dtype, "chunk_grid": grid, "codecs": codecs, "fill_value": 0}
        return ts.open({**located(path), "metadata": metadata}, create=True, context=self.context).result()

    def open(self, path: str, write: bool = False) -> Any:
        return ts.open(located(path), read=True, write=write, context=self.context).result()

    def read(self, array: Any, box: Box) -> np.ndarray:
        values: np.ndarray = array[box].read().result()
        return values

    def element(self, array: Any, position: tuple[int, ...]) -> Any:
        return array[position].read().result()

    def points(self, array: Any, places: tuple[np.ndarray, ...]) -> np.ndarray:
        values: np.ndarray = array.vindex[places].read().result()
        return values

    def lines(self, array: Any, rows: np.ndarray) -> np.ndarray:
        values: np.ndarray = array.oindex[rows].read().result()
        return values

    def write(self, array: Any, box: Box, values: np.ndarray) -> None:
        array[box].write(values).result()

    def append(self, array: Any, rows: np.ndarray) -> Any:
        start, stop = array.shape[0], array.shape[0] + len(rows)
        grown = array.resize(exclusive_max=[stop, *array.shape[1:]], expand_only=True).result()
        grown[start:stop].write(rows).result()
        return grown


def located(path: str) -> dict[str, Any]:
    location = (
        {"driver": "http", "base_url": f"{path}/"}
        if path.startswith("http")
        else {"driver": "file", "path": f"{path}/"}
    )
    return {"driver": "zarr3", "kvstore": location}
