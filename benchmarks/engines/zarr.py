"""zarr-python with its default codec pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr

import engines
from rows import Spec


class Engine(engines.Engine):
    modules: tuple[str, ...] = ("zarr",)
    pipeline = "zarr.core.codec_pipeline.BatchedCodecPipeline"

    def __init__(self) -> None:
        zarr.config.set({"codec_pipeline.path": self.pipeline})

    def create(self, path: str, spec: Spec) -> Any:
        return self.checked(zarr.create_array(path, **options(spec)))

    def open(self, path: str, write: bool = False) -> Any:
        return self.checked(
            zarr.open_array(http_store(path) if path.startswith("http") else path, mode="r+" if write else "r")
        )

    def points(self, array: Any, places: tuple[np.ndarray, ...]) -> np.ndarray:
        values: np.ndarray = array.vindex[places]
        return values

    def lines(self, array: Any, rows: np.ndarray) -> np.ndarray:
        values: np.ndarray = array.oindex[(rows, *(slice(None),) * (array.ndim - 1))]
        return values

    def checked(self, array: Any) -> Any:
        """The array. Raises if zarr fell back to another pipeline than the measured one (which it does silently)."""
        used = type(array._async_array.codec_pipeline).__name__
        if used != self.pipeline.rsplit(".", 1)[1]:
            raise engines.Unsupported(f"zarr fell back to {used}")
        return array


def options(spec: Spec) -> dict[str, Any]:
    """The arguments of zarr.create_array."""
    return {
        "shape": spec.shape,
        "dtype": spec.dtype,
        "chunks": spec.chunks,
        "shards": spec.shards,
        "compressors": "auto" if spec.codecs is None else list(spec.codecs) or None,
        "filters": None,
        "fill_value": 0,
    }


def http_store(url: str) -> Any:
    from obstore.store import HTTPStore
    from zarr.storage import ObjectStore

    return ObjectStore(HTTPStore.from_url(url, client_options={"allow_http": True}), read_only=True)
