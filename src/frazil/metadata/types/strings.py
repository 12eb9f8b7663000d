"""Strings of fixed length, padded with zeros as NumPy does: bytes (null_terminated_bytes) and Unicode text (fixed_length_utf32).

The names are those of zarr-python 3."""

from __future__ import annotations

import sys
from typing import Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.errors import MetadataError
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json, found
from frazil.metadata.members import Members, refusal
from frazil.metadata.types.core import LARGEST_ITEM, DataType, NamedDataTypes
from frazil.metadata.types.fill_values import from_base64, to_base64

_BYTES: Final = "null_terminated_bytes"
_TEXT: Final = "fixed_length_utf32"
_UTF32: Final = f"utf-32-{'le' if sys.byteorder == 'little' else 'be'}"


class ByteStringType(DataType):
    """null_terminated_bytes: `length` bytes, NumPy's S. Zeros at the end are not part of the value."""

    def __init__(self, length: int) -> None:
        super().__init__(_BYTES, np.dtype(("S", length)))

    @property
    def label(self) -> str:
        return f"{self.name}[{self.itemsize}]"

    def extension(self) -> Extension:
        return Extension(_BYTES, {"length_bytes": self.itemsize})

    def parse_bytes(self, value: Json, path: str) -> bytes:
        """The bytes in base64; zeros at the end may be left out."""
        data = None if not isinstance(value, str) else from_base64(value)
        if data is None or len(data) > self.itemsize:
            raise refusal(path, f"at most {self.itemsize} bytes in base64", value)
        return data.ljust(self.itemsize, b"\0")

    def emit_bytes(self, data: bytes) -> Json:
        return to_base64(data.rstrip(b"\0"))

    def user_bytes(self, value: object, path: str) -> bytes:
        """Bytes, or text of ASCII characters."""
        if isinstance(value, str) and value.isascii():
            value = value.encode()
        if not isinstance(value, (bytes, bytearray, memoryview)) or len(data := bytes(value)) > self.itemsize:
            raise refusal(path, f"at most {self.itemsize} bytes", value)
        return data.ljust(self.itemsize, b"\0")


class TextType(DataType):
    """fixed_length_utf32: `length` code points of 4 bytes, NumPy's U. Zeros at the end are not part of the value."""

    def __init__(self, length: int) -> None:
        super().__init__(_TEXT, np.dtype(("U", length)), ((0, 4, length),))

    @property
    def label(self) -> str:
        return f"{self.name}[{self.itemsize // 4}]"

    def extension(self) -> Extension:
        return Extension(_TEXT, {"length_bytes": self.itemsize})

    def parse_bytes(self, value: Json, path: str) -> bytes:
        """The text; zero code points at the end may be left out."""
        return self.user_bytes(value, path)

    def emit_bytes(self, data: bytes) -> Json:
        try:
            text = data.decode(_UTF32, "surrogatepass").rstrip("\0")
            joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        except UnicodeDecodeError:
            text, joined = "", None
        if joined != text:  # two halves of a surrogate pair would be read back as one code point
            raise MetadataError("fill_value must be Unicode text to be written as JSON", path="fill_value")
        return text

    def user_bytes(self, value: object, path: str) -> bytes:
        length = self.itemsize // 4
        if not isinstance(value, str) or len(value) > length:
            raise refusal(path, f"text of at most {length} characters", value)
        return value.encode(_UTF32, "surrogatepass").ljust(self.itemsize, b"\0")


class StringTypes(NamedDataTypes):
    """The family of both."""

    names = (_BYTES, _TEXT)

    def parse(self, extension: Extension, path: str) -> DataType:
        members = Members(extension.configuration, f"{path}.configuration")
        length = members.integer("length_bytes", 1, LARGEST_ITEM)
        members.finish()
        if extension.name == _BYTES:
            return ByteStringType(length)
        if length % 4:
            raise refusal(members.at("length_bytes"), "a multiple of 4", length)
        return TextType(length // 4)

    def from_numpy(self, dtype: Dtype) -> DataType | None:
        if dtype.kind not in "SU":
            return None
        if not dtype.itemsize:
            raise MetadataError(
                f"a string data type needs a length, found {found(dtype.str)}",
                path="data_type",
                hint=f'give one, such as "{dtype.kind}16", or dtype="{"string" if dtype.kind == "U" else "bytes"}" for any length',
            )
        return ByteStringType(dtype.itemsize) if dtype.kind == "S" else TextType(dtype.itemsize // 4)
