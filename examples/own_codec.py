"""Your own codec, in Python: differences along the last dimension, which compress better than the elements themselves.

It runs inside shards, so each inner chunk is encoded alone. Readers of the array need the codec too: they pass a registry that has it.
Usage: python own_codec.py [FOLDER]"""

from __future__ import annotations

import sys
import tempfile
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import frazil
from frazil.codecs import DEFAULT_REGISTRY, ArrayToArray, ChunkSpec, Zstd


class Differences(ArrayToArray):
    """Each integer minus the previous one in its row. Overflow wraps around; the cumulative sum reverses it."""

    name: ClassVar[str] = "https://example.org/codecs/differences"  # a URI, so that no other codec has this name

    def configuration(self) -> dict[str, object] | None:
        return None  # no parameters; otherwise the arguments of __init__

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if spec.dtype.kind not in "iu" or not spec.shape:
            raise frazil.errors.MetadataError(f"{self.name} takes rows of integers, not {spec.dtype}", path=path)
        return spec  # shape, type and fill value stay as they are

    def encode(self, array: NDArray[Any], spec: ChunkSpec) -> NDArray[Any]:
        return np.diff(array, axis=-1, prepend=np.zeros_like(array[..., :1]))

    def decode(self, array: NDArray[Any], spec: ChunkSpec) -> NDArray[Any]:
        return np.cumsum(array, axis=-1, dtype=array.dtype)


REGISTRY = DEFAULT_REGISTRY.with_codec(Differences)


def main(folder: str) -> None:
    heights = np.cumsum(np.random.default_rng(0).integers(-3, 4, (500, 800)), axis=1, dtype=np.int32)  # a rough terrain
    sizes = {}
    for label, codecs in (("zstd alone", [Zstd()]), ("differences and zstd", [Differences(), Zstd()])):
        terrain = frazil.create_array(
            folder,
            shape=heights.shape,
            dtype="int32",
            chunks=(50, 80),
            shards=(250, 400),
            codecs=codecs,
            registry=REGISTRY,
            overwrite=True,
        )
        terrain[:] = heights
        sizes[label] = terrain.nbytes_stored()

    terrain = frazil.open_array(folder, registry=REGISTRY)
    assert np.array_equal(terrain[120:130, ::7], heights[120:130, ::7])
    for label, nbytes in sizes.items():
        print(f"{label}: {heights.nbytes / nbytes:.1f} times smaller")
    try:
        frazil.open_array(folder)
    except frazil.errors.UnknownExtensionError as error:
        print(f"without the registry: {error.message.partition(' (')[0]}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:  # nothing is left behind
            main(f"{scratch}/terrain.zarr")
