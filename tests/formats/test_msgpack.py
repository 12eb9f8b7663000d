"""MessagePack: every form is read, one is written, and invalid data raise an error with its place."""

from __future__ import annotations

import struct
import subprocess
import sys
import tracemalloc
from collections import OrderedDict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frazil._kernel import skip_values
from frazil.errors import FormatError, InvalidInputError
from frazil.formats.msgpack import DEPTH_LIMIT, Reader, pack, unpack, write_map
from tests.formats import strategies
from tests.formats.encoding import Raw, Single, Wide, decoded, encoded

KEY = "snapshots/X"
# text and binary data, lists and maps at the sizes where headers change
SIZES = [0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536]
INTEGERS = [s * (2**n + d) for n in (0, 5, 7, 8, 15, 16, 31, 32, 63) for d in (-1, 0, 1) for s in (1, -1)]


def test_every_first_byte_is_skipped_as_it_is_long() -> None:
    lengths = {
        **dict.fromkeys(range(0x80), 1),
        **dict.fromkeys((0x80, 0x90, 0xC0, 0xC2, 0xC3), 1),
        **{0xA0 + n: 1 + n for n in range(32)},
        **{0x80 + n: 1 + 2 * n for n in range(16)},
        **{0x90 + n: 1 + n for n in range(16)},
        0xCA: 5,
        0xCB: 9,
        0xCC: 2,
        0xCD: 3,
        0xCE: 5,
        0xCF: 9,
        0xD0: 2,
        0xD1: 3,
        0xD2: 5,
        0xD3: 9,
        0xD4: 3,
        0xD5: 4,
        0xD6: 6,
        0xD7: 10,
        0xD8: 18,
        0xC4: 3,
        0xC5: 4,
        0xC6: 6,
        0xD9: 3,
        0xDA: 4,
        0xDB: 6,
        0xC7: 4,
        0xC8: 5,
        0xC9: 7,
        0xDC: 4,
        0xDD: 6,
        0xDE: 5,
        0xDF: 7,
        **dict.fromkeys(range(0xE0, 0x100), 1),
    }
    assert set(lengths) == set(range(256)) - {0xC1}
    counted = {
        0xC4: 1,
        0xC5: 2,
        0xC6: 4,
        0xC7: 1,
        0xC8: 2,
        0xC9: 4,
        0xD9: 1,
        0xDA: 2,
        0xDB: 4,
        0xDC: 2,
        0xDD: 4,
        0xDE: 2,
        0xDF: 4,
    }
    for tag, length in lengths.items():
        size = counted.get(tag, 0)
        data = bytes([tag]) + (1).to_bytes(size, "big") if size else bytes([tag])
        data += b"\x01" * (length - len(data))
        assert skip_values(data + b"\x01", 0, 1) == length, hex(tag)
        assert skip_values(data[:-1], 0, 1) == -1, hex(tag)
    assert skip_values(b"\xc1", 0, 1) == -1


@given(strategies.json)
def test_values_come_back(value: object) -> None:
    data = pack(value)
    assert data == encoded(value)
    assert unpack(data) == value
    assert skip_values(data, 0, 1) == len(data)
    assert list(unpack(data)) == list(value) if isinstance(value, dict) else True


@pytest.mark.parametrize("value", [v for v in INTEGERS if -(2**63) <= v < 2**64])
def test_numbers_have_the_shortest_form_and_are_read_in_any(value: int) -> None:
    assert pack(value) == encoded(value)
    assert unpack(encoded(value)) == unpack(encoded(Wide(value))) == value


@pytest.mark.parametrize("size", SIZES)
def test_headers(size: int) -> None:
    for value in ("x" * size, [7] * size, {str(n): None for n in range(size)}):
        assert pack(value) == encoded(value)
        assert unpack(encoded(value)) == unpack(encoded(Wide(value))) == value
    assert pack(b"x" * size) == encoded(b"x" * size)
    assert Reader(encoded(b"x" * size), KEY).binary("data") == b"x" * size


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, float("inf"), float("-inf"), 1e300, 5e-324])
def test_floats_keep_their_bits(number: float) -> None:
    assert pack(number) == struct.pack(">Bd", 0xCB, number)
    assert Reader(pack(number), KEY).float_bits("x", 8) == struct.pack(">d", number)
    if abs(number) not in {1e300, 5e-324}:
        assert Reader(encoded(Single(number)), KEY).float_bits("x", 4) == struct.pack(">f", number)
        assert Reader(encoded(Single(number)), KEY).float_bits("x", 8) == struct.pack(">d", number)
        assert unpack(encoded(Single(number))) == number


