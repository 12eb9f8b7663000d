"""Frazil, arrays in a plain store."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

import engines
import frazil
from rows import Spec


class Engine(engines.Engine):
    modules: tuple[str, ...] = ("frazil",)

    def create(self, path: str, spec: Spec) -> Any:
        return frazil.create_array(path, **options(spec))

    def open(self, path: str, write: bool = False) -> Any:
        return frazil.open_array(path, mode="r+" if write else "r")

    def open_appending(self, path: str) -> Any:
        if "shard_writes" not in inspect.signature(frazil.open_array).parameters:
            return super().open_appending(path)
        return frazil.open_array(path, mode="r+", shard_writes="append")

    def create_appending(self, path: str, spec: Spec) -> Any:
        if "shard_writes" not in inspect.signature(frazil.create_array).parameters:
            return self.create(path, spec)
        return frazil.create_array(path, **options(spec), shard_writes="append")

    def points(self, array: Any, places: tuple[np.ndarray, ...]) -> np.ndarray:
        values: np.ndarray = array.vindex[places]
        return values

    def lines(self, array: Any, rows: np.ndarray) -> np.ndarray:
        values: np.ndarray = array.oindex[(rows, *(slice(None),) * (array.ndim - 1))]
        return values


def options(spec: Spec) -> dict[str, Any]:
    """The arguments of create_array."""
    return {
        "shape": spec.shape,
        "dtype": spec.dtype,
        "chunks": spec.chunks,
        "shards": spec.shards,
        "codecs": "auto" if spec.codecs is None else list(spec.codecs),
        "fill_value": 0,
    }
