"""A slow reference implementation of manifests, value by value, for the differential tests of the kernel. Its MessagePack has only the types of manifests.

A manifest is a dictionary here: (node, indices) -> Inline, Ref or Virtual."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
STRUCTS = {
    "manifest": ("icechunk_manifest_format_version", "icechunk_manifest_format_flags", "chunks"),
    "ref": ("id", "offset", "length"),
    "virtual": ("location", "offset", "length"),
}


class Inline(NamedTuple):
    data: bytes


class Ref(NamedTuple):
    id: bytes
    offset: int
    length: int


class Virtual(NamedTuple):
    location: str
    offset: int
    length: int


Payload = Inline | Ref | Virtual
Model = dict[tuple[int, tuple[int, ...]], Payload]


class Refused(Exception):
    """Content that a manifest must not have."""


class Pairs(list[tuple[Any, Any]]):
    """A map in the form of the file."""


class Packed(bytes):
    """Bytes in the form of the file."""


def need(fine: object) -> None:
    if not fine:
        raise Refused


# --- MessagePack ------------------------------------------------------------------------------------------------------------------------


def number(value: int, width: int = 0) -> bytes:
    """The shortest form, or one with `width` bytes after its marker."""
    if value < 128 and not width:
        return bytes([value])
    width = max(width, next(width for width in (1, 2, 4, 8) if value < 256**width))
    return bytes([{1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF}[width]]) + value.to_bytes(width, "big")


def head(count: int, short: int, most: int, markers: Mapping[int, int]) -> bytes:
    if count <= most:
        return bytes([short | count])
    width = next(width for width in markers if count < 256**width)
    return bytes([markers[width]]) + count.to_bytes(width, "big")


def pack(value: Any) -> bytes:
    match value:
        case Packed():
            return bytes(value)
        case int():
            return number(value)
        case str():
            text = value.encode()
            return head(len(text), 0xA0, 31, {1: 0xD9, 2: 0xDA, 4: 0xDB}) + text
        case bytes():
            return head(len(value), 0, -1, {1: 0xC4, 2: 0xC5, 4: 0xC6}) + value
        case Pairs():
            inside = b"".join(pack(key) + pack(item) for key, item in value)
            return head(len(value), 0x80, 15, {2: 0xDE, 4: 0xDF}) + inside
        case _:
            return head(len(value), 0x90, 15, {2: 0xDC, 4: 0xDD}) + b"".join(map(pack, value))


class Unpacker:
    """Integers as int, strings as bytes in a `Text`, binary data as bytes, arrays as list, maps as Pairs, all else as None."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        need(count <= len(self.data) - self.at)
        self.at += count
        return self.data[self.at - count : self.at]

    def sized(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def value(self) -> Any:
        marker = self.take(1)[0]
        need(marker != 0xC1)
        if marker < 0x80 or marker >= 0xE0:
            return marker if marker < 0x80 else marker - 256
        if marker < 0xC0:
            return self._many(*((marker & 31, 2) if marker >= 0xA0 else (marker & 15, marker >> 4 & 1)))
        if marker in (0xC0, 0xC2, 0xC3):
            return None
        if marker <= 0xC6:
            return self.take(self.sized(1 << marker - 0xC4))
        if marker in (0xCA, 0xCB) or 0xC7 <= marker <= 0xC9 or 0xD4 <= marker <= 0xD8:
            if marker <= 0xC9:
                count = self.sized(1 << marker - 0xC7) + 1
            else:
                count = {0xCA: 4, 0xCB: 8}.get(marker) or (1 << marker - 0xD4) + 1
            self.take(count)
            return None
        if marker <= 0xD3:
            return int.from_bytes(self.take(1 << (marker & 3)), "big", signed=marker >= 0xD0)
        if marker <= 0xDB:
            return self._many(self.sized(1 << marker - 0xD9), 2)
        return self._many(self.sized(2 << (marker & 1 if marker >= 0xDE else marker - 0xDC)), int(marker < 0xDE))

    def _many(self, count: int, kind: int) -> Any:
        if kind == 2:
            return Text(self.take(count))
        need(count * (2 - kind) <= len(self.data) - self.at)
        if kind == 1:
            return [self.value() for _ in range(count)]
        return Pairs((self.value(), self.value()) for _ in range(count))


class Text(bytes):
    """A string, which may be invalid UTF-8."""


# --- manifests --------------------------------------------------------------------------------------------------------------------------


def encode_id(value: bytes) -> str:
    bits = int.from_bytes(value, "big") << 4
    return "".join(ALPHABET[bits >> shift & 31] for shift in range(95, -1, -5))


def decode_id(text: Any) -> bytes:
    need(isinstance(text, Text) and len(text) == 20 and text.isascii())
    letters = text.decode().upper().translate(str.maketrans("OIL", "011"))
    need(set(letters) <= set(ALPHABET))
    return (sum(ALPHABET.index(letter) << 95 - 5 * i for i, letter in enumerate(letters)) >> 4).to_bytes(12, "big")


def fields(value: Any, kind: str) -> list[Any]:
    names = STRUCTS[kind]
    if isinstance(value, Pairs):
        need(all(isinstance(name, Text) for name, _ in value))
        known = [name for name, _ in value if name in [name.encode() for name in names]]
        need(len(set(known)) == len(known) == len(names))
        return [dict(value)[Text(name.encode())] for name in names]
    need(isinstance(value, list) and len(value) == len(names))
    return list(value)


def variant(value: Any) -> tuple[bytes, Any]:
    need(isinstance(value, Pairs) and len(value) == 1 and isinstance(value[0][0], Text))
    return value[0][0], value[0][1]


def natural(value: Any, limit: int) -> int:
    need(isinstance(value, int) and 0 <= value < limit)
    return int(value)


def utf8(value: Any) -> str:
    need(isinstance(value, Text))
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as error:
        raise Refused from error


def payload(value: Any) -> Payload:
    name, inside = variant(value)
    if name == b"Inline":
        need(type(inside) is bytes)
        return Inline(inside)
    need(name in (b"Ref", b"Virtual"))
    where, offset, length = fields(inside, name.decode().lower())
    need(natural(offset, 2**63) + natural(length, 2**63) < 2**63)
    if name == b"Ref":
        return Ref(decode_id(where), offset, length)
    kind, location = variant(where)
    need(kind == b"Absolute")
    return Virtual(utf8(location), offset, length)


def decode(data: bytes) -> tuple[bytes, Model]:
    """The flags in the form of the file, and the references. Raises Refused for an invalid manifest."""
    unpacker = Unpacker(data)
    try:
        version, flags, chunks = fields(unpacker.value(), "manifest")
    except RecursionError as error:
        raise Refused from error
    need(unpacker.at == len(data))
    need(natural(version, 2**64) == 0)
    need(isinstance(flags, Pairs) and isinstance(chunks, Pairs))
    for name, _ in flags:
        utf8(name)
    model: Model = {}
    for key, value in chunks:
        need(isinstance(key, list) and len(key) == 2 and isinstance(key[1], list))
        indices = tuple(natural(index, 2**32) for index in key[1])
        model[natural(key[0], 2**32), indices] = payload(value)
    return b"", model


def encode(model: Model, flags: bytes = b"\x80") -> bytes:
    """The file that the library of the alpha writes."""
    return pack([0, Packed(flags), Pairs((key, plain(model[key])) for key in sorted(model))])


def plain(value: Payload) -> Pairs:
    match value:
        case Inline(data):
            return Pairs([("Inline", data)])
        case Ref(id, offset, length):
            return Pairs([("Ref", [encode_id(id), offset, length])])
        case Virtual(location, offset, length):
            return Pairs([("Virtual", [Pairs([("Absolute", location)]), offset, length])])


def pairs_of(model: Mapping[tuple[int, tuple[int, ...]], Payload]) -> Iterable[tuple[Any, Any]]:
    return ((key, plain(value)) for key, value in model.items())
