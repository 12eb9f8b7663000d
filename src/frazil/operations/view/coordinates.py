"""The text of a picture about its selection: the title, the coordinates of its axes, and its position along the other dimensions. Reads the one-dimensional
arrays beside an array that have the names of its dimensions (CF conventions, section 2.4). axes.py and figure.py draw them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from frazil.array.array import Array
from frazil.array.hierarchy.nodes import find_nodes
from frazil.base.arrays import Values
from frazil.base.record import Record
from frazil.errors import DataError, InvalidInputError
from frazil.metadata.model import DIMENSIONS, ArrayMetadata
from frazil.metadata.paths import join, split
from frazil.operations.view.axes import Axis, coordinate_text
from frazil.operations.window import Window, window

_MOST: Final = 2**22  # the most elements of a coordinate; for a longer one the axis shows positions
_PRESSURE: Final = frozenset(
    {"pa", "hpa", "kpa", "mbar", "mb", "bar", "millibar", "millibars", "dbar", "decibar", "decibars"}
)

Decode = Callable[[Window], Window]


class Caption(Record):
    """title, subtitle: lines above the picture, "" for none; axes: vertical, horizontal"""

    title: str
    subtitle: str
    axes: tuple[Axis, Axis]


def caption(view: Window, decode: Decode | None = None) -> Caption:
    """The caption of a selection with two dimensions.

    decode  converts a window of a coordinate to one of decoded elements, such as times; None: coordinates are shown as stored
    A coordinate that cannot be decoded is left out; all are left out if a document of one breaks the rules. The axes then show positions. Raises StoreError."""
    names = _dimension_names(view.array)
    arrays = _coordinates(view.array, names)
    axes = {axis: _axis(view, axis, names[axis], arrays.get(axis), decode) for axis in view.kept}
    locations = []
    for dimension, picks in enumerate(view.picks):
        if dimension not in view.kept and names[dimension] is not None:
            value = _values(arrays.get(dimension), (picks[0],), decode)
            text = str(picks[0]) if value is None else coordinate_text(value[0])
            units = "" if value is None or value.dtype.kind == "M" else _units(arrays[dimension].attrs.asdict())
            locations.append(f"{names[dimension]} = {text} {units}".rstrip())
    vertical, horizontal = view.kept
    return Caption(_title(view), ", ".join(locations), (axes[vertical], axes[horizontal]))


def _title(view: Window) -> str:
    attributes = view.array.attrs.asdict()
    name = attributes.get("long_name") or attributes.get("standard_name") or split(view.array.path)[1]
    units = _units(attributes)
    return f"{name} ({units})" if name and units else str(name or units)


def _units(attributes: Mapping[str, object]) -> str:
    units = attributes.get("units", "")
    return units.strip() if isinstance(units, str) and units.strip() != "1" else ""


def _dimension_names(array: Array) -> tuple[str | None, ...]:
    names: object = array.dimension_names or array.attrs.get(DIMENSIONS)
    if isinstance(names, (tuple, list)) and len(names) == array.ndim:
        return tuple(name if isinstance(name, str) and name else None for name in names)
    return (None,) * array.ndim


def _coordinates(array: Array, names: tuple[str | None, ...]) -> dict[int, Array]:
    """The coordinate of each dimension that has one, from the group of the array."""
    if not array.path:
        return {}
    paths = {i: join(split(array.path)[0], name) for i, name in enumerate(names) if name and "/" not in name}
    try:
        found = find_nodes(array._location, sorted(set(paths.values())))
    except (DataError, InvalidInputError):
        return {}
    return {
        i: Array(array._location.at(path), node)
        for i, path in paths.items()
        if isinstance(node := found.get(path), ArrayMetadata) and node.shape == (array.shape[i],)
    }


def _axis(view: Window, dimension: int, name: str | None, coordinate: Array | None, decode: Decode | None) -> Axis:
    picks = view.picks[dimension]
    values = _values(coordinate, picks, decode)
    if coordinate is None or values is None:
        return Axis(np.array(picks, np.float64), name or f"dimension {dimension}")
    attributes = coordinate.attrs.asdict()
    units = "" if values.dtype.kind == "M" else _units(attributes)
    label = str(attributes.get("long_name") or name)
    down = attributes.get("positive") == "down" or units.lower() in _PRESSURE
    return Axis(
        values,
        f"{label} ({units})" if units else label,
        angles=units.lower().startswith("degree"),
        upwards=values.dtype.kind == "f" and not down,
    )


def _values(coordinate: Array | None, picks: range | tuple[int, ...], decode: Decode | None) -> Values | None:
    """float64, datetime64 or text of a coordinate; None for other types, or if it cannot be read."""
    if coordinate is None or len(picks) > _MOST:
        return None
    try:
        picked = window(coordinate)._replace(picks=(picks,))
        values = (picked if decode is None else decode(picked)).read()
    except (DataError, InvalidInputError):
        return None
    if values.dtype.kind in "iu" or values.dtype.kind == "f":
        return values.astype(np.float64)
    return values if values.dtype.kind in "MUT" else None


def meanings(attributes: Mapping[str, object]) -> dict[float, str]:
    """The meanings of single values (CF conventions, section 3.5: flag_values and flag_meanings); empty if the attributes do not have them."""
    values, words = attributes.get("flag_values"), attributes.get("flag_meanings")
    if not isinstance(values, list) or not isinstance(words, str) or len(values) != len(words.split()):
        return {}
    # an integer in JSON may be greater than every float64
    if not all(
        isinstance(value, (int, float)) and (isinstance(value, float) or abs(value) < 2**64) for value in values
    ):
        return {}
    return {float(value): word.replace("_", " ") for value, word in zip(values, words.split(), strict=True)}
