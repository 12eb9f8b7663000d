"""The numbers in OME-XML that tifffile believes: it makes lists of all planes that the text declares, however few the file has. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from xml.etree import ElementTree as ET

_MOST: Final = 2**62  # numbers of thousands of digits cannot be shown


def declared_planes(text: str, page_size: Callable[[int], int | None]) -> int:
    """How many items tifffile would list for the images of this text. page_size: elements of a page of the file, by its number; None if there is no such page.
    0 for text that is not XML, which tifffile leaves out."""
    try:
        root = ET.fromstring(text)  # noqa: S314 # tifffile parses it, too
    except ET.ParseError:
        return 0
    return sum(min(_items(element, page_size), _MOST) for element in root.iter())


def _items(element: ET.Element[Any], page_size: Callable[[int], int | None]) -> int:
    """How many items an element declares. Values that are no numbers are errors of tifffile."""
    found, name = element.attrib, element.tag
    with suppress(ValueError, KeyError, OverflowError, ZeroDivisionError):
        if name.endswith("Pixels"):
            shape = [abs(int(found[f"Size{axis}"])) for axis in reversed(found["DimensionOrder"])]
            return max(math.prod(shape[:-2]), math.prod(shape) // _plane_size(element, page_size))
        if name.endswith("TiffData"):
            return max(int(found.get(count, 0)) for count in ("NumPlanes", "PlaneCount"))
        if name[:-1].endswith("Along"):  # labels along a dimension, as a range
            return int((float(found["End"]) - float(found["Start"])) / float(found.get("Step", 1)))
    return 0


def _plane_size(pixels: ET.Element[Any], page_size: Callable[[int], int | None]) -> int:
    """The fewest elements of the pages that tifffile may take as the model of an image's planes: those of its first plane, and the first page of the file.
    Without such a page it leaves the image out."""
    data = [element.attrib for element in pixels if element.tag.endswith("TiffData")]
    first = [found for found in data if all(value == "0" for name, value in found.items() if name.startswith("First"))]
    for planes in (first, data):
        numbers = {int(found.get("IFD", 0)) for found in planes}
        if any(int(found.get("IFD", 0)) <= 0 for found in data):
            numbers.add(0)
        sizes = [size for number in sorted(numbers) if (size := page_size(number)) is not None]
        if sizes:
            return max(min(sizes), 1)
    return _MOST
