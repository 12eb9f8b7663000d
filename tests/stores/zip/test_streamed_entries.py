"""Large deflated entries of zip archives, whose values come part by part (Fetched.stream)."""

from __future__ import annotations

import os
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest

from frazil.errors import ChecksumError, ConflictError, FormatError
from frazil.stores import CachingStore, LocalStore, ZipStore
from frazil.stores.transfer.value_copies import pieces_of_object
from frazil.stores.values import NO_SPANS
from frazil.testing.buffered_store import BufferedStore


def test_a_large_deflated_entry_is_copied_whole_or_not_at_all(tmp_path: Path) -> None:
    value, path, other = os.urandom(300_000), tmp_path / "a.zip", tmp_path / "b.zip"
    for archive, content in ((path, value), (other, value[::-1])):
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("a", content)
    source, target = ZipStore(path), LocalStore(tmp_path / "to")
    far = ZipStore("a.zip", store=BufferedStore(LocalStore(tmp_path)))
    near_parts, far_parts = (pieces_of_object(zip_, "a", zip_.fetch(["a"], NO_SPANS), 2**16) for zip_ in (source, far))
    begin = next(near_parts)
    next(far_parts)
    ZipStore(path).set("b", b"more")
    begin += next(near_parts)
    other.rename(path)
    assert begin + b"".join(near_parts) == value, "the open file"
    with pytest.raises(ConflictError, match="replaced"):
        list(far_parts)
    assert target.copy_in(["a"], source, ["a"], limit=2**16) == [len(value)]
    assert target.get("a") == value[::-1]
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"PK\1\2") + 16] ^= 1  # the checksum in the directory
    damaged[14] ^= 1  # and in the header
    path.write_bytes(damaged)
    with pytest.raises(ChecksumError):
        target.copy_in(["b"], source, ["a"], limit=2**16)
    assert target.list() == ["a"]


def test_bytes_behind_a_deflated_entry_are_an_error_at_once(tmp_path: Path) -> None:
    """They were all read, and kept."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        packed = zlib.compressobj(wbits=-15)
        file.writestr("a", packed.compress(b"few") + packed.flush() + bytes(2**22))
    data = bytearray(path.read_bytes())
    for mark, at in ((b"PK\1\2", 10), (b"PK\3\4", 8)):
        method = data.index(mark) + at
        data[method : method + 2] = b"\x08\0"
    path.write_bytes(data)
    source, reads = ZipStore(path), 0
    found = source.fetch(["a"], NO_SPANS)
    with pytest.raises(FormatError, match="does not have"):
        for _ in pieces_of_object(source, "a", found, 2**16):
            reads += 1
    assert reads == 1


def test_a_cache_over_an_archive_inflates_part_by_part(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", bytes(2**22))
    source, target = CachingStore(ZipStore(tmp_path / "a.zip"), 2**20), LocalStore(tmp_path / "to")
    tracemalloc.start()
    try:
        assert target.copy_in(["a"], source, ["a"], limit=2**18) == [2**22]
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert target.get("a") == bytes(2**22)
