"""Bad columns are a ValueError before anything is written; bad bytes are failures with their code; neither changes other results."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil import _kernel
from tests.kernel import reference
from tests.kernel.cases import COMPRESSORS, columns, store
from tests.kernel.reference import Codec

BOX = columns([[[(0, 100, 1, 0)]]], 1)
DATA = bytes(i // 7 % 50 for i in range(200))
MAX = 2**63 - 1
VALUE_ROW = np.array([[-1, 0, -1]])


def program(*codecs: Codec) -> _kernel.Program:
    return _kernel.program((100,), 2, (0,), [], codecs, b"\0\0")


def decode(codecs: tuple[Codec, ...], value: bytes, row: tuple[int, int, int] | None = None) -> tuple[int, bytes]:
    """The code of the failure (0: none), and the output."""
    out = np.full(100, 7, np.uint16)
    rows = np.array([row or (-1, 0, len(value))], np.int64)
    failures = _kernel.decode_chunks(program(*codecs), None, [value], rows, None, BOX, out, 1)
    assert all(unit == 0 and text for unit, _, text in failures)
    return (failures[0][1] if failures else 0), out.tobytes()


def encode(codecs: tuple[Codec, ...], value: bytes = DATA) -> bytes:
    return bytes(*_kernel.encode_bytes(codecs, [value], 1))


CHAINS: list[tuple[Codec, ...]] = [
    (),
    (("crc32c",),),
    (("fletcher32",),),
    (("shuffle", 4),),
    (("shuffle", 4), ("zlib", 6), ("fletcher32",)),
    *((codec,) for codec in COMPRESSORS),
    (("gzip", 1), ("zstd", 1, False)),
    (("zstd", 1, False), ("crc32c",), ("blosc", "lz4", 1, 1, 2, 0)),
]


@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_an_encoded_chunk_cut_at_any_byte_is_an_error(chain: tuple[Codec, ...]) -> None:
    value = encode(chain)
    assert decode(chain, value) == (0, DATA)
    for end in range(len(value)):
        assert decode(chain, value[:end])[0] in (_kernel.FAILED_DECODE, _kernel.FAILED_SIZE, _kernel.FAILED_CHECKSUM)
    if chain[-1:] != (("crc32c",),):
        assert decode(chain, value + b"more")[0] != 0


@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_flipped_bits_are_refused_or_harmless(chain: tuple[Codec, ...]) -> None:
    value = bytearray(encode((*chain, ("crc32c",))))
    for bit in range(0, len(value) * 8, 3):
        value[bit // 8] ^= 1 << bit % 8
        assert decode((*chain, ("crc32c",)), bytes(value))[0] != 0
        decode(chain, bytes(value[:-4]))  # without a checksum it may decode to another value
        value[bit // 8] ^= 1 << bit % 8


@given(st.sampled_from(COMPRESSORS), st.binary(max_size=100), st.integers(0, 60))
def test_random_bytes_are_refused_or_harmless(codec: Codec, junk: bytes, keep: int) -> None:
    value = encode((codec,))[:keep] + junk
    around = np.full(300, 7, np.uint16)
    failures = _kernel.decode_chunks(program(codec), None, [value], VALUE_ROW, None, BOX, around[100:200], 1)
    assert (around[:100] == 7).all()
    assert (around[200:] == 7).all()
    assert [unit for unit, _, _ in failures] in ([], [0])
    assert {code for _, code, _ in failures} <= {_kernel.FAILED_DECODE, _kernel.FAILED_SIZE, _kernel.FAILED_CHECKSUM}
    lengths = np.zeros(1, np.int64)
    segments, again = _kernel.decode_bytes([codec], None, [value], VALUE_ROW, np.array([200]), lengths, 1)
    if not failures:
        assert again == []
        assert lengths.tolist() == [200]
        assert bytes(segments[0])[:200] == around[100:200].tobytes()
    assert again or lengths[0] <= 200


def test_codes_identify_the_fault() -> None:
    zstd = ("zstd", 3, True)
    frame = bytearray(encode((zstd,)))
    assert decode((zstd,), encode((zstd,), DATA + b"x"))[0] == _kernel.FAILED_SIZE
    assert decode((zstd,), encode((zstd,), DATA[1:]))[0] == _kernel.FAILED_SIZE
    frame[-1] ^= 1
    assert decode((zstd,), bytes(frame))[0] == _kernel.FAILED_CHECKSUM
    crc = bytearray(encode((("crc32c",),)))
    crc[5] ^= 1
    assert decode((("crc32c",),), bytes(crc))[0] == _kernel.FAILED_CHECKSUM
    assert decode((zstd,), b"junk" * 9)[0] == _kernel.FAILED_DECODE
    assert decode((), DATA[:-1])[0] == _kernel.FAILED_SIZE


def test_unusual_but_legal_frames_decode() -> None:
    half = len(DATA) // 2
    zstd, gz = ("zstd", 1, False), ("gzip", 1)
    first, second = (encode((zstd,), part) for part in (DATA[:half], DATA[half:]))
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    assert decode((zstd,), first + second) == (0, DATA)
    assert decode((zstd,), skippable + first + skippable + second + skippable) == (0, DATA)
    members = [gzip.compress(part, mtime=5) for part in (DATA[:half], b"", DATA[half:])]
    assert decode((gz,), b"".join(members) + b"\0" * 7) == (0, DATA)
    stored = zlib.compressobj(0)
    assert decode((("zlib", 1),), stored.compress(DATA) + stored.flush()) == (0, DATA)
    zstandard = pytest.importorskip("zstandard")
    sizeless = zstandard.ZstdCompressor(write_content_size=False).compress(DATA)
    assert decode((zstd,), sizeless) == (0, DATA)


@pytest.mark.parametrize("codec", COMPRESSORS, ids=str)
def test_bombs_fail_by_size(codec: Codec) -> None:
    bomb = encode((codec,), bytes(20 << 20))
    for chain in ((codec,), (("gzip", 1), codec), (("crc32c",), codec)):
        assert decode(chain, bomb)[0] == _kernel.FAILED_SIZE
    lengths = np.zeros(1, np.int64)
    rows = np.array([[-1, 0, -1]])
    answer = _kernel.decode_bytes([codec], None, [bomb], rows, np.array([1 << 20]), lengths, 1)
    assert [failure[:2] for failure in answer[1]] == [(0, _kernel.FAILED_SIZE)]
    assert lengths[0] == -1


def test_a_header_with_a_wrong_size_is_refused() -> None:
    for codec in COMPRESSORS:
        if codec[0] == "blosc":
            value = encode((codec,))
            for at, lie in [(4, 2**31 - 1), (4, 0), (8, 2**31 - 1), (8, 0), (12, 2**31 - 1), (12, 16)]:
                assert decode((codec,), value[:at] + lie.to_bytes(4, "little") + value[at + 4 :])[0] != 0
    value = encode((("lz4", 1),))
    for lie in (0, 1, len(DATA) - 1, len(DATA) + 1, 2**31, 2**32 - 1):
        assert decode((("lz4", 1),), lie.to_bytes(4, "little") + value[4:])[0] != 0
    size = b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little")  # a frame of 4 EiB
    assert decode((("zstd", 1, False),), size + b"\x01\0\0")[0] != 0


@pytest.mark.parametrize("length", [-1, 0, 50, MAX, -(2**63)])
@pytest.mark.parametrize("start", [-1, -500, 500, MAX, -(2**63) + 1])
def test_rows_outside_their_object(tmp_path: Path, start: int, length: int) -> None:
    if start == -1 and length < 1:
        pytest.skip("inside")
    assert decode((), DATA, (-1, start, length))[0] == _kernel.FAILED_RANGE
    for where in ("file", "late"):
        stored = store(tmp_path, [DATA], lambda i, where=where: where)  # type: ignore[misc]
        out = np.zeros(100, np.uint16)
        for codecs in ((), (("zstd", 1, True),)):
            rows = np.array([(stored.rows[0, 0], start, length)])
            found = _kernel.decode_chunks(program(*codecs), stored.files, [], rows, None, BOX, out, 1)
            assert [failure[:2] for failure in found] == [(0, _kernel.FAILED_RANGE)]
        assert not out.any()


def test_the_first_wrong_row_of_each_object_is_reported(tmp_path: Path) -> None:
    (tmp_path / "shared").write_bytes(DATA * 3)
    (tmp_path / "other").write_bytes(DATA)
    root = os.open(tmp_path, os.O_RDONLY)
    files = _kernel.open_files(root, ["shared", "other"], np.zeros((2, 4), np.int64))
    os.close(root)
    rows = np.array([(0, 0, 200), (0, 200, 199), (1, 0, 200), (0, 500, 200)])
    out = np.zeros((4, 100), np.uint16)
    boxes = columns([[[(i, 1, 1, 0)][:0] or [(0, 1, 1, i)], [(0, 100, 1, 0)]] for i in range(4)], 2)
    made = _kernel.program((1, 100), 2, (0, 1), [], [], b"\0\0")
    found = _kernel.decode_chunks(made, files, [], rows, None, boxes, out, 1)
    assert [failure[:2] for failure in found] == [(1, _kernel.FAILED_SIZE)]
    rows[2, 2] = 201
    found = _kernel.decode_chunks(made, files, [], rows, None, boxes, out, 2)
    assert [failure[:2] for failure in found] == [(1, _kernel.FAILED_SIZE), (2, _kernel.FAILED_RANGE)]
    assert out[0].tobytes() == out[2].tobytes() == DATA


def test_failed_objects_are_reported_in_order_of_their_first_unit() -> None:
    boxes = columns([[[(0, 1, 1, i)]] for i in range(5000)], 1)
    out = np.zeros(5000, np.uint16)
    rows = np.array([(-1 - i % 50, 0, 1) for i in range(5000)])
    for threads in (1, 3):
        found = _kernel.decode_chunks(program(), None, [b"x"] * 50, rows, None, boxes, out, threads)
        assert [failure[0] for failure in found] == list(range(50))
        rows[:, 0] = -1
        found = _kernel.decode_chunks(program(), None, [b"x"], rows, None, boxes, out, threads)
        assert [failure[0] for failure in found] == [0]
        rows[:, 0] = [-1 - i for i in range(5000)]
        found = _kernel.decode_chunks(program(), None, [b"x"] * 5000, rows, None, boxes, out, threads)
        assert [failure[0] for failure in found] == list(range(5000))
        rows[:, 0] = [-1 - i % 50 for i in range(5000)]


class TestFiles:
    def opened(self, folder: Path, names: list[str]) -> tuple[_kernel.Files, NDArray[np.int64]]:
        stat, root = np.zeros((len(names), 4), np.int64), os.open(folder, os.O_RDONLY)
        try:
            return _kernel.open_files(root, names, stat), stat
        finally:
            os.close(root)

    def test_files_that_do_not_open_have_an_error_code(self, tmp_path: Path) -> None:
        (tmp_path / "root/folder").mkdir(parents=True)
        (tmp_path / "root/file").write_bytes(DATA)
        (tmp_path / "secret").write_bytes(DATA)
        (tmp_path / "root/link").symlink_to("../secret")
        (tmp_path / "root/climb").symlink_to("..")
        os.mkfifo(tmp_path / "root/fifo")
        names = [
            "file",
            "none",
            "file/x",
            "folder",
            "fifo",
            "link",
            "climb/secret",
            "../secret",
            str(tmp_path / "secret"),
        ]
        files, stat = self.opened(tmp_path / "root", names)
        kinds = [0, 2, 20, 21, 6]  # ENOENT, ENOTDIR, EISDIR, ENXIO
        assert stat[:5, 0].tolist() == kinds
        assert stat[5:, 0].all()
        rows = np.array([(i, 0, 200) for i in range(len(names))])
        boxes = columns([[[(0, 100, 1, 100 * i)]] for i in range(len(names))], 1)
        found = _kernel.decode_chunks(program(), files, [], rows, None, boxes, np.zeros(900, np.uint16), 2)
        assert [failure[:2] for failure in found] == [(i, _kernel.FAILED_IO) for i in range(1, 9)]
        assert [int(text.split()[0]) for _, _, text in found] == stat[1:, 0].tolist()

    @pytest.mark.parametrize("change", ["append", "touch", "rewrite"])
    def test_a_changed_file_is_stale(self, tmp_path: Path, change: str) -> None:
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(DATA)
        files, stat = self.opened(tmp_path, ["a", "b"])
        versions = [row[1:].astype("<i8").tobytes() for row in stat]
        rows = np.array([(0, 0, 200), (1, 0, 200), (0, 0, 199)])
        boxes = columns([[[(0, 100, 1, 100 * i)]] for i in range(3)], 1)
        out = np.zeros(300, np.uint16)
        found = _kernel.decode_chunks(program(), files, [], rows, versions, boxes, out, 2)
        assert [failure[:2] for failure in found] == [(2, _kernel.FAILED_SIZE)]
        if change == "touch":
            os.utime(tmp_path / "a", ns=(5, 5))
        else:
            with open(tmp_path / "a", "ab" if change == "append" else "wb") as file:
                file.write(b"x")
            os.utime(tmp_path / "a", ns=(5, 5))
        found = _kernel.decode_chunks(program(), files, [], rows, versions, boxes, out, 2)
        assert [failure[:2] for failure in found] == [(0, _kernel.FAILED_STALE)], "whatever else is wrong with row 2"
        found = _kernel.decode_chunks(program(), files, [], rows, [None, versions[1]], boxes, out, 2)
        assert all(failure[1] != _kernel.FAILED_STALE for failure in found)

    def test_a_stale_file_does_not_hide_others(self, tmp_path: Path) -> None:
        names = [f"{i}" for i in range(20)]
        for name in names:
            (tmp_path / name).write_bytes(DATA)
        files, stat = self.opened(tmp_path, names)
        versions = [row[1:].astype("<i8").tobytes() for row in stat]
        for name in names[:19]:
            os.utime(tmp_path / name, ns=(5, 5))
        rows = np.array([(i // 40, 0, 200) for i in range(800)])
        boxes = columns([[[(0, 1, 1, i)]] for i in range(800)], 1)
        for threads in (1, 3):
            found = _kernel.decode_chunks(
                program(), files, [], rows, versions, boxes, np.zeros(800, np.uint16), threads
            )
            assert [failure[:2] for failure in found] == [(40 * i, _kernel.FAILED_STALE) for i in range(19)]

    def test_a_late_file_is_compared_when_it_is_opened(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(DATA)
        root = os.open(tmp_path, os.O_RDONLY)
        files = _kernel.open_files(root, ["a", "none"], None)
        os.close(root)
        rows, out = np.array([(0, 0, 200)]), np.zeros(100, np.uint16)
        at = os.stat(tmp_path / "a")
        version = np.array([at.st_ino, at.st_size, at.st_mtime_ns], "<i8").tobytes()
        assert _kernel.decode_chunks(program(), files, [], rows, [version, None], BOX, out, 1) == []
        wrong = np.array([at.st_ino, at.st_size, at.st_mtime_ns + 1], "<i8").tobytes()
        found = _kernel.decode_chunks(program(), files, [], rows, [wrong, None], BOX, out, 1)
        assert [failure[:2] for failure in found] == [(0, _kernel.FAILED_STALE)]

    def test_a_root_that_is_no_descriptor(self) -> None:
        for root in (-1, 10**6):
            with pytest.raises((ValueError, OSError)):
                _kernel.open_files(root, ["a"], None)


GOOD: dict[str, Any] = {
    "program": _kernel.program((4, 5), 2, (0, 1), [], [], b"\0\0"),
    "files": None,
    "buffers": [bytes(40)],
    "rows": np.array([[-1, 0, 40]]),
    "expect": None,
    "index": np.array([[0, 1]]),
    "entries": np.array([[0, 1], [1, 1]]),
    "runs": np.array([[0, 4, 1, 0], [0, 5, 1, 0]]),
    "out": np.zeros((4, 5), np.uint16),
    "threads": 1,
}


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


BAD: list[dict[str, Any]] = [
    {"rows": np.array([[-1, 0, 40]], np.int32)},
    {"rows": np.array([[-1, 0, 40]], ">i8")},
    {"rows": np.array([[-1.0, 0, 40]])},
    {"rows": np.array([[-1, 0, 40, 0]])},
    {"rows": np.zeros((1, 3, 2), np.int64)[:, :, 0]},
    {"rows": np.array([[-1, 0, 40]] * 2)},
    {"rows": np.array([[-2, 0, 40]])},
    {"rows": np.array([[0, 0, 40]])},
    {"rows": np.array([[MAX, 0, 40]])},
    {"rows": np.array([[-MAX, 0, 40]])},
    {"buffers": [np.zeros(80, np.uint8)[::2]]},
    {"expect": [b"x" * 24]},
    {"index": np.array([[0, 2]])},
    {"index": np.array([[0, -1]])},
    {"index": np.array([[1, 0]])},
    {"index": np.array([[0]])},
    {"entries": np.array([[0, 1], [1, 2]])},
    {"entries": np.array([[0, 1], [MAX, MAX]])},
    {"entries": np.array([[0, 1], [-1, 1]])},
    *(
        {"runs": np.array([[0, 4, 1, 0], run])}
        for run in ([1, 5, 1, 0], [0, 5, 1, 1], [0, 3, 3, 0], [-1, 1, 1, 0], [0, 1, 1, -1])
    ),
    *(
        {"runs": np.array([[0, 4, 1, 0], run])}
        for run in ([0, 0, 1, 0], [0, 1, 0, 0], [MAX, MAX, 1, 0], [0, MAX, MAX, 0])
    ),
    {"out": np.zeros((4, 5), np.uint32)},
    {"out": np.zeros((4, 4), np.uint16)},
    {"out": np.zeros(20, np.uint16)},
    {"out": frozen(np.zeros((4, 5), np.uint16))},
    {"out": np.lib.stride_tricks.as_strided(np.zeros(5, np.uint16), (4, 5), (0, 2))},
]


@pytest.mark.parametrize("change", BAD, ids=lambda change: next(iter(change)))
def test_bad_columns_are_value_errors(change: dict[str, Any]) -> None:
    def decode(given: dict[str, Any]) -> object:
        program, files, buffers, rows, expect, index, entries, runs, out, threads = given.values()
        return _kernel.decode_chunks(program, files, buffers, rows, expect, (index, entries, runs), out, threads)

    assert decode(GOOD) == []
    with pytest.raises(ValueError):
        decode({**GOOD, **change})
    if "out" not in change and not ({"rows", "buffers", "expect"} & change.keys()):
        call = {**GOOD, **change}
        lengths = np.full(1, 9, np.int64)
        box = (call["index"], call["entries"], call["runs"])
        with pytest.raises(ValueError):
            _kernel.encode_chunks(call["program"], call["out"], box, None, np.array([0, 1]), True, 1, lengths)
        assert lengths[0] == 9


@pytest.mark.parametrize("groups", [[], [0], [1], [0, 2], [0, 1, 0], [0, 1, 1, 2], [-1, 1], [1, 1]])
def test_bad_groups_are_value_errors(groups: list[int]) -> None:
    box = (GOOD["index"], GOOD["entries"], GOOD["runs"])
    columns = np.array(groups, np.int64)
    with pytest.raises(ValueError):
        _kernel.encode_chunks(GOOD["program"], GOOD["out"], box, None, columns, True, 1, np.zeros(1, np.int64))


PROGRAM: tuple[Any, ...] = ((4, 5), 2, (0, 1), [], [], b"\0\0")


@pytest.mark.parametrize(
    ("at", "value"),
    [
        *((0, shape) for shape in ((0, 5), (-1, 5), (2**40, 2**40))),
        *((1, size) for size in (0, -1)),
        *((2, order) for order in ((0,), (0, 0), (0, 2), (1, 2), (-1, 0))),
        *((3, [swap]) for swap in ((0, 3, 1), (1, 2, 1), (0, 2, 2), (0, 0, 1), (-1, 2, 1), (0, 2**62, 4))),
        *(
            (4, [codec])
            for codec in (("gzip", 10), ("gzip", -1), ("zlib", 99), ("zstd", 23, True), ("zstd", -131073, False))
        ),
        *(
            (4, [codec])
            for codec in (
                ("lz5", 1),
                ("crc32c", 1),
                ("fletcher32", 1),
                ("shuffle", 0),
                ("shuffle", 2**31),
                ("gzip", 1, 1),
                ("lz4", 2**31),
                ("blosc", "lzma", 5, 1, 2, 0),
                "gzip",
            )
        ),
        *((4, [("blosc", "lz4", *rest)]) for rest in ((10, 1, 2, 0), (5, 3, 2, 0), (5, 1, 0, 0), (5, 1, 2, -1))),
        *((5, fill) for fill in (b"", b"\0", b"\0\0\0")),
    ],
)
def test_bad_programs_are_value_errors(at: int, value: object) -> None:
    with pytest.raises(ValueError):
        _kernel.program(*(*PROGRAM[:at], value, *PROGRAM[at + 1 :]))


def test_empty_calls_succeed() -> None:
    none = np.zeros((0, 3), np.int64)
    box = (np.zeros((0, 1), np.int64), np.zeros((0, 2), np.int64), np.zeros((0, 4), np.int64))
    assert _kernel.decode_chunks(program(), None, [], none, None, box, np.zeros(0, np.uint16), 4) == []
    answer = _kernel.encode_chunks(
        program(), np.zeros(0, np.uint16), box, None, np.array([0]), True, 4, none[:, 0].copy()
    )
    assert answer == ([], [0], [])
    first, points = np.array([0]), np.zeros((0, 2), np.int64)
    assert _kernel.decode_chunks(program(), None, [], none, None, (first, points), np.zeros(0, np.uint16), 4) == []
    assert _kernel.decode_bytes([], None, [], none, none[:, 0].copy(), none[:, 0].copy(), 4) == ([], [])
    assert _kernel.read_rows(None, [], none, bytearray(), np.array([0]), 4) == []
    assert _kernel.encode_bytes([], [], 4) == []


@pytest.mark.parametrize("positions", [[-1], [100], [MAX]])
def test_bad_points_are_value_errors(positions: list[int]) -> None:
    points = np.array([(position, 0) for position in positions], np.int64)
    out, rows, first = np.zeros(1, np.uint16), np.array([[-1, 0, 200]]), np.array([0, 1])
    with pytest.raises(ValueError):
        _kernel.decode_chunks(program(), None, [DATA], rows, None, (first, points), out, 1)
    with pytest.raises(ValueError):
        _kernel.decode_chunks(program(), None, [DATA], rows, None, (first, points[:, ::-1].copy()), out, 1)
    for bad in ([0], [0, 2], [1, 0], [-1, 1], [0, 1, 1]):
        with pytest.raises(ValueError):
            _kernel.decode_chunks(program(), None, [DATA], rows, None, (np.array(bad), np.array([[0, 0]])), out, 1)


def in_child(work: Callable[[], bool]) -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_does_no_harm() -> None:
    chain = (("zstd", 3, True), ("blosc", "zlib", 5, 1, 2, 0))
    value = encode(chain)
    assert in_child(lambda: decode(chain, value) == (0, DATA) and encode(chain) == value) == 0


def test_many_threads_may_call_at_once() -> None:
    values = [reference.encode_with(codec, DATA) for codec in COMPRESSORS]

    def work(i: int) -> bool:
        codec, value = COMPRESSORS[i % len(values)], values[i % len(values)]
        return decode((codec,), value) == (0, DATA) and decode((codec,), encode((codec,))) == (0, DATA)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))
