"""The files of a cache on disk, as values: what their names say, and how their bytes are checked. No I/O.

A file holds one range of one version of one value. Its name says which; the value's store and key are in it as a hash alone, so that no name of a file tells a
path or a secret. Its bytes are a head (MAGIC, a CRC-32C of the name and the table, the table: a CRC-32C for each block) and the range. A file of another name, length
or content than it was written with is never believed."""

from __future__ import annotations

import re
import struct
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from frazil import _kernel
from frazil.record import Record

if TYPE_CHECKING:
    from frazil.stores.values import Version

__all__ = [
    "BLOCK",
    "LONGEST_VERSION",
    "SHARD",
    "Entry",
    "block_span",
    "entry_head",
    "head_size",
    "object_id",
    "parse_name",
    "read_head",
]

BLOCK: Final = 2**18  # bytes that are read and checked together
SHARD: Final = 3  # hexadecimal digits of the hash that name a folder
LONGEST_VERSION: Final = 64  # bytes; of a longer one nothing is kept, as names of files end somewhere

_MAGIC: Final = b"FRZLCCH1"
_CHECK: Final = struct.Struct("<I")
_NAME: Final = re.compile(
    rf"([0-9a-f]{{{32 - SHARD}}})\.(-|(?:[0-9a-f]{{2}})*)\.([0-9]{{1,19}})\.([0-9]{{1,19}})\.([0-9]{{1,19}})"
)


class Entry(Record):
    """What one file holds: bytes `start` to `end` of a value of `size` bytes. object: 32 digits, of store and key; version: None where the store tells none."""

    object: str
    version: Version | None
    start: int
    end: int
    size: int

    @property
    def folder(self) -> str:
        return self.object[:SHARD]

    @property
    def name(self) -> str:
        version = "-" if self.version is None else self.version.hex()
        return f"{self.object[SHARD:]}.{version}.{self.start}.{self.end}.{self.size}"


def object_id(identity: str, key: str) -> str:
    """32 hexadecimal digits for a key of the store that is told from others by `identity`."""
    data = f"{len(identity)} {identity}{key}".encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=16).hexdigest()


def parse_name(folder: str, name: str) -> Entry | None:
    """The entry of a file by its name; None where it is none of ours."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    digits, version, *numbers = found.groups()
    start, end, size = map(int, numbers)
    if not start < end <= size:
        return None
    return Entry(folder + digits, None if version == "-" else bytes.fromhex(version), start, end, size)


def _blocks(entry: Entry) -> int:
    return -(-(entry.end - entry.start) // BLOCK)


def head_size(entry: Entry) -> int:
    """Bytes before the range."""
    return len(_MAGIC) + _CHECK.size * (1 + _blocks(entry))


def entry_head(entry: Entry, value: bytes) -> bytes:
    """What comes before the range `value` in the file."""
    view = memoryview(value)
    table = b"".join(_CHECK.pack(_kernel.crc32c(view[at : at + BLOCK])) for at in range(0, len(value), BLOCK))
    return _MAGIC + _CHECK.pack(_check(entry, table)) + table


def read_head(entry: Entry, head: bytes) -> list[int] | None:
    """The checksums of the blocks of a file with this name; None where the head is not one of such a file."""
    table = head[len(_MAGIC) + _CHECK.size :]
    if len(head) != head_size(entry) or not head.startswith(_MAGIC + _CHECK.pack(_check(entry, table))):
        return None
    return [number for (number,) in _CHECK.iter_unpack(table)]


def _check(entry: Entry, table: bytes) -> int:
    return _kernel.crc32c(table, _kernel.crc32c(f"{entry.folder}/{entry.name}".encode()))


def block_span(entry: Entry, first: int, count: int) -> tuple[int, int]:
    """(first block, blocks) that hold the bytes first to first + count of the value, which are in the entry."""
    low = (first - entry.start) // BLOCK
    return low, max(-(-(first + count - entry.start) // BLOCK) - low, 1)