@given(st.binary(min_size=4, max_size=4))
def test_every_pattern_of_32_bits_is_kept(bits: bytes) -> None:
    assert Reader(b"\xca" + bits, KEY).float_bits("x", 4) == bits


def test_other_numbers_are_rounded_to_the_requested_float() -> None:
    assert Reader(encoded(7), KEY).float_bits("x", 4) == struct.pack(">f", 7)
    assert Reader(encoded(0.1), KEY).float_bits("x", 4) == struct.pack(">f", 0.1)
    with pytest.raises(FormatError, match="fit 32 bits"):
        Reader(encoded(1e300), KEY).float_bits("x", 4)
    with pytest.raises(FormatError, match="a number, found a string"):
        Reader(encoded("7"), KEY).float_bits("x", 4)


@pytest.mark.parametrize("value", [-(2**63) - 1, 2**64, 10**30])
def test_numbers_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(InvalidInputError, match="2\\^64"):
        pack(value)


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1}}, "\ud800", {"\ud800": 1}, [object()], 1j])
def test_invalid_values_are_not_written(value: object) -> None:
    with pytest.raises(InvalidInputError, match="must be"):
        pack(value)


def test_more_than_32_bits_of_items_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="items or bytes"):
        write_map(bytearray(), 2**32)
    out = bytearray()
    write_map(out, 2**32 - 1)
    assert bytes(out[1:]) == b"\xff" * 4
    for length in SIZES:
        write_map(head := bytearray(), length)
        assert encoded(dict.fromkeys(map(str, range(length)))).startswith(head)


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    assert unpack(b"\x82\xa1a\x01\xa1a\x02") == {"a": 2}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xc4\x01x", "found binary data"),
        (b"\xd4\x01x", "found an extension"),
        (b"\xc1", "begins no value"),
        (b"\x81\x01\x01", "must be a string, found a number"),
        (b"\x81\xc0\x01", "must be a string, found nil"),
        (b"\xa1\xff", "must be UTF-8"),
        (b"\xa3\xed\xa0\x80", "must be UTF-8"),
        (b"\x01\x01", "1 bytes behind its end"),
        (b"", "ends within"),
    ],
)
def test_values_other_than_json_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        unpack(data, KEY)
    assert caught.value.key == KEY
    assert ", at byte " in caught.value.message


@given(strategies.json, st.data())
@example(value=[[["x"]]], data=None)
def test_values_that_are_cut_short_are_refused(value: object, data) -> None:
    whole = encoded(value)
    cut = len(whole) - 1 if data is None else data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(FormatError):
        unpack(whole[:cut], KEY)
    assert skip_values(whole[:cut], 0, 1) == -1


@given(st.binary(max_size=80))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    value, key = None, None
    try:
        value = unpack(data, KEY)
    except FormatError as error:
        key = error.key
    assert key in {None, KEY}
    end = skip_values(data, 0, 1)
    assert -1 <= end <= len(data)
    if key is None:
        assert end == len(data)
        assert unpack(pack(value)) == value or "nan" in repr(value)


