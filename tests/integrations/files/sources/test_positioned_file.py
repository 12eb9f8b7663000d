"""Reading and seeking as in a file of the operating system."""

from __future__ import annotations

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.integrations.files.sources.positioned_file import PositionedFile

CONTENT = bytes(range(100))


class Held(PositionedFile):
    size = len(CONTENT)

    def read_at(self, start: int, length: int) -> bytes:
        assert 0 < length <= self.size - start
        return CONTENT[start : start + length]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.integers(-1, 120), st.just(0)),
            st.tuples(st.just("seek"), st.integers(0, 130), st.just(os.SEEK_SET)),
            st.tuples(st.just("seek"), st.integers(0, 30), st.sampled_from([os.SEEK_CUR, os.SEEK_END])),
        )
    )
)
def test_reads_and_seeks_equal_those_of_bytes_in_memory(steps: list[tuple[str, int, int]]) -> None:
    file, expected = Held(), io.BytesIO(CONTENT)
    assert file.readable()
    assert file.seekable()
    for step, number, whence in steps:
        if step == "read":
            assert file.read(number) == expected.read(number)
        else:
            assert file.seek(number, whence) == expected.seek(number, whence)
        assert file.tell() == expected.tell()


def test_a_place_before_the_beginning_is_the_beginning() -> None:
    assert Held().seek(-200, os.SEEK_END) == 0
    with pytest.raises(KeyError):
        Held().seek(0, 9)
