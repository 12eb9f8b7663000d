"""Attributes of xarray <-> attributes of a document. Pure.

`_FillValue` has the form of xarray's zarr engine for Zarr v3 (FillValueCoder). JSON has no NaN and no infinity: as in that engine, attributes contain NaN,
Infinity and -Infinity without quotes. Text stays text."""

from __future__ import annotations

from base64 import standard_b64decode
from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np
from xarray.backends.zarr import FillValueCoder, encode_zarr_attr_value

from frazil.errors import InvalidInputError, MetadataError, shown
from frazil.metadata.json_text import NonFinite

FILL: Final = "_FillValue"
_MISSING: Final = "missing_value"
_NUMBERS: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def decode_attributes(attributes: Mapping[str, object]) -> dict[str, object]:
    """Attributes in xarray's form; `_FillValue` stays as it is stored."""
    return {name: _decoded(value) for name, value in attributes.items()}


def _decoded(value: object) -> object:
    if isinstance(value, NonFinite):
        return float(value)
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    if isinstance(value, dict):
        return {name: _decoded(part) for name, part in value.items()}
    return value


def encode_attributes(attributes: Mapping[Hashable, object], dtype: np.dtype[np.generic] | None) -> dict[str, object]:
    """Attributes in the form of a document. dtype: of a variable's elements, None for a group. A `missing_value` that is NaN is left out, because NaN marks
    missing values anyway. Raises InvalidInputError for a name that is not text."""
    encoded: dict[str, object] = {}
    for name, value in attributes.items():
        if not isinstance(name, str):
            raise InvalidInputError(f"the name of an attribute is {shown(name)}; it must be text")
        if name == FILL and dtype is not None:
            if value is not None:
                encoded[name] = encode_fill(value, dtype)
        elif not (name == _MISSING and dtype is not None and dtype.kind in "fc" and _is_nan(value)):
            encoded[name] = _encoded(encode_zarr_attr_value(value))
    return encoded


def _encoded(value: object) -> object:
    if isinstance(value, float) and not np.isfinite(value):
        return NonFinite(value)
    if isinstance(value, list | tuple):
        return [_encoded(encode_zarr_attr_value(part)) for part in value]
    if isinstance(value, dict):
        return {name: _encoded(encode_zarr_attr_value(part)) for name, part in value.items()}
    return value


def _is_nan(value: object) -> bool:
    array = np.asarray(value)
    return array.dtype.kind in "fc" and bool(np.isnan(array).all())


def encode_fill(value: object, dtype: np.dtype[np.generic]) -> object:
    """`_FillValue` as the attribute of an array of this dtype. Raises InvalidInputError for a value of another kind."""
    if dtype.kind in "OT" and isinstance(value, str):  # text of any length, for which the zarr engine has no form
        return str(value)
    try:
        return FillValueCoder.encode(value, dtype)  # type: ignore[arg-type] # checked there
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"_FillValue is {shown(value)}, which {dtype} cannot have: {error}") from error


def decode_fill(value: object, dtype: np.dtype[np.generic]) -> object:
    """The value of `_FillValue`. Numbers are accepted too, as other programs write them. Raises MetadataError."""
    try:
        if isinstance(value, int | float) and dtype.kind in "fc":
            return dtype.type(value)
        if isinstance(value, str) and dtype.kind == "f" and value in _NUMBERS:
            return _NUMBERS[value]
        if isinstance(value, str) and dtype.kind in "SUOT":
            return value if dtype.kind != "S" else standard_b64decode(value)
        return FillValueCoder.decode(value, dtype)  # type: ignore[arg-type] # checked there
    except Exception as error:
        raise MetadataError(
            f"{shown(value)} is not a fill value of {dtype}: {error}",
            path="attributes._FillValue",
            hint="drop_variables leaves the variable out",
        ) from error
