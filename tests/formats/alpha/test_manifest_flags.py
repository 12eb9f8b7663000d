"""The flags of a manifest file: checks of files and the flags of others are preserved, and an invalid check is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.formats.alpha.manifest_flags import CHECKS_FLAG, read_flags, write_flags
from frazil.formats.manifests import NO_FLAGS, FileCheck
from frazil.formats.msgpack import pack, unpack

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
checks = st.builds(FileCheck, st.integers(-1, 2**63 - 1), st.integers(-(2**63) + 1, 2**63 - 1), texts, texts)
tables = st.dictionaries(texts, checks, max_size=4)
names = texts.filter(lambda name: name != CHECKS_FLAG).map(pack)
values = st.one_of(st.integers(-(2**63), 2**64 - 1), texts, st.lists(texts)).map(pack)
flags = st.dictionaries(names, values, max_size=3)


@given(flags, tables)
def test_flags_and_checks_come_back(others: dict[bytes, bytes], checks: dict[str, FileCheck]) -> None:
    assert read_flags(write_flags(others, checks)) == (others, checks)


def test_unknown_checks_take_no_bytes() -> None:
    assert write_flags(NO_FLAGS, {}) == pack({})
    table = {"a": FileCheck(3, 4), "b": FileCheck(), "c": FileCheck(tag="x")}
    assert unpack(write_flags(NO_FLAGS, table)) == {CHECKS_FLAG: {"a": [3, 4], "b": [], "c": [None, None, "x"]}}


def test_a_text_is_a_tag() -> None:
    assert read_flags(pack({CHECKS_FLAG: {"a": "etag"}})) == (NO_FLAGS, {"a": FileCheck(tag="etag")})


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xc0", b"\x81", b"\x80\x80", pack({CHECKS_FLAG: 1}), pack({CHECKS_FLAG: {"a": 1}}), pack({CHECKS_FLAG: {"a": [1] * 5}}),
        pack({CHECKS_FLAG: {"a": ["1"]}}), pack({CHECKS_FLAG: {"a": [-2]}}), pack({CHECKS_FLAG: {"a": [2**63]}}),
        pack({CHECKS_FLAG: {"a": [1, 2, 3]}}), pack({CHECKS_FLAG: {"a": [[[]]]}}), pack({"x": 1}) [:-1], b"\x81\xdd\xff\xff\xff\xff",
    ],
)  # fmt: skip
def test_invalid_checks_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        read_flags(data, "manifests/x")
