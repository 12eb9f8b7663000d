"""What the object header of an HDF5 dataset says about its chunks, and neither h5py nor the HDF5 library does. Reads bytes of the file.

Only headers of version 2 are searched: those of version 1 have none of this. See "Data Object Headers" and "Data Layout Message" in HDF5's specification."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from frazil.base.record import Record

_LAYOUT, _CONTINUATION = 8, 16  # types of messages
_CHUNKED: Final = 2
_SIGNATURE, _BLOCK = b"OHDR", b"OCHK"
_CHECKSUM: Final = 4  # bytes
_MOST_BLOCKS: Final = 2**10  # of one header; a damaged one may lead back to itself


class ChunkLayout(Record):
    """indexed: by one of the indexes of version 4 of the layout, not by a B-tree of version 1;  bare_edges: chunks that the end of the dataset cuts are stored
    without filters"""

    indexed: bool
    bare_edges: bool


def chunk_layout(read: Callable[[int, int], bytes], address: int, base: int, sizes: tuple[int, int]) -> ChunkLayout:
    """The layout of the chunked dataset whose object header is at an address.

    read   reads bytes of the file: (offset, length);  base: the offset of address 0
    sizes  bytes of an address and of a length in this file"""
    for kind, data in _messages(read, base + address, base, sizes):
        if kind == _LAYOUT and len(data) > 2 and data[0] > 3 and data[1] == _CHUNKED:
            return ChunkLayout(True, bool(data[2] & 1))
    return ChunkLayout(False, False)


def _messages(
    read: Callable[[int, int], bytes], start: int, base: int, sizes: tuple[int, int]
) -> Iterator[tuple[int, bytes]]:
    """The type and the bytes of each message of a header; none if it is not of version 2."""
    head = read(start, 6)
    if head[:4] != _SIGNATURE or len(head) < 6:
        return
    flags = head[5]
    before = 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)  # times, and limits of attributes
    width = 1 << (flags & 3)
    length = int.from_bytes(read(start + before, width), "little")
    blocks = [(start + before + width, length)]
    prefix = 6 if flags & 4 else 4  # of a message; with the order in which it was created
    for _ in range(_MOST_BLOCKS):
        if not blocks:
            return
        data, at = read(*blocks.pop(0)), 0
        while at + prefix <= len(data):
            kind, size = data[at], int.from_bytes(data[at + 1 : at + 3], "little")
            message = data[at + prefix : at + prefix + size]
            at += prefix + size
            if kind == _CONTINUATION:
                place, length = (
                    int.from_bytes(part, "little") for part in (message[: sizes[0]], message[sizes[0] : sum(sizes)])
                )
                blocks.append((base + place + len(_BLOCK), max(0, length - len(_BLOCK) - _CHECKSUM)))
            yield kind, message
