"""Converts missing values of arrays that xarray reads between Zarr v2 and final Zarr v3: the result of `xarray.open_dataset` stays the same. Pure.

In Zarr v2 xarray uses the fill value of the array as `_FillValue`; in Zarr v3 only the attribute counts. Arrays without names of dimensions, which xarray
cannot open, are not changed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from frazil.base.record import Record
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata, ZarrFormat
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.v3.fill_attribute import FILL_ATTRIBUTE, MASKED_KINDS, decode_fill, encode_fill


class Masking(Record):
    """The attributes and the fill value of an array in the other dialect. is_null: whether the document has null instead of the fill value, so that no value is
    marked as missing."""

    attributes: Mapping[str, Json]
    fill_value: FillValue
    is_null: bool = False


def masking(node: ArrayMetadata, to: ZarrFormat, *, whole: bool = False) -> Masking:
    """The attributes and the fill value of an array in the other dialect. whole: all its chunks are stored, so that no element is the fill value by absence."""
    attributes, fill_value = node.attributes, node.fill_value
    same = Masking(attributes, fill_value)
    if node.dimension_names is None or {node.zarr_format, to} != {2, 3}:
        return same
    # zero is the value of elements that were never written, where the document has null
    is_zero, may_be_null = not any(fill_value.data), whole and not _marks_nothing(node)
    if (
        node.dtype.kind not in MASKED_KINDS
    ):  # times and text: of these null is NaT, and empty text, which would be masked
        may_be_null |= is_zero and fill_value.data == node.data_type.fill_from_user(None).data
        return same._replace(is_null=to == 2 and may_be_null and FILL_ATTRIBUTE not in attributes)
    may_be_null |= is_zero
    declared_fill = decode_fill(attributes.get(FILL_ATTRIBUTE), node.dtype)
    fill = _element(fill_value, node.dtype)
    others = {name: value for name, value in attributes.items() if name != FILL_ATTRIBUTE}
    if to == 3:
        marks = declared_fill if node.fill_is_undefined else fill
        return (
            same
            if marks is None
            else Masking({**others, FILL_ATTRIBUTE: encode_fill(marks, node.dtype.kind)}, fill_value)
        )
    if declared_fill is None:
        return Masking(attributes, fill_value, is_null=may_be_null and FILL_ATTRIBUTE not in attributes)
    if _is_nan(fill) or _is_equal(declared_fill, fill):  # NaN also counts as missing
        return Masking(others, FillValue(declared_fill.tobytes(), node.dtype))
    if may_be_null and node.dtype.kind != "c":
        return Masking({**others, **_plain(declared_fill)}, fill_value, is_null=True)
    return same


def _marks_nothing(node: ArrayMetadata) -> bool:
    """Whether the fill value is NaN or NaT, which is a missing value in any case."""
    return node.dtype.kind in "fcmM" and bool(np.isnan(_element(node.fill_value, node.dtype)))


def _element(fill: FillValue, dtype: np.dtype[np.generic]) -> np.generic:
    found: np.generic = np.frombuffer(fill.data, dtype)[0]
    return found


def _is_equal(scalar: np.generic, other: np.generic) -> bool:
    return bool(scalar == other) or (_is_nan(scalar) and _is_nan(other))


def _is_nan(value: np.generic) -> bool:
    return value.dtype.kind in "fc" and bool(np.isnan(value))


def _plain(value: np.generic) -> dict[str, Json]:
    """The attribute in Zarr v2, where xarray uses it unchanged; empty for NaN, as NaN counts as missing in any case."""
    number = value.item()
    if isinstance(number, float) and not np.isfinite(number):
        return {} if np.isnan(number) else {FILL_ATTRIBUTE: "Infinity" if number > 0 else "-Infinity"}
    return {FILL_ATTRIBUTE: number}
