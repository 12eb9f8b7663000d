"""Parses the text of a selection for the command line: the part between the brackets in Python. Nothing is evaluated; indexing checks whether it fits an
array."""

from __future__ import annotations

import re
from typing import Final

from frazil.errors import SelectionError

_PARTS: Final = re.compile(r"\[[^][]*\]|[^,\[\]]+|(,)|(.)")
_INTEGER: Final = re.compile(r"[+-]?\d{1,30}", re.ASCII)


def parse_selection(text: str) -> tuple[object, ...]:
    """Integers, slices, lists of integers and "...", between commas: "10, ::-2, ..." or "[3, 1], 5:". Each item is for its own dimension.
    Raises SelectionError where the text is not one of these."""
    items: list[object] = []
    wants_item = True
    for found in _PARTS.finditer(text):
        part = found[0].strip()
        if not part:
            continue
        if found[2] is not None or (found[1] is None) != wants_item:
            raise _refusal(text, part)
        if wants_item:
            items.append(_item(part, text))
        wants_item = not wants_item
    if not items:
        raise _refusal(text, text)
    return tuple(items)


def _item(part: str, text: str) -> object:
    if part == "...":
        return Ellipsis
    if part.startswith("["):
        inner = part[1:-1].strip()
        return [_integer(number.strip(), text) for number in inner.removesuffix(",").split(",")] if inner else []
    if ":" not in part:
        return _integer(part, text)
    bounds = [None if not bound.strip() else _integer(bound.strip(), text) for bound in part.split(":")]
    if len(bounds) > 3:
        raise _refusal(text, part)
    return slice(*bounds)


def _integer(part: str, text: str) -> int:
    if _INTEGER.fullmatch(part) is None:
        raise _refusal(text, part)
    return int(part)


def _refusal(text: str, part: str) -> SelectionError:
    return SelectionError(
        f"{part!r} in the selection {text!r} is not an integer, slice, list of integers or ...",
        hint='write it as in Python: "10, ::-2, ..."',
    )
