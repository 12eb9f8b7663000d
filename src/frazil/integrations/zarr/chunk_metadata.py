"""From zarr-python's description of chunks for a codec pipeline to our metadata of an array with the same chunks, whose shape is that of one chunk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from frazil.array.compiled_array import CompiledArray, compile_array
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import InvalidInputError, UnknownExtensionError
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.v3.documents import parse_node

if TYPE_CHECKING:
    from zarr.abc.codec import Codec
    from zarr.core.array_spec import ArraySpec


def compiled_chunks(codecs: Iterable[Codec], spec: ArraySpec) -> tuple[ArrayMetadata, CompiledArray]:
    """The metadata, and the compiled array. Raises InvalidInputError (UnknownExtensionError, MetadataError) for chunks that Frazil cannot read."""
    chain = [codec.to_dict() for codec in codecs]
    if any("name" not in entry for entry in chain):
        raise UnknownExtensionError("a codec of Zarr v2", hint="the metadata of Zarr v2 is another one")
    data_type, fill = _data_type(spec)
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(spec.shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(spec.shape)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": fill,
        "codecs": chain,
    }
    try:
        text = json.dumps(document, default=_plain).encode()
    except TypeError as error:
        raise InvalidInputError(f"codecs that have no JSON: {error}") from error
    metadata = parse_node(text, DEFAULT_REGISTRY.metadata)
    assert isinstance(metadata, ArrayMetadata)
    return metadata, compile_array(DEFAULT_REGISTRY, metadata)


def _data_type(spec: ArraySpec) -> tuple[object, object]:
    """The data type and the fill value in the form of documents."""
    if not isinstance(spec.dtype, np.dtype):  # since zarr-python 3.1
        name = spec.dtype.to_json(zarr_format=3)
        return name, spec.dtype.to_json_scalar(spec.fill_value, zarr_format=3)
    if spec.dtype.kind not in "biufc":
        raise UnknownExtensionError(f"the data type {spec.dtype}", hint="zarr-python 3.1 names it")
    return spec.dtype.name, _json_scalar(np.asarray(spec.fill_value, spec.dtype.newbyteorder("=")))


def _json_scalar(value: np.ndarray[Any, Any]) -> object:
    """One number as JSON, floats by their bits."""
    if value.dtype.kind == "c":
        return [_json_scalar(value.real), _json_scalar(value.imag)]
    if value.dtype.kind == "f":
        return f"0x{value.astype(value.dtype.newbyteorder('>')).tobytes().hex()}"
    number: object = value.item()
    return number


def _plain(value: object) -> object:
    """Converts values that JSON has no form for."""
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    raise TypeError(f"a value of type {type(value).__name__}")
