"""Converts attribute files. The Icechunk specification (Attributes Files) leaves their form open. Frazil's is one MessagePack array of maps, one for each node
that refers to the file; `location` is the index. repository/ decides which attributes go to such a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.formats.json_values import Json
from frazil.formats.msgpack import Reader, pack


def decode_attributes(data: bytes, location: int, key: str | None = None) -> dict[str, Json]:
    """The attributes at one location. Raises FormatError, with `key` and the byte, for an invalid file, or one without this location."""
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
    """The bytes of a file with these maps. Raises InvalidInputError for values that are not JSON."""
    return pack([pack(attributes) for attributes in maps])
