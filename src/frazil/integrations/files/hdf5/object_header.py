"""What the object header of an HDF5 dataset says about its chunks, and neither h5py nor the HDF5 library does. Reads bytes of the file.

See "Data Object Headers" and "Data Layout Message" in HDF5's specification."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from frazil.base.record import Record

_LAYOUT, _CONTINUATION = 8, 16  # types of messages
_CHUNKED: Final = 2
_SIGNATURE, _BLOCK = b"OHDR", b"OCHK"  # of version 2
_CHECKSUM: Final = 4  # bytes
_PREFIX_1: Final = 16  # bytes of a header of version 1 before its messages
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
    """The type and the bytes of each message of a header; none if it is no header."""
    head = read(start, _PREFIX_1)
    if len(head) < _PREFIX_1:
        return
    if head[:4] == _SIGNATURE:
        flags = head[5]
        before = 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)  # times, and limits of attributes
        width = 1 << (flags & 3)
        blocks = [(start + before + width, int.from_bytes(read(start + before, width), "little"))]
        type_bytes, prefix = 1, 6 if flags & 4 else 4  # of a message; with the order in which it was created
        before_block, after_block = len(_BLOCK), _CHECKSUM
    elif head[0] == 1:
        blocks = [(start + _PREFIX_1, int.from_bytes(head[8:12], "little"))]
        type_bytes, prefix, before_block, after_block = 2, 8, 0, 0
    else:
        return
    for _ in range(_MOST_BLOCKS):
        if not blocks:
            return
        data, at = read(*blocks.pop(0)), 0
        while at + prefix <= len(data):
            of_size = at + type_bytes
            kind, size = data[at], int.from_bytes(data[of_size : of_size + 2], "little")
            message = data[at + prefix : at + prefix + size]
            at += prefix + size
            if kind == _CONTINUATION:
                place, length = (
                    int.from_bytes(part, "little") for part in (message[: sizes[0]], message[sizes[0] : sum(sizes)])
                )
                blocks.append((base + place + before_block, max(0, length - before_block - after_block)))
            yield kind, message
