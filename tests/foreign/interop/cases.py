"""Arrays to exchange, with the values of their documents, so that every implementation gets the same."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from frazil.codecs import ShardingIndexed
from frazil.codecs.codec import resolve
from frazil.testing import chunk_spec
from tests.strategies import Layout

Entry = Mapping[str, object]
DEFAULT_KEYS: Entry = {"name": "default", "configuration": {"separator": "/"}}


class Case(NamedTuple):
    """codecs: entries of a document; fill: as in a document; keys: the entry of the chunk key encoding; chunk: extent of the outermost chunk."""

    name: str
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    codecs: Sequence[Entry]
    dtype: str = "uint16"
    fill: object = 0
    keys: Entry = DEFAULT_KEYS
    dimension_names: tuple[str | None, ...] | None = None
    attributes: Mapping[str, object] = {}

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        return chunk_spec(self.dtype, ()).dtype

    @property
    def fill_scalar(self) -> np.generic:
        """The fill value as NumPy has it."""
        if isinstance(self.fill, list):
            return self.numpy_dtype.type(complex(*map(float, self.fill)))
        value = float(self.fill) if isinstance(self.fill, str) else self.fill
        return np.asarray(value, self.numpy_dtype)[()]

    def document(self) -> dict[str, object]:
        """The whole document."""
        document: dict[str, object] = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunk)}},
            "chunk_key_encoding": self.keys,
            "fill_value": self.fill,
            "codecs": list(self.codecs),
            "attributes": dict(self.attributes),
        }
        if self.dimension_names is not None:
            document["dimension_names"] = list(self.dimension_names)
        return copy.deepcopy(document)

    def arguments(self) -> dict[str, object]:
        """Those of frazil.create_array."""
        return {
            "shape": self.shape,
            "dtype": self.dtype,
            "chunks": self.chunk,
            "codecs": self.codecs,
            "fill_value": self.fill,
            "chunk_key_encoding": self.keys,
            "dimension_names": self.dimension_names,
            "attributes": self.attributes,
        }

    def levels(self) -> Iterator[tuple[tuple[int, ...], Sequence[Entry]]]:
        """The chunk that each chain of codecs sees, and the chain, from the outermost shards inwards."""
        chunk, codecs = self.chunk, self.codecs
        while True:
            yield chunk, codecs
            inner = [entry for entry in codecs if entry["name"] == "sharding_indexed"]
            if not inner:
                return
            chunk, codecs = tuple(member(inner[0], "chunk_shape")), member(inner[0], "codecs")


def member(entry: Entry, name: str) -> list:
    """A member of a codec's configuration, () if there is none."""
    configuration = entry.get("configuration", {})
    assert isinstance(configuration, Mapping)
    return configuration.get(name, [])


def from_layout(layout: Layout, dtype: str, **more: object) -> Case:
    """The case of a random layout."""
    codecs, chunk = layout.codecs, layout.chunks
    if layout.shards is not None:
        codecs, chunk = (ShardingIndexed(chunk, codecs, index_location=layout.index_location),), layout.shards
    settled = resolve(codecs, chunk_spec(dtype, chunk))
    entries = [codec.extension().to_json() for codec in settled]
    return Case("random", layout.shape, chunk, entries, dtype, **more)
