"""Archives that are damaged or dangerous: each is refused by name, with an error of ours, and none is read wrongly."""

from __future__ import annotations

import io
import random
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ChecksumError, DataError, FormatError, StoreError
from frazil.stores import MemoryStore, ZipStore
from frazil.stores.values import up_to, whole_spans
from frazil.testing import CountingStore


def archive(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, value in entries.items():
            made.writestr(zipfile.ZipInfo(name) if method == 0 else name, value)
    return file.getvalue()


def opened(raw: bytes) -> ZipStore:
    store = MemoryStore()
    store.set("x.zip", raw)
    return ZipStore("x.zip", store=store)


PLAIN = {"a": b"hello", "b/c": b"x" * 100}
RAW = archive(PLAIN)
PACKED = archive({"a": bytes(10_000), "b": b"y" * 1000}, zipfile.ZIP_DEFLATED)


def patched(raw: bytes, *changes: tuple[bytes, int, str, int]) -> bytes:
    """Changes numbers in records: of the n-th record with a signature, at an offset in it."""
    data = bytearray(raw)
    for signature, place, form, value in changes:
        at = raw.index(signature)
        struct.pack_into("<" + form, data, at + place, value)
    return bytes(data)


CENTRAL, LOCAL, END = b"PK\1\2", b"PK\3\4", b"PK\5\6"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (patched(RAW, (CENTRAL, 8, "H", 1)), "encrypted"),
        (patched(RAW, (CENTRAL, 10, "H", 12)), r"method is not known here \(12\)"),
        (patched(RAW, (CENTRAL, 34, "H", 1)), "another part"),
        (patched(RAW, (END, 4, "H", 1)), "several parts"),
        (patched(RAW, (END, 8, "H", 3)), "several parts"),
        (patched(RAW, (END, 8, "H", 3), (END, 10, "H", 3)), "too few"),
        (patched(RAW, (END, 8, "H", 1), (END, 10, "H", 1)), "is damaged"),
        (patched(RAW, (END, 8, "H", 60_000), (END, 10, "H", 60_000)), "too few"),
        (patched(RAW, (END, 12, "I", 5)), "should end at byte"),
        (patched(RAW, (END, 16, "I", 2**31)), "should end at byte"),
        (patched(RAW, (CENTRAL, 42, "I", 2**31)), "ends beyond"),
        (patched(RAW, (CENTRAL, 42, "I", 36)), "overlap"),
        (patched(RAW, (CENTRAL, 20, "I", 50), (CENTRAL, 24, "I", 50)), "overlap"),
        (patched(RAW, (CENTRAL, 24, "I", 50)), "two sizes"),
        (patched(RAW, (CENTRAL, 42, "I", 2**32 - 1)), "missing, or too large"),
        (patched(PACKED, (CENTRAL, 24, "I", 2**31)), "bomb"),
        (patched(RAW, (CENTRAL, 0, "I", 0)), "is damaged"),
        (b"MZ" * 100 + RAW, "should end at byte"),
        (RAW[:-30], "the end record of the zip archive is missing"),
        (b"", "the end record of the zip archive is missing"),
        (b"no archive", "the end record of the zip archive is missing"),
        (archive({"../a": b""}), "outside the archive"),
        (archive({"/a": b""}), "outside the archive"),
        (archive({"a/../../b": b""}), "outside the archive"),
        (archive({"a//b": b""}), "outside the archive"),
        (archive({"a\\b": b""}), "backslash"),
        (archive({"../": b""}), "outside the archive"),
    ],
)
def test_refused_by_its_directory(raw: bytes, problem: str) -> None:
    store = opened(raw)
    for call in (store.list, lambda: store.get("a"), lambda: store.exists("nothing")):
        with pytest.raises(FormatError) as caught:
            call()
        assert re.search(problem, f"{caught.value}")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (patched(RAW, (LOCAL, 0, "I", 0)), "its header is missing"),
        (patched(RAW, (LOCAL, 6, "H", 1)), "encrypted"),
        (patched(RAW, (LOCAL, 8, "H", 8)), "another compression method"),
        (patched(RAW, (LOCAL, 14, "I", 7)), "another checksum"),
        (patched(RAW, (LOCAL, 18, "I", 7)), "another size"),
        (patched(RAW, (LOCAL, 26, "H", 2)), "another length"),
        (patched(RAW, (LOCAL, 28, "H", 9)), "overlaps"),
        (patched(RAW, (LOCAL, 30, "B", 98)), "another name"),
    ],
)
def test_refused_by_its_header(raw: bytes, problem: str) -> None:
    store = opened(raw)
    with pytest.raises(FormatError, match=problem) as caught:
        store.get("a")
    assert caught.value.key == "a"
    assert store.get("b/c") == PLAIN["b/c"], "others can be read"


