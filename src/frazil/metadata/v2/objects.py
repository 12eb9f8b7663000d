"""Object arrays of Zarr v2, of dtype "|O": the codec of objects, which is the first filter, determines the data type of the elements.

vlen-utf8 and categorize have text, vlen-bytes has bytes, vlen-array has arrays of numbers, json2, msgpack2 and pickle have objects. Decided in
docs/design/070-zarr-v2-objects.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.base.record import Record
from frazil.errors import MetadataError, UnknownExtensionError
from frazil.metadata.draft.codec_entries import ARRAY_TO_BYTES, NUMCODECS, Step
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json, found, item, member
from frazil.metadata.layout import KnownExtensions
from frazil.metadata.members import Members, check_object
from frazil.metadata.types import objects, variable_length
from frazil.metadata.types.core import DataType

DTYPE: Final = "|O"
_VLEN: Final = {"vlen-utf8": "string", "vlen-bytes": "bytes"}
_DOCUMENTS: Final = ("json2", "msgpack2", "pickle")  # a chunk is a document of objects
_CATEGORIZE: Final = "categorize"
_SUPPORTED: Final = (*_VLEN, "vlen-array", *_DOCUMENTS, _CATEGORIZE)
_HINT: Final = f"filters must begin with one of {', '.join(_SUPPORTED)}"


class ObjectArray(Record):
    """data_type: of the elements; serializer: the codec of objects, None if it is an array-to-array codec, which stays among the filters; ordered: whether the
    order "F" of a chunk applies to the elements; document codecs nest them by the shape instead."""

    data_type: DataType
    serializer: Step | None
    ordered: bool

    @property
    def extension(self) -> Extension:
        """The array-to-bytes codec of its chunks."""
        return Extension("bytes") if self.serializer is None else self.serializer.extension


def is_object(dtype: object) -> bool:
    """Whether a dtype, of a document or of a user, is that of object arrays."""
    if isinstance(dtype, np.dtype):
        return dtype.kind == "O"
    return dtype is object or (isinstance(dtype, str) and dtype in ("O", DTYPE, "object"))


def parse_object_array(filters: Sequence[Json], kinds: KnownExtensions, path: str = "filters") -> ObjectArray:
    """The data type and codec from the filters of an object array. Raises MetadataError if none is a codec of objects; UnknownExtensionError for one that is
    not known, or not allowed."""
    if not filters:
        raise MetadataError("an object array needs a codec of objects as its first filter", path=path, hint=_HINT)
    entry_path = item(path, 0)
    entry = check_object(filters[0], entry_path)
    name = Members(entry, entry_path).string("id")
    settings = {key: value for key, value in entry.items() if key != "id"}
    if name in _VLEN:
        step = Step(Extension(name, settings, path=entry_path), ARRAY_TO_BYTES, entry_path)
        return ObjectArray(variable_length.VariableLengthType(_VLEN[name]), step, True)
    if name == "vlen-array":
        step = Step(Extension(name, path=entry_path), ARRAY_TO_BYTES, entry_path)
        return ObjectArray(objects.RaggedType(_items(settings.get("dtype"), entry_path)), step, True)
    if name == _CATEGORIZE:
        return ObjectArray(variable_length.VariableLengthType("string"), None, True)
    if name not in _DOCUMENTS:
        raise UnknownExtensionError(
            f"the first filter of an object array is {found(name)}, which is not a known codec of objects",
            path=member(entry_path, "id"),
            hint=_HINT,
        )
    if name == "pickle" and kinds.codec_kind(NUMCODECS + name) is None:
        raise UnknownExtensionError(
            "the objects of this array are pickled, and loading a pickle can run any code of its author",
            path=member(entry_path, "id"),
            hint="if you trust the author: registry=DEFAULT_REGISTRY.with_codec(frazil.codecs.Pickle)",
        )
    step = Step(Extension(NUMCODECS + name, settings, path=entry_path), ARRAY_TO_BYTES, entry_path)
    return ObjectArray(objects.ObjectType(), step, False)


def _items(dtype: Json, path: str) -> Dtype:
    """The dtype of the items of `vlen-array`."""
    try:
        items = np.dtype(dtype if isinstance(dtype, str) else "")
    except (TypeError, ValueError, SyntaxError, KeyError):
        items = np.dtype(object)
    if items.kind not in "biufcmM" or not items.itemsize:
        raise MetadataError(
            f"the items of vlen-array must have a dtype of numbers, found {found(dtype)}", path=member(path, "dtype")
        )
    return items


def split_serializer(
    data_type: DataType, codecs: Sequence[Extension]
) -> tuple[dict[str, Json] | None, list[Extension]] | None:
    """The first filter that defines how elements of variable length are encoded (None if one of the codecs does), and the other codecs. None for elements of a
    fixed size.
    Raises MetadataError if no filter does."""
    if data_type.element == data_type.dtype:
        return None
    at = next((n for n, codec in enumerate(codecs) if codec.name in _SERIALIZERS), None)
    if at is None:
        if any(codec.name == NUMCODECS + _CATEGORIZE for codec in codecs):
            return None, [*codecs]
        raise MetadataError(f"Zarr v2 has no filter that encodes {data_type.label} as this chain does", path="codecs")
    codec = codecs[at]
    entry: dict[str, Json] = {"id": codec.name.removeprefix(NUMCODECS), **codec.configuration}
    if isinstance(data_type, objects.RaggedType):
        entry["dtype"] = data_type.of.str
    elif codec.name == "vlen-array" or (codec.name in _VLEN and _VLEN[codec.name] != data_type.name):
        # a reader of Zarr v2 would read another type from these filters
        entry = {"id": str(data_type.serializer.name)}
    document = codec.name.startswith(NUMCODECS)
    if any(document or before.name != "transpose" for before in codecs[:at]):
        raise MetadataError(
            f"in Zarr v2 no codec can come before {entry['id']}"
            + ("" if document else ", except the transpose that order makes"),
            path=item("codecs", 0),
            hint='json2, msgpack2 and pickle need order="C": zarr-python reads others with dimensions exchanged'
            if document
            else None,
        )
    return entry, [*codecs[:at], *codecs[at + 1 :]]


_SERIALIZERS: Final = (*_VLEN, "vlen-array", *(NUMCODECS + name for name in _DOCUMENTS))