@pytest.mark.parametrize(
    "bomb",
    [
        *(
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff",
            b"\xdb\xff\xff\xff\xff",
            b"\xc6\xff\xff\xff\xff",
            b"\xc9\xff\xff\xff\xff",
        ),
        *(
            b"\xdd\x7f\xff\xff\xff" * 50,
            b"\x91" * 100_000,
            b"\x81\xa0" * 100_000,
            b"\xdd\x00\x01\x00\x00" + b"\xc0" * 60000,
        ),
        *(b"\xdc\xff\xff" * 1000, b"\xdf\x80\x00\x00\x00" + b"\xa0\xc0" * 100),
    ],
)
def test_lying_lengths_cost_no_memory(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            unpack(bomb, KEY)
        assert skip_values(bomb, 0, 1) == -1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200_000 + 20 * len(bomb)


def test_nesting_has_a_limit() -> None:
    deep = b"\x91" * (DEPTH_LIMIT - 1) + b"\x90"
    value = unpack(deep)
    assert pack(value) == deep
    with pytest.raises(FormatError, match="deeper"):
        unpack(b"\x91" + deep)
    with pytest.raises(InvalidInputError, match="deeper"):
        pack([value])


def test_a_thread_of_little_stack_may_pack_deep_values() -> None:
    code = """
import threading
from frazil.formats.msgpack import DEPTH_LIMIT, pack
deep = []
for level in range(DEPTH_LIMIT - 1):
    deep = [deep] if level % 2 else {"x": deep}
threading.stack_size(2**16)
thread = threading.Thread(target=lambda: print(len(pack(deep))))
thread.start()
thread.join()
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(run.stdout) > DEPTH_LIMIT


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
@pytest.mark.parametrize("value", ["'x' * 2**28", "['x'] * 2**25", "dict.fromkeys(range(2**22))", "b'x' * 2**28"])
def test_without_memory_nothing_is_packed(value: str) -> None:
    code = f"""
import resource
from frazil.formats.msgpack import pack
value = {value}
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (used + 2**23,) * 2)
try:
    pack(value)
except MemoryError:
    print("no memory")
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "no memory\n"


class _Ordered(OrderedDict[str, int]):
    """Whose order is not that of its dict."""


def test_mappings_are_written_in_their_order() -> None:
    value = _Ordered(a=1, b=2)
    value.move_to_end("a")
    assert unpack(pack(value)) == {"b": 2, "a": 1}
    assert pack(value) == pack({"b": 2, "a": 1})


# --- structs and enums -------------------------------------------------------------------------------------------------------------


def read_struct(data: bytes) -> tuple[object, ...]:
    reader = Reader(data, KEY)
    fields = dict.fromkeys(("a", "b", "c"), Reader.value)
    found = reader.struct("a thing", lambda *fields: fields, fields, ("c",))
    reader.finish("the thing")
    return found


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ([1, [2], None], (1, [2], None)),
        (Wide([1, [2], "x"]), (1, [2], "x")),
        ({"a": 1, "b": [2], "c": 3}, (1, [2], 3)),
        ({"c": {"x": 1}, "b": [2], "z": [[9]], "a": 1}, (1, [2], {"x": 1})),
        (Wide({"b": 2, "a": 1}), (1, 2, None)),
    ],
)
def test_structs_are_arrays_or_maps_in_any_order(value: object, fields: tuple[object, ...]) -> None:
    assert read_struct(encoded(value)) == fields


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (encoded([1, 2]), "must have 3 fields, found 2"),
        (encoded([1, 2, 3, 4]), "must have 3 fields, found 4"),
        (encoded({"a": 1}), "must have 'b', which is absent"),
        (b"\x83\xa1a\x01\xa1b\x01\xa1a\x02", "has 'a' twice"),
        (encoded("abc"), "an array or a map, found a string"),
        (encoded({"a": 1, "b": Raw(b"\xc1")}), "not MessagePack"),
        (b"", "ends within"),
    ],
)
def test_structs_of_another_form_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_struct(data)


def test_enums_are_strings_or_maps_of_one_entry() -> None:
    assert Reader(encoded("Group"), KEY).variant("x") == ("Group", False)
    assert Reader(encoded({"Array": 1}), KEY).variant("x") == ("Array", True)
    for wrong in ({}, {"a": 1, "b": 2}, {1: 2}, 5, None):
        with pytest.raises(FormatError):
            Reader(encoded(wrong), KEY).variant("x")


def test_the_second_messagepack_agrees_with_itself() -> None:
    for value in (None, True, -5, 2**63, "x" * 40, [1, [2]], {"a": b"x"}, Single(0.5)):
        assert decoded(encoded(value)) == value