def test_inflated_bytes_must_match_the_directory() -> None:
    for size in (9_999, 10_001, 5):
        store = opened(patched(PACKED, (CENTRAL, 24, "I", size), (LOCAL, 22, "I", size)))
        with pytest.raises(FormatError, match="does not have"):
            store.get("a")
    with pytest.raises(ChecksumError):
        opened(patched(PACKED, (CENTRAL, 16, "I", 1), (LOCAL, 14, "I", 1))).get("a")
    broken = patched(PACKED, (LOCAL, 31, "I", 2**32 - 1))
    with pytest.raises(FormatError, match="inflated"):
        opened(broken).get("a")
    with pytest.raises(StoreError, match="at most 100"):
        opened(PACKED).fetch(["a"], whole_spans(1, up_to(100)))


@pytest.mark.parametrize("size", [5, 200, 100_000, 3_000_000])
def test_stored_entries_have_the_checksum_of_the_directory(tmp_path: Path, size: int) -> None:
    """For entries in a file, in memory or behind requests. A part of an entry cannot be checked."""
    values = {"a": b"x" * 64, "b": random.Random(1).randbytes(size), "c": b"y" * 64}
    raw = archive(values)
    at = raw.index(values["b"]) + size // 2
    damaged = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
    for name, content in (("whole.zip", raw), ("damaged.zip", damaged)):
        (tmp_path / name).write_bytes(content)
    (kept := MemoryStore()).set("x.zip", damaged)
    for store in (
        ZipStore(tmp_path / "damaged.zip"),
        opened(damaged),
        ZipStore("x.zip", store=CountingStore(kept)),
    ):
        assert store.get_many(["a", "c"]) == [values["a"], values["c"]]
        with pytest.raises(ChecksumError, match="checksum of an entry") as caught:
            store.get_many(["a", "b", "c"])
        assert caught.value.key == "b"
        assert store.get_partial_values([("b", (0, size // 2))]) == [values["b"][: size // 2]]
    assert ZipStore(tmp_path / "whole.zip").get_many(list(values)) == list(values.values())


def test_bombs_of_entries_that_overlap() -> None:
    """Many records for one entry, as in bombs that expand a small file to terabytes."""
    data = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = data.compress(bytes(2**20)) + data.flush()
    name, checksum = b"a", zlib.crc32(bytes(2**20))
    head = struct.pack("<4sHHHHHIIIHH", LOCAL, 20, 0, 8, 0, 0, checksum, len(packed), 2**20, 1, 0) + name + packed
    records = b"".join(
        struct.pack(
            "<4sHHHHHHIIIHHHHHII", CENTRAL, 20, 20, 0, 8, 0, 0, checksum, len(packed), 2**20, 1, 0, 0, 0, 0, 0, 0
        )
        + bytes([97 + i])
        for i in range(20)
    )
    raw = head + records + struct.pack("<4sHHHHIIH", END, 0, 0, 20, 20, len(records), len(head), 0)
    with pytest.raises(FormatError, match="overlaps"):
        opened(raw).get("a")


def test_the_last_of_several_entries_of_one_name_counts() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in (b"old", b"older", b"new"):
            made.writestr("a", value)
        made.mkdir("folder")
    store = opened(file.getvalue())
    assert store.get_partial_values([("a", (0, None)), ("folder", (0, None))]) == [b"new", None]
    assert store.list() == ["a"]


def test_ranges_end_with_their_entry() -> None:
    store = opened(RAW)
    assert store.get_partial_values([("a", (3, 100)), ("a", (-100, 100)), ("a", (9, 2))]) == [b"lo", b"hello", b""]


def known(call: Callable[[], object]) -> None:
    with suppress(DataError, StoreError):
        call()


@given(st.data())
def test_damaged_archives_raise_errors_of_ours(data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from([RAW, PACKED])))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 30))
    store = opened(bytes(raw[cut:] if data.draw(st.booleans()) else raw[: len(raw) - cut]))
    for call in (
        store.list,
        lambda: store.get("a"),
        lambda: store.get("b/c"),
        lambda: store.get_partial_values([("b", (-5, 5))]),
    ):
        known(call)
