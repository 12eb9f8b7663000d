"""The data types `string` and `bytes`, whose elements have no fixed size: their documents, fill values included. No codec here reads or writes their elements.

A repository registers them, so that documents and encoded chunks are keys of a session's store although no array can be opened."""

from __future__ import annotations

from typing import Final

import numpy as np

from frazil.errors import UnknownExtensionError
from frazil.metadata.extensions import Extension, no_configuration
from frazil.metadata.json_text import Json
from frazil.metadata.members import refusal
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.registry import MetadataExtensions
from frazil.metadata.types.core import DataType, NamedDataTypes
from frazil.metadata.types.fill_values import FillValue, from_base64, to_base64
from frazil.metadata.value import assign

_DTYPE: Final = np.dtype("V1")  # which no element has: NumPy needs one


class VariableLengthFill(FillValue):
    """A fill value of any number of bytes; text in UTF-8."""

    __slots__ = ()

    def __init__(self, data: bytes, dtype: np.dtype[np.generic] = _DTYPE) -> None:
        assign(self, "data", data)
        assign(self, "dtype", dtype)


class VariableLengthType(DataType):
    """`string` or `bytes`. The fill value of `bytes` is base64 text, or a list of integers."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name, _DTYPE)

    @property
    def zero(self) -> FillValue:
        return VariableLengthFill(b"")

    def parse_fill(self, value: Json, path: str = "fill_value") -> FillValue:
        return VariableLengthFill(self.parse_bytes(value, path))

    def parse_bytes(self, value: Json, path: str) -> bytes:
        if self.name == "string":
            if not isinstance(value, str):
                raise refusal(path, "text", value)
            return value.encode(errors="surrogatepass")
        data = bytes_of(value)
        if data is None:
            raise refusal(path, "base64 text, or integers from 0 to 255", value)
        return data

    def emit_bytes(self, data: bytes) -> Json:
        return data.decode(errors="surrogatepass") if self.name == "string" else to_base64(data)

    def user_bytes(self, value: object, path: str) -> bytes:
        raise refusal(path, f"nothing, as no array of {self.name} can be made here", value)


class VariableLengthTypes(NamedDataTypes):
    """The family of both. NumPy has no dtype of either."""

    __slots__ = ()
    names = ("string", "bytes")

    def parse(self, extension: Extension, path: str) -> DataType:
        no_configuration(extension, path)
        return VariableLengthType(extension.name)

    def from_numpy(self, dtype: np.dtype[np.generic]) -> DataType | None:
        return None


def with_variable_length(known: MetadataExtensions) -> MetadataExtensions:
    """The same with both types, unless others of these names are registered."""
    return known.replaced(data_types=(*known.data_types, VariableLengthTypes()))


def bytes_of(value: Json) -> bytes | None:
    """The fill value of `bytes` that a document gives as base64 text or as integers; None for anything else."""
    if isinstance(value, str):
        return from_base64(value)
    if isinstance(value, list) and all(type(byte) is int and 0 <= byte < 256 for byte in value):
        return bytes(value)  # type: ignore[arg-type] # they are all int
    return None


def undecodable(metadata: ArrayMetadata, path: str) -> UnknownExtensionError | None:
    """The error for an array of these types, at a path; None for any other array."""
    if type(metadata.data_type) is not VariableLengthType:
        return None
    return UnknownExtensionError(
        f"arrays of the data type {metadata.data_type.name} cannot be read here: their elements have no fixed size",
        path=f"/{path}",
        hint="its document and its encoded chunks are keys of session.store, which lists and reads them",
    )
