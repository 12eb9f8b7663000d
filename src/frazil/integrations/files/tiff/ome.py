"""The numbers in OME-XML that tifffile believes: it makes lists of all planes that the text declares, however few the file has. Pure."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Final
from xml.etree import ElementTree as ET

_MOST: Final = 2**62  # numbers of thousands of digits cannot be shown


def declared_planes(text: str, page_size: int) -> int:
    """How many items tifffile would list for the images of this text. page_size: elements of a page. 0 for text that is not XML, which tifffile leaves out."""
    try:
        root = ET.fromstring(text)  # noqa: S314 # tifffile parses it, too
    except ET.ParseError:
        return 0
    return sum(min(_items(element, page_size), _MOST) for element in root.iter())


def _items(element: ET.Element[Any], page_size: int) -> int:
    """How many items an element declares. Values that are no numbers are errors of tifffile."""
    found, name = element.attrib, element.tag
    with suppress(ValueError, KeyError, OverflowError, ZeroDivisionError):
        if name.endswith("Pixels"):
            planes = abs(math.prod([int(found[f"Size{axis}"]) for axis in "ZCT"]))
            return max(planes, planes * abs(int(found["SizeX"]) * int(found["SizeY"])) // max(page_size, 1))
        if name.endswith("TiffData"):
            return max(int(found.get(count, 0)) for count in ("NumPlanes", "PlaneCount"))
        if name[:-1].endswith("Along"):  # labels along a dimension, as a range
            return int((float(found["End"]) - float(found["Start"])) / float(found.get("Step", 1)))
    return 0
