"""Attribute files <-> values. The Icechunk specification (Attributes Files) leaves their form open; ours is one MessagePack array of maps, one for each node that
refers to the file, `location` its index. Which attributes go to such a file is decided in repository/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from frazil.formats.msgpack import Json, Reader, pack

__all__ = ["decode_attributes", "encode_attributes", "same_json"]


def decode_attributes(data: bytes, location: int, key: str | None = None) -> dict[str, Json]:
    """The attributes at one location. Raises FormatError, with `key` and the byte, for a file that has none there, or is no such file."""
    reader = Reader(data, key)
    count = reader.array("an attribute file")
    if not 0 <= location < count:
        raise reader.fail(f"an attribute file has {count} maps of attributes, and none at location {location}", 0)
    reader.skip("an attribute file", location)
    attributes = reader.members(f"the attributes at location {location}")
    reader.skip("an attribute file", count - location - 1)
    reader.finish("the attribute file")
    return attributes


def encode_attributes(maps: Sequence[Mapping[str, Json]]) -> bytes:
    """The bytes of a file with these maps. Raises InvalidInputError for what is no JSON."""
    return pack([pack(attributes) for attributes in maps])


def same_json(left: Json, right: Json) -> bool:
    """Whether two values are the same JSON: to Python 1, 1.0 and True are equal, and a NaN is not itself."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_json(value, right[name]) for name, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same_json, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (isnan(left) and isnan(right))
    # true is not 1, and 1 is not 1.0
    kinds = [(isinstance(value, bool), isinstance(value, float)) for value in (left, right)]
    return kinds[0] == kinds[1] and left == right
