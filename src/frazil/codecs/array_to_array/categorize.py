"""Text as numbers of labels, under the name that zarr-python writes: `numcodecs.categorize`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frazil.codecs.array_to_array.filters import native, spelled
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec
from frazil.errors import MetadataError
from frazil.metadata.types.core import TEXT_VIEW
from frazil.metadata.types.heap import elements_of_views, views_of_elements


class Categorize(ArrayToArray):
    """An element that equals label i, counted from 1, becomes i; any other becomes 0, which decodes to the empty text.

    labels: text;  dtype: of elements, "|O" for text of any length, or for example "<U8";  astype: of numbers"""

    name = "numcodecs.categorize"
    required = ("labels", "dtype")
    optional = ("astype",)

    def __init__(self, labels: Sequence[str], dtype: str, astype: object = "u1") -> None:
        if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
            raise MetadataError(f"labels is {labels!r:.80}; it must be a list of text", path="labels")
        self.labels, self.dtype, self.astype = tuple(labels), dtype, spelled(astype, "astype")
        number = native(self.astype)
        if number.kind not in "iu" or len(self.labels) > np.iinfo(number).max:  # type: ignore[type-var] # it is an integer
            raise MetadataError(f"astype is {astype!r}; it must be an integer for {len(labels)} labels", path="astype")

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if spec.dtype != TEXT_VIEW and spec.dtype.kind != "U":
            raise MetadataError(f"codec {self.name} takes text, not elements of {spec.dtype}", path=path)
        dtype = native(self.astype)
        swaps = ((0, dtype.itemsize, 1),) if dtype.itemsize > 1 else ()
        return ChunkSpec(spec.shape, dtype, swaps, bytes(dtype.itemsize))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        numbers = {label: i for i, label in reversed(list(enumerate(self.labels, 1)))}
        if spec.dtype == TEXT_VIEW:
            assert spec.heap is not None, "a write has one"
            elements = [data.decode() for data in elements_of_views(array, spec.heap)]
        else:
            elements = array.reshape(-1).tolist()
        labels = np.array([numbers.get(element, 0) for element in elements], native(self.astype))
        return labels.reshape(spec.shape)

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        """A number without a label decodes to the empty text, as in numcodecs."""
        numbers = array.reshape(-1).astype(np.int64)
        numbers[(numbers < 0) | (numbers > len(self.labels))] = 0
        if spec.dtype != TEXT_VIEW:
            return np.array(["", *self.labels], spec.dtype)[numbers].reshape(spec.shape)
        assert spec.heap is not None, "a read has one"
        views = views_of_elements([label.encode() for label in ("", *self.labels)], spec.heap, text=True)
        return views[numbers].view(spec.dtype).reshape(spec.shape)
